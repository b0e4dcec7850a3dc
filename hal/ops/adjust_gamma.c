// SPDX-License-Identifier: Apache-2.0
// torchvision transforms/_functional_pil.py adjust_gamma().
#include <math.h>

#include "hal/ops/op_def.h"

static uint8_t value(const struct hr_op *op, int channel, uint8_t x)
{
    const struct hr_adjust_gamma *g = &op->adjust_gamma;
    double y = (255 + 1 - 1e-3) * g->gain * pow(x / 255.0, g->gamma);

    (void)channel;
    return y <= 0 ? 0 : y >= 255 ? 255 : (uint8_t)y;
}

static const struct hr_op_field fields[] = {
    HR__FIELD(adjust_gamma, gamma, DOUBLE, .lo = 0, .hi = 1e6),
    HR__FIELD(adjust_gamma, gain, DOUBLE, .lo = -1e6, .hi = 1e6),
};

const struct hr__op_def hr__op_adjust_gamma = {
    .info = {HR__INFO("adjust_gamma", ADJUST_GAMMA, STORE),
             .usage = "adjust_gamma=GAMMA[:GAIN]"},
    .words = HR__WORDS(
        {.name = "adjust_gamma",
         .syntax = "GAMMA",
         .op = {.type = HR_OP_ADJUST_GAMMA, .adjust_gamma = {.gain = 1}},
         .arguments = {{.before = '='}, HR__ARG(1)}}),
    .value = value,
};
