// SPDX-License-Identifier: Apache-2.0
// Jobs that only move bytes: hr_transfer() and moved images. Their works take
// turns as samples do, and need no engine but the one that owns the memory.
#include "hal/job/work.h"

static const struct hr_job_params none;

// Makes a job of n works that are still to be filled in. The budget counts only
// its own records, since the memory is the user's.
static struct hr__job *make(struct hr__device *dev, int n,
                            const struct hr_job_params *params)
{
    struct hr__job *job;
    size_t size = hr__job_size(n);

    if (!(job = hr__job_admit(dev, n, size, size, params ? params : &none)))
        return NULL;
    job->params.on_error = HR_ON_ERROR_FAIL;
    job->no_picture = true;
    for (int i = 0; i < n; i++) {
        job->works[i].prepared = true;
        job->works[i].out.stage = HR_STORE;
        job->results[i].stage = HR_STORE;
    }
    return job;
}

// ---- Images -----------------------------------------------------------------

static struct hr__image *usable(hr_image handle, const void *host, size_t size)
{
    struct hr__image *image = (struct hr__image *)handle;

    if (!host)
        return hr__fail(HR_EINVAL, "no memory"), NULL;
    if (hr__device_forked(image->dev))
        return hr__fail(HR_EFORK, "image made before fork"), NULL;
    if (size < handle->size)
        return hr__fail(HR_EINVAL, "%zu bytes, the image has %zu", size,
                        handle->size),
               NULL;
    return image;
}

static hr_job begin(struct hr__job *job, bool here)
{
    job->here = here;
    hr__job_begin(job, hr__watch_begin());
    return &job->pub;
}

// here: of struct hr__job; so in all of these.
static hr_job copy_image(const struct hr_transfer_params *what,
                         const struct hr_job_params *params, bool here)
{
    hr_image handle = what->image;
    const void *from = what->to ? NULL : what->from;
    struct hr__image *image = usable(handle, what->to ? what->to : from,
                                     what->size);
    struct hr__job *job;
    struct hr__work *w;

    if (!image || !(job = make(image->dev, 1, params)))
        return NULL;
    w = &job->works[0];
    if (what->to) {
        w->sample.image = hr__image_retain(handle);
        w->reads.track = &image->track;
    } else {
        w->sample.out = hr__image_retain(handle);
        w->writes.track = &image->track;
    }
    w->copy = (struct hr__copy){.size = handle->size,
                                .to = what->to ? what->to : handle->params.data,
                                .from = from ? from : handle->params.data};
    if (!handle->params.data)
        w->copy.memory = image->device;
    return begin(job, here);
}

// Moves pixels. One of the two images is on the host; the other is of to's
// device.
bool hr__move(struct hr__image *to, struct hr__image *from)
{
    struct hr__job *job = make(to->dev, 1,
                               hr_job_params(.wait_for_room = true));
    const struct hr_image_params *p = &to->pub.params, *q = &from->pub.params;
    struct hr__work *w;
    hr_job handle;

    if (!job)
        return false;
    w = &job->works[0];
    w->sample.image = hr__image_retain(&from->pub);
    w->sample.out = hr__image_retain(&to->pub);
    w->reads.track = &from->track;
    w->writes.track = &to->track;
    w->copy = (struct hr__copy){.size = from->pub.size,
                                .to = p->data,
                                .from = q->data,
                                .memory = !p->data   ? to->device
                                          : !q->data ? from->device
                                                     : NULL};
    handle = begin(job, false);
    hr_job_release(&handle);
    return true;
}

// ---- Batches ----------------------------------------------------------------

static struct hr__batch *usable_batch(const struct hr_transfer_params *what,
                                      size_t *one)
{
    struct hr__batch *batch = (struct hr__batch *)what->batch;
    const struct hr_batch_params *p;
    int first = what->first, n = what->n;

    if (!batch || !what->to)
        return hr__fail(HR_EINVAL, "no image or batch, or no memory"), NULL;
    p = &what->batch->params;
    if (hr__device_forked(batch->dev))
        return hr__fail(HR_EFORK, "batch made before fork"), NULL;
    if (first < 0 || n < 1 || first > p->n - n)
        return hr__fail(HR_EINVAL, "slots %d .. %d of %d", first, first + n,
                        p->n),
               NULL;
    *one = what->batch->size - p->stride_n * (size_t)(p->n - 1);
    if (what->size < p->stride_n * (size_t)(n - 1) + *one)
        return hr__fail(HR_EINVAL, "%zu bytes, the slots have %zu", what->size,
                        p->stride_n * (size_t)(n - 1) + *one),
               NULL;
    return batch;
}

static hr_job read_batch(const struct hr_transfer_params *what,
                         const struct hr_job_params *params, bool here)
{
    size_t one = 0, next;
    struct hr__batch *batch = usable_batch(what, &one);
    const struct hr_batch_params *p;
    struct hr__job *job;

    if (!batch || !(job = make(batch->dev, what->n, params)))
        return NULL;
    p = &what->batch->params;
    next = p->stride_n;
    job->batch = batch;
    atomic_fetch_add(&batch->refs, 1);
    for (int i = 0; i < what->n; i++) {
        struct hr__work *w = &job->works[i];
        size_t at = next * (size_t)(what->first + i);

        w->reads.track = &batch->slots[what->first + i];
        w->copy = (struct hr__copy){.at = at,
                                    .size = one,
                                    .to = (uint8_t *)what->to +
                                          next * (size_t)i};
        if (p->data)
            w->copy.from = (const uint8_t *)p->data + at;
        else
            w->copy.memory = batch->device;
    }
    return begin(job, here);
}

// ---- And wait ---------------------------------------------------------------

// The job ends by its own timeout, also if the device does not answer: only
// then the host memory is the caller's again.
static enum hr_status wait_for(hr_job job)
{
    enum hr_status status;

    if (!job)
        return hr_last_status();
    status = hr_job_wait(job, HR_FOREVER);
    if (status)
        for (int i = 0; i < job->num_samples; i++)
            if (job->results[i].status) {
                hr__fail(status, "%s", job->results[i].message);
                break;
            }
    hr_job_release(&job);
    return status;
}

static struct hr_job_params timed(int64_t timeout_ns)
{
    // 0 means none to a job; to a caller that it must not take any time.
    return (struct hr_job_params){.timeout_ns = timeout_ns < 0    ? 0
                                                : timeout_ns == 0 ? 1
                                                                  : timeout_ns,
                                  .wait_for_room = true};
}

static hr_job transfer(const struct hr_transfer_params *what,
                       const struct hr_job_params *params, bool here)
{
    if (!what)
        return hr__fail(HR_EINVAL, "transfer: no params"), NULL;
    return what->image ? copy_image(what, params, here)
                       : read_batch(what, params, here);
}

hr_job hr_transfer_begin(const struct hr_transfer_params *what,
                         const struct hr_job_params *params)
{
    return transfer(what, params, false);
}

enum hr_status hr_transfer(const struct hr_transfer_params *what,
                           int64_t timeout_ns)
{
    struct hr_job_params params = timed(timeout_ns);

    return wait_for(transfer(what, &params, true));
}
