// SPDX-License-Identifier: Apache-2.0
// Our own decoder of sequential JPEGs: which files it takes (it must take what
// it is for), that every window of them equals the full decode of stock
// libjpeg, and that it gives up wherever libjpeg would warn or fail.
#include "corpus_list.h"
#include "cpu_fallback/jpeg/scan.h"
#include "decode_run.h"

// One or three components, codings without progression, arithmetic or scans of
// their own, factors that divide the largest.
static bool is_ours(int kind, int variant)
{
    static const bool colors[DT_JPEG_KINDS] = {
        [0] = true,  [1] = true,  [2] = true,  [3] = true, [4] = true,
        [5] = true,  [6] = true,  [7] = true,  [8] = true, [9] = true,
        [10] = true, [11] = true, [12] = true, [13] = true};

    return colors[kind] && (variant == 0 || variant == 1 || variant == 6 ||
                            // One component has no scans of its own.
                            (variant == 3 && (kind == 11 || kind == 12)));
}

static bool takes(const struct bytes *file, int w, int h)
{
    struct cpu_decode_params p = dt_params(file, w, h, dt_everything, 3);
    struct cpu_decode_error err;
    enum cpu_result result = dt_decode(&cpu_sequential_decoder, &p, true, NULL,
                                       &err);

    CHECK(result == CPU_OK || result == CPU_REDO, "%d: %s", result, err.text);
    return result == CPU_OK;
}

// ---- Windows ----

TEST_CASE(windows)
{
    for (int kind = 0; kind < DT_JPEG_KINDS; kind++)
        for (int i = 0; i < 42; i++) {
            int w = 1 + random_below(&dt_seed, i < 21 ? 24 : 90);
            int h = 1 + random_below(&dt_seed, i < 21 ? 24 : 90);
            auto_bytes file = {0};
            struct plain full;
            char name[64];

            snprintf(name, sizeof(name), "kind %d variant %d", kind, i % 7);
            if (!dt_make_jpeg(kind, i % 7, w, h, &file))
                continue;
            CHECK(takes(&file, w, h) == is_ours(kind, i % 7),
                  "%s %dx%d: taken or not", name, w, h);
            if (is_ours(kind, i % 7)) {
                plain_decode(file.data, file.size, 1 << 20, &full);
                CU_ASSERT_FATAL(full.result == PLAIN_OK);
                for (unsigned flags = 1; flags <= 4; flags *= 2) {
                    cpu_ops_init(&dt_ops, flags * 2 - 1);
                    dt_compare_windows(&cpu_sequential_decoder, name, &file,
                                       &full, 6);
                }
                plain_free(&full);
            }
        }
}

// ---- Damage ----

static int taken, given_up;

// A picture that is not given up equals libjpeg-turbo's, without a warning.
static void compare(const char *name, const struct bytes *file, int w, int h,
                    struct hr__rect window, bool check)
{
    struct cpu_decode_params p = dt_params(file, w, h, window, 3);
    size_t size = (size_t)p.window.w * (size_t)p.window.h * 3;
    auto_heap uint8_t *own = calloc(1, size), *want = calloc(1, size);
    struct cpu_decode_error err;
    enum cpu_result result = dt_decode(&cpu_sequential_decoder, &p, check, own,
                                       &err);

    if (result == CPU_REDO) {
        given_up++;
    } else {
        taken++;
        CHECK(result == CPU_OK && !err.warnings && !err.text[0], "%s: %d, %s",
              name, result, err.text);
        result = dt_decode(&cpu_jpeg_decoder, &p, check, want, &err);
        CHECK(result == CPU_OK && !err.warnings, "%s: libjpeg %d, %s", name,
              result, err.text);
        CHECK(!memcmp(own, want, size), "%s: differs", name);
    }
}

// (Behind the header only, mostly: there it must be noticed.)
TEST_CASE(damaged)
{
    static const int ours[] = {0, 1, 6};

    taken = given_up = 0;
    for (int i = 0; i < 150; i++) {
        int kind = random_below(&dt_seed, 14);
        int w = 1 + random_below(&dt_seed, 70);
        int h = 1 + random_below(&dt_seed, 70);
        auto_bytes file = {0};

        if (!dt_make_jpeg(kind, ours[i % 3], w, h, &file))
            continue;
        for (int k = 0; k < 30; k++) {
            struct hr__rect window = {0, 0, w, 1 + random_below(&dt_seed, h)};
            const char *how;
            auto_bytes copy = dt_damaged(&file, k % 8 ? dt_scan(&file) : 0,
                                         &how);

            compare(how, &copy, w, h, window, window.h == h);
        }
    }
    fprintf(stderr, "\n  damaged: %d taken, %d given up ", taken, given_up);
    CU_ASSERT(taken > 300 && given_up > 300);
}

