// SPDX-License-Identifier: Apache-2.0
// Stage color with NEON. Loads and stores of this processor take channels, or
// every second or fourth byte, apart and together, so there are no shuffles.
// Sums of samples fit 16 bits: 4 * 4 * 255 + 8 at most.
#if defined(__AARCH64EL__)

#include "cpu_fallback/arm/pixels_neon.h"

// ---- gather, replicate ------------------------------------------------------

// A vector of the source may reach to its last sample, not behind it.
void cpu_gather_neon(uint8_t *dst, const uint8_t *src, int n, int step)
{
    int x = 0;

    if (step == 2)
        for (; x + 16 < n; x += 16)
            vst1q_u8(dst + x, vld2q_u8(src + 2 * (size_t)x).val[0]);
    else if (step == 4)
        for (; x + 16 < n; x += 16)
            vst1q_u8(dst + x, vld4q_u8(src + 4 * (size_t)x).val[0]);
    cpu_gather_c(dst + x, src + (size_t)x * (size_t)step, n - x, step);
}

void cpu_replicate_neon(uint8_t *dst, const uint8_t *src, int n, int times)
{
    if (times == 1)
        memcpy(dst, src, (size_t)n);
    for (int x = 0; times > 1 && x < n; x += 16, dst += 16 * times) {
        uint8x16_t v = vld1q_u8(src + x);

        if (times == 2)
            vst2q_u8(dst, ((uint8x16x2_t){{v, v}}));
        else if (times == 3)
            vst3q_u8(dst, ((uint8x16x3_t){{v, v, v}}));
        else
            vst4q_u8(dst, ((uint8x16x4_t){{v, v, v, v}}));
    }
}

// ---- upsampling -------------------------------------------------------------

// 3 near + far.
CPU_INLINE uint16x8_t weighed(const uint8_t *near, const uint8_t *far)
{
    return vmlal_u8(vmovl_u8(vld1_u8(far)), vld1_u8(near), vdup_n_u8(3));
}

// (v + bias) >> 2 for a bias of 1 or 2, the second of which is rounding.
CPU_INLINE uint8x8_t quarter(uint16x8_t v, int bias)
{
    return bias == 2 ? vrshrn_n_u16(v, 2)
                     : vshrn_n_u16(vaddq_u16(v, vdupq_n_u16(1)), 2);
}

void cpu_upsample_h2v1_neon(uint8_t *dst, const uint8_t *src, int n)
{
    for (int x = 0; x < n; x += 8) {
        uint8x8x2_t v = {{
            quarter(weighed(src + x, src + x - 1), 1),
            quarter(weighed(src + x, src + x + 1), 2),
        }};

        vst2_u8(dst + 2 * (size_t)x, v);
    }
}

CPU_INLINE void upsample_v(uint8_t *dst, const uint8_t *near,
                           const uint8_t *far, int n, int bias)
{
    for (int x = 0; x < n; x += 16) {
        uint8x8_t low = quarter(weighed(near + x, far + x), bias);
        uint8x8_t high = quarter(weighed(near + x + 8, far + x + 8), bias);

        vst1q_u8(dst + x, vcombine_u8(low, high));
    }
}

void cpu_upsample_h1v2_neon(uint8_t *dst, const uint8_t *near,
                            const uint8_t *far, int n, bool lower)
{
    if (lower)
        upsample_v(dst, near, far, n, 2);
    else
        upsample_v(dst, near, far, n, 1);
}

void cpu_upsample_h2v2_neon(uint8_t *dst, const uint8_t *near,
                            const uint8_t *far, int n)
{
    const uint16x8_t seven = vdupq_n_u16(7);

    for (int x = 0; x < n; x += 8) {
        uint16x8_t at = weighed(near + x, far + x);
        uint16x8_t left = weighed(near + x - 1, far + x - 1);
        uint16x8_t right = weighed(near + x + 1, far + x + 1);
        uint8x8x2_t v = {{
            vrshrn_n_u16(vmlaq_n_u16(left, at, 3), 4),
            vshrn_n_u16(vaddq_u16(vmlaq_n_u16(right, at, 3), seven), 4),
        }};

        vst2_u8(dst + 2 * (size_t)x, v);
    }
}

// ---- three rows to pixels ---------------------------------------------------

