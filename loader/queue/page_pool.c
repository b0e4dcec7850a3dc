// SPDX-License-Identifier: Apache-2.0
#include "page_pool.h"

#include <stdint.h>
#include <sys/mman.h>

#include "hal/engine/base.h"

#define PAGE ((size_t)4 << 10)
#define LEAST ((size_t)256 << 10)  // a chunk
#define MOST ((size_t)8 << 20)     // and one that is more than what is needed
#define HUGE_FROM ((size_t)4 << 20)
#define USED ((uint32_t)1 << 31)

// Pages in runs, one behind the other. Adjacent free runs are merged during a
// search for pages.
struct hr__page_pool_chunk {
    struct hr__page_pool_chunk *next;
    char *memory;
    uint32_t pages, used;
    uint32_t runs[];  // [pages]: at the first page of each its length, and
                      // whether it is used
};

static size_t size_of(const struct hr__page_pool_chunk *chunk)
{
    return chunk->pages * PAGE;
}

// The pages behind `from` are touched now: memory that grows later, when others
// are long in use, would look like a leak. (Of the kernel, to which it goes
// back: the heap of each reader thread would keep the largest that it ever
// had.)
static struct hr__page_pool_chunk *make_chunk(size_t size, size_t from)
{
    size_t pages = size / PAGE;
    struct hr__page_pool_chunk *chunk;

    if (!(chunk = hr__alloc(NULL,
                            sizeof(*chunk) + pages * sizeof(*chunk->runs))))
        return NULL;
    chunk->next = NULL;
    chunk->memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunk->memory == MAP_FAILED) {
        hr__free(chunk);
        return NULL;
    }
    if (size >= HUGE_FROM)
        (void)madvise(chunk->memory, size, MADV_HUGEPAGE);
    chunk->pages = chunk->runs[0] = (uint32_t)pages;
    chunk->used = 0;
    for (size_t at = from; at < size; at += PAGE)
        chunk->memory[at] = 0;
    return chunk;
}

static void drop_chunk(struct hr__page_pool *pool,
                       struct hr__page_pool_chunk **at)
{
    struct hr__page_pool_chunk *chunk = *at;

    *at = chunk->next;
    pool->bytes -= size_of(chunk);
    munmap(chunk->memory, size_of(chunk));
    hr__free(chunk);
}

// Frees unused chunks until `more` bytes fit.
static void free_unused(struct hr__page_pool *pool, size_t more)
{
    struct hr__page_pool_chunk **at = &pool->chunks;

    while (*at && pool->bytes + more > pool->limit)
        if ((*at)->used)
            at = &(*at)->next;
        else
            drop_chunk(pool, at);
}

// The first that fits, so that what lies behind becomes free.
static void *take_run(struct hr__page_pool_chunk *chunk, uint32_t pages)
{
    uint32_t *runs = chunk->runs, n;

    if (chunk->pages - chunk->used < pages)
        return NULL;
    for (uint32_t i = 0; i < chunk->pages; i += n) {
        n = runs[i] & ~USED;
        if (runs[i] & USED)
            continue;
        while (i + n < chunk->pages && !(runs[i + n] & USED))
            n += runs[i + n];
        runs[i] = n;
        if (n < pages)
            continue;
        if (n > pages)
            runs[i + pages] = n - pages;
        runs[i] = pages | USED;
        chunk->used += pages;
        return chunk->memory + i * PAGE;
    }
    return NULL;
}

// Adds a chunk, larger than needed now if the limit allows it: the use of
// memory has a new maximum now and then, each a little larger than the one
// before.
static void *add_chunk(struct hr__page_pool *pool, size_t size)
{
    size_t left = pool->limit > pool->bytes ? pool->limit - pool->bytes : 0;
    size_t more = pool->bytes / 4;
    struct hr__page_pool_chunk *chunk, **end = &pool->chunks;

    more = more < LEAST ? LEAST : more > MOST ? MOST : more;
    more = (more < left ? more : left) / PAGE * PAGE;
    if (!(chunk = make_chunk(more > size ? more : size, size)))
        return NULL;
    while (*end)
        end = &(*end)->next;
    *end = chunk;
    pool->bytes += size_of(chunk);
    if (pool->bytes > pool->peak)
        pool->peak = pool->bytes;
    return take_run(chunk, (uint32_t)(size / PAGE));
}

void *hr__page_pool_get(struct hr__page_pool *pool, size_t size,
                        enum hr__page_pool_way way, bool *full)
{
    void *memory = NULL;

    *full = false;
    if (size > PAGE * (USED - 1))
        return NULL;
    size = (size + PAGE - 1) / PAGE * PAGE;
    for (struct hr__page_pool_chunk *c = pool->chunks; c && !memory;
         c = c->next)
        memory = take_run(c, (uint32_t)(size / PAGE));
    if (memory || (*full = way == HR__PAGE_POOL_KEPT))
        return memory;
    free_unused(pool, size);
    if ((*full = pool->bytes + size > pool->limit && way != HR__PAGE_POOL_MUST))
        return NULL;
    return add_chunk(pool, size);
}

void hr__page_pool_put(struct hr__page_pool *pool, void *memory)
{
    uintptr_t place = (uintptr_t)memory;

    for (struct hr__page_pool_chunk **at = &pool->chunks; *at;
         at = &(*at)->next) {
        struct hr__page_pool_chunk *chunk = *at;
        uintptr_t begin = (uintptr_t)chunk->memory;

        if (place < begin || place - begin >= size_of(chunk))
            continue;
        chunk->runs[(place - begin) / PAGE] &= ~USED;
        chunk->used -= chunk->runs[(place - begin) / PAGE];
        if (!chunk->used && pool->bytes > pool->limit)
            drop_chunk(pool, at);
        return;
    }
}

void hr__page_pool_finish(struct hr__page_pool *pool)
{
    while (pool->chunks)
        drop_chunk(pool, &pool->chunks);
}
