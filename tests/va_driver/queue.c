// SPDX-License-Identifier: Apache-2.0
// The engine itself: threads that make pictures, each when it is its turn on
// all surfaces it touches, and that end them no sooner than their latency
// allows. Latency does not occupy a thread, so pictures overlap as they do in
// a pipeline; the option `cores` bounds how many.
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "driver.h"

enum { MS = 1000000 };

uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static bool has_turn(const struct picture *p)
{
    if (p->target->served != p->ticket)
        return false;
    for (int i = 0; i < p->num_regions; i++)
        if (p->regions[i].source->served != p->regions[i].ticket)
            return false;
    return true;
}

// The first picture whose turn it is, out of the queue.
static struct picture *take_next(struct display *d)
{
    if (d->options.cores && d->working >= d->options.cores)
        return NULL;
    for (struct picture **at = &d->queue; *at; at = &(*at)->next) {
        struct picture *p = *at;

        if (!has_turn(p))
            continue;
        *at = p->next;
        if (!*at)
            d->queue_end = at;
        p->next = NULL;
        return p;
    }
    return NULL;
}

static void finish(struct display *d, struct picture *p)
{
    p->target->served++;
    p->target->error = p->status;
    for (int i = 0; i < p->num_regions; i++)
        p->regions[i].source->served++;
    p->context->pending--;
    d->working--;
    if (p->fault.what == FAULT_HANG)
        count(&counters.hanging, -1);
    if (p->entrypoint == VAEntrypointVLD)
        count(&counters.decoded, 1);
    else
        count(&counters.processed, 1);
    if (p->status != VA_STATUS_SUCCESS)
        count(&counters.failed, 1);
    count(&counters.in_flight, -1);
    picture_free(p);
    pthread_cond_broadcast(&d->change);
}

// Ends what is due. Returns when to look again; 0: nothing waits.
static uint64_t finish_due(struct display *d)
{
    uint64_t now = now_ns(), next = 0;

    for (struct picture **at = &d->late; *at;) {
        struct picture *p = *at;
        uint64_t due = p->due;

        if (p->fault.what == FAULT_HANG)
            due = p->generation == fault_generation() ? now + 10 * MS : 0;
        if (due <= now) {
            *at = p->next;
            finish(d, p);
            continue;
        }
        next = !next || due < next ? due : next;
        at = &p->next;
    }
    return next;
}

static void make(struct display *d, struct picture *p)
{
    p->due = now_ns() + (uint64_t)d->options.latency_us * 1000;
    if (p->fault.what == FAULT_SLEEP)
        p->due += (uint64_t)p->fault.value * MS;
    if (p->fault.what == FAULT_STATUS)
        p->status = (VAStatus)p->fault.value;
    else if (p->fault.what == FAULT_HANG)
        p->status = VA_STATUS_ERROR_HW_BUSY;
    else if (p->entrypoint == VAEntrypointVLD)
        p->status = decode_run(d, p);
    else
        p->status = vpp_run(d, p);
    if (p->fault.what == FAULT_HANG)
        count(&counters.hanging, 1);
}

static void *work(void *arg)
{
    struct display *d = arg;

    pthread_mutex_lock(&d->lock);
    for (;;) {
        uint64_t next = finish_due(d);
        struct picture *p = take_next(d);
        struct timespec t = {(time_t)(next / 1000000000),
                             (long)(next % 1000000000)};

        if (p) {
            d->working++;
            pthread_mutex_unlock(&d->lock);
            make(d, p);
            pthread_mutex_lock(&d->lock);
            p->next = d->late;
            d->late = p;
        } else if (d->stop && !d->queue && !d->late) {
            break;
        } else if (next) {
            pthread_cond_timedwait(&d->change, &d->lock, &t);
        } else {
            pthread_cond_wait(&d->change, &d->lock);
        }
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

// Under the lock. The picture is the queue's from here on, or still the
// caller's where no thread could be started.
VAStatus queue_add(struct display *d, struct picture *p)
{
    while (d->num_workers < d->options.workers) {
        if (pthread_create(&d->workers[d->num_workers], NULL, work, d))
            break;
        d->num_workers++;
    }
    if (!d->num_workers)
        return VA_STATUS_ERROR_ALLOCATION_FAILED;
    // Here and not in the worker: which picture is the Nth must not depend on
    // which worker comes first.
    p->fault = fault_next(p->entrypoint == VAEntrypointVLD ? VA_DRIVER_Decode
                                                           : VA_DRIVER_Process);
    p->generation = fault_generation();
    p->ticket = p->target->issued++;
    p->target->decoding = p->entrypoint == VAEntrypointVLD;
    for (int i = 0; i < p->num_regions; i++)
        p->regions[i].ticket = p->regions[i].source->issued++;
    p->context->pending++;
    count(&counters.in_flight, 1);
    p->next = NULL;
    if (!d->queue)
        d->queue_end = &d->queue;
    *d->queue_end = p;
    d->queue_end = &p->next;
    pthread_cond_broadcast(&d->change);
    return VA_STATUS_SUCCESS;
}

// Everything that was begun ends first.
void queue_finish(struct display *d)
{
    pthread_mutex_lock(&d->lock);
    d->stop = true;
    pthread_cond_broadcast(&d->change);
    pthread_mutex_unlock(&d->lock);
    for (int i = 0; i < d->num_workers; i++)
        pthread_join(d->workers[i], NULL);
}
