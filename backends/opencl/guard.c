// SPDX-License-Identifier: Apache-2.0
// The calls of the guard (hal/engine/guard.h) into this engine.
#include "backends/opencl/opencl.h"

static struct hr__task **append(struct hr__task **end, struct ocl_batch *batch)
{
    ocl_batch_late(batch);
    for (*end = ocl_batch_take(batch, 0); *end;)
        end = &(*end)->next;
    return end;
}

// The CPU can make what the driver thread and the device have.
static struct hr__task *take(void *owner, int thread)
{
    struct hr__task *list = NULL, **end = &list;
    struct ocl *o = owner;

    (void)thread;
    for (int i = 0; i < OCL_BATCHES; i++)
        if (o->batch[i].state == OCL_BUSY || o->batch[i].state == OCL_SENT)
            end = append(end, &o->batch[i]);
    return list;
}

static struct hr__task *overdue(void *owner, int64_t now, int64_t *due)
{
    struct hr__task *list = NULL, **end = &list;
    struct ocl *o = owner;

    for (int i = 0; i < OCL_BATCHES; i++) {
        struct ocl_batch *batch = &o->batch[i];

        if (batch->state != OCL_SENT || batch->stuck || o->guard.dead ||
            !hr__guard_overdue(&o->guard, batch->since, now, due))
            continue;
        batch->stuck = true;
        hr__guard_failed(&o->guard, 0, batch->num_items);
        end = append(end, batch);
    }
    return list;
}

// Says whether no batch will come back.
static bool hopeless(const void *owner)
{
    const struct ocl *o = owner;

    for (int i = 0; i < OCL_BATCHES; i++)
        if (o->batch[i].state != OCL_SENT || !o->batch[i].stuck)
            return false;
    return true;
}

// Says whether no other engine can do the task, because its bytes are device
// memory, or none may.
static bool only_here(const struct hr__task *t)
{
    const struct hr__picture *pic = t->pic;

    return !hr__task_may_leave(t) || !pic->dst.data ||
           (pic->image && !pic->pixels);
}

// While the driver completes a new program, nothing else is begun, and the
// delay does not count as a failure. Tasks that only this device can do wait,
// and their clocks do not run; other tasks with a time limit go on elsewhere at
// once.
static bool stays(void *owner, struct hr__task *t, int64_t now)
{
    struct ocl *o = owner;

    if (!only_here(t) && hr__task_is_timed(t)) {
        // It takes so long that the driver must hang.
        if (now >= o->compiled)
            hr__guard_failed(&o->guard, 0, !o->overcompiled);
        o->overcompiled |= now >= o->compiled;
        return false;
    }
    if (only_here(t) && now < o->compiled)
        hr__task_defer(t);
    return true;
}

const struct hr__guard_ops ocl_guard_ops = {
    .threads = {"opencl driver"},
    .clock = "opencl results",
    .open = ocl_open_first,
    .drive = ocl_drive,
    .take = take,
    .overdue = overdue,
    .hopeless = hopeless,
    .stays = stays,
    .turn = ocl_complete,
};
