// SPDX-License-Identifier: Apache-2.0
// torchvision/transforms/autoaugment.py, AutoAugment: the policies that were
// found on three data sets.
#include "hal/ops/policy.h"

enum { RULES = 25, BINS = 10 };

// Two changes: each in so many tenths of cases, with that bin.
static const struct rule {
    uint8_t change, tenths, bin;
} policies[][RULES][2] =
    {
        [HR_POLICY_IMAGENET] =
            {
                {{HR__POSTERIZE, 4, 8}, {HR__ROTATE, 6, 9}},
                {{HR__SOLARIZE, 6, 5}, {HR__AUTOCONTRAST, 6, 0}},
                {{HR__EQUALIZE, 8, 0}, {HR__EQUALIZE, 6, 0}},
                {{HR__POSTERIZE, 6, 7}, {HR__POSTERIZE, 6, 6}},
                {{HR__EQUALIZE, 4, 0}, {HR__SOLARIZE, 2, 4}},
                {{HR__EQUALIZE, 4, 0}, {HR__ROTATE, 8, 8}},
                {{HR__SOLARIZE, 6, 3}, {HR__EQUALIZE, 6, 0}},
                {{HR__POSTERIZE, 8, 5}, {HR__EQUALIZE, 10, 0}},
                {{HR__ROTATE, 2, 3}, {HR__SOLARIZE, 6, 8}},
                {{HR__EQUALIZE, 6, 0}, {HR__POSTERIZE, 4, 6}},
                {{HR__ROTATE, 8, 8}, {HR__COLOR, 4, 0}},
                {{HR__ROTATE, 4, 9}, {HR__EQUALIZE, 6, 0}},
                {{HR__EQUALIZE, 0, 0}, {HR__EQUALIZE, 8, 0}},
                {{HR__INVERT, 6, 0}, {HR__EQUALIZE, 10, 0}},
                {{HR__COLOR, 6, 4}, {HR__CONTRAST, 10, 8}},
                {{HR__ROTATE, 8, 8}, {HR__COLOR, 10, 2}},
                {{HR__COLOR, 8, 8}, {HR__SOLARIZE, 8, 7}},
                {{HR__SHARPNESS, 4, 7}, {HR__INVERT, 6, 0}},
                {{HR__SHEAR_X, 6, 5}, {HR__EQUALIZE, 10, 0}},
                {{HR__COLOR, 4, 0}, {HR__EQUALIZE, 6, 0}},
                {{HR__EQUALIZE, 4, 0}, {HR__SOLARIZE, 2, 4}},
                {{HR__SOLARIZE, 6, 5}, {HR__AUTOCONTRAST, 6, 0}},
                {{HR__INVERT, 6, 0}, {HR__EQUALIZE, 10, 0}},
                {{HR__COLOR, 6, 4}, {HR__CONTRAST, 10, 8}},
                {{HR__EQUALIZE, 8, 0}, {HR__EQUALIZE, 6, 0}},
            },
        [HR_POLICY_CIFAR10] =
            {
                {{HR__INVERT, 1, 0}, {HR__CONTRAST, 2, 6}},
                {{HR__ROTATE, 7, 2}, {HR__TRANSLATE_X, 3, 9}},
                {{HR__SHARPNESS, 8, 1}, {HR__SHARPNESS, 9, 3}},
                {{HR__SHEAR_Y, 5, 8}, {HR__TRANSLATE_Y, 7, 9}},
                {{HR__AUTOCONTRAST, 5, 0}, {HR__EQUALIZE, 9, 0}},
                {{HR__SHEAR_Y, 2, 7}, {HR__POSTERIZE, 3, 7}},
                {{HR__COLOR, 4, 3}, {HR__BRIGHTNESS, 6, 7}},
                {{HR__SHARPNESS, 3, 9}, {HR__BRIGHTNESS, 7, 9}},
                {{HR__EQUALIZE, 6, 0}, {HR__EQUALIZE, 5, 0}},
                {{HR__CONTRAST, 6, 7}, {HR__SHARPNESS, 6, 5}},
                {{HR__COLOR, 7, 7}, {HR__TRANSLATE_X, 5, 8}},
                {{HR__EQUALIZE, 3, 0}, {HR__AUTOCONTRAST, 4, 0}},
                {{HR__TRANSLATE_Y, 4, 3}, {HR__SHARPNESS, 2, 6}},
                {{HR__BRIGHTNESS, 9, 6}, {HR__COLOR, 2, 8}},
                {{HR__SOLARIZE, 5, 2}, {HR__INVERT, 0, 0}},
                {{HR__EQUALIZE, 2, 0}, {HR__AUTOCONTRAST, 6, 0}},
                {{HR__EQUALIZE, 2, 0}, {HR__EQUALIZE, 6, 0}},
                {{HR__COLOR, 9, 9}, {HR__EQUALIZE, 6, 0}},
                {{HR__AUTOCONTRAST, 8, 0}, {HR__SOLARIZE, 2, 8}},
                {{HR__BRIGHTNESS, 1, 3}, {HR__COLOR, 7, 0}},
                {{HR__SOLARIZE, 4, 5}, {HR__AUTOCONTRAST, 9, 0}},
                {{HR__TRANSLATE_Y, 9, 9}, {HR__TRANSLATE_Y, 7, 9}},
                {{HR__AUTOCONTRAST, 9, 0}, {HR__SOLARIZE, 8, 3}},
                {{HR__EQUALIZE, 8, 0}, {HR__INVERT, 1, 0}},
                {{HR__TRANSLATE_Y, 7, 9}, {HR__AUTOCONTRAST, 9, 0}},
            },
        [HR_POLICY_SVHN] =
            {
                {{HR__SHEAR_X, 9, 4}, {HR__INVERT, 2, 0}},
                {{HR__SHEAR_Y, 9, 8}, {HR__INVERT, 7, 0}},
                {{HR__EQUALIZE, 6, 0}, {HR__SOLARIZE, 6, 6}},
                {{HR__INVERT, 9, 0}, {HR__EQUALIZE, 6, 0}},
                {{HR__EQUALIZE, 6, 0}, {HR__ROTATE, 9, 3}},
                {{HR__SHEAR_X, 9, 4}, {HR__AUTOCONTRAST, 8, 0}},
                {{HR__SHEAR_Y, 9, 8}, {HR__INVERT, 4, 0}},
                {{HR__SHEAR_Y, 9, 5}, {HR__SOLARIZE, 2, 6}},
                {{HR__INVERT, 9, 0}, {HR__AUTOCONTRAST, 8, 0}},
                {{HR__EQUALIZE, 6, 0}, {HR__ROTATE, 9, 3}},
                {{HR__SHEAR_X, 9, 4}, {HR__SOLARIZE, 3, 3}},
                {{HR__SHEAR_Y, 8, 8}, {HR__INVERT, 7, 0}},
                {{HR__EQUALIZE, 9, 0}, {HR__TRANSLATE_Y, 6, 6}},
                {{HR__INVERT, 9, 0}, {HR__EQUALIZE, 6, 0}},
                {{HR__CONTRAST, 3, 3}, {HR__ROTATE, 8, 4}},
                {{HR__INVERT, 8, 0}, {HR__TRANSLATE_Y, 0, 2}},
                {{HR__SHEAR_Y, 7, 6}, {HR__SOLARIZE, 4, 8}},
                {{HR__INVERT, 6, 0}, {HR__ROTATE, 8, 4}},
                {{HR__SHEAR_Y, 3, 7}, {HR__TRANSLATE_X, 9, 3}},
                {{HR__SHEAR_X, 1, 6}, {HR__INVERT, 6, 0}},
                {{HR__SOLARIZE, 7, 2}, {HR__TRANSLATE_Y, 6, 7}},
                {{HR__SHEAR_Y, 8, 4}, {HR__INVERT, 8, 0}},
                {{HR__SHEAR_X, 7, 9}, {HR__TRANSLATE_Y, 8, 3}},
                {{HR__SHEAR_Y, 8, 5}, {HR__AUTOCONTRAST, 7, 0}},
                {{HR__SHEAR_X, 7, 2}, {HR__INVERT, 1, 0}},
            },
};

