// SPDX-License-Identifier: Apache-2.0
// Sixteen pixels of RGB at a time. Coordinates are doubles as in warp.c. Weights
// and sums of the filters are float32; where such a result is so close to a
// whole number that doubles could come to another byte, warp.c makes the pixel
// again. (All samples equal are exact with any weights.)
#if defined(__x86_64__)

#include "cpu_fallback/x86/pixels_avx512.h"

// (without optimisation only a constant expression is an immediate)
#define DOWN (_MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)
#define NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

// Places of sixteen output pixels in the source.
struct places {
    __mmask16 inside;
    __m512i x, y;   // of the pixel, or of the upper left one of four
    __m512 dx, dy;  // from its centre
};

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

CPU_INLINE __m512i clamped(__m512i at, int size)
{
    return _mm512_min_epi32(_mm512_max_epi32(at, _mm512_setzero_si512()),
                            _mm512_set1_epi32(size - 1));
}

// Bytes from the source's first to pixel (x, y).
CPU_INLINE __m512i offset_of(const struct cpu_pixels *src, __m512i x, __m512i y)
{
    __m512i x3 = _mm512_add_epi32(x, _mm512_add_epi32(x, x));

    return _mm512_add_epi32(
        _mm512_mullo_epi32(y, _mm512_set1_epi32((int)src->stride)), x3);
}

CPU_INLINE __m512i fill_of(const struct hr__warp *warp)
{
    return _mm512_set1_epi32(warp->fill[0] | warp->fill[1] << 8 |
                             warp->fill[2] << 16);
}

// ---- Nearest ----------------------------------------------------------------

CPU_INLINE void put_nearest(uint8_t *dst, const struct cpu_pixels *src,
                            __m512i x, __m512i y, __mmask16 inside, int left,
                            __m512i fill)
{
    cpu_put_lanes(dst,
                  _mm512_mask_i32gather_epi32(
                      fill, inside, offset_of(src, x, y), src->data, 1),
                  cpu_bytes_of(left));
}

static void nearest_fixed(uint8_t *dst, const struct cpu_pixels *src, int w,
                          int y, const struct hr__warp *warp)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
                                           12, 13, 14, 15);
    const __m512i width = _mm512_set1_epi32(src->w), fill = fill_of(warp);
    const __m512i height = _mm512_set1_epi32(src->h);
    const int32_t *a = warp->fixed;
    uint32_t x0 = (uint32_t)a[2] + (uint32_t)y * (uint32_t)a[1];
    uint32_t y0 = (uint32_t)a[5] + (uint32_t)y * (uint32_t)a[4];
    __m512i by_x = _mm512_mullo_epi32(lane, _mm512_set1_epi32(a[0]));
    __m512i by_y = _mm512_mullo_epi32(lane, _mm512_set1_epi32(a[3]));

    for (int x = 0; x < w; x += 16, dst += 48) {
        uint32_t sx = x0 + (uint32_t)x * (uint32_t)a[0];
        uint32_t sy = y0 + (uint32_t)x * (uint32_t)a[3];
        __m512i xi = _mm512_srai_epi32(
            _mm512_add_epi32(by_x, _mm512_set1_epi32((int)sx)), 16);
        __m512i yi = _mm512_srai_epi32(
            _mm512_add_epi32(by_y, _mm512_set1_epi32((int)sy)), 16);

        put_nearest(dst, src, xi, yi,
                    _mm512_cmplt_epu32_mask(xi, width) &
                        _mm512_cmplt_epu32_mask(yi, height),
                    w - x, fill);
    }
}

static void nearest_doubles(uint8_t *dst, const struct cpu_pixels *src, int w,
                            int y, const struct hr__warp *warp)
{
    for (int x = 0; x < w; x += 16, dst += 48) {
        struct places p = places_of(src, x, y, warp, true);

        put_nearest(dst, src, p.x, p.y, p.inside, w - x, fill_of(warp));
    }
}

