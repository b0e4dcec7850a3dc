// SPDX-License-Identifier: Apache-2.0
// The SIMD kernels against the readable C, byte by byte, on random and on
// worst-case input; and the scratch arena. check_simd [--bench] [--seed N]
#include <math.h>
#include <stdio.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <CUnit/Basic.h>

#include "cpu_fallback/cpu_ops.h"
#include "heaps.h"
#include "simd_axes.h"
#include "simd_bench.h"
#include "simd_color.h"

#define MAX_ROWS 16
#define GUARD 64  // bytes watched around every destination
#define FILL 0x99

static const struct level {
    const char *name;
    unsigned flags;
} levels[] = {
    {"avx2", CPU_FLAG_C | CPU_FLAG_AVX2},
    {"avx512", CPU_FLAG_C | CPU_FLAG_AVX2 | CPU_FLAG_AVX512},
};
#define NUM_LEVELS (sizeof levels / sizeof levels[0])

// Sets up ops for a level; false if this machine has not got it.
static bool level_ops(const struct level *level, struct cpu_ops *ops)
{
    cpu_ops_init(ops, level->flags);
    return strcmp(ops->name, level->name) == 0;
}

// ---- memory that ends where it may no longer be read ----

struct fenced {
    uint8_t *map, *end;  // end: first byte that faults
    size_t map_size;
};

