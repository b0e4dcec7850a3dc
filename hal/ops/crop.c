// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "hal/ops/op_def.h"

// torchvision functional.py center_crop: a smaller picture is padded first,
// (inner - outer) // 2 on the left; else Python's round(), half to even.
// transformers image_processing_backends.py center_crop: int() of the half.
static int centre(int outer, int inner, bool down)
{
    if (inner > outer)
        return -((inner - outer) / 2);
    return down ? (outer - inner) / 2 : (int)rint((outer - inner) / 2.0);
}

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    const struct hr_crop *c = &op->crop;
    struct hr__rect r = {c->x, c->y, c->w, c->h};
    int w, h;

    hr__fold_size(f, &w, &h);
    if (c->center) {
        r.x = centre(w, c->w, c->down);
        r.y = centre(h, c->h, c->down);
    }
    return c->pad ? hr__fold_window(f, r, HR_EDGES_FILL, c->fill)
                  : hr__fold_crop(f, r, false);
}

static const struct hr_op_field fields[] = {
    HR__FIELD(crop, x, INT, HR__AT),   HR__FIELD(crop, y, INT, HR__AT),
    HR__FIELD(crop, w, INT, HR__SIDE), HR__FIELD(crop, h, INT, HR__SIDE),
    HR__FIELD(crop, pad, BOOL),        HR__FIELD(crop, center, BOOL),
    HR__FIELD(crop, fill, COLOR),      HR__FIELD(crop, down, BOOL),
};

#define CENTER (1u << 5)

static const struct hr_op_form forms[] = {
    {"crop", HR__FIELDS(7) & ~CENTER, HR_OP_CROP(0)},
    {"center_crop", HR__FIELDS(8) & ~CENTER & ~HR__FIELDS(2),
     HR_OP_CROP(.center = true)},
};

static bool mixes(const struct hr_op *op)
{
    return op->crop.pad;
}

static bool augments(const struct hr_op *op)
{
    return op->crop.pad && !hr__is_black(op->crop.fill);
}

const struct hr__op_def hr__op_crop = {
    .info = {HR__INFO_FORMS("crop", CROP, RESAMPLE),
             .usage = "center_crop=N|WxH, crop=X,Y,W,H"},
    // A picture that is too small is padded.
    .words = HR__WORDS({.name = "center_crop",
                        .syntax = "SIZE or WIDTHxHEIGHT",
                        .op = HR_OP_CROP(.center = true, .pad = true),
                        .arguments = {{'=', .field = 2, .as = HR__AS_AREA}}},
                       {.name = "crop",
                        .syntax = "X,Y,WIDTH,HEIGHT",
                        .op = HR_OP_CROP(.pad = true),
                        .arguments = {{'=', .as = HR__AS_FOUR}}}),
    .mixes = mixes,
    .augments = augments,
    .size = offsetof(struct hr_op, crop.w),
    .fold = fold,
};
