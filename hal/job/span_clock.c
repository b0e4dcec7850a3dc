// SPDX-License-Identifier: Apache-2.0
// The clock of a span runs from when the engine takes it up. Before that it
// waits behind others, and those have clocks of their own: it is overdue only
// if the engine has begun and ended nothing for as long as one span may take.
#include "hal/job/work.h"

static struct hr__engine *engine_of(const struct hr__slot *slot)
{
    return slot->work->job->dev->engines[slot - slot->work->slots];
}

// 0: for ever, as for the host.
static int64_t allowed(const struct hr__slot *slot)
{
    const struct hr__engine *e = engine_of(slot);

    return e->host ? 0 : e->params.deadline_ns;
}

static void set_clock(struct hr__slot *slot, bool waits)
{
    int64_t ns = allowed(slot), deadline = ns ? hr__deadline(ns) : 0;

    atomic_store(&slot->deadline, waits ? -deadline : deadline);
}

void hr__clock_start(struct hr__slot *slot, int64_t latest)
{
    atomic_store(&slot->work->latest, latest);
    set_clock(slot, true);
}

void hr__clock_alive(const struct hr__slot *slot)
{
    atomic_store(&slot->work->job->dev->alive[engine_of(slot)->index],
                 hr__now());
}

void hr__task_begun(struct hr__task *task)
{
    struct hr__slot *slot = (struct hr__slot *)task;

    set_clock(slot, false);
    hr__clock_alive(slot);
}

void hr__task_waits(struct hr__task *task)
{
    struct hr__slot *slot = (struct hr__slot *)task;
    struct hr__device *dev = slot->work->job->dev;

    set_clock(slot, true);
    // So does what an engine in front cannot take up while such tasks have its
    // memory.
    for (int i = engine_of(slot)->index; i-- > 0;)
        atomic_store(&dev->alive[i], hr__now());
}

bool hr__clock_over(const struct hr__slot *slot, int64_t now)
{
    int64_t deadline = atomic_load(&slot->deadline), alive;

    if (!deadline)
        return false;
    if (atomic_load(&slot->work->latest) <= now)
        return true;
    if (deadline > 0)
        return deadline <= now;
    alive = atomic_load(&slot->work->job->dev->alive[engine_of(slot)->index]);
    // (It may have been seen alive since `now`.)
    return -deadline <= now && alive <= now && now - alive >= allowed(slot);
}
