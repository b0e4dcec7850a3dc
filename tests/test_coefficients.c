// SPDX-License-Identifier: Apache-2.0
// Packed coefficients: what is in them (against libjpeg's own
// jpeg_read_coefficients), that they are enough for the window's pixels
// (against the decoder of rows), damaged and foreign files, memory that runs
// out. check_pack.c holds C against SIMD.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <CUnit/Basic.h>

#include "coef_reference.h"
#include "cpu_fallback/coefficients.h"
#include "cpu_fallback/jpeg_reader.h"
#include "samples_jpeg.h"
#include "samples_scene.h"

static uint64_t seed;

static uint32_t random32(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 32);
}

static int pick(int from, int to)  // both included
{
    return from + (int)(random32() % (uint32_t)(to - from + 1));
}

// ---- Memory that counts and fails ------------------------------------------

struct counting_heap {
    struct cpu_heap heap;
    size_t blocks, allocs;
    size_t fail_at;  // this allocation, from 1, and all after it; 0 = none
};

static void *counting_alloc(void *ctx, size_t size)
{
    struct counting_heap *h = ctx;
    void *p = NULL;

    h->allocs++;
    if ((h->fail_at && h->allocs >= h->fail_at) ||
        posix_memalign(&p, CPU_ALIGN, size))
        return NULL;
    h->blocks++;
    return p;
}

static void counting_free(void *ctx, void *block, size_t size)
{
    (void)size;
    ((struct counting_heap *)ctx)->blocks--;
    free(block);
}

// What a worker has.
struct bench {
    struct counting_heap heap;
    struct cpu_arena arena;
    struct cpu_ops ops;
    struct cpu_jpeg_state *jpeg;
};

static void bench_init(struct bench *b, unsigned flags)
{
    *b = (struct bench){.heap.heap = {counting_alloc, counting_free, &b->heap}};
    cpu_arena_init(&b->arena, &b->heap.heap);
    cpu_ops_init(&b->ops, flags);
    b->jpeg = cpu_jpeg_state_create(&b->heap.heap);
    CU_ASSERT_PTR_NOT_NULL_FATAL(b->jpeg);
}

static void bench_finish(struct bench *b)
{
    cpu_jpeg_state_destroy(&b->jpeg);
    cpu_arena_finish(&b->arena);
    CU_ASSERT_EQUAL(b->heap.blocks, 0);
}

// ---- Files -----------------------------------------------------------------

struct kind {
    const char *name;
    struct samples_jpeg jpeg;
};

#define KIND(name, ...) \
    {                   \
        name,           \
        {               \
            __VA_ARGS__ \
        }               \
    }
static const struct kind kinds[] = {
    KIND("444", .quality = 95),
    KIND("422", .sampling = 0x21, .quality = 90),
    KIND("420", .sampling = 0x22, .quality = 85),
    KIND("440", .sampling = 0x12, .quality = 85),
    KIND("411", .sampling = 0x41),
    KIND("410", .sampling = 0x42),
    KIND("441", .sampling = 0x14),
    KIND("3x1", .sampling = 0x31),
    KIND("1x3", .sampling = 0x13),
    KIND("all 2x1", .sampling = 0x212121),
    KIND("luma less", .sampling = 0x112222),
    KIND("uneven", .sampling = 0x222112),
    KIND("4 high, context", .sampling = 0x141211),
    KIND("gray", .color = SAMPLES_GRAY, .quality = 90),
    KIND("gray 2x2", .color = SAMPLES_GRAY, .sampling = 0x22),
    KIND("rgb", .color = SAMPLES_RGB, .quality = 90),
    KIND("rgb without Adobe", .color = SAMPLES_RGB, .no_adobe = true),
    KIND("420 restart", .sampling = 0x22, .restart_mcus = 3),
    KIND("444 restart", .restart_rows = 1, .quality = 98),
    KIND("420 optimized", .sampling = 0x22, .optimize = true),
    KIND("444 q100", .quality = 100),
    KIND("420 q3", .sampling = 0x22, .quality = 3),
    KIND("444 wide tables", .quality = 1, .wide_quant = true),
};
#undef KIND
enum { NUM_KINDS = sizeof(kinds) / sizeof(*kinds) };

