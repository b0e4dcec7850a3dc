// SPDX-License-Identifier: Apache-2.0
#include "decode_run.h"

uint64_t dt_seed;
struct cpu_ops dt_ops;
struct cpu_arena dt_arena;
struct cpu_jpeg_state *dt_state;
struct counting_heap dt_heap;
struct cpu_helpers *dt_helpers;
const struct hr__rect dt_everything;  // w = 0: the whole picture

// ---- decoding and comparing ----

struct cpu_decode_params dt_params(const struct bytes *file, int w, int h,
                                   struct hr__rect r, int channels)
{
    if (r.w == 0)
        r = (struct hr__rect){0, 0, w, h};
    return (struct cpu_decode_params){
        .data = file->data,
        .size = file->size,
        .width = w,
        .height = h,
        .window = r,
        .channels = channels,
        .helpers = dt_helpers,
        .jpeg = dt_state,
    };
}

enum cpu_result dt_decode(const struct cpu_decode_kind *kind,
                          const struct cpu_decode_params *p, bool check,
                          uint8_t *out, struct cpu_decode_error *err)
{
    struct cpu_mark mark = cpu_arena_mark(&dt_arena);
    struct cpu_decode *d = cpu_decode_open(kind, p, &dt_ops, &dt_arena, err);
    size_t row = (size_t)p->window.w * (size_t)p->channels;
    enum cpu_result result;

    if (!d)
        return err->result;
    for (int y = 0; y < p->window.h;) {
        const uint8_t *rows[CPU_DECODE_ROWS];
        int n = cpu_decode_rows(d, rows, 1 + random_below(&dt_seed, 16), err);

        if (n == 0)
            break;
        for (int i = 0; i < n; i++) {
            if (out)
                memcpy(out + (size_t)(y + i) * row, rows[i], row);
            // The promise about the slack, for the sanitizer to check.
            memset((uint8_t *)(uintptr_t)rows[i] + row, 0xa5, 1);
            memset((uint8_t *)(uintptr_t)rows[i] + row + CPU_SLACK - 1, 1, 1);
        }
        y += n;
    }
    result = cpu_decode_close(d, check, err);
    cpu_arena_reset(&dt_arena, mark);
    return result;
}

struct hr__rect dt_random_rect(int w, int h)
{
    struct hr__rect r;

    r.x = random_below(&dt_seed, w);
    r.y = random_below(&dt_seed, h);
    r.w = 1 + random_below(&dt_seed, w - r.x);
    r.h = 1 + random_below(&dt_seed, h - r.y);
    if (random_below(&dt_seed, 4) == 0) {
        r.x = 0;
        r.w = w;
    }
    if (random_below(&dt_seed, 4) == 0)
        r.w = 1 + random_below(&dt_seed, r.w < 4 ? r.w : 4);
    return r;
}

static bool same(const uint8_t *got, const uint8_t *full, int full_w,
                 struct hr__rect r, int channels)
{
    size_t row = (size_t)r.w * (size_t)channels;

    for (int y = 0; y < r.h; y++)
        if (memcmp(got + (size_t)y * row,
                   full + ((size_t)(r.y + y) * (size_t)full_w + (size_t)r.x) *
                              (size_t)channels,
                   row) != 0)
            return false;
    return true;
}

static void compare(const struct cpu_decode_kind *kind, const char *name,
                    const struct bytes *file, const struct plain *full,
                    struct hr__rect r, int channels, bool check)
{
    auto_heap uint8_t *got = malloc((size_t)r.w * (size_t)r.h * 3);
    struct cpu_decode_params p = dt_params(file, full->w, full->h, r, channels);
    struct cpu_decode_error err;
    enum cpu_result result;

    result = dt_decode(kind, &p, check, got, &err);
    CHECK(result == CPU_OK, "%s: result %d, %s", name, result, err.text);
    if (result == CPU_OK)
        CHECK(same(got, channels == 3 ? full->rgb : full->gray, full->w, r,
                   channels),
              "%s %dx%d: window %d,%d %dx%d, %d channels differs", name,
              full->w, full->h, r.x, r.y, r.w, r.h, channels);
}

void dt_compare_windows(const struct cpu_decode_kind *kind, const char *name,
                        const struct bytes *file, const struct plain *full,
                        int windows)
{
    struct hr__rect whole = {0, 0, full->w, full->h};

    compare(kind, name, file, full, whole, 3, true);
    compare(kind, name, file, full, whole, 1, false);
    for (int i = 0; i < windows; i++)
        compare(kind, name, file, full, dt_random_rect(full->w, full->h),
                random_below(&dt_seed, 4) ? 3 : 1, random_below(&dt_seed, 2));
}

enum plain_class dt_class(enum cpu_result result)
{
    return result == CPU_OK          ? PLAIN_OK
           : result == CPU_TRUNCATED ? PLAIN_TRUNCATED
           : result == CPU_CORRUPT || result == CPU_UNSUPPORTED ? PLAIN_REFUSED
                                                                : PLAIN_NOT_RUN;
}

// ---- files ----

