// SPDX-License-Identifier: Apache-2.0
#include "simd_packed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "corpus_list.h"
#include "cpu_fallback/packed/packed.h"
#include "decode_files.h"
#include "fenced.h"
#include "packed_blocks.h"
#include "packed_picture.h"
#include "simd_axes.h"
#include "simd_time.h"

enum { MOST = 70, BLOCK = 128, FILL = 0x99 };

struct room {
    struct fenced blocks, segment, out;
    uint8_t want[2 + MOST * 234 + 64];
    int16_t part[MOST][64];
};

static bool one_pack(const struct cpu_ops *ops, const struct cpu_ops *c,
                     struct room *r, int n, size_t *size)
{
    int16_t(*blocks)[64] = (void *)(r->blocks.end - n * BLOCK);
    uint8_t *got = r->segment.end - cpu_packed_bound((size_t)n);
    enum packed_kind kind = (enum packed_kind)test_rnd_int(0, PACKED_KINDS);

    packed_blocks_fill(blocks, n, kind);
    *size = c->pack_line(r->want, (const int16_t(*)[64])blocks, n);
    memset(r->segment.map, FILL, (size_t)(r->segment.end - r->segment.map));
    if (ops->pack_line(got, (const int16_t(*)[64])blocks, n) == *size &&
        !memcmp(got, r->want, *size) && got[-1] == FILL && got[-2] == FILL)
        return true;
    printf("  %s pack_line differs: %d blocks of kind %d\n", ops->name, n,
           kind);
    return false;
}

static bool one_unpack(const struct cpu_ops *ops, const struct cpu_ops *c,
                       struct room *r, int n, size_t size)
{
    int first = test_rnd_int(0, n - 1), count = test_rnd_int(1, n - first);
    size_t bytes = (size_t)count * BLOCK;
    uint8_t *segment = r->segment.end - size - CPU_PACKED_PAD;
    uint8_t *got = r->out.end - bytes;

    // What lies behind a segment is the next one.
    memset(segment, test_rnd() & 1 ? 0x80 : FILL, size + CPU_PACKED_PAD);
    memcpy(segment, r->want, size);
    memset(r->out.map, FILL, (size_t)(r->out.end - r->out.map));
    c->unpack_line(r->part, segment, n, first, count);
    ops->unpack_line((void *)got, segment, n, first, count);
    if (!memcmp(r->part, got, bytes) && got[-1] == FILL && got[-2] == FILL)
        return true;
    printf("  %s unpack_line differs: %d of %d blocks from %d on\n", ops->name,
           count, n, first);
    return false;
}

int test_simd_packed(const struct cpu_ops *ops, int cases)
{
    static struct room r;
    struct cpu_ops c;
    int bad = 0;

    cpu_ops_init(&c, CPU_FLAG_C);
    fenced_init(&r.blocks, (MOST + 1) * BLOCK);
    fenced_init(&r.segment, cpu_packed_bound(MOST) + CPU_PACKED_PAD);
    fenced_init(&r.out, (MOST + 1) * BLOCK);
    for (int i = 0; i < cases && bad < 9; i++) {
        int n = test_rnd_int(1, MOST);
        size_t size;

        bad += !one_pack(ops, &c, &r, n, &size);
        bad += !one_unpack(ops, &c, &r, n, size);
    }
    fenced_finish(&r.blocks);
    fenced_finish(&r.segment);
    fenced_finish(&r.out);
    return bad;
}

// ---- Times ----------------------------------------------------------------

enum { BENCH_BLOCKS = 50, BENCH_ROUNDS = 20, BENCH_LINES = 20 };

struct bench {
    const struct cpu_ops *ops;
    _Alignas(64) int16_t blocks[BENCH_LINES][BENCH_BLOCKS][64];
    _Alignas(64) int16_t out[BENCH_BLOCKS][64];
    uint8_t segment[BENCH_LINES][2 + BENCH_BLOCKS * 234 + CPU_PACKED_PAD];
    size_t size[BENCH_LINES];
    int first, count;
};

