// SPDX-License-Identifier: Apache-2.0
#include "heaps.h"

#include <stdlib.h>

static void *plain_alloc(void *ctx, size_t size)
{
    void *p = NULL;

    (void)ctx;
    return posix_memalign(&p, CPU_ALIGN, size) ? NULL : p;
}

static void plain_free(void *ctx, void *block, size_t size)
{
    (void)ctx;
    (void)size;
    free(block);
}

const struct cpu_heap plain_heap = {plain_alloc, plain_free, NULL};

static void *counting_alloc(void *ctx, size_t size)
{
    struct counting_heap *h = ctx;
    void *p;

    h->allocs++;
    if (h->fail_at &&
        (h->fail_once ? h->allocs == h->fail_at : h->allocs >= h->fail_at))
        return NULL;
    if (!(p = plain_alloc(NULL, size)))
        return NULL;
    h->bytes += size;
    h->blocks++;
    return p;
}

static void counting_free(void *ctx, void *block, size_t size)
{
    struct counting_heap *h = ctx;

    h->bytes -= size;
    h->blocks--;
    free(block);
}

void counting_heap_init(struct counting_heap *h)
{
    *h = (struct counting_heap){.heap = {counting_alloc, counting_free, h}};
}
