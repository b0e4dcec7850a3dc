// SPDX-License-Identifier: Apache-2.0
#include "hal/ops/op_def.h"

// Each probability that is not 0 takes the next word.
static int draw(const struct hr_op *random, const struct hr__draw *d,
                struct hr_op *out)
{
    const struct hr_random_flip *op = &random->random_flip;
    struct hr_flip flip = {0};
    int used = 0;

    if (op->horizontal > 0)
        flip.horizontal = hr__draw_chance(d->word[used++], op->horizontal);
    if (op->vertical > 0)
        flip.vertical = hr__draw_chance(d->word[used++], op->vertical);
    *out = (struct hr_op){.type = HR_OP_FLIP, .flip = flip};
    return flip.horizontal || flip.vertical;
}

// hr_op_random_flip(0) reads as "the default", and would do nothing.
static enum hr_status check(const struct hr_op *op, char text[128])
{
    if (op->random_flip.horizontal == 0 && op->random_flip.vertical == 0)
        return HR__BAD("random_flip: no probability is above 0");
    return HR_OK;
}

static const struct hr_op_field fields[] = {
    HR__FIELD(random_flip, horizontal, DOUBLE, .hi = 1),
    HR__FIELD(random_flip, vertical, DOUBLE, .hi = 1),
};

// A 0 that was written was meant.
static void done(struct hr_op *op)
{
    if (op->random_flip.horizontal == 0 && op->random_flip.vertical == 0)
        *op = (struct hr_op){.type = HR_OP_FLIP};
}

const struct hr__op_def hr__op_random_flip = {
    .info = {HR__INFO("random_flip", RANDOM_FLIP, RESAMPLE), .random = true,
             .usage = "random_hflip[=P], random_vflip[=P]"},
    .draws = 1,
    .words = HR__WORDS({.name = "random_hflip",
                        .op = HR_OP_RANDOM_FLIP(.horizontal = .5),
                        .arguments = {{'=', .optional = true}},
                        .done = done},
                       {.name = "random_vflip",
                        .op = HR_OP_RANDOM_FLIP(.vertical = .5),
                        .arguments = {{'=', .optional = true, .field = 1}},
                        .done = done}),
    .check = check,
    .draw = draw,
};
