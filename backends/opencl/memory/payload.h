// SPDX-License-Identifier: Apache-2.0
// Memory of payloads: on the heap, or pinned where the device can fetch it.
#ifndef HR_OPENCL_PAYLOAD_H
#define HR_OPENCL_PAYLOAD_H

#include <pthread.h>
#include <stdatomic.h>

#include "backends/opencl/batch/batch.h"

// ---- payload.c -------------------------------------------------------------

enum { OCL_CLASSES = 4 * 28 };

struct ocl_pool {
    pthread_mutex_t lock;  // taken alone
    struct ocl_block *free[OCL_CLASSES];
    size_t kept;
};

void ocl_pool_init(struct ocl_pool *pool);
void ocl_pool_finish(struct ocl_pool *pool);
// Rounds up to one of four sizes per power of two: little is wasted, and there
// are few sizes to look for. class: the number of that size; may be NULL.
size_t ocl_round_size(size_t size, int *class);
void *ocl_buffer_alloc(struct hr__engine *e, size_t size);
void ocl_buffer_free(struct hr__engine *e, void *data, size_t size);
// Memory for what kernels are told: room for `size` bytes at least, `least` the
// first time; `used` of them stay. False: no memory, and nothing has changed.
bool ocl_host_grow(struct hr__engine_ref *ref, uint8_t **data, size_t *capacity,
                   size_t used, size_t size, size_t least);

// ---- pinned.c --------------------------------------------------------------

enum { OCL_CHUNKS = 6 };
#define OCL_CHUNK_BYTES ((size_t)16 << 20)

struct ocl_chunk {
    struct ocl_buffer buffer;
    size_t used;
    int holders;   // payloads in it, and batches whose upload reads it
    bool retired;  // of a context that was closed
};

struct ocl_pinned {
    pthread_mutex_t lock;  // taken alone
    struct ocl_chunk chunks[OCL_CHUNKS];
    int filling;
    bool wanted;  // an allocation found no room
    atomic_bool on;
};

void ocl_pinned_init(struct ocl_pinned *p);
void ocl_pinned_finish(struct ocl_pinned *p);
// Returns pinned memory; NULL: there is no room, or the device fetches nothing.
void *ocl_pinned_alloc(struct ocl_pinned *p, size_t size);
// Frees pinned memory; false: the memory is not from here.
bool ocl_pinned_free(struct ocl_pinned *p, void *data);
// Says whether the device can fetch data.
bool ocl_pinned_has(struct ocl_pinned *p, const void *data);
// The batch holds the chunk of data, too, until it releases all it holds.
void ocl_pinned_retain(struct ocl_pinned *p, struct ocl_batch *batch,
                       const void *data);
void ocl_pinned_release(struct ocl_pinned *p, struct ocl_batch *batch);
// Called on the driver thread, when the context opens and closes; grow, before
// a batch, makes a chunk if one was wanted.
void ocl_pinned_open(struct ocl *o);
void ocl_pinned_close(struct ocl *o);
void ocl_pinned_grow(struct ocl *o);
// Joins a batch's pinned payloads to runs without gaps, and places the runs one
// behind the other in the upload, from byte base on. Returns where they end.
size_t ocl_pinned_arrange(struct ocl_batch *batch, size_t base);

#endif
