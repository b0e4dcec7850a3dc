// SPDX-License-Identifier: Apache-2.0
// As hue.c says. Quotients are whole or at least 1 / 65025 away from whole
// numbers, and their operands fit 24 bits, so a float32 division that rounds
// right, and then truncation, is the integer division.
#if defined(__x86_64__)

#include "cpu_fallback/x86/pixels_avx512.h"

CPU_INLINE __m512i times255(__m512i x)
{
    return _mm512_sub_epi32(_mm512_slli_epi32(x, 8), x);
}

CPU_INLINE __m512 divided(__m512i a, __m512i b)
{
    return _mm512_div_ps(_mm512_cvtepi32_ps(a), _mm512_cvtepi32_ps(b));
}

struct hsv {
    __m512i h, s, v;
};

// Hue times 6 d, d = v - least.
CPU_INLINE __m512i sixths_of(struct cpu_rgb p, __m512i v, __m512i d, __m512i d6)
{
    __mmask16 r = _mm512_cmpeq_epi32_mask(p.r, v);
    __mmask16 g = _mm512_cmpeq_epi32_mask(p.g, v) & (__mmask16)~r;
    __m512i d2 = _mm512_add_epi32(d, d);
    __m512i from = _mm512_add_epi32(d2, d2), n = _mm512_sub_epi32(p.r, p.g);

    from = _mm512_mask_mov_epi32(from, g, d2);
    from = _mm512_maskz_mov_epi32((__mmask16)~r, from);
    n = _mm512_mask_sub_epi32(n, g, p.b, p.r);
    n = _mm512_mask_sub_epi32(n, r, p.g, p.b);
    n = _mm512_add_epi32(n, from);
    return _mm512_mask_add_epi32(n, _mm512_movepi32_mask(n), n, d6);
}

CPU_INLINE struct hsv to_hsv(struct cpu_rgb p)
{
    const __m512i short_of = _mm512_setr_epi32((int)0xfffffffe, 0, 0x11000000,
                                               0x00000111, 0x222aaaaa,
                                               0x23232222, 0x00022222, 0, 0, 0,
                                               0, 0, 0, 0, 0, 0);
    const __m512i one = _mm512_set1_epi32(1), low5 = _mm512_set1_epi32(31);
    __m512i v = _mm512_max_epi32(p.r, _mm512_max_epi32(p.g, p.b));
    __m512i d =
        _mm512_sub_epi32(v, _mm512_min_epi32(p.r, _mm512_min_epi32(p.g, p.b)));
    __mmask16 grey = _mm512_testn_epi32_mask(d, d);
    __m512i d2 = _mm512_add_epi32(d, d);
    __m512i d6 = _mm512_add_epi32(d2, _mm512_add_epi32(d2, d2));
    __m512 q = divided(times255(sixths_of(p, v, d, d6)),
                       _mm512_mask_mov_epi32(d6, grey, one));
    __m512i h = _mm512_cvttps_epi32(q), bits, s;
    __mmask16 whole = _mm512_cmp_ps_mask(q, _mm512_cvtepi32_ps(h), _CMP_EQ_OQ);

    bits = _mm512_permutexvar_epi32(_mm512_srli_epi32(h, 5), short_of);
    bits = _mm512_srlv_epi32(bits, _mm512_and_si512(h, low5));
    h = _mm512_mask_sub_epi32(h, whole, h, _mm512_and_si512(bits, one));
    s = _mm512_cvttps_epi32(
        divided(times255(d), _mm512_mask_mov_epi32(v, grey, one)));
    return (struct hsv){_mm512_maskz_mov_epi32((__mmask16)~grey, h), s, v};
}

// (x + 127) / 255, of products of two bytes.
CPU_INLINE __m512i over255(__m512i x)
{
    __m512i y = _mm512_add_epi32(x, _mm512_set1_epi32(127));
    __m512i z = _mm512_add_epi32(y, _mm512_srli_epi32(y, 8));

    return _mm512_srli_epi32(_mm512_add_epi32(z, _mm512_set1_epi32(1)), 8);
}

// A channel: v in some sextants, the ramp in others, else the least.
CPU_INLINE __m512i channel(__m512i least, __m512i v, __mmask16 is_v,
                           __m512i ramp, __mmask16 is_ramp)
{
    return _mm512_mask_mov_epi32(_mm512_mask_mov_epi32(least, is_v, v), is_ramp,
                                 ramp);
}

CPU_INLINE struct cpu_rgb to_rgb(struct hsv p)
{
    const __m512i c255 = _mm512_set1_epi32(255), one = _mm512_set1_epi32(1);
    __m512i h6 = _mm512_mullo_epi32(p.h, _mm512_set1_epi32(6));
    __m512i sextant = _mm512_srli_epi32(
        _mm512_add_epi32(_mm512_add_epi32(h6, one), _mm512_srli_epi32(h6, 8)),
        8);
    __m512i part = _mm512_sub_epi32(h6, times255(sextant));
    __m512i ramp = _mm512_mask_mov_epi32(_mm512_sub_epi32(c255, part),
                                         _mm512_test_epi32_mask(sextant, one),
                                         part);
    __m512i least = over255(
        _mm512_madd_epi16(p.v, _mm512_sub_epi32(c255, p.s)));
    __m512i less =
        _mm512_add_epi32(_mm512_mullo_epi32(p.v, _mm512_madd_epi16(p.s, ramp)),
                         _mm512_set1_epi32(32512));
    __m512i between = _mm512_sub_epi32(
        p.v, _mm512_cvttps_epi32(divided(less, _mm512_set1_epi32(65025))));
    __mmask16 is[7];

    for (int i = 0; i < 7; i++)
        is[i] = _mm512_cmpeq_epi32_mask(sextant, _mm512_set1_epi32(i));
    is[0] |= is[6];
    return (struct cpu_rgb){
        channel(least, p.v, is[0] | is[5], between, is[1] | is[4]),
        channel(least, p.v, is[1] | is[2], between, is[0] | is[3]),
        channel(least, p.v, is[3] | is[4], between, is[2] | is[5])};
}

void cpu_hue_avx512(uint8_t *dst, const uint8_t *src, int w, int shift)
{
    const __m512i by = _mm512_set1_epi32(shift), c255 = _mm512_set1_epi32(255);

    for (int x = 0; x < w; x += 16, dst += 48, src += 48) {
        __mmask64 bytes = cpu_bytes_of(w - x);
        struct hsv p = to_hsv(cpu_load_rgb(src, bytes));

        p.h = _mm512_and_si512(_mm512_add_epi32(p.h, by), c255);
        cpu_put_rgb(dst, to_rgb(p), bytes);
    }
}

#endif
