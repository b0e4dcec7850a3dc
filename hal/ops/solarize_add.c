// SPDX-License-Identifier: Apache-2.0
// timm data/auto_augment.py solarize_add(): dark bytes become brighter.
#include "hal/ops/op_def.h"

static uint8_t value(const struct hr_op *op, int channel, uint8_t x)
{
    const struct hr_solarize_add *s = &op->solarize_add;
    int y = x < s->threshold ? x + s->add : x;

    (void)channel;
    return (uint8_t)(y < 0 ? 0 : y > 255 ? 255 : y);
}

static const struct hr_op_field fields[] = {
    HR__FIELD(solarize_add, add, INT, .lo = -255, .hi = 255),
    HR__FIELD(solarize_add, threshold, INT, .hi = 256),
};

const struct hr__op_def hr__op_solarize_add = {
    .info = {HR__INFO("solarize_add", SOLARIZE_ADD, STORE),
             .usage = "solarize_add=ADD[:THRESHOLD]"},
    .words = HR__WORDS(
        {.name = "solarize_add",
         .syntax = "ADD",
         .op = {.type = HR_OP_SOLARIZE_ADD, .solarize_add = {.threshold = 128}},
         .arguments = {{.before = '='}, HR__ARG(1)}}),
    .value = value,
};
