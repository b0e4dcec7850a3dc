// SPDX-License-Identifier: Apache-2.0
#if defined(__x86_64__)

#include "cpu_fallback/x86/pixels_avx512.h"

// 32 bytes as 16-bit numbers.
CPU_INLINE __m512i load16(const uint8_t *p)
{
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)p));
}

CPU_INLINE __m512i low_half(__m512i x)
{
    return _mm512_cvtepu16_epi32(_mm512_castsi512_si256(x));
}

CPU_INLINE __m512i high_half(__m512i x)
{
    return _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(x, 1));
}

CPU_INLINE __mmask16 first_lanes(int n)
{
    return n >= 16 ? 0xffff : n < 0 ? 0 : (__mmask16)((1u << n) - 1);
}

// sum / 13 = sum * 20165 >> 18 for all sums that there are.
void cpu_mix_smooth_avx512(uint8_t *dst, const uint8_t *const rows[3], int n,
                           int channels, float factor)
{
    const __m512 f = _mm512_set1_ps(factor);

    for (int i = 0; i < n; i += 32) {
        __m512i at = load16(rows[1] + i), sum = _mm512_set1_epi16(6), mean;

        sum = _mm512_add_epi16(sum, _mm512_slli_epi16(at, 2));
        for (int r = 0; r < 3; r++)
            for (int k = -channels; k <= channels; k += channels)
                sum = _mm512_add_epi16(sum, load16(rows[r] + i + k));
        mean = _mm512_srli_epi16(
            _mm512_mulhi_epu16(sum, _mm512_set1_epi16(20165)), 2);
        _mm512_mask_cvtepi32_storeu_epi8(dst + i, first_lanes(n - i),
                                         blend_of(low_half(mean), low_half(at),
                                                  f));
        _mm512_mask_cvtepi32_storeu_epi8(dst + i + 16, first_lanes(n - i - 16),
                                         blend_of(high_half(mean),
                                                  high_half(at), f));
    }
}

CPU_INLINE __m512 load_ps(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(
        _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

void cpu_kernel3_avx512(uint8_t *dst, const uint8_t *const rows[3], int n,
                        int channels, const float weights[9], float offset)
{
    const __m512 most = _mm512_set1_ps(255), zero = _mm512_setzero_ps();

    for (int i = 0; i < n; i += 16) {
        __m512 sum = _mm512_set1_ps(offset + .5f);

        for (int r = 0; r < 3; r++) {
            const uint8_t *at = rows[2 - r] + i;
            const float *k = weights + 3 * r;
            __m512 row = _mm512_add_ps(
                _mm512_mul_ps(load_ps(at - channels), _mm512_set1_ps(k[0])),
                _mm512_mul_ps(load_ps(at), _mm512_set1_ps(k[1])));

            sum = _mm512_add_ps(
                sum, _mm512_add_ps(row, _mm512_mul_ps(load_ps(at + channels),
                                                      _mm512_set1_ps(k[2]))));
        }
        sum = _mm512_min_ps(_mm512_max_ps(sum, zero), most);
        _mm512_mask_cvtepi32_storeu_epi8(dst + i, first_lanes(n - i),
                                         _mm512_cvttps_epi32(sum));
    }
}

// Weights of 24 bits in two halves, for products of 16-bit pairs (the inner
// sum, that of the two beyond).
struct halves {
    __m512i low, high;
};

CPU_INLINE struct halves halves_of(const struct hr__box *box)
{
    return (struct halves){
        _mm512_set1_epi32(
            (int)((box->inner & 4095) | (box->outer & 4095) << 16)),
        _mm512_set1_epi32((int)(box->inner >> 12 | box->outer >> 12 << 16))};
}

// (The low half, rounded down to what the high one counts in, adds to that.)
CPU_INLINE __m512i weighted(__m512i pairs, struct halves w)
{
    __m512i low = _mm512_dpwssd_epi32(_mm512_set1_epi32(1 << 23), pairs, w.low);

    return _mm512_srli_epi32(
        _mm512_dpwssd_epi32(_mm512_srli_epi32(low, 12), pairs, w.high), 12);
}

CPU_INLINE void box_near(uint8_t *dst, const uint8_t *const *taps, int n,
                         int reach, struct halves w)
{
    for (int i = 0; i < n; i += 32) {
        __m512i in = load16(taps[1] + i), out;
        __m512i beyond = _mm512_add_epi16(load16(taps[0] + i),
                                          load16(taps[2 * reach + 2] + i));

        for (int k = 2; k < 2 * reach + 2; k++)
            in = _mm512_add_epi16(in, load16(taps[k] + i));
        out =
            _mm512_packus_epi32(weighted(_mm512_unpacklo_epi16(in, beyond), w),
                                weighted(_mm512_unpackhi_epi16(in, beyond), w));
        _mm512_mask_cvtepi16_storeu_epi8(
            dst + i, n - i >= 32 ? ~0u : (1u << (n - i)) - 1, out);
    }
}

void cpu_box_near_avx512(uint8_t *dst, const uint8_t *const *taps, int n,
                         const struct hr__box *box)
{
    struct halves w = halves_of(box);

    // The loops are unrolled for the reaches that today's recipes have.
    if (box->reach == 0)
        box_near(dst, taps, n, 0, w);
    else if (box->reach == 1)
        box_near(dst, taps, n, 1, w);
    else
        box_near(dst, taps, n, box->reach, w);
}

#endif
