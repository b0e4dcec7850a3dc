// SPDX-License-Identifier: Apache-2.0
// color_avx2.c with wider registers; pixels are joined by one look-up per
// register, and the end of a row is a mask. Pure copies (join_rgb, gather) are
// not faster so.
#if defined(__x86_64__)

#include <immintrin.h>

#include "cpu_fallback/cpu_kernels.h"

CPU_INLINE __m512i load(const uint8_t *p)
{
    return _mm512_loadu_si512(p);
}

// 32 samples as 16 bits each.
CPU_INLINE __m512i widen(const uint8_t *p)
{
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)p));
}

// ---- fancy upsampling ------------------------------------------------------

CPU_INLINE __m512i times3(__m512i v)
{
    return _mm512_add_epi16(v, _mm512_add_epi16(v, v));
}

// Bytes: even, odd, even, ..
CPU_INLINE void put_woven(uint8_t *dst, __m512i even, __m512i odd)
{
    _mm512_storeu_si512(dst, _mm512_or_si512(even, _mm512_slli_epi16(odd, 8)));
}

void cpu_upsample_h2v1_avx512(uint8_t *dst, const uint8_t *src, int n)
{
    const __m512i one = _mm512_set1_epi16(1), two = _mm512_set1_epi16(2);

    for (int x = 0; x < n; x += 32) {
        __m512i at = times3(widen(src + x));
        __m512i even = _mm512_add_epi16(widen(src + x - 1), one);
        __m512i odd = _mm512_add_epi16(widen(src + x + 1), two);

        put_woven(dst + 2 * (size_t)x,
                  _mm512_srli_epi16(_mm512_add_epi16(at, even), 2),
                  _mm512_srli_epi16(_mm512_add_epi16(at, odd), 2));
    }
}

void cpu_upsample_h1v2_avx512(uint8_t *dst, const uint8_t *near,
                              const uint8_t *far, int n, bool lower)
{
    const __m512i weights = _mm512_set1_epi16(0x0103);
    const __m512i bias = _mm512_set1_epi16(lower ? 2 : 1);

    for (int x = 0; x < n; x += 64) {
        __m512i a = load(near + x), b = load(far + x);
        __m512i lo = _mm512_maddubs_epi16(_mm512_unpacklo_epi8(a, b), weights);
        __m512i hi = _mm512_maddubs_epi16(_mm512_unpackhi_epi8(a, b), weights);

        lo = _mm512_srli_epi16(_mm512_add_epi16(lo, bias), 2);
        hi = _mm512_srli_epi16(_mm512_add_epi16(hi, bias), 2);
        _mm512_storeu_si512(dst + x, _mm512_packus_epi16(lo, hi));
    }
}

CPU_INLINE __m512i column(const uint8_t *near, const uint8_t *far, int x)
{
    return _mm512_add_epi16(times3(widen(near + x)), widen(far + x));
}

void cpu_upsample_h2v2_avx512(uint8_t *dst, const uint8_t *near,
                              const uint8_t *far, int n)
{
    const __m512i seven = _mm512_set1_epi16(7), eight = _mm512_set1_epi16(8);

    for (int x = 0; x < n; x += 32) {
        __m512i at = times3(column(near, far, x));
        __m512i even = _mm512_add_epi16(column(near, far, x - 1), eight);
        __m512i odd = _mm512_add_epi16(column(near, far, x + 1), seven);

        put_woven(dst + 2 * (size_t)x,
                  _mm512_srli_epi16(_mm512_add_epi16(at, even), 4),
                  _mm512_srli_epi16(_mm512_add_epi16(at, odd), 4));
    }
}

// ---- three rows to pixels --------------------------------------------------

// Byte i of the pixels is channel i % 3 of pixel i / 3; of two registers that
// are looked up together the second begins at 64.
#define BYTE(i) (uint8_t)((i) / 3 + ((i) % 3 == 1 ? 64 : 0))
#define BYTES4(i) BYTE(i), BYTE((i) + 1), BYTE((i) + 2), BYTE((i) + 3)
#define BYTES16(i) BYTES4(i), BYTES4((i) + 4), BYTES4((i) + 8), BYTES4((i) + 12)
#define BYTES64(i) \
    BYTES16(i), BYTES16((i) + 16), BYTES16((i) + 32), BYTES16((i) + 48)
