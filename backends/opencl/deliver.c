// SPDX-License-Identifier: Apache-2.0
// From pinned memory to where the tensors shall be.
#include <string.h>

#include "backends/opencl/opencl.h"

static void copy_plane(uint8_t *to, size_t to_stride, const uint8_t *from,
                       size_t from_stride, int rows)
{
    if (to_stride == from_stride) {
        memcpy(to, from, from_stride * (size_t)rows);
        return;
    }
    for (int y = 0; y < rows; y++)
        memcpy(to + to_stride * (size_t)y, from + from_stride * (size_t)y,
               from_stride);
}

static void copy_tensor(const struct hr__dst *d, const uint8_t *from)
{
    size_t size;
    struct hr__dst packed = ocl_packed(d, &size);
    bool planar = d->layout == HR_NCHW;

    if (d->stride_h == packed.stride_h &&
        (!planar || d->c == 1 || d->stride_c == packed.stride_c)) {
        memcpy(d->data, from, size);
        return;
    }
    for (int c = 0; c < (planar ? d->c : 1); c++)
        copy_plane(d->data + (planar ? d->stride_c * (size_t)c : 0),
                   d->stride_h, from + packed.stride_c * (size_t)c,
                   packed.stride_h, d->h);
}

static void deliver_one(struct ocl *o, const struct ocl_slot *slot,
                        const struct hr__dst *d, const uint8_t *from)
{
    int64_t begin = hr__watch_begin();

    copy_tensor(d, from);
    ocl_times_host(o, slot, HR_PART_DELIVER, begin);
}

void ocl_deliver(struct ocl *o, struct ocl_slot *slot)
{
    struct hr__outcome out = {.offset = -1, .stage = HR_STORE};

    for (int i = 0; i < slot->num_items; i++) {
        struct ocl_item *item = &slot->items[i];
        struct hr__task *task = item->task;

        out.status = HR_OK;
        // Given up: its end is all that is left to say.
        if (item->dropped || !hr__task_claim(task))
            out.status = HR_ETIMEDOUT;
        else if (task->copy.to)
            memcpy(task->copy.to,
                   (const uint8_t *)slot->down.host + item->out_at,
                   task->copy.size);
        else if (!task->copy.memory && !item->dst)
            deliver_one(o, slot, &task->pic->dst,
                        (const uint8_t *)slot->down.host + item->out_at);
        hr__task_done(task, &out);
    }
}
