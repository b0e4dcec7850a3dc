// SPDX-License-Identifier: Apache-2.0
// The guard's queue: tasks that wait for thread 0.
#include "hal/engine/guard.h"

static struct hr__task **last_of(struct hr__task **list)
{
    while (*list)
        list = &(*list)->next;
    return list;
}

void hr__guard_push(struct hr__guard *g, const struct hr__engine *e,
                    struct hr__task *list)
{
    pthread_mutex_lock(&g->lock);
    g->deadline = hr__guard_deadline(e);
    *g->tail = list;
    g->tail = last_of(g->tail);
    // If no thread will, the clock thread ends them.
    if (g->held || hr__guard_hopeless(g))
        pthread_cond_signal(&g->clock);
    else
        pthread_cond_signal(&g->threads[0].wake);
    hr__guard_look(g, hr__now() + g->deadline);
    pthread_mutex_unlock(&g->lock);
}

struct hr__task *hr__guard_pop(struct hr__guard *g)
{
    struct hr__task *task = g->head;

    g->head = task->next;
    if (!g->head)
        g->tail = &g->head;
    task->next = NULL;
    return task;
}

struct hr__task *hr__guard_take_in_hand(struct hr__guard *g)
{
    struct hr__task *task = g->in_hand;

    g->in_hand = NULL;
    return task;
}

struct hr__task *hr__guard_next(struct hr__guard *g)
{
    struct hr__task *task = NULL;

    pthread_mutex_lock(&g->lock);
    while (!g->stop && !g->head)
        hr__cond_wait(&g->threads[0].wake, &g->lock, INT64_MAX);
    if (!g->stop)
        g->in_hand = task = hr__guard_pop(g);
    pthread_mutex_unlock(&g->lock);
    return task;
}

struct hr__task *hr__guard_finish(struct hr__guard *g, unsigned why)
{
    struct hr__task *task;

    pthread_mutex_lock(&g->lock);
    task = hr__guard_take_in_hand(g);
    if (why)
        hr__guard_failed(g, why, task);
    else if (task)
        hr__guard_worked(g);
    pthread_mutex_unlock(&g->lock);
    return task;
}

void hr__guard_put_back(struct hr__guard *g, struct hr__task *list)
{
    struct hr__task **end = last_of(&list);

    if (!list)
        return;
    pthread_mutex_lock(&g->lock);
    *end = g->head;
    if (!g->head)
        g->tail = end;
    g->head = list;
    // The clock thread may have emptied the queue for good in the meantime.
    if (hr__guard_hopeless(g))
        pthread_cond_signal(&g->clock);
    pthread_mutex_unlock(&g->lock);
}

struct hr__task *hr__guard_take_queue(struct hr__guard *g)
{
    struct hr__task *list = g->head;

    g->head = NULL;
    g->tail = &g->head;
    return list;
}

// Takes those for which leaves() is true, in their order.
static struct hr__task *take_some(struct hr__guard *g, int64_t now,
                                  bool (*leaves)(struct hr__guard *g,
                                                 struct hr__task *task,
                                                 int64_t now))
{
    struct hr__task *list = NULL, **end = &list, **at = &g->head;

    while (*at) {
        struct hr__task *task = *at;

        if (!leaves(g, task, now)) {
            at = &task->next;
            continue;
        }
        *at = task->next;
        *end = task;
        end = &task->next;
    }
    *end = NULL;
    g->tail = at;
    return list;
}

static bool is_stopped(struct hr__guard *g, struct hr__task *task, int64_t now)
{
    (void)g;
    (void)now;
    return hr__task_stop(task);
}

void hr__guard_cancel(struct hr__guard *g)
{
    struct hr__task *list;

    pthread_mutex_lock(&g->lock);
    list = take_some(g, 0, is_stopped);
    pthread_mutex_unlock(&g->lock);
    hr__tasks_stopped(list);
}

// Tasks that the HAL has given up go back: their job may be the cause that the
// device takes nothing up.
static bool must_not_wait(struct hr__guard *g, struct hr__task *task,
                          int64_t now)
{
    bool stays;

    if (!hr__task_claim(task))
        return true;
    stays = !g->held || !g->ops->stays || g->ops->stays(g->owner, task, now);
    hr__task_unclaim(task);
    return !stays;
}

struct hr__task *hr__guard_sweep(struct hr__guard *g, int64_t now)
{
    if (!g->head || (!g->held && now < g->sweep_at))
        return NULL;
    g->sweep_at = now + g->deadline / 4;
    return take_some(g, now, must_not_wait);
}
