// SPDX-License-Identifier: Apache-2.0
// Computes what hue.c describes for eight pixels at a time. Quotients are whole
// or at least 1 / 65025 away from whole numbers, and their operands fit 24
// bits, so a float32 division that rounds right, and then truncation, is the
// integer division. Values that fit in a byte stay bytes.
#if defined(__AARCH64EL__)

#include "cpu_fallback/arm/pixels_neon.h"

struct hsv {
    uint8x8_t h, s, v;
};

struct quotient {
    uint32x4_t whole;
    uint32x4_t exact;  // mask: nothing was cut off
};

CPU_INLINE struct quotient divided(uint32x4_t a, uint32x4_t b)
{
    float32x4_t q = vdivq_f32(vcvtq_f32_u32(a), vcvtq_f32_u32(b));
    uint32x4_t whole = vcvtq_u32_f32(q);

    return (struct quotient){whole, vceqq_f32(q, vcvtq_f32_u32(whole))};
}

CPU_INLINE uint8x8_t narrow(uint32x4_t low, uint32x4_t high)
{
    return vmovn_u16(vcombine_u16(vmovn_u32(low), vmovn_u32(high)));
}

CPU_INLINE int16x8_t difference(uint8x8_t a, uint8x8_t b)
{
    return vreinterpretq_s16_u16(vsubl_u8(a, b));
}

// A mask of bytes as one of 16 bits each.
CPU_INLINE uint16x8_t wide_mask(uint8x8_t mask)
{
    return vreinterpretq_u16_s16(vmovl_s8(vreinterpret_s8_u8(mask)));
}

// Hue times 6 d, d = most - least.
CPU_INLINE uint16x8_t sixths_of(uint8x8x3_t p, uint8x8_t most, uint8x8_t d)
{
    uint8x8_t r = p.val[0], g = p.val[1], b = p.val[2];
    int16x8_t d2 = vreinterpretq_s16_u16(vshll_n_u8(d, 1));
    int16x8_t n = vbslq_s16(wide_mask(vceq_u8(g, most)),
                            vaddq_s16(d2, difference(b, r)),
                            vaddq_s16(vaddq_s16(d2, d2), difference(r, g)));
    int16x8_t d6 = vmulq_n_s16(d2, 3);

    n = vbslq_s16(wide_mask(vceq_u8(r, most)), difference(g, b), n);
    n = vaddq_s16(n, vandq_s16(vshrq_n_s16(n, 15), d6));
    return vreinterpretq_u16_s16(n);
}

// 255 n / d, exact: where it is whole.
CPU_INLINE uint8x8_t of_255(uint16x8_t n, uint16x8_t d, uint8x8_t *exact)
{
    struct quotient low = divided(vmull_n_u16(vget_low_u16(n), 255),
                                  vmovl_u16(vget_low_u16(d)));
    struct quotient high = divided(vmull_high_n_u16(n, 255), vmovl_high_u16(d));

    *exact = narrow(low.exact, high.exact);
    return narrow(low.whole, high.whole);
}

// (Of grey pixels all dividends are 0, and the divisors 1.)
CPU_INLINE struct hsv to_hsv(uint8x8x3_t p)
{
    // The hues whose exact quotients come out one less, a bit each.
    static const uint8_t falls_short[32] = {0xfe, 0xff, 0xff, 0xff, 0,    0,
                                            0,    0,    0,    0,    0,    0x11,
                                            0x11, 0x01, 0,    0,    0xaa, 0xaa,
                                            0x2a, 0x22, 0x22, 0x22, 0x23, 0x23,
                                            0x22, 0x22, 0x02};
    uint8x8_t v = vmax_u8(p.val[0], vmax_u8(p.val[1], p.val[2]));
    uint8x8_t d = vsub_u8(v, vmin_u8(p.val[0], vmin_u8(p.val[1], p.val[2])));
    uint16x8_t d6 = vmaxq_u16(vmull_u8(d, vdup_n_u8(6)), vdupq_n_u16(1));
    uint8x8_t whole, unused, bits, h = of_255(sixths_of(p, v, d), d6, &whole);
    uint8x8_t s = of_255(vmovl_u8(d), vmovl_u8(vmax_u8(v, vdup_n_u8(1))),
                         &unused);

    bits = vqtbl2_u8(vld1q_u8_x2(falls_short), vshr_n_u8(h, 3));
    bits = vtst_u8(bits, vshl_u8(vdup_n_u8(1),
                                 vreinterpret_s8_u8(vand_u8(h, vdup_n_u8(7)))));
    // (A mask is -1.)
    return (struct hsv){vadd_u8(h, vand_u8(bits, whole)), s, v};
}

// v - round(v s ramp / 255^2), halves down.
CPU_INLINE uint8x8_t between(struct hsv p, uint8x8_t ramp)
{
    const uint32x4_t half = vdupq_n_u32(32512), all = vdupq_n_u32(65025);
    uint16x8_t v = vmovl_u8(p.v), part = vmull_u8(p.s, ramp);
    uint32x4_t low = vmlal_u16(half, vget_low_u16(v), vget_low_u16(part));
    uint32x4_t high = vmlal_high_u16(half, v, part);

    return vsub_u8(p.v,
                   narrow(divided(low, all).whole, divided(high, all).whole));
}

// round(v (255 - s) / 255)
CPU_INLINE uint8x8_t least_of(struct hsv p)
{
    uint16x8_t x = vmlal_u8(vdupq_n_u16(127), p.v, vmvn_u8(p.s));

    return vshrn_n_u16(vaddq_u16(vsraq_n_u16(x, x, 8), vdupq_n_u16(1)), 8);
}

CPU_INLINE uint8x8x3_t to_rgb(struct hsv p)
{
    // By sextant, what each channel gets: 0, v; 8, the ramp; 16, the least.
    const uint8x8_t which[3] = {{0, 8, 16, 16, 8, 0, 0},
                                {8, 0, 0, 8, 16, 16, 8},
                                {16, 16, 8, 0, 0, 8, 16}};
    const uint8x8_t lanes = {0, 1, 2, 3, 4, 5, 6, 7};
    uint16x8_t h6 = vmull_u8(p.h, vdup_n_u8(6));
    uint8x8_t sextant =
        vshrn_n_u16(vaddq_u16(vsraq_n_u16(h6, h6, 8), vdupq_n_u16(1)), 8);
    uint8x8_t part = vmovn_u16(vmlsl_u8(h6, sextant, vdup_n_u8(255)));
    uint8x8_t ramp = vbsl_u8(vtst_u8(sextant, vdup_n_u8(1)), part,
                             vmvn_u8(part));
    uint8x16x2_t from = {{vcombine_u8(p.v, between(p, ramp)),
                          vcombine_u8(least_of(p), vdup_n_u8(0))}};
    uint8x8x3_t to;

    CPU_UNROLL for (int c = 0; c < 3; c++)
    {
        uint8x8_t at = vqtbl1_u8(vcombine_u8(which[c], which[c]), sextant);

        to.val[c] = vqtbl2_u8(from, vadd_u8(at, lanes));
    }
    return to;
}

void cpu_hue_neon(uint8_t *dst, const uint8_t *src, int w, int shift)
{
    const uint8x8_t by = vdup_n_u8((uint8_t)shift);

    for (int x = 0; x < w; x += 8, dst += 24, src += 24) {
        struct hsv p = to_hsv(vld3_u8(src));

        p.h = vadd_u8(p.h, by);
        vst3_u8(dst, to_rgb(p));
    }
}

#endif
