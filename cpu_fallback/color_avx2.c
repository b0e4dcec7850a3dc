// SPDX-License-Identifier: Apache-2.0
// Sums of samples fit 16 bits: 4 * 4 * 255 + 8 at most. The colour matrix is
// made of the high halves of 16-bit products; what they lack is exact:
//
//   (c x + 2^15) >> 16 = (((c 2x) >> 16) + 1) >> 1   for 16-bit c and 2x
//
// since rounding down twice is rounding down once. A whole multiple of x is
// taken out of c first, so that it fits.
#if defined(__x86_64__)

#include <immintrin.h>

#include "cpu_fallback/cpu_kernels.h"

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

// ---- fancy upsampling ------------------------------------------------------

CPU_INLINE __m256i times3(__m256i v)
{
    return _mm256_add_epi16(v, _mm256_add_epi16(v, v));
}

// Bytes: even, odd, even, ..
CPU_INLINE __m256i weave(__m256i even, __m256i odd)
{
    return _mm256_or_si256(even, _mm256_slli_epi16(odd, 8));
}

void cpu_upsample_h2v1_avx2(uint8_t *dst, const uint8_t *src, int n)
{
    const __m256i one = _mm256_set1_epi16(1), two = _mm256_set1_epi16(2);

    for (int x = 0; x < n; x += 16) {
        __m256i at = times3(widen(src + x));
        __m256i even = _mm256_add_epi16(widen(src + x - 1), one);
        __m256i odd = _mm256_add_epi16(widen(src + x + 1), two);

        even = _mm256_srli_epi16(_mm256_add_epi16(at, even), 2);
        odd = _mm256_srli_epi16(_mm256_add_epi16(at, odd), 2);
        put(dst + 2 * (size_t)x, weave(even, odd));
    }
}

void cpu_upsample_h1v2_avx2(uint8_t *dst, const uint8_t *near,
                            const uint8_t *far, int n, bool lower)
{
    const __m256i weights = _mm256_set1_epi16(0x0103);
    const __m256i bias = _mm256_set1_epi16(lower ? 2 : 1);

    for (int x = 0; x < n; x += 32) {
        __m256i a = load(near + x), b = load(far + x);
        __m256i lo = _mm256_maddubs_epi16(_mm256_unpacklo_epi8(a, b), weights);
        __m256i hi = _mm256_maddubs_epi16(_mm256_unpackhi_epi8(a, b), weights);

        lo = _mm256_srli_epi16(_mm256_add_epi16(lo, bias), 2);
        hi = _mm256_srli_epi16(_mm256_add_epi16(hi, bias), 2);
        put(dst + x, _mm256_packus_epi16(lo, hi));
    }
}

CPU_INLINE __m256i column(const uint8_t *near, const uint8_t *far, int x)
{
    return _mm256_add_epi16(times3(widen(near + x)), widen(far + x));
}

void cpu_upsample_h2v2_avx2(uint8_t *dst, const uint8_t *near,
                            const uint8_t *far, int n)
{
    const __m256i seven = _mm256_set1_epi16(7), eight = _mm256_set1_epi16(8);

    for (int x = 0; x < n; x += 16) {
        __m256i at = times3(column(near, far, x));
        __m256i even = _mm256_add_epi16(column(near, far, x - 1), eight);
        __m256i odd = _mm256_add_epi16(column(near, far, x + 1), seven);

        even = _mm256_srli_epi16(_mm256_add_epi16(at, even), 4);
        odd = _mm256_srli_epi16(_mm256_add_epi16(at, odd), 4);
        put(dst + 2 * (size_t)x, weave(even, odd));
    }
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

// 32 pixels; or 16, those of the low lanes.
CPU_INLINE void put_pixels(uint8_t *dst, __m256i r, __m256i g, __m256i b,
                           bool all)
{
    __m256i v[3];

    join_lanes(r, g, b, v);
    put(dst, _mm256_permute2x128_si256(v[0], v[1], 0x20));
    if (all) {
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
                   true);
    for (; x < w; x += 16)
        put_pixels(dst + 3 * (size_t)x, load(r + x), load(g + x), load(b + x),
                   false);
}

// ---- YCbCr -----------------------------------------------------------------

struct rgb16 {
    __m256i r, g, b;
};

// ((c x + 2^15) >> 16), see above; x2 = 2x.
CPU_INLINE __m256i product(__m256i x2, int16_t c)
{
    __m256i high = _mm256_mulhi_epi16(x2, _mm256_set1_epi16(c));

    return _mm256_srai_epi16(_mm256_add_epi16(high, _mm256_set1_epi16(1)), 1);
}

// 16 pixels, of chroma what it is above 128.
CPU_INLINE struct rgb16 convert(__m256i y, __m256i b, __m256i r)
{
    // 0.34414 and 0.71414 - 1 with 16 fraction bits; the rest is -r.
    const __m256i weights = _mm256_set1_epi32((18734 << 16) |
                                              (-22554 & 0xffff));
    const __m256i half = _mm256_set1_epi32(32768);
    __m256i r2 = _mm256_add_epi16(r, r), b2 = _mm256_add_epi16(b, b);
    __m256i lo = _mm256_madd_epi16(_mm256_unpacklo_epi16(b, r), weights);
    __m256i hi = _mm256_madd_epi16(_mm256_unpackhi_epi16(b, r), weights);
    struct rgb16 out;

    lo = _mm256_srai_epi32(_mm256_add_epi32(lo, half), 16);
    hi = _mm256_srai_epi32(_mm256_add_epi32(hi, half), 16);
    // 91881 = 65536 + 26345, 116130 = 131072 - 14942
    out.r = _mm256_add_epi16(_mm256_add_epi16(y, r), product(r2, 26345));
    out.g = _mm256_add_epi16(_mm256_sub_epi16(y, r),
                             _mm256_packs_epi32(lo, hi));
    out.b = _mm256_add_epi16(_mm256_add_epi16(y, b2), product(b2, -14942));
    return out;
}

CPU_INLINE void convert_pixels(uint8_t *dst, const uint8_t *y,
                               const uint8_t *cb, const uint8_t *cr, bool all)
{
    const __m256i zero = _mm256_setzero_si256();
    const __m256i mid = _mm256_set1_epi16(128);
    __m256i vy = load(y), vb = load(cb), vr = load(cr);
    // Unpacking and packing both work by lanes: the order comes back.
    struct rgb16 lo =
        convert(_mm256_unpacklo_epi8(vy, zero),
                _mm256_sub_epi16(_mm256_unpacklo_epi8(vb, zero), mid),
                _mm256_sub_epi16(_mm256_unpacklo_epi8(vr, zero), mid));
    struct rgb16 hi =
        convert(_mm256_unpackhi_epi8(vy, zero),
                _mm256_sub_epi16(_mm256_unpackhi_epi8(vb, zero), mid),
                _mm256_sub_epi16(_mm256_unpackhi_epi8(vr, zero), mid));

    put_pixels(dst, _mm256_packus_epi16(lo.r, hi.r),
               _mm256_packus_epi16(lo.g, hi.g), _mm256_packus_epi16(lo.b, hi.b),
               all);
}

void cpu_ycc_to_rgb_avx2(uint8_t *dst, const uint8_t *y, const uint8_t *cb,
                         const uint8_t *cr, int w)
{
    int x = 0;

    for (; x + 32 <= w; x += 32)
        convert_pixels(dst + 3 * (size_t)x, y + x, cb + x, cr + x, true);
    for (; x < w; x += 16)
        convert_pixels(dst + 3 * (size_t)x, y + x, cb + x, cr + x, false);
}

#endif
