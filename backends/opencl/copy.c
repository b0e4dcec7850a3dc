// SPDX-License-Identifier: Apache-2.0
// Batches of copies between device memory and the host, through the slot's
// pinned buffers: the driver never has the host's own pointers, so they may be
// taken away from it at any time.
#include <string.h>

#include "backends/opencl/device_memory.h"

// One command; neighbours in memory that are neighbours in the slot share one.
struct run {
    cl_mem mem;
    size_t at, size;  // in mem
    size_t slot_at;   // in the slot's buffer
    bool down;
};

struct runs {
    int n;
    struct run run[OCL_BATCH];
};

// ---- Which, and where in the slot ----------------------------------------------

// False: it has been ended. in_at or out_at is where it lies in the slot.
static bool place_one(struct ocl *o, struct ocl_item *item, size_t *up,
                      size_t *down)
{
    struct hr__task *task = item->task;
    const struct hr__copy *copy = &task->copy;
    size_t *end = copy->to ? down : up;

    if (hr__task_stop(task)) {
        ocl_end_one(task, hr__task_stop_status(task), 0, "");
        return false;
    }
    if (!hr__task_claim(task)) {
        ocl_end_one(task, HR_ETIMEDOUT, HR_WHY_TIMEOUT, "");
        return false;
    }
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

// As plan_batch(): those that do not fit go to *rest.
static void place_all(struct ocl *o, struct ocl_slot *slot,
                      struct hr__task **rest, size_t *up, size_t *down)
{
    int n = slot->num_items, kept = 0;

    *up = *down = 0;
    for (int i = 0; i < n; i++) {
        struct ocl_item item = slot->items[i];
        size_t size = item.task->copy.size;

        // Each alone fits, see copy_bytes.
        if (kept &&
            (*up + size > o->slot_bytes || *down + size > o->slot_bytes)) {
            *rest = ocl_take_items(slot, i);
            break;
        }
        if (place_one(o, &item, up, down))
            slot->items[kept++] = item;
    }
    slot->num_items = kept;
}

static bool pack(struct ocl_slot *slot)
{
    bool some = false;

    for (int i = 0; i < slot->num_items; i++) {
        struct ocl_item *item = &slot->items[i];
        const struct hr__copy *copy = &item->task->copy;
        uint8_t *to = (uint8_t *)slot->up.host + item->in_at;

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

// ---- Commands --------------------------------------------------------------------

static bool enqueue_run(struct ocl *o, struct ocl_slot *slot,
                        const struct run *r, cl_event *done,
                        struct ocl_fault *fault)
{
    cl_command_queue q = o->queues[OCL_COMPUTE];

    atomic_fetch_add(&o->transfers, 1);
    if (r->down)
        return !ocl_failed(
            fault,
            o->api.clEnqueueReadBuffer(q, r->mem, CL_FALSE, r->at, r->size,
                                       (uint8_t *)slot->down.host + r->slot_at,
                                       0, NULL, done),
            "clEnqueueReadBuffer");
    return !ocl_failed(
        fault,
        o->api.clEnqueueWriteBuffer(q, r->mem, CL_FALSE, r->at, r->size,
                                    (uint8_t *)slot->up.host + r->slot_at, 0,
                                    NULL, done),
        "clEnqueueWriteBuffer");
}

static bool joins(const struct run *a, const struct run *b)
{
    return a->mem == b->mem && a->down == b->down && a->at + a->size == b->at &&
           a->slot_at + a->size == b->slot_at;
}

static void make_runs(const struct ocl_slot *slot, struct runs *runs)
{
    runs->n = 0;
    for (int i = 0; i < slot->num_items; i++) {
        const struct ocl_item *item = &slot->items[i];
        const struct hr__copy *copy = &item->task->copy;
        struct run next = {.mem = item->dst,
                           .at = item->copy_at,
                           .size = copy->size,
                           .slot_at = item->in_at,
                           .down = copy->to};

        if (item->dropped)
            continue;
        if (runs->n && joins(&runs->run[runs->n - 1], &next))
            runs->run[runs->n - 1].size += next.size;
        else
            runs->run[runs->n++] = next;
    }
}

// In the order in which they came, and in the compute queue: device_memory.c
// says why.
static bool enqueue(struct ocl *o, struct ocl_slot *slot,
                    const struct runs *runs, struct ocl_fault *fault)
{
    for (int i = 0; i < runs->n; i++) {
        bool last = i == runs->n - 1;

        if (!enqueue_run(o, slot, &runs->run[i],
                         last ? &slot->downloaded : NULL, fault))
            return false;
    }
    return true;
}

bool ocl_run_copies(struct ocl *o, struct ocl_slot *slot,
                    struct hr__task **rest, struct ocl_fault *fault)
{
    struct runs runs;
    size_t up, down;
    bool ok;

    place_all(o, slot, rest, &up, &down);
    if (!slot->num_items) {
        ocl_nothing_left(o, slot);
        return true;
    }
    ocl_enter(o);
    ocl_slot_release_events(o, slot);
    ok = ocl_buffer_grow(o, &slot->up, ocl_aligned(up), true, fault) &&
         ocl_buffer_grow(o, &slot->down, ocl_aligned(down), true, fault);
    if (!ocl_leave(o) || !ok)
        return false;
    if (!pack(slot)) {
        ocl_nothing_left(o, slot);
        return true;
    }
    // When it is entered the items may be taken away at any time.
    make_runs(slot, &runs);
    ocl_enter(o);
    ok = enqueue(o, slot, &runs, fault);
    // Before it departs: who has waited for the last byte finds all counted.
    if (ok)
        ocl_times_moved(o, up, down);
    ok = ocl_depart(o, slot, OCL_COMPUTE, ok, fault);
    ocl_leave(o);
    return ok;
}
