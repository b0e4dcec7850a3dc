// SPDX-License-Identifier: Apache-2.0
// As hue.c and hue_avx512.c say, eight pixels at a time.
#if defined(__x86_64__)

#include "cpu_fallback/x86/pixels_avx2.h"

struct hsv {
    __m256i h, s, v;
};

CPU_INLINE __m256i all(int x)
{
    return _mm256_set1_epi32(x);
}

CPU_INLINE __m256i times255(__m256i x)
{
    return _mm256_sub_epi32(_mm256_slli_epi32(x, 8), x);
}

// a where the mask is set, else b.
CPU_INLINE __m256i either(__m256i mask, __m256i a, __m256i b)
{
    return _mm256_blendv_epi8(b, a, mask);
}

CPU_INLINE __m256 divided(__m256i a, __m256i b)
{
    return _mm256_div_ps(_mm256_cvtepi32_ps(a), _mm256_cvtepi32_ps(b));
}

// Hue times 6 d, d = v - least.
CPU_INLINE __m256i sixths_of(__m256i r, __m256i g, __m256i b, __m256i v,
                             __m256i d, __m256i d6)
{
    __m256i d2 = _mm256_add_epi32(d, d), d4 = _mm256_add_epi32(d2, d2);
    __m256i n = either(_mm256_cmpeq_epi32(g, v),
                       _mm256_add_epi32(d2, _mm256_sub_epi32(b, r)),
                       _mm256_add_epi32(d4, _mm256_sub_epi32(r, g)));

    n = either(_mm256_cmpeq_epi32(r, v), _mm256_sub_epi32(g, b), n);
    return _mm256_add_epi32(n, _mm256_and_si256(_mm256_srai_epi32(n, 31), d6));
}

CPU_INLINE struct hsv to_hsv(__m256i r, __m256i g, __m256i b)
{
    const __m256i short_of = _mm256_setr_epi32((int)0xfffffffe, 0, 0x11000000,
                                               0x00000111, 0x222aaaaa,
                                               0x23232222, 0x00022222, 0);
    __m256i v = _mm256_max_epi32(r, _mm256_max_epi32(g, b));
    __m256i least = _mm256_min_epi32(r, _mm256_min_epi32(g, b));
    __m256i d = _mm256_sub_epi32(v, least), d2 = _mm256_add_epi32(d, d);
    __m256i d6 = _mm256_add_epi32(d2, _mm256_add_epi32(d2, d2));
    __m256i grey = _mm256_cmpeq_epi32(d, all(0));
    __m256 q = divided(times255(sixths_of(r, g, b, v, d, d6)),
                       either(grey, all(1), d6));
    __m256i h = _mm256_cvttps_epi32(q), bits, s;
    __m256i whole = _mm256_castps_si256(
        _mm256_cmp_ps(q, _mm256_cvtepi32_ps(h), _CMP_EQ_OQ));

    bits = _mm256_permutevar8x32_epi32(short_of, _mm256_srli_epi32(h, 5));
    bits = _mm256_srlv_epi32(bits, _mm256_and_si256(h, all(31)));
    bits = _mm256_and_si256(bits, all(1));
    h = _mm256_sub_epi32(h, _mm256_and_si256(bits, whole));
    s = _mm256_cvttps_epi32(divided(times255(d), either(grey, all(1), v)));
    return (struct hsv){_mm256_andnot_si256(grey, h), s, v};
}

// (x + 127) / 255, of products of two bytes.
CPU_INLINE __m256i over255(__m256i x)
{
    __m256i y = _mm256_add_epi32(x, all(127));
    __m256i z = _mm256_add_epi32(y, _mm256_srli_epi32(y, 8));

    return _mm256_srli_epi32(_mm256_add_epi32(z, all(1)), 8);
}

// The channel that is v in sextants v0 and v1, the ramp in r0 and r1.
CPU_INLINE __m256i channel(const __m256i *is, __m256i least, __m256i v, int v0,
                           int v1, __m256i ramp, int r0, int r1)
{
    return either(_mm256_or_si256(is[v0], is[v1]), v,
                  either(_mm256_or_si256(is[r0], is[r1]), ramp, least));
}

// Three bytes in each lane.
CPU_INLINE __m256i to_rgb(struct hsv p)
{
    __m256i h6 = _mm256_mullo_epi32(p.h, all(6));
    __m256i sextant =
        _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(h6, all(1)),
                                           _mm256_srli_epi32(h6, 8)),
                          8);
    __m256i part = _mm256_sub_epi32(h6, times255(sextant));
    __m256i odd = _mm256_slli_epi32(sextant, 31);
    __m256i ramp = either(_mm256_srai_epi32(odd, 31), part,
                          _mm256_sub_epi32(all(255), part));
    __m256i least = over255(
        _mm256_madd_epi16(p.v, _mm256_sub_epi32(all(255), p.s)));
    __m256i less = _mm256_add_epi32(
        _mm256_mullo_epi32(p.v, _mm256_madd_epi16(p.s, ramp)), all(32512));
    __m256i is[7], r, g, b;

    ramp = _mm256_sub_epi32(p.v,
                            _mm256_cvttps_epi32(divided(less, all(65025))));
    for (int i = 0; i < 7; i++)
        is[i] = _mm256_cmpeq_epi32(sextant, all(i));
    is[0] = _mm256_or_si256(is[0], is[6]);
    r = channel(is, least, p.v, 0, 5, ramp, 1, 4);
    g = channel(is, least, p.v, 1, 2, ramp, 0, 3);
    b = channel(is, least, p.v, 3, 4, ramp, 2, 5);
    return _mm256_or_si256(r, _mm256_or_si256(_mm256_slli_epi32(g, 8),
                                              _mm256_slli_epi32(b, 16)));
}

void cpu_hue_avx2(uint8_t *dst, const uint8_t *src, int w, int shift)
{
    for (int x = 0; x < w; x += 8, dst += 24, src += 24) {
        __m256i lanes = cpu_load_eight(src);
        struct hsv p = to_hsv(_mm256_and_si256(lanes, all(255)),
                              _mm256_and_si256(_mm256_srli_epi32(lanes, 8),
                                               all(255)),
                              _mm256_srli_epi32(lanes, 16));

        p.h = _mm256_and_si256(_mm256_add_epi32(p.h, all(shift)), all(255));
        cpu_put_eight(dst, to_rgb(p), w - x);
    }
}

#endif
