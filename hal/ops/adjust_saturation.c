// SPDX-License-Identifier: Apache-2.0
// Pillow PIL/ImageEnhance.py Color: a blend of each pixel's luma and the pixel.
#include "hal/ops/op_def.h"

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    return hr__fold_mix(f, HR__AUGMENT_MIX_LUMA, op->adjust_saturation.factor);
}

static const struct hr_op_field fields[] = {
    HR__FIELD(adjust_saturation, factor, DOUBLE, .lo = -1e6, .hi = 1e6),
};

const struct hr__op_def hr__op_adjust_saturation = {
    .info = {HR__INFO("adjust_saturation", ADJUST_SATURATION, AUGMENT),
             .usage = "adjust_saturation=F"},
    .words = HR__WORDS(
        HR__WORD("adjust_saturation", ADJUST_SATURATION, "FACTOR")),
    .fold = fold,
};
