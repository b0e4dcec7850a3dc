// SPDX-License-Identifier: Apache-2.0
// AVX2. A weight is two 16-bit halves, w = hi * 2^11 + lo with 0 <= lo < 2^11;
// vpmaddwd sums two taps of one half per 32-bit lane. |w| < 2^24 keeps hi in
// 16 bits, and recombining modulo 2^32 is exact.
//
// Private to resample_avx2.c (horizontal) and resample_v_avx2.c (vertical).
#ifndef CPU_RESAMPLE_AVX2_H
#define CPU_RESAMPLE_AVX2_H

#include <immintrin.h>

#include "cpu_fallback/cpu_kernels.h"

#define HALF_BITS 11

struct sums {
    __m256i hi, lo;
};

// Sums without the rounding half.
CPU_INLINE __m256i combine(struct sums s)
{
    return _mm256_add_epi32(_mm256_slli_epi32(s.hi, HALF_BITS), s.lo);
}

CPU_INLINE __m256i round_shift(__m256i sum)
{
    const __m256i half = _mm256_set1_epi32(CPU_WEIGHT_HALF);
    return _mm256_srai_epi32(_mm256_add_epi32(sum, half), CPU_WEIGHT_BITS);
}

#endif
