// SPDX-License-Identifier: Apache-2.0
#if defined(__x86_64__)

#include "cpu_fallback/x86/pixels_avx2.h"

CPU_INLINE VEC words_of(const int table[8], VEC at)
{
    return _mm256_permutevar8x32_epi32(
        _mm256_loadu_si256((const VEC *)(const void *)table), at);
}

#include "cpu_fallback/x86/hue_simd.h"

#endif
