// SPDX-License-Identifier: Apache-2.0
// The context of a device and what is made in it: the three queues, the
// program, pinned memory, imports. It is opened again after a loss.
#include "backends/opencl/opencl.h"

// Bytes that a picture's file or coefficients take in the upload, in all but
// few.
#define RESERVED ((size_t)128 << 10)

// ---- Memory ----------------------------------------------------------------

// Sets how large a batch and its buffers may be.
static void set_limits(struct ocl *o)
{
    cl_ulong most = o->facts.global / 4;
    size_t n = o->budget >> 20;

    if (o->most)  // opened again: offers read these meanwhile
        return;
    n = n > OCL_BATCH ? OCL_BATCH : n < OCL_BATCH_LEAST ? OCL_BATCH_LEAST : n;
    if (o->facts.unified && n > OCL_LIST)
        n = OCL_LIST;
    most = most < o->facts.max_alloc ? most : o->facts.max_alloc;
    o->most = (int)n;
    o->work_bytes = most < n * OCL_PICTURE_WORK ? (size_t)most
                                                : n * OCL_PICTURE_WORK;
    o->buffer_bytes = most / 4 < n * OCL_PICTURE_BUFFER
                          ? (size_t)most / 4
                          : n * OCL_PICTURE_BUFFER;
}

// Reserves the memory that every batch needs. The rest grows with the first
// full batch, since results may stay in other memory. A failure is ignored: the
// device may have the memory when a batch comes.
static void reserve(struct ocl *o)
{
    size_t size = (size_t)o->most * RESERVED;
    struct ocl_fault fault = {0};
    bool ok = !o->facts.unified;

    size = size < o->buffer_bytes ? size : o->buffer_bytes;
    for (int i = 0; i < OCL_BATCHES && ok; i++)
        ok = ocl_buffer_grow(o, &o->batch[i].up, size, true, &fault) &&
             ocl_buffer_grow(o, &o->batch[i].in, size, false, &fault);
}

static bool make_files(struct ocl *o, struct ocl_fault *fault)
{
    size_t size = OCL_BATCH * sizeof(struct ocl_file);

    for (int i = 0; i < OCL_BATCHES && o->entropy; i++) {
        struct ocl_batch *batch = &o->batch[i];

        if (batch->files ||
            (batch->files = hr__engine_ref_alloc(&o->guard.ref, size)))
            continue;
        *fault = (struct ocl_fault){HR_WHY_MEMORY, "out of memory"};
        return false;
    }
    return true;
}

// ---- Opening ---------------------------------------------------------------

static bool try_context(struct ocl *o, struct ocl_fault *fault)
{
    cl_context_properties properties[8] = {
        CL_CONTEXT_PLATFORM, (cl_context_properties)o->facts.platform_id};
    cl_int err;

    o->knows_display = ocl_surface_properties(o, properties + 2) != 0;
    o->context = o->api.clCreateContext(properties, 1, &o->facts.device, NULL,
                                        NULL, &err);
    if (!ocl_failed(fault, err, "clCreateContext"))
        return true;
    o->context = NULL;
    return false;
}

static bool make_context(struct ocl *o, struct ocl_fault *fault)
{
    if (try_context(o, fault))
        return true;
    if (!o->knows_display)
        return false;
    // Perhaps the driver refused the display only.
    ocl_import_give_up(o, fault);
    *fault = (struct ocl_fault){0};
    return try_context(o, fault);
}

static bool make_queues(struct ocl *o, struct ocl_fault *fault)
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
    return true;
}

bool ocl_context_open(struct ocl *o, struct ocl_fault *fault)
{
    set_limits(o);
    if (!make_context(o, fault) || !make_queues(o, fault) ||
        !make_files(o, fault))
        return false;
    reserve(o);
    ocl_pinned_open(o);
    ocl_import_open(o);
    return ocl_program_open(o, fault);
}

void ocl_context_close(struct ocl *o)
{
    ocl_await_close(o);
    for (int i = 0; i < OCL_BATCHES; i++) {
        struct ocl_batch *batch = &o->batch[i];

        ocl_batch_release_events(o, batch);
        ocl_buffer_drop(o, &batch->up);
        ocl_buffer_drop(o, &batch->in);
        ocl_buffer_drop(o, &batch->out);
        ocl_buffer_drop(o, &batch->down);
    }
    ocl_buffer_drop(o, &o->planes);
    ocl_axes_drop(o, false);
    ocl_pinned_close(o);
    ocl_import_close(o);
    for (int i = 0; i < OCL_QUEUES; i++) {
        if (o->queues[i])
            o->api.clReleaseCommandQueue(o->queues[i]);
        o->queues[i] = NULL;
    }
    ocl_program_close(o);
    if (o->context)
        o->api.clReleaseContext(o->context);
    o->context = NULL;
}
