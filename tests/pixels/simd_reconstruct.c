// SPDX-License-Identifier: Apache-2.0
#include "simd_reconstruct.h"

#include <stdio.h>
#include <string.h>

#include "fenced.h"
#include "simd_axes.h"

// SLACK: blocks behind the last that may be read, and as many be written.
enum { MOST = 9, SLACK = 3, GUARD = 64, FILL = 0x99, BLOCK = 128 };

// ---- Blocks and tables ----------------------------------------------------

enum kind {
    KIND_SPARSE,     // as in pictures
    KIND_DENSE,      // all that a file can say
    KIND_RANDOM,     // any 16 bits
    KIND_EXTREME,    // only the largest and the least
    KIND_DC,         // any 16 bits, alone
    KIND_FIRST_ROW,  // any 16 bits
    KIND_LAST_ROW,   // beside a first row, few
    KIND_EDGE,       // where 4 times the first row leaves 16 bits, few
    KIND_EMPTY,
    KINDS,
};

static int16_t any16(void)
{
    return (int16_t)test_rnd();
}

static int16_t edge(void)
{
    static const int16_t edges[] = {8191, 8192, -8192, -8193};

    return test_rnd() % 16 ? 0 : edges[test_rnd() % 4];
}

static int16_t coefficient(enum kind kind, int i)
{
    switch (kind) {
    case KIND_SPARSE:
        if (!i)
            return (int16_t)test_rnd_int(-400, 400);
        return (int16_t)(test_rnd_int(0, i / 2) ? 0 : test_rnd_int(-30, 30));
    case KIND_DENSE:
        return (int16_t)test_rnd_int(-1024, 1023);
    case KIND_RANDOM:
        return any16();
    case KIND_EXTREME:
        return test_rnd() & 1 ? INT16_MAX : INT16_MIN;
    case KIND_DC:
        return i ? 0 : any16();
    case KIND_FIRST_ROW:
        return i < 8 ? any16() : 0;
    case KIND_LAST_ROW:
        // Times an even quantizer it may be 0 again: the value of the
        // coefficient counts.
        if (i < 8)
            return any16();
        return i < 56 || test_rnd() % 8 ? 0 : INT16_MIN;
    case KIND_EDGE:
        return i < 8 ? edge() : 0;
    default:
        return 0;
    }
}

static void fill_quant(uint16_t quant[64])
{
    int kind = test_rnd_int(0, 4);

    for (int i = 0; i < 64; i++)
        quant[i] = (uint16_t)(kind == 0   ? test_rnd_int(1, 255)
                              : kind == 1 ? test_rnd_int(1, 65535)
                              : kind == 2 ? 65535
                              : kind == 3 ? 1
                                          : 2 * test_rnd_int(1, 100));
}

// Makes n blocks, the readable blocks behind them, then a page that faults.
static const int16_t (*fill_blocks(const struct fenced *f, int n))[64]
{
    int16_t(*blocks)[64] = (void *)(f->end - (size_t)(n + SLACK) * BLOCK);
    enum kind same = (enum kind)test_rnd_int(0, KINDS - 1);
    bool mixed = test_rnd() & 1;

    for (int b = 0; b < n + SLACK; b++) {
        enum kind kind = mixed ? (enum kind)test_rnd_int(0, KINDS - 1) : same;

        for (int i = 0; i < 64; i++)
            blocks[b][i] = coefficient(kind, i);
    }
    return (const int16_t(*)[64])blocks;
}

// ---- One case -------------------------------------------------------------

enum { STRIDE = (MOST + SLACK) * 8 + GUARD, TARGET = 9 * STRIDE };

static bool same(const uint8_t *want, const uint8_t *got, size_t at, int n)
{
    // Bytes outside the samples and the blocks behind must be unchanged.
    static uint8_t may[TARGET];
    bool ok = true;

    memset(may, 0, sizeof(may));
    for (size_t y = 0; y < 8; y++) {
        size_t row = at + y * STRIDE, bytes = (size_t)n * 8;

        ok = ok && !memcmp(want + row, got + row, bytes);
        memset(may + row, 1, bytes + SLACK * 8);
    }
    for (int i = 0; i < TARGET; i++)
        ok = ok && (may[i] || (got[i] == FILL && want[i] == FILL));
    return ok;
}

static bool one(const struct cpu_ops *ops, const struct cpu_ops *c,
                const struct fenced *f)
{
    static uint8_t want[TARGET], got[TARGET];
    int n = test_rnd_int(1, MOST);
    size_t at = (size_t)test_rnd_int(0, GUARD);
    const int16_t(*blocks)[64] = fill_blocks(f, n);
    uint16_t quant[64];

    fill_quant(quant);
    memset(want, FILL, sizeof(want));
    memset(got, FILL, sizeof(got));
    c->reconstruct(want + at, STRIDE, blocks, n, quant);
    ops->reconstruct(got + at, STRIDE, blocks, n, quant);
    if (same(want, got, at, n))
        return true;
    printf("  %s reconstruct differs: %d blocks\n", ops->name, n);
    return false;
}

int test_simd_reconstruct(const struct cpu_ops *ops, int cases)
{
    struct fenced f;
    struct cpu_ops c;
    int bad = 0;

    cpu_ops_init(&c, CPU_FLAG_C);
    fenced_init(&f, (MOST + SLACK) * BLOCK);
    for (int i = 0; i < cases && bad < 9; i++)
        bad += !one(ops, &c, &f);
    fenced_finish(&f);
    return bad;
}
