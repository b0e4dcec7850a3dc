// SPDX-License-Identifier: Apache-2.0
// Packing with AVX2. Coefficients that are not 0 are gathered row by row: the
// 8 bits of the mask that belong to a row choose a shuffle of its 8 bytes.
#include "cpu_fallback/coefficients.h"

#include <immintrin.h>

#include "cpu_fallback/cpu_kernels.h"

// gather[m]: the numbers of the bits that are set in m, a byte each, low
// first. What comes behind them is written over by the next row.
#define AT(m, i)                                                          \
    ((m) >> (i)&1                                                         \
         ? UINT64_C(i) << 8 * __builtin_popcount((m) & ((1u << (i)) - 1)) \
         : 0)
#define ONE(m)                                                         \
    (AT(m, 0) | AT(m, 1) | AT(m, 2) | AT(m, 3) | AT(m, 4) | AT(m, 5) | \
     AT(m, 6) | AT(m, 7))
#define FOUR(m) ONE(m), ONE(m + 1u), ONE(m + 2u), ONE(m + 3u)
#define SIXTEEN(m) FOUR(m), FOUR(m + 4u), FOUR(m + 8u), FOUR(m + 12u)
#define MANY(m) SIXTEEN(m), SIXTEEN(m + 16u), SIXTEEN(m + 32u), SIXTEEN(m + 48u)
static const uint64_t gather[256] = {
    MANY(0u),
    MANY(64u),
    MANY(128u),
    MANY(192u),
};
#undef AT
#undef ONE
#undef FOUR
#undef SIXTEEN
#undef MANY

// A block in registers: two rows in each, DC cleared.
struct block {
    __m256i rows[4];
    const int16_t *data;
    __m256i bytes[2];  // four rows in each, saturated
    uint64_t mask;     // of what is not 0
};

static inline __m256i load(const void *p)
{
    return _mm256_loadu_si256(p);
}

static inline uint64_t zeros(__m256i low, __m256i high)
{
    __m256i zero = _mm256_setzero_si256();
    uint32_t a = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, zero));
    uint32_t b = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, zero));

    return a | (uint64_t)b << 32;
}

// Saturating keeps what is not 0 from becoming 0. packs works in halves.
static inline __m256i narrow(__m256i a, __m256i b)
{
    return _mm256_permute4x64_epi64(_mm256_packs_epi16(a, b), 0xd8);
}

static inline void block_load(struct block *b, const int16_t *data)
{
    const __m256i no_dc = _mm256_setr_epi16(0, -1, -1, -1, -1, -1, -1, -1, -1,
                                            -1, -1, -1, -1, -1, -1, -1);

    b->data = data;
    for (int i = 0; i < 4; i++)
        b->rows[i] = load(data + 16 * i);
    b->rows[0] = _mm256_and_si256(b->rows[0], no_dc);
    b->bytes[0] = narrow(b->rows[0], b->rows[1]);
    b->bytes[1] = narrow(b->rows[2], b->rows[3]);
    b->mask = ~zeros(b->bytes[0], b->bytes[1]);
}

// Not 0 in each element that is none of -127 .. 127.
static inline __m256i excess(__m256i row)
{
    __m256i up = _mm256_add_epi16(row, _mm256_set1_epi16(127));

    return _mm256_subs_epu16(up, _mm256_set1_epi16(254));
}

static inline uint32_t sum_epi32(__m128i v)
{
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4e));
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(v);
}

// Sum of |value x quantizer|, for values of 8 bits and quantizers of 8. A sum
// that saturates is over the range as well.
static inline uint32_t weight8(const struct block *b,
                               const struct cpu_coef_sink *sink)
{
    __m256i low = _mm256_maddubs_epi16(load(sink->quant8),
                                       _mm256_abs_epi8(b->bytes[0]));
    __m256i high = _mm256_maddubs_epi16(load(sink->quant8 + 32),
                                        _mm256_abs_epi8(b->bytes[1]));
    __m256i sum = _mm256_adds_epi16(low, high);
    __m128i half = _mm_adds_epi16(_mm256_castsi256_si128(sum),
                                  _mm256_extracti128_si256(sum, 1));

    return sum_epi32(_mm_madd_epi16(half, _mm_set1_epi16(1)));
}

