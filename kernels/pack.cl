// SPDX-License-Identifier: Apache-2.0
// A whole picture's coefficients, packed to be kept (pack.h). Only in programs
// built with HR__ENTROPY.

#ifdef HR__ENTROPY
static inline __global const struct hr__pack *hr__pack_of(
    struct hr__job job, __global const uchar *in)
{
    return (__global const struct hr__pack *)(in + job.pic->entropy);
}

static inline bool hr__pack_odd(__global const struct hr__pack *pack,
                                __global const uchar *out)
{
    return HR__AT(const uint, out + pack->scan.flag);
}

// A line of blocks: how many, and bytes of work.
struct hr__line {
    uint n, coefs, facts;
};

static inline struct hr__line hr__line_of(__global const struct hr__pack *pack,
                                          uint segment)
{
    __global const struct hr__entropy_component *c = pack->scan.comp;
    uint row = segment / pack->row_lines, blocks = 0;
    uint line = segment - row * pack->row_lines;
    struct hr__line l;

    for (; line >= c->v; c++) {
        line -= c->v;
        blocks += c->blocks_w * c->blocks_h;
    }
    blocks += (row * c->v + line) * c->blocks_w;
    l.n = c->blocks_w;
    l.coefs = pack->scan.comp[0].coefs + 128 * blocks;
    l.facts = pack->facts + 4 * blocks;
    return l;
}

// Bit c: element c of what a comparison says.
static inline uint hr__bits(short8 is)
{
    short8 b = is & (short8)(1, 2, 4, 8, 16, 32, 64, 128);
    short4 c = b.lo | b.hi;

    return (ushort)(c.s0 | c.s1 | c.s2 | c.s3);
}

// A row of a block; DC does not count.
static inline short8 hr__block_row(__global const short *block, uint r)
{
    short8 v = HR__AT(const short8, block + 8 * r);

    if (!r)
        v.s0 = 0;
    return v;
}

static inline uint hr__facts(__global const short *block)
{
    uint facts = 0;

    for (uint r = 0; r < 8; r++) {
        short8 v = hr__block_row(block, r);
        ushort8 u = as_ushort8(v);
        uint mask = hr__bits(v != (short8)(0));

        facts |= (uint)(mask != 0) << r;
        facts += popcount(mask) << 8;
        facts += popcount(hr__bits((u + (ushort8)(8)) > (ushort8)(15))) << 16;
        facts += popcount(hr__bits((u + (ushort8)(128)) > (ushort8)(255)))
                 << 24;
    }
    return facts;
}

// Bytes of the payload.
static inline uint hr__length(uint facts)
{
    return popcount(facts & 255) + ((facts >> 8 & 255) + 1) / 2 +
           (facts >> 16 & 255) + 2 * (facts >> 24);
}

// DC of block k of a line less that of the one before.
static inline int hr__difference(__global const short *block, uint k)
{
    return (short)(block[0] - (k ? block[-64] : 0));
}

static inline bool hr__escapes(int d)
{
    return d <= -128 || d > 127;
}

__kernel void hr_pack_clear(__global const uint *restrict plan, uint list,
                            __global const uchar *restrict in,
                            __global uchar *restrict work,
                            __global uchar *restrict out,
                            __global uchar *restrict packed)
{
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__pack *pack = hr__pack_of(job, in);
    uint lane = (uint)get_local_id(0), at = (job.item - lane) * 8 + lane;

    if (!job.item && pack->first)
        HR__AT(uint, out + pack->cursor) = 0;
    for (uint i = 0; i < 8; i++, at += HR__GROUP)
        if (at < job.pic->num_coefs * 8)
            HR__AT(short8, work + job.pic->coefs + 16 * at) = (short8)(0);
}

