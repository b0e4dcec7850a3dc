// SPDX-License-Identifier: Apache-2.0
// AVX-512 VBMI: a table of 256 entries is cut into planes, one per byte of
// an entry; a plane is 256 bytes, four registers, and vpermi2b looks up 64
// pixels in two of them. Any table works, and no bit can change on the way.
#if defined(__x86_64__)

#include <immintrin.h>

#include "cpu_fallback/cpu_kernels.h"

struct plane {
    __m512i part[4];
};

// Index bytes b, b + s, b + 2 s, ...
#define I4(b, s) (b), (b) + (s), (b) + 2 * (s), (b) + 3 * (s)
#define I8(b, s) I4(b, s), I4((b) + 4 * (s), s)
#define I16(b, s) I8(b, s), I8((b) + 8 * (s), s)
#define I64(b, s)                                              \
    I16(b, s), I16((b) + 16 * (s), s), I16((b) + 32 * (s), s), \
        I16((b) + 48 * (s), s)

// The order of the pixels in which interleaving the planes inside 128-bit lanes
// gives registers of consecutive pixels.
#define OF_QUARTERS(b) \
    I4(b, 1), I4((b) + 16, 1), I4((b) + 32, 1), I4((b) + 48, 1)
#define OF_HALVES(b) I8(b, 1), I8((b) + 32, 1)
static const uint8_t pixel_order[3][64] = {
    [HR_F32] = {OF_QUARTERS(0), OF_QUARTERS(4), OF_QUARTERS(8),
                OF_QUARTERS(12)},
    [HR_F16] = {OF_HALVES(0), OF_HALVES(8), OF_HALVES(16), OF_HALVES(24)},
    [HR_U8] = {I64(0, 1)},
};

// Selects the even bytes of two registers.
static const uint8_t even_bytes[64] = {I64(0, 2)};

// One R, G, B of 1, 2 or 4 bytes each; G is the second register of a
// vpermi2b, B (from 128 on) is merged in afterwards.
#define PIXEL_1(p) (p), 64 + (p), 128 + (p)
#define PIXEL_2(p) I1_2(2 * (p)), I1_2(64 + 2 * (p)), I1_2(128 + 2 * (p))
#define PIXEL_4(p) I4(4 * (p), 1), I4(64 + 4 * (p), 1), I4(128 + 4 * (p), 1)
#define I1_2(b) (b), (b) + 1
#define P4(f, p) f(p), f((p) + 1), f((p) + 2), f((p) + 3)
#define P16(f, p) P4(f, p), P4(f, (p) + 4), P4(f, (p) + 8), P4(f, (p) + 12)

static const uint8_t interleave_order[3][192] = {
    [HR_F32] = {P16(PIXEL_4, 0)},
    [HR_F16] = {P16(PIXEL_2, 0), P16(PIXEL_2, 16)},
    [HR_U8] = {P16(PIXEL_1, 0), P16(PIXEL_1, 16), P16(PIXEL_1, 32),
               P16(PIXEL_1, 48)},
};

#undef P16
#undef P4
#undef I1_2
#undef PIXEL_4
#undef PIXEL_2
#undef PIXEL_1
#undef OF_HALVES
#undef OF_QUARTERS
#undef I64
#undef I16
#undef I8
#undef I4

// The first n of 64, n from minus infinity to infinity.
CPU_INLINE __mmask64 first(long n)
{
    return n >= 64 ? ~(__mmask64)0 : n <= 0 ? 0 : ((__mmask64)1 << n) - 1;
}

// ---- planes ----

CPU_INLINE void planes_f32(struct plane plane[4], const uint8_t bytes[4][256])
{
    CPU_UNROLL
    for (int i = 0; i < 16; i++)
        plane[i / 4].part[i % 4] = _mm512_loadu_si512(bytes[i / 4] +
                                                      i % 4 * 64);
}

CPU_INLINE void planes_f16(struct plane plane[2], const uint16_t *table)
{
    const __m512i even = _mm512_loadu_si512(even_bytes);
    const __m512i odd = _mm512_add_epi8(even, _mm512_set1_epi8(1));
    CPU_UNROLL
    for (int i = 0; i < 4; i++) {
        __m512i a = _mm512_loadu_si512(table + 64 * i);
        __m512i b = _mm512_loadu_si512(table + 64 * i + 32);
        plane[0].part[i] = _mm512_permutex2var_epi8(a, even, b);
        plane[1].part[i] = _mm512_permutex2var_epi8(a, odd, b);
    }
}

