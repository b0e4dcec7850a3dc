// SPDX-License-Identifier: Apache-2.0
// Packed lines with AVX-512 VBMI2: lists of bytes are expanded to their places,
// and compressed from there, 64 at a time. A 0 in a list means "look into the
// next one", so expanding the next list into the zeros of this one needs to
// know nothing else; only words, which few blocks have, are set one by one.
#include "cpu_fallback/packed/line.h"

#include <immintrin.h>

// ---- Reading ----------------------------------------------------------------

// Bit r of rows becomes byte r, all or nothing.
CPU_INLINE uint64_t bytes_of(unsigned rows)
{
    return _pdep_u64(rows, UINT64_C(0x0101010101010101)) * 255;
}

// Sets the coefficients at places, low first, to the words from p on.
static void set_words(int16_t *block, uint64_t places, const uint8_t *p)
{
    for (; places; places &= places - 1, p += 2)
        block[__builtin_ctzll(places)] = packed_word(p);
}

CPU_INLINE void get_block(int16_t *block, const uint8_t *p, unsigned rows,
                          int len, int16_t dc)
{
    const __m512i sign = _mm512_set1_epi8(8);
    const uint8_t *end = p + len;
    uint64_t mask = _pdep_u64(load64(p), bytes_of(rows)), escapes;
    unsigned n = (unsigned)_mm_popcnt_u64(mask);
    __m512i v;

    p += _mm_popcnt_u32(rows);
    v = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)p));
    v = _mm512_and_si512(_mm512_or_si512(v, _mm512_slli_epi16(v, 4)),
                         _mm512_set1_epi8(15));
    p += (n + 1) / 2;
    escapes = _bzhi_u64(_mm512_testn_epi8_mask(v, v), n);
    v = _mm512_sub_epi8(_mm512_xor_si512(v, sign), sign);
    v = _mm512_mask_expand_epi8(v, escapes, _mm512_loadu_si512(p));
    p += _mm_popcnt_u64(escapes);
    escapes &= _mm512_testn_epi8_mask(v, v);
    v = _mm512_maskz_expand_epi8(mask, v);
    _mm512_store_si512(block, _mm512_cvtepi8_epi16(_mm512_castsi512_si256(v)));
    _mm512_store_si512(block + 32,
                       _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(v, 1)));
    block[0] = dc;
    if (__builtin_expect(p != end, 0))
        set_words(block, _pdep_u64(escapes, mask), p);
}

// Completes prefix sums within lanes of 128 bits to those of the whole of x:
// the last element of each lane is added to all later lanes.
CPU_INLINE __m512i add_lanes(__m512i x)
{
    const __m512i one = _mm512_set_epi64(
        INT64_C(0x0017001700170017), INT64_C(0x0017001700170017),
        INT64_C(0x000f000f000f000f), INT64_C(0x000f000f000f000f),
        INT64_C(0x0007000700070007), INT64_C(0x0007000700070007), 0, 0);
    const __m512i two = _mm512_set_epi64(
        INT64_C(0x000f000f000f000f), INT64_C(0x000f000f000f000f),
        INT64_C(0x0007000700070007), INT64_C(0x0007000700070007), 0, 0, 0, 0);

    x = _mm512_add_epi16(x,
                         _mm512_maskz_permutexvar_epi16(0xffffff00u, one, x));
    return _mm512_add_epi16(x, _mm512_maskz_permutexvar_epi16(0xffff0000u, two,
                                                              x));
}

// The next `n` (up to 32) DCs; carry: the last one, in all elements.
CPU_INLINE __m512i sum_dc(struct line *l, int i, int n, __m512i carry)
{
    __m256i d = _mm256_loadu_si256((const __m256i *)(l->d + i));
    __m512i x = _mm512_cvtepi8_epi16(d);
    uint32_t escapes = _bzhi_u32(
        _mm256_cmpeq_epi8_mask(d, _mm256_set1_epi8(CPU_PACKED_ESCAPE)),
        (unsigned)n);

    x = _mm512_mask_expand_epi16(x, escapes, _mm512_loadu_si512(l->escapes));
    l->escapes += 2 * _mm_popcnt_u32(escapes);
    x = _mm512_add_epi16(x, _mm512_bslli_epi128(x, 2));
    x = _mm512_add_epi16(x, _mm512_bslli_epi128(x, 4));
    x = _mm512_add_epi16(x, _mm512_bslli_epi128(x, 8));
    return _mm512_add_epi16(add_lanes(x), carry);
}

