// SPDX-License-Identifier: Apache-2.0
// Turns on images and batch slots. Each has a queue of accesses in the order
// of submission; an access is open when nothing before it conflicts: a writer
// at the head, readers with no writer before them. All under the graph lock.
#include "hal/device/device.h"

// Host memory goes with every device, so works of several devices may wait for
// each other: one lock for all of them. It is held for a few instructions per
// turn.
static pthread_mutex_t graph = PTHREAD_MUTEX_INITIALIZER;

// Another thread may have held the lock when the process forked.
static void child_after_fork(void)
{
    pthread_mutex_init(&graph, NULL);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, child_after_fork);
}

void hr__graph_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch_forks);
}

void hr__graph_lock(void)
{
    pthread_mutex_lock(&graph);
}

void hr__graph_unlock(void)
{
    pthread_mutex_unlock(&graph);
}

bool hr__graph_wait(pthread_cond_t *cond, int64_t deadline)
{
    return hr__cond_wait(cond, &graph, deadline);
}

static bool may_open(const struct hr__access *a)
{
    const struct hr__access *prev = a->prev;

    return !prev || (!a->write && prev->open && !prev->write);
}

bool hr__track_add(struct hr__track *track, struct hr__access *a,
                   struct hr__waiter *w, bool write)
{
    struct hr__access *tail = track->tail;

    *a = (struct hr__access){
        .track = track, .waiter = w, .write = write, .prev = tail};
    if (write)
        track->dropped = HR_OK;
    else
        a->input = track->dropped;
    track->writers += write;
    a->open = may_open(a);
    if (tail)
        tail->next = a;
    else
        track->head = a;
    track->tail = a;
    return a->open;
}

void hr__track_drop(struct hr__access *a, enum hr_status status)
{
    struct hr__access *i;

    // (Readers that were told before were all told at the same time.)
    for (i = a->next; i && !i->write && i->input != status; i = i->next)
        i->input = status;
    if (!i)
        a->track->dropped = status;
}

struct hr__waiter *hr__track_remove(struct hr__access *a)
{
    struct hr__track *track = a->track;
    struct hr__waiter *ready = NULL, **end = &ready;

    if (!track)
        return NULL;
    *(a->prev ? &a->prev->next : &track->head) = a->next;
    *(a->next ? &a->next->prev : &track->tail) = a->prev;
    a->track = NULL;
    track->writers -= a->write;
    // Only accesses right behind it may have waited for it. An open access does
    // not wait, nor do the readers behind that one.
    for (struct hr__access *i = a->next; i && !i->open && may_open(i);
         i = i->next) {
        i->open = true;
        if (--i->waiter->blockers == 0) {
            *end = i->waiter;
            end = &i->waiter->next;
            *end = NULL;
        }
    }
    return ready;
}
