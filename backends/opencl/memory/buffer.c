// SPDX-License-Identifier: Apache-2.0
// Buffers of the device, pinned or not. They grow to what is needed and stay:
// a steady state makes none.
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

bool ocl_buffer_make(struct ocl *o, struct ocl_buffer *b, size_t size,
                     bool pinned, struct ocl_fault *fault)
{
    cl_mem_flags flags = CL_MEM_READ_WRITE |
                         (pinned ? CL_MEM_ALLOC_HOST_PTR : 0);
    cl_int err;

    b->mem = o->api.clCreateBuffer(o->context, flags, size, NULL, &err);
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

size_t ocl_buffer_most(const struct ocl *o, const struct ocl_buffer *b)
{
    return b == &o->planes ? o->work_bytes : o->buffer_bytes;
}

bool ocl_buffer_grow(struct ocl *o, struct ocl_buffer *b, size_t size,
                     bool pinned, struct ocl_fault *fault)
{
    size_t most = ocl_buffer_most(o, b), n = SMALLEST;

    if (b->mem && b->size >= size)
        return true;
    ocl_buffer_drop(o, b);
    // By halves, so that little is wasted and it does not grow every time. (A
    // batch that is cut may need a little more than `most`: weights of the
    // picture that has left it stay.)
    while (n < size)
        n += n / 2;
    n = n < most ? n : most;
    n = n < size ? size : n;
    return ocl_buffer_make(o, b, (n + 4095) & ~(size_t)4095, pinned, fault);
}
