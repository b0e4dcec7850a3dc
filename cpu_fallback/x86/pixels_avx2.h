// SPDX-License-Identifier: Apache-2.0
// Eight RGB pixels in a register of 32-bit numbers, for the AVX2 sisters of
// stage augment.
#ifndef CPU_PIXELS_AVX2_H
#define CPU_PIXELS_AVX2_H

#include <immintrin.h>

#include "cpu_fallback/augment/augment_kernels.h"

#define CPU_INLINE static inline __attribute__((always_inline))

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

#endif
