// SPDX-License-Identifier: Apache-2.0
// The SIMD kernels against the readable C, byte by byte, on random and on
// worst-case input.
#include <math.h>

#include "heaps.h"
#include "simd_axes.h"
#include "simd_color.h"
#include "simd_levels.h"
#include "simd_packed.h"
#include "simd_reconstruct.h"
#include "simd_rows.h"
#include "testing.h"

#define CASES 6000  // per kernel and level

// ---- Horizontal pass ------------------------------------------------------

static bool one_h(const struct cpu_ops *ops, struct cpu_arena *arena,
                  struct simd_rows *src, struct simd_targets *want,
                  struct simd_targets *got)
{
    struct cpu_ops c;
    cpu_ops_init(&c, CPU_FLAG_C);
    struct axis x;
    char text[80];
    test_axis_random(&x, text, sizeof text);
    int channels = test_rnd() % 2 ? 3 : 1, rows = test_rnd_int(1, SIMD_ROWS);
    size_t bytes = (size_t)x.a.out * channels;
    simd_rows_fill(src, (size_t)x.a.in * channels);
    simd_targets_clear(want);
    simd_targets_clear(got);

    c.resample_h(want->row, src->row, rows, channels, &x.a);
    bool packed = !ops->pack_h || ops->pack_h(&x.a, channels, arena);
    ops->resample_h(got->row, src->row, rows, channels, &x.a);
    bool ok = packed && simd_targets_equal(want, got, rows, bytes);
    if (!ok)
        printf("  %s resample_h differs: %s, %d channels, %d rows\n", ops->name,
               text, channels, rows);
    cpu_arena_clear(arena, SIZE_MAX);
    test_axis_finish(&x);
    return ok;
}

static void check_h(const struct cpu_ops *ops)
{
    struct simd_rows src;
    struct simd_targets want, got;
    struct cpu_arena arena;
    cpu_arena_init(&arena, &plain_heap);
    simd_rows_init(&src, SIMD_BYTES);
    simd_targets_init(&want);
    simd_targets_init(&got);
    int bad = 0;
    for (int i = 0; i < CASES && bad < 5; i++)
        bad += !one_h(ops, &arena, &src, &want, &got);
    CU_ASSERT_EQUAL(bad, 0);
    simd_targets_finish(&want);
    simd_targets_finish(&got);
    simd_rows_finish(&src);
    cpu_arena_finish(&arena);
}

// A kernel must also be right where pack_h was refused memory, at whatever
// point of its work.
static void check_h_unpacked(const struct cpu_ops *ops)
{
    struct simd_rows src;
    struct simd_targets want, got;
    struct cpu_arena arena;
    struct axis x;
    struct cpu_ops c;
    cpu_ops_init(&c, CPU_FLAG_C);
    cpu_arena_init(&arena, &plain_heap);
    simd_rows_init(&src, SIMD_BYTES);
    simd_targets_init(&want);
    simd_targets_init(&got);
    test_axis_filter(&x, 2400, 600, TEST_LANCZOS);
    simd_rows_fill(&src, 2400 * 3);
    bool packed = false;
    int refused = 0;
    for (arena.limit = 64; !packed; arena.limit *= 2) {
        x.a.packed = &x;
        packed = ops->pack_h(&x.a, 3, &arena);
        refused += !packed;
        CU_ASSERT_EQUAL(packed, x.a.packed != NULL);
        simd_targets_clear(&want);
        simd_targets_clear(&got);
        c.resample_h(want.row, src.row, 5, 3, &x.a);
        ops->resample_h(got.row, src.row, 5, 3, &x.a);
        CU_ASSERT(simd_targets_equal(&want, &got, 5, 1800));
        cpu_arena_clear(&arena, SIZE_MAX);
    }
    CU_ASSERT(refused > 3);
    test_axis_finish(&x);
    cpu_arena_finish(&arena);
    simd_targets_finish(&want);
    simd_targets_finish(&got);
    simd_rows_finish(&src);
}

// ---- Vertical pass --------------------------------------------------------

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

typedef bool one_fn(const struct cpu_ops *ops, struct simd_rows *src,
                    struct simd_targets *want, struct simd_targets *got);

