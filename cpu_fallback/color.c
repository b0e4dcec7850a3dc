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
