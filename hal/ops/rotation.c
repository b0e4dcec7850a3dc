// SPDX-License-Identifier: Apache-2.0
// Pillow PIL/Image.py rotate(), whose size stays, as plain ops.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hal/ops/op_def.h"

// Python's round(x, 15): of the decimal digits, which printf() rounds exactly.
static double round15(double x)
{
    char text[40];

    snprintf(text, sizeof(text), "%.15f", x);
    return strtod(text, NULL);
}

// Degrees counter-clockwise, 0 .. 360, as Python's %.
static double turn_of(double angle)
{
    double turn = fmod(angle, 360);

    return turn < 0 ? turn + 360 : turn;
}

void hr__rotation_matrix(double angle, double m[6])
{
    double radians = -(turn_of(angle) * (M_PI / 180));

    m[0] = m[4] = round15(cos(radians));
    m[1] = round15(sin(radians));
    m[3] = round15(-sin(radians));
    m[2] = m[5] = 0;
}

int hr__rotation(double angle, int w, int h, enum hr_filter filter,
                 const uint8_t fill[3], struct hr_op *out)
{
    double turn = turn_of(angle);

    *out = (struct hr_op){.type = HR_OP_FLIP};
    if (turn == 0)
        return 0;
    if (turn == 180 || ((turn == 90 || turn == 270) && w == h)) {
        out->flip = (struct hr_flip){.horizontal = turn != 90,
                                     .vertical = turn != 270,
                                     .transpose = turn != 180};
        return 1;
    }
    *out = (struct hr_op){.type = HR_OP_AFFINE,
                          .affine = {.filter = filter, .centered = true}};
    hr__rotation_matrix(angle, out->affine.matrix);
    memcpy(out->affine.fill, fill, sizeof(out->affine.fill));
    return 1;
}