CPU_INLINE void planes_u8(struct plane *plane, const uint8_t *table)
{
    CPU_UNROLL
    for (int i = 0; i < 4; i++)
        plane->part[i] = _mm512_loadu_si512(table + 64 * i);
}

CPU_INLINE __m512i look_up(const struct plane *plane, __m512i v)
{
    __m512i low = _mm512_permutex2var_epi8(plane->part[0], v, plane->part[1]);
    __m512i high = _mm512_permutex2var_epi8(plane->part[2], v, plane->part[3]);
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(v), low, high);
}

// ---- one channel ----

// How to get 64 pixels of a channel, in the order a type wants them.
struct picker {
    __m512i from;  // byte of the 64 or 192 source bytes
    __mmask64 third;
};

CPU_INLINE struct picker picker_of(int channels, int c, enum hr_dtype type)
{
    __m512i p = _mm512_loadu_si512(pixel_order[type]);
    if (channels == 1)
        return (struct picker){p, 0};
    p = _mm512_add_epi8(_mm512_add_epi8(p, p), p);
    p = _mm512_add_epi8(p, _mm512_set1_epi8((char)c));
    return (struct picker){p, _mm512_movepi8_mask(p)};
}

// n pixels; only their bytes are read.
CPU_INLINE __m512i pick(struct picker at, const uint8_t *src, int channels,
                        long n)
{
    __m512i a = _mm512_maskz_loadu_epi8(first(n * channels), src);
    if (channels == 1)
        return _mm512_permutexvar_epi8(at.from, a);
    __m512i b = _mm512_maskz_loadu_epi8(first(n * 3 - 64), src + 64);
    __m512i c = _mm512_maskz_loadu_epi8(first(n * 3 - 128), src + 128);
    __m512i v = _mm512_permutex2var_epi8(a, at.from, b);
    return _mm512_mask_permutexvar_epi8(v, at.third, at.from, c);
}

CPU_INLINE void write_f32(float *dst, const struct plane plane[4], __m512i v,
                          long n)
{
    __m512i b0 = look_up(&plane[0], v), b1 = look_up(&plane[1], v);
    __m512i b2 = look_up(&plane[2], v), b3 = look_up(&plane[3], v);
    __m512i b01_lo = _mm512_unpacklo_epi8(b0, b1);
    __m512i b01_hi = _mm512_unpackhi_epi8(b0, b1);
    __m512i b23_lo = _mm512_unpacklo_epi8(b2, b3);
    __m512i b23_hi = _mm512_unpackhi_epi8(b2, b3);
    const __m512i out[4] = {
        _mm512_unpacklo_epi16(b01_lo, b23_lo),
        _mm512_unpackhi_epi16(b01_lo, b23_lo),
        _mm512_unpacklo_epi16(b01_hi, b23_hi),
        _mm512_unpackhi_epi16(b01_hi, b23_hi),
    };
    CPU_UNROLL
    for (int i = 0; i < 4; i++) {
        if (n >= 64)
            _mm512_storeu_si512(dst + 16 * i, out[i]);
        else
            _mm512_mask_storeu_epi32(dst + 16 * i, (__mmask16)first(n - 16 * i),
                                     out[i]);
    }
}

CPU_INLINE void write_f16(uint16_t *dst, const struct plane plane[2], __m512i v,
                          long n)
{
    __m512i b0 = look_up(&plane[0], v), b1 = look_up(&plane[1], v);
    _mm512_mask_storeu_epi16(dst, (__mmask32)first(n),
                             _mm512_unpacklo_epi8(b0, b1));
    _mm512_mask_storeu_epi16(dst + 32, (__mmask32)first(n - 32),
                             _mm512_unpackhi_epi8(b0, b1));
}

CPU_INLINE void channel_f32(float *dst, size_t next, const uint8_t *src, int w,
                            int channels, int c, const uint8_t bytes[4][256])
{
    struct plane plane[4];
    planes_f32(plane, bytes);
    struct picker at = picker_of(channels, c, HR_F32);
    long x = 0;
    for (; x + 64 <= w; x += 64) {
        cpu_expect(dst + x, next, 4 * 64);
        write_f32(dst + x, plane, pick(at, src + x * channels, channels, 64),
                  64);
    }
    if (x < w) {
        cpu_expect(dst + x, next, 4 * (size_t)(w - x));
        write_f32(dst + x, plane, pick(at, src + x * channels, channels, w - x),
                  w - x);
    }
}

