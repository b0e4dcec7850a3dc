// SPDX-License-Identifier: Apache-2.0
// Memory for encoded samples: a few large chunks, of which each sample has as
// many pages as it needs, within a limit. No locks: the loader has one.
#ifndef HEADRACE_LOADER_PAGE_POOL_H
#define HEADRACE_LOADER_PAGE_POOL_H

#include <stdbool.h>
#include <stddef.h>

struct hr__page_pool {
    size_t limit;  // bytes that it has at most, but for HR__PAGE_POOL_MUST
    size_t bytes, peak;  // that it has, also unused ones
    struct hr__page_pool_chunk *chunks;
};

// Where a sample may have its bytes from: memory that is there, also new memory
// within the limit, or any.
enum hr__page_pool_way {
    HR__PAGE_POOL_KEPT,
    HR__PAGE_POOL_LIMIT,
    HR__PAGE_POOL_MUST
};

// Returns at least size bytes, aligned to 64. NULL with *full: there are none
// by this way; else there is no memory.
void *hr__page_pool_get(struct hr__page_pool *pool, size_t size,
                        enum hr__page_pool_way way, bool *full);
// Gives back what hr__page_pool_get() gave. NULL is fine.
void hr__page_pool_put(struct hr__page_pool *pool, void *memory);
void hr__page_pool_finish(struct hr__page_pool *pool);  // all is given back

#endif
