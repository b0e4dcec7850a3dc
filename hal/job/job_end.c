// SPDX-License-Identifier: Apache-2.0
// The end of a job: its status, its callback, and the threads that wait for it.
//
// A device has a thread that runs callbacks, one after the other, in the order
// in which the jobs ended. Nothing of the library waits for it: a slow callback
// delays callbacks only. It is started by the first job that wants one.
#include <errno.h>
#include <unistd.h>

#include "hal/job/report.h"
#include "hal/job/work.h"

// ---- Done -------------------------------------------------------------------

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
    pthread_cond_broadcast(&dev->not_full);
    pthread_mutex_unlock(&dev->lock);
}

static void ring(int fd)
{
    uint64_t one = 1;

    while (fd >= 0 && write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

static void done(struct hr__job *job, int64_t begin)
{
    hr__watch_done(job, begin);
    // After delist the job is not found by its device any more, and
    // hr_wait_all() returns. So everything that the user may want to free comes
    // before it.
    pthread_mutex_lock(&job->lock);
    job->done = true;
    pthread_cond_broadcast(&job->done_cond);
    ring(job->fd);
    // Under the lock, since a caller that has seen the end may close its fd.
    if (job->params.event_fd > 0)
        ring(job->params.event_fd);
    pthread_mutex_unlock(&job->lock);
    delist(job);
    hr__job_unref(job);
}

// ---- Callbacks --------------------------------------------------------------

// The job whose callback this thread runs.
static _Thread_local struct hr__job *called;

bool hr__callback_of(const struct hr__job *job)
{
    return called == job;
}

static void call(struct hr__job *job)
{
    int64_t begin = hr__watch_begin();

    called = job;
    job->params.on_done(job->params.ctx, &job->pub);
    called = NULL;
    hr__watch_callback(job, begin);
    done(job, hr__watch_begin());
}

static void *run(void *arg)
{
    struct hr__device *dev = arg;
    struct hr__job *job;

    hr__watch_thread(NULL, "callbacks");
    pthread_mutex_lock(&dev->lock);
    while (dev->calls || !dev->callbacks.stop) {
        if (!(job = dev->calls)) {
            pthread_cond_wait(&dev->callbacks.wake, &dev->lock);
            continue;
        }
        dev->calls = job->next_call;
        pthread_mutex_unlock(&dev->lock);
        call(job);
        pthread_mutex_lock(&dev->lock);
    }
    pthread_mutex_unlock(&dev->lock);
    return NULL;
}

bool hr__callbacks_start(struct hr__device *dev)
{
    return hr__device_thread_start(dev, &dev->callbacks, run);
}

static void call_later(struct hr__job *job)
{
    struct hr__device *dev = job->dev;

    pthread_mutex_lock(&dev->lock);
    job->next_call = NULL;
    if (!dev->calls)
        dev->calls_tail = &dev->calls;
    *dev->calls_tail = job;
    dev->calls_tail = &job->next_call;
    pthread_cond_signal(&dev->callbacks.wake);
    pthread_mutex_unlock(&dev->lock);
}

// ---- Ended ------------------------------------------------------------------

static enum hr_status status_of(const struct hr__job *job)
{
    enum hr_status first = HR_OK;

    for (int i = 0; i < job->pub.num_samples; i++) {
        enum hr_status s = job->results[i].status;

        if (s == HR_ECANCELED && atomic_load(&job->stop) == HR_ECANCELED)
            return HR_ECANCELED;
        // An engine may have looked at the clock before the watchdog.
        if (s == HR_ETIMEDOUT && (atomic_load(&job->stop) == HR_ETIMEDOUT ||
                                  hr__now() >= job->deadline))
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
    dev->stats.jobs += !job->no_picture;
    pthread_mutex_unlock(&dev->lock);
}

struct hr__waiter *hr__job_ended(struct hr__job *job)
{
    struct hr__waiter *ready;
    int64_t begin = hr__watch_begin();

    pthread_mutex_lock(&job->lock);
    job->status = status_of(job);
    pthread_mutex_unlock(&job->lock);
    count_job(job);
    // Bytes first: a callback that submits again shall find room.
    hr__batch_unref(job->batch);
    ready = hr__budget_return(job->dev, job->bytes);
    if (job->params.on_done)
        call_later(job);
    else
        done(job, begin);
    return ready;
}
