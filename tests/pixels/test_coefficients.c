// SPDX-License-Identifier: Apache-2.0
// Packed coefficients: their values (against libjpeg's own
// jpeg_read_coefficients), that they are enough for the window's pixels
// (against the decoder of rows), damaged and foreign files, memory that runs
// out. test_packed.c holds C against SIMD.
#include "coef_files.h"
#include "coef_reference.h"
#include "cpu_fallback/jpeg/coefficients.h"
#include "decode_run.h"

static struct hr__rect window_of(const struct coef_file *f)
{
    return coef_pick(0, 3) ? dt_random_rect(f->w, f->h)
                           : (struct hr__rect){0, 0, f->w, f->h};
}

static struct cpu_decode_params params_of(const struct coef_file *f,
                                          struct hr__rect window, int channels)
{
    const struct bytes file = {f->bytes.data, f->bytes.size};

    return dt_params(&file, f->w, f->h, window, channels);
}

// Packed, in memory of exactly its size; free(). NULL: *err says why.
static struct hr__coefficients *pack(const struct coef_file *f,
                                     struct hr__rect window, size_t *size,
                                     struct cpu_decode_error *err)
{
    struct cpu_decode_params p = params_of(f, window, 3);
    struct cpu_coef_lines lines;
    void *data = NULL;

    *err = (struct cpu_decode_error){.offset = -1};
    if (!cpu_coef_decode(&p, &dt_ops, &dt_arena, &lines, err)) {
        data = malloc(lines.size);
        CU_ASSERT_PTR_NOT_NULL_FATAL(data);
        cpu_coef_write(&lines, data);
        *size = lines.size;
    } else {
        CU_ASSERT_EQUAL(dt_arena.used, 0);
    }
    cpu_arena_clear(&dt_arena, 4 << 20);
    return data;
}

// The window as rows decode it, up to the end if the window has the last row;
// free(). NULL: it failed.
static uint8_t *rows_of(const struct coef_file *f, struct hr__rect w,
                        int channels, struct cpu_decode_error *err)
{
    struct cpu_decode_params p = params_of(f, w, channels);
    uint8_t *out = malloc((size_t)(w.w * w.h * channels));

    if (dt_decode(&cpu_jpeg_decoder, &p, w.y + w.h == f->h, out, err)) {
        free(out);
        out = NULL;
    }
    cpu_arena_clear(&dt_arena, 4 << 20);
    return out;
}

