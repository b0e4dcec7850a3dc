// SPDX-License-Identifier: Apache-2.0
// Pillow PIL/ImageEnhance.py Contrast: a blend of the mean luma and the
// picture.
#include "hal/ops/op_def.h"

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    float factor = (float)op->adjust_contrast.factor;

    if (factor == 1)
        return HR_OK;
    return hr__fold_augment(f,
                            &(struct hr__augment){.code = HR__AUGMENT_MIX_MEAN,
                                                  .factor = factor});
}

static const struct hr_op_field fields[] = {
    HR__FIELD(adjust_contrast, factor, DOUBLE, .lo = -1e6, .hi = 1e6),
};

static const struct hr_op_form forms[] = {
    {"adjust_contrast", HR__FIELDS(1), {.type = HR_OP_ADJUST_CONTRAST}}};

static const struct hr__word words[] = {{.name = "adjust_contrast",
                                         .syntax = "FACTOR",
                                         .op = {.type = HR_OP_ADJUST_CONTRAST},
                                         .arguments = {{.before = '='}}},
                                        {0}};

const struct hr__op_def hr__op_adjust_contrast = {
    .info = {HR__INFO("adjust_contrast", ADJUST_CONTRAST, AUGMENT),
             .usage = "adjust_contrast=F"},
    .words = words,
    .fold = fold,
};