// Bytes of all payloads before that of block n.
CPU_INLINE size_t sum_len(const uint8_t *len, int n)
{
    __m512i sum = _mm512_setzero_si512(), zero = sum;

    for (int i = 0; i < n; i += 64) {
        unsigned k = n - i < 64 ? (unsigned)(n - i) : 64;
        __m512i v = _mm512_maskz_loadu_epi8(_bzhi_u64(~UINT64_C(0), k),
                                            len + i);

        sum = _mm512_add_epi64(sum, _mm512_sad_epu8(v, zero));
    }
    return (size_t)_mm512_reduce_add_epi64(sum);
}

void cpu_unpack_line_avx512(int16_t (*blocks)[64], const uint8_t *segment,
                            int n, int first, int count)
{
    const __m512i last = _mm512_set1_epi16(31);
    struct line l = packed_line(segment, n);
    const uint8_t *p = l.payload + sum_len(l.len, first);
    __m512i sums = _mm512_setzero_si512();
    _Alignas(64) int16_t dc[32];

    for (int i = 0; i < first + count; i += 32) {
        int end = first + count < i + 32 ? first + count : i + 32;

        sums = sum_dc(&l, i, n - i < 32 ? n - i : 32, sums);
        _mm512_store_si512(dc, sums);
        sums = _mm512_permutexvar_epi16(last, sums);
        for (int k = first > i ? first : i; k < end; k++) {
            get_block(blocks[k - first], p, l.rows[k], l.len[k], dc[k - i]);
            p += l.len[k];
        }
    }
}

// ---- Writing ----------------------------------------------------------------

struct block {
    __m512i bytes;        // 0 where a value has more than 8 bits
    uint64_t mask, wide;  // what is not 0; what has more than 8 bits
};

// Narrows 32 words to bytes; 0 where a word does not fit.
CPU_INLINE __m256i narrow(__m512i x, uint32_t *mask, uint32_t *wide)
{
    __m256i bytes = _mm512_cvtepi16_epi8(x);

    *mask = _mm512_test_epi16_mask(x, x);
    *wide = _mm512_cmpneq_epi16_mask(_mm512_cvtepi8_epi16(bytes), x);
    return _mm256_maskz_mov_epi8(~*wide, bytes);
}

CPU_INLINE struct block load_block(const int16_t *block)
{
    uint32_t mask[2], wide[2];
    __m512i low = _mm512_maskz_loadu_epi16(~1u, block);
    __m256i a = narrow(low, &mask[0], &wide[0]);
    __m256i b = narrow(_mm512_load_si512(block + 32), &mask[1], &wide[1]);

    return (struct block){
        .bytes = _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1),
        .mask = mask[0] | (uint64_t)mask[1] << 32,
        .wide = wide[0] | (uint64_t)wide[1] << 32,
    };
}

// Two nibbles to a byte.
CPU_INLINE __m256i nibbles(__m512i v)
{
    v = _mm512_and_si512(v, _mm512_set1_epi8(15));
    return _mm512_cvtepi16_epi8(_mm512_or_si512(v, _mm512_srli_epi16(v, 4)));
}

CPU_INLINE uint8_t *put_block(uint8_t *to, uint8_t *rows, const int16_t *block)
{
    struct block b = load_block(block);
    unsigned n = (unsigned)_mm_popcnt_u64(b.mask), present;
    __m512i v = _mm512_maskz_compress_epi8(b.mask, b.bytes);
    __m128i masks = _mm_cvtsi64_si128((long long)b.mask);
    uint64_t escapes, m;

    present = _mm_test_epi8_mask(masks, masks);
    *rows = (uint8_t)present;
    m = _pext_u64(b.mask, bytes_of(present));
    memcpy(to, &m, sizeof(m));
    to += _mm_popcnt_u32(present);
    escapes = _mm512_cmpgt_epu8_mask(_mm512_add_epi8(v, _mm512_set1_epi8(8)),
                                     _mm512_set1_epi8(15));
    _mm256_storeu_si256((__m256i *)to,
                        nibbles(_mm512_maskz_mov_epi8(~escapes, v)));
    to += (n + 1) / 2;
    escapes = _bzhi_u64(escapes | _mm512_testn_epi8_mask(v, v), n);
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi8(escapes, v));
    to += _mm_popcnt_u64(escapes);
    for (m = b.wide; __builtin_expect(m != 0, 0); m &= m - 1, to += 2)
        memcpy(to, &block[__builtin_ctzll(m)], 2);
    return to;
}

size_t cpu_pack_line_avx512(uint8_t *segment, const int16_t (*blocks)[64],
                            int n)
{
    return packed_put_line(segment, blocks, n, put_block);
}
