// SPDX-License-Identifier: Apache-2.0
// On the guard's clock thread: the pictures of batches that the device is done
// with are copied from pinned memory to the tensors, and their tasks end.
// Nothing here calls OpenCL.
#include <string.h>

#include "backends/opencl/keep.h"
#include "backends/opencl/opencl.h"

// Batches that were enqueued behind this one have had to wait for it: their
// clocks start now. Locked
static void start_clocks(struct ocl *o, const struct ocl_batch *done)
{
    int64_t now = hr__now();

    for (int i = 0; i < OCL_BATCHES; i++) {
        struct ocl_batch *batch = &o->batch[i];

        if (batch->state != OCL_SENT || batch->since < done->since)
            continue;
        batch->since = now;
        for (int k = 0; k < batch->num_items; k++)
            hr__task_begun(batch->items[k].task);
    }
}

// ---- To the tensors --------------------------------------------------------

static void copy_tensor(struct ocl *o, const struct ocl_batch *batch,
                        const struct hr__dst *d, const uint8_t *from)
{
    int64_t begin = hr__watch_begin();
    size_t size;
    struct hr__dst packed = ocl_packed(d, &size);
    bool planar = d->layout == HR_NCHW;

    for (int c = 0; c < (planar ? d->c : 1); c++)
        ocl_copy_rows(d->data + (planar ? d->stride_c * (size_t)c : 0),
                      d->stride_h, from + packed.stride_c * (size_t)c,
                      packed.stride_h, packed.stride_h, d->h);
    hr__engine_ref_part(&o->guard.ref, HR_PART_DELIVER, batch->times.number,
                        begin);
}

static void to_tensors(struct ocl *o, struct ocl_batch *batch)
{
    struct hr__outcome out = {.offset = -1,
                              .stage = HR_STORE,
                              .text = "the device leaves its entropy coding"};

    for (int i = 0; i < batch->num_items; i++) {
        struct ocl_item *item = &batch->items[i];
        struct hr__task *task = item->task;

        out.status = HR_OK;
        out.why = 0;
        // It was given up, and only its end is missing.
        if (item->dropped || !hr__task_claim(task))
            out.status = HR_ETIMEDOUT;
        else if ((out.why = ocl_entropy_failed(item, batch->down.host)))
            out.status = HR_EDEVICE;
        else if (task->copy.to)
            memcpy(task->copy.to,
                   (const uint8_t *)batch->down.host + item->out_at,
                   task->copy.size);
        else if (!task->copy.memory && !item->dst && batch->num_downs <= 0)
            copy_tensor(o, batch, &task->pic->dst,
                        (const uint8_t *)batch->down.host + item->out_at);
        hr__task_done(task, &out);
    }
}

// ---- The end of a batch ----------------------------------------------------

// The lock is held; it is not while the pictures are copied.
static void complete(struct ocl *o, struct ocl_batch *batch)
{
    struct hr__task *failed = NULL;
    struct ocl_fault fault = {0};
    int n = batch->num_items;

    batch->state = OCL_DELIVERING;
    ocl_batch_late_done(o, batch);
    start_clocks(o, batch);
    // A batch that was given up has had its strike.
    if (ocl_failed(&fault, batch->result, "a batch")) {
        failed = ocl_batch_take(batch, 0);
        hr__guard_failed(&o->guard, fault.why, n);
    } else if (n) {
        hr__guard_worked(&o->guard);
    }
    pthread_mutex_unlock(&o->guard.lock);
    // Perhaps it failed because of what it imported.
    if (failed && batch->num_externals && !(fault.why & HR_WHY_LOST))
        ocl_import_give_up(o, &fault);
    // Its commands have run: surfaces need not be held during the delivery.
    ocl_import_release(batch);
    ocl_tasks_failed(o, failed, &fault);
    to_tensors(o, batch);
    ocl_pinned_release(&o->pinned, batch);
    ocl_keep_done(o, batch, batch->result == CL_COMPLETE);
    pthread_mutex_lock(&o->guard.lock);
    batch->num_items = 0;
    batch->state = OCL_FREE;
    pthread_cond_signal(&o->guard.lanes[0].wake);
}

bool ocl_complete(void *owner)
{
    struct ocl *o = owner;
    struct ocl_batch *batch = ocl_batch_find(o, OCL_DONE);

    if (batch)
        complete(o, batch);
    return batch;
}
