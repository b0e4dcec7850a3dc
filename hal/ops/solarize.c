// SPDX-License-Identifier: Apache-2.0
// Pillow PIL/ImageOps.py solarize(): bytes from the threshold on are inverted.
#include "hal/ops/op_def.h"

static uint8_t value(const struct hr_op *op, int channel, uint8_t x)
{
    (void)channel;
    return x < op->solarize.threshold ? x : (uint8_t)(255 - x);
}

static const struct hr_op_field fields[] = {
    HR__FIELD(solarize, threshold, DOUBLE, .lo = 0, .hi = 256),
};

const struct hr__op_def hr__op_solarize = {
    .info = {HR__INFO("solarize", SOLARIZE, STORE), .usage = "solarize=T"},
    .words = HR__WORDS(HR__WORD("solarize", SOLARIZE, "THRESHOLD")),
    .value = value,
};
