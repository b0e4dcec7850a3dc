// SPDX-License-Identifier: Apache-2.0
#include "simd_packed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_fallback/packed/packed.h"
#include "fenced.h"
#include "packed_blocks.h"
#include "simd_axes.h"

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

    // The next segment lies behind a segment.
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
