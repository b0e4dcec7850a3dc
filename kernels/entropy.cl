// SPDX-License-Identifier: Apache-2.0
// Stage entropy: Huffman codes of one baseline scan -> quantised coefficients,
// many subsequences at a time (entropy.h). Here are the tables of codes and the
// decoder that reads them. entropy_sync.cl finds where the decoders are in
// step, and entropy_write.cl writes what they found. Every loop takes at least
// one bit of the picture's own, or one block of it. Only in programs built with
// HR__ENTROPY.

#ifdef HR__ENTROPY
__constant uchar hr__natural[64] = {HR__NATURAL};

// Counts the symbols that an item has decoded, and its look-ups << 16, for a
// test.
#ifdef HR__COUNTED
#define HR__COUNT(r, n) ((r)->counted += (n))
#define HR__COUNTED_OF(r, sub) \
    (((__global uint *)((r)->tables + (r)->pic->counts))[sub] += (r)->counted)
#else
#define HR__COUNT(r, n)
#define HR__COUNTED_OF(r, sub)
#endif

// A decoder: what it needs, and where it is.
struct hr__reader {
#ifdef HR__COUNTED
    uint counted;
#endif
    __global const struct hr__entropy *pic;
    __global const uchar *tables;
    __global const uchar4 *scan;
    uint at, end;   // bits; of the interval
    uint block, k;  // of the MCU; the coefficient that is next
    uint symbols, blocks;  // that it has decoded, and that began
    // The symbols that `kept` holds; every HR__GROUP-th of its entries is ours.
    uint capacity;
    __global ushort *kept;
    __global const struct hr__huffman *dc, *ac;  // of the block
};

// A symbol that was read: a coefficient, if it is not 0, in place k of its
// block, `run` places behind the one before.
struct hr__symbol {
    uint k, run;
    int value;
    bool odd;
};

// 32 bits from here on; behind the interval's end they are ones, as a code
// never is.
static inline uint hr__peek(const struct hr__reader *r)
{
    __global const uchar4 *b = r->scan + r->at / 32;
    ulong words = (ulong)as_uint(b[0].wzyx) << 32 | as_uint(b[1].wzyx);
    uint bits = (uint)(words << r->at % 32 >> 32);
    uint left = r->end - r->at;

    return left < 32 ? bits | 0xffffffffu >> left : bits;
}

// The result of a look-up: one or two symbols (an entry of struct hr__huffman),
// and the bits from the first one on.
struct hr__seen {
    uint entry, bits;
};

static inline struct hr__seen hr__look(struct hr__reader *r)
{
    __global const struct hr__huffman *t = r->k ? r->ac : r->dc;
    struct hr__seen seen = {0, hr__peek(r)};

    HR__COUNT(r, 1u << 16);
    seen.entry = t->fast[seen.bits >> (32 - HR__FAST_BITS)];
    for (uint n = HR__FAST_BITS + 1; !seen.entry && n <= 16; n++) {
        int code = (int)(seen.bits >> (32 - n));

        if (code <= (int)t->last[n])
            seen.entry = n << 8 | t->symbol[(t->add[n] + (uint)code) & 255];
    }
    return seen;
}

static inline void hr__begin(struct hr__reader *r, uint block)
{
    __global const struct hr__entropy_component *c =
        &r->pic->comp[r->pic->of[block]];

    r->block = block;
    r->dc = (__global const struct hr__huffman *)(r->tables + c->dc);
    r->ac = (__global const struct hr__huffman *)(r->tables + c->ac);
}

// Takes the first symbol of `seen`, and at least one bit. (Compilers for host
// processors would call it once for each symbol, with the reader in memory,
// where two loops have it.)
static inline __attribute__((always_inline)) struct hr__symbol hr__next(
    struct hr__reader *r, struct hr__seen *seen)
{
    bool dc = !r->k;
    uint entry = seen->entry & 0xffff, length = entry >> 8, next;
    uint size = entry & 15, run = entry >> 4 & 15;
    uint bits = seen->bits << length;
    struct hr__symbol s;

