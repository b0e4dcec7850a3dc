// SPDX-License-Identifier: Apache-2.0
// AVX-512 VBMI + VNNI. A weight is three signed digits to the base 256,
// w = (d2 << 16) + (d1 << 8) + d0 with -128 <= d < 128; vpdpbusd sums four
// taps of one digit per 32-bit lane, exactly, modulo 2^32. Weights beyond
// three digits (2^23, twice what any filter makes) go to the AVX2 sister.
//
// Private to resample_avx512.c (horizontal) and resample_v_avx512.c (vertical).
#ifndef CPU_RESAMPLE_AVX512_H
#define CPU_RESAMPLE_AVX512_H

#include <immintrin.h>

#include "cpu_fallback/cpu_kernels.h"

#define TAPS 4  // per lane and vpdpbusd

// Four weights -> 32-bit words: four d0, four d1, four d2, and four bytes
// that are 0 if three digits were enough.
// Adding 128 to every digit position lets each digit borrow from the next;
// taking 128 off again inside its byte leaves the digits balanced.
CPU_INLINE __m128i digits_of(__m128i w)
{
    const __m128i bias = _mm_set1_epi32(0x808080);
    const __m128i by_digit = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10,
                                           14, 3, 7, 11, 15);
    w = _mm_xor_si128(_mm_add_epi32(w, bias), bias);
    return _mm_shuffle_epi8(w, by_digit);
}

struct sums {
    __m512i d0, d1, d2;
};

CPU_INLINE __m512i combine(__m512i s0, __m512i s1, __m512i s2)
{
    __m512i s = _mm512_add_epi32(_mm512_slli_epi32(s2, 8), s1);
    return _mm512_add_epi32(_mm512_slli_epi32(s, 8), s0);
}

#endif