struct file {
    struct samples_bytes bytes;
    int w, h;
};

// false: libjpeg does not write such a file.
static bool file_make(struct file *f, const struct samples_jpeg *jpeg, int w,
                      int h, bool harsh)
{
    struct samples_picture p;
    bool ok;

    *f = (struct file){.w = w, .h = h};
    ok = harsh ? samples_harsh_make(&p, w, h, random32())
               : samples_scene_make(&p, w, h, pick(0, SAMPLES_THEMES - 1),
                                    random32());
    CU_ASSERT_FATAL(ok);
    ok = samples_jpeg_encode(jpeg, &p, &f->bytes);
    samples_picture_finish(&p);
    return ok;
}

static void file_finish(struct file *f)
{
    samples_bytes_finish(&f->bytes);
}

static struct cpu_rect window_of(const struct file *f)
{
    struct cpu_rect r = {0, 0, f->w, f->h};

    if (pick(0, 3) == 0)
        return r;
    r.w = pick(1, f->w);
    r.h = pick(1, f->h);
    r.x = pick(0, f->w - r.w);
    r.y = pick(0, f->h - r.h);
    return r;
}

static struct cpu_decode_params params_of(const struct bench *b,
                                          const struct file *f,
                                          struct cpu_rect window, int channels)
{
    return (struct cpu_decode_params){.data = f->bytes.data,
                                      .size = f->bytes.size,
                                      .width = f->w,
                                      .height = f->h,
                                      .window = window,
                                      .channels = channels,
                                      .jpeg = b->jpeg};
}

// Packed, in memory of exactly its size; free(). NULL: *err says why.
static struct hr__coefficients *pack(struct bench *b, const struct file *f,
                                     struct cpu_rect window, size_t *size,
                                     struct cpu_decode_error *err)
{
    struct cpu_decode_params p = params_of(b, f, window, 3);
    struct cpu_packed packed;
    void *data = NULL;

    *err = (struct cpu_decode_error){.offset = -1};
    if (!cpu_coef_decode(&p, &b->ops, &b->arena, &packed, err)) {
        data = malloc(packed.size);
        CU_ASSERT_PTR_NOT_NULL_FATAL(data);
        cpu_coef_write(&packed, data);
        *size = packed.size;
    } else {
        CU_ASSERT_EQUAL(b->arena.used, 0);
    }
    cpu_arena_clear(&b->arena, 4 << 20);
    return data;
}

// The window as rows decode it, up to the end if the window has the last row;
// free(). NULL: it failed.
static uint8_t *rows_of(struct bench *b, const struct file *f,
                        struct cpu_rect w, int channels,
                        struct cpu_decode_error *err)
{
    struct cpu_decode_params p = params_of(b, f, w, channels);
    struct cpu_decode *d = cpu_jpeg_open(&p, &b->ops, &b->arena, err);
    size_t row = (size_t)w.w * (size_t)channels;
    uint8_t *out = malloc(row * (size_t)w.h);
    const uint8_t *rows[CPU_DECODE_ROWS];
    int done = 0, n = 1;

    CU_ASSERT_PTR_NOT_NULL_FATAL(out);
    while (d && done < w.h &&
           (n = cpu_decode_rows(d, rows, CPU_DECODE_ROWS, err)))
        for (int i = 0; i < n; i++)
            memcpy(out + row * (size_t)done++, rows[i], row);
    if (!d || cpu_decode_close(d, n && w.y + w.h == f->h, err)) {
        free(out);
        out = NULL;
    }
    cpu_arena_clear(&b->arena, 4 << 20);
    return out;
}

