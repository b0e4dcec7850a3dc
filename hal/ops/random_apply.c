// SPDX-License-Identifier: Apache-2.0
// A group of items that all run, or none: torchvision/transforms/transforms.py,
// RandomApply.
#include "hal/ops/op_def.h"

static bool stays(const struct hr_op *op, const struct hr__draw *d, int item)
{
    (void)item;
    return hr__draw_chance(d->word[0], op->random_apply.p);
}

static const struct hr_op_field fields[] = {
    HR__FIELD(random_apply, p, DOUBLE, .hi = 1),
    HR__FIELD(random_apply, count, INT, .hi = HR_MAX_OPS),
};

const struct hr__op_def hr__op_random_apply = {
    .info = {HR__INFO("random_apply", RANDOM_APPLY, RESAMPLE), .random = true,
             .usage = "random_apply=P[:N]"},
    .words = HR__WORDS({.name = "random_apply",
                        .syntax = "PROBABILITY",
                        .op = HR_OP_RANDOM_APPLY(0),
                        .arguments = {{'=', .as = HR__AS_FIELD}, HR__ARG(1)}}),
    .group = offsetof(struct hr_op, random_apply.count),
    .stays = stays,
};
