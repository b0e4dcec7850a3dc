// SPDX-License-Identifier: Apache-2.0
// torchvision/transforms/autoaugment.py, TrivialAugmentWide.
#include "hal/ops/policy.h"

static const struct hr__magnitudes most = {
    .shear = .99, .degrees = 135, .factor = .99, .translate = 32, .bits = 6};

static int draw(const struct hr_op *random, const struct hr__draw *d,
                struct hr_op *out)
{
    const struct hr_trivial_augment_wide *op = &random->trivial_augment_wide;
    int bins = op->bins ? op->bins : 31;
    struct hr__change_as as = {
        .most = &most, .bins = bins, .filter = op->filter, .fill = op->fill};

    as.bin = hr__draw_below(d->word[1], bins);
    as.negative = hr__draw_below(d->word[2], 2);
    return hr__change_op(hr__draw_below(d->word[0], HR__NUM_DRAWN), &as, d,
                         out);
}

static enum hr_status check(const struct hr_op *op, char text[128])
{
    if (op->trivial_augment_wide.bins == 1)
        return HR__BAD("trivial_augment_wide: bins must be 2 or more, not 1");
    return HR_OK;
}

static const struct hr_op_field fields[] = {
    HR__FIELD(trivial_augment_wide, bins, INT, .hi = HR__BINS),
    HR__FIELD(trivial_augment_wide, filter, ENUM, .values = hr__warp_filters),
    HR__FIELD(trivial_augment_wide, fill, COLOR),
};

const struct hr__op_def hr__op_trivial_augment_wide = {
    .info = {HR__INFO("trivial_augment_wide", TRIVIAL_AUGMENT_WIDE, AUGMENT),
             .random = true, .usage = "trivial_augment_wide[=FILTER[:FILL]]"},
    .draws = 1,
    .sees_size = true,
    .words = HR__WORDS(
        {.name = "trivial_augment_wide",
         .op = HR_OP_TRIVIAL_AUGMENT_WIDE(.filter = HR_NEAREST),
         .arguments = {{'=', .optional = true, .field = 1}, HR__ARG(2)}}),
    .check = check,
    .draw = draw,
};
