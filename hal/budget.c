// SPDX-License-Identifier: Apache-2.0
// Admission by bytes. Two kinds share one budget: what a job holds from
// submission to its end (source bytes, destinations, its own records), and
// what a sample needs while it is at work (file, decoder, what lies between two
// engines). Jobs may take three quarters, so that work always has room; one of
// each kind is always let in, however large, so that nothing can wait for ever.
//
// So bytes in flight stay within the budget while no job needs more than three
// quarters of it and no sample more than one. A larger sample goes over by what
// it needs beyond a quarter, a payload by what it is larger than was expected
// of it (the few bytes that readers may touch behind it, mostly): those behind
// it wait till that is back.
#include "hal/hal.h"

static void took(struct hr__device *dev, size_t bytes)
{
    dev->used += bytes;
    hr__watch_bytes(dev);
    if (dev->used > dev->stats.peak_bytes)
        dev->stats.peak_bytes = dev->used;
}

static bool job_fits(const struct hr__device *dev, size_t bytes)
{
    size_t limit = dev->pub.params.budget - dev->pub.params.budget / 4;
    size_t held = dev->used - dev->working;

    return held == 0 || (bytes <= limit && held <= limit - bytes &&
                         dev->used <= dev->pub.params.budget - bytes);
}

// A submitter that waits, on its own stack.
struct hr__turn {
    struct hr__turn *next;
};

// dev->lock held; false: not before the deadline. In turn, so that small jobs
// do not pass a large one for ever.
static bool wait_for_room(struct hr__device *dev, size_t bytes,
                          int64_t deadline, int64_t *begin)
{
    struct hr__turn mine = {NULL}, **at = &dev->submitters;
    bool ok;

    *begin = hr__watch_begin();

    while (*at)
        at = &(*at)->next;
    *at = &mine;
    while (!(ok = dev->submitters == &mine && job_fits(dev, bytes)))
        if (!hr__cond_wait(&dev->room, &dev->lock, deadline))
            break;
    for (at = &dev->submitters; *at != &mine;)
        at = &(*at)->next;
    *at = mine.next;
    pthread_cond_broadcast(&dev->room);
    return ok;
}

enum hr_status hr__budget_admit(struct hr__device *dev, size_t bytes, bool wait,
                                int64_t deadline)
{
    enum hr_status status = HR_OK;
    int64_t begin = 0;

    pthread_mutex_lock(&dev->lock);
    if (dev->submitters || !job_fits(dev, bytes))
        // A callback must not wait: it may be on the thread that makes room.
        status = !wait || hr__on_library_thread()              ? HR_EAGAIN
                 : wait_for_room(dev, bytes, deadline, &begin) ? HR_OK
                                                               : HR_ETIMEDOUT;
    if (!status)
        took(dev, bytes);
    pthread_mutex_unlock(&dev->lock);
    hr__watch_wait(dev, HR__WAIT_ROOM, 0, begin);
    return status;
}

static bool work_fits(const struct hr__device *dev, size_t bytes)
{
    return dev->working == 0 || (bytes <= dev->pub.params.budget &&
                                 dev->used <= dev->pub.params.budget - bytes);
}

// dev->lock held: waiters that fit now, linked by next. In the order in which
// they came, so that a large one is not passed by small ones for ever.
static struct hr__work *take_waiters(struct hr__device *dev)
{
    struct hr__work *list = NULL, **end = &list, *w;

    while ((w = dev->waiting) && work_fits(dev, w->needs)) {
        if (!(dev->waiting = w->next))
            dev->waiting_tail = &dev->waiting;
        w->granted = w->needs;
        took(dev, w->granted);
        dev->working += w->granted;
        *end = w;
        end = &w->next;
        *end = NULL;
    }
    return list;
}

static void give_back(struct hr__device *dev, size_t bytes, size_t working)
{
    struct hr__work *ready;

    pthread_mutex_lock(&dev->lock);
    dev->used -= bytes;
    hr__watch_bytes(dev);
    dev->working -= working;
    ready = take_waiters(dev);
    pthread_cond_broadcast(&dev->room);
    pthread_mutex_unlock(&dev->lock);
    if (ready)
        hr__dispatch_new(ready);
}

void hr__budget_return(struct hr__device *dev, size_t bytes)
{
    give_back(dev, bytes, 0);
}

bool hr__budget_grant(struct hr__work *work, size_t bytes)
{
    struct hr__job *job = work->job;
    struct hr__device *dev = job->dev;
    bool ok, flush = false;

    if (work->granted >= bytes && work->granted)
        return true;
    // A file has grown since it was granted, or its head was long.
    hr__budget_ungrant(work);
    // Zero would look like not granted.
    bytes = bytes ? bytes : 1;
    pthread_mutex_lock(&dev->lock);
    ok = !dev->waiting && work_fits(dev, bytes);
    if (hr__job_stops(job)) {
        // It must not queue any more, nobody would look there again; and it
        // ends before it takes anything.
        ok = true;
    } else if (ok) {
        work->granted = bytes;
        took(dev, bytes);
        dev->working += bytes;
    } else {
        work->needs = bytes;
        // What is staged must not wait for a work that waits for its bytes.
        flush = hr__upstream_leave(work);
        work->next = NULL;
        *dev->waiting_tail = work;
        dev->waiting_tail = &work->next;
    }
    pthread_mutex_unlock(&dev->lock);
    if (flush)
        hr__flush(job);
    return ok;
}

void hr__budget_charge(struct hr__work *work, size_t bytes)
{
    struct hr__device *dev = work->job->dev;
    size_t from_spare = bytes < work->spare ? bytes : work->spare;

    work->spare -= from_spare;
    bytes -= from_spare;
    if (!bytes)
        return;
    pthread_mutex_lock(&dev->lock);
    work->granted += bytes;
    took(dev, bytes);
    dev->working += bytes;
    pthread_mutex_unlock(&dev->lock);
}

void hr__budget_ungrant(struct hr__work *work)
{
    size_t bytes = work->granted;

    work->granted = 0;
    if (bytes)
        give_back(work->job->dev, bytes, bytes);
}

// Works of a job that wait for bytes, taken off the list, linked by next.
struct hr__work *hr__budget_unwait(struct hr__job *job)
{
    struct hr__device *dev = job->dev;
    struct hr__work **at = &dev->waiting, *list = NULL, *w;

    pthread_mutex_lock(&dev->lock);
    while ((w = *at)) {
        if (w->job != job) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        w->next = list;
        list = w;
    }
    dev->waiting_tail = at;
    pthread_mutex_unlock(&dev->lock);
    return list;
}
