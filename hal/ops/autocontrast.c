// SPDX-License-Identifier: Apache-2.0
// Pillow PIL/ImageOps.py autocontrast(), of all pixels and their own channels.
#include "hal/ops/op_def.h"

// Python's pixels * percent // 100, where both may be floats: rounds once.
static uint32_t share_of(double pixels, double percent)
{
    double x = pixels * percent;

    return (uint32_t)((x - fmod(x, 100)) / 100);
}

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    const double *cutoff = op->autocontrast.cutoff;
    double pixels;
    int w, h;

    hr__fold_size(f, &w, &h);
    pixels = (double)w * h;
    return hr__fold_augment(
        f, &(struct hr__augment){.code = HR__AUGMENT_STRETCH,
                                 .cut = {share_of(pixels, cutoff[0]),
                                         share_of(pixels, cutoff[1])}});
}

static enum hr_status check(const struct hr_op *op, char text[128])
{
    const double *cutoff = op->autocontrast.cutoff;

    for (int i = 0; i < 2; i++)
        if (!(cutoff[i] >= 0 && cutoff[i] <= 100))
            return HR__BAD("autocontrast: cutoff must be 0 .. 100, not %.15g",
                           cutoff[i]);
    return HR_OK;
}

static const struct hr_op_field fields[] = {
    HR__FIELD(autocontrast, cutoff, DOUBLES),
};

const struct hr__op_def hr__op_autocontrast = {
    .info = {HR__INFO("autocontrast", AUTOCONTRAST, AUGMENT),
             .usage = "autocontrast[=CUTOFF|LOW,HIGH]"},
    .words = HR__WORDS({.name = "autocontrast",
                        .syntax = "CUTOFF",
                        .op = {.type = HR_OP_AUTOCONTRAST},
                        .arguments = {{'=', .optional = true}}}),
    .check = check,
    .fold = fold,
};
