// SPDX-License-Identifier: Apache-2.0
// Sixteen streams at a time: three symbols of each, then new bits. No branch
// depends on what a stream says, but one for all lanes: whether one of them is
// at the end of its row or of its bytes.
#include "cpu_fallback/jpeg/lanes.h"

#include <immintrin.h>

#include "cpu_fallback/cpu_kernels.h"

typedef __m512i v;

enum {
    LOOK = 57,    // bits at least that one look at the streams brings;
    SYMBOL = 19,  // at most so many a step takes: a code's 8 and 11 of a DC
    STEPS = 5,    // symbols after a look; lanes without the bits for all wait
};

CPU_INLINE v set1(uint32_t x)
{
    return _mm512_set1_epi32((int)x);
}

// What a gather leaves as it was it takes from its register, all of which it
// therefore waits for: the register is cleared first. Written out, because
// compilers drop that where nothing is left as it was.
#define GATHER(name, result, from, at, mask) \
    __asm__("vpxord %0, %0, %0\n\t" name     \
            : "=&v"(result), "+&Yk"(mask)    \
            : "v"(at), "r"(from)             \
            : "memory")

// 0 where the mask is not set.
CPU_INLINE v entries(v at, const uint32_t *tables, __mmask16 mask)
{
    v result;

    GATHER("vpgatherdd (%3, %2, 4), %0%{%1%}", result, tables, at, mask);
    return result;
}

CPU_INLINE v bytes8(__m256i at, const uint8_t *streams)
{
    __mmask8 all = 0xff;
    v result;

    GATHER("vpgatherdq (%3, %2, 1), %0%{%1%}", result, streams, at, all);
    return result;
}

// The streams' next bits: 57 at least.
struct window {
    v hi, lo;
};

CPU_INLINE struct window look(v pos, const uint8_t *streams)
{
    const v swap = _mm512_broadcast_i32x4(
        _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8));
    const v odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23,
                                    25, 27, 29, 31);
    const v even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22,
                                     24, 26, 28, 30);
    v byte = _mm512_srli_epi32(pos, 3);
    v bit = _mm512_and_si512(pos, set1(7));
    v a = bytes8(_mm512_castsi512_si256(byte), streams);
    v b = bytes8(_mm512_extracti64x4_epi64(byte, 1), streams);
    v hi, lo;

    a = _mm512_shuffle_epi8(a, swap);
    b = _mm512_shuffle_epi8(b, swap);
    hi = _mm512_permutex2var_epi32(a, odd, b);
    lo = _mm512_permutex2var_epi32(a, even, b);
    return (struct window){_mm512_shldv_epi32(hi, lo, bit),
                           _mm512_sllv_epi32(lo, bit)};
}

struct lanes {
    v pos, at, table, block, next_dc, odd;
};

// Value of the symbol, in 16 bits: ITU-T T.81 figure F.12.
CPU_INLINE v value_of(struct window w, v entry)
{
    const v below = _mm512_setr_epi32(0, -1, -3, -7, -15, -31, -63, -127, -255,
                                      -511, -1023, -2047, -4095, -8191, -16383,
                                      -32767);
    v size = _mm512_srli_epi32(entry, 13);
    v bits = _mm512_shldv_epi32(w.hi, w.lo, _mm512_srli_epi32(entry, 8));
    v value = _mm512_shldv_epi32(_mm512_setzero_si512(), bits, size);
    __mmask16 negative = (__mmask16)~_mm512_movepi32_mask(bits);

    value = _mm512_mask_add_epi32(value, negative, value,
                                  _mm512_permutexvar_epi32(size, below));
    return _mm512_and_si512(value, set1(0xffff));
}

// One symbol of each lane whose bit is set; nothing of the others changes. A
// value is stored as 32 bits: the coefficient after it is zero yet.
CPU_INLINE void step(const struct cpu_lane_steps *s, struct lanes *l,
                     struct window *w, __mmask16 who)
{
    const v base = _mm512_load_si512(s->base);
    v entry = entries(_mm512_add_epi32(l->table, _mm512_srli_epi32(w->hi, 24)),
                      s->tables, who);
    v at = _mm512_add_epi32(l->at, _mm512_srli_epi32(entry, 24));
    __mmask16 ends = _mm512_test_epi32_mask(_mm512_xor_si512(at, l->at),
                                            set1(128));
    __mmask16 stores = _mm512_test_epi32_mask(entry,
                                              _mm512_load_si512(s->keep));
    __mmask16 over = _mm512_mask_test_epi32_mask(ends, entry,
                                                 set1(CPU_LANE_GOES_ON));
    __mmask16 wraps, second;

