// SPDX-License-Identifier: Apache-2.0
// Both passes in readable C: the reference for the SIMD sisters.
#include "cpu_fallback/cpu_kernels.h"

// Sums are unsigned because weights out of the ordinary may wrap them, and
// all sisters must wrap alike. Then Pillow's clip8: arithmetic shift, clamp.
static uint8_t round_clip(uint32_t sum)
{
    int32_t v = (int32_t)(sum + CPU_WEIGHT_HALF) >> CPU_WEIGHT_BITS;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static void select_row(uint8_t *dst, const uint8_t *src, int channels,
                       const struct cpu_axis *axis)
{
    for (int x = 0; x < axis->out; x++)
        for (int c = 0; c < channels; c++)
            *dst++ = src[(size_t)axis->lo[x] * channels + c];
}

// Few taps: what compilers do to make vectors of them costs more than it saves.
static inline uint32_t alone(uint32_t x)
{
    __asm__("" : "+r"(x));
    return x;
}

static void weigh_rgb(uint8_t *dst, const uint8_t *src,
                      const struct cpu_axis *axis)
{
    for (int x = 0; x < axis->out; x++) {
        const int32_t *w = axis->w + (size_t)x * axis->stride;
        const uint8_t *s = src + (size_t)axis->lo[x] * 3;
        uint32_t r = 0, g = 0, b = 0;
        for (int k = 0; k < axis->n[x]; k++, s += 3) {
            uint32_t weight = alone((uint32_t)w[k]);
            r += s[0] * weight;
            g += s[1] * weight;
            b += s[2] * weight;
        }
        *dst++ = round_clip(r);
        *dst++ = round_clip(g);
        *dst++ = round_clip(b);
    }
}

static void weigh_gray(uint8_t *dst, const uint8_t *src,
                       const struct cpu_axis *axis)
{
    for (int x = 0; x < axis->out; x++) {
        const int32_t *w = axis->w + (size_t)x * axis->stride;
        const uint8_t *s = src + axis->lo[x];
        uint32_t sum = 0;
        for (int k = 0; k < axis->n[x]; k++)
            sum += s[k] * (uint32_t)w[k];
        *dst++ = round_clip(sum);
    }
}

void cpu_resample_h_c(uint8_t *const *dst, const uint8_t *const *src, int rows,
                      int channels, const struct cpu_axis *axis)
{
    if (axis->identity) {
        cpu_copy_rows(dst, src, rows, channels, axis);
        return;
    }
    bool selects = cpu_axis_selects(axis);
    for (int r = 0; r < rows; r++) {
        if (selects)
            select_row(dst[r], src[r], channels, axis);
        else if (channels == 3)
            weigh_rgb(dst[r], src[r], axis);
        else
            weigh_gray(dst[r], src[r], axis);
    }
}

void cpu_resample_v_c(uint8_t *dst, const uint8_t *const *rows,
                      const int32_t *w, int n, size_t bytes)
{
    if (n == 1 && w[0] == CPU_WEIGHT_ONE) {
        memmove(dst, rows[0], bytes);
        return;
    }
    // A block of columns at a time: its sums stay in cache while the rows
    // pass by, and compilers can vectorise over the columns.
    uint32_t sums[64];
    for (size_t x0 = 0; x0 < bytes; x0 += 64) {
        size_t m = bytes - x0 < 64 ? bytes - x0 : 64;
        memset(sums, 0, sizeof sums);
        for (int k = 0; k < n; k++)
            for (size_t x = 0; x < m; x++)
                sums[x] += (uint32_t)rows[k][x0 + x] * (uint32_t)w[k];
        for (size_t x = 0; x < m; x++)
            dst[x0 + x] = round_clip(sums[x]);
    }
}
