// SPDX-License-Identifier: Apache-2.0
// Batches of copies between device memory and the host, through the batch's
// pinned buffers: the driver never gets the host's own pointers, so those may
// become invalid at any time.
#include <string.h>

#include "backends/opencl/memory/device_memory.h"

// One command. Copies that are neighbours both in device memory and in the
// batch's buffer share one.
struct run {
    cl_mem mem;
    size_t at, size;   // in mem
    size_t buffer_at;  // in the batch's buffer
    bool down;
};

struct runs {
    int n;
    struct run run[OCL_BATCH];
};

// ---- Which, and where in the buffers ---------------------------------------

// Places one copy in the transfers' buffers, at in_at and out_at. False: its
// task has been ended.
static bool place_one(struct ocl *o, struct ocl_item *item, size_t *up,
                      size_t *down)
{
    struct hr__task *task = item->task;
    const struct hr__copy *copy = &task->copy;
    size_t *end = copy->to ? down : up;

    if (!ocl_claim(task))
        return false;
    item->dst = ocl_memory_object(o, copy->memory);
    item->copy_at = copy->memory->native.offset + copy->at;
    hr__task_unclaim(task);
    if (!item->dst) {
        ocl_end_one(task, HR_EDEVICE, HR_WHY_FAILED | HR_WHY_LOST,
                    "its memory was lost with the device");
        return false;
    }
    item->in_at = item->out_at = *end;
    *end += copy->size;
    return true;
}

// Places all copies, as plan_batch(): tasks that do not fit go to *rest.
static void place_all(struct ocl *o, struct ocl_batch *batch,
                      struct hr__task **rest, size_t *up, size_t *down)
{
    int n = batch->num_items, kept = 0;

    *up = *down = 0;
    for (int i = 0; i < n; i++) {
        struct ocl_item item = batch->items[i];
        size_t size = item.task->copy.size;

        // Each alone fits, see copy_bytes.
        if (kept &&
            (*up + size > o->buffer_bytes || *down + size > o->buffer_bytes)) {
            *rest = ocl_batch_take(batch, i);
            break;
        }
        if (place_one(o, &item, up, down))
            batch->items[kept++] = item;
    }
    batch->num_items = kept;
}

static bool pack(struct ocl_batch *batch)
{
    bool some = false;

    for (int i = 0; i < batch->num_items; i++) {
        struct ocl_item *item = &batch->items[i];
        const struct hr__copy *copy = &item->task->copy;
        uint8_t *to = (uint8_t *)batch->up.host + item->in_at;

        if ((item->dropped = !hr__task_claim(item->task)))
            continue;
        hr__task_begun(item->task);
        some = true;
        if (copy->from)
            memcpy(to, copy->from, copy->size);
        else if (!copy->to)
            memset(to, 0, copy->size);
        hr__task_unclaim(item->task);
    }
    return some;
}

// ---- Commands --------------------------------------------------------------

static bool enqueue_run(struct ocl *o, struct ocl_batch *batch,
                        const struct run *r, cl_event *done,
                        struct ocl_fault *fault)
{
    struct ocl_buffer *buffer = r->down ? &batch->down : &batch->up;
    uint8_t *host = (uint8_t *)buffer->host + r->buffer_at;
    cl_command_queue q = o->queues[OCL_COMPUTE];
    cl_int err;

    atomic_fetch_add(&o->transfers, 1);
    if (r->down)
        err = o->api.clEnqueueReadBuffer(q, r->mem, CL_FALSE, r->at, r->size,
                                         host, 0, NULL, done);
    else
        err = o->api.clEnqueueWriteBuffer(q, r->mem, CL_FALSE, r->at, r->size,
                                          host, 0, NULL, done);
    return !ocl_failed(
        fault, err, r->down ? "clEnqueueReadBuffer" : "clEnqueueWriteBuffer");
}

static bool joins(const struct run *a, const struct run *b)
{
    return a->mem == b->mem && a->down == b->down && a->at + a->size == b->at &&
           a->buffer_at + a->size == b->buffer_at;
}

static void make_runs(const struct ocl_batch *batch, struct runs *runs)
{
    runs->n = 0;
    for (int i = 0; i < batch->num_items; i++) {
        const struct ocl_item *item = &batch->items[i];
        const struct hr__copy *copy = &item->task->copy;
        struct run next = {.mem = item->dst,
                           .at = item->copy_at,
                           .size = copy->size,
                           .buffer_at = item->in_at,
                           .down = copy->to};

        if (item->dropped)
            continue;
        if (runs->n && joins(&runs->run[runs->n - 1], &next))
            runs->run[runs->n - 1].size += next.size;
        else
            runs->run[runs->n++] = next;
    }
}

// Enqueues the copies in the order of their tasks, in the compute queue:
// device_memory.c gives the reason.
static bool enqueue(struct ocl *o, struct ocl_batch *batch,
                    const struct runs *runs, struct ocl_fault *fault)
{
    for (int i = 0; i < runs->n; i++) {
        bool last = i == runs->n - 1;

        if (!enqueue_run(o, batch, &runs->run[i],
                         last ? &batch->downloaded : NULL, fault))
            return false;
    }
    return true;
}

bool ocl_run_copies(struct ocl *o, struct ocl_batch *batch,
                    struct hr__task **rest, struct ocl_fault *fault)
{
    struct runs runs;
    size_t up, down;
    bool ok;

    place_all(o, batch, rest, &up, &down);
    if (!batch->num_items) {
        ocl_batch_end(o, batch, NULL);
        return true;
    }
    ocl_enter(o);
    ocl_batch_release_events(o, batch);
    ok = ocl_buffer_grow(o, &batch->up, ocl_aligned(up), true, fault) &&
         ocl_buffer_grow(o, &batch->down, ocl_aligned(down), true, fault);
    if (!ocl_leave(o) || !ok)
        return false;
    if (!pack(batch)) {
        ocl_batch_end(o, batch, NULL);
        return true;
    }
    // From here on the guard may take the items away at any time.
    make_runs(batch, &runs);
    ocl_enter(o);
    ok = enqueue(o, batch, &runs, fault);
    // Before it is sent, so that all is counted for a caller that has waited
    // for the last byte.
    if (ok)
        ocl_times_moved(o, up, down);
    ok = ocl_batch_send(o, batch, OCL_COMPUTE, ok, fault);
    ocl_leave(o);
    return ok;
}
