// SPDX-License-Identifier: Apache-2.0
// torchvision/transforms/transforms.py, RandomSolarize.
#include "hal/ops/op_def.h"

static int draw(const struct hr_op *op, const struct hr__draw *d,
                struct hr_op *out)
{
    *out = (struct hr_op){.type = HR_OP_SOLARIZE,
                          .solarize.threshold = op->random_solarize.threshold};
    return hr__draw_chance(d->word[0], op->random_solarize.p);
}

static const struct hr_op_field fields[] = {
    HR__FIELD(random_solarize, p, DOUBLE, .hi = 1),
    HR__FIELD(random_solarize, threshold, DOUBLE, .hi = 256),
};

const struct hr__op_def hr__op_random_solarize = {
    .info = {HR__INFO("random_solarize", RANDOM_SOLARIZE, AUGMENT),
             .random = true, .usage = "random_solarize=T[:P]"},
    .draws = 1,
    .words = HR__WORDS(
        {.name = "random_solarize",
         .syntax = "THRESHOLD",
         .op = HR_OP_RANDOM_SOLARIZE(.p = .5),
         .arguments = {{.before = '=', .field = 1}, HR__ARG(0)}}),
    .draw = draw,
};
