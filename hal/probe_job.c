// SPDX-License-Identifier: Apache-2.0
// Jobs that only read headers. Their works go to the host engine as all new
// works do, and end where others are prepared.
#include <stdio.h>
#include <string.h>

#include "hal/hal.h"
#include "hal/header.h"

static size_t round64(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

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
    int64_t begin = hr__watch_begin(), deadline = hr__job_deadline(params);
    enum hr_status status;
    size_t head = round64(sizeof(struct hr__job)) +
                  round64(sizeof(struct hr__work) * (size_t)n) +
                  round64(sizeof(struct hr_result) * (size_t)n);
    struct hr__job *job;
    size_t text;
    char *at;

    if (!measure(s, n, &text) || !hr__job_watched(dev, params))
        return NULL;
    status = hr__budget_admit(dev, head + text, params->wait_for_room,
                              deadline);
    if (status)
        return hr__fail(status, "over the budget of %zu bytes",
                        dev->pub.params.budget),
               NULL;
    if (!(job = hr__job_make(dev, n, head + text, head + text, params))) {
        hr__budget_return(dev, head + text);
        return NULL;
    }
    job->deadline = deadline;
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

void hr__probe_begin(struct hr__work *work)
{
    const struct hr_sample *s = &work->sample;
    const struct hr_limits *limits = &work->job->dev->pub.params.limits;
    struct hr_info *info = &work->job->infos[work->index];
    struct hr_result *result = &work->job->results[work->index];
    struct hr__header_error err = {.offset = -1};
    struct hr__outcome out = {.stage = HR_ENTROPY};
    int64_t begin = hr__watch_begin();

    *info = (struct hr_info){.orientation = 1};
    out.status = s->path ? hr__probe_file(s->path, limits, info, &err)
                         : hr__header_parse(s->data, s->size, true, limits,
                                            info, &err);
    out.offset = err.offset;
    if (out.status)
        snprintf(out.text, sizeof(out.text), "%s", err.text);
    result->width = info->width;
    result->height = info->height;
    result->orientation = info->width ? info->orientation : 0;
    hr__watch_work(work, HR_PART_READ, begin);
    hr__work_end(work, &out);
}
