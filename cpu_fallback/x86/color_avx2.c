// SPDX-License-Identifier: Apache-2.0
// Upsampling and colour with AVX2; most of it is color_simd.h.
#if defined(__x86_64__)

#include <immintrin.h>

#include "cpu_fallback/cpu_kernels.h"

#define VEC __m256i
#define OP(name) _mm256_##name
#define SI(name) _mm256_##name##_si256
#define SISTER(name) name##_avx2

CPU_INLINE __m256i load(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

CPU_INLINE void put(uint8_t *p, __m256i v)
{
    _mm256_storeu_si256((__m256i *)p, v);
}

// 16 samples as 16 bits each.
CPU_INLINE __m256i widen(const uint8_t *p)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p));
}

// ---- gather, replicate -----------------------------------------------------

CPU_INLINE __m256i halve(__m256i a, __m256i b)
{
    return _mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xd8);
}

// A vector of the source may reach to its last sample, not behind it.
void cpu_gather_avx2(uint8_t *dst, const uint8_t *src, int n, int step)
{
    const __m256i low2 = _mm256_set1_epi16(255);
    const __m256i low4 = _mm256_set1_epi32(255);
    int x = 0;

    if (step == 2)
        for (; x + 32 < n; x += 32) {
            const uint8_t *s = src + 2 * (size_t)x;

            put(dst + x, halve(_mm256_and_si256(load(s), low2),
                               _mm256_and_si256(load(s + 32), low2)));
        }
    else if (step == 4)
        for (; x + 32 < n; x += 32) {
            const uint8_t *s = src + 4 * (size_t)x;
            __m256i a = _mm256_and_si256(load(s), low4);
            __m256i b = _mm256_and_si256(load(s + 32), low4);
            __m256i c = _mm256_and_si256(load(s + 64), low4);
            __m256i d = _mm256_and_si256(load(s + 96), low4);

            put(dst + x, _mm256_permutevar8x32_epi32(
                             _mm256_packus_epi16(_mm256_packs_epi32(a, b),
                                                 _mm256_packs_epi32(c, d)),
                             _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
        }
    cpu_gather_c(dst + x, src + (size_t)x * (size_t)step, n - x, step);
}

void cpu_replicate_avx2(uint8_t *dst, const uint8_t *src, int n, int times)
{
    const __m256i four = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3));
    const __m256i lanes = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);

    if (times == 1)
        memcpy(dst, src, (size_t)n);
    else if (times == 2)
        for (int x = 0; x < n; x += 16) {
            __m256i v = widen(src + x);

            put(dst + 2 * (size_t)x,
                _mm256_or_si256(v, _mm256_slli_epi16(v, 8)));
        }
    else if (times == 4)
        for (int x = 0; x < n; x += 8) {
            __m256i v = _mm256_castsi128_si256(
                _mm_loadl_epi64((const __m128i *)(src + x)));

            v = _mm256_permutevar8x32_epi32(v, lanes);
            put(dst + 4 * (size_t)x, _mm256_shuffle_epi8(v, four));
        }
    else
        cpu_replicate_c(dst, src, n, times);
}

// ---- three rows to pixels --------------------------------------------------

// Each lane of 16 pixels to 48 bytes. The shuffles bring each channel's bytes
// to where they belong in one of the three parts.
CPU_INLINE void join_lanes(__m256i r, __m256i g, __m256i b, __m256i out[3])
{
    const __m256i sr = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10, 5));
    const __m256i sg = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10));
    const __m256i sb = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(10, 5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15));
    // Byte i of a part belongs to channel (i + part) % 3.
    const __m256i m1 = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0));
    const __m256i m2 = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0));

    r = _mm256_shuffle_epi8(r, sr);
    g = _mm256_shuffle_epi8(g, sg);
    b = _mm256_shuffle_epi8(b, sb);
    out[0] = _mm256_blendv_epi8(_mm256_blendv_epi8(r, g, m1), b, m2);
    out[1] = _mm256_blendv_epi8(_mm256_blendv_epi8(g, b, m1), r, m2);
    out[2] = _mm256_blendv_epi8(_mm256_blendv_epi8(b, r, m1), g, m2);
}

// 32 pixels; or n <= 16, those of the low lanes.
CPU_INLINE void put_pixels(uint8_t *dst, __m256i r, __m256i g, __m256i b, int n)
{
    __m256i v[3];

    join_lanes(r, g, b, v);
    put(dst, _mm256_permute2x128_si256(v[0], v[1], 0x20));
    if (n > 16) {
        put(dst + 32, _mm256_permute2x128_si256(v[2], v[0], 0x30));
        put(dst + 64, _mm256_permute2x128_si256(v[1], v[2], 0x31));
    } else {
        _mm_storeu_si128((__m128i *)(dst + 32), _mm256_castsi256_si128(v[2]));
    }
}

void cpu_join_rgb_avx2(uint8_t *dst, const uint8_t *r, const uint8_t *g,
                       const uint8_t *b, int w)
{
    int x = 0;

    for (; x + 32 <= w; x += 32)
        put_pixels(dst + 3 * (size_t)x, load(r + x), load(g + x), load(b + x),
                   32);
    for (; x < w; x += 16)
        put_pixels(dst + 3 * (size_t)x, load(r + x), load(g + x), load(b + x),
                   16);
}

// Pixels of a step behind the whole ones, of which so many are left.
#define LAST(left) 16

#include "cpu_fallback/x86/color_simd.h"

#endif
