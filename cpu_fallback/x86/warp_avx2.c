// SPDX-License-Identifier: Apache-2.0
// Eight pixels of RGB at a time, see warp_simd.h.
#if defined(__x86_64__)

#include "cpu_fallback/x86/pixels_avx2.h"

CPU_INLINE VEC lanes(void)
{
    return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
}

// Compares without signs; b is not negative.
CPU_INLINE MASK below(VEC a, VEC b)
{
    return _mm256_andnot_si256(_mm256_srai_epi32(a, 31), less(a, b));
}

CPU_INLINE MASK near_whole(FLT x, float doubt)
{
    FLT off = _mm256_sub_ps(x, _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT |
                                                      _MM_FROUND_NO_EXC));

    off = _mm256_andnot_ps(_mm256_set1_ps(-0.f), off);
    return truth(_mm256_cmp_ps(off, _mm256_set1_ps(doubt), _CMP_LT_OQ));
}

CPU_INLINE unsigned bits_of(MASK m)
{
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(m));
}

// Zero elsewhere.
CPU_INLINE FLT only_ps(MASK m, FLT x)
{
    return _mm256_and_ps(_mm256_castsi256_ps(m), x);
}

// ---- Bytes ------------------------------------------------------------------

CPU_INLINE VEC pixels_at(const uint8_t *from, VEC at, MASK inside, VEC fill)
{
    return _mm256_mask_i32gather_epi32(fill, (const int *)(const void *)from,
                                       at, inside, 1);
}

// The lower and the upper four of eight bytes of each pixel.
struct octets {
    VEC low, high;
};

// Four times eight bytes; of pixels 0, 1, 4, 5 or 2, 3, 6, 7.
CPU_INLINE FLT four_octets(const uint8_t *from, __m128i at)
{
    return _mm256_castsi256_ps(
        _mm256_i32gather_epi64((const long long *)(const void *)from, at, 1));
}

CPU_INLINE struct octets gather(const uint8_t *from, VEC at, MASK inside)
{
    // Where that is not inside it is the first pixel.
    VEC halves = _mm256_permute4x64_epi64(both(at, inside), 0xd8);
    FLT a = four_octets(from, _mm256_castsi256_si128(halves));
    FLT b = four_octets(from, _mm256_extracti128_si256(halves, 1));

    return (struct octets){truth(_mm256_shuffle_ps(a, b, 0x88)),
                           truth(_mm256_shuffle_ps(a, b, 0xdd))};
}

// Byte i of each.
CPU_INLINE FLT byte_of(struct octets o, int i)
{
    VEC word = i < 4 ? o.low : o.high;

    return _mm256_cvtepi32_ps(_mm256_and_si256(
        _mm256_srli_epi32(word, 8 * (i & 3)), _mm256_set1_epi32(255)));
}

#include "cpu_fallback/x86/warp_simd.h"

// ---- Places, in doubles -----------------------------------------------------

struct four {
    __m128i inside, x, y;
    __m128 dx, dy;
};

CPU_INLINE __m256d along(double a, double b, double c, __m256d ox, double oy)
{
    return _mm256_add_pd(_mm256_add_pd(_mm256_mul_pd(_mm256_set1_pd(a), ox),
                                       _mm256_set1_pd(b * oy)),
                         _mm256_set1_pd(c));
}

CPU_INLINE __m256d within_size(__m256d at, int size)
{
    return _mm256_and_pd(_mm256_cmp_pd(at, _mm256_setzero_pd(), _CMP_GE_OQ),
                         _mm256_cmp_pd(at, _mm256_set1_pd(size), _CMP_LT_OQ));
}

CPU_INLINE void split(__m256d at, bool nearest, __m128i *whole, __m128 *part)
{
    __m256d from = nearest ? at : _mm256_sub_pd(at, _mm256_set1_pd(.5));
    __m256d floor = _mm256_floor_pd(from);

    *whole = _mm256_cvttpd_epi32(floor);
    *part = _mm256_cvtpd_ps(_mm256_sub_pd(from, floor));
}

CPU_INLINE struct four four_places(const struct cpu_pixels *src, int x, int y,
                                   const struct hr__warp *warp, bool nearest)
{
    const double *m = warp->m;
    __m256d ox = _mm256_add_pd(_mm256_set1_pd(x),
                               _mm256_setr_pd(.5, 1.5, 2.5, 3.5));
    __m256d sx = along(m[0], m[1], m[2], ox, y + .5);
    __m256d sy = along(m[3], m[4], m[5], ox, y + .5);
    __m256 inside;
    struct four p;

    if (warp->way == HR__WARP_PERSPECTIVE) {
        __m256d under = along(m[6], m[7], 1, ox, y + .5);

        sx = _mm256_div_pd(sx, under);
        sy = _mm256_div_pd(sy, under);
    }
    inside = _mm256_castpd_ps(
        _mm256_and_pd(within_size(sx, src->w), within_size(sy, src->h)));
    p.inside = _mm_castps_si128(_mm_shuffle_ps(_mm256_castps256_ps128(inside),
                                               _mm256_extractf128_ps(inside, 1),
                                               0x88));
    split(sx, nearest, &p.x, &p.dx);
    split(sy, nearest, &p.y, &p.dy);
    return p;
}

CPU_INLINE struct places places_of(const struct cpu_pixels *src, int x, int y,
                                   const struct hr__warp *warp, bool nearest)
{
    struct four a = four_places(src, x, y, warp, nearest);
    struct four b = four_places(src, x + 4, y, warp, nearest);

    return (struct places){.inside = _mm256_set_m128i(b.inside, a.inside),
                           .x = _mm256_set_m128i(b.x, a.x),
                           .y = _mm256_set_m128i(b.y, a.y),
                           .dx = _mm256_set_m128(b.dx, a.dx),
                           .dy = _mm256_set_m128(b.dy, a.dy)};
}

#endif
