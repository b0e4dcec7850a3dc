// SPDX-License-Identifier: Apache-2.0
// Packed lines with AVX2 and BMI2: a row of a block, 8 coefficients of a byte,
// is what pdep and pext move between its list and its places.
//
// Nibbles are made bytes by vector instructions and fetched again 8 at a time.
// The reader does that for 16 blocks before it fetches anything: loads of what
// was just stored in wider pieces would wait.
#include "cpu_fallback/packed/line.h"

#include <immintrin.h>

// spread[m]: byte i is all ones if bit i of m is set, else 0.
#define BYTE(m, i) ((m) >> (i)&1 ? UINT64_C(255) << 8 * (i) : 0)
#define ONE(m)                                                        \
    (BYTE(m, 0) | BYTE(m, 1) | BYTE(m, 2) | BYTE(m, 3) | BYTE(m, 4) | \
     BYTE(m, 5) | BYTE(m, 6) | BYTE(m, 7))
#define FOUR(m) ONE(m), ONE(m + 1u), ONE(m + 2u), ONE(m + 3u)
#define SIXTEEN(m) FOUR(m), FOUR(m + 4u), FOUR(m + 8u), FOUR(m + 12u)
#define MANY(m) SIXTEEN(m), SIXTEEN(m + 16u), SIXTEEN(m + 32u), SIXTEEN(m + 48u)
static const uint64_t spread[256] = {
    MANY(0u),
    MANY(64u),
    MANY(128u),
    MANY(192u),
};
#undef BYTE
#undef ONE
#undef FOUR
#undef SIXTEEN
#undef MANY

CPU_INLINE void store64(void *p, uint64_t bits)
{
    memcpy(p, &bits, sizeof(bits));
}

CPU_INLINE unsigned popcount(uint64_t bits)
{
    return (unsigned)_mm_popcnt_u64(bits);
}

CPU_INLINE uint64_t byte_mask(__m256i low, __m256i high)
{
    return (uint32_t)_mm256_movemask_epi8(low) |
           (uint64_t)(uint32_t)_mm256_movemask_epi8(high) << 32;
}

// ---- Reading ----------------------------------------------------------------

enum { CHUNK = 16 };

// The result of the first pass for a chunk of blocks.
struct chunk {
    _Alignas(32) uint64_t mask[CHUNK];  // where coefficients are that are not 0
    uint64_t escapes[CHUNK];            // and which of these are bytes
    // Coefficients in the rows before each row: all, and the ones stored as
    // bytes.
    uint8_t value_at[CHUNK][8], byte_at[CHUNK][8];
    uint8_t values[CHUNK + 1][64];  // as nibbles; 0 for an escape. The last 8
                                    // may be fetched from behind them
    const uint8_t *bytes[CHUNK];    // those of a block
    const uint8_t *end[CHUNK];      // of its payload
    int16_t dc[CHUNK];
};

// The nibbles of 16 bytes, sign extended; 0 stays 0.
CPU_INLINE __m256i nibbles(const uint8_t *p)
{
    const __m256i sign = _mm256_set1_epi8(8);
    __m256i v = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p));

    v = _mm256_and_si256(_mm256_or_si256(v, _mm256_slli_epi16(v, 4)),
                         _mm256_set1_epi8(15));
    return _mm256_sub_epi8(_mm256_xor_si256(v, sign), sign);
}

// First pass.
CPU_INLINE void open_block(struct chunk *c, int i, const uint8_t *p,
                           unsigned rows, int len)
{
    const __m256i zero = _mm256_setzero_si256();
    uint64_t mask = _pdep_u64(load64(p), spread[rows]), zeros;
    unsigned n = popcount(mask);
    __m256i low, high;

    c->end[i] = p + len;
    p += popcount(rows);
    low = nibbles(p);
    high = nibbles(p + 16);
    _mm256_store_si256((__m256i *)c->values[i], low);
    _mm256_store_si256((__m256i *)(c->values[i] + 32), high);
    zeros = byte_mask(_mm256_cmpeq_epi8(low, zero),
                      _mm256_cmpeq_epi8(high, zero));
    c->mask[i] = mask;
    c->escapes[i] = _pdep_u64(_bzhi_u64(zeros, n), mask);
    c->bytes[i] = p + (n + 1) / 2;
}

