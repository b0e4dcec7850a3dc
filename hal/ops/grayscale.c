// SPDX-License-Identifier: Apache-2.0
// Pillow's convert("L").convert("RGB"): three channels of luma; or without the
// second, one.
#include "hal/ops/op_def.h"

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    return hr__fold_augment(
        f, &(struct hr__augment){.code = HR__AUGMENT_LUMA,
                                 .single = op->grayscale.single});
}

static const struct hr_op_field fields[] = {
    HR__FIELD(grayscale, single, BOOL),
};

const struct hr__op_def hr__op_grayscale = {
    .info = {HR__INFO("grayscale", GRAYSCALE, AUGMENT),
             .usage = "grayscale[=1]"},
    .words = HR__WORDS({.name = "grayscale",
                        .literal = "1",
                        .op = {.type = HR_OP_GRAYSCALE,
                               .grayscale = {.single = true}}},
                       {.name = "grayscale", .op = {.type = HR_OP_GRAYSCALE}}),
    .fold = fold,
};
