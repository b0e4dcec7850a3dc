// SPDX-License-Identifier: Apache-2.0
// Reports of a device to the trace: waits, jobs and bytes in flight.
#include "hal/device/device.h"

void hr__watch_wait(struct hr__device *dev, enum hr__wait what, uint64_t job,
                    int64_t begin)
{
    static const char *const names[] = {"wait for room", "wait for results"};
    struct hr__event event;

    if (!begin)
        return;
    event = hr__event(HR__EVENT_SPAN, names[what], begin, hr__now());
    event.job = job;
    hr__event_of_engine(&event, dev->engines[0]);
    hr__count(&dev->waits[what], 1);
    hr__count(&dev->wait_ns[what], (uint64_t)(event.end - begin));
    if (hr__traced())
        hr__trace(&event);
}

static void count_event(struct hr__device *dev, const char *name, int64_t value)
{
    struct hr__event event = hr__event(HR__EVENT_COUNTER, name, hr__now(),
                                       value);

    // Not while it is being opened.
    if (!dev->num_engines)
        return;
    hr__event_of_engine(&event, dev->engines[0]);
    hr__trace(&event);
}

void hr__watch_jobs(struct hr__device *dev)
{
    if (dev->num_jobs > dev->peak_jobs)
        dev->peak_jobs = dev->num_jobs;
    if (dev->num_samples > dev->peak_samples)
        dev->peak_samples = dev->num_samples;
    if (hr__traced())
        count_event(dev, "jobs in flight", dev->num_jobs);
}

void hr__watch_bytes(struct hr__device *dev)
{
    if (hr__traced())
        count_event(dev, "bytes in flight", (int64_t)dev->used);
}
