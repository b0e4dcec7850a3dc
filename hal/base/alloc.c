// SPDX-License-Identifier: Apache-2.0
// The library's only door to the heap: counted per device, and failed on
// purpose by tests that walk through every allocation of a scenario.
#include <stdlib.h>
#include <sys/mman.h>

#include "hal/base/base.h"

enum { LARGE = 4 << 20 };

static _Atomic int64_t allocs;
static _Atomic int64_t fail_at;  // counts down to 1; 0 = never
static _Atomic bool fail_on;     // from then on every one fails

void hr__test_fail_alloc(int64_t nth, bool for_ever)
{
    atomic_store(&fail_on, false);
    // The sign carries "for ever", so that arming is one store.
    atomic_store(&fail_at, for_ever ? -nth : nth);
}

int64_t hr__test_allocs(void)
{
    return atomic_load(&allocs);
}

bool hr__test_should_fail(void)
{
    int64_t at = atomic_load_explicit(&fail_at, memory_order_relaxed);

    atomic_fetch_add_explicit(&allocs, 1, memory_order_relaxed);
    if (atomic_load_explicit(&fail_on, memory_order_relaxed))
        return true;
    while (at) {
        int64_t next = at > 0 ? at - 1 : at + 1;

        if (atomic_compare_exchange_weak(&fail_at, &at, next)) {
            if (next == 0 && at < 0)
                atomic_store(&fail_on, true);
            return next == 0;
        }
    }
    return false;
}

// The kernel makes new memory page by page, as it is written: with pages of 4
// KiB that takes as long as half a decode of the pictures that fill it.
static void in_huge_pages(char *mem, size_t size)
{
    const size_t page = 65536;  // none is larger
    size_t skip = -(uintptr_t)mem & (page - 1);

    if (mem && size >= LARGE)
        (void)madvise(mem + skip, (size - skip) & ~(page - 1), MADV_HUGEPAGE);
}

static bool counted(struct hr__device *dev, size_t *size)
{
    if (hr__test_should_fail() ||
        __builtin_add_overflow(*size, (size_t)63, size))
        return false;
    if (dev)
        atomic_fetch_add_explicit(
            &((struct hr__device_head *)dev)->heap_allocations, 1,
            memory_order_relaxed);
    return true;
}

void *hr__alloc(struct hr__device *dev, size_t size)
{
    void *mem;

    if (!counted(dev, &size))
        return NULL;
    mem = aligned_alloc(64, size & ~(size_t)63);
    in_huge_pages(mem, size);
    return mem;
}

// calloc() does not clear pages that are fresh from the kernel.
void *hr__alloc_clear(struct hr__device *dev, size_t size, void **aligned)
{
    void *mem;

    if (!counted(dev, &size) || !(mem = calloc(1, size)))
        return NULL;
    in_huge_pages(mem, size);
    *aligned = (char *)mem + (-(uintptr_t)mem & 63);
    return mem;
}

void hr__free(void *mem)
{
    free(mem);
}
