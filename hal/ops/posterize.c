// SPDX-License-Identifier: Apache-2.0
// Pillow PIL/ImageOps.py posterize(): the highest bits of each byte.
#include "hal/ops/op_def.h"

static uint8_t value(const struct hr_op *op, int channel, uint8_t x)
{
    (void)channel;
    return (uint8_t)(x & ~((1 << (8 - op->posterize.bits)) - 1));
}

static const struct hr_op_field fields[] = {
    HR__FIELD(posterize, bits, INT, .lo = 1, .hi = 8),
};

const struct hr__op_def hr__op_posterize = {
    .info = {HR__INFO("posterize", POSTERIZE, STORE),
             .usage = "posterize=BITS"},
    .words = HR__WORDS(HR__WORD("posterize", POSTERIZE, "BITS")),
    .value = value,
};