static int draw(const struct hr_op *random, const struct hr__draw *d,
                struct hr_op *out)
{
    const struct hr_auto_augment *op = &random->auto_augment;
    struct hr__change_as as = {.most = &hr__rand_magnitudes,
                               .bins = BINS,
                               .filter = op->filter,
                               .fill = op->fill};
    uint32_t chance[4];
    int rule, n = 0;

    hr__draw_words(d, 1, chance);
    rule = hr__draw_below(d->word[0], RULES);
    for (int i = 0; i < 2; i++) {
        const struct rule *r = &policies[op->policy][rule][i];

        as.bin = r->bin;
        as.negative = hr__draw_below(d->word[1 + i], 2);
        if (hr__draw_chance(chance[i], r->tenths / 10.))
            n += hr__change_op(r->change, &as, d, &out[n]);
    }
    return n;
}

static const struct hr_op_value names[] = {{"imagenet", HR_POLICY_IMAGENET},
                                           {"cifar10", HR_POLICY_CIFAR10},
                                           {"svhn", HR_POLICY_SVHN},
                                           {NULL, 0}};

static const struct hr_op_field fields[] = {
    HR__FIELD(auto_augment, policy, ENUM, .values = names),
    HR__FIELD(auto_augment, filter, ENUM, .values = hr__warp_filters),
    HR__FIELD(auto_augment, fill, COLOR),
};

const struct hr__op_def hr__op_auto_augment = {
    .info = {HR__INFO("auto_augment", AUTO_AUGMENT, AUGMENT), .random = true,
             .usage = "auto_augment[=POLICY[:FILTER[:FILL]]]"},
    .draws = 2,
    .sees_size = true,
    .words = HR__WORDS(
        {.name = "auto_augment",
         .op = HR_OP_AUTO_AUGMENT(.filter = HR_NEAREST),
         .arguments = {{'=', .optional = true}, HR__ARG(1), HR__ARG(2)}}),
    .draw = draw,
};