// ---- Oddities, one by one ----

// A grey picture of one block: DC of 0 bits, then what `bits` say.
static struct bytes one_block(const char *bits, const char *behind, size_t n)
{
    // Codes: DC 0 -> size 0. AC: 0 -> end, 10 -> run 15 without value, 110 ->
    // run 15 and 1 bit, 1110 -> run 0 and 1 bit; all others do not exist.
    static const uint8_t head[] = {
        0xff, 0xd8, 0xff, 0xdb, 0,    67,   0,    [7 ... 70] = 1,
        0xff, 0xc0, 0,    11,   8,    0,    8,    0,
        8,    1,    1,    0x11, 0,    0xff, 0xc4, 0,
        20,   0x00, 1,    0,    0,    0,    0,    0,
        0,    0,    0,    0,    0,    0,    0,    0,
        0,    0,    0,    0xff, 0xc4, 0,    23,   0x10,
        1,    1,    1,    1,    0,    0,    0,    0,
        0,    0,    0,    0,    0,    0,    0,    0,
        0x00, 0xf0, 0xf1, 0x01, 0xff, 0xda, 0,    8,
        1,    1,    0x00, 0,    63,   0,
    };
    struct bytes file = {calloc(1, sizeof(head) + 100), sizeof(head)};
    int count = 0;

    memcpy(file.data, head, sizeof(head));
    for (; *bits; bits++, count++)
        if (*bits == '1')
            file.data[sizeof(head) + (size_t)count / 8] |= (uint8_t)(0x80 >>
                                                                     count % 8);
    file.size += (size_t)(count + 7) / 8;
    memcpy(file.data + file.size, behind, n);
    file.size += n;
    return file;
}

