// SPDX-License-Identifier: Apache-2.0
// AVX-512 VNNI, the vertical pass. resample_avx512.h explains the digits of
// weights.
#if defined(__x86_64__)

#include "cpu_fallback/x86/resample_avx512.h"

#define V_STEPS 256  // of four rows; more go to the AVX2 sister

// Digits of the weights, four rows each: words d0, d1, d2 of every step.
static bool vertical_digits(int32_t (*digits)[4], const int32_t *w, int n)
{
    uint32_t rest = 0;
    for (int k = 0; k < n; k += TAPS) {
        int left = n - k < TAPS ? n - k : TAPS;
        __m128i v = _mm_maskz_loadu_epi32((__mmask8)((1 << left) - 1), w + k);
        _mm_storeu_si128((__m128i *)digits[k / TAPS], digits_of(v));
        rest |= (uint32_t)digits[k / TAPS][3];
    }
    return rest == 0;
}

// Adds four rows of 64 bytes each. Interleaving works inside 128-bit lanes,
// and so does the packing at the end: bytes come out in order.
CPU_INLINE void add_four(struct sums sums[4], const __m512i row[4],
                         const int32_t digits[4])
{
    __m512i ab_lo = _mm512_unpacklo_epi8(row[0], row[1]);
    __m512i ab_hi = _mm512_unpackhi_epi8(row[0], row[1]);
    __m512i cd_lo = _mm512_unpacklo_epi8(row[2], row[3]);
    __m512i cd_hi = _mm512_unpackhi_epi8(row[2], row[3]);
    const __m512i v[4] = {
        _mm512_unpacklo_epi16(ab_lo, cd_lo),
        _mm512_unpackhi_epi16(ab_lo, cd_lo),
        _mm512_unpacklo_epi16(ab_hi, cd_hi),
        _mm512_unpackhi_epi16(ab_hi, cd_hi),
    };
    __m512i w0 = _mm512_set1_epi32(digits[0]);
    __m512i w1 = _mm512_set1_epi32(digits[1]);
    __m512i w2 = _mm512_set1_epi32(digits[2]);
    CPU_UNROLL
    for (int i = 0; i < 4; i++) {
        sums[i].d0 = _mm512_dpbusd_epi32(sums[i].d0, v[i], w0);
        sums[i].d1 = _mm512_dpbusd_epi32(sums[i].d1, v[i], w1);
        sums[i].d2 = _mm512_dpbusd_epi32(sums[i].d2, v[i], w2);
    }
}

CPU_INLINE __m512i clip_64(const struct sums sums[4])
{
    __m512i v[4];
    CPU_UNROLL
    for (int i = 0; i < 4; i++)
        v[i] = _mm512_srai_epi32(combine(sums[i].d0, sums[i].d1, sums[i].d2),
                                 CPU_WEIGHT_BITS);
    return _mm512_packus_epi16(_mm512_packs_epi32(v[0], v[1]),
                               _mm512_packs_epi32(v[2], v[3]));
}

CPU_INLINE __m512i vertical_64(const uint8_t *const *rows, size_t x,
                               const int32_t (*digits)[4], int n)
{
    struct sums sums[4];
    CPU_UNROLL
    for (int i = 0; i < 4; i++) {
        sums[i].d0 = _mm512_set1_epi32(CPU_WEIGHT_HALF);
        sums[i].d1 = sums[i].d2 = _mm512_setzero_si512();
    }
    int k = 0;
    for (; k + 4 <= n; k += 4) {
        const __m512i row[4] = {
            _mm512_loadu_si512(rows[k] + x),
            _mm512_loadu_si512(rows[k + 1] + x),
            _mm512_loadu_si512(rows[k + 2] + x),
            _mm512_loadu_si512(rows[k + 3] + x),
        };
        add_four(sums, row, digits[k / 4]);
    }
    if (k < n) {
        const __m512i none = _mm512_setzero_si512();
        const __m512i row[4] = {
            _mm512_loadu_si512(rows[k] + x),
            k + 1 < n ? _mm512_loadu_si512(rows[k + 1] + x) : none,
            k + 2 < n ? _mm512_loadu_si512(rows[k + 2] + x) : none,
            none,
        };
        add_four(sums, row, digits[k / 4]);
    }
    return clip_64(sums);
}

void cpu_resample_v_avx512(uint8_t *dst, const uint8_t *const *rows,
                           const int32_t *w, int n, size_t bytes)
{
    int32_t digits[V_STEPS][4];
    if (n == 1 && w[0] == CPU_WEIGHT_ONE) {
        memmove(dst, rows[0], bytes);
        return;
    }
    if (n > V_STEPS * TAPS || !vertical_digits(digits, w, n)) {
        cpu_resample_v_avx2(dst, rows, w, n, bytes);
        return;
    }
    for (size_t x = 0; x < bytes; x += 64)
        _mm512_storeu_si512(
            dst + x, vertical_64(rows, x, (const int32_t(*)[4])digits, n));
}

#endif