__kernel void hr_pack_measure(__global const uint *restrict plan, uint list,
                              __global const uchar *restrict in,
                              __global uchar *restrict work,
                              __global const uchar *restrict out,
                              __global uchar *restrict packed)
{
    __local uint sums[HR__GROUP];
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__pack *pack = hr__pack_of(job, in);
    uint lane = (uint)get_local_id(0), segment = job.item / HR__GROUP;
    bool here = segment < pack->segments && !hr__pack_odd(pack, out);
    struct hr__line line = hr__line_of(pack, here ? segment : 0);
    uint sum = 0, bytes = 0, escapes = 0;

    for (uint k = lane; here && k < line.n; k += HR__GROUP) {
        __global const short *block =
            (__global const short *)(work + line.coefs) + 64 * k;
        uint facts = hr__facts(block);

        HR__AT(uint, work + line.facts + 4 * k) = facts;
        sum += hr__length(facts);
        sum += (uint)hr__escapes(hr__difference(block, k)) << 16;
    }
    // (A line has at most 8192 blocks, an item 128 of them, of 229 bytes.)
    sums[lane] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (here && !lane) {
        __global uint *to = (__global uint *)(work + pack->lines) + 2 * segment;

        for (uint i = 0; i < HR__GROUP; i++) {
            bytes += sums[i] & 0xffff;
            escapes += sums[i] >> 16;
        }
        to[0] = 2 + 3 * line.n + 2 * escapes + bytes;
        to[1] = escapes;
    }
}

// Takes room for a picture of that size, and says so. Returns where. (Nobody
// takes what does not fit: that would be lost to smaller ones, and of many large
// pictures the sum is beyond 32 bits.)
static inline uint hr__take_room(__global const struct hr__pack *pack,
                                 __global uchar *out, uint size)
{
    __global uint *table = (__global uint *)(out + pack->table);
    __global volatile uint *cursor =
        (__global volatile uint *)(out + pack->cursor);
    uint bytes = (size + HR__PACK_ALIGN - 1) / HR__PACK_ALIGN * HR__PACK_ALIGN;
    uint at, next = 0;  // a guess: only atomic functions may read it

    do {
        at = next;
        if (bytes > pack->room || at > pack->room - bytes)
            size = 0;
    } while (size && (next = atomic_cmpxchg(cursor, at, at + bytes)) != at);
    table[0] = at;
    table[1] = size;
    return at;
}

__kernel void hr_pack_place(__global const uint *restrict plan, uint list,
                            __global const uchar *restrict in,
                            __global uchar *restrict work,
                            __global uchar *restrict out,
                            __global uchar *restrict packed)
{
    __local uint sums[HR__GROUP], place[2];
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__pack *pack = hr__pack_of(job, in);
    uint lane = (uint)get_local_id(0), sum = 0, all = pack->head, at = all;
    bool here = job.item < HR__GROUP, odd = hr__pack_odd(pack, out);
    uint count = here && !odd ? pack->segments : 0;
    uint each = (count + HR__GROUP - 1) / HR__GROUP;
    uint from = min(lane * each, count), to = min(from + each, count);
    __global uint *lines = (__global uint *)(work + pack->lines);

    for (uint i = from; i < to; i++)
        sum += lines[2 * i];
    sums[lane] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0; i < HR__GROUP; i++) {
        at += i < lane ? sums[i] : 0;
        all += sums[i];
    }
    if (here && !lane) {
        place[0] = hr__take_room(pack, out, odd ? 0 : all + HR__PACK_PAD);
        place[1] = ((__global const uint *)(out + pack->table))[1];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (here && place[1]) {
        __global uint *offsets =
            (__global uint *)(packed + place[0] + HR__PACK_HEAD);

        for (uint i = from; i < to; i++) {
            uint size = lines[2 * i];

            offsets[i] = lines[2 * i] = at;
            at += size;
        }
        if (!lane)
            offsets[count] = all;
    }
}

