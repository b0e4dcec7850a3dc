// SPDX-License-Identifier: Apache-2.0
// AVX2, the vertical pass. How weights are halved: resample_avx2.h.
#if defined(__x86_64__)

#include "cpu_fallback/x86/resample_avx2.h"

#define V_STEPS 512  // of two rows; more go to the C reference

// Two rows of 32 bytes each. Interleaving works inside 128-bit lanes, and so
// does the packing at the end: bytes come out in order.
CPU_INLINE void add_two(struct sums sums[4], __m256i a, __m256i b,
                        const int32_t weights[2])
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i ab_lo = _mm256_unpacklo_epi8(a, b);
    __m256i ab_hi = _mm256_unpackhi_epi8(a, b);
    const __m256i v[4] = {
        _mm256_unpacklo_epi8(ab_lo, zero),
        _mm256_unpackhi_epi8(ab_lo, zero),
        _mm256_unpacklo_epi8(ab_hi, zero),
        _mm256_unpackhi_epi8(ab_hi, zero),
    };
    __m256i hi = _mm256_set1_epi32(weights[0]);
    __m256i lo = _mm256_set1_epi32(weights[1]);
    CPU_UNROLL
    for (int i = 0; i < 4; i++) {
        sums[i].hi = _mm256_add_epi32(sums[i].hi, _mm256_madd_epi16(v[i], hi));
        sums[i].lo = _mm256_add_epi32(sums[i].lo, _mm256_madd_epi16(v[i], lo));
    }
}

CPU_INLINE __m256i load_256(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

CPU_INLINE __m256i vertical_32(const uint8_t *const *rows, size_t x,
                               const int32_t (*weights)[2], int n)
{
    struct sums s[4];
    CPU_UNROLL
    for (int i = 0; i < 4; i++)
        s[i].hi = s[i].lo = _mm256_setzero_si256();
    int k = 0;
    for (; k + 2 <= n; k += 2)
        add_two(s, load_256(rows[k] + x), load_256(rows[k + 1] + x),
                weights[k / 2]);
    if (k < n)
        add_two(s, load_256(rows[k] + x), _mm256_setzero_si256(),
                weights[k / 2]);
    return _mm256_packus_epi16(_mm256_packs_epi32(round_shift(combine(s[0])),
                                                  round_shift(combine(s[1]))),
                               _mm256_packs_epi32(round_shift(combine(s[2])),
                                                  round_shift(combine(s[3]))));
}

// Word 0: the upper halves of a pair of weights, word 1: the lower halves.
static void pair_weights(int32_t pair[2], int32_t a, int32_t b)
{
    const uint32_t mask = (1u << HALF_BITS) - 1;
    pair[0] = (int32_t)(((uint32_t)(a >> HALF_BITS) & 0xffff) |
                        (uint32_t)(b >> HALF_BITS) << 16);
    pair[1] = (int32_t)(((uint32_t)a & mask) | ((uint32_t)b & mask) << 16);
}

void cpu_resample_v_avx2(uint8_t *dst, const uint8_t *const *rows,
                         const int32_t *w, int n, size_t bytes)
{
    int32_t weights[V_STEPS][2];
    if (n > 2 * V_STEPS || (n == 1 && w[0] == CPU_WEIGHT_ONE)) {
        cpu_resample_v_c(dst, rows, w, n, bytes);
        return;
    }
    for (int k = 0; k < n; k += 2)
        pair_weights(weights[k / 2], w[k], k + 1 < n ? w[k + 1] : 0);
    for (size_t x = 0; x < bytes; x += 32)
        _mm256_storeu_si256((__m256i *)(dst + x),
                            vertical_32(rows, x, (const int32_t(*)[2])weights,
                                        n));
}

#endif
