// SPDX-License-Identifier: Apache-2.0
// torchvision/transforms/transforms.py, RandomAffine; its round() is Python's,
// half to even, as nearbyint().
#include <math.h>
#include <string.h>

#include "hal/ops/op_def.h"

static int draw(const struct hr_op *random, const struct hr__draw *d,
                struct hr_op *out)
{
    const struct hr_random_affine *op = &random->random_affine;
    double most[2] = {op->translate[0] * d->w, op->translate[1] * d->h};
    double angle, move[2], scale = 1, shear[2];
    uint32_t other[4];

    hr__draw_words(d, 1, other);
    angle = hr__draw_uniform(d->word[0], op->degrees[0], op->degrees[1]);
    for (int i = 0; i < 2; i++) {
        move[i] = nearbyint(
            hr__draw_uniform(d->word[1 + i], -most[i], most[i]));
        shear[i] = hr__draw_uniform(other[i], op->shear[2 * i],
                                    op->shear[2 * i + 1]);
    }
    if (op->scale[1] > 0)
        scale = hr__draw_uniform(d->word[3], op->scale[0], op->scale[1]);
    *out = (struct hr_op){.type = HR_OP_AFFINE,
                          .affine = {.filter = op->filter,
                                     .centered = !op->around}};
    hr_affine_matrix(angle, move, scale, shear, op->around ? op->center : NULL,
                     out->affine.matrix);
    memcpy(out->affine.fill, op->fill, sizeof(op->fill));
    return 1;
}

static enum hr_status check(const struct hr_op *op, char text[128])
{
    const double *share = op->random_affine.translate;
    const double *shear = op->random_affine.shear;

    for (int i = 0; i < 2; i++) {
        const double *s = &shear[2 * i];

        if (!(share[i] >= 0 && share[i] <= 1))
            return HR__BAD("random_affine: translate must be 0 .. 1, not %g",
                           share[i]);
        if (!(s[0] <= s[1] && s[0] >= -HR__TURNS && s[1] <= HR__TURNS))
            return HR__BAD("random_affine: shear %g .. %g: must rise within "
                           "%g .. %g",
                           s[0], s[1], -HR__TURNS, HR__TURNS);
    }
    return HR_OK;
}

static const struct hr_op_field fields[] = {
    HR__FIELD(random_affine, degrees, RANGE, HR__DEGREES),
    HR__FIELD(random_affine, translate, DOUBLES),
    HR__FIELD(random_affine, scale, RANGE, .lo = 1e-6, .hi = 1e6),
    HR__FIELD(random_affine, shear, DOUBLES),
    HR__FIELD(random_affine, filter, ENUM, .values = hr__warp_filters),
    HR__FIELD(random_affine, fill, COLOR),
    HR__FIELD(random_affine, around, BOOL),
    HR__FIELD(random_affine, center, DOUBLES),
};

const struct hr__op_def hr__op_random_affine = {
    .info = {HR__INFO("random_affine", RANDOM_AFFINE, AUGMENT), .random = true,
             .usage = "random_affine:FIELD=VALUE..."},
    .draws = 1,
    .sees_size = true,
    .words = HR__WORDS({0}),
    .check = check,
    .draw = draw,
};