// ---- Filters ----------------------------------------------------------------

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

CPU_INLINE __mmask16 differ(__m512 a, __m512 b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_OQ);
}

struct made {
    __m512i bytes;    // three in each lane
    __mmask16 again;  // pixels that doubles must make
};

// Adds channel c to what was made. mixed: pixels whose samples are not equal.
CPU_INLINE void add_channel(struct made *to, int c, __m512 value,
                            __mmask16 mixed, float doubt)
{
    const __m512i most = _mm512_set1_epi32(255), zero = _mm512_setzero_si512();
    __m512 off = _mm512_sub_ps(value, _mm512_roundscale_ps(value, NEAREST));
    __m512i byte = _mm512_cvttps_epi32(value);

    byte = _mm512_max_epi32(_mm512_min_epi32(byte, most), zero);
    to->again |= _mm512_mask_cmp_ps_mask(mixed, _mm512_abs_ps(off),
                                         _mm512_set1_ps(doubt), _CMP_LT_OQ);
    to->bytes = _mm512_or_si512(to->bytes,
                                _mm512_slli_epi32(byte, (unsigned)(8 * c)));
}

// Weights are 2^-25 off at most, and each of the sums of up to 255 is rounded by
// 2^-17: 3.8e-5 in all, less than 1/4096.
CPU_INLINE struct made bilinear(const struct cpu_pixels *src,
                                const struct places *p)
{
    struct made made = {.bytes = _mm512_setzero_si512()};
    __m512i next = _mm512_add_epi32(p->y, _mm512_set1_epi32(1));
    __m512i x = clamped(p->x, src->w);
    struct octets upper =
        gather(src->data, offset_of(src, x, clamped(p->y, src->h)), p->inside);
    struct octets lower =
        gather(src->data, offset_of(src, x, clamped(next, src->h)), p->inside);
    // Beside an edge both are the same pixel.
    __mmask16 pairs = _mm512_cmpge_epi32_mask(p->x, _mm512_setzero_si512()) &
                      _mm512_cmplt_epi32_mask(p->x,
                                              _mm512_set1_epi32(src->w - 1));
    __m512 dx = _mm512_maskz_mov_ps(pairs, p->dx);

    for (int c = 0; c < 3; c++) {
        __m512 a = byte_of(upper, c), b = byte_of(upper, c + 3);
        __m512 d = byte_of(lower, c), e = byte_of(lower, c + 3);
        __m512 top = _mm512_fmadd_ps(_mm512_sub_ps(b, a), dx, a);
        __m512 bottom = _mm512_fmadd_ps(_mm512_sub_ps(e, d), dx, d);

        add_channel(&made, c,
                    _mm512_fmadd_ps(_mm512_sub_ps(bottom, top), p->dy, top),
                    (__mmask16)(differ(a, b) | differ(d, e) | differ(a, d)),
                    1.f / 4096);
    }
    return made;
}

CPU_INLINE __m512 cubic(const __m512 v[4], __m512 d)
{
    __m512 ba = _mm512_sub_ps(v[1], v[0]), dc = _mm512_sub_ps(v[3], v[2]);
    __m512 p4 = _mm512_add_ps(ba, dc);
    __m512 p3 = _mm512_sub_ps(_mm512_setzero_ps(), _mm512_add_ps(p4, ba));
    __m512 p2 = _mm512_sub_ps(v[2], v[0]);

    return _mm512_fmadd_ps(d,
                           _mm512_fmadd_ps(d, _mm512_fmadd_ps(d, p4, p3), p2),
                           v[1]);
}

// Four pixels of one row: their channels, and where these are not equal.
struct cubic_row {
    __m512 value[3], first[3];
    __mmask16 mixed[3];
};

