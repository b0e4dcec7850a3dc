// SPDX-License-Identifier: Apache-2.0
// The thread of a device that runs what users want to be called with when a job
// is done, one after the other, in the order in which the jobs ended. Nothing
// of the library waits for it: a slow callback delays callbacks only. Started
// by the first job that wants one.
#include "hal/hal.h"

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
    hr__job_done(job, hr__watch_begin());
}

static void *run(void *arg)
{
    struct hr__device *dev = arg;
    struct hr__job *job;

    hr__watch_thread(NULL, "callbacks");
    pthread_mutex_lock(&dev->lock);
    while (dev->calls || !dev->calls_stop) {
        if (!(job = dev->calls)) {
            pthread_cond_wait(&dev->calls_cond, &dev->lock);
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
    bool runs;

    pthread_mutex_lock(&dev->lock);
    if (!dev->calls_run)
        dev->calls_run = hr__thread_start(&dev->calls_thread, run, dev);
    runs = dev->calls_run;
    pthread_mutex_unlock(&dev->lock);
    return runs;
}

void hr__callbacks_call(struct hr__job *job)
{
    struct hr__device *dev = job->dev;

    pthread_mutex_lock(&dev->lock);
    job->next_call = NULL;
    if (!dev->calls)
        dev->calls_tail = &dev->calls;
    *dev->calls_tail = job;
    dev->calls_tail = &job->next_call;
    pthread_cond_signal(&dev->calls_cond);
    pthread_mutex_unlock(&dev->lock);
}

void hr__callbacks_finish(struct hr__device *dev)
{
    if (!dev->calls_run)
        return;
    pthread_mutex_lock(&dev->lock);
    dev->calls_stop = true;
    pthread_cond_signal(&dev->calls_cond);
    pthread_mutex_unlock(&dev->lock);
    pthread_join(dev->calls_thread, NULL);
}
