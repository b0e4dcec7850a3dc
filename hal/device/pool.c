// SPDX-License-Identifier: Apache-2.0
// Buffers by size class, kept when free, so that a steady state allocates
// nothing. Classes are powers of two from 4 KiB; the cap bounds what is kept.
#include "hal/device/device.h"

// In front of the memory a buffer hands out; one cache line, for alignment.
struct hr__pool_buffer {
    struct hr__pool_buffer *next;
    int class;
};
enum { HEADER = 64, CLASS_0 = 12 };

static int size_class(size_t size)
{
    int class = 0;

    while (((size_t)1 << (class + CLASS_0)) < size)
        class ++;
    return class;
}

void hr__pool_init(struct hr__pool *pool, struct hr__device *dev, size_t cap)
{
    *pool = (struct hr__pool){.dev = dev, .cap = cap};
    pthread_mutex_init(&pool->lock, NULL);
}

void hr__pool_finish(struct hr__pool *pool)
{
    for (size_t i = 0; i < sizeof(pool->free) / sizeof(*pool->free); i++) {
        struct hr__pool_buffer *b;

        while ((b = pool->free[i])) {
            pool->free[i] = b->next;
            hr__free(b);
        }
    }
    pthread_mutex_destroy(&pool->lock);
}

void *hr__pool_get(struct hr__pool *pool, size_t size)
{
    struct hr__pool_buffer *b;
    int class;

    if (size > (size_t)1 << 46)
        return NULL;
    class = size_class(size + HEADER);
    pthread_mutex_lock(&pool->lock);
    if ((b = pool->free[class])) {
        pool->free[class] = b->next;
        pool->cached -= (size_t)1 << (class + CLASS_0);
    }
    pthread_mutex_unlock(&pool->lock);
    if (!b && !(b = hr__alloc(pool->dev, (size_t)1 << (class + CLASS_0))))
        return NULL;
    b->class = class;
    return (char *)b + HEADER;
}

void hr__pool_put(struct hr__pool *pool, void *mem)
{
    struct hr__pool_buffer *b;
    size_t size;

    if (!mem)
        return;
    b = (struct hr__pool_buffer *)((char *)mem - HEADER);
    size = (size_t)1 << (b->class + CLASS_0);
    pthread_mutex_lock(&pool->lock);
    if (pool->cached + size <= pool->cap) {
        b->next = pool->free[b->class];
        pool->free[b->class] = b;
        pool->cached += size;
        b = NULL;
    }
    pthread_mutex_unlock(&pool->lock);
    hr__free(b);
}
