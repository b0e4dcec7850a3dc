// SPDX-License-Identifier: Apache-2.0
// The scratch arena: its allocations, its limit, marks, the memory it keeps,
// and a heap that refuses.
#include "backends/cpu/cpu.h"
#include "heaps.h"
#include "testing.h"

static void set_up(struct counting_heap *h, struct cpu_arena *a)
{
    counting_heap_init(h);
    cpu_arena_init(a, &h->heap);
}

static void tear_down(struct counting_heap *h, struct cpu_arena *a)
{
    cpu_arena_finish(a);
    CU_ASSERT_EQUAL(h->blocks, 0);
    CU_ASSERT_EQUAL(h->bytes, 0);
    CU_ASSERT_EQUAL(a->used, 0);
}

static const size_t some_sizes[] = {
    0, 1, 63, 64, 65, 1000, 100000, 200000, 262144, 1000000, 3, 300000, 7,
};
#define NUM_SIZES (sizeof some_sizes / sizeof some_sizes[0])

TEST_CASE(alloc)
{
    struct counting_heap h;
    struct cpu_arena a;
    unsigned char *p[NUM_SIZES];
    set_up(&h, &a);
    CU_ASSERT_EQUAL(h.allocs, 0);
    for (size_t i = 0; i < NUM_SIZES; i++) {
        p[i] = cpu_arena_alloc(&a, some_sizes[i]);
        CU_ASSERT_PTR_NOT_NULL_FATAL(p[i]);
        CU_ASSERT_EQUAL((uintptr_t)p[i] % CPU_ALIGN, 0);
        memset(p[i], (int)i, some_sizes[i] + CPU_SLACK);
    }
    // Slack and all, no block was written over by its neighbour.
    int bad = 0;
    for (size_t i = 0; i < NUM_SIZES; i++)
        for (size_t k = 0; k < some_sizes[i] + CPU_SLACK; k++)
            bad += p[i][k] != i;
    CU_ASSERT_EQUAL(bad, 0);
    tear_down(&h, &a);
}

TEST_CASE(overflow)
{
    struct counting_heap h;
    struct cpu_arena a;
    set_up(&h, &a);
    CU_ASSERT_PTR_NULL(cpu_arena_alloc(&a, SIZE_MAX));
    CU_ASSERT_PTR_NULL(cpu_arena_alloc(&a, SIZE_MAX - 100));
    CU_ASSERT_PTR_NULL(cpu_arena_array(&a, SIZE_MAX / 2, 3));
    CU_ASSERT_PTR_NULL(cpu_arena_array(&a, 3, SIZE_MAX / 2));
    CU_ASSERT_EQUAL(h.allocs, 0);
    CU_ASSERT_PTR_NOT_NULL(cpu_arena_array(&a, 0, 8));
    CU_ASSERT_PTR_NOT_NULL(cpu_arena_array(&a, 8, 0));
    CU_ASSERT_PTR_NOT_NULL(cpu_arena_array(&a, 100, 8));
    tear_down(&h, &a);
}

TEST_CASE(limit)
{
    struct counting_heap h;
    struct cpu_arena a;
    set_up(&h, &a);
    a.limit = 10000;
    CU_ASSERT_PTR_NULL(cpu_arena_alloc(&a, 10001));
    CU_ASSERT_EQUAL(a.used, 0);
    size_t n = 0;
    while (cpu_arena_alloc(&a, 1000)) {
        n++;
        CU_ASSERT(a.used <= a.limit);
    }
    CU_ASSERT_EQUAL(n, 9);
    CU_ASSERT(h.bytes <= a.limit + 2 * CPU_ALIGN);
    // Refusal broke nothing, and a lower limit than `used` refuses too.
    CU_ASSERT_PTR_NOT_NULL(cpu_arena_alloc(&a, 10));
    a.limit = 64;
    CU_ASSERT_PTR_NULL(cpu_arena_alloc(&a, 0));
    a.limit = 0;
    CU_ASSERT_PTR_NOT_NULL(cpu_arena_alloc(&a, 10000));
    // The arena knows until the next picture that a limit was hit.
    CU_ASSERT(a.limited);
    cpu_arena_clear(&a, 0);
    CU_ASSERT(!a.limited);
    tear_down(&h, &a);
}

