// SPDX-License-Identifier: Apache-2.0
// Looks at the clock for a device: jobs past their timeout, spans that an
// engine does not answer; and ends what was cancelled. Started by the first
// job that needs it.
#include "hal/job/work.h"

enum { TICK_NS = 20000000, MAX_DUE = 64 };

// Jobs and tasks that are due, each with a reference to its job.
struct due {
    struct hr__job *stopped[MAX_DUE];
    struct hr__engine_task *hung[MAX_DUE];
    int num_stopped, num_hung;
};

// ---- What is due -----------------------------------------------------------

static void look_at_spans(struct hr__job *job, int64_t now, struct due *due)
{
    for (int i = 0; i < job->pub.num_samples; i++)
        for (int e = 0; e < job->dev->num_engines - 1; e++) {
            struct hr__engine_task *et = &job->works[i].tasks[e];

            if (due->num_hung == MAX_DUE || !hr__clock_over(et, now) ||
                atomic_load(&et->state) != HR__RUNNING)
                continue;
            atomic_fetch_add(&job->refs, 1);
            due->hung[due->num_hung++] = et;
        }
}

// device->lock held. Returns when to look again if nothing comes before: at the
// first timeout, and soon for what has none.
static int64_t look(struct hr__device *dev, struct due *due)
{
    int64_t now = hr__now(), next = now + TICK_NS;

    due->num_stopped = due->num_hung = 0;
    for (struct hr__job *job = dev->jobs; job; job = job->next) {
        int goes_on = HR_OK;

        if (now >= job->deadline)
            atomic_compare_exchange_strong(&job->stop, &goes_on, HR_ETIMEDOUT);
        if (hr__job_stops(job) && !job->stopped && due->num_stopped < MAX_DUE) {
            job->stopped = true;
            atomic_fetch_add(&job->refs, 1);
            due->stopped[due->num_stopped++] = job;
        }
        if (!job->stopped && job->deadline < next)
            next = job->deadline;
        if (dev->num_engines > 1)
            look_at_spans(job, now, due);
    }
    return next;
}

// Works that wait for their turn at an image. Their turn never comes.
static struct hr__waiter *take_blocked(struct hr__job *job)
{
    struct hr__waiter *list = NULL;

    hr__graph_lock();
    for (int i = 0; i < job->pub.num_samples; i++) {
        struct hr__waiter *w = &job->works[i].wait;

        if (w->blockers <= 0)
            continue;
        w->blockers = -1;
        w->next = list;
        list = w;
    }
    hr__graph_unlock();
    return list;
}

static void stop(struct hr__job *job)
{
    struct hr__device *dev = job->dev;

    hr__works_stop(take_blocked(job));
    hr__works_stop(hr__budget_unwait(dev, &job->stop));
    for (int i = 0; i < dev->num_engines; i++)
        if (dev->engines[i]->backend->cancel)
            dev->engines[i]->backend->cancel(dev->engines[i]);
}

static void act(struct due *due)
{
    for (int i = 0; i < due->num_stopped; i++) {
        stop(due->stopped[i]);
        hr__job_unref(due->stopped[i]);
    }
    for (int i = 0; i < due->num_hung; i++) {
        struct hr__job *job = due->hung[i]->work->job;

        hr__give_up(due->hung[i]);
        hr__job_unref(job);
    }
}

static void *watch(void *arg)
{
    struct hr__device *dev = arg;
    struct due due;
    int64_t next;

    hr__watch_thread(NULL, "watchdog");
    pthread_mutex_lock(&dev->lock);
    while (!dev->watchdog.stop) {
        if (!dev->jobs) {
            pthread_cond_wait(&dev->watchdog.wake, &dev->lock);
            continue;
        }
        next = look(dev, &due);
        if (due.num_stopped || due.num_hung) {
            pthread_mutex_unlock(&dev->lock);
            act(&due);
            pthread_mutex_lock(&dev->lock);
            continue;
        }
        hr__cond_wait(&dev->watchdog.wake, &dev->lock, next);
    }
    pthread_mutex_unlock(&dev->lock);
    return NULL;
}

bool hr__watchdog_start(struct hr__device *dev)
{
    return hr__device_thread_start(dev, &dev->watchdog, watch);
}
