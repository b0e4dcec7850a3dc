// SPDX-License-Identifier: Apache-2.0
// Filters that read a pixel's neighbours, with NEON, 16 bytes at a time.
#if defined(__AARCH64EL__)

#include "cpu_fallback/arm/pixels_neon.h"

// 16-bit numbers of 16 bytes.
struct wide {
    uint16x8_t low, high;
};

CPU_INLINE struct wide added(struct wide sum, const uint8_t *at)
{
    uint8x16_t v = vld1q_u8(at);

    return (struct wide){vaddw_u8(sum.low, vget_low_u8(v)),
                         vaddw_high_u8(sum.high, v)};
}

// ---- 3 x 3 ------------------------------------------------------------------

// sum / 13 = sum * 20165 >> 18 for all sums that there are; the upper half of a
// doubling product has been shifted by 15 of them.
CPU_INLINE uint8x8_t thirteenth(uint16x8_t sum)
{
    int16x8_t part = vqdmulhq_n_s16(vreinterpretq_s16_u16(sum), 20165);

    return vmovn_u16(vshrq_n_u16(vreinterpretq_u16_s16(part), 3));
}

CPU_INLINE uint8x8_t smooth_mix(uint16x8_t sum, uint8x8_t at, float factor)
{
    uint8x8_t mean = thirteenth(sum);
    struct cpu_floats first = cpu_floats_of(
        vreinterpretq_s16_u16(vmovl_u8(mean)));

    return cpu_blend_of(first, mean, at, factor);
}

void cpu_mix_smooth_neon(uint8_t *dst, const uint8_t *const rows[3], int n,
                         int channels, float factor)
{
    const uint8x16_t four = vdupq_n_u8(4);
    const uint16x8_t half = vdupq_n_u16(6);

    for (int i = 0; i < n; i += 16) {
        uint8x16_t at = vld1q_u8(rows[1] + i);
        struct wide sum = {vmlal_u8(half, vget_low_u8(at), vget_low_u8(four)),
                           vmlal_high_u8(half, at, four)};

        CPU_UNROLL for (int r = 0; r < 3; r++)
            CPU_UNROLL for (int k = -1; k <= 1; k++)
                sum = added(sum, rows[r] + i + k * channels);
        vst1q_u8(dst + i,
                 vcombine_u8(smooth_mix(sum.low, vget_low_u8(at), factor),
                             smooth_mix(sum.high, vget_high_u8(at), factor)));
    }
}

struct sixteen {
    float32x4_t of[4];
};

CPU_INLINE struct sixteen products(const uint8_t *at, float weight)
{
    uint8x16_t v = vld1q_u8(at);
    struct sixteen made;

    CPU_UNROLL for (int i = 0; i < 4; i++)
        made.of[i] = vmulq_n_f32(vcvtq_f32_u32(cpu_words_of(v, i)), weight);
    return made;
}

CPU_INLINE struct sixteen sum_of(struct sixteen a, struct sixteen b)
{
    CPU_UNROLL for (int i = 0; i < 4; i++)
        a.of[i] = vaddq_f32(a.of[i], b.of[i]);
    return a;
}

// (In the order of the readable C: each operation rounds.)
void cpu_kernel3_neon(uint8_t *dst, const uint8_t *const rows[3], int n,
                      int channels, const float weights[9], float offset)
{
    const float32x4_t first = vdupq_n_f32(offset + .5f);

    for (int i = 0; i < n; i += 16) {
        struct sixteen sum = {{first, first, first, first}};

        CPU_UNROLL for (int r = 0; r < 3; r++)
        {
            const uint8_t *at = rows[2 - r] + i;
            const float *k = weights + 3 * r;
            struct sixteen row = sum_of(products(at - channels, k[0]),
                                        products(at, k[1]));

            sum = sum_of(sum, sum_of(row, products(at + channels, k[2])));
        }
        vst1q_u8(dst + i,
                 vcombine_u8(cpu_bytes_of_floats(sum.of[0], sum.of[1]),
                             cpu_bytes_of_floats(sum.of[2], sum.of[3])));
    }
}

// ---- Boxes ------------------------------------------------------------------

// Weights of 25 bits in two halves. The lower halves' products, shifted right
// by 16, and the upper halves' products add up to 255 * 256 at most.
struct halves {
    uint16_t inner[2], outer[2];
};

CPU_INLINE struct halves halves_of(const struct hr__box *box)
{
    return (
        struct halves){{(uint16_t)box->inner, (uint16_t)(box->inner >> 16)},
                       {(uint16_t)box->outer, (uint16_t)(box->outer >> 16)}};
}

CPU_INLINE uint8x8_t weighed(uint16x8_t inside, uint16x8_t beyond,
                             struct halves w)
{
    uint32x4_t low = vmull_n_u16(vget_low_u16(inside), w.inner[0]);
    uint32x4_t high = vmull_high_n_u16(inside, w.inner[0]);
    uint16x8_t sum;

    low = vmlal_n_u16(low, vget_low_u16(beyond), w.outer[0]);
    high = vmlal_high_n_u16(high, beyond, w.outer[0]);
    sum = vshrn_high_n_u32(vshrn_n_u32(low, 16), high, 16);
    sum = vmlaq_n_u16(sum, inside, w.inner[1]);
    return vrshrn_n_u16(vmlaq_n_u16(sum, beyond, w.outer[1]), 8);
}

CPU_INLINE void box_near(uint8_t *dst, const uint8_t *const *taps, int n,
                         int reach, struct halves w)
{
    const struct wide none = {vdupq_n_u16(0), vdupq_n_u16(0)};
    const uint8_t *at[2 * CPU_BOX_NEAR + 3];

    memcpy(at, taps, sizeof(*at) * (size_t)(2 * reach + 3));
    for (int i = 0; i < n; i += 16) {
        struct wide in = added(none, at[1] + i);
        struct wide out = added(added(none, at[0] + i), at[2 * reach + 2] + i);

        for (int k = 2; k < 2 * reach + 2; k++)
            in = added(in, at[k] + i);
        vst1q_u8(dst + i, vcombine_u8(weighed(in.low, out.low, w),
                                      weighed(in.high, out.high, w)));
    }
}

void cpu_box_near_neon(uint8_t *dst, const uint8_t *const *taps, int n,
                       const struct hr__box *box)
{
    const struct halves w = halves_of(box);

    // The loops are unrolled for the reaches that today's recipes have.
    if (box->reach == 0)
        box_near(dst, taps, n, 0, w);
    else if (box->reach == 1)
        box_near(dst, taps, n, 1, w);
    else
        box_near(dst, taps, n, box->reach, w);
}

#endif