// The same for any values; a product over 16 bits counts as the largest.
static uint32_t weight16(const struct block *b,
                         const struct cpu_coef_sink *sink)
{
    const __m256i low16 = _mm256_set1_epi32(0xffff);
    __m256i sum = _mm256_setzero_si256(), zero = sum;

    for (int i = 0; i < 4; i++) {
        __m256i a = _mm256_abs_epi16(b->rows[i]);
        __m256i q = load(sink->quant + 16 * i);
        __m256i fits = _mm256_cmpeq_epi16(_mm256_mulhi_epu16(a, q), zero);
        __m256i over = _mm256_xor_si256(fits, _mm256_set1_epi16(-1));

        sum = _mm256_adds_epu16(sum, _mm256_or_si256(_mm256_mullo_epi16(a, q),
                                                     over));
    }
    sum = _mm256_add_epi32(_mm256_and_si256(sum, low16),
                           _mm256_srli_epi32(sum, 16));
    return sum_epi32(_mm_add_epi32(_mm256_castsi256_si128(sum),
                                   _mm256_extracti128_si256(sum, 1)));
}

// Two rows; writes up to 8 bytes behind its values.
static inline uint8_t *gather_rows(uint8_t *to, __m128i rows, uint32_t mask)
{
    uint32_t even = mask & 255, odd = mask >> 8 & 255;
    __m128i shuffle = _mm_loadl_epi64((const __m128i *)&gather[even]);

    _mm_storel_epi64((__m128i *)to, _mm_shuffle_epi8(rows, shuffle));
    to += __builtin_popcount(even);
    shuffle = _mm_loadl_epi64((const __m128i *)&gather[odd]);
    rows = _mm_srli_si128(rows, 8);
    _mm_storel_epi64((__m128i *)to, _mm_shuffle_epi8(rows, shuffle));
    return to + __builtin_popcount(odd);
}

static inline uint8_t *gather_block(uint8_t *to, const struct block *b)
{
    for (int i = 0; i < 2; i++) {
        uint32_t mask = (uint32_t)(b->mask >> 32 * i);

        to = gather_rows(to, _mm256_castsi256_si128(b->bytes[i]), mask);
        to = gather_rows(to, _mm256_extracti128_si256(b->bytes[i], 1),
                         mask >> 16);
    }
    return to;
}

static inline void copy64(uint8_t *to, const uint8_t *from)
{
    __m256i a = load(from), b = load(from + 32);

    _mm256_storeu_si256((__m256i *)to, a);
    _mm256_storeu_si256((__m256i *)(to + 32), b);
}

// All values in their saturated form, cut at those that need an escape.
static uint8_t *gather_escapes(uint8_t *to, const struct block *b)
{
    uint8_t plain[64 + 64];
    const uint8_t *from = plain;
    const uint8_t *end = gather_block(plain, b);
    uint64_t big = ~zeros(narrow(excess(b->rows[0]), excess(b->rows[1])),
                          narrow(excess(b->rows[2]), excess(b->rows[3])));

    for (; big; big &= big - 1) {
        int i = __builtin_ctzll(big);
        uint64_t before = b->mask & ((UINT64_C(1) << i) - 1);
        const uint8_t *next = plain + __builtin_popcountll(before);

        copy64(to, from);
        to += next - from;
        *to++ = (uint8_t)CPU_COEF_ESCAPE;
        memcpy(to, &b->data[i], sizeof(b->data[i]));
        to += sizeof(b->data[i]);
        from = next + 1;
    }
    copy64(to, from);
    return to + (end - from);
}

static inline void pack_block(struct cpu_coef_sink *sink,
                              struct cpu_coef_block *out, const int16_t *data)
{
    struct block b;
    __m256i any;
    uint32_t sum;
    uint8_t *end;
    int dc = data[0];

    block_load(&b, data);
    any = _mm256_or_si256(_mm256_or_si256(excess(b.rows[0]), excess(b.rows[1])),
                          _mm256_or_si256(excess(b.rows[2]),
                                          excess(b.rows[3])));
    if (__builtin_expect(_mm256_testz_si256(any, any), 1)) {
        sum = sink->wide ? weight16(&b, sink) : weight8(&b, sink);
        end = gather_block(sink->to, &b);
    } else {
        sum = weight16(&b, sink);
        end = gather_escapes(sink->to, &b);
    }
    *out = (struct cpu_coef_block){
        .values = sink->at,
        .dc = (int16_t)dc,
        .mask = {(uint32_t)b.mask, (uint32_t)(b.mask >> 32)},
    };
    // |dc| <= 2^15, a quantizer < 2^16, sum < 2^22: no overflow.
    sum += (uint32_t)(dc < 0 ? -dc : dc) * sink->quant[0];
    sink->range |= sum > CPU_COEF_RANGE;
    sink->at += (uint32_t)(end - sink->to);
    sink->to = end;
}

void cpu_pack_blocks_avx2(struct cpu_coef_sink *sink,
                          struct cpu_coef_block *out,
                          const int16_t (*blocks)[64], int n)
{
    struct cpu_coef_sink s = *sink;  // its fields in registers

    for (int i = 0; i < n; i++)
        pack_block(&s, &out[i], blocks[i]);
    *sink = s;
}
