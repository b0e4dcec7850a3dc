// SPDX-License-Identifier: Apache-2.0
// Eight RGB pixels in registers of 32-bit numbers, for the AVX2 sisters of
// stage augment; words that texts for registers of either width use (*_simd.h).
#ifndef CPU_PIXELS_AVX2_H
#define CPU_PIXELS_AVX2_H

#include <immintrin.h>

#define SISTER(name) name##_avx2
#include "cpu_fallback/augment/augment_kernels.h"

#define CPU_INLINE static inline __attribute__((always_inline))

// The intrinsics of this width, those without a type in their name, registers
// of LANES 32-bit numbers, of floats, and of one truth a lane.
#define OP(name) _mm256_##name
#define SI(name) _mm256_##name##_si256
#define VEC __m256i
#define FLT __m256
#define MASK __m256i

enum { LANES = 8 };

struct rgb {
    VEC r, g, b;
    VEC rb;  // red and blue with 16 bits each, of what was loaded
};

CPU_INLINE __m256i cpu_load_eight(const uint8_t *src)
{
    const __m128i at = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9,
                                     10, 11, -1);
    __m128i low = _mm_loadu_si128((const __m128i *)src);
    __m128i high = _mm_loadu_si128((const __m128i *)(src + 12));

    return _mm256_set_m128i(_mm_shuffle_epi8(high, at),
                            _mm_shuffle_epi8(low, at));
}

// The three low bytes of n <= 8 lanes; of more they are eight.
CPU_INLINE void cpu_put_eight(uint8_t *dst, __m256i x, int n)
{
    const __m128i at = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1,
                                     -1, -1, -1);
    __m128i low = _mm_shuffle_epi8(_mm256_castsi256_si128(x), at);
    __m128i high = _mm_shuffle_epi8(_mm256_extracti128_si256(x, 1), at);
    __m128i first = _mm_or_si128(low, _mm_slli_si128(high, 12));
    __m128i rest = _mm_srli_si128(high, 4);
    uint8_t bytes[32];

    if (n >= 8) {
        _mm_storeu_si128((__m128i *)dst, first);
        _mm_storel_epi64((__m128i *)(dst + 16), rest);
        return;
    }
    _mm_storeu_si128((__m128i *)bytes, first);
    _mm_storeu_si128((__m128i *)(bytes + 16), rest);
    memcpy(dst, bytes, (size_t)(3 * n));
}

CPU_INLINE struct rgb load_rgb(const uint8_t *src, int n)
{
    VEC lanes = cpu_load_eight(src);
    VEC rb = _mm256_and_si256(lanes, _mm256_set1_epi32(0xff00ff));

    (void)n;
    return (struct rgb){.r = _mm256_and_si256(rb, _mm256_set1_epi32(255)),
                        .g = _mm256_and_si256(_mm256_srli_epi32(lanes, 8),
                                              _mm256_set1_epi32(255)),
                        .b = _mm256_srli_epi32(rb, 16),
                        .rb = rb};
}

CPU_INLINE void put_lanes(uint8_t *dst, VEC x, int n)
{
    cpu_put_eight(dst, x, n);
}

// sum + the products of 16-bit pairs.
CPU_INLINE VEC dot(VEC sum, VEC a, VEC b)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}

// ---- Truths -----------------------------------------------------------------

CPU_INLINE MASK less(VEC a, VEC b)
{
    return _mm256_cmpgt_epi32(b, a);
}

CPU_INLINE MASK equal(VEC a, VEC b)
{
    return _mm256_cmpeq_epi32(a, b);
}

CPU_INLINE MASK truth(FLT x)
{
    return _mm256_castps_si256(x);
}

CPU_INLINE MASK differ(FLT a, FLT b)
{
    return truth(_mm256_cmp_ps(a, b, _CMP_NEQ_OQ));
}

CPU_INLINE MASK negative(VEC x)
{
    return _mm256_srai_epi32(x, 31);
}

CPU_INLINE MASK both(MASK a, MASK b)
{
    return _mm256_and_si256(a, b);
}

CPU_INLINE MASK either(MASK a, MASK b)
{
    return _mm256_or_si256(a, b);
}

// a and not b.
CPU_INLINE MASK without(MASK a, MASK b)
{
    return _mm256_andnot_si256(b, a);
}

CPU_INLINE VEC choose(MASK m, VEC yes, VEC no)
{
    return _mm256_blendv_epi8(no, yes, m);
}

// Zero elsewhere.
CPU_INLINE VEC only(MASK m, VEC x)
{
    return _mm256_and_si256(m, x);
}

#include "cpu_fallback/x86/pixels_simd.h"

#endif