// Counts, for four blocks, the bits of their masks that are 1 before each byte.
// Counting them one by one would be half of the second pass's work, for all its
// scalar instructions of this kind share one port of Intel's cores.
CPU_INLINE void count_before(uint8_t (*before)[8], const uint64_t *masks)
{
    const __m256i ones = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    const __m256i low = _mm256_set1_epi8(15);
    __m256i v = _mm256_load_si256((const __m256i *)masks), n;

    n = _mm256_add_epi8(
        _mm256_shuffle_epi8(ones, _mm256_and_si256(v, low)),
        _mm256_shuffle_epi8(ones,
                            _mm256_and_si256(_mm256_srli_epi16(v, 4), low)));
    n = _mm256_slli_epi64(n, 8);
    n = _mm256_add_epi8(n, _mm256_slli_epi64(n, 8));
    n = _mm256_add_epi8(n, _mm256_slli_epi64(n, 16));
    n = _mm256_add_epi8(n, _mm256_slli_epi64(n, 32));
    _mm256_store_si256((__m256i *)before, n);
}

// Sets the coefficients whose byte is 0: they have words. Few blocks have any.
static void set_words(int16_t *block, uint64_t escapes, const uint8_t *p)
{
    for (uint64_t m = escapes; m; m &= m - 1) {
        int16_t *to = &block[__builtin_ctzll(m)];

        if (!*to) {
            *to = packed_word(p);
            p += 2;
        }
    }
}

// Second pass.
CPU_INLINE void get_block(int16_t *block, const struct chunk *c, int i)
{
    const uint8_t *bytes = c->bytes[i], *words;
    uint64_t mask = c->mask[i], escapes = c->escapes[i];

    CPU_UNROLL for (int r = 0; r < 8; r++)
    {
        uint64_t row = _pdep_u64(load64(c->values[i] + c->value_at[i][r]),
                                 spread[mask >> 8 * r & 255]) |
                       _pdep_u64(load64(bytes + c->byte_at[i][r]),
                                 spread[escapes >> 8 * r & 255]);

        _mm_store_si128((__m128i *)(block + 8 * r),
                        _mm_cvtepi8_epi16(_mm_cvtsi64_si128((long long)row)));
    }
    words = bytes + popcount(escapes);
    if (__builtin_expect(words != c->end[i], 0))
        set_words(block, escapes, words);
    block[0] = c->dc[i];
}

// The scalar loop of the DCs stays beside the vectors of the first pass.
void cpu_unpack_line_avx2(int16_t (*blocks)[64], const uint8_t *segment, int n,
                          int first, int count)
{
    struct line l = packed_line(segment, n);
    struct chunk c;
    int dc = 0, i = 0;

    for (; i < first; i++) {
        dc = packed_dc(&l, i, dc);
        l.payload += l.len[i];
    }
    memset(c.mask, 0, sizeof(c.mask));
    memset(c.escapes, 0, sizeof(c.escapes));
    while (count) {
        int k = count < CHUNK ? count : CHUNK;

        for (int j = 0; j < k; j++, i++) {
            c.dc[j] = (int16_t)(dc = packed_dc(&l, i, dc));
            open_block(&c, j, l.payload, l.rows[i], l.len[i]);
            l.payload += l.len[i];
        }
        for (int j = 0; j < k; j += 4) {
            count_before(c.value_at + j, c.mask + j);
            count_before(c.byte_at + j, c.escapes + j);
        }
        for (int j = 0; j < k; j++)
            get_block(blocks[j], &c, j);
        blocks += k;
        count -= k;
    }
}

// ---- Writing ----------------------------------------------------------------

// A block as bytes in natural order, 0 where a value has more than 8 bits.
struct block {
    _Alignas(32) uint8_t bytes[64];
    uint64_t mask, wide;  // what is not 0; what has more than 8 bits
};

// Four rows. packs works in halves.
CPU_INLINE __m256i narrow(__m256i a, __m256i b)
{
    return _mm256_permute4x64_epi64(_mm256_packs_epi16(a, b), 0xd8);
}

CPU_INLINE __m256i fits(__m256i row)
{
    __m256i again = _mm256_srai_epi16(_mm256_slli_epi16(row, 8), 8);

    return _mm256_cmpeq_epi16(again, row);
}

