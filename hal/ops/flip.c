// SPDX-License-Identifier: Apache-2.0
#include "hal/ops/op_def.h"

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    return hr__fold_turn(f, op->flip.transpose, op->flip.horizontal,
                         op->flip.vertical);
}

static const struct hr_op_field fields[] = {
    HR__FIELD(flip, horizontal, BOOL),
    HR__FIELD(flip, vertical, BOOL),
    HR__FIELD(flip, transpose, BOOL),
};

const struct hr__op_def hr__op_flip = {
    .info = {HR__INFO("flip", FLIP, RESAMPLE),
             .usage = "hflip, vflip, transpose"},
    .words = HR__WORDS({.name = "hflip", .op = HR_OP_FLIP(.horizontal = true)},
                       {.name = "vflip", .op = HR_OP_FLIP(.vertical = true)},
                       {.name = "transpose",
                        .op = HR_OP_FLIP(.transpose = true)}),
    .fold = fold,
};
