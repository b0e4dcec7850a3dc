// SPDX-License-Identifier: Apache-2.0
// A group of items of which one runs: torchvision/transforms/transforms.py,
// RandomChoice.
#include "hal/ops/op_def.h"

enum { WEIGHTED = 8 };

static double sum(const struct hr_random_choice *c, int items)
{
    double all = 0;

    for (int i = 0; i < items; i++)
        all += c->weights[i];
    return all;
}

static bool stays(const struct hr_op *op, const struct hr__draw *d, int item)
{
    const struct hr_random_choice *c = &op->random_choice;
    double all = sum(c, WEIGHTED), at;

    if (all == 0)
        return hr__draw_below(d->word[0], c->count) == item;
    at = hr__draw_uniform(d->word[0], 0, all);
    return at >= sum(c, item) && at < sum(c, item + 1);
}

static enum hr_status check(const struct hr_op *op, char text[128])
{
    const struct hr_random_choice *c = &op->random_choice;
    int last = 0;

    for (int i = 0; i < WEIGHTED; i++) {
        if (!(c->weights[i] >= 0 && c->weights[i] <= 1e6))
            return HR__BAD("random_choice: weights must be 0 .. 1e6, not %g",
                           c->weights[i]);
        last = c->weights[i] > 0 ? i + 1 : last;
    }
    if (last > c->count || (last && c->count > WEIGHTED))
        return HR__BAD("random_choice: %d weights, and %d items (at most %d "
                       "with weights)",
                       last, c->count, WEIGHTED);
    return HR_OK;
}

static const struct hr_op_field fields[] = {
    HR__FIELD(random_choice, count, INT, .lo = 1, .hi = HR_MAX_OPS),
    HR__FIELD(random_choice, weights, DOUBLES),
};

const struct hr__op_def hr__op_random_choice = {
    .info = {HR__INFO("random_choice", RANDOM_CHOICE, RESAMPLE), .random = true,
             .usage = "random_choice=N"},
    .words = HR__WORDS(HR__WORD("random_choice", RANDOM_CHOICE, "COUNT")),
    .group = offsetof(struct hr_op, random_choice.count),
    .check = check,
    .stays = stays,
};
