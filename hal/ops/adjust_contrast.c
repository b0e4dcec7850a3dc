// SPDX-License-Identifier: Apache-2.0
// Pillow PIL/ImageEnhance.py Contrast: a blend of the mean luma and the
// picture.
#include "hal/ops/op_def.h"

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    return hr__fold_mix(f, HR__AUGMENT_MIX_MEAN, op->adjust_contrast.factor);
}

static const struct hr_op_field fields[] = {
    HR__FIELD(adjust_contrast, factor, DOUBLE, .lo = -1e6, .hi = 1e6),
};

const struct hr__op_def hr__op_adjust_contrast = {
    .info = {HR__INFO("adjust_contrast", ADJUST_CONTRAST, AUGMENT),
             .usage = "adjust_contrast=F"},
    .words = HR__WORDS(HR__WORD("adjust_contrast", ADJUST_CONTRAST, "FACTOR")),
    .fold = fold,
};
