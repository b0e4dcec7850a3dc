// SPDX-License-Identifier: Apache-2.0
// The inverse DCT with NEON, a block at a time. pixel/reconstruct.c tells where
// the algorithm comes from. Sums of inputs wrap at 16 bits, all others at 32,
// as they do there; their order does not matter. The rounding half is in a
// pass's sums from the start, so that it wraps with them: in this processor's
// rounding shifts it would not.
#if defined(__AARCH64EL__)

#include <arm_neon.h>

#include "cpu_fallback/cpu_kernels.h"
#include "cpu_fallback/pixel/reconstruct.h"

static const int16_t constants[16] = {
    F_0_541,         F_0_541 - F_1_847, F_0_541 + F_0_765, F_1_175 - F_1_961,
    F_1_175,         F_1_175 - F_0_390, F_1_501 - F_0_899, -F_0_899,
    -F_2_562,        F_3_072 - F_2_562, F_2_053 - F_2_562, F_0_298 - F_0_899,
    1 << CONST_BITS,
};

// Four of the eight columns before they are added up: output i is even[i] +
// odd[i], output 7 - i is even[i] - odd[i].
struct half {
    int32x4_t even[4], odd[4];
};

// Low or high columns by their own instructions, lanes of constants by number:
// neither can be an argument.
#define HALF(h, part, mull, mlal)                                          \
    do {                                                                   \
        int32x4_t s = mlal(half, part(sum), k3, 0);                        \
        int32x4_t d = mlal(half, part(difference), k3, 0);                 \
        int32x4_t a = mlal(mull(part(v[2]), k0, 0), part(v[6]), k0, 1);    \
        int32x4_t b = mlal(mull(part(v[2]), k0, 2), part(v[6]), k0, 0);    \
        int32x4_t s3 = mlal(mull(part(z3), k0, 3), part(z4), k1, 0);       \
        int32x4_t s4 = mlal(mull(part(z3), k1, 0), part(z4), k1, 1);       \
        (h).even[0] = vaddq_s32(s, b);                                     \
        (h).even[1] = vaddq_s32(d, a);                                     \
        (h).even[2] = vsubq_s32(d, a);                                     \
        (h).even[3] = vsubq_s32(s, b);                                     \
        (h).odd[0] = mlal(mlal(s4, part(v[7]), k1, 3), part(v[1]), k1, 2); \
        (h).odd[1] = mlal(mlal(s3, part(v[5]), k2, 0), part(v[3]), k2, 1); \
        (h).odd[2] = mlal(mlal(s4, part(v[5]), k2, 2), part(v[3]), k2, 0); \
        (h).odd[3] = mlal(mlal(s3, part(v[7]), k2, 3), part(v[1]), k1, 3); \
    } while (0)

#define ALL(v) (v)

CPU_INLINE void sums(struct half *low, struct half *high, const int16x8_t v[8],
                     int shift)
{
    const int16x4_t k0 = vld1_s16(constants), k1 = vld1_s16(constants + 4);
    const int16x4_t k2 = vld1_s16(constants + 8), k3 = vld1_s16(constants + 12);
    const int32x4_t half = vdupq_n_s32(1 << (shift - 1));
    int16x8_t sum = vaddq_s16(v[0], v[4]), difference = vsubq_s16(v[0], v[4]);
    int16x8_t z3 = vaddq_s16(v[7], v[3]), z4 = vaddq_s16(v[5], v[1]);

    HALF(*low, vget_low_s16, vmull_lane_s16, vmlal_lane_s16);
    HALF(*high, ALL, vmull_high_lane_s16, vmlal_high_lane_s16);
}

CPU_INLINE int16x8_t shifted(int32x4_t low, int32x4_t high)
{
    return vqshrn_high_n_s32(vqshrn_n_s32(low, SHIFT1), high, SHIFT1);
}

CPU_INLINE void pass1(int16x8_t v[8])
{
    struct half a, b;

    sums(&a, &b, v, SHIFT1);
    CPU_UNROLL for (int i = 0; i < 4; i++)
    {
        v[i] = shifted(vaddq_s32(a.even[i], a.odd[i]),
                       vaddq_s32(b.even[i], b.odd[i]));
        v[7 - i] = shifted(vsubq_s32(a.even[i], a.odd[i]),
                           vsubq_s32(b.even[i], b.odd[i]));
    }
}

// The upper halves of sums are sums >> 16: two bits more are left to shift.
// Samples are signed yet.
CPU_INLINE void pass2(int8x8_t out[8], const int16x8_t v[8])
{
    struct half a, b;

    sums(&a, &b, v, SHIFT2);
    CPU_UNROLL for (int i = 0; i < 4; i++)
    {
        int16x8_t sum = vaddhn_high_s32(vaddhn_s32(a.even[i], a.odd[i]),
                                        b.even[i], b.odd[i]);
        int16x8_t difference = vsubhn_high_s32(vsubhn_s32(a.even[i], a.odd[i]),
                                               b.even[i], b.odd[i]);

        out[i] = vqshrn_n_s16(sum, SHIFT2 - 16);
        out[7 - i] = vqshrn_n_s16(difference, SHIFT2 - 16);
    }
}

