// SPDX-License-Identifier: Apache-2.0
// How alike two pictures of one destination are, in levels of 0 .. 255
// whatever its elements are. One is where dst says, the other packed: its rows
// without gaps.
#include <math.h>
#include <string.h>

#include "hal/likeness.h"

// How far off a picture may be whose scaling is not ours. In squares, beyond
// some levels, a share of what neighbours differ by, in both pictures: honest
// bilinear scaling came to .25 in photos and .20 in noise, noise that has
// nothing to do with the other's comes to .5, and mirrored photos to more than
// 1. And on average some levels and a share of what the CPU's own neighbours
// differ by (honest: .22 in photos, .57 in noise); but for what comes to little
// where BLOCK x BLOCK elements are averaged: that of noise does (.27), that of
// wrong colours or levels does not.
static const double FREE_LEVELS = 4, SHARE = .375, ROUGH = .35, EVEN = .3;
enum { BLOCK = 4 };

// ---- Rows ------------------------------------------------------------------

size_t hr__dst_row_bytes(const struct hr__dst *d)
{
    return (size_t)d->w * hr_dtype_size(d->dtype) *
           (d->layout == HR_NCHW ? 1 : (size_t)d->c);
}

int hr__dst_rows(const struct hr__dst *d)
{
    return d->h * (d->layout == HR_NCHW ? d->c : 1);
}

uint8_t *hr__dst_row(const struct hr__dst *d, int i)
{
    return d->data + d->stride_c * (size_t)(i / d->h) +
           d->stride_h * (size_t)(i % d->h);
}

// ---- Levels ----------------------------------------------------------------

static double value(const struct hr__dst *d, const uint8_t *at)
{
    uint16_t half;
    float f;

    switch (d->dtype) {
    case HR_F32:
        memcpy(&f, at, sizeof(f));
        return f;
    case HR_F16:
        memcpy(&half, at, sizeof(half));
        return hr_f16_value(half);
    default:
        return *at;
    }
}

// What one level of 256 comes to in channel c.
static double level(const struct hr__dst *d, const struct hr__table *t, int c)
{
    double step = 1;

    if (d->dtype == HR_F32)
        step = ((double)t->f32[c][255] - (double)t->f32[c][0]) / 255;
    else if (d->dtype == HR_F16)
        step = (hr_f16_value(t->f16[c][255]) - hr_f16_value(t->f16[c][0])) /
               255;
    // A table may hold what is beyond the type.
    return isfinite(step) && fabs(step) > 0 ? fabs(step) : 1;
}

// At most all levels there are; that is what no number comes to, too. A table
// may hold what has no difference: infinities, and what is no number at all.
static double distance(double a, double b, double unit)
{
    double diff = fabs(a - b) / unit;

    if (diff < 255)
        return diff;
    return a == b || (isnan(a) && isnan(b)) ? 0 : 255;
}

// ---- Comparing -------------------------------------------------------------

// One channel of both pictures: [0] d's, [1] the packed one's.
struct pair {
    const struct hr__dst *d;
    const uint8_t *data[2];
    size_t row[2], step;  // bytes from row to row, and from pixel to pixel
    double unit;
    struct hr__likeness *l;
};

static void values(const struct pair *p, int y, int x, double out[2])
{
    for (int k = 0; k < 2; k++)
        out[k] = value(p->d, p->data[k] + p->row[k] * (size_t)y +
                                 p->step * (size_t)x);
}

static void add_neighbour(struct hr__likeness *l, const double is[2],
                          const double next[2], double unit)
{
    double mine = distance(is[0], next[0], unit);
    double other = distance(is[1], next[1], unit);

    l->busy += mine;
    l->rough += mine * mine + other * other;
}

// The difference, with its sign.
static double add_element(const struct pair *p, int y, int x)
{
    struct hr__likeness *l = p->l;
    double is[2], next[2], diff;

    values(p, y, x, is);
    diff = distance(is[0], is[1], p->unit);
    l->elements++;
    l->sum += diff;
    l->squares += diff * diff;
    l->max = diff > l->max ? diff : l->max;
    l->differing += diff > 0;
    if (x + 1 < p->d->w) {
        values(p, y, x + 1, next);
        add_neighbour(l, is, next, p->unit);
    }
    if (y + 1 < p->d->h) {
        values(p, y + 1, x, next);
        add_neighbour(l, is, next, p->unit);
    }
    return is[0] < is[1] ? -diff : diff;
}

static void add_block(const struct pair *p, int y0, int x0)
{
    double sum = 0;

    for (int y = y0; y < y0 + BLOCK && y < p->d->h; y++)
        for (int x = x0; x < x0 + BLOCK && x < p->d->w; x++)
            sum += add_element(p, y, x);
    p->l->even += fabs(sum);
}

void hr__liken(const struct hr__dst *d, const struct hr__table *table,
               const uint8_t *packed, struct hr__likeness *l)
{
    bool planar = d->layout == HR_NCHW;
    size_t elem = hr_dtype_size(d->dtype), n = hr__dst_row_bytes(d);

    *l = (struct hr__likeness){0};
    for (int c = 0; c < d->c; c++) {
        size_t first = planar ? n * (size_t)d->h : elem;
        struct pair p = {.d = d,
                         .data = {hr__dst_row(d, planar ? c * d->h : 0) +
                                      (planar ? 0 : elem * (size_t)c),
                                  packed + first * (size_t)c},
                         .row = {d->stride_h, n},
                         .step = planar ? elem : elem * (size_t)d->c,
                         .unit = level(d, table, c),
                         .l = l};

        for (int y = 0; y < d->h; y += BLOCK)
            for (int x = 0; x < d->w; x += BLOCK)
                add_block(&p, y, x);
    }
}

bool hr__alike(const struct hr__likeness *l)
{
    double n = (double)l->elements;

    // Each has two neighbours.
    return l->squares <= FREE_LEVELS * FREE_LEVELS * n + ROUGH * l->rough / 2 &&
           (l->sum <= FREE_LEVELS * n + SHARE * l->busy ||
            l->even <= EVEN * l->sum);
}

double hr__psnr(double squares, double elements)
{
    double dB;

    if (!(squares > 0))
        return 0;
    // Of the file's precision; the least there is says "differs", too.
    dB = floor(10 * log10(255. * 255 * elements / squares) * 1e9) / 1e9;
    return dB > 0 ? dB : 1e-9;
}
