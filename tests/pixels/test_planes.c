// SPDX-License-Identifier: Apache-2.0
// Planes between engines. Bytes to planes to rows gives what bytes to rows
// gives, for every kind of JPEG, any window, in every form that planes come in
// (packed, interleaved chroma, with gaps, of the whole picture), at every
// instruction set; a header that lies is refused, and nothing behind the data
// is read. test_planes_hal.c goes through the HAL.
#include "corpus_list.h"
#include "cpu_fallback/pixel/planes.h"
#include "decode_run.h"
#include "fenced.h"
#include "planes_forms.h"
#include "simd_levels.h"
#include "testing.h"

static int pick(int from, int to)  // both included
{
    return from + random_below(&dt_seed, to - from + 1);
}

// ---- Rows of both ways ----------------------------------------------------

struct picture {
    struct bytes file;
    int w, h, channels;
};

static struct cpu_decode_params params_of(const struct picture *p,
                                          struct hr__rect window)
{
    return dt_params(&p->file, p->w, p->h, window, p->channels);
}

// free()
static uint8_t *direct(const struct picture *p, struct hr__rect window)
{
    struct cpu_decode_params params = params_of(p, window);
    uint8_t *all = malloc((size_t)(window.w * window.h * p->channels));
    struct cpu_decode_error err;

    cpu_ops_init(&dt_ops, CPU_FLAG_C);
    CHECK(!dt_decode(&cpu_jpeg_decoder, &params, false, all, &err), "%s",
          err.text);
    return all;
}

// Bytes that differ; -1: refused.
static int differs(const struct picture *p, const struct hr__planes *planes,
                   const uint8_t *data, size_t size, struct hr__rect window,
                   const struct cpu_ops *ops, const uint8_t *want)
{
    struct cpu_planes_params params = {planes, data,   size,        p->w,
                                       p->h,   window, p->channels, {0}};
    size_t bytes = (size_t)(window.w * p->channels);
    const uint8_t *rows[CPU_DECODE_ROWS];
    struct cpu_planes_rows *r;
    int bad = 0;

    if (cpu_planes_open(&params, ops, &dt_arena, &r))
        return -1;
    for (int y = 0, n; y < window.h; y += n) {
        n = cpu_planes_read(r, rows, pick(1, CPU_DECODE_ROWS));
        for (int i = 0; i < n; i++)
            bad += want &&
                   memcmp(rows[i], want + bytes * (size_t)(y + i), bytes) != 0;
    }
    return bad;
}

// In another form, before a page that faults.
static uint8_t *in_form(const struct hr__planes *p, enum planes_form form,
                        struct hr__planes *out, struct fenced *f, size_t *size)
{
    // (backends/cpu/planes.c holds both headers to one layout.)
    auto_heap uint8_t *data = planes_in_form((const struct hr__planes *)p,
                                             (const uint8_t *)p, form, &dt_seed,
                                             (struct hr__planes *)out, size);
    uint8_t *copy;

    if (!data)
        abort();
    copy = fenced_copy(f, data, *size);
    return copy;
}

// ---- One window -----------------------------------------------------------

static int compared, forms_seen[NUM_FORMS];

static void check_window(const struct picture *p, struct hr__rect window,
                         const struct hr__planes *planes, size_t size,
                         const char *name)
{
    auto_heap uint8_t *want = direct(p, window);
    struct hr__planes other;
    struct cpu_ops ops;
    struct fenced f;

    for (int i = 0; i < CPU_LEVELS; i++) {
        int form = pick(0, NUM_FORMS - 1), bad;
        struct cpu_mark mark = cpu_arena_mark(&dt_arena);
        uint8_t *data;
        size_t bytes;

        if (!simd_level_ops(i, &ops))
            continue;
        bad = differs(p, planes, (const uint8_t *)planes, size, window, &ops,
                      want);
        CHECK(!bad, "%s %s: window %d,%d %dx%d, %d rows differ", name, ops.name,
              window.x, window.y, window.w, window.h, bad);
        data = in_form(planes, (enum planes_form)form, &other, &f, &bytes);
        bad = differs(p, &other, data, bytes, window, &ops, want);
        CHECK(!bad, "%s %s: form %d, window %d,%d %dx%d, %d rows differ", name,
              ops.name, form, window.x, window.y, window.w, window.h, bad);
        forms_seen[form]++;
        compared += 2;
        fenced_finish(&f);
        cpu_arena_reset(&dt_arena, mark);
    }
}