// round(c x / 2^16), exact: (c x + 2^15) >> 16 = ((2 c x >> 16) + 1) >> 1.
CPU_INLINE int16x8_t part(int16x8_t x, int16_t c)
{
    return vrshrq_n_s16(vqdmulhq_n_s16(x, c), 1);
}

// The same of two products, whose sum has less than 24 bits.
CPU_INLINE int16x4_t parts(int16x4_t b, int16x4_t r)
{
    return vrshrn_n_s32(vmlal_n_s16(vmull_n_s16(b, -22554), r, 18734), 16);
}

CPU_INLINE uint8x8_t added(uint8x8_t y, int16x8_t v)
{
    return vqmovun_s16(
        vreinterpretq_s16_u16(vaddw_u8(vreinterpretq_u16_s16(v), y)));
}

CPU_INLINE int16x8_t centered(uint8x8_t v)
{
    return vreinterpretq_s16_u16(vsubl_u8(v, vdup_n_u8(128)));
}

// Factors that 16 bits do not hold are those of color.c less 65536, or 2 x
// 65536, and b or r itself.
CPU_INLINE uint8x8x3_t convert(uint8x8_t y, uint8x8_t cb, uint8x8_t cr)
{
    int16x8_t b = centered(cb), r = centered(cr);
    int16x8_t g = vcombine_s16(parts(vget_low_s16(b), vget_low_s16(r)),
                               parts(vget_high_s16(b), vget_high_s16(r)));

    return (uint8x8x3_t){{
        added(y, vaddq_s16(r, part(r, 26345))),
        added(y, vsubq_s16(g, r)),
        added(y, vaddq_s16(vaddq_s16(b, b), part(b, -14942))),
    }};
}

void cpu_ycc_to_rgb_neon(uint8_t *dst, const uint8_t *y, const uint8_t *cb,
                         const uint8_t *cr, int w)
{
    for (int x = 0; x < w; x += 16) {
        uint8x8x3_t a = convert(vld1_u8(y + x), vld1_u8(cb + x),
                                vld1_u8(cr + x));
        uint8x8x3_t b = convert(vld1_u8(y + x + 8), vld1_u8(cb + x + 8),
                                vld1_u8(cr + x + 8));
        uint8x16x3_t v = {{
            vcombine_u8(a.val[0], b.val[0]),
            vcombine_u8(a.val[1], b.val[1]),
            vcombine_u8(a.val[2], b.val[2]),
        }};

        vst3q_u8(dst + 3 * (size_t)x, v);
    }
}

void cpu_join_rgb_neon(uint8_t *dst, const uint8_t *r, const uint8_t *g,
                       const uint8_t *b, int w)
{
    for (int x = 0; x < w; x += 16) {
        uint8x16x3_t v = {{vld1q_u8(r + x), vld1q_u8(g + x), vld1q_u8(b + x)}};

        vst3q_u8(dst + 3 * (size_t)x, v);
    }
}

// ---- packed pixels ----------------------------------------------------------

// k - round((255 - x) k / 255), as color.c does it.
CPU_INLINE uint8x8_t inked(uint8x8_t x, uint8x8_t k)
{
    uint16x8_t t = vmlal_u8(vdupq_n_u16(128), vmvn_u8(x), k);

    return vsub_u8(k, vshrn_n_u16(vsraq_n_u16(t, t, 8), 8));
}

// Works in place, too: bytes are read before they are overwritten.
void cpu_cmyk_to_rgb_neon(uint8_t *dst, const uint8_t *src, int w)
{
    for (int x = 0; x < w; x += 8) {
        uint8x8x4_t v = vld4_u8(src + 4 * (size_t)x);
        uint8x8x3_t rgb = {{
            inked(v.val[0], v.val[3]),
            inked(v.val[1], v.val[3]),
            inked(v.val[2], v.val[3]),
        }};

        vst3_u8(dst + 3 * (size_t)x, rgb);
    }
}

void cpu_rgb_to_gray_neon(uint8_t *dst, const uint8_t *src, int w)
{
    for (int x = 0; x < w; x += 8)
        vst1_u8(dst + x, vmovn_u16(cpu_luma_of(vld3_u8(src + 3 * (size_t)x))));
}

#endif
