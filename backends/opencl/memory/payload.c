// SPDX-License-Identifier: Apache-2.0
// Memory of payloads, that is of what the CPU leaves for this engine. It is
// kept by size, so that a steady state allocates nothing; and no more than
// KEEP, so that a burst of large pictures does not take memory for ever.
#include <string.h>

#include "backends/opencl/opencl.h"

// Lies in front of what is handed out; a cache line, for alignment.
struct ocl_block {
    struct ocl_block *next;
    size_t size;  // with this header
};
enum { HEADER = 64, SMALLEST_SHIFT = 14 };
#define KEEP ((size_t)96 << 20)

size_t ocl_round_size(size_t size, int *class)
{
    size_t step = (size_t)1 << (SMALLEST_SHIFT - 2), at = 4 * step;
    int n = 0;

    while (at < size) {
        at += step;
        if (++n % 4 == 0)
            step *= 2;
    }
    if (class)
        *class = n;
    return at;
}

void *ocl_buffer_alloc(struct hr__engine *e, size_t size)
{
    struct ocl_pool *pool = &ocl_of(e)->pool;
    void *pinned = ocl_pinned_alloc(&ocl_of(e)->pinned, size);
    struct ocl_block *b;
    size_t rounded;
    int class;

    if (pinned)
        return pinned;
    if (size > (size_t)1 << 40)
        return NULL;
    rounded = ocl_round_size(size + HEADER, &class);
    pthread_mutex_lock(&pool->lock);
    if ((b = pool->free[class])) {
        pool->free[class] = b->next;
        pool->kept -= b->size;
    }
    pthread_mutex_unlock(&pool->lock);
    if (!b && !(b = hr__alloc(e->device, rounded)))
        return NULL;
    b->size = rounded;
    return (char *)b + HEADER;
}

void ocl_buffer_free(struct hr__engine *e, void *data, size_t size)
{
    struct ocl_pool *pool = &ocl_of(e)->pool;
    struct ocl_block *b;
    int class;

    (void)size;
    if (!data || ocl_pinned_free(&ocl_of(e)->pinned, data))
        return;
    b = (struct ocl_block *)((char *)data - HEADER);
    ocl_round_size(b->size, &class);
    pthread_mutex_lock(&pool->lock);
    if (pool->kept + b->size <= KEEP) {
        pool->kept += b->size;
        b->next = pool->free[class];
        pool->free[class] = b;
        b = NULL;
    }
    pthread_mutex_unlock(&pool->lock);
    hr__free(b);
}

bool ocl_host_grow(struct hr__engine_ref *ref, uint8_t **data, size_t *capacity,
                   size_t used, size_t size, size_t least)
{
    size_t n = *capacity ? *capacity : least;
    uint8_t *to;

    if (size <= *capacity)
        return true;
    while (n < size)
        n *= 2;
    if (!(to = hr__engine_ref_alloc(ref, n)))
        return false;
    if (used)
        memcpy(to, *data, used);
    hr__free(*data);
    *data = to;
    *capacity = n;
    return true;
}

void ocl_pool_init(struct ocl_pool *pool)
{
    pthread_mutex_init(&pool->lock, NULL);
}

void ocl_pool_finish(struct ocl_pool *pool)
{
    for (int i = 0; i < OCL_CLASSES; i++) {
        struct ocl_block *b;

        while ((b = pool->free[i])) {
            pool->free[i] = b->next;
            hr__free(b);
        }
    }
    pthread_mutex_destroy(&pool->lock);
}
