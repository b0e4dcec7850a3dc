// SPDX-License-Identifier: Apache-2.0
// Pillow's ImageOps.invert(), torchvision's invert() of uint8.
#include "hal/ops/op_def.h"

static uint8_t value(const struct hr_op *op, int channel, uint8_t x)
{
    (void)op;
    (void)channel;
    return (uint8_t)(255 - x);
}

static const struct hr_op_form forms[] = {
    {"invert", 0, {.type = HR_OP_INVERT}}};

static const struct hr__word words[] = {
    {.name = "invert", .op = {.type = HR_OP_INVERT}}, {0}};

const struct hr__op_def hr__op_invert = {
    .info = {.name = "invert",
             .usage = "invert",
             .type = HR_OP_INVERT,
             .stage = HR_STORE,
             .forms = forms,
             .num_forms = HR__NUM(forms)},
    .words = words,
    .value = value,
};
