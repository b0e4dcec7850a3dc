// SPDX-License-Identifier: Apache-2.0
// torchvision/transforms/transforms.py, ColorJitter.
#include "hal/ops/op_def.h"

enum { CHANGES = 4 };

// Each of the 4! orders is as likely as the others.
static void draw_order(uint32_t word, int order[CHANGES])
{
    int number = hr__draw_below(word, 24);

    for (int i = 0; i < CHANGES; i++)
        order[i] = i;
    for (int left = CHANGES; left > 1; left--) {
        int *to = &order[CHANGES - left], *from = to + number % left, old = *to;

        number /= left;
        *to = *from;
        *from = old;
    }
}

static int draw(const struct hr_op *random, const struct hr__draw *d,
                struct hr_op *out)
{
    const struct hr_color_jitter *op = &random->color_jitter;
    const double *range[CHANGES] = {op->brightness, op->contrast,
                                    op->saturation, op->hue};
    static const enum hr_op_type types[CHANGES] = {HR_OP_ADJUST_BRIGHTNESS,
                                                   HR_OP_ADJUST_CONTRAST,
                                                   HR_OP_ADJUST_SATURATION,
                                                   HR_OP_ADJUST_HUE};
    uint32_t word[4];
    int order[CHANGES], n = 0;

    hr__draw_words(d, 1, word);
    draw_order(word[0], order);
    for (int i = 0; i < CHANGES; i++) {
        int k = order[i];

        // Each has a struct hr_adjust, at one place.
        if (range[k][0] != 0 || range[k][1] != 0)
            out[n++] = (struct hr_op){
                .type = types[k],
                .adjust_hue.factor = hr__draw_uniform(d->word[k], range[k][0],
                                                      range[k][1])};
    }
    return n;
}

static const struct hr_op_field fields[] = {
    HR__FIELD(color_jitter, brightness, RANGE, .lo = 0, .hi = 1e6),
    HR__FIELD(color_jitter, contrast, RANGE, .lo = 0, .hi = 1e6),
    HR__FIELD(color_jitter, saturation, RANGE, .lo = 0, .hi = 1e6),
    HR__FIELD(color_jitter, hue, RANGE, .lo = -.5, .hi = .5),
};

const struct hr__op_def hr__op_color_jitter = {
    .info = {HR__INFO("color_jitter", COLOR_JITTER, AUGMENT), .random = true,
             .usage = "color_jitter=B[:C[:S[:H]]]"},
    .draws = CHANGES,
    .words = HR__WORDS(
        {.name = "color_jitter",
         .syntax = "BRIGHTNESS[:CONTRAST[:SATURATION[:HUE]]]",
         .op = {.type = HR_OP_COLOR_JITTER},
         .arguments = {{'=', .as = HR__AS_AROUND},
                       {':', .optional = true, .field = 1, .as = HR__AS_AROUND},
                       {':', .optional = true, .field = 2, .as = HR__AS_AROUND},
                       {':', .optional = true, .field = 3,
                        .as = HR__AS_AROUND}}}),
    .draw = draw,
};