// One random case after the other, of functions that read rows and write
// targets.
static void check_rows(const struct cpu_ops *ops, one_fn *one)
{
    struct simd_rows src;
    struct simd_targets want, got;
    simd_rows_init(&src, SIMD_BYTES);
    simd_targets_init(&want);
    simd_targets_init(&got);
    int bad = 0;
    for (int i = 0; i < CASES && bad < 5; i++)
        bad += !one(ops, &src, &want, &got);
    CU_ASSERT_EQUAL(bad, 0);
    simd_targets_finish(&want);
    simd_targets_finish(&got);
    simd_rows_finish(&src);
}

static bool one_v(const struct cpu_ops *ops, struct simd_rows *src,
                  struct simd_targets *want, struct simd_targets *got)
{
    enum { MAX_N = 1100 };
    static const uint8_t *rows[MAX_N];
    struct cpu_ops c;
    cpu_ops_init(&c, CPU_FLAG_C);
    int n = test_rnd() % 64 == 0 ? test_rnd_int(1, MAX_N) : test_rnd_int(1, 20);
    size_t bytes = (size_t)test_rnd_int(1, test_rnd() % 4 ? 240 : 1800);
    // Weights end at the fence: not one may be read behind n.
    struct fenced fw;
    fenced_init(&fw, (size_t)n * sizeof(int32_t));
    int32_t *w = (int32_t *)(void *)fw.end - n;
    v_weights(w, n);
    simd_rows_fill(src, bytes);
    for (int k = 0; k < n; k++)
        rows[k] = src->row[test_rnd() % SIMD_ROWS];
    simd_targets_clear(want);
    simd_targets_clear(got);
    c.resample_v(want->row[0], rows, w, n, bytes);
    ops->resample_v(got->row[0], rows, w, n, bytes);
    bool ok = simd_targets_equal(want, got, 1, bytes);
    if (!ok)
        printf("  %s resample_v differs: %d rows of %zu bytes\n", ops->name, n,
               bytes);
    fenced_finish(&fw);
    return ok;
}

static void check_v(const struct cpu_ops *ops)
{
    check_rows(ops, one_v);
}

// ---- Store ----------------------------------------------------------------

// Random bits: NaNs and denormals must come through as they are.
static void random_table(struct hr__table *t)
{
    uint8_t *p = (uint8_t *)t;
    for (size_t i = 0; i < offsetof(struct hr__table, u8_identity); i++)
        p[i] = (uint8_t)test_rnd();
    for (int i = 0; i < 3 * 4 * 256; i++)
        t->f32_bytes[i / 1024][i / 256 % 4][i % 256] =
            ((uint8_t *)&t->f32[i / 1024][i % 256])[i / 256 % 4];
    t->u8_identity = test_rnd() % 3 == 0;
    if (t->u8_identity)
        for (int i = 0; i < 768; i++)
            t->u8[i / 256][i % 256] = (uint8_t)i;
}

static bool one_store(const struct cpu_ops *ops, struct simd_rows *src,
                      struct simd_targets *want, struct simd_targets *got)
{
    static const int sizes[] = {4, 2, 1};
    static struct hr__table table;
    struct cpu_ops c;
    cpu_ops_init(&c, CPU_FLAG_C);
    random_table(&table);
    int type = test_rnd_int(0, 2), channels = test_rnd() % 2 ? 3 : 1;
    bool planar = test_rnd() % 2;
    int w = test_rnd_int(1, test_rnd() % 4 ? 90 : 600), size = sizes[type];
    int num_dst = planar ? channels : 1;
    size_t bytes = (size_t)w * size * (planar ? 1 : channels);
    simd_rows_fill(src, (size_t)w * channels);
    simd_targets_clear(want);
    simd_targets_clear(got);
    void *to_want[3] = {0}, *to_got[3] = {0};
    for (int i = 0; i < num_dst; i++) {
        want->row[i] = want->t[i].buf + SIMD_GUARD + test_rnd_int(0, 15) * size;
        got->row[i] = got->t[i].buf + SIMD_GUARD + test_rnd_int(0, 15) * size;
        to_want[i] = want->row[i];
        to_got[i] = got->row[i];
    }
    const struct hr__table *t = &table;
    size_t next = test_rnd() % 2 ? test_rnd() : 0;
    c.store(to_want, next, src->row[0], w, channels, planar, type, t);
    ops->store(to_got, next, src->row[0], w, channels, planar, type, t);
    bool ok = true;
    for (int i = 0; i < num_dst; i++)
        ok = ok && memcmp(want->row[i], got->row[i], bytes) == 0 &&
             simd_target_intact(&want->t[i], want->row[i], bytes, 0) &&
             simd_target_intact(&got->t[i], got->row[i], bytes, 0);
    if (!ok)
        printf("  %s store differs: w %d, %d channels, planar %d, type %d\n",
               ops->name, w, channels, planar, type);
    return ok;
}

