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
    uint symbols, blocks;  // that it has decoded, and that began
    uint room;             // of symbols in `kept`, every HR__GROUP-th of which is
    __global ushort *kept;  // its own
    __global const struct hr__huffman *dc, *ac;  // of the block
};

// What was read: a coefficient, if it is not 0, in place k of its block, `run`
// places behind the one before.
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

// A symbol as hr_entropy_write reads it: of a DC the value in 12 bits, else the
// run, and the value in 11. 0 is the end of a block.
static inline ushort hr__kept(bool dc, const struct hr__symbol *s)
{
    return (ushort)(dc ? 0x8000u | ((uint)s->value & 0xfffu)
                       : s->run << 11 | ((uint)s->value & 0x7ffu));
}

// Of subsequence `sub`.
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
    r.room = pic->room;
    r.kept = (__global ushort *)(work + pic->kept) +
             sub / HR__GROUP * HR__GROUP * pic->room + sub % HR__GROUP;
    hr__begin(&r, state >> 6);
    r.k = state & 63;
    return r;
}

static inline uint hr__state(const struct hr__reader *r)
{
    return r->block << 6 | r->k;
}

// To the first symbol at or behind `to`: 0; or to the end of the interval, or
// what is odd. Fewer than 8 bits behind an MCU are padding if they are no
// symbol; hr_entropy_check counts the MCUs.
static inline uint hr__walk(struct hr__reader *r, uint to)
{
    while (r->at < to) {
        bool begins = !r->k, mcu = begins && !r->block;
        uint left = r->end - r->at;
        struct hr__symbol s = hr__next(r);

        if (s.odd) {
            if (!mcu || left >= 8)
                return HR__NEXT_ODD;
            r->at = r->end;
            hr__begin(r, 0);
            r->k = 0;
            return HR__NEXT_END;
        }
        if (r->symbols < r->room)
            r->kept[r->symbols * HR__GROUP] = hr__kept(begins, &s);
        r->symbols++;
        r->blocks += begins;
    }
    return r->at < r->end ? 0 : HR__NEXT_END;
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

    if (!job.item) {
        HR__AT(uint, out + pic->flag) = 0;
        HR__AT(uint, work + pic->open) = 0;
    }
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

// Where a decoder is, in a word.
static inline uint hr__place_of(const struct hr__reader *r, uint begin)
{
    return (r->at - begin) << 10 | hr__state(r);
}

static inline __global struct hr__sub *hr__subs(
    __global const struct hr__entropy *pic, __global uchar *work)
{
    return (__global struct hr__sub *)(work + pic->subs);
}

// The marks of a subsequence's decoder.
static inline __global struct hr__mark *hr__marks(
    __global const struct hr__entropy *pic, __global uchar *work, uint sub)
{
    return (__global struct hr__mark *)(work + pic->marks) +
           sub * HR__ALL_MARKS;
}

// Where subsequence n of an interval, or mark m of it, ends.
static inline uint hr__sub_begin(__global const struct hr__interval *i, uint n)
{
    return i->begin + n * HR__SUB_BITS;
}

static inline uint hr__mark_at(__global const struct hr__interval *i, uint n,
                               uint m)
{
    return min(hr__sub_begin(i, n) + (m + 1) * HR__MARK_BITS, i->end);
}

static inline struct hr__mark hr__mark_of(const struct hr__reader *r, uint begin)
{
    struct hr__mark m = {hr__place_of(r, begin), r->symbols << 16 | r->blocks};

    return m;
}

static inline void hr__stands(__global struct hr__sub *s,
                              const struct hr__reader *r, uint next)
{
    s->at = r->at;
    s->state = hr__state(r);
    s->symbols = r->symbols;
    s->blocks = r->blocks;
    s->next = next;
    s->last = 0;
}

// Only the decoder of an interval's first subsequence knows where to begin. To
// the others what is odd is a wrong guess, and so was all before it.
__kernel void hr_entropy_guess(__global const uint *restrict plan, uint list,
                               __global const uchar *restrict in,
                               __global uchar *restrict work,
                               __global uchar *restrict out)
{
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__entropy *pic = hr__entropy_of(job, in);
    uint sub = job.item, how = 0, m, n;

    if (sub >= pic->num_subs)
        return;

    __global const struct hr__interval *i = hr__interval_of(pic, sub);
    __global struct hr__mark *marks = hr__marks(pic, work, sub);
    struct hr__reader r;

    n = sub - i->sub;
    r = hr__reader_of(pic, work, i, sub, hr__sub_begin(i, n), 0);
    for (m = 0; m < HR__SUB_MARKS; m++) {
        how = hr__walk(&r, hr__mark_at(i, n, m));
        while (how == HR__NEXT_ODD && n) {
            hr__begin(&r, 0);
            r.k = r.symbols = r.blocks = 0;
            for (uint x = 0; x < m; x++)
                marks[x].place = HR__MARK_NONE;
            how = hr__walk(&r, hr__mark_at(i, n, m));
        }
        if (how == HR__NEXT_ODD)
            break;
        marks[m] = hr__mark_of(&r, hr__sub_begin(i, n));
    }
    hr__stands(&hr__subs(pic, work)[sub], &r, how ? how : HR__NEXT_OPEN);
    HR__COUNTED_OF(&r, sub);
}

static inline struct hr__reader hr__reader_on(
    __global const struct hr__entropy *pic, __global uchar *work,
    __global const struct hr__interval *i, uint n)
{
    __global const struct hr__sub *s = &hr__subs(pic, work)[i->sub + n];
    struct hr__reader r = hr__reader_of(pic, work, i, i->sub + n, s->at,
                                        s->state);

    r.symbols = s->symbols;
    r.blocks = s->blocks;
    return r;
}

// The decoder of subsequence n of an interval goes on through the next one until
// it is where that one's decoder was at the same mark: from there on they find
// the same. True: it does not meet it.
static inline bool hr__go_on(__global const struct hr__entropy *pic,
                             __global uchar *work,
                             __global const struct hr__interval *i, uint n)
{
    __global struct hr__sub *s = &hr__subs(pic, work)[i->sub + n];
    __global struct hr__mark *marks = hr__marks(pic, work, i->sub + n);
    __global const struct hr__mark *others;
    uint begin = hr__sub_begin(i, n + 1), next = 0;
    struct hr__reader r;

    if (s->next != HR__NEXT_OPEN)
        return false;
    r = hr__reader_on(pic, work, i, n);
    others = hr__marks(pic, work, i->sub + n + 1);
    marks += HR__SUB_MARKS;
    for (uint m = 0; m < HR__SUB_MARKS; m++) {
        struct hr__mark mark = {HR__MARK_NONE, 0};

        if (!next)
            next = hr__walk(&r, hr__mark_at(i, n + 1, m));
        if (!next) {
            mark = hr__mark_of(&r, begin);
            if (mark.place == others[m].place) {
                s->mark = m + 1;
                next = n + 1;
            }
        }
        marks[m] = mark;
    }
    hr__stands(s, &r, next ? next : HR__NEXT_ON);
    HR__COUNTED_OF(&r, i->sub + n);
    return !next;
}

// .. and on, until it meets the decoder of a subsequence, or that of the one
// before on its own way through this. It leaves a mark where a subsequence
// begins. `item` is counted.
static inline void hr__go_far(__global const struct hr__entropy *pic,
                              __global uchar *work,
                              __global const struct hr__interval *i, uint n,
                              uint item)
{
    __global struct hr__sub *s = &hr__subs(pic, work)[i->sub + n];
    __global struct hr__mark *marks = hr__marks(pic, work, i->sub + n);
    uint next = 0, last = min(n + HR__SUB_FAR, i->subs - 1);
    struct hr__reader r = hr__reader_on(pic, work, i, n);

    r.room = 0;
    for (uint to = n + 2; to <= last && !next; to++) {
        __global const struct hr__mark *m = hr__marks(pic, work, i->sub + to);
        uint begin = hr__sub_begin(i, to);

        marks[2 * HR__SUB_MARKS + to - n - 2] = hr__mark_of(&r, begin);
        s->last = to - n;
        for (uint x = 0; x < HR__SUB_MARKS && !next; x++) {
            next = hr__walk(&r, hr__mark_at(i, to, x));
            if (next)
                continue;

            uint place = hr__place_of(&r, begin), y = x + HR__SUB_MARKS;

            if (place == m[x].place) {
                next = to;
                s->mark = x + 1;
            } else if (place == (m - HR__ALL_MARKS)[y].place) {
                next = to - 1;
                s->mark = y + 1;
            }
        }
    }
    s->at = r.at;
    s->state = hr__state(&r);
    s->blocks = r.blocks;
    s->next = next ? next : HR__NEXT_FAR;
    HR__COUNTED_OF(&r, item);
}

static inline __global uint *hr__open(__global const struct hr__entropy *pic,
                                      __global uchar *work)
{
    return (__global uint *)(work + pic->open);
}

// What is open then is listed: few of many, so that the items of the next launch
// lie side by side.
__kernel void hr_entropy_again(__global const uint *restrict plan, uint list,
                               __global const uchar *restrict in,
                               __global uchar *restrict work,
                               __global uchar *restrict out)
{
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__entropy *pic = hr__entropy_of(job, in);
    __global uint *open = hr__open(pic, work);

    if (job.item < pic->num_subs) {
        __global const struct hr__interval *i = hr__interval_of(pic, job.item);

        if (hr__go_on(pic, work, i, job.item - i->sub))
            open[1 + atomic_inc(open)] = job.item;
    }
}

__kernel void hr_entropy_far(__global const uint *restrict plan, uint list,
                             __global const uchar *restrict in,
                             __global uchar *restrict work,
                             __global uchar *restrict out)
{
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__entropy *pic = hr__entropy_of(job, in);
    __global const uint *open = hr__open(pic, work);

    if (job.item < pic->num_subs && job.item < open[0]) {
        uint sub = open[1 + job.item];
        __global const struct hr__interval *i = hr__interval_of(pic, sub);

        hr__go_far(pic, work, i, sub - i->sub, job.item);
    }
}

// Whether every decoder that comes from before subsequence n is in step with
// that of n, or of one before.
static inline bool hr__all_meet(__global const struct hr__sub *subs, uint n)
{
    for (uint k = n - min(n, (uint)HR__SUB_FAR); k < n; k++)
        if (subs[k].next > n && subs[k].next <= HR__NEXT_END)
            return false;
    return true;
}

// Blocks that began before a decoder's mark, 1 + which; 0: at its beginning.
static inline uint hr__blocks_at(__global const struct hr__entropy *pic,
                                 __global uchar *work, uint sub, uint mark)
{
    return mark ? hr__marks(pic, work, sub)[mark - 1].counts & 0xffff : 0;
}

// What the decoder of subsequence w finds in n, two or more behind it, the item
// of n writes. between: blocks that do not belong to w, but are counted before n.
static inline void hr__cover(__global const struct hr__entropy *pic,
                             __global uchar *work,
                             __global const struct hr__interval *i, uint w,
                             uint n, uint between)
{
    __global struct hr__sub *s = &hr__subs(pic, work)[i->sub + n];
    __global const struct hr__sub *by = &hr__subs(pic, work)[i->sub + w];
    uint mark = 2 * HR__SUB_MARKS + n - w - 2;

    s->cover = hr__marks(pic, work, i->sub + w)[mark].place;
    s->cover_to = min(by->at, hr__mark_at(i, n, HR__SUB_MARKS - 1));
    s->cover_before = hr__blocks_at(pic, work, i->sub + w, mark + 1) -
                      by->blocks - between;
}

// What is odd about a decoder that tells the truth.
static inline uint hr__odd(__global const struct hr__sub *s,
                           __global const struct hr__interval *i)
{
    if (s->next == HR__NEXT_FAR)
        return HR__ODD_STEP;
    return s->next == HR__NEXT_ODD ||
                   (s->next == HR__NEXT_END && (s->state || s->at != i->end))
               ? HR__ODD_FILE
               : 0;
}

// A decoder of the chain: its subsequence, how many blocks begin in its part, and
// how far it went on.
struct hr__link {
    uint n, blocks, last;
};

// Finds the decoder of the chain, one of its latest three, that comes through n
// from two or more subsequences before.
static inline void hr__find_cover(__global const struct hr__entropy *pic,
                                  __global uchar *work,
                                  __global const struct hr__interval *i,
                                  const struct hr__link *a,
                                  const struct hr__link *b,
                                  const struct hr__link *c, uint n)
{
    uint after = c->n < n ? c->blocks : 0;

    if (n - c->n > 1 && n - c->n <= c->last)
        hr__cover(pic, work, i, c->n, n, 0);
    else if (n - b->n > 1 && n - b->n <= b->last)
        hr__cover(pic, work, i, b->n, n, after);
    else if (n - a->n > 1 && n - a->n <= a->last)
        hr__cover(pic, work, i, a->n, n, after + b->blocks);
    else
        hr__subs(pic, work)[i->sub + n].cover_to = 0;
}

// The subsequences among [from, to) of the chain: from the first on, what the
// decoder of each meets. Returns what is odd; *blocks: how many begin.
static inline uint hr__chain(__global const struct hr__entropy *pic,
                             __global uchar *work,
                             __global const struct hr__interval *i, uint from,
                             uint to, uint *blocks)
{
    __global struct hr__sub *subs = hr__subs(pic, work) + i->sub;
    uint n = from - min(from, 2u), most = HR__SUB_BACK, odd = 0;
    struct hr__link a = {0, 0, 0}, b = a, c = a;

    // n is one for certain; which one met it only matters to the next one.
    while (n && most && !hr__all_meet(subs, n))
        n--, most--;
    if (n && !most)
        return HR__ODD_STEP;
    for (c.n = n; n < to; n++) {
        __global struct hr__sub *s = &subs[n];
        uint mark = n > c.n && subs[c.n].next == n ? subs[c.n].mark : 0;

        if (mark) {
            a = b;
            b = c;
        }
        if (mark || n == c.n) {
            c.n = n;
            c.last = s->last;
            c.blocks = s->blocks - hr__blocks_at(pic, work, i->sub + n, mark);
        }
        if (n < from)
            continue;
        hr__find_cover(pic, work, i, &a, &b, &c, n);
        s->from = c.n == n ? mark : HR__FROM_NOWHERE;
        if (c.n == n) {
            s->before = c.blocks;
            *blocks += c.blocks;
            odd |= hr__odd(s, i);
        }
    }
    return odd;
}

// A group has an interval. Its items go along the subsequences, each along some
// neighbours, and count the blocks. Where all of a batch could not go on at once
// before, they do that first. (PoCL 3.1 makes wrong code of barriers behind a
// return or a break.)
__kernel void hr_entropy_check(__global const uint *restrict plan, uint list,
                               __global const uchar *restrict in,
                               __global uchar *restrict work,
                               __global uchar *restrict out)
{
    __local uint odd, sums[HR__GROUP];
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__entropy *pic = hr__entropy_of(job, in);
    uint lane = (uint)get_local_id(0), x = job.item / HR__GROUP;
    bool here = x < pic->num_intervals;
    __global const struct hr__interval *i = hr__intervals(pic) + (here ? x : 0);
    __global struct hr__sub *subs = hr__subs(pic, work) + i->sub;
    uint count = here ? i->subs : 0, each = (count + HR__GROUP - 1) / HR__GROUP;
    uint from = min(lane * each, count), to = min(from + each, count);
    uint blocks = 0, all = 0, wrong = 0;

    if (!lane)
        odd = 0;
    for (uint n = lane; n < count; n += HR__GROUP)
        hr__go_on(pic, work, i, n);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    for (uint n = lane; n < count; n += HR__GROUP)
        if (subs[n].next == HR__NEXT_ON)
            hr__go_far(pic, work, i, n, i->sub + n);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (from < to)
        wrong = hr__chain(pic, work, i, from, to, &blocks);
    sums[lane] = blocks;
    if (wrong)
        atomic_or(&odd, wrong);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    for (uint n = 0; n < HR__GROUP; n++) {
        blocks = n == lane ? all : blocks;
        all += sums[n];
    }
    for (uint n = from; n < to; n++) {
        uint own = subs[n].from == HR__FROM_NOWHERE ? 0 : subs[n].before;

        subs[n].cover_before += blocks;
        subs[n].before = blocks;
        blocks += own;
    }
    // (What comes behind what is out of step is not known.)
    if (count && !lane) {
        uint file = all != i->mcus * pic->mcu_blocks ? HR__ODD_FILE : 0;

        wrong = odd & HR__ODD_STEP ? HR__ODD_STEP : odd | file;
        if (wrong)
            atomic_or(&HR__AT(uint, out + pic->flag), wrong);
    }
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

// Where the coefficients of a decoder go.
struct hr__writer {
    __global const struct hr__entropy *pic;
    __global uchar *work;
    uint mcu, blocks;     // of the interval; that have begun before
    uint block;           // of the MCU; the one that begins next
    __global short *to;   // that is written; NULL: not here
};

static inline struct hr__writer hr__writer_of(
    __global const struct hr__entropy *pic, __global uchar *work, uint mcu,
    uint blocks, uint state)
{
    uint block = state >> 6;
    struct hr__writer w = {pic, work, mcu, blocks, block, 0};

    if (state & 63) {
        w.to = hr__place(pic, &pic->comp[pic->of[block]], work,
                         mcu + (blocks - 1) / pic->mcu_blocks, pic->nth[block]);
        w.block = block + 1 < pic->mcu_blocks ? block + 1 : 0;
    }
    return w;
}

static inline void hr__write_dc(struct hr__writer *w, int value)
{
    __global const struct hr__entropy *pic = w->pic;
    __global const struct hr__entropy_component *c =
        &pic->comp[pic->of[w->block]];
    uint nth = pic->nth[w->block], mcu = w->mcu + w->blocks / pic->mcu_blocks;

    w->to = hr__place(pic, c, w->work, mcu, nth);
    HR__AT(short, w->work + c->diffs + 2 * (mcu * c->h * c->v + nth)) =
        (short)value;
    w->blocks++;
    w->block = w->block + 1 < pic->mcu_blocks ? w->block + 1 : 0;
}

static inline void hr__write_ac(struct hr__writer *w, uint k, int value)
{
    if (value && w->to)
        w->to[hr__natural[k & 63]] = (short)value;
}

// Symbols that hr__walk has kept.
static inline void hr__write_kept(struct hr__writer *w,
                                  __global const ushort *kept, uint n, uint end,
                                  uint k)
{
    for (; n < end; n++) {
        uint s = kept[n * HR__GROUP];

        if (s & 0x8000) {
            hr__write_dc(w, (int)(s << 20) >> 20);
            k = 1;
        } else {
            k += s >> 11;
            hr__write_ac(w, k, (int)(s << 21) >> 21);
            k++;
        }
    }
}

static inline void hr__write_bits(struct hr__writer *w, struct hr__reader *r,
                                  uint to)
{
    while (r->at < to) {
        bool begins = !r->k;
        struct hr__symbol s = hr__next(r);

        if (s.odd)
            break;  // padding
        if (begins)
            hr__write_dc(w, s.value);
        else
            hr__write_ac(w, s.k, s.value);
    }
}

// What a decoder has found that tells the truth, from its mark on.
static inline void hr__write_own(__global const struct hr__entropy *pic,
                                 __global uchar *work,
                                 __global const struct hr__interval *i, uint sub)
{
    struct hr__sub s = hr__subs(pic, work)[sub];
    uint n = sub - i->sub, place = 0, symbols = 0;
    struct hr__writer w;
    struct hr__reader r;

    if (s.from) {
        struct hr__mark m = hr__marks(pic, work, sub)[s.from - 1];

        place = m.place;
        symbols = m.counts >> 16;
    }
    w = hr__writer_of(pic, work, i->mcu, s.before, place & 1023);
    r = hr__reader_of(pic, work, i, sub,
                      hr__sub_begin(i, n + (s.from > HR__SUB_MARKS)) +
                          (place >> 10),
                      place & 1023);
    if (s.symbols <= pic->room)
        hr__write_kept(&w, r.kept, symbols, s.symbols, r.k);
    else
        hr__write_bits(&w, &r,
                       min(s.at, hr__mark_at(i, n + 1, HR__SUB_MARKS - 1)));
    HR__COUNTED_OF(&r, sub);
}

// An item writes what the decoder of its subsequence has found, up to the end of
// the next one, if that is true; and what another has found in its subsequence
// that comes from further.
__kernel void hr_entropy_write(__global const uint *restrict plan, uint list,
                               __global const uchar *restrict in,
                               __global uchar *restrict work,
                               __global const uchar *restrict out)
{
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__entropy *pic = hr__entropy_of(job, in);
    uint sub = job.item;

    if (sub >= pic->num_subs || HR__AT(const uint, out + pic->flag))
        return;

    __global const struct hr__interval *i = hr__interval_of(pic, sub);
    __global const struct hr__sub *s = &hr__subs(pic, work)[sub];

    if (s->from != HR__FROM_NOWHERE)
        hr__write_own(pic, work, i, sub);
    if (s->cover_to) {
        uint state = s->cover & 1023;
        struct hr__writer w = hr__writer_of(pic, work, i->mcu, s->cover_before,
                                            state);
        struct hr__reader r = hr__reader_of(
            pic, work, i, sub,
            hr__sub_begin(i, sub - i->sub) + (s->cover >> 10), state);

        hr__write_bits(&w, &r, s->cover_to);
        HR__COUNTED_OF(&r, sub);
    }
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
