// SPDX-License-Identifier: Apache-2.0
// Lanes in one register, whose memory gathers and scatters reach; and what goes
// on around the steps.
#include "cpu_fallback/jpeg/lanes.h"

#include <immintrin.h>

#include "cpu_fallback/cpu_kernels.h"

#define VEC __m512i
#define MASK __mmask16
#define OP(name) _mm512_##name
#define SI(name) _mm512_##name##_si512
#define LOAD(from) _mm512_load_si512(from)
#define STORE(to, x) _mm512_store_si512(to, x)

enum { LANES = 16, SETS = 1 };

// A gather takes the lanes that it does not load from its destination, and so
// waits for that register: it is cleared first. This is written out, because
// compilers drop the clearing where all lanes are loaded.
#define GATHER(name, result, from, at, mask) \
    __asm__("vpxord %0, %0, %0\n\t" name     \
            : "=&v"(result), "+&Yk"(mask)    \
            : "v"(at), "r"(from)             \
            : "memory")

CPU_INLINE VEC entries(VEC at, const uint32_t *tables, MASK mask)
{
    VEC result;

    GATHER("vpgatherdd (%3, %2, 4), %0%{%1%}", result, tables, at, mask);
    return result;
}

CPU_INLINE VEC bytes8(__m256i at, const uint8_t *streams)
{
    const VEC swap = _mm512_broadcast_i32x4(
        _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8));
    __mmask8 all = 0xff;
    VEC result;

    GATHER("vpgatherdq (%3, %2, 1), %0%{%1%}", result, streams, at, all);
    return _mm512_shuffle_epi8(result, swap);
}

CPU_INLINE void bytes(VEC out[2], VEC at, const uint8_t *streams)
{
    out[0] = bytes8(_mm512_castsi512_si256(at), streams);
    out[1] = bytes8(_mm512_extracti64x4_epi64(at, 1), streams);
}

CPU_INLINE VEC odd_places(void)
{
    return _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27,
                             29, 31);
}

CPU_INLINE VEC even_places(void)
{
    return _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26,
                             28, 30);
}

CPU_INLINE VEC below(VEC size)
{
    return _mm512_permutexvar_epi32(
        size, _mm512_setr_epi32(0, -1, -3, -7, -15, -31, -63, -127, -255, -511,
                                -1023, -2047, -4095, -8191, -16383, -32767));
}

// As 32 bits: the coefficient after it is zero yet.
CPU_INLINE void put(const struct cpu_lane_steps *s, VEC at, VEC value,
                    MASK stores)
{
    _mm512_mask_i32scatter_epi32(
        (char *)s->blocks - 2, stores, at,
        _mm512_and_si512(value, _mm512_set1_epi32(0xffff)), 1);
}

#include "cpu_fallback/x86/lanes_simd.h"

static size_t unstuff(uint8_t *dst, size_t capacity, const uint8_t **src,
                      const uint8_t *end)
{
    const uint8_t *p = *src;
    uint64_t after = 0;  // bit 0: the byte before was 0xff
    size_t n = 0;

    while (n < capacity && p < end) {
        size_t left = (size_t)(end - p);
        uint64_t valid = left < 64 ? ~(~UINT64_C(0) << left) : ~UINT64_C(0);
        VEC x = _mm512_maskz_loadu_epi8(valid, p);
        uint64_t ff = _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8(-1));
        uint64_t zero = _mm512_testn_epi8_mask(x, x) & valid;
        uint64_t behind = ff << 1 | after, marker = behind & ~zero;

        if (__builtin_expect(marker != 0 || left < 64, 0))
            break;
        _mm_prefetch((const char *)p + 1024, _MM_HINT_T0);
        _mm512_storeu_si512(dst + n,
                            _mm512_maskz_compress_epi8(~(behind & zero), x));
        n += 64 - (size_t)_mm_popcnt_u64(behind & zero);
        after = ff >> 63;
        p += 64;
    }
    // The rest, or the bytes before a marker, go one by one. (A 0xff whose zero
    // has not come is given back.)
    if (after) {
        p--;
        n--;
    }
    for (int i = 0; i < 65 && n < capacity && p < end; i++) {
        if (*p == 0xff && (end - p < 2 || p[1]))
            break;
        dst[n++] = *p;
        p += *p == 0xff ? 2 : 1;
    }
    *src = p;
    return n;
}

static size_t stuffed(const uint8_t *p, size_t n)
{
    const VEC ff = _mm512_set1_epi8(-1);
    size_t count = 0;

    for (; n; n -= n < 64 ? n : 64, p += 64) {
        uint64_t valid = n < 64 ? ~(~UINT64_C(0) << n) : ~UINT64_C(0);
        VEC x = _mm512_maskz_loadu_epi8(valid, p);

        count += (size_t)_mm_popcnt_u64(_mm512_cmpeq_epi8_mask(x, ff));
    }
    return count;
}

// Where in zigzag order the coefficients of natural order are.
static const _Alignas(64) uint16_t places[64] = {
    0,  1,  5,  6,  14, 15, 27, 28, 2,  4,  7,  13, 16, 26, 29, 42,
    3,  8,  12, 17, 25, 30, 41, 43, 9,  11, 18, 24, 31, 40, 44, 53,
    10, 19, 23, 32, 39, 45, 52, 54, 20, 22, 33, 38, 46, 51, 55, 60,
    21, 34, 37, 47, 50, 56, 59, 61, 35, 36, 48, 49, 57, 58, 62, 63,
};

// `to` is the line's first block.
CPU_INLINE int spread_line(int16_t (*to)[64], int16_t (*block)[64], int first,
                           int count, int x, int n, int dc)
{
    const VEC upper = _mm512_load_si512(places);
    const VEC lower = _mm512_load_si512(places + 32);

    for (int i = 0; i < n; i++, x++) {
        VEC a = _mm512_load_si512(block[i]),
            b = _mm512_load_si512(block[i] + 32);
        VEC c = _mm512_permutex2var_epi16(a, upper, b);

        dc += block[i][0];
        _mm512_store_si512(block[i], _mm512_setzero_si512());
        _mm512_store_si512(block[i] + 32, _mm512_setzero_si512());
        if ((unsigned)(x - first) >= (unsigned)count)
            continue;
        _mm512_store_si512(to[x - first],
                           _mm512_mask_set1_epi16(c, 1, (int16_t)dc));
        _mm512_store_si512(to[x - first] + 32,
                           _mm512_permutex2var_epi16(a, lower, b));
    }
    return dc;
}

static int spread(const struct cpu_entropy_lines *lines, int16_t (*block)[64],
                  const struct cpu_lane_mcus *m, int dc)
{
    int16_t(*to)[64] = lines->blocks;

    for (int i = 0; i < m->mcus; i++, block += m->units)
        for (int k = 0; k < m->v; k++)
            dc = spread_line(to + k * lines->pitch, block + k * m->h,
                             lines->first, lines->count, i * m->h, m->h, dc);
    return dc;
}

const struct cpu_lane_ops cpu_lane_ops_avx512 = {
    .steps = {[CPU_LANES_WIDE] = steps,
              [CPU_LANES_HALVES] = cpu_lane_steps_half_avx512},
    .unstuff = unstuff,
    .stuffed = stuffed,
    .spread = spread,
};
