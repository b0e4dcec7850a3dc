// SPDX-License-Identifier: Apache-2.0
// Stage entropy: Huffman codes of one baseline scan -> quantised coefficients,
// many subsequences at a time (entropy.h). Every loop takes at least one bit of
// the picture's own, or one block of it. Only in programs built with
// HR__ENTROPY.

#ifdef HR__ENTROPY
__constant uchar hr__natural[64] = {HR__NATURAL};

// For a test: how many symbols an item has decoded.
#ifdef HR__COUNTED
#define HR__COUNT(r) ((r)->counted++)
#define HR__COUNTED_OF(r, sub) \
    (((__global uint *)((r)->tables + (r)->pic->counts))[sub] += (r)->counted)
#else
#define HR__COUNT(r)
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
    __global const uchar4 *b = r->scan + r->at / 32;
    ulong words = (ulong)as_uint(b[0].wzyx) << 32 | as_uint(b[1].wzyx);
    uint bits = (uint)(words << r->at % 32 >> 32);
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
    r->dc = (__global const struct hr__huffman *)(r->tables + c->dc);
    r->ac = (__global const struct hr__huffman *)(r->tables + c->ac);
}

// Takes at least one bit.
static inline struct hr__symbol hr__next(struct hr__reader *r)
{
    bool dc = !r->k;
    uint bits = hr__peek(r), entry, size, run, next;
    struct hr__symbol s;

    HR__COUNT(r);
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
    __global const struct hr__entropy *pic, __global const uchar *work,
    __global const struct hr__interval *i, uint at, uint state)
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

