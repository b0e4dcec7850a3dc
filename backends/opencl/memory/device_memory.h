// SPDX-License-Identifier: Apache-2.0
// Memory of images and batches in OpenCL objects, and copies of it.
#ifndef HR_OPENCL_DEVICE_MEMORY_H
#define HR_OPENCL_DEVICE_MEMORY_H

#include "backends/opencl/opencl.h"

// ---- device_memory.c -------------------------------------------------------

// Memory of one image or batch.
struct ocl_memory {
    struct hr__memory pub;  // first
    struct ocl_slab *slab;
    struct ocl_memory *next;  // free in its slab; Locked
};

struct ocl_slab {
    struct ocl_slab *next;  // Locked
    struct ocl_buffer buffer;
    cl_context context;  // that it was made in
    size_t block;        // bytes of each of num, if there are several
    int num;
    int used;     // Locked
    bool listed;  // Locked
    struct ocl_memory *free;
    struct ocl_memory blocks[];
};

struct hr__memory *ocl_memory_alloc(struct hr__engine *e, enum hr_memory kind,
                                    size_t size, bool clears, bool own_object,
                                    int64_t deadline);
void ocl_memory_free(struct hr__engine *e, struct hr__memory *memory);

// Does all requests, on the driver thread; fails them, if fault is not NULL.
void ocl_memory_serve(struct ocl *o, const struct ocl_fault *fault);
// Called when there is a (new) context.
void ocl_memory_renew(struct ocl *o);
// Releases everything, while the queues are still there.
void ocl_memory_close(struct ocl *o);
// The object that the memory lies in. NULL: it was lost with its context. The
// task that names the memory is claimed.
cl_mem ocl_memory_object(const struct ocl *o, const struct hr__memory *memory);

// ---- copy.c ----------------------------------------------------------------

// Does the same as ocl_run_batch(), for tasks that are copies.
bool ocl_run_copies(struct ocl *o, struct ocl_batch *batch,
                    struct hr__task **rest, struct ocl_fault *fault);

#endif
