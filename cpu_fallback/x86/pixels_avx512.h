// SPDX-License-Identifier: Apache-2.0
// Sixteen RGB pixels in registers of 32-bit numbers, for the AVX-512 sisters of
// stage augment; the words of pixels_avx2.h for this width.
#ifndef CPU_PIXELS_AVX512_H
#define CPU_PIXELS_AVX512_H

#include <immintrin.h>

#define SISTER(name) name##_avx512
#include "cpu_fallback/augment/augment_kernels.h"

#define CPU_INLINE static inline __attribute__((always_inline))

#define OP(name) _mm512_##name
#define SI(name) _mm512_##name##_si512
#define VEC __m512i
#define FLT __m512
#define MASK __mmask16

enum { LANES = 16 };

struct rgb {
    VEC r, g, b, rb;
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

CPU_INLINE struct rgb load_rgb(const uint8_t *src, int n)
{
    const __mmask64 lowest = 0x1111111111111111ull, bytes = cpu_bytes_of(n);
    __m512i x = bytes == CPU_SIXTEEN ? _mm512_loadu_si512(src)
                                     : _mm512_maskz_loadu_epi8(bytes, src);

    return (struct rgb){
        .r = _mm512_maskz_permutexvar_epi8(lowest, cpu_spread(0), x),
        .g = _mm512_maskz_permutexvar_epi8(lowest, cpu_spread(1), x),
        .b = _mm512_maskz_permutexvar_epi8(lowest, cpu_spread(2), x),
        .rb = _mm512_maskz_permutexvar_epi8(
            lowest | lowest << 2,
            _mm512_or_si512(cpu_spread(0),
                            _mm512_slli_epi32(cpu_spread(2), 16)),
            x)};
}

// The three low bytes of each lane.
CPU_INLINE void put_lanes(uint8_t *dst, __m512i x, int n)
{
    const __mmask64 bytes = cpu_bytes_of(n);
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

// sum + the products of 16-bit pairs.
CPU_INLINE VEC dot(VEC sum, VEC a, VEC b)
{
    return _mm512_dpwssd_epi32(sum, a, b);
}

// ---- Truths -----------------------------------------------------------------

CPU_INLINE MASK less(VEC a, VEC b)
{
    return _mm512_cmplt_epi32_mask(a, b);
}

CPU_INLINE MASK equal(VEC a, VEC b)
{
    return _mm512_cmpeq_epi32_mask(a, b);
}

CPU_INLINE MASK differ(FLT a, FLT b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_OQ);
}

CPU_INLINE MASK negative(VEC x)
{
    return _mm512_movepi32_mask(x);
}

CPU_INLINE MASK both(MASK a, MASK b)
{
    return a & b;
}

CPU_INLINE MASK either(MASK a, MASK b)
{
    return a | b;
}

// a and not b.
CPU_INLINE MASK without(MASK a, MASK b)
{
    return (MASK)(a & ~b);
}

CPU_INLINE VEC choose(MASK m, VEC yes, VEC no)
{
    return _mm512_mask_mov_epi32(no, m, yes);
}

// Zero elsewhere.
CPU_INLINE VEC only(MASK m, VEC x)
{
    return _mm512_maskz_mov_epi32(m, x);
}

#include "cpu_fallback/x86/pixels_simd.h"

#endif
