// SPDX-License-Identifier: Apache-2.0
// Packed lines with NEON, in the steps of packed_avx2.c. Tables of shuffles
// replace pdep and pext: they move the bytes of a row between a list and their
// places.
#if defined(__AARCH64EL__)

#include <arm_neon.h>

#include "cpu_fallback/packed/line.h"

#define BITS(m) __builtin_popcount(m)
#define BEFORE(m, i) BITS((m) & ((1u << (i)) - 1))
#define EIGHT(of, m)                                                          \
    {                                                                         \
        of(m, 0), of(m, 1), of(m, 2), of(m, 3), of(m, 4), of(m, 5), of(m, 6), \
            of(m, 7)                                                          \
    }
// How many bits of m below bit i are set, if that one is.
#define PLACE(m, i) ((m) >> (i)&1 ? BEFORE(m, i) : 255)
// The bit of m that is set behind i other set bits.
#define IF(m, i, bit) ((m) >> (bit)&1 && BEFORE(m, bit) == (i) ? (bit) : 0)
#define TAKEN(m, i)                                                           \
    (BITS(m) <= (i) ? 255                                                     \
                    : IF(m, i, 1) + IF(m, i, 2) + IF(m, i, 3) + IF(m, i, 4) + \
                          IF(m, i, 5) + IF(m, i, 6) + IF(m, i, 7))
#define PLACES(m) EIGHT(PLACE, m)
#define TAKE(m) EIGHT(TAKEN, m)
#define FOUR(of, m) of(m), of(m + 1u), of(m + 2u), of(m + 3u)
#define SIXTEEN(of, m) \
    FOUR(of, m), FOUR(of, m + 4u), FOUR(of, m + 8u), FOUR(of, m + 12u)
#define MANY(of, m)                                             \
    SIXTEEN(of, m), SIXTEEN(of, m + 16u), SIXTEEN(of, m + 32u), \
        SIXTEEN(of, m + 48u)
#define ALL(of) MANY(of, 0u), MANY(of, 64u), MANY(of, 128u), MANY(of, 192u)
// For each mask, the shuffle that spreads a list to the bits that are set, and
// the one that collects these bits' bytes in a list. An index of 255 gives 0.
static const uint8_t places[256][8] = {ALL(PLACES)};
static const uint8_t takes[256][8] = {ALL(TAKE)};
static const uint8_t ones[256] = {ALL(BITS)};

CPU_INLINE uint8x8_t shuffled(uint8x8_t bytes, const uint8_t shuffle[8])
{
    return vqtbl1_u8(vcombine_u8(bytes, vdup_n_u8(0)), vld1_u8(shuffle));
}

// Bit i: byte i, which is 0 or 255.
CPU_INLINE unsigned mask_of(uint8x8_t bytes)
{
    const uint8x8_t bits = {1, 2, 4, 8, 16, 32, 64, 128};

    return vaddv_u8(vand_u8(bytes, bits));
}

// ---- Reading ----------------------------------------------------------------

enum { CHUNK = 16 };

// The result of the first pass for a chunk of blocks.
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
    return shuffled(vld1_u8(list), places[mask]);
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
        unsigned escapes = mask_of(vceqz_u8(v));

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

// ---- Writing ----------------------------------------------------------------

// A block as bytes in natural order, 0 where a value has more than 8 bits, and
// its masks by row.
struct block {
    uint8_t bytes[64], masks[8];
    bool wide;
};

CPU_INLINE void load_block(struct block *b, const int16_t *block)
{
    const uint8x8_t bits = {1, 2, 4, 8, 16, 32, 64, 128};
    uint16x8_t all_fit = vdupq_n_u16(0xffff);
    uint8x8_t set[8];

    CPU_UNROLL for (int r = 0; r < 8; r++)
    {
        int16x8_t v = vld1q_s16(block + 8 * r);
        uint16x8_t fits;
        int8x8_t low;

        v = r ? v : vsetq_lane_s16(0, v, 0);
        low = vmovn_s16(v);
        fits = vceqq_s16(vmovl_s8(low), v);
        all_fit = vandq_u16(all_fit, fits);
        vst1_u8(b->bytes + 8 * r,
                vand_u8(vreinterpret_u8_s8(low), vmovn_u16(fits)));
        set[r] = vand_u8(vmovn_u16(vtstq_s16(v, v)), bits);
    }
    b->wide = vminvq_u16(all_fit) == 0;
    // Sums of neighbours, three times: a row's bits become its byte.
    CPU_UNROLL for (int n = 8; n > 1; n /= 2)
        CPU_UNROLL for (int i = 0; i < n / 2; i++)
            set[i] = vpadd_u8(set[2 * i], set[2 * i + 1]);
    vst1_u8(b->masks, set[0]);
}

// The bytes of which a bit is set, one behind the other; up to 8 more are
// written. Ends behind the last.
CPU_INLINE uint8_t *put_list(uint8_t *to, uint8x8_t bytes, unsigned mask)
{
    vst1_u8(to, shuffled(bytes, takes[mask]));
    return to + ones[mask];
}

// Returns the values that fit in a nibble; 0 for the others.
CPU_INLINE uint8x8_t nibbles_of(uint8x8_t v)
{
    uint8x8_t fit = vclt_u8(vadd_u8(v, vdup_n_u8(8)), vdup_n_u8(16));

    return vand_u8(vand_u8(v, fit), vdup_n_u8(15));
}

CPU_INLINE uint8_t *put_words(uint8_t *to, const int16_t *block)
{
    for (int i = 1; i < 64; i++)
        if (block[i] != (int8_t)block[i]) {
            memcpy(to, &block[i], 2);
            to += 2;
        }
    return to;
}

CPU_INLINE uint8_t *put_block(uint8_t *to, uint8_t *rows, const int16_t *block)
{
    uint8_t values[64 + 8] = {0}, *end = values, *bytes;
    uint8x8_t masks;
    struct block b;
    int n;

    load_block(&b, block);
    masks = vld1_u8(b.masks);
    *rows = (uint8_t)mask_of(vtst_u8(masks, masks));
    to = put_list(to, masks, *rows);
    for (int r = 0; r < 8; r++)
        end = put_list(end, vld1_u8(b.bytes + 8 * r), b.masks[r]);
    n = (int)(end - values);
    bytes = to + (n + 1) / 2;
    // Before any byte, for the last nibbles may reach too far.
    for (int k = 0; k < n; k += 8) {
        uint8x8_t v = nibbles_of(vld1_u8(values + k));
        uint8x8_t pairs = vsli_n_u8(vuzp1_u8(v, v), vuzp2_u8(v, v), 4);
        uint32_t four = vget_lane_u32(vreinterpret_u32_u8(pairs), 0);

        memcpy(to + k / 2, &four, 4);
    }
    for (int k = 0; k < n; k += 8) {
        uint8x8_t v = vld1_u8(values + k);
        unsigned escapes = mask_of(vceqz_u8(nibbles_of(v)));

        if (n - k < 8)
            escapes &= (1u << (n - k)) - 1;
        bytes = put_list(bytes, v, escapes);
    }
    return __builtin_expect(b.wide, 0) ? put_words(bytes, block) : bytes;
}

size_t cpu_pack_line_neon(uint8_t *segment, const int16_t (*blocks)[64], int n)
{
    return packed_put_line(segment, blocks, n, put_block);
}

#endif
