// SPDX-License-Identifier: Apache-2.0
// On the guard's clock thread: the end of batches that the device is done with.
// Nothing here calls OpenCL.
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
    ocl_deliver(o, batch);
    ocl_pinned_release(&o->pinned, batch);
    pthread_mutex_lock(&o->guard.lock);
    batch->num_items = 0;
    batch->state = OCL_FREE;
    pthread_cond_signal(&o->guard.threads[0].wake);
}

bool ocl_complete(void *owner)
{
    struct ocl *o = owner;
    struct ocl_batch *batch = ocl_batch_find(o, OCL_DONE);

    if (batch)
        complete(o, batch);
    return batch;
}