    _mm512_mask_i32scatter_epi32((char *)s->blocks - 2, stores, at,
                                 value_of(*w, entry), 1);
    w->hi = _mm512_shldv_epi32(w->hi, w->lo, entry);
    w->lo = _mm512_shldv_epi32(w->lo, _mm512_setzero_si512(), entry);
    l->pos = _mm512_add_epi32(l->pos, _mm512_and_si512(entry, set1(31)));
    l->odd = _mm512_mask_or_epi32(l->odd, over, l->odd, at);
    l->at = _mm512_mask_and_epi32(at, ends, at, set1(~127u));
    l->table = _mm512_mask_add_epi32(
        l->table, who, base,
        _mm512_and_si512(_mm512_srli_epi32(entry, 10), set1(0x3f00)));
    l->table = _mm512_mask_mov_epi32(l->table, ends, l->next_dc);
    // Which tables the block after this one has.
    l->block = _mm512_mask_add_epi32(l->block, ends, l->block, l->block);
    wraps = _mm512_cmpeq_epi32_mask(l->block, _mm512_load_si512(s->top));
    l->block = _mm512_mask_mov_epi32(l->block, wraps, set1(1));
    second = _mm512_test_epi32_mask(l->block, _mm512_load_si512(s->second));
    l->next_dc = _mm512_mask_add_epi32(base, second, base, set1(256));
}

static unsigned steps(struct cpu_lane_steps *s)
{
    const v end = _mm512_load_si512(s->end);
    const v limit = _mm512_load_si512(s->limit);
    struct lanes l = {
        .pos = _mm512_load_si512(s->pos),
        .at = _mm512_load_si512(s->at),
        .table = _mm512_load_si512(s->table),
        .block = _mm512_load_si512(s->block),
        .odd = _mm512_load_si512(s->odd),
    };
    v base = _mm512_load_si512(s->base);
    __mmask16 ended;

    l.next_dc = _mm512_mask_add_epi32(
        base, _mm512_test_epi32_mask(l.block, _mm512_load_si512(s->second)),
        base, set1(256));
    do {
        struct window w = look(l.pos, s->streams);
        v enough = _mm512_add_epi32(l.pos, set1(LOOK - SYMBOL));

        CPU_UNROLL
        for (int i = 0; i < STEPS; i++) {
            __mmask16 who = i ? _mm512_cmplt_epu32_mask(l.at, end) : 0xffff;

            // (The first ones have enough in any case.)
            if ((i + 1) * SYMBOL > LOOK)
                who &= _mm512_cmple_epu32_mask(l.pos, enough);
            step(s, &l, &w, who);
        }
        ended = _mm512_cmpge_epu32_mask(l.at, end) |
                _mm512_cmpgt_epu32_mask(l.pos, limit);
    } while (!ended);
    _mm512_store_si512(s->pos, l.pos);
    _mm512_store_si512(s->at, l.at);
    _mm512_store_si512(s->table, l.table);
    _mm512_store_si512(s->block, l.block);
    _mm512_store_si512(s->odd, l.odd);
    return ended;
}

static size_t unstuff(uint8_t *dst, size_t room, const uint8_t **src,
                      const uint8_t *end)
{
    const uint8_t *p = *src;
    uint64_t after = 0;  // bit 0: the byte before was 0xff
    size_t n = 0;

    while (n < room && p < end) {
        size_t left = (size_t)(end - p);
        uint64_t valid = left < 64 ? ~(~UINT64_C(0) << left) : ~UINT64_C(0);
        v x = _mm512_maskz_loadu_epi8(valid, p);
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
    // What is left, or comes before a marker: byte by byte. (A 0xff whose zero
    // has not come is given back.)
    if (after) {
        p--;
        n--;
    }
    for (int i = 0; i < 65 && n < room && p < end; i++) {
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
    const v ff = _mm512_set1_epi8(-1);
    size_t count = 0;

    for (; n; n -= n < 64 ? n : 64, p += 64) {
        uint64_t valid = n < 64 ? ~(~UINT64_C(0) << n) : ~UINT64_C(0);
        v x = _mm512_maskz_loadu_epi8(valid, p);

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
    const v upper = _mm512_load_si512(places);
    const v lower = _mm512_load_si512(places + 32);

    for (int i = 0; i < n; i++, x++) {
        v a = _mm512_load_si512(block[i]), b = _mm512_load_si512(block[i] + 32);
        v c = _mm512_permutex2var_epi16(a, upper, b);

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
    .steps = steps,
    .unstuff = unstuff,
    .stuffed = stuffed,
    .spread = spread,
};