// ---- What is in them -------------------------------------------------------

static int num_covered, num_blocks;

// The contract's words, by brute force: each pixel of the window, its sample
// and the neighbours of that.
static void check_cover(const struct hr__coefficients *c, const char *name)
{
    int bad = 0;

    for (uint32_t i = 0; i < c->num_components; i++) {
        const struct hr__coef_component *p = &c->comp[i];
        uint32_t rx = c->h_max / p->h, ry = c->v_max / p->v;
        uint32_t x0 = c->x / rx, x1 = (c->x + c->w - 1) / rx;
        uint32_t y0 = c->y / ry, y1 = (c->y + c->h - 1) / ry;

        x0 = x0 ? x0 - 1 : 0;
        y0 = y0 ? y0 - 1 : 0;
        x1 = x1 + 1 < p->width ? x1 + 1 : x1;
        y1 = y1 + 1 < p->height ? y1 + 1 : y1;
        bad += p->block_x != x0 / 8 || p->block_y != y0 / 8;
        bad += p->block_x + p->blocks_w != x1 / 8 + 1;
        bad += p->block_y + p->blocks_h != y1 / 8 + 1;
        num_covered++;
    }
    if (bad) {
        CU_FAIL("coverage");
        printf("\n  %s: window %u,%u %ux%u", name, c->x, c->y, c->w, c->h);
    }
}

static bool same_component(struct jpeg_decompress_struct *cinfo,
                           const struct hr__coefficients *c, int i,
                           jvirt_barray_ptr array)
{
    const jpeg_component_info *info = &cinfo->comp_info[i];
    const struct hr__coef_component *p = &c->comp[i];
    bool same = p->h == (uint32_t)info->h_samp_factor &&
                p->v == (uint32_t)info->v_samp_factor &&
                p->width == info->downsampled_width &&
                p->height == info->downsampled_height &&
                !memcmp(p->quant, info->quant_table->quantval,
                        sizeof(p->quant));
    int16_t coef[64];

    for (uint32_t y = p->block_y; y < p->block_y + p->blocks_h; y++) {
        JBLOCKARRAY row = cinfo->mem->access_virt_barray((j_common_ptr)cinfo,
                                                         array, y, 1, FALSE);

        for (uint32_t x = p->block_x; x < p->block_x + p->blocks_w; x++) {
            same = same && coef_reference_block(c, i, x, y, coef) &&
                   !memcmp(coef, row[0][x], sizeof(coef));
            num_blocks++;
        }
    }
    return same;
}

// The file is sound, so libjpeg's own error handling never runs.
static bool same_as_libjpeg(const struct file *f,
                            const struct hr__coefficients *c)
{
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr error;
    jvirt_barray_ptr *arrays;
    bool same;

    cinfo.err = jpeg_std_error(&error);
    jpeg_create_decompress(&cinfo);
    jpeg_mem_src(&cinfo, f->bytes.data, (unsigned long)f->bytes.size);
    jpeg_read_header(&cinfo, TRUE);
    arrays = jpeg_read_coefficients(&cinfo);
    same = c->num_components == (uint32_t)cinfo.num_components &&
           c->h_max == (uint32_t)cinfo.max_h_samp_factor &&
           c->v_max == (uint32_t)cinfo.max_v_samp_factor &&
           (c->color == HR_COLOR_GRAY) == (cinfo.num_components == 1) &&
           (c->color == HR_COLOR_RGB) == (cinfo.jpeg_color_space == JCS_RGB);
    for (int i = 0; i < cinfo.num_components; i++)
        same = same_component(&cinfo, c, i, arrays[i]) && same;
    jpeg_destroy_decompress(&cinfo);
    return same;
}

static int same_pixels, num_range;