static const struct jpeg_spec kinds[] = {
    {.space = JCS_YCbCr},
    {.space = JCS_YCbCr, .factors = {0x21, 0x11, 0x11}},
    {.space = JCS_YCbCr, .factors = {0x22, 0x11, 0x11}},
    {.space = JCS_YCbCr, .factors = {0x12, 0x11, 0x11}},
    {.space = JCS_YCbCr, .factors = {0x41, 0x11, 0x11}},
    {.space = JCS_YCbCr, .factors = {0x42, 0x11, 0x11}},
    {.space = JCS_YCbCr, .factors = {0x31, 0x11, 0x11}},
    {.space = JCS_YCbCr, .factors = {0x13, 0x11, 0x11}},
    {.space = JCS_YCbCr, .factors = {0x22, 0x12, 0x21}},
    {.space = JCS_YCbCr, .factors = {0x11, 0x22, 0x22}},
    {.space = JCS_YCbCr, .factors = {0x22, 0x22, 0x11}},
    {.space = JCS_GRAYSCALE},
    {.space = JCS_GRAYSCALE, .factors = {0x22}},
    {.space = JCS_RGB},
    {.space = JCS_CMYK},
    {.space = JCS_YCCK},
    {.space = JCS_YCCK, .factors = {0x22, 0x11, 0x11, 0x22}},
    {.space = JCS_YCCK, .factors = {0x21, 0x11, 0x11, 0x21}},
};
_Static_assert(sizeof(kinds) / sizeof(kinds[0]) == DT_JPEG_KINDS, "kinds");

bool dt_make_jpeg(int kind, int variant, int w, int h, struct bytes *file)
{
    struct jpeg_spec spec = kinds[kind];

    spec.w = w;
    spec.h = h;
    spec.quality = 30 + random_below(&dt_seed, 70);
    spec.restart = variant == 1 ? 1 + random_below(&dt_seed, 5) : 0;
    spec.progressive = variant == 2;
    spec.separate = variant == 3;
    spec.arithmetic = variant == 4;
    spec.partial = variant == 5;
    spec.optimize = variant == 6;
    return make_jpeg(&spec, &dt_seed, file);
}

struct bytes dt_copy(const struct bytes *file, size_t size)
{
    struct bytes copy = {malloc(size ? size : 1), size};

    if (!copy.data)
        abort();
    memcpy(copy.data, file->data, size < file->size ? size : file->size);
    return copy;
}

size_t dt_scan(const struct bytes *file)
{
    return (size_t)((uint8_t *)memmem(file->data, file->size, "\xff\xda", 2) -
                    file->data);
}

// The next marker that says which of the eight.
static size_t find_marker(const struct bytes *file, size_t from)
{
    for (size_t i = from; i + 1 < file->size; i++)
        if (file->data[i] == 0xff && (file->data[i + 1] & 0xf8) == 0xd0)
            return i;
    return 0;
}

// The n bytes at that place become others.
static struct bytes with_other(const struct bytes *file, size_t at, size_t n,
                               const uint8_t *bytes, size_t size)
{
    struct bytes out = dt_copy(file, file->size - n + size);

    memcpy(out.data + at, bytes, size);
    memcpy(out.data + at + size, file->data + at + n, file->size - at - n);
    return out;
}

struct bytes dt_damaged(const struct bytes *file, size_t from, const char **how)
{
    size_t at = from + next_random(&dt_seed) % (file->size - from);
    size_t marker = find_marker(file, at);
    const uint8_t any = (uint8_t)next_random(&dt_seed),
                  *next = file->data + marker;
    const uint8_t bit = file->data[at] ^
                        (uint8_t)(1 << random_below(&dt_seed, 8));
    const uint8_t other[2] = {
        0xff, next[1] ^ (uint8_t)(1 + random_below(&dt_seed, 7))};
    const struct {
        const char *name;
        const uint8_t *with;
        size_t size, instead;  // of bytes that were there
    } ways[] = {
        {"another byte", &any, 1, 1},
        {"another bit", &bit, 1, 1},
        {"a marker begins", other, 1, 1},
        {"a byte less", &any, 0, 1},
        {"a byte more", &any, 1, 0},
        {"cut", &any, 0, file->size - at},
        {"no marker", &any, 0, 2},  // from here on it is the marker
        {"two markers", next, 2, 0},
        {"another marker", other, 2, 2},
        {"fill in front of a marker", other, 1, 0},
        {"a byte in front of a marker", &any, 1, 0},
    };
    int way = random_below(&dt_seed, marker ? 11 : 6);

    if (how)
        *how = ways[way].name;
    return with_other(file, way < 6 ? at : marker, ways[way].instead,
                      ways[way].with, ways[way].size);
}

#if HR_HAVE_PNG

bool dt_make_png(int form, struct bytes *file, struct plain *full)
{
    static const struct {
        int type, bits;
    } forms[] = {
        {0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 16}, {2, 8}, {2, 16}, {3, 1},
        {3, 2}, {3, 4}, {3, 8}, {4, 8}, {4, 16}, {6, 8}, {6, 16},
    };
    struct png_spec spec = {
        .w = 1 + random_below(&dt_seed, 50),
        .h = 1 + random_below(&dt_seed, 50),
        .type = forms[form % 15].type,
        .bits = forms[form % 15].bits,
        .interlaced = (form / 15) & 1,
        .transparency = (form / 30) & 1,
    };

    spec.transparency &= spec.type < 4;
    spec.colors = 1 + random_below(&dt_seed, 1 << (spec.bits & 15));
    return make_png(&spec, &dt_seed, file, full);
}

#endif

// ---- running ----

int dt_main(int argc, char **argv)
{
    int failed;

    test_begin();
    dt_seed = test_seed;
    cpu_ops_init(&dt_ops, ~0u);
    counting_heap_init(&dt_heap);
    cpu_arena_init(&dt_arena, &dt_heap.heap);
    if (!(dt_state = cpu_jpeg_state_create(&dt_heap.heap)))
        abort();
    failed = test_main(argc, argv);
    cpu_jpeg_state_destroy(&dt_state);
    cpu_arena_finish(&dt_arena);
    if (dt_heap.blocks || dt_heap.bytes)
        fprintf(stderr, "%zu blocks of the heap leaked, %zu bytes\n",
                dt_heap.blocks, dt_heap.bytes);
    return failed || dt_heap.blocks || dt_heap.bytes;
}
