// SPDX-License-Identifier: Apache-2.0
// hal/shape/paint.c paints it.
#include "hal/ops/op_def.h"

static enum hr_status check(const struct hr_op *op, char text[128])
{
    if (!hr__finite(op->erase.value))
        return HR__BAD("erase: value is not finite");
    if (op->erase.values && op->erase.noise)
        return HR__BAD("erase: both values and noise");
    return HR_OK;
}

#define SIDE .lo = 0, .hi = HR_MAX_SIDE

static const struct hr_op_field fields[] = {
    HR__FIELD(erase, x, INT, SIDE),
    HR__FIELD(erase, y, INT, SIDE),
    HR__FIELD(erase, w, INT, SIDE),
    HR__FIELD(erase, h, INT, SIDE),
    HR__FIELD(erase, value, CHANNELS),
    HR__FIELD(erase, values, BLOCK),
    HR__FIELD(erase, noise, INT, .lo = 0, .hi = INT32_MAX),
};

const struct hr__op_def hr__op_erase = {
    .info = {HR__INFO("erase", ERASE, STORE), .usage = "erase=X,Y,W,H[:V,V,V]"},
    .place = HR__BEHIND,
    .words = HR__WORDS({.name = "erase",
                        .syntax = "X,Y,WIDTH,HEIGHT",
                        .op = {.type = HR_OP_ERASE},
                        .arguments = {{'=', .as = HR__AS_FOUR}, HR__ARG(4)}}),
    .check = check,
};
