// SPDX-License-Identifier: Apache-2.0
// A table of 256 bytes by shuffles of 16. A shuffle gives 0 where bit 7 of a
// byte is set, so it takes part for bytes from 16 k on, after 16 k have been
// taken off them; what is shuffled is row k of the table xor row k - 1, and the
// sum over all rows up to a byte's own is its own row. So for bytes below 128,
// and, with bit 7 turned, for the others.
#if defined(__x86_64__)

#include <immintrin.h>

#include "cpu_fallback/augment/augment_kernels.h"

#define CPU_INLINE static inline __attribute__((always_inline))

// Vectors that a row of the table is loaded for.
enum { TOGETHER = 2, STEP = 32 * TOGETHER };

struct rows {
    __m256i of[16];
};

static struct rows rows_of(const uint8_t table[256])
{
    struct rows rows;

    for (int k = 0; k < 16; k++) {
        __m128i row = _mm_loadu_si128((const __m128i *)(table + 16 * k));

        if (k & 7)
            row = _mm_xor_si128(
                row, _mm_loadu_si128((const __m128i *)(table + 16 * (k - 1))));
        rows.of[k] = _mm256_broadcastsi128_si256(row);
    }
    return rows;
}

CPU_INLINE void look_up(__m256i to[TOGETHER], const struct rows *rows)
{
    const __m256i sixteen = _mm256_set1_epi8(16), top = _mm256_set1_epi8(-128);
    __m256i low[TOGETHER], high[TOGETHER];

    for (int i = 0; i < TOGETHER; i++) {
        low[i] = to[i];
        high[i] = _mm256_xor_si256(to[i], top);
        to[i] = _mm256_setzero_si256();
    }
    for (int k = 0; k < 8; k++)
        for (int i = 0; i < TOGETHER; i++) {
            __m256i a = _mm256_shuffle_epi8(rows->of[k], low[i]);
            __m256i b = _mm256_shuffle_epi8(rows->of[k + 8], high[i]);

            to[i] = _mm256_xor_si256(to[i], _mm256_xor_si256(a, b));
            low[i] = _mm256_subs_epi8(low[i], sixteen);
            high[i] = _mm256_subs_epi8(high[i], sixteen);
        }
}

static void one_table(uint8_t *dst, const uint8_t *src, int n,
                      const uint8_t table[256])
{
    const struct rows rows = rows_of(table);
    uint8_t rest[STEP] = {0};
    __m256i v[TOGETHER];

    for (int i = 0; i < n; i += STEP) {
        const uint8_t *from = src + i;

        if (n - i < STEP)
            from = memcpy(rest, from, (size_t)(n - i));
        for (int k = 0; k < TOGETHER; k++)
            v[k] = _mm256_loadu_si256((const __m256i *)(from + 32 * k));
        look_up(v, &rows);
        for (int k = 0; k < TOGETHER; k++)
            _mm256_storeu_si256(
                (__m256i *)((n - i < STEP ? rest : dst + i) + 32 * k), v[k]);
        if (n - i < STEP)
            memcpy(dst + i, rest, (size_t)(n - i));
    }
}

void cpu_table_avx2(uint8_t *dst, const uint8_t *src, int w, int channels,
                    const struct hr__values *table)
{
    if (channels == 1 || (!memcmp(table->of[0], table->of[1], 256) &&
                          !memcmp(table->of[0], table->of[2], 256)))
        one_table(dst, src, w * channels, table->of[0]);
    else
        cpu_table_c(dst, src, w, channels, table);
}

#endif
