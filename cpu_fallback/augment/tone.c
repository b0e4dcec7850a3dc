// SPDX-License-Identifier: Apache-2.0
// Functions of one pixel, in readable C: the reference for the sisters.
#include "cpu_fallback/augment/augment_kernels.h"

#ifndef CPU_TONE_BY_HAND
void SISTER(cpu_table)(uint8_t *dst, const uint8_t *src, int w, int channels,
                       const struct hr__values *table)
{
    if (channels == 1) {
        for (int x = 0; x < w; x++)
            dst[x] = table->of[0][src[x]];
        return;
    }
    for (int x = 0; x < w; x++, dst += 3, src += 3)
        for (int c = 0; c < 3; c++)
            dst[c] = table->of[c][src[c]];
}

// In blocks that lie apart from dst, which may be src: only then can a compiler
// take several pixels at a time.
enum { BLOCK = 64 };

void SISTER(cpu_mix_luma)(uint8_t *dst, const uint8_t *src, int w, float factor)
{
    uint8_t in[3 * BLOCK] = {0}, out[3 * BLOCK];

    for (int x = 0; x < w; x += BLOCK) {
        size_t bytes = (size_t)(w - x < BLOCK ? w - x : BLOCK) * 3;

        memcpy(in, src + (size_t)3 * x, bytes);
        for (int i = 0; i < 3 * BLOCK; i += 3) {
            uint8_t luma = cpu_luma(in + i);

            for (int c = 0; c < 3; c++)
                out[i + c] = cpu_blend(luma, in[i + c], factor);
        }
        memcpy(dst + (size_t)3 * x, out, bytes);
    }
}

void SISTER(cpu_luma)(uint8_t *dst, const uint8_t *src, int w)
{
    for (int x = 0; x < w; x++, dst += 3, src += 3)
        dst[0] = dst[1] = dst[2] = cpu_luma(src);
}
#endif

uint32_t SISTER(cpu_luma_sum)(const uint8_t *src, int w)
{
    uint32_t sum = 0;

    for (int x = 0; x < w; x++)
        sum += cpu_luma(src + (size_t)3 * x);
    return sum;
}

// A multiple of the channels, 3 or 1, and of a compiler's vectors.
enum { WIDE = 96 };

static inline void widen(uint8_t lo[WIDE], uint8_t hi[WIDE], const uint8_t *row,
                         int n)
{
    for (int i = 0; i < n; i++) {
        lo[i] = row[i] < lo[i] ? row[i] : lo[i];
        hi[i] = row[i] > hi[i] ? row[i] : hi[i];
    }
}

void SISTER(cpu_range)(struct cpu_range *range, const struct cpu_pixels *p)
{
    uint8_t lo[WIDE], hi[WIDE];
    int n = p->w * p->channels, whole = n - n % WIDE;

    memset(lo, 255, WIDE);
    memset(hi, 0, WIDE);
    for (int y = 0; y < p->h; y++) {
        const uint8_t *row = p->data + p->stride * (size_t)y;

        for (int i = 0; i < whole; i += WIDE)
            widen(lo, hi, row + i, WIDE);
        widen(lo, hi, row + whole, n - whole);
    }
    for (int i = 0; i < WIDE; i++) {
        int c = i % p->channels;

        range->lo[c] = lo[i] < range->lo[c] ? lo[i] : range->lo[c];
        range->hi[c] = hi[i] > range->hi[c] ? hi[i] : range->hi[c];
    }
}