// Planes of the window alone, and of the whole picture.
static void check_picture(const struct picture *from, int windows,
                          const char *name)
{
    struct picture p = *from;

    for (int i = 0; i < windows; i++) {
        struct hr__rect all = {0, 0, p.w, p.h};
        struct hr__rect window = i ? dt_random_rect(p.w, p.h) : all;
        struct cpu_decode_params params;
        struct cpu_decode_error err;
        struct hr__planes *planes;
        struct cpu_ops ops;
        size_t size;

        p.channels = i % 3 == 2 ? 1 : 3;
        params = params_of(&p, i % 2 ? window : all);
        cpu_ops_init(&ops, CPU_FLAG_C);
        CHECK(!cpu_planes_decode(&params, &ops, &dt_arena, &planes, &size,
                                 &err),
              "%s: %s", name, err.text);
        if (!err.result)
            check_window(&p, window, planes, size, name);
        cpu_arena_clear(&dt_arena, SIZE_MAX);
    }
}

// ---- Cases ----------------------------------------------------------------

static const uint8_t samplings[][4] = {
    {0x11, 0x11, 0x11}, {0x21, 0x11, 0x11}, {0x22, 0x11, 0x11},
    {0x12, 0x11, 0x11}, {0x41, 0x11, 0x11}, {0x22, 0x12, 0x12},
    {0x22, 0x21, 0x21}, {0x42, 0x11, 0x11}, {0x14, 0x11, 0x11},
    {0x24, 0x11, 0x11}, {0x11, 0x21, 0x11}, {0x22, 0x11, 0x22},
    {0x12, 0x21, 0x11}, {0x42, 0x21, 0x22}, {0x31, 0x11, 0x11},
    {0x13, 0x11, 0x11},
};

TEST_CASE(every_kind)
{
    int n = COUNT(samplings), made = 0;

    for (int i = 0; i < test_loops(420); i++) {
        // Few samples in a component: its own rules.
        int most = i % 4 ? 90 : 9;
        struct jpeg_spec spec = {.w = pick(1, most),
                                 .h = pick(1, most),
                                 .space = i % 5 == 4 ? JCS_RGB : JCS_YCbCr,
                                 .progressive = i % 7 == 3,
                                 .separate = i % 11 == 5,
                                 .restart = i % 6 == 1 ? pick(1, 5) : 0,
                                 .quality = pick(0, 1) ? pick(60, 100) : 20};
        auto_bytes file = {0};
        char name[80];

        memcpy(spec.factors, samplings[i % n], 4);
        if (i % 23 == 22) {
            spec.space = JCS_GRAYSCALE;
            spec.factors[0] = i % 2 ? 0x22 : 0x11;
        }
        if (i % 31 == 7) {
            spec.w = pick(200, 700);
            spec.h = pick(20, 90);
        }
        if (!make_jpeg(&spec, &dt_seed, &file))
            continue;
        made++;
        snprintf(name, sizeof(name), "%dx%d %x/%x/%x", spec.w, spec.h,
                 spec.factors[0], spec.factors[1], spec.factors[2]);
        check_picture(&(struct picture){file, spec.w, spec.h, 3}, 4, name);
    }
    CHECK(made > test_loops(420) / 2, "only %d files", made);
    for (int i = 0; i < NUM_FORMS && made > 50; i++)
        CHECK(forms_seen[i] > 0, "form %d", i);
    printf("\n  %d files, %d comparisons ", made, compared);
}

// True if the file is damaged: only decoding to rows takes it.
static bool is_damaged(const struct picture *p)
{
    struct cpu_decode_params params =
        params_of(p, (struct hr__rect){0, p->h - 1, 1, 1});
    struct cpu_decode_error err;

    dt_decode(&cpu_jpeg_decoder, &params, true, NULL, &err);
    cpu_arena_clear(&dt_arena, SIZE_MAX);
    return err.result || err.warnings;
}

// The corpus' files of every kind, where they are planes at all.
TEST_CASE(corpus)
{
    struct corpus_folder f;
    int used = 0, damaged = 0;

    if (!corpus_folder_open(&f, "kinds")) {
        test_not_run("no corpus");
        return;
    }
    while (corpus_folder_next(&f, 1)) {
        auto_bytes file = {0};
        struct hr_info info;

        if (!read_file(f.path, &file))
            continue;
        if (!hr_probe(file.data, file.size, NULL, &info) &&
            info.format == HR_FORMAT_JPEG && info.precision == 8 &&
            (info.components == 1 || info.components == 3) &&
            info.color <= HR_COLOR_RGB && info.ends &&
            (int64_t)info.width * info.height < 2000000) {
            struct picture p = {file, info.width, info.height, 3};

            if (is_damaged(&p)) {
                damaged++;
            } else {
                used++;
                check_picture(&p, 3, f.name);
            }
        }
    }
    corpus_folder_close(&f);
    printf("\n  %d files, %d are damaged ", used, damaged);
    CHECK(used > 10 && damaged < used / 4, "%d files", used);
}

