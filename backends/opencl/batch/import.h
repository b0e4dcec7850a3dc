// SPDX-License-Identifier: Apache-2.0
// Memory of other engines, read where it lies.
#ifndef HR_OPENCL_IMPORT_H
#define HR_OPENCL_IMPORT_H

#include <stdatomic.h>

#include "backends/opencl/batch/batch.h"

struct ocl_facts;  // a device as its driver describes it

// ---- import.c --------------------------------------------------------------

enum { OCL_IMPORTS = 32 };

struct ocl_import {
    cl_mem mem, chroma;  // two images
    struct hr__external of;
};

// Acquires or releases objects, as the extension has both.
typedef cl_int(CL_API_CALL *ocl_acquire_fn)(cl_command_queue, cl_uint,
                                            const cl_mem *, cl_uint,
                                            const cl_event *, cl_event *);

struct ocl_imports {
    atomic_bool failed, on;  // failed: for good; on: in this context
    ocl_acquire_fn acquire, release;
    void (*from_surface)(void);  // clCreateFromVA_APIMediaSurfaceINTEL
    // By the place of the surface. An import whose surface is gone stays until
    // another surface has its place, or the device is closed.
    struct ocl_import of[OCL_IMPORTS];
};

// Called on the driver thread, when the context opens and closes.
void ocl_import_open(struct ocl *o);
void ocl_import_close(struct ocl *o);
unsigned ocl_import_kinds(struct hr__engine *e);
// Nothing is imported from now on; counted.
void ocl_import_give_up(struct ocl *o, const struct ocl_fault *fault);
// Makes objects for all surfaces that a batch shall read, before it is planned.
// False: the driver did not answer, as ocl_leave().
bool ocl_import_all(struct ocl *o, struct ocl_batch *batch);
// The object of a claimed payload. NULL: it goes through the host.
struct ocl_import *ocl_import_of(struct ocl *o, const struct hr__payload *in);
// While its task is claimed: the batch holds the item's memory, too, until it
// releases all it holds. forget: it never does, a driver may still read.
void ocl_import_retain(struct ocl_batch *batch, struct ocl_item *item,
                       const struct hr__payload *in);
void ocl_import_release(struct ocl_batch *batch);
void ocl_import_forget(struct ocl_batch *batch);
// Gives its items their places in the upload, from byte base on.
void ocl_import_arrange(struct ocl_batch *batch, size_t base);
// Enqueues a batch's imports in the upload queue. done: the last command's
// event, if there is any.
bool ocl_import_enqueue(struct ocl *o, struct ocl_batch *batch, cl_mem to,
                        cl_event *done, struct ocl_fault *fault);

// ---- surface.c (on the driver thread) --------------------------------------

// Sets facts->shares.
void ocl_surface_find(struct ocl *o, struct ocl_facts *facts, int n);
// Writes the properties that a context needs for that; how many words, 0: none.
int ocl_surface_properties(const struct ocl *o, cl_context_properties *to);
// Says whether surfaces can be imported, once the context is open.
bool ocl_surface_open(struct ocl *o);
// Makes images of m->of. False: the fault says why.
bool ocl_surface_import(struct ocl *o, struct ocl_import *m,
                        struct ocl_fault *fault);

#endif
