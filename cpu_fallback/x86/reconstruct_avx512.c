// SPDX-License-Identifier: Apache-2.0
// The inverse DCT with AVX-512: four blocks next to each other at a time, the
// pass itself is reconstruct_simd.h. A register of pairs belongs to two blocks
// and all their columns, later all their rows.
#if defined(__x86_64__)

#include <immintrin.h>

#include "cpu_fallback/cpu_kernels.h"

#define VEC __m512i
#define OP(name) _mm512_##name

// sum + the products of each pair and the weights.
CPU_INLINE __m512i dot(__m512i sum, __m512i pair, __m512i weights)
{
    return _mm512_dpwssd_epi32(sum, pair, weights);
}

// The products added to the sum, and subtracted from it: no weight is -32768.
CPU_INLINE void dots(__m512i *plus, __m512i *minus, __m512i sum, __m512i pair,
                     __m512i weights)
{
    *plus = dot(sum, pair, weights);
    *minus = dot(sum, pair, _mm512_sub_epi16(_mm512_setzero_si512(), weights));
}

#include "cpu_fallback/x86/reconstruct_simd.h"

// ---- orders ----------------------------------------------------------------

// Look-ups of 32 words in two registers, of which the second begins at 32.
struct order {
    uint16_t word[32];
};

// Pairs of the words from a on and from b on: 8 columns of two rows.
#define PAIR(a, b, i) (a) + (i), (b) + (i)
#define PAIRS(a, b)                                                            \
    PAIR(a, b, 0), PAIR(a, b, 1), PAIR(a, b, 2), PAIR(a, b, 3), PAIR(a, b, 4), \
        PAIR(a, b, 5), PAIR(a, b, 6), PAIR(a, b, 7)
// From rows 0 to 3 and 4 to 7 of a block.
static const struct order rows_even = {{PAIRS(0, 32), PAIRS(16, 48)}};
static const struct order rows_odd = {{PAIRS(56, 8), PAIRS(24, 40)}};
#undef PAIRS
#undef PAIR

// Where column x of a row is: rows are packed in twos, by lanes, two of a lane
// for each of two blocks.
#define AT(row, block, x) \
    (row) / 2 * 32 + (block)*16 + (x) / 4 * 8 + (row) % 2 * 4 + (x) % 4
#define PAIR(a, b, row, block) AT(row, block, a), AT(row, block, b)
#define PAIRS(a, b)                                                         \
    PAIR(a, b, 0, 0), PAIR(a, b, 0, 1), PAIR(a, b, 1, 0), PAIR(a, b, 1, 1), \
        PAIR(a, b, 2, 0), PAIR(a, b, 2, 1), PAIR(a, b, 3, 0), PAIR(a, b, 3, 1)
static const struct order columns_even = {{PAIRS(0, 4), PAIRS(2, 6)}};
static const struct order columns_odd = {{PAIRS(7, 1), PAIRS(3, 5)}};
#undef PAIRS
#undef PAIR
#undef AT

// Samples, in words of two columns: of lanes that hold columns 0, 1 and 4, 5
// of four rows (of one block or the other), and the same with 2, 3 and 6, 7.
#define ROW(at) (at), (at) + 32, (at) + 4, (at) + 36
#define ROWS(lane)                                             \
    ROW(8 * (lane)), ROW(8 * (lane) + 1), ROW(8 * (lane) + 2), \
        ROW(8 * (lane) + 3)
static const struct order samples_low = {{ROWS(0), ROWS(1)}};
static const struct order samples_high = {{ROWS(2), ROWS(3)}};
#undef ROWS
#undef ROW

CPU_INLINE __m512i look_up(__m512i a, __m512i b, const struct order *order)
{
    return _mm512_permutex2var_epi16(a, _mm512_loadu_si512(order), b);
}

CPU_INLINE __m512i low_halves(__m512i a, __m512i b)
{
    return _mm512_shuffle_i64x2(a, b, 0x44);
}

CPU_INLINE __m512i high_halves(__m512i a, __m512i b)
{
    return _mm512_shuffle_i64x2(a, b, 0xee);
}

// ---- blocks without anything below their first row -------------------------

// The words of pairs that belong to such blocks, of two.
static __mmask32 flat_words(const int16_t (*blocks)[64])
{
    __mmask32 words = 0;

    for (int i = 0; i < 2; i++) {
        __m512i a = _mm512_load_si512(blocks[i]);
        __m512i b = _mm512_load_si512(blocks[i] + 32);

        if (!_mm512_mask_test_epi32_mask(0xfff0, a, a) &&
            !_mm512_test_epi32_mask(b, b))
            words |= (__mmask32)0xffff << 16 * i;
    }
    return words;
}

// C scales these by a shift instead of pass 1. Without other rows pass 1 is
// the same times 4, but saturates: so what the shift would lose goes first.
// Apart from the steps: what it reads would take registers from them.
__attribute__((cold, noinline)) static __m512i flattened(
    __m512i p04, const int16_t (*blocks)[64])
{
    return _mm512_mask_srai_epi16(p04, flat_words(blocks),
                                  _mm512_slli_epi16(p04, 2), 2);
}

