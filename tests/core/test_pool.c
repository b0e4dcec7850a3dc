// SPDX-License-Identifier: Apache-2.0
// The pool of buffers. AddressSanitizer looks for what it leaks.
#include <inttypes.h>
#include <malloc.h>
#include <sys/mman.h>

#include "hal/job/work.h"
#include "testing.h"

enum { CAP = 1 << 20 };

// A buffer's bytes stand behind a header that its user does not see.
TEST_CASE(whole)
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

// A buffer that is put back is found again, and the pool keeps no more than its
// cap allows.
TEST_CASE(kept)
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

// Does the kernel give that place huge pages? -1: it has none.
static int in_huge_pages(const void *at)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[512];
    bool here = false;
    int found = -1;

    while (f && found < 0 && fgets(line, sizeof(line), f)) {
        uintptr_t from, to;

        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &from, &to) == 2)
            here = from <= (uintptr_t)at && (uintptr_t)at < to;
        else if (here && !strncmp(line, "VmFlags:", 8))
            found = strstr(line, " hg") != NULL;
    }
    if (f)
        fclose(f);
    return access("/sys/kernel/mm/transparent_hugepage", F_OK) ? -1 : found;
}

// A batch of 38 MB has 9,400 pages; clear pages need no second clearing.
TEST_CASE(large)
{
    enum { SIZE = 38 << 20 };
    unsigned char there[1];
    void *clear = NULL, *heap = hr__alloc_clear(NULL, SIZE, &clear);
    void *mem = hr__alloc(NULL, SIZE);
    char *middle = (char *)clear + SIZE / 2;

    CHECK(heap && mem, "out of memory");
    CHECK((uintptr_t)clear % 64 == 0 && (uintptr_t)mem % 64 == 0, "aligned");
    if (in_huge_pages(middle) < 0) {
        test_not_run("this kernel has no huge pages");
    } else {
        CHECK(in_huge_pages(middle), "clear memory is in small pages");
        CHECK(in_huge_pages((char *)mem + SIZE / 2), "in small pages");
    }
    if (!TEST_SANITIZED) {
        CHECK(!mincore(middle - (uintptr_t)middle % 4096, 1, there) &&
                  !(*there & 1),
              "was cleared by hand");
    }
    CHECK(!memcmp(clear, middle, SIZE / 2) && !*middle, "not clear");
    hr__free(heap);
    hr__free(mem);
}
