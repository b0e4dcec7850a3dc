// SPDX-License-Identifier: Apache-2.0
// Private to the SIMD sisters of the horizontal pass: how an axis is cut
// into pieces that one byte shuffle can feed.
//
// A row is seen as bytes, not pixels: output byte p belongs to output
// p / channels and begins at source byte lo * channels + p % channels; its
// taps are `channels` bytes apart. A shuffle brings the taps of neighbouring
// output bytes into the lanes of a register in output order, so RGB needs no
// de-interleaving and a mirrored axis only has another shuffle.
#ifndef CPU_RESAMPLE_PACK_H
#define CPU_RESAMPLE_PACK_H

#include "cpu_fallback/cpu_kernels.h"

// A walk over output bytes in order.
struct cpu_walk {
    const struct cpu_axis *axis;
    int channels;
    int x, c;  // output p is channel c of output x
    int p, end;
};

static inline struct cpu_walk cpu_walk_start(const struct cpu_axis *axis,
                                             int channels)
{
    return (struct cpu_walk){
        .axis = axis,
        .channels = channels,
        .end = axis->out * channels,
    };
}

static inline int cpu_walk_offset(const struct cpu_walk *at)
{
    return at->axis->lo[at->x] * at->channels + at->c;
}

static inline void cpu_walk_step(struct cpu_walk *at)
{
    at->p++;
    if (++at->c == at->channels) {
        at->c = 0;
        at->x++;
    }
}

// Output bytes [pos, pos + m) whose first source bytes all lie in
// [base, base + reach]; taps = the largest n among them.
struct cpu_piece {
    int base, pos, m, taps;
};

// The longest piece, at most max_m outputs, that begins where the walk is.
// Moves the walk behind it. m = 0 at the end of the row.
static inline struct cpu_piece cpu_piece_next(struct cpu_walk *at, int max_m,
                                              int reach)
{
    struct cpu_piece piece = {.pos = at->p};
    if (at->p == at->end)
        return piece;
    int low = cpu_walk_offset(at), high = low;
    while (piece.m < max_m && at->p < at->end) {
        int o = cpu_walk_offset(at);
        int new_low = o < low ? o : low, new_high = o > high ? o : high;
        if (new_high - new_low > reach)
            break;
        low = new_low;
        high = new_high;
        if (at->axis->n[at->x] > piece.taps)
            piece.taps = at->axis->n[at->x];
        piece.m++;
        cpu_walk_step(at);
    }
    piece.base = low;
    return piece;
}

// An axis whose outputs are source samples as they are: pieces of up to
// `window` bytes, and of each which bytes of the `window` from its base on it
// takes.
struct cpu_select {
    int num;
    const struct cpu_piece *pieces;
    const uint8_t *shuffles;  // window bytes per piece
};

// Packs the axis in memory of the arena. false = out of memory.
static inline bool cpu_select_pack(struct cpu_select *s,
                                   const struct cpu_axis *axis, int channels,
                                   int window, struct cpu_arena *a)
{
    struct cpu_walk at = cpu_walk_start(axis, channels);
    struct cpu_piece *pieces;
    uint8_t *shuffles;

    *s = (struct cpu_select){0};
    while (cpu_piece_next(&at, window, window - 1).m)
        s->num++;
    s->pieces = pieces = cpu_arena_array(a, (size_t)s->num, sizeof *pieces);
    s->shuffles = shuffles = cpu_arena_array(a, (size_t)s->num, (size_t)window);
    if (!pieces || !shuffles)
        return false;
    memset(shuffles, 0, (size_t)s->num * (size_t)window);
    at = cpu_walk_start(axis, channels);
    for (int i = 0; i < s->num; i++, shuffles += window) {
        struct cpu_walk from = at;

        pieces[i] = cpu_piece_next(&at, window, window - 1);
        for (int j = 0; j < pieces[i].m; j++, cpu_walk_step(&from))
            shuffles[j] = (uint8_t)(cpu_walk_offset(&from) - pieces[i].base);
    }
    return true;
}

#define CPU_ROWS_MAX 4  // rows that share one read of the weights

struct packed;  // each sister's own
typedef void (*cpu_rows_fn)(uint8_t *const *dst, const uint8_t *const *src,
                            const struct packed *p);

// Runs four rows at a time. A rest names its last row repeatedly: that takes
// no longer than four rows and writes the same bytes again. A rest of one
// has a function of its own where that is worth it (one may be NULL).
static inline void cpu_rows_by_four(uint8_t *const *dst,
                                    const uint8_t *const *src, int rows,
                                    const struct packed *p, cpu_rows_fn four,
                                    cpu_rows_fn one)
{
    int r = 0;
    for (; r + 4 <= rows; r += 4)
        four(dst + r, src + r, p);
    if (rows - r == 1 && one) {
        one(dst + r, src + r, p);
    } else if (r < rows) {
        uint8_t *d[4];
        const uint8_t *s[4];
        for (int i = 0; i < 4; i++) {
            int from = r + i < rows ? r + i : rows - 1;
            d[i] = dst[from];
            s[i] = src[from];
        }
        four(d, s, p);
    }
}

#endif
