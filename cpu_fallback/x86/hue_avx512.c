// SPDX-License-Identifier: Apache-2.0
#if defined(__x86_64__)

#include "cpu_fallback/x86/pixels_avx512.h"

CPU_INLINE VEC words_of(const int table[8], VEC at)
{
    return _mm512_permutexvar_epi32(at,
                                    _mm512_castsi256_si512(_mm256_loadu_si256(
                                        (const __m256i *)(const void *)table)));
}

#include "cpu_fallback/x86/hue_simd.h"

#endif
