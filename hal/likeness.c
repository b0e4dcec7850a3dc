// SPDX-License-Identifier: Apache-2.0
// How alike two pictures of one destination are, in levels of 0 .. 255
// whatever its elements are. One is where dst says, the other packed: its rows
// without gaps.
#include <math.h>
#include <string.h>

#include "hal/likeness.h"

// How far off a picture may be whose scaling is not ours: some levels, and a
// share of what its own neighbours differ by. Honest bilinear scaling of the
// certificate's pictures came to a share of .36 in noise and less than .25 in
// all others.
static const double FREE_LEVELS = 4, SHARE = .375;

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
    bool equal = a == b || (isnan(a) && isnan(b));
    double diff = equal ? 0 : fabs(a - b) / unit;

    return diff < 255 ? diff : 255;
}

// ---- Comparing -------------------------------------------------------------

static void row_likeness(const struct hr__dst *d, const struct hr__table *table,
                         int i, const uint8_t *packed, struct hr__likeness *l)
{
    size_t elem = hr_dtype_size(d->dtype), n = hr__dst_row_bytes(d) / elem;
    size_t step = d->layout == HR_NCHW ? 1 : (size_t)d->c;
    const uint8_t *mine = hr__dst_row(d, i);
    const uint8_t *below = (i + 1) % d->h ? hr__dst_row(d, i + 1) : NULL;

    for (size_t k = 0; k < n; k++) {
        int c = d->layout == HR_NCHW ? i / d->h : (int)(k % step);
        double unit = level(d, table, c), is = value(d, mine + k * elem);
        double diff = distance(is, value(d, packed + k * elem), unit);

        l->sum += diff;
        l->squares += diff * diff;
        l->max = diff > l->max ? diff : l->max;
        l->differing += diff > 0;
        if (k + step < n)
            l->busy += distance(is, value(d, mine + (k + step) * elem), unit);
        if (below)
            l->busy += distance(is, value(d, below + k * elem), unit);
    }
    l->elements += n;
}

void hr__liken(const struct hr__dst *d, const struct hr__table *table,
               const uint8_t *packed, struct hr__likeness *l)
{
    size_t n = hr__dst_row_bytes(d);

    *l = (struct hr__likeness){0};
    for (int i = 0; i < hr__dst_rows(d); i++, packed += n)
        row_likeness(d, table, i, packed, l);
}

bool hr__alike(const struct hr__likeness *l)
{
    return l->sum <= FREE_LEVELS * (double)l->elements + SHARE * l->busy;
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
