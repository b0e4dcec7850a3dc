// SPDX-License-Identifier: Apache-2.0
// The memory of batches on their way, and the three queues they go through.
// Buffers grow to what is needed and stay: a steady state makes none.
#include <string.h>

#include "backends/opencl/opencl.h"

// Below this, growing is not worth a new buffer each time.
enum { SMALLEST = 1 << 20 };

void ocl_buffer_drop(struct ocl *o, struct ocl_buffer *b)
{
    // Commands in flight keep the memory until they have run.
    if (b->host)
        o->api.clEnqueueUnmapMemObject(o->queues[OCL_UPLOAD], b->mem, b->host,
                                       0, NULL, NULL);
    if (b->mem)
        o->api.clReleaseMemObject(b->mem);
    hr__engine_ref_bytes(&o->guard.ref, -(int64_t)b->size);
    *b = (struct ocl_buffer){0};
}

static size_t round_up(size_t size, size_t most)
{
    size_t n = SMALLEST;

    // By halves, so that little is wasted and it does not grow every time.
    while (n < size)
        n += n / 2;
    n = (n + 4095) & ~(size_t)4095;
    return n < most ? n : most;
}

bool ocl_buffer_grow(struct ocl *o, struct ocl_buffer *b, size_t size,
                     bool pinned, struct ocl_fault *fault)
{
    cl_mem_flags flags = CL_MEM_READ_WRITE;
    size_t most = b == &o->planes ? o->work_bytes : o->slot_bytes;
    cl_int err;

    if (b->mem && b->size >= size)
        return true;
    ocl_buffer_drop(o, b);
    size = round_up(size, most);
    b->mem = o->api.clCreateBuffer(o->context,
                                   flags | (pinned ? CL_MEM_ALLOC_HOST_PTR : 0),
                                   size, NULL, &err);
    if (ocl_failed(fault, err, "clCreateBuffer")) {
        b->mem = NULL;
        return false;
    }
    b->size = size;
    hr__engine_ref_bytes(&o->guard.ref, (int64_t)size);
    if (!pinned)
        return true;
    // Blocking, but rare: on the driver thread, when a buffer is made.
    b->host = o->api.clEnqueueMapBuffer(o->queues[OCL_UPLOAD], b->mem, CL_TRUE,
                                        CL_MAP_READ | CL_MAP_WRITE, 0, size, 0,
                                        NULL, NULL, &err);
    if (!ocl_failed(fault, err, "clEnqueueMapBuffer"))
        return true;
    b->host = NULL;
    ocl_buffer_drop(o, b);
    return false;
}

void ocl_slot_release_events(struct ocl *o, struct ocl_slot *slot)
{
    cl_event *events[] = {&slot->uploaded, &slot->computed, &slot->downloaded};

    ocl_times_read(o, slot);
    for (int i = 0; i < 3; i++) {
        if (*events[i])
            o->api.clReleaseEvent(*events[i]);
        *events[i] = NULL;
    }
}

bool ocl_ring_open(struct ocl *o, struct ocl_fault *fault)
{
    cl_command_queue_properties how = ocl_times_queue(o);
    cl_int err;

    for (int i = 0; i < OCL_QUEUES; i++) {
        o->queues[i] = o->api.clCreateCommandQueue(o->context, o->facts.device,
                                                   how, &err);
        if (ocl_failed(fault, err, "clCreateCommandQueue")) {
            o->queues[i] = NULL;
            return false;
        }
    }
    ocl_pinned_open(o);
    ocl_import_open(o);
    return true;
}

void ocl_ring_close(struct ocl *o)
{
    for (int i = 0; i < OCL_SLOTS; i++) {
        struct ocl_slot *slot = &o->slots[i];

        ocl_slot_release_events(o, slot);
        ocl_buffer_drop(o, &slot->up);
        ocl_buffer_drop(o, &slot->in);
        ocl_buffer_drop(o, &slot->out);
        ocl_buffer_drop(o, &slot->down);
    }
    ocl_buffer_drop(o, &o->planes);
    ocl_pinned_close(o);
    ocl_import_close(o);
    for (int i = 0; i < OCL_QUEUES; i++) {
        if (o->queues[i])
            o->api.clReleaseCommandQueue(o->queues[i]);
        o->queues[i] = NULL;
    }
}

// Nobody knows what still runs, and taking away what it maps crashes drivers:
// such buffers are left behind, and what comes next gets others. Slots that
// fly are left to their callbacks.
static void not_drained(struct ocl *o)
{
    for (int i = 0; i < OCL_SLOTS; i++) {
        struct ocl_slot *slot = &o->slots[i];
        bool ours;

        pthread_mutex_lock(&o->guard.lock);
        ours = slot->state == OCL_FREE || slot->state == OCL_BUSY;
        o->guard.lost = true;
        pthread_mutex_unlock(&o->guard.lock);
        if (!ours)
            continue;
        slot->up = slot->in = slot->out = slot->down = (struct ocl_buffer){0};
        slot->held = 0;  // for ever
        ocl_import_forget(slot);
    }
    hr__guard_log(&o->guard, HR_LOG_WARN,
                  "a queue cannot be waited for, buffers are left "
                  "behind");
}

bool ocl_ring_drain(struct ocl *o)
{
    bool ok = true;

    for (int i = 0; i < OCL_QUEUES; i++)
        ok &= !o->queues[i] || !o->api.clFinish(o->queues[i]);
    if (!ok)
        not_drained(o);
    return ok;
}

// ---- Slots -----------------------------------------------------------------

struct ocl_slot *ocl_find_slot(struct ocl *o, enum ocl_slot_state state)
{
    for (int i = 0; i < OCL_SLOTS; i++)
        if (o->slots[i].state == state)
            return &o->slots[i];
    return NULL;
}

struct hr__task *ocl_take_items(struct ocl_slot *slot, int from)
{
    struct hr__task *list = NULL;

    for (int i = slot->num_items - 1; i >= from; i--) {
        slot->items[i].task->next = list;
        list = slot->items[i].task;
    }
    slot->num_items = from;
    return list;
}
