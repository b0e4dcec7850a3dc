// SPDX-License-Identifier: Apache-2.0
// MoCo moco/loader.py GaussianBlur, DINO utils.py GaussianBlur: sigma is
// uniform.
#include "hal/ops/op_def.h"

static int draw(const struct hr_op *random, const struct hr__draw *d,
                struct hr_op *out)
{
    static const double any[2] = {.1, 2};
    const struct hr_random_gaussian_blur *op = &random->random_gaussian_blur;
    const double *sigma = op->sigma[1] > 0 ? op->sigma : any;
    double both;

    both = hr__draw_uniform(d->word[1], sigma[0], sigma[1]);
    *out = (struct hr_op){.type = HR_OP_GAUSSIAN_BLUR,
                          .gaussian_blur.sigma = {both, both}};
    return hr__draw_chance(d->word[0], op->p);
}

static const struct hr_op_field fields[] = {
    HR__FIELD(random_gaussian_blur, p, DOUBLE, .hi = 1),
    HR__FIELD(random_gaussian_blur, sigma, RANGE, .lo = 0, .hi = 1e4),
};

const struct hr__op_def hr__op_random_gaussian_blur = {
    .info = {HR__INFO("random_gaussian_blur", RANDOM_GAUSSIAN_BLUR, AUGMENT),
             .random = true, .usage = "random_gaussian_blur=P[:SIGMA,SIGMA]"},
    .draws = 1,
    .words = HR__WORDS(HR__WORD("random_gaussian_blur", RANDOM_GAUSSIAN_BLUR,
                                "PROBABILITY", HR__ARG(1))),
    .draw = draw,
};
