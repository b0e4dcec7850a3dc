// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "hal/ops/op_def.h"

// Returns how far the shape w : h is from ratio. (For h = 0 it is infinite.)
static double off_shape(double w, double h, double ratio)
{
    return fabs(ratio - w / h);
}

// Pillow src/PIL/Image.py thumbnail, preserve_aspect_ratio: of the two whole
// numbers around the other side the one that keeps the shape better.
static void shrink_size(int w, int h, int *rw, int *rh)
{
    double ratio = (double)w / h, x = *rh * ratio, y = *rw / ratio;

    if (*rw >= w && *rh >= h) {
        *rw = w;
        *rh = h;
    } else if ((double)*rw / *rh >= ratio) {
        bool up = off_shape(ceil(x), *rh, ratio) <
                  off_shape(floor(x), *rh, ratio);

        *rw = (int)fmax(up ? ceil(x) : floor(x), 1);
    } else {
        bool up = off_shape(*rw, ceil(y), ratio) <
                  off_shape(*rw, floor(y), ratio);

        *rh = (int)fmax(up ? ceil(y) : floor(y), 1);
    }
}

// Pillow src/PIL/ImageOps.py contain; its round() is half to even.
static void contain_size(int w, int h, int *rw, int *rh)
{
    double ratio = (double)w / h, wanted = (double)*rw / *rh;

    if (ratio > wanted)
        *rh = (int)rint((double)h / w * *rw);
    else if (ratio < wanted)
        *rw = (int)rint(ratio * *rh);
}

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    struct hr_resize to = {.w = op->fit.w,
                           .h = op->fit.h,
                           .filter = op->fit.filter,
                           .order = op->fit.order};
    int w, h;

    hr__fold_size(f, &w, &h);
    if (op->fit.enlarge)
        contain_size(w, h, &to.w, &to.h);
    else
        shrink_size(w, h, &to.w, &to.h);
    return hr__fold_resize(f, &to);
}

static const struct hr_op_field fields[] = {
    HR__FIELD(fit, w, INT, HR__SIDE),
    HR__FIELD(fit, h, INT, HR__SIDE),
    HR__FIELD(fit, filter, ENUM, .values = hr__filters),
    HR__FIELD(fit, enlarge, BOOL),
    HR__FIELD(fit, order, ENUM, .values = hr__orders),
};

static bool mixes(const struct hr_op *op)
{
    return op->fit.filter != HR_NEAREST;
}

const struct hr__op_def hr__op_fit = {
    .info = {HR__INFO("fit", FIT, RESAMPLE),
             .usage = "fit=N|WxH[:FILTER[:ORDER]]"},
    .words = HR__WORDS(
        {.name = "fit",
         .syntax = "SIZE or WIDTHxHEIGHT",
         .op = HR_OP_FIT(0),
         .arguments = {{'=', .as = HR__AS_AREA}, HR__ARG(2), HR__ARG(4)}}),
    .mixes = mixes,
    .fold = fold,
};
