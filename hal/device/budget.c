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
#include "hal/device/device.h"

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
        if (!hr__cond_wait(&dev->not_full, &dev->lock, deadline))
            break;
    for (at = &dev->submitters; *at != &mine;)
        at = &(*at)->next;
    *at = mine.next;
    pthread_cond_broadcast(&dev->not_full);
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

static bool fits(const struct hr__device *dev, size_t bytes)
{
    return bytes <= dev->pub.params.budget &&
           dev->used <= dev->pub.params.budget - bytes;
}

// dev->lock held.
static void grant(struct hr__waiter *w, size_t bytes)
{
    struct hr__device *dev = w->dev;

    w->granted += bytes;
    took(dev, bytes);
    dev->working += bytes;
}

// dev->lock held: waiters that fit now, linked by next. In the order in which
// they came, so that a large one is not passed by small ones for ever.
static struct hr__waiter *take_waiters(struct hr__device *dev)
{
    struct hr__waiter *list = NULL, **end = &list, *w;

    while ((w = dev->waiting) && (!dev->working || fits(dev, w->needs))) {
        if (!(dev->waiting = w->next))
            dev->waiting_tail = &dev->waiting;
        grant(w, w->needs);
        *end = w;
        end = &w->next;
        *end = NULL;
    }
    return list;
}

static struct hr__waiter *give_back(struct hr__device *dev, size_t bytes,
                                    size_t working)
{
    struct hr__waiter *ready;

    pthread_mutex_lock(&dev->lock);
    dev->used -= bytes;
    hr__watch_bytes(dev);
    dev->working -= working;
    ready = take_waiters(dev);
    pthread_cond_broadcast(&dev->not_full);
    pthread_mutex_unlock(&dev->lock);
    return ready;
}

struct hr__waiter *hr__budget_return(struct hr__device *dev, size_t bytes)
{
    return give_back(dev, bytes, 0);
}

bool hr__budget_take(struct hr__waiter *w)
{
    struct hr__device *dev = w->dev;
    size_t more;
    bool ok;

    if (w->granted >= w->needs)
        return true;
    more = w->needs - w->granted;
    pthread_mutex_lock(&dev->lock);
    ok = !dev->waiting && (dev->working == w->granted || fits(dev, more));
    if (ok)
        grant(w, more);
    pthread_mutex_unlock(&dev->lock);
    return ok;
}

bool hr__budget_wait(struct hr__waiter *w)
{
    struct hr__device *dev = w->dev;
    bool stops, ok;

    pthread_mutex_lock(&dev->lock);
    stops = atomic_load(w->stop);
    ok = !stops && !dev->waiting && (!dev->working || fits(dev, w->needs));
    if (ok)
        grant(w, w->needs);
    if (!ok && !stops) {
        w->next = NULL;
        *dev->waiting_tail = w;
        dev->waiting_tail = &w->next;
    }
    pthread_mutex_unlock(&dev->lock);
    return ok || stops;
}

void hr__budget_charge(struct hr__waiter *w, size_t bytes)
{
    struct hr__device *dev = w->dev;
    size_t from_spare = bytes < w->spare ? bytes : w->spare;

    w->spare -= from_spare;
    bytes -= from_spare;
    if (!bytes)
        return;
    pthread_mutex_lock(&dev->lock);
    grant(w, bytes);
    pthread_mutex_unlock(&dev->lock);
}

struct hr__waiter *hr__budget_ungrant(struct hr__waiter *w)
{
    size_t bytes = w->granted;

    w->granted = 0;
    return bytes ? give_back(w->dev, bytes, bytes) : NULL;
}

struct hr__waiter *hr__budget_unwait(struct hr__device *dev,
                                     const atomic_int *stop)
{
    struct hr__waiter **at = &dev->waiting, *list = NULL, *w;

    pthread_mutex_lock(&dev->lock);
    while ((w = *at)) {
        if (w->stop != stop) {
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
