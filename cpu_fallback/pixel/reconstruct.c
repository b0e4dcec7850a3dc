// SPDX-License-Identifier: Apache-2.0
// Stage reconstruct: dequantization and the inverse DCT "islow".
//
// The algorithm is that of libjpeg-turbo src/jidctint.c (Loeffler, Ligtenberg
// and Moschytz), the arithmetic that of its x86 form (simd/x86_64/
// jidctint-sse2.asm and -avx2.asm, which agree): products with the quantizers,
// and sums of two inputs of a pass, keep 16 bits; products with constants and
// their sums have 32; a pass ends with a rounded shift that saturates. Pictures
// in their right mind never reach those limits, others show the same pixels.
#include "reconstruct.h"

#include "cpu_fallback/cpu_kernels.h"

// Sums of 32 bits wrap.
static uint32_t madd(int a, int x, int b, int y)
{
    return (uint32_t)(a * x) + (uint32_t)(b * y);
}

static int16_t shifted(uint32_t sum, int shift)
{
    int32_t v = (int32_t)(sum + (1u << (shift - 1))) >> shift;

    return (int16_t)(v > INT16_MAX ? INT16_MAX : v < INT16_MIN ? INT16_MIN : v);
}

// Does one pass over columns, all eight at a time for compilers that vectorize.
static void pass(int16_t (*restrict out)[8], int16_t (*restrict in)[8],
                 int shift)
{
    for (int x = 0; x < 8; x++) {
        int i0 = in[0][x], i1 = in[1][x], i2 = in[2][x], i3 = in[3][x];
        int i4 = in[4][x], i5 = in[5][x], i6 = in[6][x], i7 = in[7][x];
        uint32_t a = madd(F_0_541, i2, F_0_541 - F_1_847, i6);
        uint32_t b = madd(F_0_541 + F_0_765, i2, F_0_541, i6);
        uint32_t sum = (uint32_t)(int16_t)(i0 + i4) << CONST_BITS;
        uint32_t difference = (uint32_t)(int16_t)(i0 - i4) << CONST_BITS;
        int z3 = (int16_t)(i7 + i3), z4 = (int16_t)(i5 + i1);
        uint32_t s3 = madd(F_1_175 - F_1_961, z3, F_1_175, z4);
        uint32_t s4 = madd(F_1_175, z3, F_1_175 - F_0_390, z4);
        uint32_t odd0 = madd(-F_0_899, i7, F_1_501 - F_0_899, i1) + s4;
        uint32_t odd1 = madd(-F_2_562, i5, F_3_072 - F_2_562, i3) + s3;
        uint32_t odd2 = madd(F_2_053 - F_2_562, i5, -F_2_562, i3) + s4;
        uint32_t odd3 = madd(F_0_298 - F_0_899, i7, -F_0_899, i1) + s3;

        out[0][x] = shifted(sum + b + odd0, shift);
        out[7][x] = shifted(sum + b - odd0, shift);
        out[1][x] = shifted(difference + a + odd1, shift);
        out[6][x] = shifted(difference + a - odd1, shift);
        out[2][x] = shifted(difference - a + odd2, shift);
        out[5][x] = shifted(difference - a - odd2, shift);
        out[3][x] = shifted(sum - b + odd3, shift);
        out[4][x] = shifted(sum - b - odd3, shift);
    }
}

static void transpose(int16_t (*restrict out)[8], int16_t (*restrict in)[8])
{
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 8; x++)
            out[x][y] = in[y][x];
}

static void reconstruct(uint8_t *dst, size_t stride, const int16_t *block,
                        const uint16_t *quant)
{
    int16_t v[8][8], w[8][8];
    int any = 0;

    for (int i = 0; i < 64; i++)
        v[i / 8][i % 8] = (int16_t)((unsigned)block[i] * quant[i]);
    for (int i = 8; i < 64; i++)
        any |= block[i];
    // A block without anything below its first row is scaled by a shift, which
    // does not saturate.
    if (any)
        pass(w, v, SHIFT1);
    else
        for (int i = 0; i < 64; i++)
            w[i / 8][i % 8] = (int16_t)((unsigned)v[0][i % 8] << PASS1_BITS);
    transpose(v, w);
    pass(w, v, SHIFT2);
    transpose(v, w);
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 8; x++) {
            int s = v[y][x];

            dst[stride * (size_t)y + (size_t)x] = (uint8_t)((s > 127    ? 127
                                                             : s < -128 ? -128
                                                                        : s) +
                                                            128);
        }
}

void cpu_reconstruct_c(uint8_t *dst, size_t stride, const int16_t (*blocks)[64],
                       int n, const uint16_t quant[64])
{
    for (int i = 0; i < n; i++)
        reconstruct(dst + 8 * i, stride, blocks[i], quant);
}