TEST_CASE(odd)
{
    static const struct {
        const char *name, *bits, *behind;
        size_t n;
        bool ours;
    } cases[] = {
        {"an end of the block", "00", "\xff\xd9", 2, true},
        {"one value", "0111010", "\xff\xd9", 2, true},
        {"the last coefficient, without an end",
         "0101010"
         "1110"
         "1110"
         "11101111011110111101111011110111101111011110111101111011110",
         "\xff\xd9", 2, false},
        {"a run to the end",
         "0"
         "1101"
         "1101"
         "1101"
         "11101"
         "11101"
         "11101"
         "11101"
         "11101"
         "11101"
         "11101"
         "11101"
         "11101"
         "11101"
         "11101"
         "11101"
         "11101"
         "11101"
         "11101",
         "\xff\xd9", 2, true},
        {"a run behind the end",
         "0"
         "1101"
         "1101"
         "1101"
         "1101",
         "\xff\xd9", 2, false},
        {"zeros behind the end",
         "0"
         "10101010",
         "\xff\xd9", 2, false},
        {"no such code",
         "0"
         "1111"
         "0000",
         "\xff\xd9", 2, false},
        {"a byte too much", "00", "\0\xff\xd9", 3, false},
        {"a marker too early", "011101", "\xff\xd0\xff\xd9", 4, false},
        {"another marker", "00", "\xff\xda", 2, false},
        {"no end", "00", "", 0, false},
        {"half an end", "00", "\xff", 1, false},
        {"only half markers", "00",
         "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"
         "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
         34, false},
        {"behind the end anything", "00", "\xff\xd9xyz", 5, true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        auto_bytes file = one_block(cases[i].bits, cases[i].behind, cases[i].n);

        CHECK(takes(&file, 8, 8) == cases[i].ours, "%s", cases[i].name);
        compare(cases[i].name, &file, 8, 8, dt_everything, true);
        compare(cases[i].name, &file, 8, 8, dt_everything, false);
    }
}

TEST_CASE(header)
{
    struct jpeg_spec spec = {.w = 33, .h = 20, .space = JCS_YCbCr};
    struct cpu_scan scan;
    auto_bytes file = {0};
    uint8_t *at;

    CU_ASSERT_FATAL(make_jpeg(&spec, &dt_seed, &file));
    CU_ASSERT(takes(&file, 33, 20));
    at = memmem(file.data, file.size, "\xff\xc0", 2);
    memcpy(at + 5, "\xff\xdc\xff\xdc", 4);
    CU_ASSERT(cpu_scan_parse(&scan, file.data, file.size));
    at[6]++;  // 65501 rows are too many for libjpeg
    CU_ASSERT(!cpu_scan_parse(&scan, file.data, file.size));
    memcpy(at + 5, "\x00\x14\xff\xdd", 4);
    CU_ASSERT(!cpu_scan_parse(&scan, file.data, file.size));
    memcpy(at + 5, "\x00\x14\x00\x21", 4);
    CU_ASSERT(!takes(&file, 32, 20));
    CU_ASSERT(!takes(&file, 33, 21));
    at = memmem(file.data, file.size, "JFIF", 4);
    at[5] = 2;  // libjpeg warns of such a version
    CU_ASSERT(!takes(&file, 33, 20));
    at[5] = 1;
    at = memmem(file.data, file.size, "\xff\xc0", 2);
    at[1] = 0xc1;
    CU_ASSERT(takes(&file, 33, 20));
    at[1] = 0xc2;
    CU_ASSERT(!takes(&file, 33, 20));
    at[1] = 0xc0;
    at[4] = 12;
    CU_ASSERT(!takes(&file, 33, 20));
    at[4] = 8;
    at = memmem(file.data, file.size, "\xff\xda", 2);
    at[13] = 1;  // successive approximation
    CU_ASSERT(!takes(&file, 33, 20));
    at[13] = 0;
    CU_ASSERT(takes(&file, 33, 20));
    for (size_t n = 0; n + 2 < file.size; n++) {
        auto_bytes cut = dt_copy(&file, n);

        CHECK(!takes(&cut, 33, 20), "cut at %zu", n);
    }
}

// Without a marker the numbers of the components give the color space.
TEST_CASE(colors)
{
    static const uint8_t ids[][3] = {
        {1, 2, 3}, {'R', 'G', 'B'}, {0, 1, 2}, {1, 2, 4}, {1, 1, 3}};
    struct jpeg_spec spec = {.w = 33, .h = 20, .space = JCS_YCbCr};

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        auto_bytes file = {0};
        uint8_t *sof, *sos;

        CU_ASSERT_FATAL(make_jpeg(&spec, &dt_seed, &file));
        ((uint8_t *)memmem(file.data, file.size, "JFIF", 4))[0] = 'x';
        sof = memmem(file.data, file.size, "\xff\xc0", 2);
        sos = memmem(file.data, file.size, "\xff\xda", 2);
        for (int k = 0; k < 3; k++) {
            sof[10 + 3 * k] = ids[i][k];
            sos[5 + 2 * k] = ids[i][k];
        }
        CHECK(takes(&file, 33, 20), "case %zu", i);
        compare("colors", &file, 33, 20, dt_everything, true);
    }
}

// ---- The corpus, where there is one ----

static int corpus_folder(const char *name, int step, int windows, int *ours)
{
    struct corpus_folder f;
    int n = 0;

    if (!corpus_folder_open(&f, name))
        return 0;
    while (corpus_folder_next(&f, step)) {
        auto_bytes file = {0};
        auto_plain full = {0};

        if (!read_file(f.path, &file))
            continue;
        plain_decode(file.data, file.size, 3 << 20, &full);
        if (full.result == PLAIN_OK) {
            bool taken_here = takes(&file, full.w, full.h);

            n++;
            *ours += taken_here;
            if (taken_here)
                dt_compare_windows(&cpu_sequential_decoder, f.name, &file,
                                   &full, windows);
            CHECK(!taken_here || !full.warnings, "%s", f.name);
        }
    }
    corpus_folder_close(&f);
    return n;
}

TEST_CASE(corpus)
{
    bool all = getenv("HEADRACE_TEST_LONG") != NULL;
    int ours = 0, n = corpus_folder("photos/imagenet-sample", all ? 1 : 5,
                                    all ? 12 : 3, &ours);

    if (!n) {
        test_not_run("there is no corpus");
        return;
    }
    // Every photo is one that it is for.
    CU_ASSERT(ours == n);
    fprintf(stderr, "\n  photos: %d of %d taken", ours, n);
    ours = 0;
    n = corpus_folder("kinds", 1, all ? 12 : 2, &ours);
    fprintf(stderr, "\n  kinds: %d of %d taken ", ours, n);
    CU_ASSERT(ours > 20);
    ours = 0;
    n = corpus_folder("bad", 1, 2, &ours);
    fprintf(stderr, "\n  bad, but decoded: %d of %d taken ", ours, n);
}

TEST_MAIN(dt_main)
