// SPDX-License-Identifier: Apache-2.0
// Sixteen pixels of RGB at a time, see warp_simd.h.
#if defined(__x86_64__)

#include "cpu_fallback/x86/pixels_avx512.h"

// (without optimisation only a constant expression is an immediate)
#define DOWN (_MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)
#define NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

CPU_INLINE VEC lanes(void)
{
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
                             15);
}

// Compares without signs.
CPU_INLINE MASK below(VEC a, VEC b)
{
    return _mm512_cmplt_epu32_mask(a, b);
}

CPU_INLINE MASK near_whole(FLT x, float doubt)
{
    FLT off = _mm512_sub_ps(x, _mm512_roundscale_ps(x, NEAREST));

    return _mm512_cmp_ps_mask(_mm512_abs_ps(off), _mm512_set1_ps(doubt),
                              _CMP_LT_OQ);
}

CPU_INLINE unsigned bits_of(MASK m)
{
    return m;
}

// Zero elsewhere.
CPU_INLINE FLT only_ps(MASK m, FLT x)
{
    return _mm512_maskz_mov_ps(m, x);
}

// ---- Bytes ------------------------------------------------------------------

CPU_INLINE VEC pixels_at(const uint8_t *from, VEC at, MASK inside, VEC fill)
{
    return _mm512_mask_i32gather_epi32(fill, inside, at, from, 1);
}

// Sixteen times eight bytes.
struct octets {
    __m512i first, second;
};

CPU_INLINE struct octets gather(const uint8_t *from, __m512i at,
                                __mmask16 inside)
{
    const __m512i zero = _mm512_setzero_si512();

    return (struct octets){
        _mm512_mask_i32gather_epi64(zero, (__mmask8)inside,
                                    _mm512_castsi512_si256(at), from, 1),
        _mm512_mask_i32gather_epi64(zero, (__mmask8)(inside >> 8),
                                    _mm512_extracti64x4_epi64(at, 1), from, 1)};
}

// Byte i of each.
CPU_INLINE __m512 byte_of(struct octets o, int i)
{
    const __m512i first = _mm512_setr_epi32(0, 8, 16, 24, 32, 40, 48, 56, 64,
                                            72, 80, 88, 96, 104, 112, 120);

    return _mm512_cvtepi32_ps(_mm512_maskz_permutex2var_epi8(
        0x1111111111111111ull, o.first,
        _mm512_add_epi32(first, _mm512_set1_epi32(i)), o.second));
}

#include "cpu_fallback/x86/warp_simd.h"

// ---- Places, in doubles -----------------------------------------------------

struct eight {
    __mmask8 inside;
    __m256i x, y;
    __m256 dx, dy;
};

CPU_INLINE __m512d along(double a, double b, double c, __m512d ox, double oy)
{
    return _mm512_add_pd(_mm512_add_pd(_mm512_mul_pd(_mm512_set1_pd(a), ox),
                                       _mm512_set1_pd(b * oy)),
                         _mm512_set1_pd(c));
}

CPU_INLINE __mmask8 within(__m512d at, int size)
{
    return _mm512_cmp_pd_mask(at, _mm512_setzero_pd(), _CMP_GE_OQ) &
           _mm512_cmp_pd_mask(at, _mm512_set1_pd(size), _CMP_LT_OQ);
}

CPU_INLINE void split(__m512d at, bool nearest, __m256i *whole, __m256 *part)
{
    __m512d from = nearest ? at : _mm512_sub_pd(at, _mm512_set1_pd(.5));
    __m512d floor = _mm512_roundscale_pd(from, DOWN);

    *whole = _mm512_cvttpd_epi32(floor);
    *part = _mm512_cvtpd_ps(_mm512_sub_pd(from, floor));
}

CPU_INLINE struct eight eight_places(const struct cpu_pixels *src, int x, int y,
                                     const struct hr__warp *warp, bool nearest)
{
    const double *m = warp->m;
    const __m512d steps = _mm512_setr_pd(.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5);
    __m512d ox = _mm512_add_pd(_mm512_set1_pd(x), steps);
    __m512d sx = along(m[0], m[1], m[2], ox, y + .5);
    __m512d sy = along(m[3], m[4], m[5], ox, y + .5);
    struct eight p;

    if (warp->way == HR__WARP_PERSPECTIVE) {
        __m512d under = along(m[6], m[7], 1, ox, y + .5);

        sx = _mm512_div_pd(sx, under);
        sy = _mm512_div_pd(sy, under);
    }
    p.inside = within(sx, src->w) & within(sy, src->h);
    split(sx, nearest, &p.x, &p.dx);
    split(sy, nearest, &p.y, &p.dy);
    return p;
}

CPU_INLINE __m512i join(__m256i a, __m256i b)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}

CPU_INLINE __m512 join_ps(__m256 a, __m256 b)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1);
}

CPU_INLINE struct places places_of(const struct cpu_pixels *src, int x, int y,
                                   const struct hr__warp *warp, bool nearest)
{
    struct eight a = eight_places(src, x, y, warp, nearest);
    struct eight b = eight_places(src, x + 8, y, warp, nearest);

    return (struct places){.inside = (__mmask16)(a.inside | (unsigned)b.inside
                                                                << 8),
                           .x = join(a.x, b.x),
                           .y = join(a.y, b.y),
                           .dx = join_ps(a.dx, b.dx),
                           .dy = join_ps(a.dy, b.dy)};
}

#endif
