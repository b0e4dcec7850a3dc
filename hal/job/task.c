// SPDX-License-Identifier: Apache-2.0
// The calls of an engine about a task that it holds. The end of a task, and
// what follows it, is in work.c; its clock in span_clock.c.
#include <stdio.h>

#include "hal/job/work.h"

static struct hr__engine_task *et_of(struct hr__task *task)
{
    return (struct hr__engine_task *)task;
}

bool hr__task_stop(const struct hr__task *task)
{
    const struct hr__copy *copy = &task->copy;

    // Failed results are cleared even if their job is stopped.
    if (copy->memory && !copy->to && !copy->from)
        return false;
    // (Only the watchdog looks at the clock.)
    return hr__job_stops(hr__work_of(task)->job);
}

enum hr_status hr__task_stop_status(const struct hr__task *task)
{
    return hr__stop_status(hr__work_of(task)->job);
}

bool hr__task_claim(struct hr__task *task)
{
    int running = HR__RUNNING;

    return atomic_compare_exchange_strong(&et_of(task)->state, &running,
                                          HR__CLAIMED) ||
           running == HR__CLAIMED;
}

void hr__task_unclaim(struct hr__task *task)
{
    struct hr__engine_task *et = et_of(task);

    if (!hr__engine_of(et)->host)
        atomic_store(&et->state, HR__RUNNING);
}

bool hr__task_may_leave(const struct hr__task *task)
{
    const struct hr__engine_task *et = (const struct hr__engine_task *)task;

    return !task->copy.memory &&
           hr__may_fall_back(et->work, (int)(et - et->work->tasks));
}

bool hr__task_is_timed(const struct hr__task *task)
{
    return hr__work_of(task)->job->deadline < INT64_MAX;
}

void hr__tasks_failed(struct hr__task *list, unsigned why, const char *text)
{
    struct hr__outcome out = {.status = HR_EDEVICE, .why = why, .offset = -1};

    snprintf(out.text, sizeof(out.text), "%s", text);
    for (struct hr__task *next; list; list = next) {
        next = list->next;
        out.stage = list->span.first;
        hr__task_done(list, &out);
    }
}

void hr__tasks_stopped(struct hr__task *list)
{
    struct hr__outcome out = {.offset = -1};

    for (struct hr__task *next; list; list = next) {
        next = list->next;
        out.status = hr__task_stop_status(list);
        out.stage = list->span.first;
        hr__task_done(list, &out);
    }
}
