// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/arena.h"

#include <assert.h>
#include <stdlib.h>

// Sits at the start of its own memory. `next` keeps blocks in the order of
// use; blocks behind cpu_arena.at are empty whatever their `used` says.
struct cpu_arena_block {
    struct cpu_arena_block *next;
    size_t size;  // bytes behind the header
    size_t used;
};

// The header, rounded up so that what follows it is aligned.
#define HEADER_SIZE CPU_ALIGN
_Static_assert(sizeof(struct cpu_arena_block) <= HEADER_SIZE, "header size");

// A photo of half a megapixel fits into one of these. With its header a block
// is no larger than what cpu_arena_clear() is told to keep of a lane.
#define BLOCK_SIZE (((size_t)128 << 10) - HEADER_SIZE)

static void *plain_alloc(void *ctx, size_t size)
{
    (void)ctx;
    return aligned_alloc(CPU_ALIGN, cpu_aligned(size));
}

static void plain_free(void *ctx, void *block, size_t size)
{
    (void)ctx;
    (void)size;
    free(block);
}

const struct cpu_heap cpu_plain_heap = {plain_alloc, plain_free, NULL};

static size_t block_bytes(const struct cpu_arena_block *b)
{
    return HEADER_SIZE + b->size;
}

static void block_free(struct cpu_arena *a, struct cpu_arena_block *b)
{
    a->heap->free(a->heap->ctx, b, block_bytes(b));
}

// Bytes an allocation really takes, 0 if that overflows. The slack is part
// of it, so that two neighbours never share a byte.
static size_t padded(size_t size)
{
    if (size > SIZE_MAX - HEADER_SIZE - CPU_SLACK - CPU_ALIGN)
        return 0;
    return cpu_aligned(size + CPU_SLACK);
}

void cpu_arena_init(struct cpu_arena *a, const struct cpu_heap *heap)
{
    *a = (struct cpu_arena){.heap = heap};
}

void cpu_arena_finish(struct cpu_arena *a)
{
    cpu_arena_clear(a, 0);
}

// The new block goes right behind `at`: kept blocks that were too small for
// this request stay usable for later ones.
static struct cpu_arena_block *block_add(struct cpu_arena *a, size_t need)
{
    size_t size = a->block ? a->block - HEADER_SIZE : BLOCK_SIZE;
    if (a->limit && size > a->limit - a->used)
        size = a->limit - a->used;
    if (size < need)
        size = need;
    size &= ~(size_t)(CPU_ALIGN - 1);

    struct cpu_arena_block *b = a->heap->alloc(a->heap->ctx,
                                               HEADER_SIZE + size);
    if (!b)
        return NULL;
    assert((uintptr_t)b % CPU_ALIGN == 0);
    struct cpu_arena_block **link = a->at ? &a->at->next : &a->first;
    *b = (struct cpu_arena_block){.next = *link, .size = size};
    *link = b;
    return b;
}

// First block from `at` on with room for `need` bytes.
static struct cpu_arena_block *block_find(struct cpu_arena *a, size_t need)
{
    if (a->at && a->at->size - a->at->used >= need)
        return a->at;
    for (struct cpu_arena_block *b = a->at ? a->at->next : a->first; b;
         b = b->next) {
        b->used = 0;
        if (b->size >= need)
            return b;
    }
    return block_add(a, need);
}

void *cpu_arena_alloc(struct cpu_arena *a, size_t size)
{
    size_t need = padded(size);
    if (a->limit && (a->used > a->limit || need > a->limit - a->used)) {
        a->limited = true;
        return NULL;
    }
    if (!need)
        return NULL;
    struct cpu_arena_block *b = block_find(a, need);
    if (!b)
        return NULL;
    void *p = (char *)b + HEADER_SIZE + b->used;
    b->used += need;
    a->used += need;
    a->at = b;
    return p;
}

void *cpu_arena_array(struct cpu_arena *a, size_t n, size_t size)
{
    if (size && n > SIZE_MAX / size)
        return NULL;
    return cpu_arena_alloc(a, n * size);
}

struct cpu_mark cpu_arena_mark(const struct cpu_arena *a)
{
    return (struct cpu_mark){
        .at = a->at,
        .at_used = a->at ? a->at->used : 0,
        .used = a->used,
    };
}

void cpu_arena_reset(struct cpu_arena *a, struct cpu_mark mark)
{
    a->at = mark.at;
    a->used = mark.used;
    if (a->at)
        a->at->used = mark.at_used;
}

void cpu_arena_clear(struct cpu_arena *a, size_t keep)
{
    struct cpu_arena_block **link = &a->first;
    while (*link) {
        struct cpu_arena_block *b = *link;
        if (block_bytes(b) <= keep) {
            keep -= block_bytes(b);
            link = &b->next;
        } else {
            *link = b->next;
            block_free(a, b);
        }
    }
    a->at = NULL;
    a->used = 0;
    a->limited = false;
}
