// SPDX-License-Identifier: Apache-2.0
// Stage entropy, behind entropy.cl: a decoder begins in each subsequence with a
// guess and leaves marks. It goes on until it meets the marks of another one:
// from there on both find the same. hr_entropy_check follows the decoders that
// tell the truth from the beginning of an interval on.

#ifdef HR__ENTROPY
// Returns a decoder's position, in a word.
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
           sub * hr__all_marks(pic->sub_marks);
}

// Where subsequence n of an interval begins; mark m of it; its end.
static inline uint hr__sub_begin(__global const struct hr__entropy *pic,
                                 __global const struct hr__interval *i, uint n)
{
    return i->begin + n * pic->sub_marks * HR__MARK_BITS;
}

static inline uint hr__mark_at(__global const struct hr__entropy *pic,
                               __global const struct hr__interval *i, uint n,
                               uint m)
{
    return min(hr__sub_begin(pic, i, n) + (m + 1) * HR__MARK_BITS, i->end);
}

static inline uint hr__sub_end(__global const struct hr__entropy *pic,
                               __global const struct hr__interval *i, uint n)
{
    return hr__mark_at(pic, i, n, pic->sub_marks - 1);
}

static inline struct hr__mark hr__mark_of(const struct hr__reader *r,
                                          uint begin)
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

// Decodes every subsequence from a guess. Only the decoder of an interval's
// first subsequence knows where to begin. The others begin behind a DC, as most
// bits are of coefficients that do: so they are in step sooner. For them an
// irregularity shows a wrong guess, also for all before it.
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
    r = hr__reader_of(pic, work, i, sub, hr__sub_begin(pic, i, n), n ? 1 : 0);
    for (m = 0; m < pic->sub_marks; m++) {
        how = hr__walk(&r, hr__mark_at(pic, i, n, m));
        while (how == HR__NEXT_ODD && n) {
            hr__begin(&r, 0);
            r.k = 1;
            r.symbols = r.blocks = 0;
            for (uint x = 0; x < m; x++)
                marks[x].place = HR__MARK_NONE;
            how = hr__walk(&r, hr__mark_at(pic, i, n, m));
        }
        if (how == HR__NEXT_ODD)
            break;
        marks[m] = hr__mark_of(&r, hr__sub_begin(pic, i, n));
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

// The decoder of subsequence n of an interval goes on through the next one
// until it is where that one's decoder was at the same mark: from there on they
// find the same. True: it does not meet it.
static inline bool hr__go_on(__global const struct hr__entropy *pic,
                             __global uchar *work,
                             __global const struct hr__interval *i, uint n)
{
    __global struct hr__sub *s = &hr__subs(pic, work)[i->sub + n];
    __global struct hr__mark *marks = hr__marks(pic, work, i->sub + n);
    __global const struct hr__mark *others;
    uint begin = hr__sub_begin(pic, i, n + 1), next = 0;
    struct hr__reader r;

    if (s->next != HR__NEXT_OPEN)
        return false;
    r = hr__reader_on(pic, work, i, n);
    others = hr__marks(pic, work, i->sub + n + 1);
    marks += pic->sub_marks;
    for (uint m = 0; m < pic->sub_marks; m++) {
        struct hr__mark mark = {HR__MARK_NONE, 0};

        if (!next)
            next = hr__walk(&r, hr__mark_at(pic, i, n + 1, m));
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

    r.capacity = 0;
    for (uint to = n + 2; to <= last && !next; to++) {
        __global const struct hr__mark *m = hr__marks(pic, work, i->sub + to);
        uint begin = hr__sub_begin(pic, i, to);

        marks[2 * pic->sub_marks + to - n - 2] = hr__mark_of(&r, begin);
        s->last = to - n;
        for (uint x = 0; x < pic->sub_marks && !next; x++) {
            next = hr__walk(&r, hr__mark_at(pic, i, to, x));
            if (next)
                continue;

            uint place = hr__place_of(&r, begin), y = x + pic->sub_marks;
            __global const struct hr__mark *before =
                hr__marks(pic, work, i->sub + to - 1);

            if (place == m[x].place) {
                next = to;
                s->mark = x + 1;
            } else if (place == before[y].place) {
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

// Lists the decoders that are still open: they are few of many, and so the
// items of the next launch lie side by side.
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

// Says whether every decoder from before subsequence n is in step with that of
// n, or of one before.
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

// Plans for the item of n, two or more behind w, to write the coefficients that
// the decoder of subsequence w finds in n. between: blocks that do not belong
// to w, but are counted before n.
static inline void hr__cover(__global const struct hr__entropy *pic,
                             __global uchar *work,
                             __global const struct hr__interval *i, uint w,
                             uint n, uint between)
{
    __global struct hr__sub *s = &hr__subs(pic, work)[i->sub + n];
    __global const struct hr__sub *by = &hr__subs(pic, work)[i->sub + w];
    uint mark = 2 * pic->sub_marks + n - w - 2;

    s->cover = hr__marks(pic, work, i->sub + w)[mark].place;
    s->cover_to = min(by->at, hr__sub_end(pic, i, n));
    s->cover_before = hr__blocks_at(pic, work, i->sub + w, mark + 1) -
                      by->blocks - between;
}

// Returns the flag for an irregularity that a correct decoder has found; 0:
// none.
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

// A decoder of the chain: its subsequence, how many blocks begin in its part,
// and how far it went on.
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
// neighbours, and count the blocks. Where all of a batch could not go on at
// once before, they do that first. (PoCL 3.1 makes wrong code of barriers
// behind a return or a break.)
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
#endif