static void check_store(const struct cpu_ops *ops)
{
    check_rows(ops, one_store);
}

// ---- Color ----------------------------------------------------------------

static int muldiv255(int a, int b)
{
    return (int)floor(a * b / 255.0 + 0.5);
}

// Rounding and inversion against plain division, all values of ink and black.
static void check_cmyk(const struct cpu_ops *ops)
{
    int bad = 0;
    for (int k = 0; k < 256; k++) {
        uint8_t px[4 * 256 + CPU_SLACK], rgb[3 * 256];
        for (int x = 0; x < 256; x++) {
            uint8_t cmyk[4] = {(uint8_t)x, (uint8_t)(x ^ 85), (uint8_t)~x,
                               (uint8_t)k};
            memcpy(px + 4 * x, cmyk, 4);
            for (int c = 0; c < 3; c++)
                rgb[3 * x + c] = (uint8_t)(k - muldiv255(255 - cmyk[c], k));
        }
        // (Now and then less than all: slack follows.)
        int w = k % 3 ? 256 : k + 1;
        ops->cmyk_to_rgb(px, px, w);
        bad += memcmp(px, rgb, 3 * (size_t)w) != 0;
    }
    CU_ASSERT_EQUAL(bad, 0);
}

static void check_gray(const struct cpu_ops *ops)
{
    int bad = 0;
    for (int i = 0; i < 200; i++) {
        uint8_t px[3 * 100 + CPU_SLACK], want[100];
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

static void check_color(const struct cpu_ops *ops)
{
    CU_ASSERT_EQUAL(test_simd_color(ops, CASES), 0);
}

static void check_ycc(const struct cpu_ops *ops)
{
    CU_ASSERT_EQUAL(test_simd_ycc(ops), 0);
}

static void check_reconstruct(const struct cpu_ops *ops)
{
    CU_ASSERT_EQUAL(test_simd_reconstruct(ops, CASES), 0);
}

static void check_packed(const struct cpu_ops *ops)
{
    CU_ASSERT_EQUAL(test_simd_packed(ops, CASES), 0);
}

// ---- The program ----------------------------------------------------------

// On C and all that this machine has, or only on what is compared with C.
static void on_levels(int first, void (*check)(const struct cpu_ops *ops))
{
    struct cpu_ops ops;
    int run = 0;

    test_rnd_seed(test_seed);
    for (int i = first; i < CPU_LEVELS; i++)
        if (simd_level_ops(i, &ops)) {
            check(&ops);
            run++;
        }
    if (!run)
        test_not_run("there is nothing but C here");
}

TEST_CASE(cmyk_to_rgb)
{
    on_levels(0, check_cmyk);
}

TEST_CASE(rgb_to_gray)
{
    on_levels(0, check_gray);
}

TEST_CASE(ycc_to_rgb)
{
    on_levels(0, check_ycc);
}

TEST_CASE(resample_h)
{
    on_levels(1, check_h);
}

TEST_CASE(resample_h_unpacked)
{
    on_levels(1, check_h_unpacked);
}

TEST_CASE(resample_v)
{
    on_levels(1, check_v);
}

TEST_CASE(store)
{
    on_levels(1, check_store);
}

TEST_CASE(planes_to_pixels)
{
    on_levels(1, check_color);
}

TEST_CASE(reconstruct)
{
    on_levels(1, check_reconstruct);
}

TEST_CASE(packed)
{
    on_levels(1, check_packed);
}
