// SPDX-License-Identifier: Apache-2.0
// Two pictures, element by element, in levels of 0 .. 255 whatever their
// elements are.
#include <float.h>
#include <math.h>
#include <string.h>

#include "hal/shape/shape.h"

// How far apart two honest ways of scaling a picture may be. In the mean square
// of all elements: some levels, and a share of what neighbours in both pictures
// differ by. Bilinear scaling came to .25 of that in photos and .20 in noise; a
// picture that has nothing to do with the other comes to .5 in noise, and a
// mirrored photo to more than 1. And in the mean of each channel: as many
// levels, and what chance leaves of the neighbours' differences in noise.
static const double FREE_LEVELS = 4, SHARE = .35, CHANCE = 4;

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

void hr__dst_clear(const struct hr__dst *d)
{
    for (int i = 0; i < hr__dst_rows(d); i++)
        memset(hr__dst_row(d, i), 0, hr__dst_row_bytes(d));
}

struct hr__dst hr__dst_packed(const struct hr__dst *d, uint8_t *data)
{
    struct hr__dst packed = *d;

    packed.data = data;
    packed.stride_h = hr__dst_row_bytes(d);
    packed.stride_c = packed.stride_h * (size_t)d->h;
    return packed;
}

static bool equal(const struct hr__dst *a, const struct hr__dst *b)
{
    if (a->layout != b->layout)
        return false;
    for (int i = 0; i < hr__dst_rows(a); i++)
        if (memcmp(hr__dst_row(a, i), hr__dst_row(b, i), hr__dst_row_bytes(a)))
            return false;
    return true;
}

// ---- Levels ----------------------------------------------------------------

void hr__level_units(const struct hr__table *t, enum hr_dtype made,
                     int channels, double units[3])
{
    for (int c = 0; c < channels; c++) {
        double step = 1;

        if (t && made == HR_F32)
            step = ((double)t->f32[c][255] - (double)t->f32[c][0]) / 255;
        else if (t && made == HR_F16)
            step = (hr_f16_value(t->f16[c][255]) - hr_f16_value(t->f16[c][0])) /
                   255;
        // A table may hold what is beyond the type.
        units[c] = isfinite(step) && fabs(step) > 0 ? fabs(step) : 1;
    }
}

static double value(enum hr_dtype dtype, const uint8_t *at)
{
    uint16_t half;
    float f;

    switch (dtype) {
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

// At most all levels there are; a difference that is not a number is that
// large, too. (A table may hold infinities and NaN, which equal themselves.)
// Elements come from tables of 256 values that were rounded to their type:
// whole levels are said as such where that rounding is all that is missing.
static double distance(enum hr_dtype dtype, double a, double b, double unit)
{
    double levels = fabs(a - b) / unit, whole = round(levels);
    double step = dtype == HR_F16 ? 0x1p-11 : (double)FLT_EPSILON;
    double doubt = 255 * (double)FLT_EPSILON +
                   step * (fabs(a) + fabs(b)) / unit;

    if (levels < 255)
        return whole > 0 && fabs(levels - whole) <= doubt ? whole : levels;
    return a == b || (isnan(a) && isnan(b)) ? 0 : 255;
}

// ---- Comparing -------------------------------------------------------------

static const uint8_t *address(const struct hr__dst *d, int c, int y, int x)
{
    size_t elem = hr_dtype_size(d->dtype);
    bool planar = d->layout == HR_NCHW;

    return d->data + d->stride_h * (size_t)y +
           (planar ? d->stride_c * (size_t)c : elem * (size_t)c) +
           elem * (size_t)x * (planar ? 1 : (size_t)d->c);
}

// What of one channel decides whether the pictures are alike.
struct channel {
    double offset;  // the sum of the differences, with their signs
    double detail;  // the sum of the squares of what neighbours differ by
};

static void count(struct hr_difference *out, double levels, int c, int y, int x)
{
    if (!out->differing++ || levels > out->max) {
        out->max = levels;
        out->x = x;
        out->y = y;
        out->c = c;
    }
    out->sum += levels;
    out->squares += levels * levels;
    out->by_levels[(int)(levels + .5)]++;
}

// By how much the neighbours to the right and below differ from an element.
static double detail(const struct hr__dst *d, double unit, int c, int y, int x)
{
    double is = value(d->dtype, address(d, c, y, x)), sum = 0;

    for (int down = 0; down < 2; down++) {
        int y1 = y + down, x1 = x + !down;
        double by;

        if (y1 >= d->h || x1 >= d->w)
            continue;
        by = distance(d->dtype, is, value(d->dtype, address(d, c, y1, x1)),
                      unit);
        sum += by * by;
    }
    return sum;
}

static void compare_element(const struct hr__dst *a, const struct hr__dst *b,
                            double unit, int c, int y, int x,
                            struct channel *ch, struct hr_difference *out)
{
    const uint8_t *l = address(a, c, y, x), *r = address(b, c, y, x);
    double left, right, levels;

    ch->detail += detail(a, unit, c, y, x) + detail(b, unit, c, y, x);
    if (!memcmp(l, r, hr_dtype_size(a->dtype)))
        return;
    left = value(a->dtype, l);
    right = value(b->dtype, r);
    levels = distance(a->dtype, left, right, unit);
    ch->offset += left < right ? -levels : levels;
    count(out, levels, c, y, x);
}

void hr__compare(const struct hr__dst *a, const struct hr__dst *b,
                 const double units[3], struct hr_difference *out)
{
    double n = (double)a->w * a->h, details = 0;

    *out = (struct hr_difference){.alike = true};
    out->elements = (uint64_t)a->w * (uint64_t)a->h * (uint64_t)a->c;
    if (equal(a, b))
        return;
    for (int c = 0; c < a->c; c++) {
        struct channel ch = {0};

        for (int y = 0; y < a->h; y++)
            for (int x = 0; x < a->w; x++)
                compare_element(a, b, units[c], c, y, x, &ch, out);
        if (fabs(ch.offset) > FREE_LEVELS * n + CHANCE * sqrt(ch.detail))
            out->alike = false;
        details += ch.detail;
    }
    // Each element has two neighbours.
    if (out->squares >
        FREE_LEVELS * FREE_LEVELS * n * a->c + SHARE * details / 2)
        out->alike = false;
}

enum hr_status hr_image_compare(hr_image a, hr_image b,
                                const struct hr_normalize *normalize,
                                struct hr_difference *out)
{
    struct hr__dst left, right;
    struct hr__table table;
    double units[3];

    if (!a || !b || !out)
        return hr__fail(HR_EINVAL, "no image, or no place for the result");
    left = HR__DST_OF(&a->params);
    right = HR__DST_OF(&b->params);
    if (!left.data || !right.data)
        return hr__fail(HR_EINVAL, "device memory is not compared");
    if (left.w != right.w || left.h != right.h || left.c != right.c ||
        left.dtype != right.dtype)
        return hr__fail(HR_EINVAL, "other sizes or types of elements");
    // f32, though the elements may be halves: the exact size of a level.
    if (normalize)
        hr__table_build(&table, normalize, left.c, HR_F32);
    hr__level_units(normalize && left.dtype != HR_U8 ? &table : NULL, HR_F32,
                    left.c, units);
    hr__compare(&left, &right, units, out);
    return HR_OK;
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