static void pack(void *bench)
{
    struct bench *b = bench;

    for (int i = 0; i < BENCH_ROUNDS; i++)
        b->ops->pack_line(b->segment[i % BENCH_LINES],
                          (const int16_t(*)[64])b->blocks[i % BENCH_LINES],
                          BENCH_BLOCKS);
}

static void unpack(void *bench)
{
    struct bench *b = bench;

    for (int i = 0; i < BENCH_ROUNDS * BENCH_BLOCKS / b->count; i++)
        b->ops->unpack_line(b->out, b->segment[i % BENCH_LINES], BENCH_BLOCKS,
                            b->first, b->count);
}

static void use(void *bench, const struct cpu_ops *ops)
{
    ((struct bench *)bench)->ops = ops;
}

static void check(void *bench)
{
    struct bench *b = bench;

    for (int i = 0; i < BENCH_LINES; i++)
        if (!cpu_packed_check_line(b->segment[i], b->size[i], BENCH_BLOCKS))
            abort();
}

static void bench_lines(const char *name, struct bench *b)
{
    static const char *const parts[] = {"", ", first 10", ", last 10"};
    char text[64];

    snprintf(text, sizeof(text), "pack, %s", name);
    simd_time(text, pack, use, b);
    for (int i = 0; i < BENCH_LINES; i++)
        b->size[i] = b->ops->pack_line(b->segment[i],
                                       (const int16_t(*)[64])b->blocks[i],
                                       BENCH_BLOCKS);
    for (int i = 0; i < 3; i++) {
        b->first = i == 2 ? BENCH_BLOCKS - 10 : 0;
        b->count = i ? 10 : BENCH_BLOCKS;
        snprintf(text, sizeof(text), "unpack, %s%s", name, parts[i]);
        simd_time(text, unpack, use, b);
    }
    snprintf(text, sizeof(text), "check, %s", name);
    simd_time(text, check, use, b);
}

// ---- Lines of photos ----

struct take {
    struct bench *b;
    int lines, skip;  // taken of all files; still to pass over in this one
};

static void take_line(void *ctx, const int16_t (*blocks)[64], int n,
                      const uint8_t *segment, size_t size)
{
    struct take *t = ctx;

    (void)segment;
    (void)size;
    if (t->skip-- || t->lines == BENCH_LINES || n < BENCH_BLOCKS) {
        t->skip += n < BENCH_BLOCKS && t->skip < 0;  // the next one, then
        return;
    }
    memcpy(t->b->blocks[t->lines++], blocks, sizeof(t->b->blocks[0]));
}

// Of each file one line; of all of them the size. False: there are none.
static bool take_photos(struct bench *b)
{
    struct take take = {.b = b};
    struct corpus_folder f;
    struct cpu_ops ops;
    double files = 0, packed = 0;

    if (!corpus_folder_open(&f, "photos/imagenet-sample"))
        return false;
    cpu_ops_init(&ops, ~0u);
    while (corpus_folder_next(&f, 1)) {
        struct cpu_packed_head *head;
        struct bytes file;

        if (!read_file(f.path, &file))
            continue;
        take.skip = 20 + take.lines;
        head = packed_picture(file.data, file.size, &ops, take_line, &take);
        files += head ? (double)file.size : 0;
        packed += head ? (double)head->size : 0;
        free(head);
        free(file.data);
    }
    corpus_folder_close(&f);
    printf("  imagenet-sample: %.0f bytes packed, %.3f times the files\n",
           packed, packed / files);
    return take.lines == BENCH_LINES;
}

void test_simd_packed_bench(void)
{
    static struct bench b;

    printf("packed coefficients, 1000 blocks\n");
    test_rnd_seed(1);
    for (int i = 0; i < BENCH_LINES; i++)
        packed_blocks_fill(b.blocks[i], BENCH_BLOCKS, PACKED_PICTURE);
    bench_lines("made up", &b);
    if (take_photos(&b))
        bench_lines("photos", &b);
}
