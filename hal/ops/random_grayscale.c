// SPDX-License-Identifier: Apache-2.0
// torchvision/transforms/transforms.py, RandomGrayscale.
#include "hal/ops/op_def.h"

static int draw(const struct hr_op *op, const struct hr__draw *d,
                struct hr_op *out)
{
    *out = (struct hr_op){.type = HR_OP_GRAYSCALE};
    return hr__draw_chance(d->word[0], op->random_grayscale.p);
}

static const struct hr_op_field fields[] = {
    HR__FIELD(random_grayscale, p, DOUBLE, .hi = 1),
};

const struct hr__op_def hr__op_random_grayscale = {
    .info = {HR__INFO("random_grayscale", RANDOM_GRAYSCALE, AUGMENT),
             .random = true, .usage = "random_grayscale[=P]"},
    .draws = 1,
    .words = HR__WORDS({.name = "random_grayscale",
                        .op = HR_OP_RANDOM_GRAYSCALE(.p = .1),
                        .arguments = {{'=', .optional = true}}}),
    .draw = draw,
};
