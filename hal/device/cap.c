// SPDX-License-Identifier: Apache-2.0
// The cap on the host's CPU time, and what the schedule must know of a chain's
// engines.
#include "hal/device/device.h"

enum { LISTS = 3 };  // that an engine with lists works at, if it does not say

static void describe_load(struct hr__engine_load *l, const struct hr__engine *e)
{
    int batch = e->caps.batch > 1 ? e->caps.batch : 1;

    l->unit = batch;
    l->depth = e->host     ? e->caps.threads
               : e->depth  ? e->depth
               : batch > 1 ? LISTS * batch
                           : 1;
}

void hr__schedule_device(struct hr__device *dev)
{
    struct hr__schedule *s = &dev->schedule;

    hr__schedule_init(s, dev->num_engines);
    for (int i = 0; i < dev->num_engines; i++)
        describe_load(&s->engines[i], dev->engines[i]);
    s->allowance.milli = (int64_t)dev->pub.params.cpu_cap * 10 *
                         hr__usable_cores();
    s->allowance.filled = hr__now();
}

int64_t hr__host_rest(struct hr__engine *e)
{
    struct hr__device *dev = e->device;
    int64_t now, rest;

    if (!e->params.cpu_cap)
        return 0;
    now = hr__now();
    pthread_mutex_lock(&dev->lock);
    hr__allowance_fill(&dev->schedule.allowance, now);
    rest = hr__allowance_wait(&dev->schedule.allowance);
    pthread_mutex_unlock(&dev->lock);
    return rest;
}

void hr__host_used(struct hr__engine *e, int64_t ns)
{
    pthread_mutex_lock(&e->device->lock);
    e->device->schedule.allowance.level -= ns;
    pthread_mutex_unlock(&e->device->lock);
}
