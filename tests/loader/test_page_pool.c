// SPDX-License-Identifier: Apache-2.0
// Memory for encoded samples: which pages are used again, and for which sizes.
#include "loader/queue/page_pool.h"

#include <headrace/headrace.h>

#include "hal/base/base.h"
#include "testing.h"

enum { KIB = 1024, LIMIT = 1 << 20, AT_WORK = 320 };

static struct hr__page_pool pool;

static void *get(size_t size, enum hr__page_pool_way way)
{
    bool full;
    void *memory = hr__page_pool_get(&pool, size, way, &full);

    CHECK(memory || full, "out of memory");
    return memory;
}

static void finish(void)
{
    hr__page_pool_finish(&pool);
    CHECK(!pool.bytes && !pool.chunks, "%zu bytes are left", pool.bytes);
}

// Neighbours that came back are one piece, in whatever order they came.
TEST_CASE(neighbours)
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    char *pieces[3], *whole;
    int64_t allocs;

    pool = (struct hr__page_pool){.limit = LIMIT};
    whole = get(240 * KIB, HR__PAGE_POOL_LIMIT);
    hr__page_pool_put(&pool, whole);
    allocs = hr__test_allocs();
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < 3; k++) {
            pieces[k] = get((size_t)(79 * KIB), HR__PAGE_POOL_LIMIT);
            CHECK(pieces[k] == whole + k * 80 * KIB, "piece %d is elsewhere",
                  k);
        }
        for (int k = 0; k < 3; k++)
            hr__page_pool_put(&pool, pieces[orders[i][k]]);
        CHECK(get(240 * KIB, HR__PAGE_POOL_LIMIT) == whole, "order %d", i);
        hr__page_pool_put(&pool, whole);
    }
    CHECK(hr__test_allocs() == allocs, "%lld allocations",
          (long long)(hr__test_allocs() - allocs));
    finish();
}

// Only unused pages are given up for the limit.
TEST_CASE(limit)
{
    void *pieces[3];

    pool = (struct hr__page_pool){.limit = LIMIT};
    pieces[0] = get(LIMIT / 2, HR__PAGE_POOL_LIMIT);
    pieces[1] = get(LIMIT / 4, HR__PAGE_POOL_LIMIT);
    CHECK(!get(LIMIT, HR__PAGE_POOL_LIMIT), "over the limit");
    CHECK(pool.bytes <= LIMIT, "%zu bytes", pool.bytes);
    hr__page_pool_put(&pool, pieces[0]);
    hr__page_pool_put(&pool, pieces[1]);
    pieces[0] = get(LIMIT, HR__PAGE_POOL_LIMIT);
    CHECK(pieces[0] && pool.bytes == LIMIT && pool.peak <= LIMIT,
          "%zu bytes, at most %zu", pool.bytes, pool.peak);
    CHECK(!get(1, HR__PAGE_POOL_LIMIT), "over the limit");
    pieces[1] = get(LIMIT, HR__PAGE_POOL_MUST);
    CHECK(pieces[1] && pool.bytes == 2 * LIMIT, "%zu bytes", pool.bytes);
    hr__page_pool_put(&pool, pieces[0]);
    CHECK(pool.bytes == LIMIT, "%zu bytes are kept over the limit", pool.bytes);
    hr__page_pool_put(&pool, pieces[1]);
    finish();
}

// KEPT allocates no new memory, and hands out all free memory.
TEST_CASE(kept)
{
    void *pieces[65];
    int n = 0;

    pool = (struct hr__page_pool){.limit = LIMIT};
    CHECK(!get(1, HR__PAGE_POOL_KEPT), "new memory");
    pieces[n++] = get(1, HR__PAGE_POOL_LIMIT);
    while (n < 65 && (pieces[n] = get(4 * KIB, HR__PAGE_POOL_KEPT)))
        memset(pieces[n++], 1, 4 * KIB);
    CHECK(n == 64 && pool.bytes == 256 * KIB, "%d pieces of %zu bytes", n,
          pool.bytes);
    while (n > 0)
        hr__page_pool_put(&pool, pieces[--n]);
    finish();
}

// Sizes as those of photos, as many at a time as a loader has: the sum has a
// new maximum for ever, and hardly any needs new memory once there is some.
// (Always the same sizes: so it is for them.)
TEST_CASE(steady)
{
    void *pieces[AT_WORK] = {0};
    size_t sizes[AT_WORK] = {0}, now = 0, most = 0;
    int64_t allocs = 0;
    uint32_t draw = 1;

    pool = (struct hr__page_pool){.limit = (size_t)64 << 20};
    for (int i = 0; i < 200000; i++) {
        int at = i % AT_WORK;

        draw = draw * 1664525 + 1013904223;
        hr__page_pool_put(&pool, pieces[at]);
        now -= sizes[at];
        sizes[at] = draw >> 26 ? (2 + (draw >> 8) % 238) * KIB : 600 * KIB;
        now += sizes[at];
        most = now > most ? now : most;
        pieces[at] = get(sizes[at], HR__PAGE_POOL_LIMIT);
        if (i == 20000)
            allocs = hr__test_allocs();
    }
    CHECK(hr__test_allocs() == allocs, "%lld allocations",
          (long long)(hr__test_allocs() - allocs));
    CHECK(pool.bytes <= most / 3 * 4, "%zu bytes for %zu at work", pool.bytes,
          most);
    for (int at = 0; at < AT_WORK; at++)
        hr__page_pool_put(&pool, pieces[at]);
    finish();
}

// One budget for a device and its loader: the parts never exceed it, whatever
// its size; and the loader makes its batches of equal parts of the ring.
TEST_CASE(budget)
{
    static const size_t sizes[] = {0, 1, 5, 64 * KIB, 256 << 20, SIZE_MAX};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        struct hr_budget b = hr_budget_divide(sizes[i]);

        CHECK(b.device <= sizes[i] && b.loader <= b.device &&
                  b.ring <= b.loader,
              "%zu: %zu, %zu, %zu", sizes[i], b.device, b.loader, b.ring);
        // Beside the device's bytes a batch of five is consumed; half is
        // batches.
        CHECK(sizes[i] - b.device >= b.ring / 5 && b.ring <= sizes[i] / 2 + 2 &&
                  b.ring + 8 >= sizes[i] / 2,
              "%zu: %zu, %zu, %zu", sizes[i], b.device, b.loader, b.ring);
        for (size_t n = 1; n < 8 && b.ring >= n; n++)
            CHECK(hr_budget_ring(b.loader) / (b.ring / n) >= n,
                  "%zu: no ring of %zu", sizes[i], n);
    }
}
