// SPDX-License-Identifier: Apache-2.0
// Memory that engines allocate for images and batches.
#include "hal/device/device.h"

struct hr__engine *hr__memory_owner(struct hr__device *dev)
{
    for (int i = 0; i < dev->num_engines; i++)
        if (dev->engines[i]->backend->memory_alloc)
            return dev->engines[i];
    return NULL;
}

enum hr_status hr__memory_alloc(struct hr__device *dev, enum hr_memory kind,
                                size_t size, bool clear, bool own_object,
                                struct hr__memory **made)
{
    struct hr__engine *e = hr__memory_owner(dev);
    int64_t deadline = hr__deadline(dev->pub.params.deadline_ns);

    *made = NULL;
    if (!e)
        return HR_OK;
    *made = e->backend->memory_alloc(e, kind, size, clear, own_object,
                                     deadline);
    return *made ? HR_OK : hr_last_status();
}

void hr__memory_free(struct hr__memory *memory)
{
    if (memory)
        memory->owner->backend->memory_free(memory->owner, memory);
}
