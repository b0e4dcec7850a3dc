// SPDX-License-Identifier: Apache-2.0
// Packed lines with NEON, in the two passes of packed_avx2.c. Instead of pdep a
// table of 256 shuffles brings the bytes of a list to their places in a row.
#if defined(__AARCH64EL__)

#include <arm_neon.h>

#include "cpu_fallback/packed/line.h"

#define ONES(m) __builtin_popcount(m)

// places[m]: byte i is how many bits of m below bit i are set, if that one is,
// else 255, from where a shuffle takes 0.
#define BYTE(m, i) ((m) >> (i)&1 ? ONES((m) & ((1u << (i)) - 1)) : 255)
#define ONE(m)                                                      \
    {                                                               \
        BYTE(m, 0), BYTE(m, 1), BYTE(m, 2), BYTE(m, 3), BYTE(m, 4), \
            BYTE(m, 5), BYTE(m, 6), BYTE(m, 7)                      \
    }
#define FOUR(of, m) of(m), of(m + 1u), of(m + 2u), of(m + 3u)
#define SIXTEEN(of, m) \
    FOUR(of, m), FOUR(of, m + 4u), FOUR(of, m + 8u), FOUR(of, m + 12u)
#define MANY(of, m)                                             \
    SIXTEEN(of, m), SIXTEEN(of, m + 16u), SIXTEEN(of, m + 32u), \
        SIXTEEN(of, m + 48u)
#define ALL(of) MANY(of, 0u), MANY(of, 64u), MANY(of, 128u), MANY(of, 192u)
static const uint8_t places[256][8] = {ALL(ONE)};
static const uint8_t ones[256] = {ALL(ONES)};
#undef ONES
#undef BYTE
#undef ONE
#undef FOUR
#undef SIXTEEN
#undef MANY
#undef ALL

enum { CHUNK = 16 };

// What the first pass leaves of some blocks.
struct chunk {
    uint8_t mask[CHUNK][8];     // where coefficients are that are not 0
    uint8_t before[CHUNK][8];   // of them, in the rows before each row
    uint8_t values[CHUNK][72];  // 0: has a word. Eight at a time are fetched
    const uint8_t *words[CHUNK];
    const uint8_t *end[CHUNK];  // of the payload
    int16_t dc[CHUNK];
};

// The bytes of a list in the places of a mask, 0 elsewhere.
CPU_INLINE uint8x8_t placed(const uint8_t *list, unsigned mask)
{
    return vqtbl1_u8(vcombine_u8(vld1_u8(list), vdup_n_u8(0)),
                     vld1_u8(places[mask]));
}

// The nibbles of 16 bytes, sign extended; 0 stays 0.
CPU_INLINE void put_nibbles(uint8_t *to, const uint8_t *from)
{
    int8x16_t v = vreinterpretq_s8_u8(vld1q_u8(from));
    int8x16_t low = vshrq_n_s8(vshlq_n_s8(v, 4), 4), high = vshrq_n_s8(v, 4);

    vst1q_u8(to, vreinterpretq_u8_s8(vzip1q_s8(low, high)));
    vst1q_u8(to + 16, vreinterpretq_u8_s8(vzip2q_s8(low, high)));
}

// Sets c->mask and c->before; returns how many coefficients there are.
CPU_INLINE int put_mask(struct chunk *c, int i, uint8x8_t mask)
{
    uint8x8_t sum = vcnt_u8(mask);

#define ADD(bits) \
    vadd_u8(sum,  \
            vreinterpret_u8_u64(vshl_n_u64(vreinterpret_u64_u8(sum), (bits))))
    sum = ADD(8);
    sum = ADD(16);
    sum = ADD(32);
#undef ADD
    vst1_u8(c->mask[i], mask);
    vst1_u8(c->before[i],
            vreinterpret_u8_u64(vshl_n_u64(vreinterpret_u64_u8(sum), 8)));
    return vget_lane_u8(sum, 7);
}

// First pass. Values that are 0 after the nibbles are in the bytes, in order.
CPU_INLINE void open_block(struct chunk *c, int i, const uint8_t *p,
                           unsigned rows, int len)
{
    const uint8x8_t bits = {1, 2, 4, 8, 16, 32, 64, 128};
    uint8_t *values = c->values[i];
    int n = put_mask(c, i, placed(p, rows));

    c->end[i] = p + len;
    p += ones[rows];
    put_nibbles(values, p);
    if (n > 32)
        put_nibbles(values + 32, p + 16);
    p += (n + 1) / 2;
    for (int k = 0; k < n; k += 8) {
        uint8x8_t v = vld1_u8(values + k);
        unsigned escapes = vaddv_u8(vand_u8(vceqz_u8(v), bits));

        if (n - k < 8)
            escapes &= (1u << (n - k)) - 1;
        vst1_u8(values + k, vorr_u8(v, placed(p, escapes)));
        p += ones[escapes];
    }
    c->words[i] = p;
}

// Listed coefficients that are still 0 have words. Few blocks have any.
static __attribute__((noinline)) void set_words(int16_t *block,
                                                const uint8_t masks[8],
                                                const uint8_t *p)
{
    for (int r = 0; r < 8; r++, block += 8)
        for (unsigned m = masks[r]; m; m &= m - 1) {
            int16_t *to = &block[__builtin_ctz(m)];

            if (!*to) {
                *to = packed_word(p);
                p += 2;
            }
        }
}

// Second pass.
CPU_INLINE void get_block(int16_t *block, const struct chunk *c, int i)
{
    CPU_UNROLL for (int r = 0; r < 8; r++)
    {
        uint8x8_t row = placed(c->values[i] + c->before[i][r], c->mask[i][r]);

        vst1q_s16(block + 8 * r, vmovl_s8(vreinterpret_s8_u8(row)));
    }
    if (__builtin_expect(c->words[i] != c->end[i], 0))
        set_words(block, c->mask[i], c->words[i]);
    block[0] = c->dc[i];
}

void cpu_unpack_line_neon(int16_t (*blocks)[64], const uint8_t *segment, int n,
                          int first, int count)
{
    struct line l = packed_line(segment, n);
    struct chunk c;
    int dc = 0, i = 0;

    for (; i < first; i++) {
        dc = packed_dc(&l, i, dc);
        l.payload += l.len[i];
    }
    while (count) {
        int k = count < CHUNK ? count : CHUNK;

        for (int j = 0; j < k; j++, i++) {
            c.dc[j] = (int16_t)(dc = packed_dc(&l, i, dc));
            open_block(&c, j, l.payload, l.rows[i], l.len[i]);
            l.payload += l.len[i];
        }
        for (int j = 0; j < k; j++)
            get_block(blocks[j], &c, j);
        blocks += k;
        count -= k;
    }
}

#endif
