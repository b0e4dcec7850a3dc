// SPDX-License-Identifier: Apache-2.0
// Shared by color_avx2.c and color_avx512.c, for registers of either width.
// Each of them defines VEC, the register; SISTER(name), name_avx2 or
// name_avx512; OP(name), the intrinsic _mm256_name or _mm512_name, and SI(name)
// of those without a type in their name; load(), put(), widen(), put_pixels();
// and LAST(), the pixels of a step behind the whole ones.
//
// Sums of samples fit 16 bits: 4 * 4 * 255 + 8 at most. The colour matrix is
// made of the high halves of 16-bit products; what they lack is exact:
//
//   (c x + 2^15) >> 16 = (((c 2x) >> 16) + 1) >> 1   for 16-bit c and 2x
//
// since rounding down twice is rounding down once. A whole multiple of x is
// taken out of c first, so that it fits.
#ifndef CPU_COLOR_SIMD_H
#define CPU_COLOR_SIMD_H

#define BYTES ((int)sizeof(VEC))

// ---- fancy upsampling ------------------------------------------------------

// Bytes: even, odd, even, ..
CPU_INLINE VEC weave(VEC even, VEC odd)
{
    return SI(or)(even, OP(slli_epi16)(odd, 8));
}

CPU_INLINE VEC times3(VEC v)
{
    return OP(add_epi16)(v, OP(add_epi16)(v, v));
}

void SISTER(cpu_upsample_h2v1)(uint8_t *dst, const uint8_t *src, int n)
{
    const VEC one = OP(set1_epi16)(1), two = OP(set1_epi16)(2);

    for (int x = 0; x < n; x += BYTES / 2) {
        VEC at = times3(widen(src + x));
        VEC even = OP(add_epi16)(widen(src + x - 1), one);
        VEC odd = OP(add_epi16)(widen(src + x + 1), two);

        even = OP(srli_epi16)(OP(add_epi16)(at, even), 2);
        odd = OP(srli_epi16)(OP(add_epi16)(at, odd), 2);
        put(dst + 2 * (size_t)x, weave(even, odd));
    }
}

void SISTER(cpu_upsample_h1v2)(uint8_t *dst, const uint8_t *near,
                               const uint8_t *far, int n, bool lower)
{
    const VEC weights = OP(set1_epi16)(0x0103);
    const VEC bias = OP(set1_epi16)(lower ? 2 : 1);

    for (int x = 0; x < n; x += BYTES) {
        VEC a = load(near + x), b = load(far + x);
        VEC lo = OP(maddubs_epi16)(OP(unpacklo_epi8)(a, b), weights);
        VEC hi = OP(maddubs_epi16)(OP(unpackhi_epi8)(a, b), weights);

        lo = OP(srli_epi16)(OP(add_epi16)(lo, bias), 2);
        hi = OP(srli_epi16)(OP(add_epi16)(hi, bias), 2);
        put(dst + x, OP(packus_epi16)(lo, hi));
    }
}

CPU_INLINE VEC column(const uint8_t *near, const uint8_t *far, int x)
{
    return OP(add_epi16)(times3(widen(near + x)), widen(far + x));
}

void SISTER(cpu_upsample_h2v2)(uint8_t *dst, const uint8_t *near,
                               const uint8_t *far, int n)
{
    const VEC seven = OP(set1_epi16)(7), eight = OP(set1_epi16)(8);

    for (int x = 0; x < n; x += BYTES / 2) {
        VEC at = times3(column(near, far, x));
        VEC even = OP(add_epi16)(column(near, far, x - 1), eight);
        VEC odd = OP(add_epi16)(column(near, far, x + 1), seven);

        even = OP(srli_epi16)(OP(add_epi16)(at, even), 4);
        odd = OP(srli_epi16)(OP(add_epi16)(at, odd), 4);
        put(dst + 2 * (size_t)x, weave(even, odd));
    }
}

// ---- YCbCr -----------------------------------------------------------------

struct rgb16 {
    VEC r, g, b;
};

// ((c x + 2^15) >> 16); x2 = 2x.
CPU_INLINE VEC product(VEC x2, int16_t c)
{
    VEC high = OP(mulhi_epi16)(x2, OP(set1_epi16)(c));

    return OP(srai_epi16)(OP(add_epi16)(high, OP(set1_epi16)(1)), 1);
}

// BYTES / 2 pixels, of chroma what it is above 128.
CPU_INLINE struct rgb16 convert(VEC y, VEC b, VEC r)
{
    // 0.34414 and 0.71414 - 1 with 16 fraction bits; the rest is -r.
    const VEC weights = OP(set1_epi32)((18734 << 16) | (-22554 & 0xffff));
    const VEC half = OP(set1_epi32)(32768);
    VEC r2 = OP(add_epi16)(r, r), b2 = OP(add_epi16)(b, b);
    VEC lo = OP(madd_epi16)(OP(unpacklo_epi16)(b, r), weights);
    VEC hi = OP(madd_epi16)(OP(unpackhi_epi16)(b, r), weights);
    struct rgb16 out;

    lo = OP(srai_epi32)(OP(add_epi32)(lo, half), 16);
    hi = OP(srai_epi32)(OP(add_epi32)(hi, half), 16);
    // 91881 = 65536 + 26345, 116130 = 131072 - 14942
    out.r = OP(add_epi16)(OP(add_epi16)(y, r), product(r2, 26345));
    out.g = OP(add_epi16)(OP(sub_epi16)(y, r), OP(packs_epi32)(lo, hi));
    out.b = OP(add_epi16)(OP(add_epi16)(y, b2), product(b2, -14942));
    return out;
}

// n pixels, at most BYTES.
CPU_INLINE void convert_pixels(uint8_t *dst, const uint8_t *y,
                               const uint8_t *cb, const uint8_t *cr, int n)
{
    const VEC zero = OP(set1_epi16)(0);
    const VEC mid = OP(set1_epi16)(128);
    VEC vy = load(y), vb = load(cb), vr = load(cr);
    // Unpacking and packing both work by lanes: the order comes back.
    struct rgb16 lo = convert(OP(unpacklo_epi8)(vy, zero),
                              OP(sub_epi16)(OP(unpacklo_epi8)(vb, zero), mid),
                              OP(sub_epi16)(OP(unpacklo_epi8)(vr, zero), mid));
    struct rgb16 hi = convert(OP(unpackhi_epi8)(vy, zero),
                              OP(sub_epi16)(OP(unpackhi_epi8)(vb, zero), mid),
                              OP(sub_epi16)(OP(unpackhi_epi8)(vr, zero), mid));

    put_pixels(dst, OP(packus_epi16)(lo.r, hi.r), OP(packus_epi16)(lo.g, hi.g),
               OP(packus_epi16)(lo.b, hi.b), n);
}

void SISTER(cpu_ycc_to_rgb)(uint8_t *dst, const uint8_t *y, const uint8_t *cb,
                            const uint8_t *cr, int w)
{
    int x = 0;

    for (; x + BYTES <= w; x += BYTES)
        convert_pixels(dst + 3 * (size_t)x, y + x, cb + x, cr + x, BYTES);
    for (; x < w; x += LAST(w - x))
        convert_pixels(dst + 3 * (size_t)x, y + x, cb + x, cr + x, LAST(w - x));
}

#endif