    HR__COUNT(r, 1);
    r->at += max(length + size, 1u);
    seen->bits = bits << size;
    seen->entry >>= 16;
    s.run = run;
    s.k = r->k + run;
    s.value = size ? (int)(bits >> (32 - size)) : 0;
    if (size && !(bits >> 31))
        s.value -= (1 << size) - 1;
    next = s.k + 1;
    if (!dc && !size && !run)
        next = 64;  // the end of a block
    s.odd = !entry || size > (dc ? HR__DC_SIZE : HR__AC_SIZE) || (dc && run) ||
            s.k > 63 || (!dc && !size && run && (run != 15 || next > 63));
    r->k = next & 63;
    if (next > 63)
        hr__begin(r, r->block + 1 < r->pic->mcu_blocks ? r->block + 1 : 0);
    return s;
}

// Says whether the second symbol of `seen` comes next: it is one of an AC.
static inline bool hr__goes_on(const struct hr__reader *r,
                               const struct hr__seen *seen, uint to)
{
    return seen->entry && r->k && r->at < to;
}

// A symbol as hr_entropy_write reads it: of a DC the value in 12 bits, else the
// run, and the value in 11. 0 is the end of a block.
static inline ushort hr__kept(bool dc, const struct hr__symbol *s)
{
    return (ushort)(dc ? 0x8000u | ((uint)s->value & 0xfffu)
                       : s->run << 11 | ((uint)s->value & 0x7ffu));
}

// Returns a reader of subsequence `sub`.
static inline struct hr__reader hr__reader_of(
    __global const struct hr__entropy *pic, __global uchar *work,
    __global const struct hr__interval *i, uint sub, uint at, uint state)
{
    struct hr__reader r;

#ifdef HR__COUNTED
    r.counted = 0;
#endif
    r.pic = pic;
    r.tables = work;
    r.scan = (__global const uchar4 *)((__global const uchar *)pic + pic->scan);
    r.at = at;
    r.end = i->end;
    r.symbols = r.blocks = 0;
    r.capacity = pic->capacity;
    r.kept = (__global ushort *)(work + pic->kept) +
             sub / HR__GROUP * HR__GROUP * pic->capacity + sub % HR__GROUP;
    hr__begin(&r, state >> 6);
    r.k = state & 63;
    return r;
}

static inline uint hr__state(const struct hr__reader *r)
{
    return r->block << 6 | r->k;
}

// Decodes up to the first symbol at or behind `to`: 0; or up to the end of the
// interval, or an irregularity. Fewer than 8 bits behind an MCU are padding if
// they are no symbol; hr_entropy_check counts the MCUs.
static inline uint hr__walk(struct hr__reader *r, uint to)
{
    while (r->at < to) {
        struct hr__seen seen = hr__look(r);

        do {
            bool begins = !r->k, mcu = begins && !r->block;
            uint left = r->end - r->at;
            struct hr__symbol s = hr__next(r, &seen);

            if (s.odd) {
                if (!mcu || left >= 8)
                    return HR__NEXT_ODD;
                r->at = r->end;
                hr__begin(r, 0);
                r->k = 0;
                return HR__NEXT_END;
            }
            if (r->symbols < r->capacity)
                r->kept[r->symbols * HR__GROUP] = hr__kept(begins, &s);
            r->symbols++;
            r->blocks += begins;
        } while (hr__goes_on(r, &seen, to));
    }
    return r->at < r->end ? 0 : HR__NEXT_END;
}