CPU_INLINE struct cubic_row cubic_row(const struct cpu_pixels *src, __m512i x,
                                      __m512i y, __mmask16 inside, __m512 dx)
{
    __m512i at = offset_of(src, x, clamped(y, src->h));
    struct octets left = gather(src->data, at, inside);
    struct octets right = gather(src->data + 6, at, inside);
    struct cubic_row row;

    for (int c = 0; c < 3; c++) {
        __m512 v[4] = {byte_of(left, c), byte_of(left, c + 3),
                       byte_of(right, c), byte_of(right, c + 3)};

        row.value[c] = cubic(v, dx);
        row.first[c] = v[0];
        row.mixed[c] = (__mmask16)(differ(v[0], v[1]) | differ(v[0], v[2]) |
                                   differ(v[0], v[3]));
    }
    return row;
}

// Weights are 1.25 and -.25 in all at most, so values are within [-64, 319] after
// one pass and [-160, 415] after both, and the steps between below 1200. Their
// roundings come to 4.4e-4, less than 1/1024. Beside the left and right edges
// samples repeat; doubles make those pixels.
CPU_INLINE struct made bicubic(const struct cpu_pixels *src,
                               const struct places *p)
{
    const __m512i one = _mm512_set1_epi32(1);
    __mmask16 apart = _mm512_cmpge_epi32_mask(p->x, one) &
                      _mm512_cmplt_epi32_mask(p->x,
                                              _mm512_set1_epi32(src->w - 2));
    struct made made = {.bytes = _mm512_setzero_si512(),
                        .again = (__mmask16)(p->inside & ~apart)};
    __mmask16 inside = p->inside & apart;
    __m512i x = _mm512_sub_epi32(p->x, one);
    struct cubic_row rows[4];

    for (int k = 0; k < 4; k++)
        rows[k] = cubic_row(src, x,
                            _mm512_add_epi32(p->y, _mm512_set1_epi32(k - 1)),
                            inside, p->dx);
    for (int c = 0; c < 3; c++) {
        __m512 v[4];
        __mmask16 mixed = 0;

        for (int k = 0; k < 4; k++) {
            v[k] = rows[k].value[c];
            mixed |= rows[k].mixed[c] |
                     differ(rows[0].first[c], rows[k].first[c]);
        }
        add_channel(&made, c, cubic(v, p->dy), mixed & inside, 1.f / 1024);
    }
    return made;
}

CPU_INLINE void filtered(uint8_t *dst, const struct cpu_pixels *src, int w,
                         int y, const struct hr__warp *warp, bool is_cubic)
{
    for (int x = 0; x < w; x += 16, dst += 48) {
        struct places p = places_of(src, x, y, warp, false);
        struct made made = {.bytes = fill_of(warp)};
        __mmask16 again;

        if (p.inside)
            made = is_cubic ? bicubic(src, &p) : bilinear(src, &p);
        cpu_put_lanes(
            dst, _mm512_mask_mov_epi32(fill_of(warp), p.inside, made.bytes),
            cpu_bytes_of(w - x));
        again = made.again & p.inside;
        for (; again; again &= (__mmask16)(again - 1)) {
            int k = __builtin_ctz(again);

            if (x + k < w)
                cpu_warp_pixel_c(dst + 3 * k, src, x + k, y, warp);
        }
    }
}

void cpu_warp_avx512(uint8_t *dst, const struct cpu_pixels *src, int w, int y,
                     const struct hr__warp *warp)
{
    // Gathers have offsets of 32 bits.
    bool small = src->stride * (size_t)src->h < INT32_MAX;

    if (src->channels != 3 || !small || warp->way == HR__WARP_SUMS)
        cpu_warp_c(dst, src, w, y, warp);
    else if (warp->way == HR__WARP_FIXED)
        nearest_fixed(dst, src, w, y, warp);
    else if (warp->filter == HR_NEAREST)
        nearest_doubles(dst, src, w, y, warp);
    else if (warp->filter == HR_BICUBIC)
        filtered(dst, src, w, y, warp, true);
    else
        filtered(dst, src, w, y, warp, false);
}

#endif