CPU_INLINE void transpose(int16x8_t v[8])
{
    int32x4_t a[8];
    int64x2_t b[8];

    CPU_UNROLL for (int i = 0; i < 8; i += 2)
    {
        a[i] = vreinterpretq_s32_s16(vtrn1q_s16(v[i], v[i + 1]));
        a[i + 1] = vreinterpretq_s32_s16(vtrn2q_s16(v[i], v[i + 1]));
    }
    CPU_UNROLL for (int i = 0; i < 8; i++)
    {
        int k = (i & 4) | (i & 1);

        b[i] = vreinterpretq_s64_s32(i & 2 ? vtrn2q_s32(a[k], a[k + 2])
                                           : vtrn1q_s32(a[k], a[k + 2]));
    }
    CPU_UNROLL for (int i = 0; i < 4; i++)
    {
        v[i] = vreinterpretq_s16_s64(vtrn1q_s64(b[i], b[i + 4]));
        v[i + 4] = vreinterpretq_s16_s64(vtrn2q_s64(b[i], b[i + 4]));
    }
}

// Nothing below the first row?
CPU_INLINE bool is_flat(const int16x8_t v[8])
{
    int16x8_t any = vorrq_s16(vorrq_s16(vorrq_s16(v[1], v[2]), v[3]),
                              vorrq_s16(vorrq_s16(v[4], v[5]),
                                        vorrq_s16(v[6], v[7])));

    return !vmaxvq_u32(vreinterpretq_u32_s16(any));
}

// Pass 1 of a flat block, transposed: its first row is scaled by a shift, which
// does not saturate.
CPU_INLINE void spread(int16x8_t v[8])
{
    int16x8_t row = vshlq_n_s16(v[0], PASS1_BITS);

    v[0] = vdupq_laneq_s16(row, 0);
    v[1] = vdupq_laneq_s16(row, 1);
    v[2] = vdupq_laneq_s16(row, 2);
    v[3] = vdupq_laneq_s16(row, 3);
    v[4] = vdupq_laneq_s16(row, 4);
    v[5] = vdupq_laneq_s16(row, 5);
    v[6] = vdupq_laneq_s16(row, 6);
    v[7] = vdupq_laneq_s16(row, 7);
}

// Columns x and x + 4, as samples.
CPU_INLINE uint8x16_t columns(const int8x8_t c[8], int x)
{
    return veorq_u8(vreinterpretq_u8_s8(vcombine_s8(c[x], c[x + 4])),
                    vdupq_n_u8(128));
}

// Words, columns 0-3 and 4-7 of two rows, to those rows.
CPU_INLINE void put_rows(uint8_t *dst, size_t stride, int y, uint16x8_t first,
                         uint16x8_t second)
{
    uint32x4_t a = vreinterpretq_u32_u16(vtrn1q_u16(first, second));
    uint32x4_t b = vreinterpretq_u32_u16(vtrn2q_u16(first, second));
    uint8_t *to = dst + (size_t)y * stride;

    vst1_u8(to, vreinterpret_u8_u32(vget_low_u32(vuzp1q_u32(a, a))));
    vst1_u8(to + 2 * stride,
            vreinterpret_u8_u32(vget_low_u32(vuzp1q_u32(b, b))));
    vst1_u8(to + 4 * stride,
            vreinterpret_u8_u32(vget_low_u32(vuzp2q_u32(a, a))));
    vst1_u8(to + 6 * stride,
            vreinterpret_u8_u32(vget_low_u32(vuzp2q_u32(b, b))));
}

CPU_INLINE void reconstruct(uint8_t *dst, size_t stride, const int16_t *block,
                            const uint16_t *quant)
{
    uint8x16_t p0, p1, p2, p3;
    int16x8_t v[8];
    int8x8_t c[8];
    bool flat;

    CPU_UNROLL for (int y = 0; y < 8; y++) v[y] = vld1q_s16(block + 8 * y);
    flat = is_flat(v);
    CPU_UNROLL for (int y = 0; y < 8; y++)
    {
        uint16x8_t q = vld1q_u16(quant + 8 * y);

        v[y] = vmulq_s16(v[y], vreinterpretq_s16_u16(q));
    }
    if (flat) {
        spread(v);
    } else {
        pass1(v);
        transpose(v);
    }
    pass2(c, v);
    p0 = columns(c, 0);
    p1 = columns(c, 1);
    p2 = columns(c, 2);
    p3 = columns(c, 3);
    put_rows(dst, stride, 0, vreinterpretq_u16_u8(vtrn1q_u8(p0, p1)),
             vreinterpretq_u16_u8(vtrn1q_u8(p2, p3)));
    put_rows(dst, stride, 1, vreinterpretq_u16_u8(vtrn2q_u8(p0, p1)),
             vreinterpretq_u16_u8(vtrn2q_u8(p2, p3)));
}

void cpu_reconstruct_neon(uint8_t *dst, size_t stride,
                          const int16_t (*blocks)[64], int n,
                          const uint16_t quant[64])
{
    for (int i = 0; i < n; i++)
        reconstruct(dst + 8 * i, stride, blocks[i], quant);
}

#endif
