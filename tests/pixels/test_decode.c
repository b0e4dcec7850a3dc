// SPDX-License-Identifier: Apache-2.0
// JPEG: every window of every kind of file equals the full decode of stock
// libjpeg, and damage ends as it does there.
#include "corpus_list.h"
#include "decode_run.h"

// ---- windows ----

TEST_CASE(test_jpeg_windows)
{
    for (int kind = 0; kind < DT_JPEG_KINDS; kind++)
        for (int i = 0; i < 42; i++) {
            int w = 1 + random_below(&dt_seed, i < 21 ? 24 : 70);
            int h = 1 + random_below(&dt_seed, i < 21 ? 24 : 70);
            auto_bytes file = {0};
            auto_plain full = {0};
            char name[64];

            snprintf(name, sizeof(name), "kind %d variant %d", kind, i % 7);
            if (!dt_make_jpeg(kind, i % 7, w, h, &file)) {
                CU_FAIL("libjpeg does not write this kind");
                continue;
            }
            plain_decode(file.data, file.size, 1 << 20, &full);
            CU_ASSERT_FATAL(full.result == PLAIN_OK);
            dt_compare_windows(&cpu_jpeg_decoder, name, &file, &full, 12);
        }
}

// Every combination of factors that a three-component scan may have.
TEST_CASE(test_jpeg_factors)
{
    int step = getenv("HEADRACE_TEST_LONG") ? 1 : 29;

    for (int f = random_below(&dt_seed, step); f < 16 * 16 * 16; f += step) {
        struct jpeg_spec spec = {.w = 40 + random_below(&dt_seed, 60),
                                 .h = 50,
                                 .space = JCS_YCbCr};
        int blocks = 0;
        auto_bytes file = {0};
        auto_plain full = {0};
        char name[64];

        for (int c = 0; c < 3; c++) {
            int hv = f >> (4 * c);

            spec.factors[c] = (uint8_t)(((hv & 3) + 1) << 4 |
                                        (((hv >> 2) & 3) + 1));
            blocks += ((hv & 3) + 1) * (((hv >> 2) & 3) + 1);
        }
        if (blocks > 10 || !make_jpeg(&spec, &dt_seed, &file))
            continue;
        plain_decode(file.data, file.size, 1 << 20, &full);
        snprintf(name, sizeof(name), "factors %02x %02x %02x", spec.factors[0],
                 spec.factors[1], spec.factors[2]);
        if (full.result == PLAIN_OK) {
            dt_compare_windows(&cpu_jpeg_decoder, name, &file, &full, 8);
        } else {
            struct cpu_decode_params p = dt_params(&file, spec.w, spec.h,
                                                   dt_everything, 3);
            struct cpu_decode_error err;

            CHECK(dt_decode(&cpu_jpeg_decoder, &p, true, NULL, &err) ==
                      CPU_UNSUPPORTED,
                  "%s: %s", name, err.text);
        }
    }
}

// ---- JPEG damage ----

// Same class as stock libjpeg over the whole file and, where it decodes, the
// same pixels and number of warnings.
static enum plain_class compare_damaged(const char *name,
                                        const struct bytes *file,
                                        int64_t max_pixels)
{
    struct cpu_decode_error err;
    struct cpu_decode_params p;
    auto_plain full = {0};
    enum cpu_result result;
    enum plain_class plain;

    plain_decode(file->data, file->size, max_pixels, &full);
    plain = full.result;
    if (plain != PLAIN_NOT_RUN) {
        p = dt_params(file, full.w ? full.w : 1, full.h ? full.h : 1,
                      dt_everything, 3);
        result = dt_decode(&cpu_jpeg_decoder, &p, true, NULL, &err);
        CHECK(dt_class(result) == plain, "%s: %d (%s), plain %d", name, result,
              err.text, plain);
        CHECK(err.offset <= (int64_t)file->size, "%s: offset", name);
        CHECK(result == CPU_OK || err.offset >= -1, "%s: offset", name);
        if (plain == PLAIN_OK) {
            CHECK(full.no_end ? err.warnings > 0
                              : err.warnings == full.warnings,
                  "%s: %d warnings, plain %d", name, err.warnings,
                  full.warnings);
            CHECK((err.warnings > 0) == (err.text[0] != 0), "%s: text", name);
            dt_compare_windows(&cpu_jpeg_decoder, name, file, &full, 3);
        }
    }
    return plain;
}

