// SPDX-License-Identifier: Apache-2.0
// torchvision/transforms/transforms.py, RandomPerspective: each corner moves
// inwards.
#include <string.h>

#include "hal/ops/op_def.h"

// 0 .. most of the first corner of an axis of n pixels, n - 1 - most .. n - 1
// of the second.
static double corner(uint32_t word, int n, int most, bool second)
{
    return hr__draw_below(word, most + 1) + (second ? n - 1 - most : 0);
}

static int draw(const struct hr_op *random, const struct hr__draw *d,
                struct hr_op *out)
{
    const struct hr_random_perspective *op = &random->random_perspective;
    int most_x = (int)(op->distortion * (d->w / 2));
    int most_y = (int)(op->distortion * (d->h / 2));
    double start[8], end[8];
    uint32_t word[4];

    if (!hr__draw_chance(d->word[0], op->p))
        return 0;
    // Top left, top right, bottom right, bottom left.
    for (int i = 0; i < 4; i++) {
        bool right = i == 1 || i == 2, bottom = i > 1;

        hr__draw_words(d, 1 + i, word);
        start[2 * i] = right ? d->w - 1 : 0;
        start[2 * i + 1] = bottom ? d->h - 1 : 0;
        end[2 * i] = corner(word[0], d->w, most_x, right);
        end[2 * i + 1] = corner(word[1], d->h, most_y, bottom);
    }
    *out = (struct hr_op){.type = HR_OP_PERSPECTIVE,
                          .perspective.filter = op->filter};
    memcpy(out->perspective.fill, op->fill, sizeof(op->fill));
    return hr_perspective_matrix(start, end, out->perspective.matrix);
}

static const struct hr_op_field fields[] = {
    HR__FIELD(random_perspective, p, DOUBLE, .hi = 1),
    HR__FIELD(random_perspective, distortion, DOUBLE, .hi = 1),
    HR__FIELD(random_perspective, filter, ENUM, .values = hr__warp_filters),
    HR__FIELD(random_perspective, fill, COLOR),
};

const struct hr__op_def hr__op_random_perspective = {
    .info = {HR__INFO("random_perspective", RANDOM_PERSPECTIVE, AUGMENT),
             .random = true,
             .usage = "random_perspective=D[:P[:FILTER[:FILL]]]"},
    .draws = 1,
    .sees_size = true,
    .words = HR__WORDS(
        {.name = "random_perspective",
         .syntax = "DISTORTION",
         .op = HR_OP_RANDOM_PERSPECTIVE(.p = .5),
         .arguments = {{'=', .field = 1}, HR__ARG(0), HR__ARG(2), HR__ARG(3)}}),
    .draw = draw,
};
