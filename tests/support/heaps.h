// SPDX-License-Identifier: Apache-2.0
// Heaps for the workers of the CPU engine: plain memory, and one that counts
// and fails.
#ifndef HEADRACE_TESTS_HEAPS_H
#define HEADRACE_TESTS_HEAPS_H

#include <stdbool.h>

#include "cpu_fallback/arena.h"

extern const struct cpu_heap plain_heap;

// One thread at a time. The size that is given back must be the one that was
// asked for: budgets are kept with it.
struct counting_heap {
    struct cpu_heap heap;
    size_t bytes, blocks;  // now
    size_t allocs;         // so far
    size_t fail_at;  // this allocation, from 1, and all after it; 0 = none
    bool fail_once;  // .. not those after it
};
void counting_heap_init(struct counting_heap *h);

#endif
