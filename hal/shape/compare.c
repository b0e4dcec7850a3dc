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

static inline double value(enum hr_dtype dtype, const uint8_t *at)
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

// Returns the distance in levels, at most all there are; a difference that is
// not a number is that large, too. (A table may hold infinities and NaN, which
// equal themselves.) Elements come from tables of 256 values that were rounded
// to their type: a distance that differs from whole levels by no more than this
// rounding is made whole.
static inline double distance(enum hr_dtype dtype, double a, double b,
                              double unit)
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

// The sums of one channel that decide whether the pictures are alike.
struct channel {
    double offset;  // the sum of the differences, with their signs
    double detail;  // the sum of the squared differences of neighbours
};

static inline void count(struct hr_difference *out, double levels, int c, int y,
                         int x)
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

// The square of what two neighbours differ by. Levels that are bytes are most
// of what is compared: distance() says the same of them.
static inline double apart(enum hr_dtype dtype, const uint8_t *a,
                           const uint8_t *b, double unit)
{
    double by = *a - *b;

    if (dtype != HR_U8 || unit < 1 || unit > 1)
        by = distance(dtype, value(dtype, a), value(dtype, b), unit);
    return by * by;
}

// The elements of one channel: where, and how far it is to the neighbours.
struct plane {
    const uint8_t *data;
    size_t right, below;
};

static struct plane plane_of(const struct hr__dst *d, int c)
{
    size_t elem = hr_dtype_size(d->dtype);
    bool planar = d->layout == HR_NCHW;

    return (struct plane){.data = d->data +
                                  (planar ? d->stride_c : elem) * (size_t)c,
                          .right = elem * (planar ? 1 : (size_t)d->c),
                          .below = d->stride_h};
}

// Returns by how much the neighbours to the right and below differ from an
// element.
static inline double detail(const struct plane *p, const uint8_t *at,
                            enum hr_dtype dtype, double unit, bool right,
                            bool below)
{
    return (right ? apart(dtype, at, at + p->right, unit) : 0) +
           (below ? apart(dtype, at, at + p->below, unit) : 0);
}

// (Not memcmp(): of so few bytes a call is most of the time.)
static inline bool same(enum hr_dtype dtype, const uint8_t *a, const uint8_t *b)
{
    bool is = a[0] == b[0];

    if (dtype != HR_U8)
        is = is && a[1] == b[1];
    if (dtype == HR_F32)
        is = is && a[2] == b[2] && a[3] == b[3];
    return is;
}

static void compare_row(const struct hr__dst *d, const struct plane planes[2],
                        double unit, int c, int y, struct channel *ch,
                        struct hr_difference *out)
{
    const uint8_t *l = planes[0].data + planes[0].below * (size_t)y;
    const uint8_t *r = planes[1].data + planes[1].below * (size_t)y;
    bool below = y + 1 < d->h;

    for (int x = 0; x < d->w; x++, l += planes[0].right, r += planes[1].right) {
        bool right = x + 1 < d->w;
        double a, b, levels;

        ch->detail += detail(&planes[0], l, d->dtype, unit, right, below) +
                      detail(&planes[1], r, d->dtype, unit, right, below);
        if (same(d->dtype, l, r))
            continue;
        a = value(d->dtype, l);
        b = value(d->dtype, r);
        levels = distance(d->dtype, a, b, unit);
        ch->offset += a < b ? -levels : levels;
        count(out, levels, c, y, x);
    }
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
        struct plane planes[2] = {plane_of(a, c), plane_of(b, c)};
        struct channel ch = {0};

        for (int y = 0; y < a->h; y++)
            compare_row(a, planes, units[c], c, y, &ch, out);
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
        hr__table_build(&table, normalize, NULL, left.c, HR_F32);
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
    // Rounded to the precision of certificate files; even the smallest value
    // means that they differ.
    dB = floor(10 * log10(255. * 255 * elements / squares) * 1e9) / 1e9;
    return dB > 0 ? dB : 1e-9;
}
