// SPDX-License-Identifier: Apache-2.0
// Shared by pixels_avx2.h and pixels_avx512.h, in whose words it is written.
#ifndef CPU_PIXELS_SIMD_H
#define CPU_PIXELS_SIMD_H

CPU_INLINE VEC all(int x)
{
    return OP(set1_epi32)(x);
}

// Channels that are 0 .. 255.
CPU_INLINE void put_rgb(uint8_t *dst, struct rgb p, int n)
{
    VEC gb = SI(or)(OP(slli_epi32)(p.g, 8), OP(slli_epi32)(p.b, 16));

    put_lanes(dst, SI(or)(p.r, gb), n);
}

// Computes cpu_luma() of loaded pixels by products of 16-bit pairs; 38470 = 2 *
// 19235.
CPU_INLINE VEC luma_of(struct rgb p)
{
    VEC sum = dot(all(32768), p.rb, all(19595 | 7471 << 16));

    sum = dot(sum, OP(add_epi32)(p.g, p.g), all(19235));
    return OP(srli_epi32)(sum, 16);
}

// Computes cpu_blend().
CPU_INLINE VEC blend_of(VEC a, VEC b, FLT factor)
{
    FLT x = OP(
        add_ps)(OP(cvtepi32_ps)(a),
                OP(mul_ps)(factor, OP(cvtepi32_ps)(OP(sub_epi32)(b, a))));

    x = OP(min_ps)(OP(max_ps)(x, OP(setzero_ps)()), OP(set1_ps)(255));
    return OP(cvttps_epi32)(x);
}

#endif