static bool fenced_init(struct fenced *f, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t body = (size + page - 1) / page * page;
    f->map_size = body + page;
    f->map = mmap(NULL, f->map_size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (f->map == MAP_FAILED)
        return false;
    f->end = f->map + body;
    return mprotect(f->end, page, PROT_NONE) == 0;
}

static void fenced_finish(struct fenced *f)
{
    munmap(f->map, f->map_size);
}

// ---- horizontal pass ----

// Rows of random length position: each ends at most CPU_SLACK before a page
// that faults. All rows of a case share one buffer of bytes.
struct rows {
    struct fenced f[MAX_ROWS];
    const uint8_t *row[MAX_ROWS];
};

static bool rows_init(struct rows *rows, size_t size)
{
    for (int r = 0; r < MAX_ROWS; r++)
        if (!fenced_init(&rows->f[r], size + CPU_SLACK))
            return false;
    return true;
}

static void rows_finish(struct rows *rows)
{
    for (int r = 0; r < MAX_ROWS; r++)
        fenced_finish(&rows->f[r]);
}

// The slack is not zero: kernels must not let it into a result.
static void rows_fill(struct rows *rows, size_t bytes)
{
    int kind = test_rnd_int(0, 5);
    for (int r = 0; r < MAX_ROWS; r++) {
        uint8_t *p = rows->f[r].end - CPU_SLACK - bytes;
        rows->row[r] = p;
        for (size_t i = 0; i < bytes; i++)
            p[i] = (uint8_t)(kind == 0   ? 0
                             : kind == 1 ? 255
                             : kind == 2 ? (i & 1) * 255
                             : kind == 3 ? (i / 3 & 1) * 255
                                         : test_rnd());
        for (size_t i = 0; i < CPU_SLACK; i++)
            p[bytes + i] = (uint8_t)test_rnd();
    }
}

// A destination row with watched bytes before it and behind its slack.
struct target {
    uint8_t *buf;
    size_t room;
};

static uint8_t *target_row(struct target *t, int misalign)
{
    memset(t->buf, FILL, t->room);
    return t->buf + GUARD + misalign;
}

static bool target_intact(const struct target *t, const uint8_t *row,
                          size_t bytes, size_t slack)
{
    const uint8_t *end = row + bytes + slack;
    for (const uint8_t *p = t->buf; p < row; p++)
        if (*p != FILL)
            return false;
    for (const uint8_t *p = end; p < end + GUARD; p++)
        if (*p != FILL)
            return false;
    return true;
}

#define MAX_BYTES 8192

struct targets {
    struct target t[MAX_ROWS];
    uint8_t *row[MAX_ROWS];
};

static void targets_init(struct targets *t)
{
    for (int r = 0; r < MAX_ROWS; r++) {
        t->t[r].room = MAX_BYTES + 3 * GUARD + CPU_SLACK;
        t->t[r].buf = malloc(t->t[r].room);
        if (!t->t[r].buf)
            abort();
    }
}

static void targets_finish(struct targets *t)
{
    for (int r = 0; r < MAX_ROWS; r++)
        free(t->t[r].buf);
}

static void targets_clear(struct targets *t)
{
    for (int r = 0; r < MAX_ROWS; r++)
        t->row[r] = target_row(&t->t[r], test_rnd_int(0, 63));
}

static bool targets_equal(const struct targets *want, const struct targets *got,
                          int rows, size_t bytes)
{
    for (int r = 0; r < MAX_ROWS; r++) {
        size_t m = r < rows ? bytes : 0;
        if (memcmp(want->row[r], got->row[r], m) != 0 ||
            !target_intact(&got->t[r], got->row[r], m,
                           r < rows ? CPU_SLACK : 0))
            return false;
    }
    return true;
}

static bool one_h(const struct cpu_ops *ops, struct cpu_arena *arena,
                  struct rows *src, struct targets *want, struct targets *got)
{
    struct cpu_ops c;
    cpu_ops_init(&c, CPU_FLAG_C);
    struct axis x;
    char text[80];
    test_axis_random(&x, text, sizeof text);
    int channels = test_rnd() % 2 ? 3 : 1, rows = test_rnd_int(1, MAX_ROWS);
    size_t bytes = (size_t)x.a.out * channels;
    rows_fill(src, (size_t)x.a.in * channels);
    targets_clear(want);
    targets_clear(got);

    c.resample_h(want->row, src->row, rows, channels, &x.a);
    bool packed = !ops->pack_h || ops->pack_h(&x.a, channels, arena);
    ops->resample_h(got->row, src->row, rows, channels, &x.a);
    bool ok = packed && targets_equal(want, got, rows, bytes);
    if (!ok)
        printf("  %s resample_h differs: %s, %d channels, %d rows\n", ops->name,
               text, channels, rows);
    cpu_arena_clear(arena, SIZE_MAX);
    test_axis_finish(&x);
    return ok;
}

#define CASES 6000  // per kernel and level

static void check_h(const struct cpu_ops *ops)
{
    struct rows src;
    struct targets want, got;
    struct cpu_arena arena;
    cpu_arena_init(&arena, &plain_heap);
    CU_ASSERT_FATAL(rows_init(&src, MAX_BYTES));
    targets_init(&want);
    targets_init(&got);
    int bad = 0;
    for (int i = 0; i < CASES && bad < 5; i++)
        bad += !one_h(ops, &arena, &src, &want, &got);
    CU_ASSERT_EQUAL(bad, 0);
    targets_finish(&want);
    targets_finish(&got);
    rows_finish(&src);
    cpu_arena_finish(&arena);
}

// A kernel must also be right where pack_h was refused memory, at whatever
// point of its work.
static void check_h_unpacked(const struct cpu_ops *ops)
{
    struct rows src;
    struct targets want, got;
    struct cpu_arena arena;
    struct axis x;
    struct cpu_ops c;
    cpu_ops_init(&c, CPU_FLAG_C);
    cpu_arena_init(&arena, &plain_heap);
    CU_ASSERT_FATAL(rows_init(&src, MAX_BYTES));
    targets_init(&want);
    targets_init(&got);
    test_axis_filter(&x, 2400, 600, TEST_LANCZOS);
    rows_fill(&src, 2400 * 3);
    bool packed = false;
    int refused = 0;
    for (arena.limit = 64; !packed; arena.limit *= 2) {
        x.a.packed = &x;
        packed = ops->pack_h(&x.a, 3, &arena);
        refused += !packed;
        CU_ASSERT_EQUAL(packed, x.a.packed != NULL);
        targets_clear(&want);
        targets_clear(&got);
        c.resample_h(want.row, src.row, 5, 3, &x.a);
        ops->resample_h(got.row, src.row, 5, 3, &x.a);
        CU_ASSERT(targets_equal(&want, &got, 5, 1800));
        cpu_arena_clear(&arena, SIZE_MAX);
    }
    CU_ASSERT(refused > 3);
    test_axis_finish(&x);
    cpu_arena_finish(&arena);
    targets_finish(&want);
    targets_finish(&got);
    rows_finish(&src);
}

// ---- vertical pass ----

static void v_weights(int32_t *w, int n)
{
    int bits = test_rnd() % 3 ? 23 : 24, limit = (1 << bits) - 1;
    bool even = test_rnd() % 3 == 0;
    for (int k = 0; k < n; k++) {
        w[k] = even ? (1 << 22) / n : test_rnd_int(-limit, limit);
        if (!even && test_rnd() % 4 == 0)
            w[k] = test_rnd() % 2 ? limit : -limit;
    }
    if (n == 1 && test_rnd() % 2)
        w[0] = 1 << 22;
}

static bool one_v(const struct cpu_ops *ops, struct rows *src,
                  struct targets *want, struct targets *got)
{
    enum { MAX_N = 1100 };
    static const uint8_t *rows[MAX_N];
    struct cpu_ops c;
    cpu_ops_init(&c, CPU_FLAG_C);
    int n = test_rnd() % 64 == 0 ? test_rnd_int(1, MAX_N) : test_rnd_int(1, 20);
    size_t bytes = (size_t)test_rnd_int(1, test_rnd() % 4 ? 240 : 1800);
    // Weights end at the fence: not one may be read behind n.
    struct fenced fw;
    if (!fenced_init(&fw, (size_t)n * sizeof(int32_t)))
        return false;
    int32_t *w = (int32_t *)(void *)fw.end - n;
    v_weights(w, n);
    rows_fill(src, bytes);
    for (int k = 0; k < n; k++)
        rows[k] = src->row[test_rnd() % MAX_ROWS];
    targets_clear(want);
    targets_clear(got);
    c.resample_v(want->row[0], rows, w, n, bytes);
    ops->resample_v(got->row[0], rows, w, n, bytes);
    bool ok = targets_equal(want, got, 1, bytes);
    if (!ok)
        printf("  %s resample_v differs: %d rows of %zu bytes\n", ops->name, n,
               bytes);
    fenced_finish(&fw);
    return ok;
}

static void check_v(const struct cpu_ops *ops)
{
    struct rows src;
    struct targets want, got;
    CU_ASSERT_FATAL(rows_init(&src, MAX_BYTES));
    targets_init(&want);
    targets_init(&got);
    int bad = 0;
    for (int i = 0; i < CASES && bad < 5; i++)
        bad += !one_v(ops, &src, &want, &got);
    CU_ASSERT_EQUAL(bad, 0);
    targets_finish(&want);
    targets_finish(&got);
    rows_finish(&src);
}

// ---- store ----

// Random bits: NaNs and denormals must come through as they are.
static void random_table(struct cpu_store_table *t)
{
    uint8_t *p = (uint8_t *)t;
    for (size_t i = 0; i < offsetof(struct cpu_store_table, u8_identity); i++)
        p[i] = (uint8_t)test_rnd();
    t->u8_identity = test_rnd() % 3 == 0;
    if (t->u8_identity)
        for (int i = 0; i < 768; i++)
            t->u8[i / 256][i % 256] = (uint8_t)i;
}

static bool one_store(const struct cpu_ops *ops, struct rows *src,
                      struct targets *want, struct targets *got)
{
    static const int sizes[] = {4, 2, 1};
    static struct cpu_store_table table;
    struct cpu_ops c;
    cpu_ops_init(&c, CPU_FLAG_C);
    random_table(&table);
    int type = test_rnd_int(0, 2), channels = test_rnd() % 2 ? 3 : 1;
    bool planar = test_rnd() % 2;
    int w = test_rnd_int(1, test_rnd() % 4 ? 90 : 600), size = sizes[type];
    int num_dst = planar ? channels : 1;
    size_t bytes = (size_t)w * size * (planar ? 1 : channels);
    rows_fill(src, (size_t)w * channels);
    targets_clear(want);
    targets_clear(got);
    void *to_want[3] = {0}, *to_got[3] = {0};
    for (int i = 0; i < num_dst; i++) {
        want->row[i] = want->t[i].buf + GUARD + test_rnd_int(0, 15) * size;
        got->row[i] = got->t[i].buf + GUARD + test_rnd_int(0, 15) * size;
        to_want[i] = want->row[i];
        to_got[i] = got->row[i];
    }
    const struct cpu_store_table *t = &table;
    c.store(to_want, src->row[0], w, channels, planar, type, t);
    ops->store(to_got, src->row[0], w, channels, planar, type, t);
    bool ok = true;
    for (int i = 0; i < num_dst; i++)
        ok = ok && memcmp(want->row[i], got->row[i], bytes) == 0 &&
             target_intact(&want->t[i], want->row[i], bytes, 0) &&
             target_intact(&got->t[i], got->row[i], bytes, 0);
    if (!ok)
        printf("  %s store differs: w %d, %d channels, planar %d, type %d\n",
               ops->name, w, channels, planar, type);
    return ok;
}

static void check_store(const struct cpu_ops *ops)
{
    struct rows src;
    struct targets want, got;
    CU_ASSERT_FATAL(rows_init(&src, MAX_BYTES));
    targets_init(&want);
    targets_init(&got);
    int bad = 0;
    for (int i = 0; i < CASES && bad < 5; i++)
        bad += !one_store(ops, &src, &want, &got);
    CU_ASSERT_EQUAL(bad, 0);
    targets_finish(&want);
    targets_finish(&got);
    rows_finish(&src);
}

// ---- colour ----

static int muldiv255(int a, int b)
{
    return (int)floor(a * b / 255.0 + 0.5);
}

// Rounding and inversion against plain division, all values of ink and black.
static void check_cmyk(const struct cpu_ops *ops)
{
    int bad = 0;
    for (int k = 0; k < 256; k++) {
        uint8_t px[4 * 256], rgb[3 * 256];
        for (int x = 0; x < 256; x++) {
            uint8_t cmyk[4] = {(uint8_t)x, (uint8_t)(x ^ 85), (uint8_t)~x,
                               (uint8_t)k};
            memcpy(px + 4 * x, cmyk, 4);
            for (int c = 0; c < 3; c++)
                rgb[3 * x + c] = (uint8_t)(k - muldiv255(255 - cmyk[c], k));
        }
        ops->cmyk_to_rgb(px, px, 256);
        bad += memcmp(px, rgb, sizeof rgb) != 0;
    }
    CU_ASSERT_EQUAL(bad, 0);
}

static void check_gray(const struct cpu_ops *ops)
{
    int bad = 0;
    for (int i = 0; i < 200; i++) {
        uint8_t px[3 * 100], want[100];
        for (int x = 0; x < 300; x++)
            px[x] = (uint8_t)(i == 0 ? 255 : test_rnd());
        for (int x = 0; x < 100; x++)
            want[x] = (uint8_t)((px[3 * x] * 19595 + px[3 * x + 1] * 38470 +
                                 px[3 * x + 2] * 7471 + 0x8000) >>
                                16);
        ops->rgb_to_gray(px, px, 100);
        bad += memcmp(px, want, sizeof want) != 0;
    }
    CU_ASSERT_EQUAL(bad, 0);
}

// ---- the program ----

// CUnit hands nothing to a test; a suite's set-up fills this.
static struct cpu_ops tested;

static void test_h(void)
{
    check_h(&tested);
}

static void test_h_unpacked(void)
{
    check_h_unpacked(&tested);
}

static void test_v(void)
{
    check_v(&tested);
}

static void test_store(void)
{
    check_store(&tested);
}

static void test_cmyk(void)
{
    check_cmyk(&tested);
}

static void test_gray(void)
{
    check_gray(&tested);
}

static void test_color(void)
{
    CU_ASSERT_EQUAL(test_simd_color(&tested, CASES), 0);
}

static void test_ycc(void)
{
    CU_ASSERT_EQUAL(test_simd_ycc(&tested), 0);
}

static int use_c(void)
{
    cpu_ops_init(&tested, CPU_FLAG_C);
    return 0;
}

static int use_avx2(void)
{
    return level_ops(&levels[0], &tested) ? 0 : 1;
}

static int use_avx512(void)
{
    return level_ops(&levels[1], &tested) ? 0 : 1;
}

static bool add_suites(void)
{
    // Some of colour exists in C only, against a formula of its own.
    CU_pSuite c = CU_add_suite("c", use_c, NULL);
    if (!c || !CU_add_test(c, "cmyk_to_rgb", test_cmyk) ||
        !CU_add_test(c, "rgb_to_gray", test_gray) ||
        !CU_add_test(c, "ycc_to_rgb, all chroma", test_ycc))
        return false;
    int (*const use[NUM_LEVELS])(void) = {use_avx2, use_avx512};
    for (size_t i = 0; i < NUM_LEVELS; i++) {
        struct cpu_ops ops;
        if (!level_ops(&levels[i], &ops)) {
            printf("NOT RUN: %s, this machine has not got it\n",
                   levels[i].name);
            continue;
        }
        CU_pSuite s = CU_add_suite(levels[i].name, use[i], NULL);
        if (!s || !CU_add_test(s, "resample_h", test_h) ||
            !CU_add_test(s, "resample_h without packed weights",
                         test_h_unpacked) ||
            !CU_add_test(s, "resample_v", test_v) ||
            !CU_add_test(s, "store", test_store) ||
            !CU_add_test(s, "planes to pixels", test_color) ||
            !CU_add_test(s, "ycc_to_rgb, all chroma", test_ycc))
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    uint64_t seed = (uint64_t)time(NULL) ^ (uint64_t)getpid() << 32;
    bool want_bench = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--bench") == 0) {
            want_bench = true;
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            seed = strtoull(argv[++i], NULL, 0);
        } else {
            fprintf(stderr, "usage: %s [--bench] [--seed N]\n", argv[0]);
            return 2;
        }
    }
    printf("seed %llu\n", (unsigned long long)seed);
    test_rnd_seed(seed);
    if (CU_initialize_registry() != CUE_SUCCESS || !add_suites())
        return 2;
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    bool failed = CU_get_number_of_failures() || CU_get_error() ||
                  CU_get_number_of_suites_failed();
    CU_cleanup_registry();
    if (want_bench)
        test_simd_bench(), test_simd_color_bench();
    return failed;
}