static const uint8_t join_index[192] = {BYTES64(0), BYTES64(64), BYTES64(128)};
#undef BYTES64
#undef BYTES16
#undef BYTES4
#undef BYTE
// Those of them that are channel 2; there the index is of one register.
static const uint64_t join_third[3] = {UINT64_C(0x4924924924924924),
                                       UINT64_C(0x2492492492492492),
                                       UINT64_C(0x9249249249249249)};

// n pixels, at most 64.
CPU_INLINE void put_pixels(uint8_t *dst, __m512i r, __m512i g, __m512i b, int n)
{
    CPU_UNROLL
    for (int k = 0; k < 3; k++) {
        __m512i index = load(join_index + 64 * k), v;
        int left = 3 * n - 64 * k;

        v = _mm512_permutex2var_epi8(r, index, g);
        v = _mm512_mask_permutexvar_epi8(v, join_third[k], index, b);
        if (left >= 64)
            _mm512_storeu_si512(dst + 64 * k, v);
        else if (left > 0)
            _mm512_mask_storeu_epi8(dst + 64 * k, (UINT64_C(1) << left) - 1, v);
    }
}

// ---- YCbCr -----------------------------------------------------------------

struct rgb16 {
    __m512i r, g, b;
};

// ((c x + 2^15) >> 16), see color_avx2.c; x2 = 2x.
CPU_INLINE __m512i product(__m512i x2, int16_t c)
{
    __m512i high = _mm512_mulhi_epi16(x2, _mm512_set1_epi16(c));

    return _mm512_srai_epi16(_mm512_add_epi16(high, _mm512_set1_epi16(1)), 1);
}

// 32 pixels, of chroma what it is above 128.
CPU_INLINE struct rgb16 convert(__m512i y, __m512i b, __m512i r)
{
    // 0.34414 and 0.71414 - 1 with 16 fraction bits; the rest is -r.
    const __m512i weights = _mm512_set1_epi32((18734 << 16) |
                                              (-22554 & 0xffff));
    const __m512i half = _mm512_set1_epi32(32768);
    __m512i r2 = _mm512_add_epi16(r, r), b2 = _mm512_add_epi16(b, b);
    __m512i lo = _mm512_madd_epi16(_mm512_unpacklo_epi16(b, r), weights);
    __m512i hi = _mm512_madd_epi16(_mm512_unpackhi_epi16(b, r), weights);
    struct rgb16 out;

    lo = _mm512_srai_epi32(_mm512_add_epi32(lo, half), 16);
    hi = _mm512_srai_epi32(_mm512_add_epi32(hi, half), 16);
    // 91881 = 65536 + 26345, 116130 = 131072 - 14942
    out.r = _mm512_add_epi16(_mm512_add_epi16(y, r), product(r2, 26345));
    out.g = _mm512_add_epi16(_mm512_sub_epi16(y, r),
                             _mm512_packs_epi32(lo, hi));
    out.b = _mm512_add_epi16(_mm512_add_epi16(y, b2), product(b2, -14942));
    return out;
}

CPU_INLINE void convert_pixels(uint8_t *dst, const uint8_t *y,
                               const uint8_t *cb, const uint8_t *cr, int n)
{
    const __m512i zero = _mm512_setzero_si512();
    const __m512i mid = _mm512_set1_epi16(128);
    __m512i vy = load(y), vb = load(cb), vr = load(cr);
    // Unpacking and packing both work by lanes: the order comes back.
    struct rgb16 lo =
        convert(_mm512_unpacklo_epi8(vy, zero),
                _mm512_sub_epi16(_mm512_unpacklo_epi8(vb, zero), mid),
                _mm512_sub_epi16(_mm512_unpacklo_epi8(vr, zero), mid));
    struct rgb16 hi =
        convert(_mm512_unpackhi_epi8(vy, zero),
                _mm512_sub_epi16(_mm512_unpackhi_epi8(vb, zero), mid),
                _mm512_sub_epi16(_mm512_unpackhi_epi8(vr, zero), mid));

    put_pixels(dst, _mm512_packus_epi16(lo.r, hi.r),
               _mm512_packus_epi16(lo.g, hi.g), _mm512_packus_epi16(lo.b, hi.b),
               n);
}

void cpu_ycc_to_rgb_avx512(uint8_t *dst, const uint8_t *y, const uint8_t *cb,
                           const uint8_t *cr, int w)
{
    int x = 0;

    for (; x + 64 <= w; x += 64)
        convert_pixels(dst + 3 * (size_t)x, y + x, cb + x, cr + x, 64);
    if (x < w)
        convert_pixels(dst + 3 * (size_t)x, y + x, cb + x, cr + x, w - x);
}

#endif