// The payload of a block, of whose facts no byte is wrong.
static inline void hr__put_block(__global const short *block, uint facts,
                                 __global uchar *to)
{
    __global uchar *nibbles = to + popcount(facts & 255);
    __global uchar *bytes = nibbles + ((facts >> 8 & 255) + 1) / 2;
    __global uchar *words = bytes + (facts >> 16 & 255);
    uint k = 0, pair = 0;

    for (uint r = 0; r < 8; r++) {
        uint mask = hr__bits(hr__block_row(block, r) != (short8)(0));

        if (mask)
            *to++ = (uchar)mask;
        for (; mask; mask &= mask - 1, k++) {
            int value = block[8 * r + 31 - clz(mask & (0 - mask))];
            bool is_nibble = value >= -8 && value <= 7;
            bool is_byte = value >= -128 && value <= 127;

            pair = pair >> 4 | (is_nibble ? (uint)value & 15 : 0) << 4;
            if (k & 1)
                *nibbles++ = (uchar)pair;
            if (!is_nibble)
                *bytes++ = is_byte ? (uchar)value : 0;
            if (!is_byte) {
                *words++ = (uchar)value;
                *words++ = (uchar)(value >> 8);
            }
        }
    }
    if (k & 1)
        *nibbles = (uchar)(pair >> 4);
}

// Of each item the sum of those up to it; the group's items all come here.
static inline void hr__add_up(__local uint *sums, uint lane)
{
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = 1; step < HR__GROUP; step *= 2) {
        uint before = lane >= step ? sums[lane - step] : 0;

        barrier(CLK_LOCAL_MEM_FENCE);
        sums[lane] += before;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

__kernel void hr_pack_write(__global const uint *restrict plan, uint list,
                            __global const uchar *restrict in,
                            __global uchar *restrict work,
                            __global const uchar *restrict out,
                            __global uchar *restrict packed)
{
    __local uint sums[HR__GROUP];
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__pack *pack = hr__pack_of(job, in);
    __global const uint *table = (__global const uint *)(out + pack->table);
    uint lane = (uint)get_local_id(0), segment = job.item / HR__GROUP;
    bool here = segment < pack->segments && table[1];
    struct hr__line line = hr__line_of(pack, here ? segment : 0);
    __global const uint *of_line = (__global const uint *)(work + pack->lines) +
                                   2 * (here ? segment : 0);
    uint n = here ? line.n : 0, bytes = 0, escapes = 0;
    __global uchar *to = packed + (here ? table[0] + of_line[0] : 0);

    if (here && !lane) {
        to[0] = (uchar)of_line[1];
        to[1] = (uchar)(of_line[1] >> 8);
    }
    for (uint first = 0; first < n; first += HR__GROUP) {
        uint k = first + lane, facts = 0, own = 0, sum, all;
        __global const short *block =
            (__global const short *)(work + line.coefs) + 64 * min(k, n - 1);
        int d = hr__difference(block, min(k, n - 1));

        if (k < n) {
            facts = HR__AT(const uint, work + line.facts + 4 * k);
            own = hr__length(facts) | (uint)hr__escapes(d) << 16;
        }
        sums[lane] = own;
        hr__add_up(sums, lane);
        sum = sums[lane] - own;
        all = sums[HR__GROUP - 1];
        barrier(CLK_LOCAL_MEM_FENCE);
        if (k < n) {
            __global uchar *dc = to + 2 + 3 * n + 2 * (escapes + (sum >> 16));

            to[2 + k] = hr__escapes(d) ? 128 : (uchar)d;
            to[2 + n + k] = (uchar)facts;
            to[2 + 2 * n + k] = (uchar)own;
            if (hr__escapes(d)) {
                dc[0] = (uchar)d;
                dc[1] = (uchar)(d >> 8);
            }
            hr__put_block(block, facts,
                          to + 2 + 3 * n + 2 * of_line[1] + bytes +
                              (sum & 0xffff));
        }
        bytes += all & 0xffff;
        escapes += all >> 16;
    }
}
#endif