// ---- What is in them ------------------------------------------------------

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
static bool same_as_libjpeg(const struct coef_file *f,
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

static int same_pixels;

static void check_pixels(const struct coef_file *f,
                         const struct hr__coefficients *c, const char *name)
{
    struct hr__rect w = {(int)c->x, (int)c->y, (int)c->w, (int)c->h};
    int channels = coef_pick(0, 3) ? 3 : 1;
    size_t size = (size_t)w.w * (size_t)w.h * (size_t)channels;
    struct cpu_decode_error err = {.offset = -1};
    auto_heap uint8_t *want = rows_of(f, w, channels, &err),
                      *got = malloc(size);

    CU_ASSERT_PTR_NOT_NULL_FATAL(want);
    CU_ASSERT_PTR_NOT_NULL_FATAL(got);
    memset(got, 0, size);
    if (!coef_reference_window(c, channels, got) || memcmp(got, want, size)) {
        CU_FAIL("pixels");
        printf("\n  %s: %d x %d, window %d,%d %dx%d, %d channels", name, f->w,
               f->h, w.x, w.y, w.w, w.h, channels);
    }
    same_pixels++;
}

static void check_file(const struct coef_file *f, const char *name)
{
    struct cpu_decode_error err;
    struct hr__rect w = window_of(f);
    size_t size = 0;
    auto_heap struct hr__coefficients *c = pack(f, w, &size, &err);
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
    check_pixels(f, c, name);
}

static void all_kinds(unsigned flags, int rounds)
{
    struct coef_file f;

    cpu_ops_init(&dt_ops, flags);
    for (int k = 0; k < COEF_KINDS; k++)
        for (int i = 0; i < rounds; i++) {
            int most = i % 2 ? 24 : 150;

            if (!coef_file_make(&f, &coef_kinds[k].jpeg, coef_pick(1, most),
                                coef_pick(1, most), i % 5 == 4)) {
                CU_FAIL("not encoded");
                printf("\n  %s", coef_kinds[k].name);
                continue;
            }
            for (int n = 0; n < 3; n++)
                check_file(&f, coef_kinds[k].name);
            coef_file_finish(&f);
        }
}

TEST_CASE(kinds)
{
    coef_seed(test_seed);
    num_covered = num_blocks = same_pixels = 0;
    all_kinds(~0u, 20);
    all_kinds(CPU_FLAG_C, 4);
    printf("\n  %d blocks as libjpeg's, %d windows of components, %d of "
           "pixels; ",
           num_blocks, num_covered, same_pixels);
    CU_ASSERT(num_blocks > 0 && num_covered > 0);
    CU_ASSERT(same_pixels > 0);
}

// ---- Damage, and what is not for this form --------------------------------

// The HAL relies on this: a file that is packed without complaint decodes to
// rows without one, to the same pixels.
static void check_damaged(const struct coef_file *f, int count[3])
{
    struct cpu_decode_error err, rows_err = {.offset = -1};
    struct hr__rect w = window_of(f);
    size_t size = 0, bytes = (size_t)w.w * (size_t)w.h * 3;
    auto_heap struct hr__coefficients *c = pack(f, w, &size, &err);
    uint8_t *want = rows_of(f, w, 3, &rows_err), *got;

    if (!c) {
        CU_ASSERT(err.result == CPU_CORRUPT || err.result == CPU_TRUNCATED ||
                  err.result == CPU_UNSUPPORTED);
        count[want && !rows_err.warnings ? 2 : 1]++;
    } else {
        got = malloc(bytes);
        CU_ASSERT_PTR_NOT_NULL_FATAL(got);
        if (!want || rows_err.warnings || coef_reference_check(c, size) ||
            !coef_reference_window(c, 3, got) || memcmp(got, want, bytes)) {
            CU_FAIL("damage was not seen");
            printf("\n  %d x %d, window %d,%d %dx%d: rows: %s, %d warnings, %s",
                   f->w, f->h, w.x, w.y, w.w, w.h, want ? "ok" : "failed",
                   rows_err.warnings, rows_err.text);
        }
        count[0]++;
        free(got);
    }
    free(want);
}

TEST_CASE(damaged)
{
    int count[3] = {0};
    struct coef_file f, bad, sound;
    struct bytes bytes;

    coef_seed(test_seed);
    cpu_ops_init(&dt_ops, ~0u);
    for (int i = 0; i < 600; i++) {
        int k = i % COEF_KINDS;

        CU_ASSERT_FATAL(coef_file_make(&f, &coef_kinds[k].jpeg,
                                       coef_pick(1, 130), coef_pick(1, 130),
                                       false));
        bytes = (struct bytes){f.bytes.data, f.bytes.size};
        bytes = dt_damaged(&bytes, bytes.size / 5, NULL);
        bad = f;
        bad.bytes = (struct samples_bytes){.data = bytes.data,
                                           .size = bytes.size};
        for (int n = 0; n < 3; n++)
            check_damaged(&bad, count);
        free(bytes.data);
        coef_file_finish(&f);
        // Nothing of it stays in libjpeg's objects.
        if (i % 50 == 0) {
            CU_ASSERT_FATAL(
                coef_file_make(&sound, &coef_kinds[0].jpeg, 40, 30, false));
            check_file(&sound, "after a damaged one");
            coef_file_finish(&sound);
        }
    }
    printf("\n  packed %d, damage seen by both %d, outside of what rows read "
           "%d; ",
           count[0], count[1], count[2]);
    CU_ASSERT(count[0] > 100 && count[1] > 100);
    CU_ASSERT(count[2] < (count[0] + count[1]) / 4);
}

TEST_CASE(foreign)
{
    static const struct coef_kind foreign[] = {
        {"progressive", {.order = SAMPLES_PROGRESSIVE}},
        {"scan per component", {.order = SAMPLES_SEPARATE}},
        {"partly interleaved", {.order = SAMPLES_PARTLY}},
        {"arithmetic", {.arithmetic = true}},
        {"CMYK", {.color = SAMPLES_CMYK}},
        {"YCCK", {.color = SAMPLES_YCCK}},
    };
    struct cpu_decode_error err;
    struct coef_file f;
    size_t size;

    coef_seed(test_seed);
    cpu_ops_init(&dt_ops, ~0u);
    // Not every libjpeg writes arithmetic coding.
    for (size_t i = 0; i < sizeof(foreign) / sizeof(*foreign); i++) {
        if (!coef_file_make(&f, &foreign[i].jpeg, 40, 30, false)) {
            test_not_run(foreign[i].name);
            CU_ASSERT(foreign[i].jpeg.arithmetic);
            continue;
        }
        CU_ASSERT_PTR_NULL(pack(&f, window_of(&f), &size, &err));
        CU_ASSERT_EQUAL(err.result, CPU_UNSUPPORTED);
        coef_file_finish(&f);
    }
}

static bool stop_at_once(void *ctx)
{
    ++*(int *)ctx;
    return true;
}

TEST_CASE(stop)
{
    struct cpu_decode_error err = {.offset = -1};
    struct cpu_coef_lines lines;
    struct coef_file f;
    int asked = 0;

    coef_seed(test_seed);
    cpu_ops_init(&dt_ops, ~0u);
    CU_ASSERT_FATAL(coef_file_make(&f, &coef_kinds[2].jpeg, 90, 90, false));
    struct cpu_decode_params p = params_of(&f, (struct hr__rect){0, 0, 90, 90},
                                           3);
    p.stop = stop_at_once;
    p.stop_ctx = &asked;
    CU_ASSERT_EQUAL(cpu_coef_decode(&p, &dt_ops, &dt_arena, &lines, &err),
                    CPU_STOPPED);
    CU_ASSERT_EQUAL(asked, 1);
    CU_ASSERT_EQUAL(dt_arena.used, 0);
    coef_file_finish(&f);
}

// ---- Memory ---------------------------------------------------------------

TEST_CASE(steady_state)
{
    struct cpu_decode_error err;
    struct coef_file f[4];
    size_t size, allocs = 0;

    coef_seed(test_seed);
    cpu_ops_init(&dt_ops, ~0u);
    for (int i = 0; i < 4; i++)
        CU_ASSERT_FATAL(coef_file_make(&f[i], &coef_kinds[i].jpeg, 500 - 40 * i,
                                       375, false));
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 4; i++) {
            struct hr__rect all = {0, 0, f[i].w, f[i].h};
            auto_heap void *c = pack(&f[i], all, &size, &err);

            CU_ASSERT_PTR_NOT_NULL(c);
        }
        if (round == 0)
            allocs = dt_heap.allocs;
        CU_ASSERT_EQUAL(dt_heap.allocs, allocs);
    }
    for (int i = 0; i < 4; i++)
        coef_file_finish(&f[i]);
}

