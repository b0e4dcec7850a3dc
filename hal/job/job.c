// SPDX-License-Identifier: Apache-2.0
// A job from the outside: poll, wait, cancel, fd, release.
#include <sys/eventfd.h>
#include <unistd.h>

#include "hal/job/work.h"

static struct hr__job *job_of(hr_job job)
{
    return (struct hr__job *)job;
}

// ---- Waiting ----------------------------------------------------------------

static enum hr_status poll_until(struct hr__job *job, int64_t deadline)
{
    enum hr_status status = HR_PENDING;
    bool own = hr__callback_of(job);
    int64_t begin;

    pthread_mutex_lock(&job->lock);
    begin = job->done ? 0 : hr__watch_begin();
    while (!job->done && !own)
        if (!hr__cond_wait(&job->done_cond, &job->lock, deadline))
            break;
    if (job->done || own)
        status = job->status;
    pthread_mutex_unlock(&job->lock);
    hr__watch_wait(job->dev, HR__WAIT_RESULT, job->id, begin);
    return status;
}

static enum hr_status usable(hr_job job)
{
    if (!job)
        return hr__fail(HR_EINVAL, "no job");
    if (hr__device_forked(job_of(job)->dev))
        return hr__fail(HR_EFORK, "job submitted before fork");
    return HR_OK;
}

enum hr_status hr_job_poll(hr_job job, int64_t timeout_ns)
{
    enum hr_status status = usable(job);

    return status ? status : poll_until(job_of(job), hr__deadline(timeout_ns));
}

enum hr_status hr_job_wait(hr_job job, int64_t timeout_ns)
{
    int64_t deadline = hr__deadline(timeout_ns);
    enum hr_status status = usable(job);

    if (status)
        return status;
    status = poll_until(job_of(job), deadline);
    if (status == HR_PENDING)
        return hr__fail(HR_ETIMEDOUT, "the job is still at work");
    return status;
}

enum hr_status hr__wait_all(struct hr__device *dev, int64_t deadline)
{
    enum hr_status status = HR_OK;

    pthread_mutex_lock(&dev->lock);
    while (dev->num_jobs && !status)
        if (!hr__cond_wait(&dev->not_full, &dev->lock, deadline) &&
            dev->num_jobs)
            status = HR_ETIMEDOUT;
    pthread_mutex_unlock(&dev->lock);
    return status ? hr__fail(status, "jobs are still at work") : HR_OK;
}

int hr_job_fd(hr_job handle)
{
    struct hr__job *job = job_of(handle);
    int fd;

    if (usable(handle))
        return -1;
    pthread_mutex_lock(&job->lock);
    if (job->fd < 0)
        job->fd = hr__test_should_fail()
                      ? -1
                      : eventfd(job->done, EFD_CLOEXEC | EFD_NONBLOCK);
    fd = job->fd;
    pthread_mutex_unlock(&job->lock);
    if (fd < 0)
        hr__fail(HR_ENOMEM, "no eventfd");
    return fd;
}

// Closes the job's fd. The library may hold the job a little longer, but the
// user has released it and may not be told of its end.
static void close_fd(struct hr__job *job)
{
    // (Only calls of the user's make one, and none of them is under way now.)
    if (job->fd < 0)
        return;
    pthread_mutex_lock(&job->lock);
    close(job->fd);
    job->fd = -1;
    pthread_mutex_unlock(&job->lock);
}

void hr_job_release(hr_job *handle)
{
    if (!handle || !*handle)
        return;
    // The child of a fork has no business with the parent's memory.
    if (!hr__device_forked(job_of(*handle)->dev)) {
        close_fd(job_of(*handle));
        hr__job_unref(job_of(*handle));
    }
    *handle = NULL;
}

// ---- Stopping ---------------------------------------------------------------

void hr_job_cancel(hr_job handle)
{
    struct hr__job *job = job_of(handle);

    if (usable(handle) ||
        atomic_exchange(&job->stop, HR_ECANCELED) == HR_ECANCELED)
        return;
    // The works end on the watchdog's thread: on_done never runs inside a call
    // of the user's. Without that thread they end when their turn comes.
    if (!hr__watchdog_start(job->dev))
        return;
    pthread_mutex_lock(&job->dev->lock);
    pthread_cond_signal(&job->dev->watchdog.wake);
    pthread_mutex_unlock(&job->dev->lock);
}
