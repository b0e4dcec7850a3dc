// SPDX-License-Identifier: Apache-2.0
// Pillow PIL/ImageEnhance.py Brightness: a blend of black and the picture
// (src/libImaging/Blend.c), in float32.
#include "hal/ops/op_def.h"

static uint8_t value(const struct hr_op *op, int channel, uint8_t x)
{
    float y = (float)op->adjust_brightness.factor * (float)x;

    (void)channel;
    return y <= 0 ? 0 : y >= 255 ? 255 : (uint8_t)y;
}

static const struct hr_op_field fields[] = {
    HR__FIELD(adjust_brightness, factor, DOUBLE, .lo = -1e6, .hi = 1e6),
};

const struct hr__op_def hr__op_adjust_brightness = {
    .info = {HR__INFO("adjust_brightness", ADJUST_BRIGHTNESS, STORE),
             .usage = "adjust_brightness=F"},
    .words = HR__WORDS(
        HR__WORD("adjust_brightness", ADJUST_BRIGHTNESS, "FACTOR")),
    .value = value,
};
