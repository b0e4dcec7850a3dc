// SPDX-License-Identifier: Apache-2.0
// Looks at the clock for a device: jobs past their timeout, spans that an
// engine does not answer; and ends what was cancelled. Started by the first
// job that needs it.
//
// The clock of a span runs from when the engine takes it up. Before that it
// waits behind others, and those have clocks of their own: it is overdue only
// if the engine has begun and ended nothing for as long as one span may take.
#include "hal/hal.h"

enum { TICK_NS = 20000000, MAX_DUE = 64 };

// What is due, each with a reference to its job.
struct due {
    struct hr__job *stopped[MAX_DUE];
    struct hr__slot *hung[MAX_DUE];
    int num_stopped, num_hung;
};

// ---- The clock of a span ---------------------------------------------------

static struct hr__engine *engine_of(const struct hr__slot *slot)
{
    return slot->work->job->dev->engines[slot - slot->work->slots];
}

// 0: for ever, as for the host.
static int64_t allowed(const struct hr__slot *slot)
{
    const struct hr__engine *e = engine_of(slot);

    return e->host ? 0 : e->params.deadline_ns;
}

static void set_clock(struct hr__slot *slot, bool waits)
{
    int64_t ns = allowed(slot), deadline = ns ? hr__deadline(ns) : 0;

    atomic_store(&slot->deadline, waits ? -deadline : deadline);
}

void hr__clock_start(struct hr__slot *slot, int64_t latest)
{
    atomic_store(&slot->work->latest, latest);
    set_clock(slot, true);
}

void hr__clock_alive(const struct hr__slot *slot)
{
    atomic_store(&slot->work->job->dev->alive[engine_of(slot)->index],
                 hr__now());
}

void hr__task_begun(struct hr__task *task)
{
    struct hr__slot *slot = (struct hr__slot *)task;

    set_clock(slot, false);
    hr__clock_alive(slot);
}

void hr__task_waits(struct hr__task *task)
{
    struct hr__slot *slot = (struct hr__slot *)task;
    struct hr__device *dev = slot->work->job->dev;

    set_clock(slot, true);
    // So does what an engine in front cannot take up while such tasks have its
    // memory.
    for (int i = engine_of(slot)->index; i-- > 0;)
        atomic_store(&dev->alive[i], hr__now());
}

bool hr__clock_over(const struct hr__slot *slot, int64_t now)
{
    int64_t deadline = atomic_load(&slot->deadline), alive;

    if (!deadline)
        return false;
    if (atomic_load(&slot->work->latest) <= now)
        return true;
    if (deadline > 0)
        return deadline <= now;
    alive = atomic_load(&slot->work->job->dev->alive[engine_of(slot)->index]);
    // (It may have been seen alive since `now`.)
    return -deadline <= now && alive <= now && now - alive >= allowed(slot);
}

// ---- What is due -----------------------------------------------------------

static void look_at_spans(struct hr__job *job, int64_t now, struct due *due)
{
    for (int i = 0; i < job->pub.num_samples; i++)
        for (int e = 0; e < job->dev->num_engines - 1; e++) {
            struct hr__slot *slot = &job->works[i].slots[e];

            if (due->num_hung == MAX_DUE || !hr__clock_over(slot, now) ||
                atomic_load(&slot->state) != HR__RUNNING)
                continue;
            atomic_fetch_add(&job->refs, 1);
            due->hung[due->num_hung++] = slot;
        }
}

// device->lock held.
static void look(struct hr__device *dev, struct due *due)
{
    int64_t now = hr__now();

    due->num_stopped = due->num_hung = 0;
    for (struct hr__job *job = dev->jobs; job; job = job->next) {
        if (now >= job->deadline)
            atomic_store(&job->expired, true);
        if (hr__job_stops(job) && !job->stopped && due->num_stopped < MAX_DUE) {
            job->stopped = true;
            atomic_fetch_add(&job->refs, 1);
            due->stopped[due->num_stopped++] = job;
        }
        if (dev->num_engines > 1)
            look_at_spans(job, now, due);
    }
}

// Works that wait for their turn at an image. Their turn never comes.
static struct hr__work *take_blocked(struct hr__job *job)
{
    struct hr__work *list = NULL;

    hr__graph_lock();
    for (int i = 0; i < job->pub.num_samples; i++) {
        struct hr__work *w = &job->works[i];

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
    hr__works_stop(hr__budget_unwait(job));
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

    hr__watch_thread(NULL, "watchdog");
    pthread_mutex_lock(&dev->lock);
    while (!dev->watchdog_stop) {
        if (!dev->jobs) {
            pthread_cond_wait(&dev->watchdog_cond, &dev->lock);
            continue;
        }
        look(dev, &due);
        if (due.num_stopped || due.num_hung) {
            pthread_mutex_unlock(&dev->lock);
            act(&due);
            pthread_mutex_lock(&dev->lock);
            continue;
        }
        hr__cond_wait(&dev->watchdog_cond, &dev->lock, hr__deadline(TICK_NS));
    }
    pthread_mutex_unlock(&dev->lock);
    return NULL;
}

bool hr__watchdog_start(struct hr__device *dev)
{
    bool runs;

    pthread_mutex_lock(&dev->lock);
    if (!dev->watchdog_runs)
        dev->watchdog_runs = hr__thread_start(&dev->watchdog, watch, dev);
    runs = dev->watchdog_runs;
    pthread_mutex_unlock(&dev->lock);
    return runs;
}

void hr__watchdog_wake(struct hr__device *dev)
{
    pthread_mutex_lock(&dev->lock);
    pthread_cond_signal(&dev->watchdog_cond);
    pthread_mutex_unlock(&dev->lock);
}

void hr__watchdog_finish(struct hr__device *dev)
{
    if (!dev->watchdog_runs)
        return;
    pthread_mutex_lock(&dev->lock);
    dev->watchdog_stop = true;
    pthread_cond_signal(&dev->watchdog_cond);
    pthread_mutex_unlock(&dev->lock);
    pthread_join(dev->watchdog, NULL);
}
