// SPDX-License-Identifier: Apache-2.0
// AVX2 has no wide table look-up: a gather takes as long as its loads (AMD
// Zen 4, measured). So entries are loaded one by one here as in store.c, but
// eight pixels in a row, and small entries are joined to fewer stores. Only
// the table that changes nothing is a matter of shuffles.
#if defined(__x86_64__)

#include <immintrin.h>

#include "cpu_fallback/cpu_kernels.h"

#define UNROLL 8

// ---- look-up of one channel; in and out are the distances of its samples ----

CPU_INLINE void channel_f32(float *dst, size_t next, int out,
                            const uint8_t *src, int in, int w,
                            const float *table)
{
    int x = 0;
    for (; x + UNROLL <= w; x += UNROLL) {
        if (out == 1)
            cpu_expect(dst, next, sizeof(*dst) * UNROLL);
        CPU_UNROLL
        for (int i = 0; i < UNROLL; i++)
            dst[i * out] = table[src[i * in]];
        dst += UNROLL * out;
        src += UNROLL * in;
    }
    for (; x < w; x++, dst += out, src += in)
        *dst = table[*src];
}

CPU_INLINE void channel_f16(uint16_t *dst, int out, const uint8_t *src, int in,
                            int w, const uint16_t *table)
{
    int x = 0;
    for (; x + UNROLL <= w; x += UNROLL) {
        CPU_UNROLL
        for (int i = 0; i < UNROLL; i += 2) {
            uint32_t a = table[src[i * in]], b = table[src[(i + 1) * in]];
            uint32_t ab = a | b << 16;
            if (out == 1) {
                memcpy(dst + i, &ab, 4);
            } else {
                dst[i * out] = (uint16_t)a;
                dst[(i + 1) * out] = (uint16_t)b;
            }
        }
        dst += UNROLL * out;
        src += UNROLL * in;
    }
    for (; x < w; x++, dst += out, src += in)
        *dst = table[*src];
}

CPU_INLINE void channel_u8(uint8_t *dst, int out, const uint8_t *src, int in,
                           int w, const uint8_t *table)
{
    int x = 0;
    for (; x + UNROLL <= w; x += UNROLL) {
        uint64_t all = 0;
        CPU_UNROLL
        for (int i = 0; i < UNROLL; i++) {
            uint64_t entry = table[src[i * in]];
            if (out == 1)
                all |= entry << 8 * i;
            else
                dst[i * out] = (uint8_t)entry;
        }
        if (out == 1)
            memcpy(dst, &all, 8);
        dst += UNROLL * out;
        src += UNROLL * in;
    }
    for (; x < w; x++, dst += out, src += in)
        *dst = table[*src];
}

// (If nothing is next, it is this row's memory, which is written anyway.)
CPU_INLINE void channel_row(void *dst, size_t next, int first, int out,
                            const uint8_t *src, int in, int w,
                            enum hr_dtype type, int c,
                            const struct hr__table *table)
{
    switch (type) {
    case HR_F32:
        channel_f32((float *)dst + first, next, out, src, in, w, table->f32[c]);
        break;
    case HR_F16:
        channel_f16((uint16_t *)dst + first, out, src, in, w, table->f16[c]);
        break;
    case HR_U8:
        channel_u8((uint8_t *)dst + first, out, src, in, w, table->u8[c]);
        break;
    }
}

static void rgb_planes(void *const dst[3], size_t next, const uint8_t *src,
                       int w, enum hr_dtype type, const struct hr__table *table)
{
    for (int c = 0; c < 3; c++)
        channel_row(dst[c], next, 0, 1, src + c, 3, w, type, c, table);
}

static void rgb_pixels(void *dst, const uint8_t *src, int w, enum hr_dtype type,
                       const struct hr__table *table)
{
    for (int c = 0; c < 3; c++)
        channel_row(dst, 0, c, 3, src + c, 3, w, type, c, table);
}

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
