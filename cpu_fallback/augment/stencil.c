// SPDX-License-Identifier: Apache-2.0
// Filters that read a pixel's neighbours, in readable C.
#include <stdbool.h>

#include "cpu_fallback/augment/augment_kernels.h"

// Pillow's SMOOTH, 1 around 5, over 13: float32 there, no ties, so integers
// give the same bytes.
void SISTER(cpu_mix_smooth)(uint8_t *restrict dst, const uint8_t *const rows[3],
                            int n, int channels, float factor)
{
    for (int i = 0; i < n; i++) {
        int sum = 4 * rows[1][i] + 6;

        for (int r = 0; r < 3; r++)
            sum += rows[r][i - channels] + rows[r][i] + rows[r][i + channels];
        dst[i] = cpu_blend((uint8_t)(sum / 13), rows[1][i], factor);
    }
}

// Pillow src/libImaging/Filter.c ImagingFilter3x3: float32 in this order, the
// kernel's first row meets the lowest of the picture.
void SISTER(cpu_kernel3)(uint8_t *restrict dst, const uint8_t *const rows[3],
                         int n, int channels, const float weights[9],
                         float offset)
{
    for (int i = 0; i < n; i++) {
        float sum = offset + .5f;

        for (int r = 0; r < 3; r++) {
            const uint8_t *at = rows[2 - r] + i;
            const float *k = weights + 3 * r;

            sum += (float)at[-channels] * k[0] + (float)at[0] * k[1] +
                   (float)at[channels] * k[2];
        }
        sum = sum < 0 ? 0 : sum;
        sum = sum > 255 ? 255 : sum;
        dst[i] = (uint8_t)(int)sum;
    }
}

// ---- Boxes: Pillow src/libImaging/BoxBlur.c ---------------------------------

static uint8_t box_of(uint32_t sum, int both, const struct hr__box *box)
{
    return (uint8_t)((sum * box->inner + (uint32_t)both * box->outer +
                      (1u << 23)) >>
                     24);
}

// (inlined, so that the compiler sees how many taps there are)
static inline __attribute__((always_inline)) void near(
    uint8_t *restrict dst, const uint8_t *const *taps, int n, int reach,
    const struct hr__box *box)
{
    const struct hr__box weights = *box;
    const uint8_t *at[2 * CPU_BOX_NEAR + 3];

    memcpy(at, taps, sizeof(*at) * (size_t)(2 * reach + 3));
    for (int i = 0; i < n; i++) {
        uint32_t sum = 0;

        for (int k = 1; k < 2 * reach + 2; k++)
            sum += at[k][i];
        dst[i] = box_of(sum, at[0][i] + at[2 * reach + 2][i], &weights);
    }
}

void SISTER(cpu_box_near)(uint8_t *dst, const uint8_t *const *taps, int n,
                          const struct hr__box *box)
{
    if (box->reach == 0)
        near(dst, taps, n, 0, box);
    else if (box->reach == 1)
        near(dst, taps, n, 1, box);
    else
        near(dst, taps, n, box->reach, box);
}

static int clamped(int x, int w)
{
    return x < 0 ? 0 : x < w ? x : w - 1;
}

// Samples begin to end - 1 of a row of w: sum is that of the box around
// `begin`, but for its last sample. inside: the boxes need no edges.
static inline __attribute__((always_inline)) uint32_t box_part(
    uint8_t *dst, const uint8_t *src, int w, int channels,
    const struct hr__box *box, uint32_t sum, int begin, int end, bool inside)
{
    int reach = box->reach;

    for (int x = begin; x < end; x++) {
        int to = inside ? x + reach : clamped(x + reach, w);
        int after = inside ? to + 1 : clamped(x + reach + 1, w);
        int from = inside ? x - reach : clamped(x - reach, w);
        int before = inside ? from - 1 : clamped(x - reach - 1, w);

        sum += src[to * channels];
        dst[x * channels] =
            box_of(sum, src[before * channels] + src[after * channels], box);
        sum -= src[from * channels];
    }
    return sum;
}

void SISTER(cpu_box_x)(uint8_t *dst, const uint8_t *src, int w, int channels,
                       const struct hr__box *box)
{
    int reach = box->reach, within = reach < w ? reach : w;
    int begin = reach < w - reach - 1 ? reach + 1 : w;
    int end = reach < w - reach - 1 ? w - reach - 1 : w;

    for (int c = 0; c < channels; c++, src++, dst++) {
        uint32_t sum = (uint32_t)reach * src[0];

        for (int x = 0; x < within; x++)
            sum += src[x * channels];
        sum += (uint32_t)(reach - within) * src[(w - 1) * channels];
        sum = box_part(dst, src, w, channels, box, sum, 0, begin, false);
        sum = box_part(dst, src, w, channels, box, sum, begin, end, true);
        box_part(dst, src, w, channels, box, sum, end, w, false);
    }
}

void SISTER(cpu_box_y)(uint8_t *restrict dst, const uint32_t *sums,
                       const uint8_t *above, const uint8_t *below, int n,
                       const struct hr__box *box)
{
    for (int i = 0; i < n; i++)
        dst[i] = box_of(sums[i], above[i] + below[i], box);
}
