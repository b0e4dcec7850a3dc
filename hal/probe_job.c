// SPDX-License-Identifier: Apache-2.0
// Jobs that only read headers. Their works go to the host engine as all new
// works do, and end where others are prepared.
#include <stdio.h>
#include <string.h>

#include "hal/hal.h"
#include "hal/header.h"

// The bytes of the copied names; false with hr_last_error().
static bool measure(const struct hr_sample *s, int n, size_t *text)
{
    *text = 0;
    for (int i = 0; i < n; i++) {
        if (!!s[i].data + !!s[i].path != 1)
            return hr__fail(HR_EINVAL,
                            "sample %d: a probe needs data or a path", i),
                   false;
        *text += s[i].path ? strlen(s[i].path) + 1 : 0;
        *text += s[i].name ? strlen(s[i].name) + 1 : 0;
    }
    return true;
}

static const char *copy_text(char **to, const char *text)
{
    char *copy = *to;

    if (!text)
        return NULL;
    *to += strlen(text) + 1;
    return strcpy(copy, text);
}

static struct hr__job *submit(struct hr__device *dev, const struct hr_sample *s,
                              int n, struct hr_info *infos,
                              const struct hr_job_params *params)
{
    int64_t begin = hr__watch_begin();
    size_t head = hr__job_size(n), text;
    struct hr__job *job;
    char *at;

    if (!measure(s, n, &text) ||
        !(job = hr__job_admit(dev, n, head + text, head + text, params)))
        return NULL;
    job->moves = true;
    job->infos = infos;
    at = (char *)job + head;
    for (int i = 0; i < n; i++)
        job->works[i].sample = (struct hr_sample){
            .data = s[i].data,
            .size = s[i].size,
            .path = copy_text(&at, s[i].path),
            .name = copy_text(&at, s[i].name),
        };
    hr__job_begin(job, begin);
    return job;
}

hr_job hr_probe_submit(hr_device handle, const struct hr_sample *samples, int n,
                       struct hr_info *infos,
                       const struct hr_job_params *params)
{
    static const struct hr_job_params none;
    struct hr__device *dev;
    struct hr__job *job;

    params = params ? params : &none;
    if (!samples || !infos || n < 1 || n > 1 << 20) {
        hr__fail(HR_EINVAL, "probe: %d samples%s", n,
                 infos ? "" : ", no place for what they are");
        return NULL;
    }
    if ((unsigned)params->on_error > HR_ON_ERROR_SKIP) {
        hr__fail(HR_EINVAL, "probe: unknown on_error");
        return NULL;
    }
    // This reference becomes the job's.
    if (!(dev = hr__device_get(handle)))
        return NULL;
    if (!(job = submit(dev, samples, n, infos, params)))
        hr__device_unref(dev);
    return job ? &job->pub : NULL;
}

void hr__probe(struct hr__work *work)
{
    const struct hr_sample *s = &work->sample;
    const struct hr_limits *limits = &work->job->dev->pub.params.limits;
    struct hr_info *info = &work->job->infos[work->index];
    struct hr_result *result = &work->job->results[work->index];
    struct hr__header_error err = {.offset = -1};
    struct hr__outcome *out = &work->out;
    int64_t begin = hr__watch_begin();

    *info = (struct hr_info){.orientation = 1};
    out->status = s->path ? hr__probe_file(s->path, limits, info, &err)
                          : hr__header_parse(s->data, s->size, true, limits,
                                             info, &err);
    out->offset = err.offset;
    if (out->status)
        snprintf(out->text, sizeof(out->text), "%s", err.text);
    result->width = info->width;
    result->height = info->height;
    result->orientation = info->width ? info->orientation : 0;
    hr__watch_work(work, HR_PART_READ, begin);
}
