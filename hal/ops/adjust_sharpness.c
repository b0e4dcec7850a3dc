// SPDX-License-Identifier: Apache-2.0
// Pillow PIL/ImageEnhance.py Sharpness: a blend of the smoothed picture and the
// picture.
#include "hal/ops/op_def.h"

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    return hr__fold_mix(f, HR__AUGMENT_MIX_SMOOTH, op->adjust_sharpness.factor);
}

static const struct hr_op_field fields[] = {
    HR__FIELD(adjust_sharpness, factor, DOUBLE, .lo = -1e6, .hi = 1e6),
};

const struct hr__op_def hr__op_adjust_sharpness = {
    .info = {HR__INFO("adjust_sharpness", ADJUST_SHARPNESS, AUGMENT),
             .usage = "adjust_sharpness=F"},
    .words = HR__WORDS(
        HR__WORD("adjust_sharpness", ADJUST_SHARPNESS, "FACTOR")),
    .fold = fold,
};