// The items of a group make a table. Codes of up to HR__FAST_BITS bits fill it
// from its beginning without gaps.
static inline void hr__make_table(__global const struct hr__code *from,
                                  __global struct hr__huffman *to, uint lane)
{
    uint code = 0, n = 0, end = 0;

    for (uint length = 1; length <= 16; length++, code <<= 1) {
        uint count = from->counts[length - 1], begin = end;

        if (!lane) {
            to->add[length] = n - code;
            to->last[length] = count ? code + count - 1 : ~0u;
        }
        if (length <= HR__FAST_BITS) {
            uint shift = HR__FAST_BITS - length;

            end = min(begin + (count << shift), 1u << HR__FAST_BITS);
            for (uint k = begin + lane; k < end; k += HR__GROUP)
                to->fast[k] =
                    (ushort)(length << 8 |
                             from->symbols[(n + ((k - begin) >> shift)) & 255]);
        }
        code += count;
        n += count;
    }
    for (uint k = end + lane; k < 1u << HR__FAST_BITS; k += HR__GROUP)
        to->fast[k] = 0;
    for (uint k = lane; k < 256; k += HR__GROUP)
        to->symbol[k] = from->symbols[k];
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

static inline uint hr__sub_end(__global const struct hr__interval *i, uint n)
{
    return n + 1 < i->subs ? i->begin + (n + 1) * HR__SUB_BITS : i->end;
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
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__entropy *pic = hr__entropy_of(job, in);
    uint lane = (uint)get_local_id(0), at = (job.item - lane) * 8 + lane;
    uint group = job.item / HR__GROUP;

    if (!job.item)
        HR__AT(uint, out + pic->flag) = 0;
    if (group < pic->num_codes)
        hr__make_table((__global const struct hr__code *)(
                           (__global const uchar *)pic + pic->codes) +
                           group,
                       (__global struct hr__huffman *)(work + pic->tables) +
                           group,
                       lane);
    for (uint i = 0; i < 8; i++, at += HR__GROUP)
        if (at < job.pic->num_coefs * 8)
            HR__AT(short8, work + job.pic->coefs + 16 * at) = (short8)(0);
}

__kernel void hr_entropy_guess(__global const uint *restrict plan, uint list,
                               __global const uchar *restrict in,
                               __global uchar *restrict work,
                               __global uchar *restrict out)
{
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__entropy *pic = hr__entropy_of(job, in);
    uint sub = job.item;

    if (sub >= pic->num_subs)
        return;

    __global const struct hr__interval *i = hr__interval_of(pic, sub);
    uint before = (sub - i->sub) * HR__SUB_BITS, begin = i->begin + before;
    struct hr__reader r = hr__reader_of(
        pic, work, i, begin - min(before, pic->early), 0);

    // What is odd here is only a wrong guess.
    while (r.at < begin)
        if (hr__next(&r).odd) {
            hr__begin(&r, 0);
            r.k = 0;
        }
    ((__global struct hr__sub *)(work + pic->subs))[sub] =
        hr__follow(&r, hr__sub_end(i, sub - i->sub));
    HR__COUNTED_OF(&r, sub);
}

// What subsequence n is by what all were in the round before.
static inline struct hr__sub hr__once_more(
    __global const struct hr__entropy *pic, __global const uchar *work,
    __global const struct hr__sub *subs, uint n)
{
    __global const struct hr__interval *i = hr__interval_of(pic, n);
    struct hr__sub s = subs[n];

    if (n > i->sub && !(subs[n - 1].state & HR__SUB_ODD) &&
        (s.from != subs[n - 1].at || s.from_state != subs[n - 1].state)) {
        struct hr__reader r = hr__reader_of(pic, work, i, subs[n - 1].at,
                                            subs[n - 1].state);

        s = hr__follow(&r, hr__sub_end(i, n - i->sub));
        HR__COUNTED_OF(&r, n);
    }
    return s;
}

__kernel void hr_entropy_again(__global const uint *restrict plan, uint list,
                               __global const uchar *restrict in,
                               __global uchar *restrict work,
                               __global uchar *restrict out)
{
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__entropy *pic = hr__entropy_of(job, in);

    if (job.item < pic->num_subs)
        ((__global struct hr__sub *)(work + pic->other))[job.item] =
            hr__once_more(pic, work,
                          (__global const struct hr__sub *)(work + pic->subs),
                          job.item);
}

__kernel void hr_entropy_back(__global const uint *restrict plan, uint list,
                              __global const uchar *restrict in,
                              __global uchar *restrict work,
                              __global uchar *restrict out)
{
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__entropy *pic = hr__entropy_of(job, in);

    if (job.item < pic->num_subs)
        ((__global struct hr__sub *)(work + pic->subs))[job.item] =
            hr__once_more(pic, work,
                          (__global const struct hr__sub *)(work + pic->other),
                          job.item);
}

// Those of subs that do not begin where their predecessors end get that place,
// and are marked; none of an odd predecessor. True: there are any.
static inline bool hr__mark(__global struct hr__sub *subs, uint count,
                            uint lane)
{
    bool any = false;

    for (uint n = lane + 1; n < count; n += HR__GROUP) {
        uint at = subs[n - 1].at, state = subs[n - 1].state;

        if (state & HR__SUB_ODD ||
            (subs[n].from == at && subs[n].from_state == state))
            continue;
        subs[n].from = at;
        subs[n].from_state = state;
        subs[n].blocks = HR__SUB_AGAIN;
        any = true;
    }
    return any;
}

// Where the first symbol of subsequence n begins, by the end of the one before.
static inline bool hr__follows(__global const struct hr__interval *i,
                               __global const struct hr__sub *subs, uint n)
{
    uint at = n ? subs[n - 1].at : i->begin, state = n ? subs[n - 1].state : 0;

    return subs[n].from == at && subs[n].from_state == state;
}

// Goes along an interval from one end to the next and counts blocks; what is
// wrong all the same is decoded again. Returns what is odd.
static inline uint hr__chain(__global const struct hr__entropy *pic,
                             __global const uchar *work,
                             __global const struct hr__interval *i,
                             __global struct hr__sub *subs)
{
    uint at = i->begin, state = 0, blocks = 0, left = pic->left;

    for (uint n = 0; n < i->subs && !(state & HR__SUB_ODD); n++) {
        struct hr__sub s = subs[n];

        if (s.from != at || s.from_state != state) {
            struct hr__reader r = hr__reader_of(pic, work, i, at, state);

            if (!left--)
                return HR__ODD_STEP;
            s = hr__follow(&r, hr__sub_end(i, n));
            HR__COUNTED_OF(&r, i->sub + n);
        }
        at = s.at;
        state = s.state;
        blocks += s.blocks;
        s.blocks = blocks - s.blocks;
        subs[n] = s;
    }
    return !state && at == i->end && blocks == i->mcus * pic->mcu_blocks
               ? 0
               : HR__ODD_FILE;
}

// A group has an interval. Subsequences that began wrong are decoded again from
// where their predecessors end, all at once, and so on: after a few rounds that
// is the truth, and the items count the blocks, each those of some neighbours.
// Some that never fall into step are left to the first item, which is alone
// then. (PoCL 3.1 makes wrong code of barriers behind a return or a break.)
__kernel void hr_entropy_check(__global const uint *restrict plan, uint list,
                               __global const uchar *restrict in,
                               __global uchar *restrict work,
                               __global uchar *restrict out)
{
    __local uint wrong[HR__SUB_ROUNDS + 1], sums[HR__GROUP];
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__entropy *pic = hr__entropy_of(job, in);
    uint lane = (uint)get_local_id(0), x = job.item / HR__GROUP;
    bool here = x < pic->num_intervals;
    __global const struct hr__interval *i = hr__intervals(pic) + (here ? x : 0);
    __global struct hr__sub *subs =
        (__global struct hr__sub *)(work + pic->subs) + i->sub;
    uint count = here ? i->subs : 0, each = (count + HR__GROUP - 1) / HR__GROUP;
    uint from = min(lane * each, count), to = min(from + each, count);
    uint blocks = 0, odd = 0;

    if (lane <= HR__SUB_ROUNDS)
        wrong[lane] = 0;
    for (uint round = 0; round < HR__SUB_ROUNDS; round++) {
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        if ((!round || wrong[round - 1]) && hr__mark(subs, count, lane))
            atomic_or(&wrong[round], 1u);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        if (wrong[round])
            for (uint n = lane + 1; n < count; n += HR__GROUP)
                if (subs[n].blocks == HR__SUB_AGAIN) {
                    struct hr__reader r = hr__reader_of(
                        pic, work, i, subs[n].from, subs[n].from_state);

                    subs[n] = hr__follow(&r, hr__sub_end(i, n));
                    HR__COUNTED_OF(&r, i->sub + n);
                }
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    for (uint n = from; n < to; n++) {
        if (!hr__follows(i, subs, n) || subs[n].state & HR__SUB_ODD)
            odd = 1;
        blocks += subs[n].blocks;
    }
    sums[lane] = blocks;
    if (odd)
        atomic_or(&wrong[HR__SUB_ROUNDS], 1u);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (!wrong[HR__SUB_ROUNDS]) {
        blocks = 0;
        for (uint n = 0; n < lane; n++)
            blocks += sums[n];
        for (uint n = from; n < to; n++) {
            uint own = subs[n].blocks;

            subs[n].blocks = blocks;
            blocks += own;
        }
        if (count && lane == HR__GROUP - 1 &&
            (subs[count - 1].state || subs[count - 1].at != i->end ||
             blocks != i->mcus * pic->mcu_blocks))
            odd = HR__ODD_FILE;
    } else {
        odd = count && !lane ? hr__chain(pic, work, i, subs) : 0;
    }
    if (odd)
        atomic_or(&HR__AT(uint, out + pic->flag), odd);
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

__kernel void hr_entropy_write(__global const uint *restrict plan, uint list,
                               __global const uchar *restrict in,
                               __global uchar *restrict work,
                               __global const uchar *restrict out)
{
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__entropy *pic = hr__entropy_of(job, in);
    uint sub = job.item, blocks = pic->mcu_blocks;

    if (sub >= pic->num_subs || HR__AT(const uint, out + pic->flag))
        return;

    __global const struct hr__interval *i = hr__interval_of(pic, sub);
    struct hr__sub s = ((__global struct hr__sub *)(work + pic->subs))[sub];
    struct hr__reader r = hr__reader_of(pic, work, i, s.from, s.from_state);
    uint to = hr__sub_end(i, sub - i->sub), at = s.blocks - (r.k != 0);
    __global short *to_block = 0;

    if (r.k)
        to_block = hr__place(pic, &pic->comp[pic->of[r.block]], work,
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
            to_block = hr__place(pic, c, work, mcu, nth);
            HR__AT(short, work + c->diffs + 2 * (mcu * c->h * c->v + nth)) =
                (short)v.value;
        } else if (v.value && to_block) {
            to_block[hr__natural[v.k]] = (short)v.value;
        }
    }
    HR__COUNTED_OF(&r, sub);
}

// The sum of the differences of MCUs [mcu, end) of a component. write: their
// DCs, the one before them being dc.
static inline int hr__sum(__global const struct hr__entropy *pic,
                          __global const struct hr__entropy_component *c,
                          __global uchar *work, uint mcu, uint end, int dc,
                          bool write)
{
    __global const short *diffs = (__global const short *)(work + c->diffs);
    uint n = c->h * c->v;

    for (; mcu < end; mcu++)
        for (uint nth = 0; nth < n; nth++) {
            dc += diffs[mcu * n + nth];
            if (write) {
                __global short *block = hr__place(pic, c, work, mcu, nth);

                if (block)
                    *block = (short)dc;
            }
        }
    return dc;
}

// A group has an interval, an item some MCUs of it.
__kernel void hr_entropy_dc(__global const uint *restrict plan, uint list,
                            __global const uchar *restrict in,
                            __global uchar *restrict work,
                            __global const uchar *restrict out)
{
    __local int sums[HR__GROUP];
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__entropy *pic = hr__entropy_of(job, in);
    uint lane = (uint)get_local_id(0), x = job.item / HR__GROUP;
    bool here = x < pic->num_intervals && !HR__AT(const uint, out + pic->flag);
    __global const struct hr__interval *i = hr__intervals(pic) + (here ? x : 0);
    uint mcus = here ? i->mcus : 0, each = (mcus + HR__GROUP - 1) / HR__GROUP;
    uint from = min(lane * each, mcus), to = min(from + each, mcus);

    for (uint k = 0; k < pic->num_components; k++) {
        __global const struct hr__entropy_component *c = &pic->comp[k];
        int dc = 0;

        sums[lane] = hr__sum(pic, c, work, i->mcu + from, i->mcu + to, 0,
                             false);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint n = 0; n < lane; n++)
            dc += sums[n];
        barrier(CLK_LOCAL_MEM_FENCE);
        hr__sum(pic, c, work, i->mcu + from, i->mcu + to, dc, true);
    }
}
#endif