// The items of a group make a table of single symbols, and the part of `to`
// (NULL: none) for long codes. Codes of up to HR__FAST_BITS bits fill it from
// its beginning without gaps.
static inline void hr__make_table(__global const struct hr__code *from,
                                  __local ushort *fast,
                                  __global struct hr__huffman *to, uint lane)
{
    uint code = 0, n = 0, end = 0;

    for (uint length = 1; length <= 16; length++, code <<= 1) {
        uint count = from->counts[length - 1], begin = end;

        if (to && !lane) {
            to->add[length] = n - code;
            to->last[length] = count ? code + count - 1 : ~0u;
        }
        if (length <= HR__FAST_BITS) {
            uint shift = HR__FAST_BITS - length;

            end = min(begin + (count << shift), 1u << HR__FAST_BITS);
            for (uint k = begin + lane; k < end; k += HR__GROUP)
                fast[k] =
                    (ushort)(length << 8 |
                             from->symbols[(n + ((k - begin) >> shift)) & 255]);
        }
        code += count;
        n += count;
    }
    for (uint k = end + lane; k < 1u << HR__FAST_BITS; k += HR__GROUP)
        fast[k] = 0;
    for (uint k = lane; to && k < 256; k += HR__GROUP)
        to->symbol[k] = from->symbols[k];
}

// Combines each symbol of `fast` with the one of `then` whose code follows its
// value, if all of that code is among the bits of the look-up.
static inline void hr__make_pairs(__local const ushort *fast,
                                  __local const ushort *then,
                                  __global struct hr__huffman *to, uint lane)
{
    for (uint k = lane; k < 1u << HR__FAST_BITS; k += HR__GROUP) {
        uint first = fast[k], bits = (first >> 8) + (first & 15), second = 0;

        if (first && bits < HR__FAST_BITS)
            second = then[k << bits & ((1u << HR__FAST_BITS) - 1)];
        if (bits + (second >> 8) > HR__FAST_BITS)
            second = 0;
        to->fast[k] = second << 16 | first;
    }
}

static inline __global const struct hr__interval *hr__intervals(
    __global const struct hr__entropy *pic)
{
    return (__global const struct hr__interval *)((__global const uchar *)pic +
                                                  pic->intervals);
}

static inline __global const struct hr__interval *hr__interval_of(
    __global const struct hr__entropy *pic, uint sub)
{
    __global const struct hr__interval *i = hr__intervals(pic);
    uint lo = 0, hi = pic->num_intervals - 1;

    while (lo < hi) {
        uint mid = (lo + hi + 1) / 2;

        if (i[mid].sub <= sub)
            lo = mid;
        else
            hi = mid - 1;
    }
    return i + lo;
}

static inline __global const struct hr__entropy *hr__entropy_of(
    struct hr__job job, __global const uchar *in)
{
    return (__global const struct hr__entropy *)(in + job.pic->entropy);
}

// A group makes a table, and zeros of as many blocks as it has items;
// neighbouring items write what lies side by side.
__kernel void hr_entropy_begin(__global const uint *restrict plan, uint list,
                               __global const uchar *restrict in,
                               __global uchar *restrict work,
                               __global uchar *restrict out)
{
    __local ushort fast[2][1 << HR__FAST_BITS];
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__entropy *pic = hr__entropy_of(job, in);
    uint lane = (uint)get_local_id(0), at = (job.item - lane) * 8 + lane;
    uint group = job.item / HR__GROUP;
    bool makes = group < pic->num_codes;
    __global const struct hr__code *codes =
        (__global const struct hr__code *)((__global const uchar *)pic +
                                           pic->codes);
    __global struct hr__huffman *table =
        (__global struct hr__huffman *)(work + pic->tables) + group;

    // (That of DCs, which is even, needs the one of the ACs, too.)
    for (uint n = 0; makes && n < 2 - group % 2; n++)
        hr__make_table(codes + group + n, fast[n], n ? 0 : table, lane);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (makes)
        hr__make_pairs(fast[0], fast[1 - group % 2], table, lane);
    if (!job.item) {
        HR__AT(uint, out + pic->flag) = 0;
        HR__AT(uint, work + pic->open) = 0;
    }
    for (uint i = 0; i < 8; i++, at += HR__GROUP)
        if (at < job.pic->num_coefs * 8)
            HR__AT(short8, work + job.pic->coefs + 16 * at) = (short8)(0);
}
#endif