CPU_INLINE void load_half(uint8_t bytes[32], __m256i a, __m256i b,
                          uint32_t *zero, uint32_t *fit)
{
    __m256i v = narrow(a, b), ok = narrow(fits(a), fits(b));

    *zero = (uint32_t)_mm256_movemask_epi8(
        _mm256_cmpeq_epi8(v, _mm256_setzero_si256()));
    *fit = (uint32_t)_mm256_movemask_epi8(ok);
    _mm256_store_si256((__m256i *)bytes, _mm256_and_si256(v, ok));
}

CPU_INLINE void load_block(struct block *b, const int16_t *block)
{
    const __m256i no_dc = _mm256_setr_epi16(0, -1, -1, -1, -1, -1, -1, -1, -1,
                                            -1, -1, -1, -1, -1, -1, -1);
    const __m256i *rows = (const __m256i *)block;
    uint32_t zero[2], fit[2];

    load_half(b->bytes, _mm256_and_si256(_mm256_load_si256(rows), no_dc),
              _mm256_load_si256(rows + 1), &zero[0], &fit[0]);
    load_half(b->bytes + 32, _mm256_load_si256(rows + 2),
              _mm256_load_si256(rows + 3), &zero[1], &fit[1]);
    b->mask = ~(zero[0] | (uint64_t)zero[1] << 32);
    b->wide = ~(fit[0] | (uint64_t)fit[1] << 32);
}

// The bytes of which a bit is set, one behind the other; up to 8 more are
// written. Ends behind the last.
CPU_INLINE uint8_t *gather(uint8_t *to, const uint8_t *bytes, uint64_t mask)
{
    CPU_UNROLL for (int r = 0; r < 8; r++, bytes += 8, mask >>= 8)
    {
        store64(to, _pext_u64(load64(bytes), spread[mask & 255]));
        to += popcount(mask & 255);
    }
    return to;
}

// 32 values that are nibbles, or 0, to 16 bytes.
CPU_INLINE __m128i pair(__m256i v)
{
    v = _mm256_maddubs_epi16(_mm256_and_si256(v, _mm256_set1_epi8(15)),
                             _mm256_set1_epi16(0x1001));
    v = _mm256_permute4x64_epi64(_mm256_packus_epi16(v, v), 0xd8);
    return _mm256_castsi256_si128(v);
}

// The nibbles of 32 values, and which of them are none, or 0.
CPU_INLINE uint32_t put_nibbles(uint8_t *to, const uint8_t *values)
{
    __m256i v = _mm256_load_si256((const __m256i *)values);
    __m256i high = _mm256_cmpgt_epi8(v, _mm256_set1_epi8(7));
    __m256i low = _mm256_cmpgt_epi8(_mm256_set1_epi8(-8), v);

    v = _mm256_andnot_si256(_mm256_or_si256(low, high), v);
    _mm_storeu_si128((__m128i *)to, pair(v));
    return (uint32_t)_mm256_movemask_epi8(
        _mm256_cmpeq_epi8(v, _mm256_setzero_si256()));
}

CPU_INLINE uint8_t *put_block(uint8_t *to, uint8_t *rows, const int16_t *block)
{
    _Alignas(32) uint8_t values[64 + 8] = {0};
    struct block b;
    uint64_t escapes, zero;
    unsigned n, present;

    load_block(&b, block);
    n = popcount(b.mask);
    zero = (uint64_t)_mm_cvtsi128_si64(_mm_cmpeq_epi8(
        _mm_cvtsi64_si128((long long)b.mask), _mm_setzero_si128()));
    present = (unsigned)_pext_u64(~zero, UINT64_C(0x0101010101010101));
    *rows = (uint8_t)present;
    store64(to, _pext_u64(b.mask, ~zero));
    to += popcount(present);
    gather(values, b.bytes, b.mask);
    escapes = put_nibbles(to, values);
    escapes |= (uint64_t)put_nibbles(to + 16, values + 32) << 32;
    to += (n + 1) / 2;
    to = gather(to, values, _bzhi_u64(escapes, n));
    for (uint64_t m = b.wide; __builtin_expect(m != 0, 0); m &= m - 1, to += 2)
        memcpy(to, &block[__builtin_ctzll(m)], 2);
    return to;
}

size_t cpu_pack_line_avx2(uint8_t *segment, const int16_t (*blocks)[64], int n)
{
    return packed_put_line(segment, blocks, n, put_block);
}
