// SPDX-License-Identifier: Apache-2.0
// AVX2 has no wide table look-up: a gather takes as long as its loads (AMD Zen
// 4, measured). Only the table that changes nothing is a matter of shuffles.
#if defined(__x86_64__)

#include <immintrin.h>

#include "cpu_fallback/pixel/store_rows.h"

// ---- RGB bytes -> planes, unchanged ----

// Shuffle that takes from 16-byte part `part` of 48 what channel c has there.
static __m128i split_shuffle(int c, int part)
{
    uint8_t s[16];
    for (int i = 0; i < 16; i++) {
        int from = 3 * i + c - 16 * part;
        s[i] = (uint8_t)(from >= 0 && from < 16 ? from : 0x80);
    }
    return _mm_loadu_si128((const __m128i *)s);
}

static void split_rgb(void *const dst[3], const uint8_t *src, int w)
{
    for (int c = 0; c < 3; c++) {
        uint8_t *d = dst[c];
        const __m128i s0 = split_shuffle(c, 0), s1 = split_shuffle(c, 1);
        const __m128i s2 = split_shuffle(c, 2);
        int x = 0;
        for (; x + 16 <= w; x += 16) {
            const __m128i *in = (const __m128i *)(src + 3 * (size_t)x);
            __m128i v = _mm_or_si128(
                _mm_or_si128(_mm_shuffle_epi8(_mm_loadu_si128(in), s0),
                             _mm_shuffle_epi8(_mm_loadu_si128(in + 1), s1)),
                _mm_shuffle_epi8(_mm_loadu_si128(in + 2), s2));
            _mm_storeu_si128((__m128i *)(d + x), v);
        }
        for (; x < w; x++)
            d[x] = src[3 * (size_t)x + c];
    }
}

void cpu_store_avx2(void *const dst[3], size_t next, const uint8_t *src, int w,
                    int channels, bool planar, enum hr_dtype type,
                    const struct hr__table *table)
{
    bool copy = type == HR_U8 && table->u8_identity;

    if (type != HR_F32 || (channels == 3 && !planar))
        cpu_expect_row(dst, next, w, channels, planar, type);
    if (copy && (channels == 1 || !planar))
        memmove(dst[0], src, (size_t)w * channels);
    else if (copy)
        split_rgb(dst, src, w);
    else if (channels == 1)
        channel_row(dst[0], next, 0, 1, src, 1, w, type, 0, table);
    else if (planar)
        rgb_planes(dst, next, src, w, type, table);
    else
        rgb_pixels(dst[0], src, w, type, table);
}

#endif
