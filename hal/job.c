// SPDX-License-Identifier: Apache-2.0
// A job from the outside: poll, wait, cancel, fd, release; and its end.
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "hal/hal.h"

static struct hr__job *job_of(hr_job job)
{
    return (struct hr__job *)job;
}

// ---- The end -------------------------------------------------------------------------

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
    hr__pool_put(&dev->pool, job);
    hr__device_unref(dev);
}

static enum hr_status status_of(const struct hr__job *job)
{
    enum hr_status first = HR_OK;

    for (int i = 0; i < job->pub.num_samples; i++) {
        enum hr_status s = job->results[i].status;

        if (s == HR_ECANCELED && atomic_load(&job->canceled))
            return HR_ECANCELED;
        // An engine may have looked at the clock before the watchdog.
        if (s == HR_ETIMEDOUT &&
            (atomic_load(&job->expired) || hr__now() >= job->deadline))
            return HR_ETIMEDOUT;
        if (!first)
            first = s;
    }
    return job->params.on_error == HR_ON_ERROR_FAIL ? first : HR_OK;
}

static void count_job(const struct hr__job *job)
{
    struct hr__device *dev = job->dev;

    pthread_mutex_lock(&dev->lock);
    dev->stats.jobs += !job->moves;
    pthread_mutex_unlock(&dev->lock);
}

static void delist(struct hr__job *job)
{
    struct hr__device *dev = job->dev;

    pthread_mutex_lock(&dev->lock);
    *(job->prev ? &job->prev->next : &dev->jobs) = job->next;
    if (job->next)
        job->next->prev = job->prev;
    dev->num_jobs--;
    dev->num_samples -= job->pub.num_samples;
    hr__watch_jobs(dev);
    pthread_cond_broadcast(&dev->room);
    pthread_mutex_unlock(&dev->lock);
}

static void ring(int fd)
{
    uint64_t one = 1;

    while (fd >= 0 && write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

struct hr__work *hr__job_ended(struct hr__job *job)
{
    struct hr__work *ready;
    int64_t begin = hr__watch_begin();

    pthread_mutex_lock(&job->lock);
    job->status = status_of(job);
    pthread_mutex_unlock(&job->lock);
    count_job(job);
    // Bytes first: a callback that submits again shall find room.
    hr__batch_unref(job->batch);
    ready = hr__budget_return(job->dev, job->bytes);
    if (job->params.on_done)
        hr__callbacks_call(job);
    else
        hr__job_done(job, begin);
    return ready;
}

void hr__job_done(struct hr__job *job, int64_t begin)
{
    hr__watch_done(job, begin);
    // After delist nobody finds the job by its device any more; hr_wait_all()
    // returns, so everything the user may want to free comes before it.
    pthread_mutex_lock(&job->lock);
    job->done = true;
    pthread_cond_broadcast(&job->done_cond);
    ring(job->fd);
    // Under the lock: who has seen the end may close his fd.
    if (job->params.event_fd > 0)
        ring(job->params.event_fd);
    pthread_mutex_unlock(&job->lock);
    delist(job);
    hr__job_unref(job);
}

// ---- Waiting -----------------------------------------------------------------------------

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

enum hr_status hr_wait_all(hr_device handle, int64_t timeout_ns)
{
    int64_t deadline = hr__deadline(timeout_ns);
    struct hr__device *dev = hr__device_get(handle);
    enum hr_status status = HR_OK;

    if (!dev)
        return hr_last_status();
    pthread_mutex_lock(&dev->lock);
    while (dev->num_jobs && !status)
        if (!hr__cond_wait(&dev->room, &dev->lock, deadline) && dev->num_jobs)
            status = HR_ETIMEDOUT;
    pthread_mutex_unlock(&dev->lock);
    hr__device_unref(dev);
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

// The library may hold the job a little longer, and its fd must not tell of
// that: who watches it has forgotten the job.
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

// ---- Stopping ----------------------------------------------------------------------------

void hr_job_cancel(hr_job handle)
{
    struct hr__job *job = job_of(handle);

    if (usable(handle) || atomic_exchange(&job->canceled, true))
        return;
    // The works end on the watchdog's thread: on_done never runs inside a call
    // of the user's. Without that thread they end when their turn comes.
    if (hr__watchdog_start(job->dev))
        hr__watchdog_wake(job->dev);
}
