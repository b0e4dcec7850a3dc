// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/cpu_kernels.h"

// Rounded a * b / 255, exact for bytes. Pillow src/libImaging/ImagingUtils.h
// MULDIV255.
static int muldiv255(int a, int b)
{
    int t = a * b + 128;
    return (t + (t >> 8)) >> 8;
}

// Pillow src/libImaging/Convert.c cmyk2rgb reads ink (255 = full); the file
// holds its complement, so src[3] is already 255 - black. The difference
// cannot be negative: muldiv255(x, k) <= k.
void cpu_cmyk_to_rgb_c(uint8_t *dst, const uint8_t *src, int w)
{
    for (int x = 0; x < w; x++, src += 4, dst += 3) {
        int k = src[3];
        int r = k - muldiv255(255 - src[0], k);
        int g = k - muldiv255(255 - src[1], k);
        int b = k - muldiv255(255 - src[2], k);
        dst[0] = (uint8_t)r;
        dst[1] = (uint8_t)g;
        dst[2] = (uint8_t)b;
    }
}

// Pillow src/libImaging/Convert.c rgb2l.
void cpu_rgb_to_gray_c(uint8_t *dst, const uint8_t *src, int w)
{
    for (int x = 0; x < w; x++, src += 3) {
        unsigned sum = 19595u * src[0] + 38470u * src[1] + 7471u * src[2];
        dst[x] = (uint8_t)((sum + 32768u) >> 16);
    }
}

// ---- From planes of components ---------------------------------------------

void cpu_gather_c(uint8_t *dst, const uint8_t *src, int n, int step)
{
    if (step == 1) {
        memcpy(dst, src, (size_t)n);
        return;
    }
    for (int i = 0; i < n; i++, src += step)
        dst[i] = *src;
}

// libjpeg-turbo src/jdsample.c int_upsample.
void cpu_replicate_c(uint8_t *dst, const uint8_t *src, int n, int times)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < times; k++)
            *dst++ = src[i];
}

// libjpeg-turbo src/jdsample.c h2v1_fancy_upsample. Its first and last column
// are the edge's sample itself: (3 s + s + 1) >> 2 = s.
void cpu_upsample_h2v1_c(uint8_t *dst, const uint8_t *src, int n)
{
    for (int i = 0; i < n; i++) {
        dst[2 * i] = (uint8_t)((3 * src[i] + src[i - 1] + 1) >> 2);
        dst[2 * i + 1] = (uint8_t)((3 * src[i] + src[i + 1] + 2) >> 2);
    }
}

// libjpeg-turbo src/jdsample.c h1v2_fancy_upsample.
void cpu_upsample_h1v2_c(uint8_t *dst, const uint8_t *near, const uint8_t *far,
                         int n, bool lower)
{
    int bias = lower ? 2 : 1;

    for (int i = 0; i < n; i++)
        dst[i] = (uint8_t)((3 * near[i] + far[i] + bias) >> 2);
}

// libjpeg-turbo src/jdsample.c h2v2_fancy_upsample.
void cpu_upsample_h2v2_c(uint8_t *dst, const uint8_t *near, const uint8_t *far,
                         int n)
{
    int left = 3 * near[-1] + far[-1], at = 3 * near[0] + far[0], right;

    for (int i = 0; i < n; i++, left = at, at = right) {
        right = 3 * near[i + 1] + far[i + 1];
        dst[2 * i] = (uint8_t)((3 * at + left + 8) >> 4);
        dst[2 * i + 1] = (uint8_t)((3 * at + right + 7) >> 4);
    }
}

static uint8_t clamped(int v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

// libjpeg-turbo src/jdcolor.c build_ycc_rgb_table: 1.40200, 1.77200, 0.34414
// and 0.71414 with 16 fraction bits.
void cpu_ycc_to_rgb_c(uint8_t *dst, const uint8_t *y, const uint8_t *cb,
                      const uint8_t *cr, int w)
{
    for (int x = 0; x < w; x++, dst += 3) {
        int b = cb[x] - 128, r = cr[x] - 128;

        dst[0] = clamped(y[x] + ((91881 * r + 32768) >> 16));
        dst[1] = clamped(y[x] + ((-22554 * b - 46802 * r + 32768) >> 16));
        dst[2] = clamped(y[x] + ((116130 * b + 32768) >> 16));
    }
}

void cpu_join_rgb_c(uint8_t *dst, const uint8_t *r, const uint8_t *g,
                    const uint8_t *b, int w)
{
    for (int x = 0; x < w; x++, dst += 3) {
        dst[0] = r[x];
        dst[1] = g[x];
        dst[2] = b[x];
    }
}
