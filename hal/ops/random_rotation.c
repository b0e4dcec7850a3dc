// SPDX-License-Identifier: Apache-2.0
// torchvision/transforms/transforms.py, RandomRotation.
#include "hal/ops/op_def.h"

static int draw(const struct hr_op *random, const struct hr__draw *d,
                struct hr_op *out)
{
    const struct hr_random_rotation *op = &random->random_rotation;
    double angle;

    angle = hr__draw_uniform(d->word[0], op->degrees[0], op->degrees[1]);
    if (!op->around)
        return hr__rotation(angle, d->w, d->h, op->filter, op->fill, out);
    *out = (struct hr_op){.type = HR_OP_ROTATE,
                          .rotate = {.angle = angle,
                                     .around = true,
                                     .center = {op->center[0], op->center[1]},
                                     .filter = op->filter,
                                     .fill = {op->fill[0], op->fill[1],
                                              op->fill[2]}}};
    return 1;
}

static const struct hr_op_field fields[] = {
    HR__FIELD(random_rotation, degrees, RANGE, HR__DEGREES),
    HR__FIELD(random_rotation, filter, ENUM, .values = hr__warp_filters),
    HR__FIELD(random_rotation, fill, COLOR),
    HR__FIELD(random_rotation, around, BOOL),
    HR__FIELD(random_rotation, center, DOUBLES),
};

const struct hr__op_def hr__op_random_rotation = {
    .info = {HR__INFO("random_rotation", RANDOM_ROTATION, AUGMENT),
             .random = true, .usage = "random_rotation=D[:FILTER[:FILL]]"},
    .draws = 1,
    .sees_size = true,
    .words = HR__WORDS(
        {.name = "random_rotation",
         .syntax = "DEGREES",
         .op = {.type = HR_OP_RANDOM_ROTATION,
                .random_rotation.filter = HR_NEAREST},
         .arguments = {{'=', .as = HR__AS_AROUND}, HR__ARG(1), HR__ARG(2)}}),
    .draw = draw,
};
