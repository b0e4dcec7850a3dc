// SPDX-License-Identifier: Apache-2.0
#include <limits.h>

#include "hal/ops/op_def.h"

// Rounds as int() does, but for numbers that are far too large anyhow.
static int to_side(double x)
{
    return x < INT_MAX ? (int)x : INT_MAX;
}

// torchvision/transforms/functional.py _compute_resized_output_size:
// int(size * long / short) with true division of exact integers.
static void resize_size(const struct hr_resize *op, int w, int h, int *rw,
                        int *rh)
{
    int64_t s = op->short_side;

    if (w <= h) {
        *rw = (int)s;
        *rh = to_side((double)(s * h) / w);
    } else {
        *rh = (int)s;
        *rw = to_side((double)(s * w) / h);
    }
}

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    struct hr_resize to = op->resize;
    int w, h;

    hr__fold_size(f, &w, &h);
    if (to.short_side)
        resize_size(&op->resize, w, h, &to.w, &to.h);
    return hr__fold_resize(f, &to);
}

static enum hr_status check(const struct hr_op *op, char text[128])
{
    const struct hr_resize *r = &op->resize;

    if (r->short_side && (r->w || r->h))
        return HR__BAD("resize to %dx%d and to a short side of %d: only one "
                       "goes",
                       r->w, r->h, r->short_side);
    if (!r->short_side && !r->w && !r->h)
        return HR__BAD("resize: no size");
    return HR_OK;
}

static const struct hr_op_field fields[] = {
    HR__FIELD(resize, w, INT, .hi = HR_MAX_SIDE),
    HR__FIELD(resize, h, INT, .hi = HR_MAX_SIDE),
    HR__FIELD_AS("side", resize, short_side, INT, .hi = HR_MAX_SIDE,
                 .not_zero = true),
    HR__FIELD(resize, filter, ENUM, .values = hr__filters),
    HR__FIELD(resize, box, BOX),
    HR__FIELD(resize, order, ENUM, .values = hr__orders),
};

static const struct hr_op_form forms[] = {
    {"resize", HR__FIELDS(6) & ~(1 << 2), HR_OP_RESIZE(0)},
    {"resize_short", 1 << 2 | 1 << 3 | 1 << 5, HR_OP_RESIZE(0)},
};

static bool mixes(const struct hr_op *op)
{
    return op->resize.filter != HR_NEAREST;
}

const struct hr__op_def hr__op_resize = {
    .info = {HR__INFO_FORMS("resize", RESIZE, RESAMPLE),
             .usage = "resize=N|WxH[:FILTER[:ORDER]]"},
    .words = HR__WORDS(
        {.name = "resize",
         .syntax = "SIZE or WIDTHxHEIGHT",
         .op = HR_OP_RESIZE(0),
         .arguments = {{'=', .as = HR__AS_SHORT}, HR__ARG(3), HR__ARG(5)}}),
    .mixes = mixes,
    .size = offsetof(struct hr_op, resize.w),
    .check = check,
    .fold = fold,
};
