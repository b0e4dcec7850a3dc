// SPDX-License-Identifier: Apache-2.0
// One lock guards the assignment of rows to threads. Rows take tens of
// microseconds, so it is seldom contended.
#include "split.h"

#include <assert.h>

typedef struct cpu_split split;

// A row, and what is to be done with it.
struct piece {
    int row;  // -1: nothing
    bool entropy;
};

static const struct piece nothing = {-1, false};

int cpu_split_bands(int rows, int period)
{
    return (rows + period - 1) / period;
}

// ---- What can be done -------------------------------------------------------

// Returns the row behind the last one that has memory and is wanted.
static int limit(const split *s)
{
    int end = s->at - 1 + s->p.ring;

    end = end < s->p.rows ? end : s->p.rows;
    return s->over || s->odd ? 0 : end;
}

static bool is(const split *s, int row, int state)
{
    int i = row % s->p.ring;

    return s->slot[i].row == row && (int)s->slot[i].state == state;
}

static struct piece next_entropy(const split *s)
{
    int end = limit(s), period = s->p.period;

    for (int b = s->at / period; b * period < end; b++) {
        int row = s->bands[b].next;

        if (!s->bands[b].busy && row < (b + 1) * period && row < end)
            return (struct piece){row, true};
    }
    return nothing;
}

static struct piece next_reconstruct(const split *s)
{
    for (int row = s->at, end = limit(s); row < end; row++)
        if (is(s, row, CPU_ROW_BLOCKS))
            return (struct piece){row, false};
    return nothing;
}

// Returns how many threads more would find something to do.
static int helpers(const split *s)
{
    int n = 0, end = limit(s), period = s->p.period;

    for (int b = s->at / period; b * period < end; b++)
        n += !s->bands[b].busy && s->bands[b].next < (b + 1) * period &&
             s->bands[b].next < end;
    return n;
}

// ---- Doing it ---------------------------------------------------------------

// Wakes the owner if there is reason to.
static void tell(split *s, bool leaves)
{
    if (s->wakes >= 0 && (leaves || s->odd || is(s, s->wakes, CPU_ROW_BLOCKS) ||
                          is(s, s->wakes, CPU_ROW_READY)))
        pthread_cond_signal(&s->done);
}

// The lock is given away meanwhile.
static void call(split *s, int n)
{
    s->hungry = false;
    pthread_mutex_unlock(&s->lock);
    s->p.helpers->call(s->p.helpers, &s->help, n);
    pthread_mutex_lock(&s->lock);
}

// Calls threads that found nothing to do again when half of the ring is free: a
// wake-up costs as much as a part of a row.
static void call_again(split *s)
{
    struct piece p;

    if (!s->hungry || (p = next_entropy(s)).row < 0 ||
        limit(s) - p.row < s->p.ring / 2)
        return;
    call(s, helpers(s));
}

// Does entropy of a row. With the lock, which is given away meanwhile.
static void entropy(split *s, int row)
{
    struct cpu_split_band *band = &s->bands[row / s->p.period];
    int i = row % s->p.ring;
    bool ok;

    assert(!band->busy && band->next == row);
    band->busy = true;
    s->slot[i].row = row;
    s->slot[i].state = CPU_ROW_AT_WORK;
    pthread_mutex_unlock(&s->lock);
    ok = s->p.entropy(s->p.ctx, row);
    pthread_mutex_lock(&s->lock);
    band->busy = false;
    band->next = row + 1;
    s->slot[i].state = row < s->p.first ? CPU_ROW_READY : CPU_ROW_BLOCKS;
    s->odd |= !ok;
}

static void do_piece(split *s, struct piece p)
{
    int i = p.row % s->p.ring;

    if (p.entropy) {
        entropy(s, p.row);
    } else {
        s->slot[i].state = CPU_ROW_AT_WORK;
        pthread_mutex_unlock(&s->lock);
        s->p.reconstruct(s->p.ctx, p.row);
        pthread_mutex_lock(&s->lock);
        s->slot[i].state = CPU_ROW_READY;
    }
    tell(s, false);
}

static struct piece next_piece(const split *s)
{
    struct piece p = next_entropy(s);

    return p.row < 0 ? next_reconstruct(s) : p;
}

static void help(struct cpu_help *h, bool (*leave)(void *ctx), void *ctx)
{
    split *s = (split *)h;
    struct piece p;

    pthread_mutex_lock(&s->lock);
    while (!leave(ctx) && (p = next_piece(s)).row >= 0)
        do_piece(s, p);
    s->hungry = true;
    tell(s, true);
    pthread_mutex_unlock(&s->lock);
}

// ---- The owner --------------------------------------------------------------

void cpu_split_begin(split *s, const struct cpu_split_params *p,
                     struct cpu_split_band *bands, int num_bands)
{
    assert(p->ring >= 4 && p->ring <= CPU_SPLIT_RING);
    *s = (split){.help = {.run = help},
                 .p = *p,
                 .at = p->begin,
                 .wakes = -1,
                 .bands = bands};
    for (int i = 0; i < CPU_SPLIT_RING; i++)
        s->slot[i].row = -1;
    for (int b = 0; b < num_bands; b++)
        bands[b] = (struct cpu_split_band){.next = b * p->period};
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->done, NULL);
    pthread_mutex_lock(&s->lock);
    call(s, helpers(s));
    pthread_mutex_unlock(&s->lock);
}

// Returns the row to wait for: where others are faster than the owner, it waits
// once for some rows, not for each of them.
static int some_rows_below(const split *s, int row)
{
    int end = limit(s), some = s->p.period < s->p.ring ? 1 : s->p.ring / 2;

    return row + some < end ? row + some - 1 : end - 1;
}

static void sleep_until(split *s, int row)
{
    s->wakes = some_rows_below(s, row);
    pthread_cond_wait(&s->done, &s->lock);
    s->wakes = -1;
    s->p.lap(s->p.ctx, CPU_STAGE_NONE);
}

bool cpu_split_row(split *s, int row)
{
    bool ok;

    pthread_mutex_lock(&s->lock);
    s->at = row;
    call_again(s);
    while (!s->odd && !is(s, row, CPU_ROW_READY)) {
        struct piece p = {row, false};

        if (!is(s, row, CPU_ROW_BLOCKS))
            p = next_piece(s);
        if (p.row < 0) {
            sleep_until(s, row);
        } else {
            do_piece(s, p);
            s->p.lap(s->p.ctx,
                     p.entropy ? CPU_STAGE_ENTROPY : CPU_STAGE_RECONSTRUCT);
        }
        call_again(s);
    }
    ok = !s->odd;
    pthread_mutex_unlock(&s->lock);
    return ok;
}

void cpu_split_end(split *s)
{
    pthread_mutex_lock(&s->lock);
    s->over = true;
    pthread_mutex_unlock(&s->lock);
    s->p.helpers->end(s->p.helpers, &s->help);
    pthread_cond_destroy(&s->done);
    pthread_mutex_destroy(&s->lock);
}
