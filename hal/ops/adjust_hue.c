// SPDX-License-Identifier: Apache-2.0
// torchvision's adjust_hue() of Pillow's pictures: the shift is cut towards 0,
// and no shift goes through HSV, too, which changes pixels.
#include "hal/ops/op_def.h"

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    int shift = (int)(op->adjust_hue.factor * 255) & 255;

    return hr__fold_augment(f, &(struct hr__augment){.code = HR__AUGMENT_HUE,
                                                     .shift = shift});
}

static const struct hr_op_field fields[] = {
    HR__FIELD(adjust_hue, factor, DOUBLE, .lo = -.5, .hi = .5),
};

const struct hr__op_def hr__op_adjust_hue = {
    .info = {HR__INFO("adjust_hue", ADJUST_HUE, AUGMENT),
             .usage = "adjust_hue=F"},
    .words = HR__WORDS(HR__WORD("adjust_hue", ADJUST_HUE, "FACTOR")),
    .fold = fold,
};