// Does an input of row 0 have more than 14 bits?
CPU_INLINE bool is_wide(__m512i p04, __m512i q04)
{
    const __m512i bias = _mm512_set1_epi16(0x2000);
    __m512i any = _mm512_or_si512(_mm512_add_epi16(p04, bias),
                                  _mm512_add_epi16(q04, bias));

    return _mm512_test_epi32_mask(any, _mm512_set1_epi32(0xc000));
}

// ---- steps -----------------------------------------------------------------

// Two blocks, dequantized.
CPU_INLINE struct pairs rows_of(const int16_t (*blocks)[64], __m512i quant_a,
                                __m512i quant_b)
{
    __m512i even[2], odd[2];

    CPU_UNROLL
    for (int i = 0; i < 2; i++) {
        __m512i a = _mm512_load_si512(blocks[i]);
        __m512i b = _mm512_load_si512(blocks[i] + 32);

        a = _mm512_mullo_epi16(a, quant_a);
        b = _mm512_mullo_epi16(b, quant_b);
        even[i] = look_up(a, b, &rows_even);
        odd[i] = look_up(a, b, &rows_odd);
    }
    return (struct pairs){
        low_halves(even[0], even[1]),
        high_halves(even[0], even[1]),
        low_halves(odd[0], odd[1]),
        high_halves(odd[0], odd[1]),
    };
}

// The rows that pass 1 made, as pairs of columns.
CPU_INLINE struct pairs columns_of(const __m512i v[8])
{
    __m512i even[2], odd[2];

    CPU_UNROLL
    for (int i = 0; i < 2; i++) {
        __m512i a = two_rows(v + 4 * i), b = two_rows(v + 4 * i + 2);

        even[i] = look_up(a, b, &columns_even);
        odd[i] = look_up(a, b, &columns_odd);
    }
    return (struct pairs){
        low_halves(even[0], even[1]),
        high_halves(even[0], even[1]),
        low_halves(odd[0], odd[1]),
        high_halves(odd[0], odd[1]),
    };
}

// Words of 32 bits have 14 bits left after the shift: two columns fit beside
// each other without saturation.
CPU_INLINE __m512i two_columns(const __m512i *v)
{
    return _mm512_mask_srai_epi16(_mm512_srai_epi32(v[0], SHIFT2), 0xaaaaaaaa,
                                  v[1], SHIFT2 - 16);
}

// The samples of two blocks, 16 bytes to a row.
CPU_INLINE void samples_of(__m512i rows[2], const __m512i v[8])
{
    const __m512i middle = _mm512_set1_epi8(-128);
    __m512i a = _mm512_packs_epi16(two_columns(v), two_columns(v + 4));
    __m512i b = _mm512_packs_epi16(two_columns(v + 2), two_columns(v + 6));

    a = _mm512_xor_si512(a, middle);
    b = _mm512_xor_si512(b, middle);
    rows[0] = look_up(a, b, &samples_low);
    rows[1] = look_up(a, b, &samples_high);
}

CPU_INLINE void put_rows(uint8_t *dst, size_t stride, __m512i rows)
{
    _mm256_storeu_si256((__m256i *)dst, _mm512_castsi512_si256(rows));
    _mm256_storeu_si256((__m256i *)(dst + stride),
                        _mm512_extracti64x4_epi64(rows, 1));
}

CPU_INLINE void four_blocks(uint8_t *dst, size_t stride,
                            const int16_t (*blocks)[64], __m512i quant_a,
                            __m512i quant_b)
{
    const __m512i upper = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i lower = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    struct pairs in[2] = {rows_of(blocks, quant_a, quant_b),
                          rows_of(blocks + 2, quant_a, quant_b)};
    __m512i v[8], rows[2][2];

    if (__builtin_expect(is_wide(in[0].p04, in[1].p04), 0)) {
        in[0].p04 = flattened(in[0].p04, blocks);
        in[1].p04 = flattened(in[1].p04, blocks + 2);
    }
    // One pair of blocks after the other in each stage, so that neither waits
    // for its own results.
    CPU_UNROLL
    for (int i = 0; i < 2; i++) {
        pass(v, in[i], SHIFT1);
        in[i] = columns_of(v);
    }
    CPU_UNROLL
    for (int i = 0; i < 2; i++) {
        pass(v, in[i], SHIFT2);
        samples_of(rows[i], v);
    }
    CPU_UNROLL
    for (int i = 0; i < 2; i++) {
        __m512i a = rows[0][i], b = rows[1][i];

        put_rows(dst + 4 * (size_t)i * stride, stride,
                 _mm512_permutex2var_epi64(a, upper, b));
        put_rows(dst + (4 * (size_t)i + 2) * stride, stride,
                 _mm512_permutex2var_epi64(a, lower, b));
    }
}

void cpu_reconstruct_avx512(uint8_t *dst, size_t stride,
                            const int16_t (*blocks)[64], int n,
                            const uint16_t quant[64])
{
    const __m512i quant_a = _mm512_loadu_si512(quant);
    const __m512i quant_b = _mm512_loadu_si512(quant + 32);

    for (int i = 0; i < n; i += 4)
        four_blocks(dst + 8 * (size_t)i, stride, blocks + i, quant_a, quant_b);
}

#endif
