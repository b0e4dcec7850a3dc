// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "parts.h"

#define RING_PER_THREAD 4

// ---- One picture -----------------------------------------------------------

static void read_picture(struct pack_picture *p, const struct inputs *in,
                         size_t i)
{
    if ((p->status = inputs_read(in, i, &p->read)))
        snprintf(p->message, sizeof(p->message), "%s", hr_last_error());
    p->data = p->read.data;
    p->source = p->size = p->read.size;
    if (p->status)
        return;
    // It came from a pack file, or the file is a packed picture.
    p->packed = p->read.packed || hr_packed_check(p->data, p->size);
    if (p->read.packed)
        p->source = p->read.source;
}

static void make(struct pack_work *work, struct pack_picture *p, size_t i)
{
    size_t size;

    *p = (struct pack_picture){0};
    read_picture(p, work->in, i);
    if (p->status || p->packed)
        return;
    p->why = hr_pack(p->data, p->size, work->limits, &p->made, &size);
    if (p->why)
        return;
    p->packed = true;
    p->data = p->made;
    p->size = size;
}

static void drop(struct pack_picture *p)
{
    hr_packed_free(p->made);
    hr_encoded_finish(&p->read);
    *p = (struct pack_picture){0};
}

// ---- Threads ---------------------------------------------------------------

// The next picture whose place in the ring is free. False: there is none left.
static bool take(struct pack_work *work, size_t *i)
{
    bool more;

    pthread_mutex_lock(&work->lock);
    while (!work->quit && work->next < work->end &&
           work->next - work->taken >= work->size)
        pthread_cond_wait(&work->changed, &work->lock);
    more = !work->quit && work->next < work->end;
    *i = more ? work->next++ : 0;
    pthread_mutex_unlock(&work->lock);
    return more;
}

static void *run(void *arg)
{
    struct pack_work *work = arg;
    size_t i;

    while (take(work, &i)) {
        struct pack_picture *p = &work->ring[i % work->size];

        make(work, p, i);
        pthread_mutex_lock(&work->lock);
        p->done = true;
        pthread_cond_broadcast(&work->changed);
        pthread_mutex_unlock(&work->lock);
    }
    return NULL;
}

bool pack_work_begin(struct pack_work *work, const struct inputs *in,
                     const struct hr_limits *limits, size_t first, size_t end,
                     int threads)
{
    *work = (struct pack_work){
        .in = in,
        .limits = limits,
        .next = first,
        .taken = first,
        .end = end,
        .size = (size_t)threads * RING_PER_THREAD,
    };
    pthread_mutex_init(&work->lock, NULL);
    pthread_cond_init(&work->changed, NULL);
    work->ring = calloc(work->size, sizeof(*work->ring));
    work->threads = calloc((size_t)threads, sizeof(*work->threads));
    if (!work->ring || !work->threads)
        return tools_warn("out of memory");
    for (; work->num_threads < threads; work->num_threads++)
        if (pthread_create(&work->threads[work->num_threads], NULL, run, work))
            return work->num_threads > 0 ||
                   tools_warn("no thread can be started");
    return true;
}

struct pack_picture *pack_work_next(struct pack_work *work)
{
    struct pack_picture *p = &work->ring[work->taken % work->size];
    struct timespec until;
    bool done;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&work->lock);
    if (!p->done)
        pthread_cond_timedwait(&work->changed, &work->lock, &until);
    done = p->done;
    pthread_mutex_unlock(&work->lock);
    return done ? p : NULL;
}

void pack_work_give_back(struct pack_work *work)
{
    drop(&work->ring[work->taken % work->size]);
    pthread_mutex_lock(&work->lock);
    work->taken++;
    pthread_cond_broadcast(&work->changed);
    pthread_mutex_unlock(&work->lock);
}

void pack_work_finish(struct pack_work *work)
{
    pthread_mutex_lock(&work->lock);
    work->quit = true;
    pthread_cond_broadcast(&work->changed);
    pthread_mutex_unlock(&work->lock);
    for (int i = 0; i < work->num_threads; i++)
        pthread_join(work->threads[i], NULL);
    for (size_t i = 0; work->ring && i < work->size; i++)
        drop(&work->ring[i]);
    free(work->ring);
    free(work->threads);
    pthread_cond_destroy(&work->changed);
    pthread_mutex_destroy(&work->lock);
}
