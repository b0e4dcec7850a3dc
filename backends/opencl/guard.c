// SPDX-License-Identifier: Apache-2.0
// What the guard (hal/engine/guard.h) asks of this engine.
#include "backends/opencl/opencl.h"

// Most time to stop in; and with a program to be kept.
#define STOP_NS INT64_C(2000000000)
#define KEEP_NS INT64_C(15000000000)
#define LEAST_NS INT64_C(1000000000)

// What the driver thread and its slots hold, the CPU can make.
static struct hr__task *take(void *owner, int lane)
{
    struct hr__task *list = NULL, **end = &list;
    struct ocl *o = owner;

    (void)lane;
    for (int i = 0; i < OCL_SLOTS; i++)
        if (o->slots[i].state == OCL_BUSY || o->slots[i].state == OCL_FLYING)
            for (*end = ocl_take_items(&o->slots[i], 0); *end;)
                end = &(*end)->next;
    return list;
}

static struct hr__task *overdue(void *owner, int64_t now, int64_t *due)
{
    struct hr__task *list = NULL, **end = &list;
    struct ocl *o = owner;

    for (int i = 0; i < OCL_SLOTS; i++) {
        struct ocl_slot *slot = &o->slots[i];

        if (slot->state != OCL_FLYING || slot->stuck || o->guard.dead ||
            !hr__guard_overdue(&o->guard, slot->since, now, due))
            continue;
        slot->stuck = true;
        hr__guard_failed(&o->guard, 0, slot->num_items);
        for (*end = ocl_take_items(slot, 0); *end;)
            end = &(*end)->next;
    }
    return list;
}

// No slot will come back.
static bool hopeless(const void *owner)
{
    const struct ocl *o = owner;

    for (int i = 0; i < OCL_SLOTS; i++)
        if (o->slots[i].state != OCL_FLYING || !o->slots[i].stuck)
            return false;
    return true;
}

// Nobody else can do it: its bytes are device memory; or may.
static bool only_here(const struct hr__task *t)
{
    const struct hr__picture *pic = t->pic;

    return !hr__task_may_leave(t) || !pic->dst.data ||
           (pic->image && !pic->pixels);
}

// While a new program is being completed nothing else is begun, and the device
// is not to blame for that. What only it can do waits, and its clock does not
// run; what has a time limit goes on elsewhere at once.
static bool stays(void *owner, struct hr__task *t, int64_t now)
{
    struct ocl *o = owner;

    if (!only_here(t) && hr__task_is_timed(t)) {
        // So long that it must be a driver that hangs.
        if (now >= o->compiled)
            hr__guard_failed(&o->guard, 0, !o->overcompiled);
        o->overcompiled |= now >= o->compiled;
        return false;
    }
    if (only_here(t) && now < o->compiled)
        hr__task_waits(t);
    return true;
}

const struct hr__guard_ops ocl_guard_ops = {
    .lanes = {"opencl driver"},
    .clock = "opencl results",
    .open = ocl_open_first,
    .drive = ocl_drive,
    .take = take,
    .overdue = overdue,
    .hopeless = hopeless,
    .stays = stays,
    .turn = ocl_complete,
};

bool ocl_stop(struct ocl *o, struct hr__engine *e)
{
    int64_t ns = e->params.deadline_ns;
    bool keeps;

    // Left behind, a compiler may crash when the process ends.
    pthread_mutex_lock(&o->guard.lock);
    keeps = o->guard.held || o->unkept;
    pthread_mutex_unlock(&o->guard.lock);
    ns = ns < LEAST_NS ? LEAST_NS : ns < KEEP_NS ? ns : KEEP_NS;
    return hr__guard_stop(&o->guard, e, keeps ? ns : STOP_NS, keeps,
                          sizeof(*o));
}
