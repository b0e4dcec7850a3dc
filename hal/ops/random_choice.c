// SPDX-License-Identifier: Apache-2.0
// A group of items of which one runs: torchvision/transforms/transforms.py,
// RandomChoice.
#include "hal/ops/op_def.h"

static bool stays(const struct hr_op *op, const struct hr__draw *d, int item)
{
    uint32_t word[4];

    hr__random_words(d->key, d->place, 0, word);
    return hr__draw_below(word[0], op->random_choice.count) == item;
}

static const struct hr_op_field fields[] = {
    HR__FIELD(random_choice, count, INT, .lo = 1, .hi = HR_MAX_OPS),
};

static const struct hr_op_form forms[] = {
    {"random_choice", HR__FIELDS(1), HR_OP_RANDOM_CHOICE(0)}};

static const struct hr__word words[] = {{.name = "random_choice",
                                         .syntax = "COUNT",
                                         .op = HR_OP_RANDOM_CHOICE(0),
                                         .arguments = {{.before = '='}}},
                                        {0}};

const struct hr__op_def hr__op_random_choice = {
    .info = {HR__INFO("random_choice", RANDOM_CHOICE, RESAMPLE), .random = true,
             .usage = "random_choice=N"},
    .words = words,
    .group = offsetof(struct hr_op, random_choice.count),
    .stays = stays,
};