TEST_CASE(reset)
{
    struct counting_heap h;
    struct cpu_arena a;
    set_up(&h, &a);
    struct cpu_mark start = cpu_arena_mark(&a);
    char *first = cpu_arena_alloc(&a, 100);
    struct cpu_mark mark = cpu_arena_mark(&a);
    size_t used = a.used;
    char *second = cpu_arena_alloc(&a, 5000);
    CU_ASSERT_PTR_NOT_NULL(cpu_arena_alloc(&a, 1000000));
    CU_ASSERT_PTR_NOT_NULL(cpu_arena_alloc(&a, 2000000));
    cpu_arena_reset(&a, mark);
    CU_ASSERT_EQUAL(a.used, used);
    CU_ASSERT_PTR_EQUAL(cpu_arena_alloc(&a, 5000), second);
    CU_ASSERT_EQUAL(h.blocks, 3);
    cpu_arena_reset(&a, start);
    CU_ASSERT_EQUAL(a.used, 0);
    CU_ASSERT_PTR_EQUAL(cpu_arena_alloc(&a, 100), first);
    tear_down(&h, &a);
}

// The same picture again and again asks the heap for nothing.
TEST_CASE(steady_state)
{
    struct counting_heap h;
    struct cpu_arena a;
    set_up(&h, &a);
    for (int round = 0; round < 5; round++) {
        size_t before = h.allocs;
        for (size_t i = 0; i < NUM_SIZES; i++)
            CU_ASSERT_PTR_NOT_NULL(cpu_arena_alloc(&a, some_sizes[i]));
        if (round > 0)
            CU_ASSERT_EQUAL(h.allocs, before);
        cpu_arena_clear(&a, SIZE_MAX);
        CU_ASSERT_EQUAL(a.used, 0);
    }
    tear_down(&h, &a);
}

TEST_CASE(keep)
{
    struct counting_heap h;
    struct cpu_arena a;
    set_up(&h, &a);
    CU_ASSERT_PTR_NOT_NULL(cpu_arena_alloc(&a, 1000));
    CU_ASSERT_PTR_NOT_NULL(cpu_arena_alloc(&a, 50000000));
    CU_ASSERT_PTR_NOT_NULL(cpu_arena_alloc(&a, 500000));
    cpu_arena_clear(&a, 1000000);
    CU_ASSERT(h.bytes <= 1000000);
    CU_ASSERT_EQUAL(h.blocks, 2);
    size_t before = h.allocs;
    CU_ASSERT_PTR_NOT_NULL(cpu_arena_alloc(&a, 1000));
    CU_ASSERT_PTR_NOT_NULL(cpu_arena_alloc(&a, 500000));
    CU_ASSERT_EQUAL(h.allocs, before);
    cpu_arena_clear(&a, 0);
    CU_ASSERT_EQUAL(h.blocks, 0);
    CU_ASSERT_PTR_NOT_NULL(cpu_arena_alloc(&a, 1));
    tear_down(&h, &a);
}

// The block of a small picture is at most a fourth of the memory that an empty
// lane keeps.
TEST_CASE(lanes)
{
    struct counting_heap h;
    struct cpu_arena a;
    set_up(&h, &a);
    for (int round = 0; round < 3; round++) {
        CU_ASSERT_PTR_NOT_NULL(cpu_arena_alloc(&a, 60000));
        CU_ASSERT_PTR_NOT_NULL(cpu_arena_alloc(&a, 60000));
        CU_ASSERT_EQUAL(h.allocs, 1);
        cpu_arena_clear(&a, (size_t)128 << 10);
    }
    tear_down(&h, &a);
}

TEST_CASE(failing_heap)
{
    for (size_t fail_at = 1; fail_at <= 4; fail_at++) {
        struct counting_heap h;
        struct cpu_arena a;
        set_up(&h, &a);
        h.fail_at = fail_at;
        size_t refused = 0, used = 0;
        for (size_t i = 0; i < NUM_SIZES; i++) {
            if (cpu_arena_alloc(&a, some_sizes[i]))
                used = a.used;
            else
                refused++;
            CU_ASSERT_EQUAL(a.used, used);
        }
        CU_ASSERT(refused > 0);
        h.fail_at = 0;
        CU_ASSERT_PTR_NOT_NULL(cpu_arena_alloc(&a, 1000000));
        tear_down(&h, &a);
    }
}
