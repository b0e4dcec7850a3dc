// SPDX-License-Identifier: Apache-2.0
// The clock of a span runs from when the engine takes it up. Before that it
// waits behind others, and those have clocks of their own: it is overdue only
// if the engine has begun and ended nothing for as long as one span may take.
#include "hal/job/work.h"

// 0: for ever, as for the host.
static int64_t allowed(const struct hr__engine_task *et)
{
    const struct hr__engine *e = hr__engine_of(et);

    return e->host ? 0 : e->params.deadline_ns;
}

static void set_clock(struct hr__engine_task *et, bool waits)
{
    int64_t ns = allowed(et), deadline = ns ? hr__deadline(ns) : 0;

    atomic_store(&et->deadline, waits ? -deadline : deadline);
}

void hr__clock_start(struct hr__engine_task *et, int64_t latest)
{
    atomic_store(&et->work->latest, latest);
    set_clock(et, true);
}

void hr__clock_alive(const struct hr__engine_task *et)
{
    atomic_store(&et->work->job->dev->alive[hr__engine_of(et)->index],
                 hr__now());
}

void hr__task_begun(struct hr__task *task)
{
    struct hr__engine_task *et = (struct hr__engine_task *)task;

    set_clock(et, false);
    hr__clock_alive(et);
}

void hr__task_defer(struct hr__task *task)
{
    struct hr__engine_task *et = (struct hr__engine_task *)task;
    struct hr__device *dev = et->work->job->dev;

    set_clock(et, true);
    // So does what an engine in front cannot take up while such tasks have its
    // memory.
    for (int i = hr__engine_of(et)->index; i-- > 0;)
        atomic_store(&dev->alive[i], hr__now());
}

bool hr__clock_over(const struct hr__engine_task *et, int64_t now)
{
    int64_t deadline = atomic_load(&et->deadline), alive;

    if (!deadline)
        return false;
    if (atomic_load(&et->work->latest) <= now)
        return true;
    if (deadline > 0)
        return deadline <= now;
    alive = atomic_load(&et->work->job->dev->alive[hr__engine_of(et)->index]);
    // (It may have been seen alive since `now`.)
    return -deadline <= now && alive <= now && now - alive >= allowed(et);
}
