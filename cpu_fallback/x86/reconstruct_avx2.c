// SPDX-License-Identifier: Apache-2.0
// The inverse DCT with AVX2: two blocks next to each other at a time, one in
// each lane; the pass itself is reconstruct_simd.h. Four columns at a time,
// later four rows: pass 1 takes the columns in the order 0 4 2 6, 7 1 3 5, so
// that those which pass 2 wants as pairs come out beside each other.
#if defined(__x86_64__)

#include <immintrin.h>

#include "cpu_fallback/cpu_kernels.h"

#define VEC __m256i
#define OP(name) _mm256_##name

// sum + the products of each pair and the weights.
CPU_INLINE __m256i dot(__m256i sum, __m256i pair, __m256i weights)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pair, weights));
}

// The products added to the sum, and subtracted from it.
CPU_INLINE void dots(__m256i *plus, __m256i *minus, __m256i sum, __m256i pair,
                     __m256i weights)
{
    __m256i products = _mm256_madd_epi16(pair, weights);

    *plus = _mm256_add_epi32(sum, products);
    *minus = _mm256_sub_epi32(sum, products);
}

#include "cpu_fallback/x86/reconstruct_simd.h"

// ---- blocks without anything below their first row -------------------------

static bool is_flat(const int16_t block[64])
{
    __m256i any = _mm256_castsi128_si256(
        _mm_load_si128((const __m128i *)(block + 8)));

    for (int i = 16; i < 64; i += 16)
        any = _mm256_or_si256(any,
                              _mm256_load_si256((const __m256i *)(block + i)));
    return _mm256_testz_si256(any, any);
}

// C scales their row by a shift instead of pass 1. Without other rows pass 1
// is the same times 4, but saturates: so what the shift would lose goes first.
static __m256i flattened(__m256i row, const int16_t (*blocks)[64])
{
    __m256i low = _mm256_srai_epi16(_mm256_slli_epi16(row, 2), 2);

    if (is_flat(blocks[0]))
        row = _mm256_blend_epi32(row, low, 0x0f);
    if (is_flat(blocks[1]))
        row = _mm256_blend_epi32(row, low, 0xf0);
    return row;
}

// Does row 0 have more than 14 bits anywhere?
CPU_INLINE bool is_wide(__m256i row)
{
    return !_mm256_testz_si256(_mm256_add_epi16(row, _mm256_set1_epi16(0x2000)),
                               _mm256_set1_epi16((short)0xc000));
}

// ---- steps -----------------------------------------------------------------

// Row y of two blocks, dequantized, its columns in the order of pass 1.
CPU_INLINE __m256i row_of(const int16_t (*blocks)[64], int y,
                          const uint16_t *quant)
{
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 8, 9, 4, 5, 12, 13, 14, 15, 2, 3, 6, 7, 10, 11));
    __m128i q = _mm_loadu_si128((const __m128i *)(quant + 8 * y));
    __m128i a = _mm_load_si128((const __m128i *)(blocks[0] + 8 * y));
    __m128i b = _mm_load_si128((const __m128i *)(blocks[1] + 8 * y));
    __m256i v = _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);

    v = _mm256_mullo_epi16(v, _mm256_broadcastsi128_si256(q));
    return _mm256_shuffle_epi8(v, order);
}

// The input of pass 1: the first four columns and the last four.
CPU_INLINE void rows_of(struct pairs in[2], const int16_t (*blocks)[64],
                        const uint16_t *quant)
{
    __m256i v[8];

    CPU_UNROLL
    for (int y = 0; y < 8; y++)
        v[y] = row_of(blocks, y, quant);
    if (__builtin_expect(is_wide(v[0]), 0))
        v[0] = flattened(v[0], blocks);
    in[0].p04 = _mm256_unpacklo_epi16(v[0], v[4]);
    in[1].p04 = _mm256_unpackhi_epi16(v[0], v[4]);
    in[0].p26 = _mm256_unpacklo_epi16(v[2], v[6]);
    in[1].p26 = _mm256_unpackhi_epi16(v[2], v[6]);
    in[0].p71 = _mm256_unpacklo_epi16(v[7], v[1]);
    in[1].p71 = _mm256_unpackhi_epi16(v[7], v[1]);
    in[0].p35 = _mm256_unpacklo_epi16(v[3], v[5]);
    in[1].p35 = _mm256_unpackhi_epi16(v[3], v[5]);
}

