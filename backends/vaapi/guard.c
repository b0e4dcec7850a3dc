// SPDX-License-Identifier: Apache-2.0
// The functions that the guard (hal/engine/guard.h) calls in this engine.
#include "backends/vaapi/vaapi.h"

static void take_task(struct va_frame *frame, struct hr__task **list)
{
    struct hr__task *task = va_take_task(frame);

    if (!task)
        return;
    task->next = *list;
    *list = task;
}

// The other thread ends the tasks that it holds itself.
static struct hr__task *take(void *owner, int thread)
{
    struct hr__task *list = NULL;
    struct va *va = owner;

    for (int i = 0; i < va->num_frames; i++) {
        struct va_frame *s = &va->frames[i];

        if (s->state == VA_SUBMITTED ||
            (s->state == VA_BUSY) == (thread == VA_DRIVER))
            take_task(s, &list);
    }
    return list;
}

// Pictures that do not get ready, one by one.
static struct hr__task *overdue(void *owner, int64_t now, int64_t *due)
{
    struct hr__task *list = NULL;
    struct va *va = owner;

    for (int i = 0; i < va->num_frames; i++) {
        struct va_frame *s = &va->frames[i];
        bool waits = s->state == VA_SUBMITTED && !s->stuck && !va->guard.dead;

        if ((!waits && s->state != VA_HELD) ||
            !hr__guard_overdue(&va->guard, s->since, now, due) || !waits)
            continue;
        s->stuck = true;
        hr__guard_failed(&va->guard, 0, s->task);
        take_task(s, &list);
        va_wake(va, VA_DRIVER);
    }
    return list;
}

static bool hopeless(const void *owner)
{
    int64_t now = hr__now(), due = INT64_MAX;
    const struct va *va = owner;
    int stuck = 0, held = 0;

    for (int i = 0; i < va->num_frames; i++) {
        const struct va_frame *s = &va->frames[i];

        stuck += s->state == VA_SUBMITTED && s->stuck;
        held += s->state == VA_HELD &&
                hr__guard_overdue(&va->guard, s->since, now, &due);
    }
    // A reader that hangs, and no surface that is neither its nor stuck.
    return stuck >= va->depth || (held && stuck + held >= va->num_frames);
}

const struct hr__guard_ops va_guard_ops = {
    .threads = {[VA_DRIVER] = "vaapi driver", [VA_WAITER] = "vaapi waiter"},
    .open = va_open_first,
    .drive = va_drive,
    .second = va_wait_for_pictures,
    .take = take,
    .overdue = overdue,
    .hopeless = hopeless,
    .outlives = true,
};
