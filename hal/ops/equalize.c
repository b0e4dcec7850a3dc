// SPDX-License-Identifier: Apache-2.0
// Pillow PIL/ImageOps.py equalize().
#include "hal/ops/op_def.h"

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    (void)op;
    return hr__fold_augment(f, &(struct hr__augment){
                                   .code = HR__AUGMENT_EQUALIZE});
}

const struct hr__op_def hr__op_equalize = {
    .info = {HR__PLAIN("equalize", EQUALIZE, AUGMENT), .usage = "equalize"},
    .words = HR__WORDS({.name = "equalize", .op = {.type = HR_OP_EQUALIZE}}),
    .fold = fold,
};
