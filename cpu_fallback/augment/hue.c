// SPDX-License-Identifier: Apache-2.0
// A shift of the hue: Pillow's RGB to HSV and back (src/libImaging/Convert.c
// rgb2hsv_row, hsv2rgb) with an addition modulo 256 between them. Pillow
// computes in float and double; these integers give the same bytes for all 2^24
// colours, there and back.
#include <stdbool.h>

#include "cpu_fallback/augment/augment_kernels.h"

struct hsv {
    int h, s, v;
};

// Returns whether Pillow's float32 falls just short of this hue, where the
// quotient is whole.
static bool falls_short(int hue)
{
    static const uint32_t hues[8] = {0xfffffffe, 0,          0x11000000,
                                     0x00000111, 0x222aaaaa, 0x23232222,
                                     0x00022222, 0};

    return hues[hue >> 5] >> (hue & 31) & 1;
}

static struct hsv to_hsv(const uint8_t *rgb)
{
    int r = rgb[0], g = rgb[1], b = rgb[2];
    int most = r > g ? (r > b ? r : b) : (g > b ? g : b);
    int least = r < g ? (r < b ? r : b) : (g < b ? g : b);
    int d = most - least, sixths, hue;  // sixths: 6 d is the whole circle

    if (!d)
        return (struct hsv){0, 0, most};
    if (r == most)
        sixths = g - b;
    else if (g == most)
        sixths = 2 * d + b - r;
    else
        sixths = 4 * d + r - g;
    if (sixths < 0)
        sixths += 6 * d;
    hue = 255 * sixths / (6 * d);
    if (hue * 6 * d == 255 * sixths && falls_short(hue))
        hue--;
    return (struct hsv){hue, 255 * d / most, most};
}

static void to_rgb(uint8_t *dst, struct hsv p)
{
    // The channels that get v, the ramp and the least, of each sextant.
    static const uint8_t places[6][3] = {{0, 1, 2}, {1, 0, 2}, {1, 2, 0},
                                         {2, 1, 0}, {2, 0, 1}, {0, 2, 1}};
    int sextant = 6 * p.h / 255, part = 6 * p.h % 255;
    int ramp = sextant & 1 ? part : 255 - part;
    const uint8_t *at = places[sextant % 6];

    dst[at[0]] = (uint8_t)p.v;
    dst[at[1]] = (uint8_t)((2 * p.v * (65025 - p.s * ramp) + 65025) / 130050);
    dst[at[2]] = (uint8_t)((2 * p.v * (255 - p.s) + 255) / 510);
}

void SISTER(cpu_hue)(uint8_t *dst, const uint8_t *src, int w, int shift)
{
    for (int x = 0; x < w; x++, dst += 3, src += 3) {
        struct hsv p = to_hsv(src);

        p.h = (p.h + shift) & 255;
        to_rgb(dst, p);
    }
}
