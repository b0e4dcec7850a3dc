// SPDX-License-Identifier: Apache-2.0
// Pillow PIL/ImageOps.py equalize().
#include "hal/ops/op_def.h"

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    (void)op;
    return hr__fold_augment(f, &(struct hr__augment){
                                   .code = HR__AUGMENT_EQUALIZE});
}

static const struct hr_op_form forms[] = {
    {"equalize", 0, {.type = HR_OP_EQUALIZE}}};

static const struct hr__word words[] = {
    {.name = "equalize", .op = {.type = HR_OP_EQUALIZE}}, {0}};

const struct hr__op_def hr__op_equalize = {
    .info = {.name = "equalize",
             .usage = "equalize",
             .type = HR_OP_EQUALIZE,
             .stage = HR_AUGMENT,
             .forms = forms,
             .num_forms = HR__NUM(forms)},
    .words = words,
    .fold = fold,
};
