// SPDX-License-Identifier: Apache-2.0
// Tasks that wait for the driver thread, and their way into a slot and back.
#include "backends/opencl/opencl.h"

bool ocl_hopeless(const struct ocl *o)
{
    for (int i = 0; i < OCL_SLOTS; i++)
        if (o->slots[i].state != OCL_FLYING || !o->slots[i].stuck)
            return o->dead;
    return true;
}

void ocl_push(struct ocl *o, struct hr__task *list, int64_t deadline)
{
    pthread_mutex_lock(&o->lock);
    o->deadline = deadline;
    *o->tail = list;
    while (*o->tail)
        o->tail = &(*o->tail)->next;
    // If nobody else will, the nurse ends them.
    pthread_cond_signal(ocl_hopeless(o) || o->compiling ? &o->landed
                                                        : &o->work);
    pthread_mutex_unlock(&o->lock);
}

void ocl_cancel_queued(struct ocl *o)
{
    struct hr__task **at, *stopped = NULL, **end = &stopped;

    pthread_mutex_lock(&o->lock);
    for (at = &o->head; *at;) {
        struct hr__task *t = *at;

        if (!hr__task_stop(t)) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        *end = t;
        end = &t->next;
        *end = NULL;
    }
    o->tail = at;
    pthread_mutex_unlock(&o->lock);
    hr__tasks_stopped(stopped);
}

struct hr__task *ocl_take_queue(struct ocl *o)
{
    struct hr__task *list = o->head;

    o->head = NULL;
    o->tail = &o->head;
    return list;
}

void ocl_put_back(struct ocl *o, struct hr__task *list)
{
    struct hr__task **end = &list;

    if (!list)
        return;
    while (*end)
        end = &(*end)->next;
    pthread_mutex_lock(&o->lock);
    *end = o->head;
    if (!o->head)
        o->tail = end;
    o->head = list;
    // The nurse may have emptied the queue for good in the meantime.
    if (ocl_hopeless(o))
        pthread_cond_signal(&o->landed);
    pthread_mutex_unlock(&o->lock);
}

void ocl_take_batch(struct ocl *o, struct ocl_slot *slot)
{
    struct hr_span span = o->head->span;
    const struct hr__memory *copy = o->head->copy.memory;
    struct hr__task *t;

    slot->num_items = 0;
    while (slot->num_items < o->batch && (t = o->head) &&
           t->span.first == span.first && t->span.last == span.last &&
           !t->copy.memory == !copy) {
        o->head = t->next;
        slot->items[slot->num_items++] = (struct ocl_item){.task = t};
    }
    if (!o->head)
        o->tail = &o->head;
    slot->state = OCL_BUSY;
}

struct hr__task *ocl_take_items(struct ocl_slot *slot, int from)
{
    struct hr__task *list = NULL;

    for (int i = slot->num_items - 1; i >= from; i--) {
        slot->items[i].task->next = list;
        list = slot->items[i].task;
    }
    slot->num_items = from;
    return list;
}
