// SPDX-License-Identifier: Apache-2.0
// Pillow PIL/ImageOps.py autocontrast(), without a cutoff.
#include "hal/ops/op_def.h"

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    (void)op;
    return hr__fold_augment(f,
                            &(struct hr__augment){.code = HR__AUGMENT_STRETCH});
}

static const struct hr_op_form forms[] = {
    {"autocontrast", 0, {.type = HR_OP_AUTOCONTRAST}}};

static const struct hr__word words[] = {
    {.name = "autocontrast", .op = {.type = HR_OP_AUTOCONTRAST}}, {0}};

const struct hr__op_def hr__op_autocontrast = {
    .info = {.name = "autocontrast",
             .usage = "autocontrast",
             .type = HR_OP_AUTOCONTRAST,
             .stage = HR_AUGMENT,
             .forms = forms,
             .num_forms = HR__NUM(forms)},
    .words = words,
    .fold = fold,
};
