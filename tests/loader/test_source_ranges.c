// SPDX-License-Identifier: Apache-2.0
// Where samples of a shard are: what was put comes back, and takes few bytes.
#include <headrace/headrace.h>

#include "loader/source/source.h"
#include "testing.h"

enum { N = 1000, FEW = 13 };

static uint64_t drawn(uint64_t *seed)
{
    static const uint64_t most[] = {1, 128, 1 << 14, UINT32_MAX,
                                    UINT64_C(1) << 62};

    return next_random(seed) % most[next_random(seed) % 5];
}

static struct hr__range drawn_range(uint64_t *seed, uint64_t end)
{
    struct hr__range range = {.offset = drawn(seed), .size = drawn(seed)};
    uint64_t kind = next_random(seed) % 4;

    if (next_random(seed) % 2)
        range.offset = end + drawn(seed) % (1 << 14);
    range.wrapped = kind & 1;
    range.summed = range.packed = kind & 2;
    if (range.wrapped) {
        range.skip = drawn(seed);
        range.inner = range.size - drawn(seed) % (range.size + 1);
    }
    if (range.summed) {
        range.sum = next_random(seed) << 32 ^ next_random(seed);
        range.source = drawn(seed);
    }
    return range;
}

static bool same(struct hr__range a, struct hr__range b)
{
    return a.offset == b.offset && a.size == b.size && a.sum == b.sum &&
           a.source == b.source && a.summed == b.summed &&
           a.packed == b.packed && a.wrapped == b.wrapped && a.skip == b.skip &&
           a.inner == b.inner;
}

TEST_CASE(all_come_back)
{
    static struct hr__range put[N];
    struct hr__ranges ranges = {0};
    uint64_t seed = test_seed, end = 0;

    for (int i = 0; i < N; i++) {
        put[i] = drawn_range(&seed, end);
        end = put[i].offset + put[i].size;
        CHECK(hr__ranges_put(&ranges, &put[i]), "%d", i);
    }
    for (int i = 0; i < 4 * N; i++) {
        size_t at = i < N ? (size_t)i : next_random(&seed) % N;

        CHECK(same(hr__ranges_at(&ranges, at), put[at]), "%zu", at);
    }
    hr__ranges_free(&ranges);
}

// As of pictures of 100 kB in a TFRecord file, whose records follow each other.
TEST_CASE(few_bytes_each)
{
    struct hr__ranges ranges = {0};
    uint64_t seed = test_seed, end = 12, bytes;

    for (int i = 0; i < N; i++) {
        struct hr__range range = {.offset = end,
                                  .size = 100000 + next_random(&seed) % 90000,
                                  .wrapped = true,
                                  .skip = 40};

        range.inner = range.size - 70;
        end += range.size + 12;
        CHECK(hr__ranges_put(&ranges, &range), "%d", i);
    }
    bytes = ranges.size + ranges.marks_capacity * sizeof(*ranges.marks);
    CHECK(bytes <= N * FEW, "%llu for %d", (unsigned long long)bytes, N);
    CHECK(sizeof(struct hr__source_item) <= 16, "and what a sample takes");
    hr__ranges_free(&ranges);
}
