// SPDX-License-Identifier: Apache-2.0
#if defined(__x86_64__)

#define CPU_TONE_BY_HAND  // below, and table_avx2.c
#define SISTER(name) name##_avx2
#include "cpu_fallback/augment/tone.c"
#include "cpu_fallback/x86/pixels_avx2.h"

// Computes cpu_luma() by products of 16-bit pairs: 38470 = 2 * 19235.
CPU_INLINE __m256i luma_of(__m256i lanes)
{
    const __m256i rg = _mm256_set1_epi32((int)0x80018000);
    const __m256i gb = _mm256_set1_epi32((int)0x80028001);
    const __m256i base = _mm256_setr_epi32(0, 0x04040404, 0x08080808,
                                           0x0c0c0c0c, 0, 0x04040404,
                                           0x08080808, 0x0c0c0c0c);
    __m256i sum = _mm256_set1_epi32(32768);

    sum = _mm256_add_epi32(
        sum,
        _mm256_madd_epi16(_mm256_shuffle_epi8(lanes, _mm256_add_epi8(base, rg)),
                          _mm256_set1_epi32(19595 | 19235 << 16)));
    sum = _mm256_add_epi32(
        sum,
        _mm256_madd_epi16(_mm256_shuffle_epi8(lanes, _mm256_add_epi8(base, gb)),
                          _mm256_set1_epi32(19235 | 7471 << 16)));
    return _mm256_srli_epi32(sum, 16);
}

// Computes cpu_blend().
CPU_INLINE __m256i blend_of(__m256i a, __m256i b, __m256 factor)
{
    __m256 x = _mm256_add_ps(
        _mm256_cvtepi32_ps(a),
        _mm256_mul_ps(factor, _mm256_cvtepi32_ps(_mm256_sub_epi32(b, a))));

    x = _mm256_min_ps(_mm256_max_ps(x, _mm256_setzero_ps()),
                      _mm256_set1_ps(255));
    return _mm256_cvttps_epi32(x);
}

void cpu_mix_luma_avx2(uint8_t *dst, const uint8_t *src, int w, float factor)
{
    const __m256i byte = _mm256_set1_epi32(255);
    const __m256 f = _mm256_set1_ps(factor);

    for (int x = 0; x < w; x += 8, dst += 24, src += 24) {
        __m256i p = cpu_load_eight(src), luma = luma_of(p);
        __m256i r = blend_of(luma, _mm256_and_si256(p, byte), f);
        __m256i g =
            blend_of(luma, _mm256_and_si256(_mm256_srli_epi32(p, 8), byte), f);
        __m256i b = blend_of(luma, _mm256_srli_epi32(p, 16), f);

        r = _mm256_or_si256(r, _mm256_slli_epi32(g, 8));
        cpu_put_eight(dst, _mm256_or_si256(r, _mm256_slli_epi32(b, 16)), w - x);
    }
}

#endif
