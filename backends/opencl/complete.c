// SPDX-License-Identifier: Apache-2.0
// Batches on their way back: the driver's callback marks the slot, and on the
// guard's clock thread the pictures go from pinned memory to where the tensors
// shall be. Nothing here calls OpenCL but the request for the callback.
#include <string.h>

#include "backends/opencl/opencl.h"

// ---- The way to the callback -----------------------------------------------

static void CL_CALLBACK on_downloaded(cl_event event, cl_int result, void *arg)
{
    struct ocl_slot *slot = arg;
    struct ocl *o = slot->o;

    (void)event;
    pthread_mutex_lock(&o->guard.lock);
    slot->result = result;
    slot->state = OCL_LANDED;
    pthread_cond_signal(&o->guard.clock);
    pthread_mutex_unlock(&o->guard.lock);
}

bool ocl_fly(struct ocl *o, struct ocl_slot *slot, struct ocl_fault *fault)
{
    cl_int err;

    // Before the callback is there: it may come at once, on this thread.
    pthread_mutex_lock(&o->guard.lock);
    slot->state = OCL_FLYING;
    slot->stuck = false;
    slot->since = hr__now();
    pthread_mutex_unlock(&o->guard.lock);
    err = o->api.clSetEventCallback(slot->downloaded, CL_COMPLETE,
                                    on_downloaded, slot);
    if (!ocl_failed(fault, err, "clSetEventCallback"))
        return true;
    pthread_mutex_lock(&o->guard.lock);
    slot->state = OCL_BUSY;
    pthread_mutex_unlock(&o->guard.lock);
    return false;
}

// What has been enqueued behind a batch that is through now has had to wait for
// it: its turn begins. Locked
static void start_clocks(struct ocl *o, const struct ocl_slot *through)
{
    int64_t now = hr__now();

    for (int i = 0; i < OCL_SLOTS; i++) {
        struct ocl_slot *slot = &o->slots[i];

        if (slot->state != OCL_FLYING || slot->since < through->since)
            continue;
        slot->since = now;
        for (int k = 0; k < slot->num_items; k++)
            hr__task_begun(slot->items[k].task);
    }
}

// ---- To the tensors --------------------------------------------------------

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

static void to_tensors(struct ocl *o, struct ocl_slot *slot)
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

// ---- The end of a batch ----------------------------------------------------

// The lock is held; it is not while the pictures are copied.
static void complete(struct ocl *o, struct ocl_slot *slot)
{
    struct hr__task *failed = NULL;
    struct ocl_fault fault = {0};
    int n = slot->num_items;

    slot->state = OCL_DELIVERING;
    start_clocks(o, slot);
    // A batch that was given up has had its strike.
    if (ocl_failed(&fault, slot->result, "a batch")) {
        failed = ocl_take_items(slot, 0);
        hr__guard_failed(&o->guard, fault.why, n);
    } else if (n) {
        hr__guard_worked(&o->guard);
    }
    pthread_mutex_unlock(&o->guard.lock);
    // Nobody knows whether it was for that.
    if (failed && slot->num_holds && !(fault.why & HR_WHY_LOST))
        ocl_import_give_up(o, &fault);
    // Its commands have run: surfaces need not wait for the delivery.
    ocl_import_let(slot);
    if (failed) {
        hr__guard_log(&o->guard, HR_LOG_WARN, "a batch failed: %s", fault.text);
        hr__tasks_failed(failed, fault.why, fault.text);
    } else {
        to_tensors(o, slot);
    }
    ocl_pinned_let(&o->pinned, slot);
    pthread_mutex_lock(&o->guard.lock);
    slot->num_items = 0;
    slot->state = OCL_FREE;
    pthread_cond_signal(&o->guard.lanes[0].wake);
}

bool ocl_complete(void *owner)
{
    struct ocl *o = owner;
    struct ocl_slot *slot = ocl_find_slot(o, OCL_LANDED);

    if (slot)
        complete(o, slot);
    return slot;
}
