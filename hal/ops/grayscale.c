// SPDX-License-Identifier: Apache-2.0
// Pillow's convert("L").convert("RGB"): three channels of luma.
#include "hal/ops/op_def.h"

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    (void)op;
    return hr__fold_augment(f, &(struct hr__augment){.code = HR__AUGMENT_LUMA});
}

static const struct hr_op_form forms[] = {
    {"grayscale", 0, {.type = HR_OP_GRAYSCALE}}};

static const struct hr__word words[] = {
    {.name = "grayscale", .op = {.type = HR_OP_GRAYSCALE}}, {0}};

const struct hr__op_def hr__op_grayscale = {
    .info = {.name = "grayscale",
             .usage = "grayscale",
             .type = HR_OP_GRAYSCALE,
             .stage = HR_AUGMENT,
             .forms = forms,
             .num_forms = HR__NUM(forms)},
    .words = words,
    .fold = fold,
};