TEST_CASE(no_memory)
{
    struct cpu_decode_error err;
    struct coef_file f;
    struct hr__coefficients *c = NULL;
    size_t size, failures = 0, limits = 0;

    coef_seed(test_seed);
    cpu_ops_init(&dt_ops, ~0u);
    CU_ASSERT_FATAL(coef_file_make(&f, &coef_kinds[20].jpeg, 700, 500, true));
    struct hr__rect all = {0, 0, f.w, f.h};
    for (; !c; failures++) {
        cpu_arena_clear(&dt_arena, 0);
        dt_heap.fail_at = dt_heap.allocs + failures + 1;
        c = pack(&f, all, &size, &err);
        if (!c)
            CU_ASSERT_EQUAL(err.result, CPU_NOMEM);
    }
    free(c);
    c = NULL;
    dt_heap.fail_at = 0;
    for (; !c; limits++) {
        dt_arena.limit = 1000 + 20000 * limits;
        c = pack(&f, all, &size, &err);
        if (!c)
            CU_ASSERT_EQUAL(err.result, CPU_NOMEM);
    }
    dt_arena.limit = 0;
    CU_ASSERT_PTR_NULL(coef_reference_check(c, size));
    CU_ASSERT(same_as_libjpeg(&f, c));
    CU_ASSERT(failures > 2 && limits > 10);
    printf("\n  %zu allocations failed, %zu limits; ", failures - 1,
           limits - 1);
    free(c);
    coef_file_finish(&f);
}

TEST_MAIN(dt_main)