TEST_CASE(test_jpeg_truncated)
{
    int no_end[4] = {0};

    for (int i = 0; i < DT_JPEG_KINDS * 7; i += 3) {
        auto_bytes file = {0};
        char name[64];

        if (!dt_make_jpeg(i % DT_JPEG_KINDS, i / DT_JPEG_KINDS, 45, 39, &file))
            continue;
        for (size_t n = 0; n < file.size; n += n < 700 ? 7 : 41) {
            auto_bytes cut = dt_copy(&file, n);

            snprintf(name, sizeof(name), "kind %d cut at %zu", i, n);
            CHECK(compare_damaged(name, &cut, 1 << 20) == PLAIN_TRUNCATED ||
                      n + 3 > file.size,
                  "%s: plain libjpeg did not run out", name);
        }
        // The last bits may or may not be read before the missing end is.
        for (int k = 1; k <= 2; k++) {
            auto_bytes cut = dt_copy(&file, file.size - (size_t)k);

            no_end[compare_damaged("no EOI", &cut, 1 << 20)]++;
        }
    }
    fprintf(stderr, "\n  without EOI: %d decode, %d end early ",
            no_end[PLAIN_OK], no_end[PLAIN_TRUNCATED]);
}

// Only what is above the cut is asked for: that succeeds without check.
TEST_CASE(test_jpeg_above_the_cut)
{
    struct jpeg_spec spec = {.w = 64, .h = 512, .space = JCS_YCbCr};
    struct hr__rect top = {5, 8, 40, 16};
    struct cpu_decode_params p;
    struct cpu_decode_error err;
    auto_bytes file = {0};

    CU_ASSERT_FATAL(make_jpeg(&spec, &dt_seed, &file));
    file.size /= 2;
    p = dt_params(&file, 64, 512, top, 3);
    CU_ASSERT(dt_decode(&cpu_jpeg_decoder, &p, false, NULL, &err) == CPU_OK);
    CU_ASSERT(dt_decode(&cpu_jpeg_decoder, &p, true, NULL, &err) ==
              CPU_TRUNCATED);
    CU_ASSERT(err.offset == (int64_t)file.size);
    p.window.y = 480;
    CU_ASSERT(dt_decode(&cpu_jpeg_decoder, &p, false, NULL, &err) ==
              CPU_TRUNCATED);
}

TEST_CASE(test_jpeg_flips)
{
    int classes[4] = {0};

    for (int i = 0; i < 40; i++) {
        int kind = random_below(&dt_seed, DT_JPEG_KINDS), variant = i % 7;
        auto_bytes file = {0};
        char name[80];

        if (!dt_make_jpeg(kind, variant, 1 + random_below(&dt_seed, 70),
                          1 + random_below(&dt_seed, 70), &file))
            continue;
        for (int k = 0; k < 40; k++) {
            auto_bytes copy = dt_copy(&file, file.size);

            for (int flips = 1 + random_below(&dt_seed, 3); flips; flips--)
                copy.data[next_random(&dt_seed) % file.size] ^=
                    (uint8_t)(1 << random_below(&dt_seed, 8));
            snprintf(name, sizeof(name), "kind %d variant %d flip %d", kind,
                     variant, k);
            classes[compare_damaged(name, &copy, 1 << 20)]++;
        }
    }
    fprintf(stderr,
            "\n  flips: %d decode, %d end early, %d refused, "
            "%d too large to try ",
            classes[0], classes[1], classes[2], classes[3]);
}

// ---- JPEG: what must be refused, states ----

TEST_CASE(test_jpeg_refused)
{
    struct jpeg_spec spec = {.w = 33, .h = 20, .space = JCS_YCbCr};
    struct cpu_decode_params p;
    struct cpu_decode_error err;
    auto_bytes file = {0};
    uint8_t *sof;

    CU_ASSERT_FATAL(make_jpeg(&spec, &dt_seed, &file));
    p = dt_params(&file, 32, 20, dt_everything, 3);
    CU_ASSERT(dt_decode(&cpu_jpeg_decoder, &p, true, NULL, &err) ==
              CPU_CORRUPT);
    p = dt_params(&file, 33, 21, dt_everything, 3);
    CU_ASSERT(dt_decode(&cpu_jpeg_decoder, &p, true, NULL, &err) ==
              CPU_CORRUPT);
    p = dt_params(&file, 33, 20, (struct hr__rect){1, 0, 33, 20}, 3);
    CU_ASSERT(dt_decode(&cpu_jpeg_decoder, &p, true, NULL, &err) ==
              CPU_CORRUPT);
    p = dt_params(&file, 33, 20, dt_everything, 3);
    sof = memmem(file.data, file.size, "\xff\xc0", 2);
    sof[1] = 0xc3;  // lossless
    CU_ASSERT(dt_decode(&cpu_jpeg_decoder, &p, true, NULL, &err) ==
              CPU_UNSUPPORTED);
    CU_ASSERT(err.text[0] && err.offset > 0);
    sof[1] = 0xc1;
    sof[4] = 12;  // bits
    CU_ASSERT(dt_decode(&cpu_jpeg_decoder, &p, true, NULL, &err) ==
              CPU_UNSUPPORTED);
    sof[4] = 8;
    CU_ASSERT(dt_decode(&cpu_jpeg_decoder, &p, true, NULL, &err) == CPU_OK);
    file.data[0] = 'x';
    CU_ASSERT(dt_decode(&cpu_jpeg_decoder, &p, true, NULL, &err) ==
              CPU_CORRUPT);
}

