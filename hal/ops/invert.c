// SPDX-License-Identifier: Apache-2.0
// Pillow's ImageOps.invert(), torchvision's invert() of uint8.
#include "hal/ops/op_def.h"

static uint8_t value(const struct hr_op *op, int channel, uint8_t x)
{
    (void)op;
    (void)channel;
    return (uint8_t)(255 - x);
}

const struct hr__op_def hr__op_invert = {
    .info = {HR__PLAIN("invert", INVERT, STORE), .usage = "invert"},
    .words = HR__WORDS({.name = "invert", .op = {.type = HR_OP_INVERT}}),
    .value = value,
};
