// SPDX-License-Identifier: Apache-2.0
// The library's only door to the heap: counted per device, and failed on
// purpose by tests that walk through every allocation of a scenario.
#include <stdlib.h>

#include "hal/base/base.h"

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

void *hr__alloc(struct hr__device *dev, size_t size)
{
    size_t rounded;

    if (hr__test_should_fail() ||
        __builtin_add_overflow(size, (size_t)63, &rounded))
        return NULL;
    if (dev)
        atomic_fetch_add_explicit(
            &((struct hr__device_head *)dev)->heap_allocations, 1,
            memory_order_relaxed);
    return aligned_alloc(64, rounded & ~(size_t)63);
}

void hr__free(void *mem)
{
    free(mem);
}
