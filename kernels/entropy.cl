// SPDX-License-Identifier: Apache-2.0
// Stage entropy: Huffman codes of one baseline scan -> quantised coefficients,
// many subsequences at a time (entropy.h). Every loop takes at least one bit of
// the picture's own, or one block of it.

__constant uchar hr__natural[64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
    12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
    35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
    58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

// A decoder: what it needs, and where it is.
struct hr__reader {
    __global const struct hr__entropy *pic;
    __global const uchar *in;
    __global const uint *scan;
    uint at, end;   // bits; of the interval
    uint block, k;  // of the MCU; the coefficient that is next
    __global const struct hr__huffman *dc, *ac;  // of the block
};

// What was read: a coefficient, if size is not 0, in place k of its block.
struct hr__symbol {
    uint k;
    int value;
    bool odd;
};

// 32 bits from here on; behind the interval's end they are ones, as a code
// never is.
static inline uint hr__peek(const struct hr__reader *r)
{
    __global const uint *w = r->scan + r->at / 32;
    uint bits = (uint)(((ulong)w[0] << 32 | w[1]) << r->at % 32 >> 32);
    uint left = r->end - r->at;

    return left < 32 ? bits | 0xffffffffu >> left : bits;
}

static inline uint hr__code(__global const struct hr__huffman *t, uint bits)
{
    uint entry = t->fast[bits >> (32 - HR__FAST_BITS)];

    for (uint n = HR__FAST_BITS + 1; !entry && n <= 16; n++) {
        int code = (int)(bits >> (32 - n));

        if (code <= (int)t->last[n])
            entry = n << 8 | t->symbol[(t->add[n] + (uint)code) & 255];
    }
    return entry;
}

static inline void hr__begin(struct hr__reader *r, uint block)
{
    __global const struct hr__entropy_component *c =
        &r->pic->comp[r->pic->of[block]];

    r->block = block;
    r->dc = (__global const struct hr__huffman *)(r->in + c->dc);
    r->ac = (__global const struct hr__huffman *)(r->in + c->ac);
}

// Takes at least one bit.
static inline struct hr__symbol hr__next(struct hr__reader *r)
{
    bool dc = !r->k;
    uint bits = hr__peek(r), entry, size, run, next;
    struct hr__symbol s;

    entry = hr__code(dc ? r->dc : r->ac, bits);
    size = entry & 15;
    run = entry >> 4 & 15;
    bits <<= entry >> 8;
    r->at += max((entry >> 8) + size, 1u);
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

static inline struct hr__reader hr__reader_of(
    __global const struct hr__entropy *pic, __global const uchar *in,
    __global const struct hr__interval *i, uint at, uint state)
{
    struct hr__reader r;

    r.pic = pic;
    r.in = in;
    r.scan = (__global const uint *)(in + pic->scan);
    r.at = at;
    r.end = i->end;
    hr__begin(&r, state >> 6);
    r.k = state & 63;
    return r;
}

// To the first symbol at or behind `to`. Fewer than 8 bits behind an MCU are
// padding if they are no symbol; hr_entropy_check counts the MCUs.
static inline struct hr__sub hr__follow(struct hr__reader *r, uint to)
{
    struct hr__sub s;

    s.from = r->at;
    s.from_state = r->block << 6 | r->k;
    s.blocks = 0;
    while (r->at < to) {
        bool begins = !r->k, mcu = begins && !r->block;
        uint left = r->end - r->at;

        if (!hr__next(r).odd) {
            s.blocks += begins;
            continue;
        }
        s.at = r->end;
        s.state = mcu && left < 8 ? 0 : HR__SUB_ODD;
        return s;
    }
    s.at = r->at;
    s.state = r->block << 6 | r->k;
    return s;
}

static inline __global const struct hr__interval *hr__intervals(
    __global const struct hr__entropy *pic, __global const uchar *in)
{
    return (__global const struct hr__interval *)(in + pic->intervals);
}

static inline __global const struct hr__interval *hr__interval_of(
    __global const struct hr__entropy *pic, __global const uchar *in, uint sub)
{
    __global const struct hr__interval *i = hr__intervals(pic, in);
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

static inline uint hr__sub_end(__global const struct hr__interval *i, uint n)
{
    return n + 1 < i->subs ? i->begin + (n + 1) * HR__SUB_BITS : i->end;
}

static inline __global const struct hr__entropy *hr__entropy_of(
    __global const uchar *plan)
{
    return (__global const struct hr__entropy *)plan + get_global_id(1);
}

__kernel void hr_entropy_guess(__global const uchar *restrict plan,
                               __global const uchar *restrict in,
                               __global uchar *restrict work)
{
    __global const struct hr__entropy *pic = hr__entropy_of(plan);
    uint sub = (uint)get_global_id(0);

    if (sub >= pic->num_subs)
        return;

    __global const struct hr__interval *i = hr__interval_of(pic, in, sub);
    uint before = (sub - i->sub) * HR__SUB_BITS, begin = i->begin + before;
    struct hr__reader r = hr__reader_of(
        pic, in, i, begin - min(before, (uint)HR__SUB_EARLY), 0);

    // What is odd here is only a wrong guess.
    while (r.at < begin)
        if (hr__next(&r).odd) {
            hr__begin(&r, 0);
            r.k = 0;
        }
    ((__global struct hr__sub *)(work + pic->subs))[sub] =
        hr__follow(&r, hr__sub_end(i, sub - i->sub));
}

// A subsequence that began wrong is decoded again from where its predecessor
// ends.
__kernel void hr_entropy_check(__global const uchar *restrict plan,
                               __global const uchar *restrict in,
                               __global uchar *restrict work)
{
    __global const struct hr__entropy *pic = hr__entropy_of(plan);
    uint x = (uint)get_global_id(0), blocks = 0, at, state = 0;

    if (x >= pic->num_intervals)
        return;

    __global const struct hr__interval *i = hr__intervals(pic, in) + x;
    __global struct hr__sub *subs =
        (__global struct hr__sub *)(work + pic->subs) + i->sub;

    at = i->begin;
    for (uint n = 0; n < i->subs && !(state & HR__SUB_ODD); n++) {
        struct hr__sub s = subs[n];

        if (s.from != at || s.from_state != state) {
            struct hr__reader r = hr__reader_of(pic, in, i, at, state);

            s = hr__follow(&r, hr__sub_end(i, n));
        }
        at = s.at;
        state = s.state;
        blocks += s.blocks;
        s.blocks = blocks - s.blocks;
        subs[n] = s;
    }
    if (state || at != i->end || blocks != i->mcus * pic->mcu_blocks)
        HR__AT(uint, work + pic->flag) = 1;
}

// The coefficients of block `nth` of component c in an MCU; NULL: not here.
static inline __global short *hr__place(
    __global const struct hr__entropy *pic,
    __global const struct hr__entropy_component *c, __global uchar *work,
    uint mcu, uint nth)
{
    uint row = mcu / pic->mcus_w, column = mcu - row * pic->mcus_w;
    uint y = nth / c->h, x = nth - y * c->h;

    // Blocks left of or above the first wrap around.
    x += column * c->h - c->block_x;
    y += row * c->v - c->block_y;
    if (x >= c->blocks_w || y >= c->blocks_h)
        return 0;
    return (__global short *)(work + c->coefs) + 64 * (y * c->blocks_w + x);
}

__kernel void hr_entropy_write(__global const uchar *restrict plan,
                               __global const uchar *restrict in,
                               __global uchar *restrict work)
{
    __global const struct hr__entropy *pic = hr__entropy_of(plan);
    uint sub = (uint)get_global_id(0), blocks = pic->mcu_blocks;

    if (sub >= pic->num_subs || HR__AT(uint, work + pic->flag))
        return;

    __global const struct hr__interval *i = hr__interval_of(pic, in, sub);
    struct hr__sub s = ((__global struct hr__sub *)(work + pic->subs))[sub];
    struct hr__reader r = hr__reader_of(pic, in, i, s.from, s.from_state);
    uint to = hr__sub_end(i, sub - i->sub), at = s.blocks - (r.k != 0);
    __global short *out = 0;

    if (r.k)
        out = hr__place(pic, &pic->comp[pic->of[r.block]], work,
                        i->mcu + at / blocks, pic->nth[r.block]);
    while (r.at < to) {
        uint block = r.block, nth = pic->nth[block], mcu;
        __global const struct hr__entropy_component *c =
            &pic->comp[pic->of[block]];
        bool begins = !r.k;
        struct hr__symbol v = hr__next(&r);

        if (v.odd)
            break;  // padding
        if (begins) {
            mcu = i->mcu + s.blocks++ / blocks;
            out = hr__place(pic, c, work, mcu, nth);
            HR__AT(short, work + c->diffs + 2 * (mcu * c->h * c->v + nth)) =
                (short)v.value;
        } else if (v.value && out) {
            out[hr__natural[v.k]] = (short)v.value;
        }
    }
}

__kernel void hr_entropy_dc(__global const uchar *restrict plan,
                            __global const uchar *restrict in,
                            __global uchar *restrict work)
{
    __global const struct hr__entropy *pic = hr__entropy_of(plan);
    uint x = (uint)get_global_id(0) / 3, n;

    if (x >= pic->num_intervals || HR__AT(uint, work + pic->flag) ||
        get_global_id(0) % 3 >= pic->num_components)
        return;

    __global const struct hr__entropy_component *c =
        &pic->comp[get_global_id(0) % 3];
    __global const struct hr__interval *i = hr__intervals(pic, in) + x;
    __global const short *diffs = (__global const short *)(work + c->diffs);
    int dc = 0;

    n = c->h * c->v;
    for (uint mcu = i->mcu; mcu < i->mcu + i->mcus; mcu++)
        for (uint nth = 0; nth < n; nth++) {
            __global short *out = hr__place(pic, c, work, mcu, nth);

            dc += diffs[mcu * n + nth];
            if (out)
                *out = (short)dc;
        }
}
