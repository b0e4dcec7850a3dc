// SPDX-License-Identifier: Apache-2.0
// Jobs that only read headers. Their works go to the host engine as all new
// works do, and end where others are prepared.
#include <string.h>

#include "hal/entry/entry.h"

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
    job->no_picture = true;
    job->infos = infos;
    at = (char *)job + head;
    for (int i = 0; i < n; i++)
        job->works[i].sample = (struct hr_sample){
            .data = s[i].data,
            .size = s[i].size,
            .path = hr__copy_text(&at, s[i].path),
            .name = hr__copy_text(&at, s[i].name),
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
    if (!(dev = hr__device_get(handle)))
        return NULL;
    job = submit(dev, samples, n, infos, params);
    hr__device_unref(dev);
    return job ? &job->pub : NULL;
}
