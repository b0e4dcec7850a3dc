// SPDX-License-Identifier: Apache-2.0
#if defined(__x86_64__)

#include "cpu_fallback/x86/pixels_avx512.h"

// ---- Tables: 256 bytes in four registers ------------------------------------

CPU_INLINE __m512i look_up(__m512i x, const __m512i t[4])
{
    __m512i low = _mm512_permutex2var_epi8(t[0], x, t[1]);
    __m512i high = _mm512_permutex2var_epi8(t[2], x, t[3]);

    return _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(x), high);
}

static void load_table(__m512i t[4], const uint8_t of[256])
{
    for (int i = 0; i < 4; i++)
        t[i] = _mm512_loadu_si512(of + 64 * i);
}

CPU_INLINE __mmask64 first_bytes(int n)
{
    return n >= 64 ? ~0ull : (1ull << n) - 1;
}

static void one_table(uint8_t *dst, const uint8_t *src, int n,
                      const uint8_t of[256])
{
    __m512i t[4];

    load_table(t, of);
    for (int i = 0; i < n; i += 64)
        _mm512_mask_storeu_epi8(dst + i, first_bytes(n - i),
                                look_up(_mm512_loadu_si512(src + i), t));
}

// Byte j of register q of three is of channel (q + j) % 3.
static void three_tables(uint8_t *dst, const uint8_t *src, int n,
                         const struct hr__values *table)
{
    const __mmask64 third = 0x9249249249249249ull;
    __m512i t[3][4];

    for (int c = 0; c < 3; c++)
        load_table(t[c], table->of[c]);
    for (int i = 0; i < n; i += 64) {
        int q = i / 64 % 3;
        __m512i x = _mm512_loadu_si512(src + i), out = look_up(x, t[q]);

        out = _mm512_mask_mov_epi8(out, third << 1, look_up(x, t[(q + 1) % 3]));
        out = _mm512_mask_mov_epi8(out, third << 2, look_up(x, t[(q + 2) % 3]));
        _mm512_mask_storeu_epi8(dst + i, first_bytes(n - i), out);
    }
}

void cpu_table_avx512(uint8_t *dst, const uint8_t *src, int w, int channels,
                      const struct hr__values *table)
{
    if (channels == 1 || (!memcmp(table->of[0], table->of[1], 256) &&
                          !memcmp(table->of[0], table->of[2], 256)))
        one_table(dst, src, w * channels, table->of[0]);
    else
        three_tables(dst, src, 3 * w, table);
}

// ---- Luma -------------------------------------------------------------------

#include "cpu_fallback/x86/tone_simd.h"

uint32_t cpu_luma_sum_avx512(const uint8_t *src, int w)
{
    __m512i sum = _mm512_setzero_si512();

    // Bytes that are not loaded are black, whose luma is 0.
    for (int x = 0; x < w; x += 16, src += 48)
        sum = _mm512_add_epi32(sum, luma_of(load_rgb(src, w - x)));
    return (uint32_t)_mm512_reduce_add_epi32(sum);
}

#endif