// The rows that pass 1 made of four columns, as two pairs of columns: of even
// rows and of odd ones.
CPU_INLINE void columns_of(__m256i first[2], __m256i second[2],
                           const __m256i v[8])
{
    __m256i a = two_rows(v), b = two_rows(v + 2);
    __m256i c = two_rows(v + 4), d = two_rows(v + 6);
    __m256i ab[2] = {_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)};
    __m256i cd[2] = {_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d)};

    CPU_UNROLL
    for (int i = 0; i < 2; i++) {
        first[i] = _mm256_unpacklo_epi64(ab[i], cd[i]);
        second[i] = _mm256_unpackhi_epi64(ab[i], cd[i]);
    }
}

// Words of 32 bits have 14 bits left after the shift: two columns fit beside
// each other without saturation.
CPU_INLINE __m256i two_columns(const __m256i *v)
{
    return _mm256_blend_epi16(_mm256_srai_epi32(v[0], SHIFT2),
                              _mm256_srai_epi16(v[1], SHIFT2 - 16), 0xaa);
}

// Two rows of 16 bytes, two rows apart: the lanes are blocks.
CPU_INLINE void put_rows(uint8_t *dst, size_t stride, __m256i rows)
{
    rows = _mm256_permute4x64_epi64(rows, 0xd8);
    _mm_storeu_si128((__m128i *)dst, _mm256_castsi256_si128(rows));
    _mm_storeu_si128((__m128i *)(dst + 2 * stride),
                     _mm256_extracti128_si256(rows, 1));
}

// The samples of rows 0, 2, 4 and 6 from dst.
CPU_INLINE void put_samples(uint8_t *dst, size_t stride, const __m256i v[8])
{
    const __m256i middle = _mm256_set1_epi8(-128);
    __m256i a = _mm256_packs_epi16(two_columns(v), two_columns(v + 4));
    __m256i b = _mm256_packs_epi16(two_columns(v + 2), two_columns(v + 6));
    __m256i left, right;

    a = _mm256_xor_si256(a, middle);
    b = _mm256_xor_si256(b, middle);
    left = _mm256_unpacklo_epi16(a, b);
    right = _mm256_unpackhi_epi16(a, b);
    put_rows(dst, stride, _mm256_unpacklo_epi32(left, right));
    put_rows(dst + 4 * stride, stride, _mm256_unpackhi_epi32(left, right));
}

CPU_INLINE void two_blocks(uint8_t *dst, size_t stride,
                           const int16_t (*blocks)[64], const uint16_t *quant)
{
    struct pairs in[2];
    __m256i v[8], p04[2], p26[2], p71[2], p35[2];

    rows_of(in, blocks, quant);
    pass(v, in[0], SHIFT1);
    columns_of(p04, p26, v);
    pass(v, in[1], SHIFT1);
    columns_of(p71, p35, v);
    CPU_UNROLL
    for (int i = 0; i < 2; i++) {
        pass(v, (struct pairs){p04[i], p26[i], p71[i], p35[i]}, SHIFT2);
        put_samples(dst + (size_t)i * stride, stride, v);
    }
}

void cpu_reconstruct_avx2(uint8_t *dst, size_t stride,
                          const int16_t (*blocks)[64], int n,
                          const uint16_t quant[64])
{
    for (int i = 0; i < n; i += 2)
        two_blocks(dst + 8 * (size_t)i, stride, blocks + i, quant);
}

#endif
