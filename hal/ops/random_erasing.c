// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "hal/ops/op_def.h"

enum { TRIES = 10 };

// torchvision/transforms/transforms.py, RandomErasing.get_params; its round()
// is Python's, half to even, as nearbyint(). False: no try fits.
static bool place(const struct hr_random_erasing *op, const struct hr__draw *d,
                  struct hr_erase *to)
{
    static const double any_scale[2] = {0.02, 0.33}, any_ratio[2] = {0.3, 3.3};
    const double *scale = op->scale[1] > 0 ? op->scale : any_scale;
    const double *ratio = op->ratio[1] > 0 ? op->ratio : any_ratio;

    for (int i = 1; i <= TRIES; i++) {
        double area, shape, w, h;
        uint32_t word[4];

        hr__draw_words(d, i, word);
        area = hr__draw_uniform(word[0], scale[0], scale[1]) * d->w * d->h;
        shape = exp(hr__draw_uniform(word[1], log(ratio[0]), log(ratio[1])));
        h = nearbyint(sqrt(area * shape));
        w = nearbyint(sqrt(area / shape));
        if (!(h < d->h && w < d->w))
            continue;
        to->w = (int)w;
        to->h = (int)h;
        to->y = hr__draw_below(word[2], d->h - to->h + 1);
        to->x = hr__draw_below(word[3], d->w - to->w + 1);
        return true;
    }
    return false;
}

static int draw(const struct hr_op *op, const struct hr__draw *d,
                struct hr_op *out)
{
    const struct hr_random_erasing *random = &op->random_erasing;
    struct hr_erase erase = {0};

    if (!hr__draw_chance(d->word[0], random->p) || !place(random, d, &erase))
        return 0;
    memcpy(erase.value, random->value, sizeof(erase.value));
    if (random->noise)
        erase.noise = 1 + hr__draw_below(d->word[1], INT32_MAX);
    *out = (struct hr_op){.type = HR_OP_ERASE, .erase = erase};
    return 1;
}

static enum hr_status check(const struct hr_op *op, char text[128])
{
    if (op->random_erasing.p == 0)
        return HR__BAD("random_erasing: p must be above 0");
    if (!hr__finite(op->random_erasing.value))
        return HR__BAD("random_erasing: value is not finite");
    if (op->random_erasing.scale[1] > 1)
        return HR__BAD("random_erasing: scale must be at most 1, not %g",
                       op->random_erasing.scale[1]);
    return HR_OK;
}

static const struct hr_op_field fields[] = {
    HR__FIELD(random_erasing, p, DOUBLE, .hi = 1),
    HR__FIELD(random_erasing, scale, RANGE),
    HR__FIELD(random_erasing, ratio, RANGE),
    HR__FIELD(random_erasing, value, CHANNELS),
    HR__FIELD(random_erasing, noise, BOOL),
};

// A 0 that was written was meant.
static void done(struct hr_op *op)
{
    if (op->random_erasing.p == 0)
        *op = (struct hr_op){.type = HR_OP_ERASE};
}

const struct hr__op_def hr__op_random_erasing = {
    .info = {HR__INFO("random_erasing", RANDOM_ERASING, STORE), .random = true,
             .usage = "random_erasing[=P]"},
    .place = HR__BEHIND,
    .draws = 1,
    .sees_size = true,
    .words = HR__WORDS(
        {.name = "random_erasing",
         .op = {.type = HR_OP_RANDOM_ERASING, .random_erasing = {.p = .5}},
         .arguments = {{'=', .optional = true}},
         .done = done}),
    .check = check,
    .draw = draw,
};
