// SPDX-License-Identifier: Apache-2.0
// Stage entropy, behind entropy_sync.cl: the coefficients of the decoders that
// tell the truth, and then their DCs, which are differences until here.

#ifdef HR__ENTROPY
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
        struct hr__seen seen = hr__look(r);

        do {
            bool begins = !r->k;
            struct hr__symbol s = hr__next(r, &seen);

            if (s.odd)
                return;  // padding
            if (begins)
                hr__write_dc(w, s.value);
            else
                hr__write_ac(w, s.k, s.value);
        } while (hr__goes_on(r, &seen, to));
    }
}

// Writes the coefficients of a correct decoder, from its mark on.
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
                      hr__sub_begin(pic, i, n + (s.from > pic->sub_marks)) +
                          (place >> 10),
                      place & 1023);
    if (s.symbols <= pic->capacity)
        hr__write_kept(&w, r.kept, symbols, s.symbols, r.k);
    else
        hr__write_bits(&w, &r,
                       min(s.at, hr__sub_end(pic, i, n + 1)));
    HR__COUNTED_OF(&r, sub);
}

// An item writes what the decoder of its subsequence has found, up to the end
// of the next one, if that is true; and what another has found in its
// subsequence that comes from further.
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
            hr__sub_begin(pic, i, sub - i->sub) + (s->cover >> 10), state);

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
