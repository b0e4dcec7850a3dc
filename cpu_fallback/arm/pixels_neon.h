// SPDX-License-Identifier: Apache-2.0
// Helpers of several NEON sisters, for pixels whose channels lie apart.
#ifndef CPU_PIXELS_NEON_H
#define CPU_PIXELS_NEON_H

#include <arm_neon.h>

#include "cpu_fallback/augment/augment_kernels.h"
#include "cpu_fallback/cpu_kernels.h"

// ---- Tables: 256 bytes in 16 registers, for four look-ups of 64 -------------

struct cpu_lut {
    uint8x16x4_t of[4];
};

CPU_INLINE struct cpu_lut cpu_lut_load(const uint8_t table[256])
{
    return (struct cpu_lut){{vld1q_u8_x4(table), vld1q_u8_x4(table + 64),
                             vld1q_u8_x4(table + 128),
                             vld1q_u8_x4(table + 192)}};
}

// An index outside of a look-up's 64 entries leaves its byte unchanged.
CPU_INLINE uint8x16_t cpu_look_up(const struct cpu_lut *t, uint8x16_t i)
{
    const uint8x16_t step = vdupq_n_u8(64);
    uint8x16_t v = vqtbl4q_u8(t->of[0], i);

    CPU_UNROLL for (int k = 1; k < 4; k++)
    {
        i = vsubq_u8(i, step);
        v = vqtbx4q_u8(v, t->of[k], i);
    }
    return v;
}

// ---- Bytes 4 i to 4 i + 3 as words -----------------------------------------

#define NO 255  // taken from nowhere, it is 0
#define CPU_FOUR(i)                                                            \
    {                                                                          \
        i, NO, NO, NO, i + 1, NO, NO, NO, i + 2, NO, NO, NO, i + 3, NO, NO, NO \
    }

CPU_INLINE uint32x4_t cpu_words_of(uint8x16_t bytes, int i)
{
    static const uint8_t at[4][16] = {CPU_FOUR(0), CPU_FOUR(4), CPU_FOUR(8),
                                      CPU_FOUR(12)};

    return vreinterpretq_u32_u8(vqtbl1q_u8(bytes, vld1q_u8(at[i])));
}
#undef CPU_FOUR
#undef NO

// ---- Luma -------------------------------------------------------------------

CPU_INLINE uint16x4_t cpu_luma_of_four(uint16x4_t r, uint16x4_t g, uint16x4_t b)
{
    uint32x4_t sum = vmlal_n_u16(vmull_n_u16(r, 19595), g, 38470);

    return vrshrn_n_u32(vmlal_n_u16(sum, b, 7471), 16);
}

// Computes cpu_luma().
CPU_INLINE uint16x8_t cpu_luma_of(uint8x8x3_t v)
{
    uint16x8_t r = vmovl_u8(v.val[0]), g = vmovl_u8(v.val[1]);
    uint16x8_t b = vmovl_u8(v.val[2]);

    return vcombine_u16(
        cpu_luma_of_four(vget_low_u16(r), vget_low_u16(g), vget_low_u16(b)),
        cpu_luma_of_four(vget_high_u16(r), vget_high_u16(g), vget_high_u16(b)));
}

// ---- Floats to bytes --------------------------------------------------------

// Truncated; below 0 it is 0, above 255 it is 255.
CPU_INLINE uint8x8_t cpu_bytes_of_floats(float32x4_t low, float32x4_t high)
{
    return vqmovn_u16(vcombine_u16(vqmovn_u32(vcvtq_u32_f32(low)),
                                   vqmovn_u32(vcvtq_u32_f32(high))));
}

struct cpu_floats {
    float32x4_t low, high;
};

CPU_INLINE struct cpu_floats cpu_floats_of(int16x8_t v)
{
    return (struct cpu_floats){
        vcvtq_f32_s32(vmovl_s16(vget_low_s16(v))),
        vcvtq_f32_s32(vmovl_high_s16(v)),
    };
}

// Computes cpu_blend(); first: a, as floats.
CPU_INLINE uint8x8_t cpu_blend_of(struct cpu_floats first, uint8x8_t a,
                                  uint8x8_t b, float factor)
{
    struct cpu_floats d = cpu_floats_of(vreinterpretq_s16_u16(vsubl_u8(b, a)));

    return cpu_bytes_of_floats(vaddq_f32(first.low, vmulq_n_f32(d.low, factor)),
                               vaddq_f32(first.high,
                                         vmulq_n_f32(d.high, factor)));
}

#endif
