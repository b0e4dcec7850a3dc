// SPDX-License-Identifier: Apache-2.0
#include "simd_color.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fenced.h"
#include "simd_axes.h"

enum { MOST = 700, GUARD = 64, FILL = 0x99, ROWS = 3, SOURCE = 65536 };

// A row of the source: `before` bytes, n, `behind`, then a page that faults.
static const uint8_t *source_fill(const struct fenced *s, size_t bytes,
                                  size_t behind, int kind)
{
    uint8_t *row = s->end - behind - bytes;

    for (uint8_t *p = row - GUARD; p < s->end; p++)
        *p = (uint8_t)(kind == 0   ? 0
                       : kind == 1 ? 255
                       : kind == 2 ? ((p - row) & 1) * 255
                       : kind == 3 ? ((p - row) & 2) * 127
                                   : test_rnd());
    return row;
}

struct target {
    uint8_t bytes[GUARD + 4 * MOST + CPU_SLACK + 2 * GUARD];
};

static uint8_t *target_fill(struct target *t, int at)
{
    memset(t->bytes, FILL, sizeof(t->bytes));
    return t->bytes + GUARD + at;
}

static bool target_intact(const struct target *t, const uint8_t *row,
                          size_t bytes)
{
    const uint8_t *behind = row + bytes + CPU_SLACK;

    for (const uint8_t *p = t->bytes; p < row; p++)
        if (*p != FILL)
            return false;
    for (const uint8_t *p = behind; p < t->bytes + sizeof(t->bytes); p++)
        if (*p != FILL)
            return false;
    return true;
}

enum kernel { GATHER, REPLICATE, H2V1, H1V2, H2V2, YCC, JOIN, KERNELS };
static const char *const names[KERNELS] = {"gather",        "replicate",
                                           "upsample_h2v1", "upsample_h1v2",
                                           "upsample_h2v2", "ycc_to_rgb",
                                           "join_rgb"};

// Bytes written.
static size_t call(const struct cpu_ops *ops, enum kernel k, uint8_t *dst,
                   const uint8_t *const src[ROWS], int n, int number)
{
    switch (k) {
    case GATHER:
        ops->gather(dst, src[0], n, number);
        return (size_t)n;
    case REPLICATE:
        ops->replicate(dst, src[0], n, number);
        return (size_t)(n * number);
    case H2V1:
        ops->upsample_h2v1(dst, src[0], n);
        return (size_t)n * 2;
    case H1V2:
        ops->upsample_h1v2(dst, src[0], src[1], n, number & 1);
        return (size_t)n;
    case H2V2:
        ops->upsample_h2v2(dst, src[0], src[1], n);
        return (size_t)n * 2;
    case YCC:
        ops->ycc_to_rgb(dst, src[0], src[1], src[2], n);
        return (size_t)n * 3;
    default:
        ops->join_rgb(dst, src[0], src[1], src[2], n);
        return (size_t)n * 3;
    }
}

static bool one(const struct cpu_ops *ops, const struct cpu_ops *c,
                const struct fenced *sources, enum kernel k)
{
    static struct target want, got;
    int n = test_rnd_int(1, test_rnd() % 4 ? 80 : MOST);
    int number = k == GATHER ? 1 << test_rnd_int(0, 2) : test_rnd_int(1, 4);
    int at = test_rnd_int(0, 40);
    const uint8_t *src[ROWS];
    uint8_t *a = target_fill(&want, at), *b = target_fill(&got, at);
    size_t bytes = (size_t)n;

    if (k == GATHER)
        bytes = (size_t)(n - 1) * (size_t)number + 1;
    for (int i = 0; i < ROWS; i++)
        src[i] = source_fill(&sources[i], bytes, k == GATHER ? 0 : CPU_SLACK,
                             test_rnd_int(0, 7));
    bytes = call(c, k, a, src, n, number);
    call(ops, k, b, src, n, number);
    if (!memcmp(a, b, bytes) && target_intact(&got, b, bytes) &&
        target_intact(&want, a, bytes))
        return true;
    printf("  %s %s differs: n %d, number %d\n", ops->name, names[k], n,
           number);
    return false;
}

int test_simd_color(const struct cpu_ops *ops, int cases)
{
    struct fenced sources[ROWS];
    struct cpu_ops c;
    int bad = 0;

    cpu_ops_init(&c, CPU_FLAG_C);
    for (int i = 0; i < ROWS; i++)
        fenced_init(&sources[i], SOURCE);
    for (int k = 0; k < KERNELS; k++)
        for (int i = 0; i < cases && bad < 9; i++)
            bad += !one(ops, &c, sources, (enum kernel)k);
    for (int i = 0; i < ROWS; i++)
        fenced_finish(&sources[i]);
    return bad;
}

static uint8_t clamped(int64_t v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

// Rounded half up, as floor(x + 1/2).
static int64_t part(int64_t v)
{
    int64_t w = v + 32768;

    return w >= 0 ? w / 65536 : -((-w + 65535) / 65536);
}

int test_simd_ycc(const struct cpu_ops *ops)
{
    static const uint8_t lumas[] = {0, 1, 77, 128, 254, 255};
    uint8_t y[256 + CPU_SLACK], cb[256 + CPU_SLACK], cr[256 + CPU_SLACK];
    uint8_t rgb[768 + CPU_SLACK];
    int bad = 0;

    for (int i = 0; i < 256 * 6; i++) {
        for (int x = 0; x < 256; x++) {
            y[x] = lumas[i / 256];
            cb[x] = (uint8_t)x;
            cr[x] = (uint8_t)i;
        }
        ops->ycc_to_rgb(rgb, y, cb, cr, 256);
        for (int x = 0; x < 256; x++) {
            int64_t b = cb[x] - 128, r = cr[x] - 128;

            bad += rgb[3 * x] != clamped(y[x] + part(91881 * r)) ||
                   rgb[3 * x + 1] !=
                       clamped(y[x] + part(-22554 * b - 46802 * r)) ||
                   rgb[3 * x + 2] != clamped(y[x] + part(116130 * b));
        }
    }
    return bad;
}
