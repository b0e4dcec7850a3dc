// SPDX-License-Identifier: Apache-2.0
// Stage reconstruct: dequantization and the inverse DCT "islow".
//
// The algorithm is that of libjpeg-turbo src/jidctint.c (Loeffler, Ligtenberg
// and Moschytz), the arithmetic that of its x86 form (simd/x86_64/
// jidctint-sse2.asm and -avx2.asm, which agree): products with the quantizers,
// and sums of two inputs of a pass, keep 16 bits; products with constants and
// their sums have 32; a pass ends with a rounded shift that saturates. Pictures
// in their right mind never reach those limits, others show the same pixels.
#include "cpu_kernels.h"

enum {
    CONST_BITS = 13,
    PASS1_BITS = 2,
    // The constants of jidctint.c, with CONST_BITS fraction bits.
    F_0_298 = 2446,
    F_0_390 = 3196,
    F_0_541 = 4433,
    F_0_765 = 6270,
    F_0_899 = 7373,
    F_1_175 = 9633,
    F_1_501 = 12299,
    F_1_847 = 15137,
    F_1_961 = 16069,
    F_2_053 = 16819,
    F_2_562 = 20995,
    F_3_072 = 25172,
};

// Sums of 32 bits wrap.
static int32_t madd(int a, int x, int b, int y)
{
    return (int32_t)((uint32_t)(a * x) + (uint32_t)(b * y));
}

static int16_t shifted(uint32_t sum, int shift)
{
    int32_t v = (int32_t)(sum + (1u << (shift - 1))) >> shift;

    return (int16_t)(v > INT16_MAX ? INT16_MAX : v < INT16_MIN ? INT16_MIN : v);
}

// One pass over 8 values that are `step` apart, in place.
static void pass(int16_t *v, int step, int shift)
{
    int16_t in[8], z3, z4;
    uint32_t even[4], odd[4];
    int32_t a, b, s3, s4;

    for (int i = 0; i < 8; i++)
        in[i] = v[i * step];
    a = madd(F_0_541, in[2], F_0_541 - F_1_847, in[6]);
    b = madd(F_0_541 + F_0_765, in[2], F_0_541, in[6]);
    z3 = (int16_t)(in[0] + in[4]);
    z4 = (int16_t)(in[0] - in[4]);
    even[0] = (uint32_t)z3 * (1 << CONST_BITS) + (uint32_t)b;
    even[3] = (uint32_t)z3 * (1 << CONST_BITS) - (uint32_t)b;
    even[1] = (uint32_t)z4 * (1 << CONST_BITS) + (uint32_t)a;
    even[2] = (uint32_t)z4 * (1 << CONST_BITS) - (uint32_t)a;

    z3 = (int16_t)(in[7] + in[3]);
    z4 = (int16_t)(in[5] + in[1]);
    s3 = madd(F_1_175 - F_1_961, z3, F_1_175, z4);
    s4 = madd(F_1_175, z3, F_1_175 - F_0_390, z4);
    odd[3] = (uint32_t)madd(F_0_298 - F_0_899, in[7], -F_0_899, in[1]) +
             (uint32_t)s3;
    odd[0] = (uint32_t)madd(-F_0_899, in[7], F_1_501 - F_0_899, in[1]) +
             (uint32_t)s4;
    odd[2] = (uint32_t)madd(F_2_053 - F_2_562, in[5], -F_2_562, in[3]) +
             (uint32_t)s4;
    odd[1] = (uint32_t)madd(-F_2_562, in[5], F_3_072 - F_2_562, in[3]) +
             (uint32_t)s3;
    for (int i = 0; i < 4; i++) {
        v[i * step] = shifted(even[i] + odd[i], shift);
        v[(7 - i) * step] = shifted(even[i] - odd[i], shift);
    }
}

static void reconstruct(uint8_t *dst, size_t stride, const int16_t *block,
                        const uint16_t *quant)
{
    int16_t v[64], any = 0;

    for (int i = 0; i < 64; i++) {
        v[i] = (int16_t)((unsigned)block[i] * quant[i]);
        any |= i < 8 ? 0 : block[i];
    }
    // A block without anything below its first row is scaled by a shift, which
    // does not saturate.
    if (any)
        for (int x = 0; x < 8; x++)
            pass(v + x, 8, CONST_BITS - PASS1_BITS);
    else
        for (int i = 0; i < 64; i++)
            v[i] = i < 8 ? (int16_t)((unsigned)v[i] << PASS1_BITS) : v[i & 7];
    for (int y = 0; y < 8; y++) {
        pass(v + 8 * y, 1, CONST_BITS + PASS1_BITS + 3);
        for (int x = 0; x < 8; x++) {
            int s = v[8 * y + x];

            dst[stride * (size_t)y + (size_t)x] = (uint8_t)((s > 127    ? 127
                                                             : s < -128 ? -128
                                                                        : s) +
                                                            128);
        }
    }
}

void cpu_reconstruct_c(uint8_t *dst, size_t stride, const int16_t (*blocks)[64],
                       int n, const uint16_t quant[64])
{
    for (int i = 0; i < n; i++)
        reconstruct(dst + 8 * i, stride, blocks[i], quant);
}