static void check_pixels(struct bench *b, const struct file *f,
                         const struct hr__coefficients *c, const char *name)
{
    struct cpu_rect w = {(int)c->x, (int)c->y, (int)c->w, (int)c->h};
    int channels = pick(0, 3) ? 3 : 1;
    size_t size = (size_t)w.w * (size_t)w.h * (size_t)channels;
    struct cpu_decode_error err = {.offset = -1};
    uint8_t *want = rows_of(b, f, w, channels, &err), *got = malloc(size);

    CU_ASSERT_PTR_NOT_NULL_FATAL(want);
    CU_ASSERT_PTR_NOT_NULL_FATAL(got);
    for (int plain = 0; plain <= !c->range; plain++) {
        memset(got, 0, size);
        if (!coef_reference_window(c, channels, plain, got) ||
            memcmp(got, want, size)) {
            CU_FAIL("pixels");
            printf("\n  %s: %d x %d, window %d,%d %dx%d, %d channels, plain %d",
                   name, f->w, f->h, w.x, w.y, w.w, w.h, channels, plain);
        }
    }
    num_range += (int)c->range;
    same_pixels++;
    free(want);
    free(got);
}

static void check_file(struct bench *b, const struct file *f, const char *name)
{
    struct cpu_decode_error err;
    struct cpu_rect w = window_of(f);
    size_t size = 0;
    struct hr__coefficients *c = pack(b, f, w, &size, &err);
    const char *wrong;

    if (!c) {
        CU_FAIL("a sound file is refused");
        printf("\n  %s: %d x %d: %s", name, f->w, f->h, err.text);
        return;
    }
    wrong = coef_reference_check(c, size);
    if (wrong || !same_as_libjpeg(f, c) || c->x != (uint32_t)w.x ||
        c->y != (uint32_t)w.y || c->w != (uint32_t)w.w ||
        c->h != (uint32_t)w.h) {
        CU_FAIL("coefficients");
        printf("\n  %s: %d x %d, window %d,%d %dx%d: %s", name, f->w, f->h, w.x,
               w.y, w.w, w.h, wrong ? wrong : "not libjpeg's");
    }
    check_cover(c, name);
    check_pixels(b, f, c, name);
    free(c);
}

static void all_kinds(unsigned flags, int rounds)
{
    struct bench b;
    struct file f;

    bench_init(&b, flags);
    for (int k = 0; k < NUM_KINDS; k++)
        for (int i = 0; i < rounds; i++) {
            int most = i % 2 ? 24 : 150;

            if (!file_make(&f, &kinds[k].jpeg, pick(1, most), pick(1, most),
                           i % 5 == 4)) {
                CU_FAIL("not encoded");
                printf("\n  %s", kinds[k].name);
                continue;
            }
            for (int n = 0; n < 3; n++)
                check_file(&b, &f, kinds[k].name);
            file_finish(&f);
        }
    bench_finish(&b);
}

static void test_kinds(void)
{
    num_covered = num_blocks = same_pixels = num_range = 0;
    all_kinds(~0u, 20);
    all_kinds(CPU_FLAG_C, 4);
    printf("\n  %d blocks as libjpeg's, %d windows of components, %d of "
           "pixels, %d of them with range set; ",
           num_blocks, num_covered, same_pixels, num_range);
    CU_ASSERT(num_range > 0 && num_range < same_pixels / 2);
}

// ---- Damage, and what is not for this form ---------------------------------

