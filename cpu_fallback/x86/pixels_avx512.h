// SPDX-License-Identifier: Apache-2.0
// Sixteen RGB pixels in registers of 32-bit numbers, for the AVX-512 sisters of
// stage augment.
#ifndef CPU_PIXELS_AVX512_H
#define CPU_PIXELS_AVX512_H

#include <immintrin.h>

#include "cpu_fallback/augment/augment_kernels.h"

#define CPU_INLINE static inline __attribute__((always_inline))

struct cpu_rgb {
    __m512i r, g, b;
};

// All bytes of sixteen pixels. A mask that is not known to be that costs more
// than the pixels (AMD Zen 4), so whole vectors are loaded and stored without
// one.
#define CPU_SIXTEEN 0xffffffffffffull

// The mask of three bytes for each of n <= 16 pixels.
CPU_INLINE __mmask64 cpu_bytes_of(int n)
{
    return n >= 16 ? CPU_SIXTEEN : (1ull << 3 * n) - 1;
}

// Byte c of each triple to the lowest byte of a lane.
CPU_INLINE __m512i cpu_spread(int c)
{
    const __m512i first = _mm512_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21, 24, 27,
                                            30, 33, 36, 39, 42, 45);

    return _mm512_add_epi32(first, _mm512_set1_epi32(c));
}

CPU_INLINE struct cpu_rgb cpu_load_rgb(const uint8_t *src, __mmask64 bytes)
{
    const __mmask64 lowest = 0x1111111111111111ull;
    __m512i x = bytes == CPU_SIXTEEN ? _mm512_loadu_si512(src)
                                     : _mm512_maskz_loadu_epi8(bytes, src);

    return (struct cpu_rgb){
        _mm512_maskz_permutexvar_epi8(lowest, cpu_spread(0), x),
        _mm512_maskz_permutexvar_epi8(lowest, cpu_spread(1), x),
        _mm512_maskz_permutexvar_epi8(lowest, cpu_spread(2), x)};
}

// The three low bytes of each lane.
CPU_INLINE void cpu_put_lanes(uint8_t *dst, __m512i x, __mmask64 bytes)
{
    const __m512i at = _mm512_setr_epi32(0x04020100, 0x09080605, 0x0e0d0c0a,
                                         0x14121110, 0x19181615, 0x1e1d1c1a,
                                         0x24222120, 0x29282625, 0x2e2d2c2a,
                                         0x34323130, 0x39383635, 0x3e3d3c3a, 0,
                                         0, 0, 0);

    x = _mm512_permutexvar_epi8(at, x);
    if (bytes == CPU_SIXTEEN) {
        _mm256_storeu_si256((__m256i *)dst, _mm512_castsi512_si256(x));
        _mm_storeu_si128((__m128i *)(dst + 32),
                         _mm512_extracti32x4_epi32(x, 2));
    } else {
        _mm512_mask_storeu_epi8(dst, bytes, x);
    }
}

// Channels that are 0 .. 255.
CPU_INLINE void cpu_put_rgb(uint8_t *dst, struct cpu_rgb p, __mmask64 bytes)
{
    __m512i gb = _mm512_or_si512(_mm512_slli_epi32(p.g, 8),
                                 _mm512_slli_epi32(p.b, 16));

    cpu_put_lanes(dst, _mm512_or_si512(p.r, gb), bytes);
}

// Computes cpu_luma() by products of 16-bit pairs: 38470 = 2 * 19235.
CPU_INLINE __m512i cpu_luma_of(struct cpu_rgb p)
{
    __m512i rg = _mm512_or_si512(p.r, _mm512_slli_epi32(p.g, 16));
    __m512i gb = _mm512_or_si512(p.g, _mm512_slli_epi32(p.b, 16));
    __m512i sum = _mm512_set1_epi32(32768);

    sum = _mm512_dpwssd_epi32(sum, rg, _mm512_set1_epi32(19595 | 19235 << 16));
    sum = _mm512_dpwssd_epi32(sum, gb, _mm512_set1_epi32(19235 | 7471 << 16));
    return _mm512_srli_epi32(sum, 16);
}

// Computes cpu_blend().
CPU_INLINE __m512i cpu_blend_of(__m512i a, __m512i b, __m512 factor)
{
    __m512 x = _mm512_add_ps(
        _mm512_cvtepi32_ps(a),
        _mm512_mul_ps(factor, _mm512_cvtepi32_ps(_mm512_sub_epi32(b, a))));

    x = _mm512_min_ps(_mm512_max_ps(x, _mm512_setzero_ps()),
                      _mm512_set1_ps(255));
    return _mm512_cvttps_epi32(x);
}

#endif