// Tables of one picture must not serve the next; and a file without DHT is
// decoded with the standard ones by libjpeg-turbo.
TEST_CASE(test_jpeg_state_is_clean)
{
    struct jpeg_spec spec = {
        .w = 50, .h = 41, .space = JCS_YCbCr, .optimize = true, .quality = 97};
    auto_bytes first = {0}, bare = {0};
    struct plain full;
    uint8_t *at;

    CU_ASSERT_FATAL(make_jpeg(&spec, &dt_seed, &first));
    spec.optimize = false;
    CU_ASSERT_FATAL(make_jpeg(&spec, &dt_seed, &bare));
    while ((at = memmem(bare.data, bare.size, "\xff\xc4", 2))) {
        size_t len = 2 + (size_t)(at[2] << 8 | at[3]);

        bare.size -= len;
        memmove(at, at + len, bare.size - (size_t)(at - bare.data));
    }
    plain_decode(first.data, first.size, 1 << 20, &full);
    CU_ASSERT_FATAL(full.result == PLAIN_OK);
    dt_compare_windows(&cpu_jpeg_decoder, "own tables", &first, &full, 2);
    plain_free(&full);
    CU_ASSERT(compare_damaged("no tables", &bare, 1 << 20) == PLAIN_OK);
}

// Two decoders open at once on one state, interleaved.
TEST_CASE(test_jpeg_two_at_once)
{
    struct jpeg_spec spec = {
        .w = 60, .h = 64, .space = JCS_YCbCr, .factors = {0x22, 0x11, 0x11}};
    struct cpu_mark mark = cpu_arena_mark(&dt_arena);
    struct cpu_decode *d[2];
    struct bytes file[2];
    struct plain full[2];
    struct cpu_decode_error err;

    for (int i = 0; i < 2; i++) {
        struct cpu_decode_params p;

        spec.progressive = i;
        CU_ASSERT_FATAL(make_jpeg(&spec, &dt_seed, &file[i]));
        plain_decode(file[i].data, file[i].size, 1 << 20, &full[i]);
        p = dt_params(&file[i], 60, 64, dt_everything, 3);
        d[i] = cpu_decode_open(&cpu_jpeg_decoder, &p, &dt_ops, &dt_arena, &err);
        CU_ASSERT_FATAL(d[i] != NULL);
    }
    for (int y = 0; y < 64; y += 8)
        for (int i = 0; i < 2; i++) {
            const uint8_t *rows[8];

            CU_ASSERT(cpu_decode_rows(d[i], rows, 8, &err) == 8);
            for (int k = 0; k < 8; k++)
                CU_ASSERT(memcmp(rows[k], full[i].rgb + (y + k) * 180, 180) ==
                          0);
        }
    for (int i = 0; i < 2; i++) {
        CU_ASSERT(cpu_decode_close(d[i], true, &err) == CPU_OK);
        plain_free(&full[i]);
        free(file[i].data);
    }
    cpu_arena_reset(&dt_arena, mark);
}

// ---- the corpus, where there is one ----

static int folder(const char *name, int step, int windows, double seconds)
{
    clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC);
    struct corpus_folder f;
    bool more = true;
    int n = 0;

    if (!corpus_folder_open(&f, name))
        return 0;
    while (clock() < end && (more = corpus_folder_next(&f, step))) {
        auto_bytes file = {0};
        struct plain full;

        if (!read_file(f.path, &file))
            continue;
        if (file.size > 4 && file.data[0] == 0xff && file.data[1] == 0xd8) {
            if (windows == 0) {
                n += compare_damaged(f.name, &file, 1 << 22) != PLAIN_NOT_RUN;
            } else {
                plain_decode(file.data, file.size, 3 << 20, &full);
                n += full.result != PLAIN_NOT_RUN;
                if (full.result == PLAIN_OK)
                    dt_compare_windows(&cpu_jpeg_decoder, f.name, &file, &full,
                                       windows);
                plain_free(&full);
            }
        }
    }
    if (more)
        fprintf(stderr, " (%s cut short after %d files)", name, n);
    corpus_folder_close(&f);
    return n;
}

TEST_CASE(test_corpus)
{
    int n = folder("kinds", 1, 4, 8);

    n += folder("photos/imagenet-sample", 3, 3, 8);
    if (n == 0)
        test_not_run("no corpus");
    else
        fprintf(stderr, " %d files", n);
    if (getenv("HEADRACE_TEST_LONG"))
        fprintf(stderr, " %d bad files",
                folder("bad", 1, 0, 600) + folder("bad/afl", 1, 0, 600));
}

TEST_MAIN(dt_main)
