// SPDX-License-Identifier: Apache-2.0
// Memory of engines: who makes it, and what users are told of it.
#include <string.h>

#include "hal/hal.h"

static struct hr__engine *owner_of(struct hr__device *dev)
{
    for (int i = 0; i < dev->num_engines; i++)
        if (dev->engines[i]->backend->memory_alloc)
            return dev->engines[i];
    return NULL;
}

enum hr_status hr__memory_alloc(struct hr__device *dev, enum hr_memory kind,
                                size_t size, bool clear, bool apart,
                                struct hr__memory **made)
{
    struct hr__engine *e = owner_of(dev);
    int64_t deadline = hr__deadline(dev->pub.params.deadline_ns);

    *made = NULL;
    if (!e)
        return HR_OK;
    *made = e->backend->memory_alloc(e, kind, size, clear, apart, deadline);
    return *made ? HR_OK : hr_last_status();
}

void hr__memory_free(struct hr__memory *memory)
{
    if (memory)
        memory->owner->backend->memory_free(memory->owner, memory);
}

enum hr_status hr_device_native(hr_device handle, struct hr_native_device *out)
{
    struct hr__device *dev;
    struct hr__engine *e;

    if (!out)
        return hr__fail(HR_EINVAL, "no struct to fill in");
    memset(out, 0, sizeof(*out));
    if (!(dev = hr__device_get(handle)))
        return hr_last_status();
    if ((e = owner_of(dev)) && e->backend->native)
        e->backend->native(e, out);
    hr__device_unref(dev);
    return HR_OK;
}
