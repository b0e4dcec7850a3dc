// SPDX-License-Identifier: Apache-2.0
// The pool of buffers. AddressSanitizer looks for what it leaks.
#include <malloc.h>
#include <string.h>

#include "hal/job/work.h"
#include "testing.h"

enum { CAP = 1 << 20 };

// A buffer has its bytes behind a header that nobody sees.
static void whole(void)
{
    static const size_t sizes[] = {1,    4031, 4032, 4033,  4096,
                                   4097, 8128, 8192, 65536, 65537};
    struct hr__pool pool;

    hr__pool_init(&pool, NULL, CAP);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        uint8_t *mem = hr__pool_get(&pool, sizes[i]);

        CHECK(mem && (uintptr_t)mem % 64 == 0, "%zu bytes", sizes[i]);
        CHECK(malloc_usable_size(mem - 64) >= 64 + sizes[i],
              "%zu bytes asked for, %zu are there", sizes[i],
              malloc_usable_size(mem - 64) - 64);
        memset(mem, 0xa5, sizes[i]);
        hr__pool_put(&pool, mem);
    }
    hr__pool_finish(&pool);
}

// What is put back is found again, and no more is kept than the cap allows.
static void kept(void)
{
    enum { N = 40, SIZE = 60000 };
    struct hr__pool pool;
    void *mem[N], *again;
    int64_t allocs;

    hr__pool_init(&pool, NULL, CAP);
    for (int i = 0; i < N; i++)
        mem[i] = hr__pool_get(&pool, SIZE);
    for (int i = 0; i < N; i++)
        hr__pool_put(&pool, mem[i]);
    CHECK(pool.cached <= CAP, "%zu bytes kept, the cap is %d", pool.cached,
          CAP);
    CHECK(pool.cached > CAP - 2 * SIZE, "only %zu bytes kept", pool.cached);
    allocs = hr__test_allocs();
    for (int i = 0; i < 1000; i++) {
        again = hr__pool_get(&pool, SIZE);
        hr__pool_put(&pool, again);
    }
    CHECK(hr__test_allocs() == allocs, "%lld allocations",
          (long long)(hr__test_allocs() - allocs));
    hr__pool_put(&pool, NULL);
    CHECK(!hr__pool_get(&pool, SIZE_MAX - 10), "nonsense");
    hr__pool_finish(&pool);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        TEST_CASE(whole),
        TEST_CASE(kept),
    };

    return test_main("pool", cases, sizeof(cases) / sizeof(*cases), argc, argv);
}
