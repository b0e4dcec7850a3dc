// SPDX-License-Identifier: Apache-2.0
// What the guard (hal/engine/guard.h) asks of this engine.
#include "backends/vaapi/vaapi.h"

// Takes the slot's task, in front of a list.
static void take_task(struct va_slot *slot, struct hr__task **list)
{
    if (!slot->task)
        return;
    slot->task->next = *list;
    *list = slot->task;
    slot->task = NULL;
}

// What the other thread holds it ends itself.
static struct hr__task *take(void *owner, int lane)
{
    struct hr__task *list = NULL;
    struct va *va = owner;

    for (int i = 0; i < va->num_slots; i++) {
        struct va_slot *s = &va->slots[i];

        if (s->state == VA_FLYING ||
            (s->state == VA_BUSY) == (lane == VA_DRIVER))
            take_task(s, &list);
    }
    return list;
}

// Pictures that do not land, one by one.
static struct hr__task *overdue(void *owner, int64_t now, int64_t *due)
{
    struct hr__task *list = NULL;
    struct va *va = owner;

    for (int i = 0; i < va->num_slots; i++) {
        struct va_slot *s = &va->slots[i];
        bool flies = s->state == VA_FLYING && !s->stuck && !va->guard.dead;

        if ((!flies && s->state != VA_HELD) ||
            !hr__guard_overdue(&va->guard, s->since, now, due) || !flies)
            continue;
        s->stuck = true;
        hr__guard_failed(&va->guard, 0, s->task);
        take_task(s, &list);
        pthread_cond_signal(&va->guard.lanes[VA_DRIVER].wake);
    }
    return list;
}

static bool hopeless(const void *owner)
{
    int64_t now = hr__now(), due = INT64_MAX;
    const struct va *va = owner;
    int stuck = 0, held = 0;

    for (int i = 0; i < va->num_slots; i++) {
        const struct va_slot *s = &va->slots[i];

        stuck += s->state == VA_FLYING && s->stuck;
        // Its reader hangs, and so does every surface that is left.
        held += s->state == VA_HELD &&
                hr__guard_overdue(&va->guard, s->since, now, &due);
    }
    return stuck >= va->depth || (held && stuck + held >= va->num_slots);
}

const struct hr__guard_ops va_guard_ops = {
    .lanes = {[VA_DRIVER] = "vaapi driver", [VA_WAITER] = "vaapi waiter"},
    .open = va_open_first,
    .drive = va_drive,
    .second = va_wait_for_pictures,
    .take = take,
    .overdue = overdue,
    .hopeless = hopeless,
    .outlives = true,
};
