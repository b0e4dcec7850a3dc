// SPDX-License-Identifier: Apache-2.0
// Pillow PIL/ImageEnhance.py Color: a blend of each pixel's luma and the pixel.
#include "hal/ops/op_def.h"

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    float factor = (float)op->adjust_saturation.factor;

    if (factor == 1)
        return HR_OK;
    return hr__fold_augment(f,
                            &(struct hr__augment){.code = HR__AUGMENT_MIX_LUMA,
                                                  .factor = factor});
}

static const struct hr_op_field fields[] = {
    HR__FIELD(adjust_saturation, factor, DOUBLE, .lo = -1e6, .hi = 1e6),
};

static const struct hr_op_form forms[] = {
    {"adjust_saturation", HR__FIELDS(1), {.type = HR_OP_ADJUST_SATURATION}}};

static const struct hr__word words[] = {{.name = "adjust_saturation",
                                         .syntax = "FACTOR",
                                         .op = {.type = HR_OP_ADJUST_SATURATION},
                                         .arguments = {{.before = '='}}},
                                        {0}};

const struct hr__op_def hr__op_adjust_saturation = {
    .info = {HR__INFO("adjust_saturation", ADJUST_SATURATION, AUGMENT),
             .usage = "adjust_saturation=F"},
    .words = words,
    .fold = fold,
};
