// SPDX-License-Identifier: Apache-2.0
// Tasks that wait for the driver thread.
#include "backends/opencl/opencl.h"

bool ocl_hopeless(const struct ocl *o)
{
    for (int i = 0; i < OCL_SLOTS; i++)
        if (o->slots[i].state != OCL_FLYING || o->slots[i].num_items)
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
