// SPDX-License-Identifier: Apache-2.0
// Pillow PIL/ImageOps.py autocontrast(), without a cutoff.
#include "hal/ops/op_def.h"

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    (void)op;
    return hr__fold_augment(f,
                            &(struct hr__augment){.code = HR__AUGMENT_STRETCH});
}

const struct hr__op_def hr__op_autocontrast = {
    .info = {HR__PLAIN("autocontrast", AUTOCONTRAST, AUGMENT),
             .usage = "autocontrast"},
    .words = HR__WORDS(
        {.name = "autocontrast", .op = {.type = HR_OP_AUTOCONTRAST}}),
    .fold = fold,
};