// What the HAL relies on: what is packed without complaint, rows would decode
// without one, to the same pixels.
static void check_damaged(struct bench *b, const struct file *f, int count[3])
{
    struct cpu_decode_error err, rows_err = {.offset = -1};
    struct cpu_rect w = window_of(f);
    size_t size = 0, bytes = (size_t)w.w * (size_t)w.h * 3;
    struct hr__coefficients *c = pack(b, f, w, &size, &err);
    uint8_t *want = rows_of(b, f, w, 3, &rows_err), *got;

    if (!c) {
        CU_ASSERT(err.result == CPU_CORRUPT || err.result == CPU_TRUNCATED ||
                  err.result == CPU_UNSUPPORTED);
        count[want && !rows_err.warnings ? 2 : 1]++;
    } else {
        got = malloc(bytes);
        CU_ASSERT_PTR_NOT_NULL_FATAL(got);
        if (!want || rows_err.warnings || coef_reference_check(c, size) ||
            !coef_reference_window(c, 3, false, got) ||
            memcmp(got, want, bytes)) {
            CU_FAIL("damage was not seen");
            printf("\n  %d x %d, window %d,%d %dx%d: rows: %s, %d warnings, %s",
                   f->w, f->h, w.x, w.y, w.w, w.h, want ? "ok" : "failed",
                   rows_err.warnings, rows_err.text);
        }
        count[0]++;
        free(got);
    }
    free(c);
    free(want);
}

static void damage(struct file *f)
{
    size_t at = f->bytes.size / 5 +
                random32() % (f->bytes.size - f->bytes.size / 5);

    switch (pick(0, 4)) {
    case 0:
        f->bytes.size = at;
        break;
    case 1:  // a marker in the data
        f->bytes.data[at] = 0xff;
        break;
    case 2:  // bytes are missing
        memmove(f->bytes.data + at, f->bytes.data + at + 1,
                f->bytes.size - at - 1);
        f->bytes.size--;
        break;
    default:
        f->bytes.data[at] ^= (uint8_t)(1 << pick(0, 7));
    }
}

static void test_damage(void)
{
    int count[3] = {0};
    struct bench b;
    struct file f, sound;

    bench_init(&b, ~0u);
    for (int i = 0; i < 600; i++) {
        int k = i % NUM_KINDS;

        CU_ASSERT_FATAL(
            file_make(&f, &kinds[k].jpeg, pick(1, 130), pick(1, 130), false));
        damage(&f);
        for (int n = 0; n < 3; n++)
            check_damaged(&b, &f, count);
        file_finish(&f);
        // Nothing of it stays in libjpeg's objects.
        if (i % 50 == 0) {
            CU_ASSERT_FATAL(file_make(&sound, &kinds[0].jpeg, 40, 30, false));
            check_file(&b, &sound, "after a damaged one");
            file_finish(&sound);
        }
    }
    bench_finish(&b);
    printf("\n  packed %d, damage seen by both %d, outside of what rows read "
           "%d; ",
           count[0], count[1], count[2]);
    CU_ASSERT(count[0] > 100 && count[1] > 100);
    CU_ASSERT(count[2] < (count[0] + count[1]) / 4);
}

static void test_foreign(void)
{
    static const struct kind foreign[] = {
        {"progressive", {.order = SAMPLES_PROGRESSIVE}},
        {"scan per component", {.order = SAMPLES_SEPARATE}},
        {"partly interleaved", {.order = SAMPLES_PARTLY}},
        {"arithmetic", {.arithmetic = true}},
        {"CMYK", {.color = SAMPLES_CMYK}},
        {"YCCK", {.color = SAMPLES_YCCK}},
    };
    struct cpu_decode_error err;
    struct bench b;
    struct file f;
    size_t size;

    bench_init(&b, ~0u);
    for (size_t i = 0; i < sizeof(foreign) / sizeof(*foreign); i++) {
        if (!file_make(&f, &foreign[i].jpeg, 40, 30, false)) {
            printf("\n  not run, libjpeg does not write it: %s; ",
                   foreign[i].name);
            continue;
        }
        CU_ASSERT_PTR_NULL(pack(&b, &f, window_of(&f), &size, &err));
        CU_ASSERT_EQUAL(err.result, CPU_UNSUPPORTED);
        file_finish(&f);
    }
    bench_finish(&b);
}

static bool stop_at_once(void *ctx)
{
    ++*(int *)ctx;
    return true;
}

