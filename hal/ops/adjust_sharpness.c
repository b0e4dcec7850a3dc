// SPDX-License-Identifier: Apache-2.0
// Pillow PIL/ImageEnhance.py Sharpness: a blend of the smoothed picture and the
// picture.
#include "hal/ops/op_def.h"

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    float factor = (float)op->adjust_sharpness.factor;

    if (factor == 1)
        return HR_OK;
    return hr__fold_augment(
        f, &(struct hr__augment){.code = HR__AUGMENT_MIX_SMOOTH,
                                 .factor = factor});
}

static const struct hr_op_field fields[] = {
    HR__FIELD(adjust_sharpness, factor, DOUBLE, .lo = -1e6, .hi = 1e6),
};

static const struct hr_op_form forms[] = {
    {"adjust_sharpness", HR__FIELDS(1), {.type = HR_OP_ADJUST_SHARPNESS}}};

static const struct hr__word words[] = {{.name = "adjust_sharpness",
                                         .syntax = "FACTOR",
                                         .op = {.type = HR_OP_ADJUST_SHARPNESS},
                                         .arguments = {{.before = '='}}},
                                        {0}};

const struct hr__op_def hr__op_adjust_sharpness = {
    .info = {HR__INFO("adjust_sharpness", ADJUST_SHARPNESS, AUGMENT),
             .usage = "adjust_sharpness=F"},
    .words = words,
    .fold = fold,
};
