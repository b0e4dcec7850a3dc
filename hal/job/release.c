// SPDX-License-Identifier: Apache-2.0
// The end of a job's records, and what its works hold.
#include <unistd.h>

#include "hal/job/work.h"

void hr__work_free(struct hr__work *work)
{
    hr__payloads_free(work, &work->ahead, 1);
    hr__payloads_free(work, work->payloads, HR_NUM_STAGES);
    hr__payloads_free(work, work->kept[0], 2 * HR__MAX_ENGINES);
    hr__pool_put(&work->job->dev->pool, work->file);
    hr__pool_put(&work->job->dev->pool, work->source);
    hr__pool_put(&work->job->dev->pool, work->result);
    work->file = work->source = work->result = NULL;
    hr__cache_drop(work->entry);
    work->entry = NULL;
    hr__cache_unref(work->cache);
    work->cache = NULL;
}

void hr__job_unref(struct hr__job *job)
{
    struct hr__device *dev = job->dev;

    if (atomic_fetch_sub(&job->refs, 1) != 1)
        return;
    for (int i = 0; i < job->pub.num_samples; i++)
        if (job->works[i].given_up)
            hr__work_free(&job->works[i]);
    pthread_cond_destroy(&job->done_cond);
    pthread_mutex_destroy(&job->lock);
    hr__cache_unref(job->cache);
    hr__pool_put(&dev->pool, job);
    hr__device_unref(dev);
}