// A wrong header is refused, or what it says is in the data: no fault.
TEST_CASE(lying_headers)
{
    int refused = 0, n = test_loops(20000);
    struct jpeg_spec spec = {
        .w = 61, .h = 47, .space = JCS_YCbCr, .factors = {0x22}, .quality = 80};
    auto_bytes file = test_jpeg_of(&spec, &dt_seed);
    struct picture p = {file, spec.w, spec.h, 3};
    struct cpu_decode_params params =
        params_of(&p, (struct hr__rect){0, 0, spec.w, spec.h});
    struct cpu_decode_error err;
    struct hr__planes *planes, copy;
    struct cpu_mark mark;
    struct cpu_ops ops;
    struct fenced f;
    uint8_t *data;
    size_t size;

    cpu_ops_init(&ops, ~0u);
    if (cpu_planes_decode(&params, &ops, &dt_arena, &planes, &size, &err))
        abort();
    data = fenced_copy(&f, (uint8_t *)planes, size);
    mark = cpu_arena_mark(&dt_arena);
    for (int i = 0; i < n; i++) {
        uint32_t *words = (uint32_t *)&copy;

        copy = *planes;
        for (int k = pick(1, 3); k; k--)
            planes_spoil(&words[pick(0, (int)sizeof(copy) / 4 - 1)], &dt_seed);
        p.channels = i % 2 ? 1 : 3;
        refused += differs(&p, &copy, data,
                           size - (size_t)(pick(0, 1) ? 0 : pick(0, 200)),
                           dt_random_rect(p.w, p.h), &ops, NULL) < 0;
        cpu_arena_reset(&dt_arena, mark);
    }
    printf("\n  %d of %d refused ", refused, n);
    CHECK(refused > n / 2 && refused < n, "%d of %d", refused, n);
    fenced_finish(&f);
    cpu_arena_clear(&dt_arena, SIZE_MAX);
}

// Damage that decoding to rows repairs is refused here.
TEST_CASE(damage)
{
    int refused = 0;

    for (int i = 0; i < test_loops(200); i++) {
        auto_bytes file = test_jpeg(80, 60, &dt_seed);
        struct picture p = {file, 80, 60, 3};
        struct hr__rect window = dt_random_rect(80, 60);
        struct cpu_decode_params params = params_of(&p, window);
        struct cpu_decode_error err;
        struct hr__planes *planes;
        struct cpu_ops ops;
        size_t size, at = file.size / 3 + next_random(&dt_seed) %
                                              (file.size - file.size / 3 - 2);

        file.data[at] = i % 3 ? (uint8_t)next_random(&dt_seed) : 0xff;
        cpu_ops_init(&ops, ~0u);
        if (cpu_planes_decode(&params, &ops, &dt_arena, &planes, &size, &err)) {
            refused++;
            CHECK(err.text[0] != 0, "no reason");
        } else {
            check_window(&p, window, planes, size, "damaged");
        }
        cpu_arena_clear(&dt_arena, SIZE_MAX);
    }
    printf("\n  %d refused ", refused);
    CHECK(refused > test_loops(200) / 20, "%d", refused);
}

// Every allocation fails in turn: a clear answer, and nothing is touched.
TEST_CASE(no_memory)
{
    auto_bytes file = test_jpeg(200, 150, &dt_seed);
    struct picture p = {file, 200, 150, 3};
    struct hr__rect all = {0, 0, 200, 150};
    struct cpu_decode_params params = params_of(&p, all);
    struct cpu_decode_error err;
    struct hr__planes *planes;
    struct cpu_ops ops;
    size_t size;
    int failed = 0;

    cpu_ops_init(&ops, ~0u);
    for (size_t limit = 1000; limit < 2000000; limit += limit / 3) {
        enum cpu_result result;

        dt_arena.limit = limit;
        result = cpu_planes_decode(&params, &ops, &dt_arena, &planes, &size,
                                   &err);
        CHECK(result == CPU_OK || result == CPU_NOMEM, "%s", err.text);
        failed += result == CPU_NOMEM;
        if (!result) {
            struct cpu_planes_params q = {
                planes, (const uint8_t *)planes, size, 200, 150, all, 3, {0}};
            struct cpu_planes_rows *rows;

            result = cpu_planes_open(&q, &ops, &dt_arena, &rows);
            CHECK(result == CPU_OK || result == CPU_NOMEM, "%d", result);
            failed += result == CPU_NOMEM;
        }
        cpu_arena_clear(&dt_arena, SIZE_MAX);
    }
    dt_arena.limit = 0;
    CHECK(failed > 5, "%d", failed);
}

TEST_MAIN(dt_main)
