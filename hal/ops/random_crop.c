// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "hal/ops/op_def.h"

// The first place that a window of `side` may have along an axis of n pixels,
// and how many places there are; <= 0: it does not fit.
static int places(int n, int side, const struct hr_random_crop *op, int *first)
{
    int spare;

    *first = -op->pad;
    n += 2 * op->pad;
    spare = side > n ? side - n : 0;
    if (!spare || !op->pad_if_needed)
        return n - side + 1;
    // torchvision pads both sides by what is missing in all.
    *first -= spare;
    return spare + 1;
}

// Appends a pad of so many pixels to both sides, if there are any.
static struct hr_op *add_pad(const struct hr_random_crop *op, int x, int y,
                             struct hr_op *out)
{
    if (!x && !y)
        return out;
    *out = (struct hr_op){
        .type = HR_OP_PAD,
        .pad = {.left = x, .top = y, .right = x, .bottom = y, .mode = op->mode}};
    return out + 1;
}

// Mirroring twice depends on the order: first `pad`, then the padding that is
// still needed, then the crop.
static int crop_edges(const struct hr_random_crop *op, const struct hr__draw *d,
                      struct hr_crop crop, struct hr_op *out)
{
    int x = fmax(op->w - d->w - 2 * op->pad, 0);
    int y = fmax(op->h - d->h - 2 * op->pad, 0);
    struct hr_op *at = add_pad(op, op->pad, op->pad, out);

    at = add_pad(op, x, y, at);
    crop.x += op->pad + x;
    crop.y += op->pad + y;
    *at = (struct hr_op){.type = HR_OP_CROP, .crop = crop};
    return (int)(at - out) + 1;
}

// torchvision/transforms/transforms.py, RandomCrop.
static int draw(const struct hr_op *random, const struct hr__draw *d,
                struct hr_op *out)
{
    const struct hr_random_crop *op = &random->random_crop;
    struct hr_crop crop = {
        .w = op->w,
        .h = op->h,
        .pad = true,
        .fill = {op->fill[0], op->fill[1], op->fill[2]},
    };
    int nx = places(d->w, op->w, op, &crop.x);
    int ny = places(d->h, op->h, op, &crop.y);

    if (nx < 1 || ny < 1)
        return snprintf(d->text, 128,
                        "a random crop of %dx%d does not fit in %dx%d", op->w,
                        op->h, d->w, d->h),
               -1;
    // Behind HR__RESIZED_MOST there is no picture.
    crop.y = (int)fmin(crop.y + hr__draw_below(d->word[0], ny),
                       HR__RESIZED_MOST);
    crop.x = (int)fmin(crop.x + hr__draw_below(d->word[1], nx),
                       HR__RESIZED_MOST);
    if (op->mode != HR_EDGES_FILL)
        return crop_edges(op, d, crop, out);
    *out = (struct hr_op){.type = HR_OP_CROP, .crop = crop};
    return 1;
}

static const struct hr_op_field fields[] = {
    HR__FIELD(random_crop, w, INT, HR__SIDE),
    HR__FIELD(random_crop, h, INT, HR__SIDE),
    HR__FIELD(random_crop, pad, INT, .hi = HR_MAX_SIDE),
    HR__FIELD(random_crop, pad_if_needed, BOOL),
    HR__FIELD(random_crop, mode, ENUM, .values = hr__edges),
    HR__FIELD(random_crop, fill, COLOR),
};

static bool mixes(const struct hr_op *op)
{
    return op->random_crop.pad || op->random_crop.pad_if_needed;
}

static bool augments(const struct hr_op *op)
{
    return mixes(op) && (op->random_crop.mode != HR_EDGES_FILL ||
                         !hr__is_black(op->random_crop.fill));
}

const struct hr__op_def hr__op_random_crop = {
    .info = {HR__INFO("random_crop", RANDOM_CROP, RESAMPLE), .random = true,
             .usage = "random_crop=N|WxH[:P[:MODE[:COLOR]]]"},
    .draws = 3,
    .sees_size = true,
    .words = HR__WORDS({.name = "random_crop",
                        .syntax = "SIZE or WIDTHxHEIGHT",
                        .op = HR_OP_RANDOM_CROP(.pad_if_needed = true),
                        .arguments = {{'=', .as = HR__AS_AREA},
                                      HR__ARG(2),
                                      HR__ARG(4),
                                      HR__ARG(5)}}),
    .mixes = mixes,
    .augments = augments,
    .size = offsetof(struct hr_op, random_crop.w),
    .draw = draw,
};
