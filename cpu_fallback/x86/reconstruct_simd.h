// SPDX-License-Identifier: Apache-2.0
// Shared by reconstruct_avx2.c and reconstruct_avx512.c: the passes of the
// inverse DCT, for registers of either width. Each of them defines VEC, the
// register; OP(name), the intrinsic _mm256_name or _mm512_name; and dot() and
// dots(). reconstruct.c tells where the algorithm comes from.
//
// A register of pairs holds two inputs of a pass in the 16-bit halves of each
// 32 bits, for as many columns (or rows) as there is room for. So two products
// and their sum are one instruction, and the two sums of inputs that the odd
// part begins with are one addition of pairs. Every 32-bit sum wraps, as in C;
// their order does not matter.
#ifndef CPU_RECONSTRUCT_SIMD_H
#define CPU_RECONSTRUCT_SIMD_H

#include "cpu_fallback/pixel/reconstruct.h"

// The inputs of a pass: the first of a pair is the low half.
struct pairs {
    VEC p04, p26, p71, p35;
};

CPU_INLINE VEC weights(int low, int high)
{
    return OP(set1_epi32)((int)((uint32_t)high << 16 | (low & 0xffff)));
}

// Computes all 8 outputs with 32 bits, rounded but not yet shifted.
CPU_INLINE void pass(VEC out[8], struct pairs in, int shift)
{
    const VEC one = weights(0, 1 << CONST_BITS);
    const VEC half = OP(set1_epi32)(1 << (shift - 1));
    VEC even[4], odd[4], first, sums, s3, s4;

    // Input 0 beside input 4, in the high half; what is in the low one weighs
    // nothing. These sums have 16 bits.
    first = OP(slli_epi32)(in.p04, 16);
    dots(&even[0], &even[3], dot(half, OP(add_epi16)(first, in.p04), one),
         in.p26, weights(F_0_541 + F_0_765, F_0_541));
    dots(&even[1], &even[2], dot(half, OP(sub_epi16)(first, in.p04), one),
         in.p26, weights(F_0_541, F_0_541 - F_1_847));

    sums = OP(add_epi16)(in.p71, in.p35);
    s3 = OP(madd_epi16)(sums, weights(F_1_175 - F_1_961, F_1_175));
    s4 = OP(madd_epi16)(sums, weights(F_1_175, F_1_175 - F_0_390));
    odd[3] = dot(s3, in.p71, weights(F_0_298 - F_0_899, -F_0_899));
    odd[0] = dot(s4, in.p71, weights(-F_0_899, F_1_501 - F_0_899));
    odd[2] = dot(s4, in.p35, weights(-F_2_562, F_2_053 - F_2_562));
    odd[1] = dot(s3, in.p35, weights(F_3_072 - F_2_562, -F_2_562));
    CPU_UNROLL
    for (int i = 0; i < 4; i++) {
        out[i] = OP(add_epi32)(even[i], odd[i]);
        out[7 - i] = OP(sub_epi32)(even[i], odd[i]);
    }
}

// Packs two rows of pass 1's result into 16 bits again.
CPU_INLINE VEC two_rows(const VEC *v)
{
    return OP(packs_epi32)(OP(srai_epi32)(v[0], SHIFT1),
                           OP(srai_epi32)(v[1], SHIFT1));
}

#endif
