// SPDX-License-Identifier: Apache-2.0
// What an engine may ask and say of a task that it holds. How a task ends, and
// what comes then, is in work.c; its clock in watchdog.c.
#include "hal/job/work.h"

static struct hr__slot *slot_of(struct hr__task *task)
{
    return (struct hr__slot *)task;
}

bool hr__task_stop(const struct hr__task *task)
{
    const struct hr__copy *copy = &task->copy;

    // What failed is cleared, whatever becomes of its job.
    if (copy->memory && !copy->to && !copy->from)
        return false;
    // The watchdog looks at the clock.
    return hr__job_stops(hr__work_of(task)->job);
}

enum hr_status hr__task_stop_status(const struct hr__task *task)
{
    return hr__stop_status(hr__work_of(task)->job);
}

bool hr__task_claim(struct hr__task *task)
{
    int running = HR__RUNNING;

    return atomic_compare_exchange_strong(&slot_of(task)->state, &running,
                                          HR__CLAIMED) ||
           running == HR__CLAIMED;
}

void hr__task_unclaim(struct hr__task *task)
{
    struct hr__slot *slot = slot_of(task);
    const struct hr__work *w = slot->work;

    if (!w->job->dev->engines[slot - w->slots]->host)
        atomic_store(&slot->state, HR__RUNNING);
}

bool hr__task_may_leave(const struct hr__task *task)
{
    const struct hr__slot *slot = (const struct hr__slot *)task;

    return !task->copy.memory &&
           hr__may_fall_back(slot->work, (int)(slot - slot->work->slots));
}

bool hr__task_is_timed(const struct hr__task *task)
{
    return hr__work_of(task)->job->deadline < INT64_MAX;
}