CPU_INLINE void channel_f16(uint16_t *dst, size_t next, const uint8_t *src,
                            int w, int channels, int c, const uint16_t *table)
{
    struct plane plane[2];
    planes_f16(plane, table);
    struct picker at = picker_of(channels, c, HR_F16);
    for (long x = 0; x < w; x += 64) {
        cpu_expect(dst + x, next, 2 * 64);
        write_f16(dst + x, plane, pick(at, src + x * channels, channels, w - x),
                  w - x);
    }
}

CPU_INLINE void channel_u8(uint8_t *dst, size_t next, const uint8_t *src, int w,
                           int channels, int c, const struct hr__table *table)
{
    struct plane plane;
    planes_u8(&plane, table->u8[c]);
    struct picker at = picker_of(channels, c, HR_U8);
    for (long x = 0; x < w; x += 64) {
        __m512i v = pick(at, src + x * channels, channels, w - x);
        if (!table->u8_identity)
            v = look_up(&plane, v);
        cpu_expect(dst + x, next, 64);
        _mm512_mask_storeu_epi8(dst + x, first(w - x), v);
    }
}

// (If nothing is next, it is this row's memory, which is written anyway.)
CPU_INLINE void channel_row(void *dst, size_t next, const uint8_t *src, int w,
                            int channels, int c, enum hr_dtype type,
                            const struct hr__table *table)
{
    switch (type) {
    case HR_F32:
        channel_f32(dst, next, src, w, channels, c, table->f32_bytes[c]);
        break;
    case HR_F16:
        channel_f16(dst, next, src, w, channels, c, table->f16[c]);
        break;
    case HR_U8:
        channel_u8(dst, next, src, w, channels, c, table);
        break;
    }
}

static void rgb_rows(void *const dst[3], size_t next, const uint8_t *src, int w,
                     enum hr_dtype type, const struct hr__table *table)
{
    for (int c = 0; c < 3; c++)
        channel_row(dst[c], next, src, w, 3, c, type, table);
}

// ---- interleaved RGB: planes of a block, then put together ----

#define BLOCK 256  // pixels

CPU_INLINE __m512i merge(const uint8_t *order, __m512i r, __m512i g, __m512i b)
{
    __m512i from = _mm512_loadu_si512(order);
    return _mm512_mask_permutexvar_epi8(_mm512_permutex2var_epi8(r, from, g),
                                        _mm512_movepi8_mask(from), from, b);
}

static void interleave(uint8_t *dst, uint8_t planes[3][4 * BLOCK],
                       long plane_bytes, enum hr_dtype type)
{
    const uint8_t *order = interleave_order[type];
    for (long x = 0; x < plane_bytes; x += 64, dst += 192) {
        __m512i r = _mm512_loadu_si512(planes[0] + x);
        __m512i g = _mm512_loadu_si512(planes[1] + x);
        __m512i b = _mm512_loadu_si512(planes[2] + x);
        long n = 3 * (plane_bytes - x);
        for (int i = 0; i < 3; i++)
            _mm512_mask_storeu_epi8(dst + 64 * i, first(n - 64 * i),
                                    merge(order + 64 * i, r, g, b));
    }
}

static void rgb_pixels(uint8_t *dst, const uint8_t *src, int w,
                       enum hr_dtype type, const struct hr__table *table)
{
    static const int sizes[] = {
        [HR_F32] = 4,
        [HR_F16] = 2,
        [HR_U8] = 1,
    };
    _Alignas(64) uint8_t planes[3][4 * BLOCK];
    void *const to[3] = {planes[0], planes[1], planes[2]};
    for (int x = 0; x < w; x += BLOCK) {
        int n = w - x < BLOCK ? w - x : BLOCK;
        rgb_rows(to, 0, src + (size_t)x * 3, n, type, table);
        interleave(dst + (size_t)x * 3 * sizes[type], planes,
                   (long)n * sizes[type], type);
    }
}

void cpu_store_avx512(void *const dst[3], size_t next, const uint8_t *src,
                      int w, int channels, bool planar, enum hr_dtype type,
                      const struct hr__table *table)
{
    if (channels == 3 && !planar)
        cpu_expect_row(dst, next, w, channels, planar, type);
    if (channels == 1)
        channel_row(dst[0], next, src, w, 1, 0, type, table);
    else if (planar)
        rgb_rows(dst, next, src, w, type, table);
    else if (type == HR_U8 && table->u8_identity)
        memmove(dst[0], src, (size_t)w * 3);
    else
        rgb_pixels(dst[0], src, w, type, table);
}

#endif