static void test_stop(void)
{
    struct cpu_decode_error err = {.offset = -1};
    struct cpu_packed packed;
    struct bench b;
    struct file f;
    int asked = 0;

    bench_init(&b, ~0u);
    CU_ASSERT_FATAL(file_make(&f, &kinds[2].jpeg, 90, 90, false));
    struct cpu_decode_params p = params_of(&b, &f,
                                           (struct cpu_rect){0, 0, 90, 90}, 3);
    p.stop = stop_at_once;
    p.stop_ctx = &asked;
    CU_ASSERT_EQUAL(cpu_coef_decode(&p, &b.ops, &b.arena, &packed, &err),
                    CPU_STOPPED);
    CU_ASSERT_EQUAL(asked, 1);
    CU_ASSERT_EQUAL(b.arena.used, 0);
    file_finish(&f);
    bench_finish(&b);
}

// ---- Memory ----------------------------------------------------------------

static void test_steady(void)
{
    struct cpu_decode_error err;
    struct bench b;
    struct file f[4];
    size_t size, allocs = 0;

    bench_init(&b, ~0u);
    for (int i = 0; i < 4; i++)
        CU_ASSERT_FATAL(
            file_make(&f[i], &kinds[i].jpeg, 500 - 40 * i, 375, false));
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 4; i++) {
            struct cpu_rect all = {0, 0, f[i].w, f[i].h};
            void *c = pack(&b, &f[i], all, &size, &err);

            CU_ASSERT_PTR_NOT_NULL(c);
            free(c);
        }
        if (round == 0)
            allocs = b.heap.allocs;
        CU_ASSERT_EQUAL(b.heap.allocs, allocs);
    }
    for (int i = 0; i < 4; i++)
        file_finish(&f[i]);
    bench_finish(&b);
}

static void test_no_memory(void)
{
    struct cpu_decode_error err;
    struct bench b;
    struct file f;
    struct hr__coefficients *c = NULL;
    size_t size, failures = 0, limits = 0;

    bench_init(&b, ~0u);
    CU_ASSERT_FATAL(file_make(&f, &kinds[20].jpeg, 700, 500, true));
    struct cpu_rect all = {0, 0, f.w, f.h};
    for (; !c; failures++) {
        cpu_arena_clear(&b.arena, 0);
        b.heap.allocs = 0;
        b.heap.fail_at = failures + 1;
        c = pack(&b, &f, all, &size, &err);
        if (!c)
            CU_ASSERT_EQUAL(err.result, CPU_NOMEM);
    }
    free(c);
    c = NULL;
    b.heap.fail_at = 0;
    for (; !c; limits++) {
        b.arena.limit = 1000 + 20000 * limits;
        c = pack(&b, &f, all, &size, &err);
        if (!c)
            CU_ASSERT_EQUAL(err.result, CPU_NOMEM);
    }
    CU_ASSERT_PTR_NULL(coef_reference_check(c, size));
    CU_ASSERT(same_as_libjpeg(&f, c));
    CU_ASSERT(failures > 2 && limits > 10);
    printf("\n  %zu allocations failed, %zu limits; ", failures - 1,
           limits - 1);
    free(c);
    file_finish(&f);
    bench_finish(&b);
}

int main(void)
{
    const char *given = getenv("HEADRACE_SEED");
    unsigned failures;
    CU_pSuite s;

    seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
    printf("seed: %llu (HEADRACE_SEED)\n", (unsigned long long)seed);
    seed = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    if (CU_initialize_registry() != CUE_SUCCESS)
        return 2;
    s = CU_add_suite("coefficients", NULL, NULL);
    if (!s || !CU_add_test(s, "kinds", test_kinds) ||
        !CU_add_test(s, "damage", test_damage) ||
        !CU_add_test(s, "foreign", test_foreign) ||
        !CU_add_test(s, "stop", test_stop) ||
        !CU_add_test(s, "steady state", test_steady) ||
        !CU_add_test(s, "no memory", test_no_memory))
        return 2;
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
