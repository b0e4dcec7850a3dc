// SPDX-License-Identifier: Apache-2.0
// torchvision/transforms/autoaugment.py, RandAugment.
#include "hal/ops/policy.h"

static int bins_of(const struct hr_rand_augment *op)
{
    return op->bins ? op->bins : 31;
}

static int draw(const struct hr_op *random, const struct hr__draw *d,
                struct hr_op *out)
{
    const struct hr_rand_augment *op = &random->rand_augment;
    struct hr__change_as as = {.most = &hr__rand_magnitudes,
                               .bin = op->magnitude,
                               .bins = bins_of(op),
                               .filter = op->filter,
                               .fill = op->fill};
    int n = 0;

    for (int i = 0; i < op->num_ops; i++) {
        uint32_t word[4];

        hr__draw_words(d, i, word);
        as.negative = hr__draw_below(word[1], 2);
        n += hr__change_op(hr__draw_below(word[0], HR__NUM_DRAWN), &as, d,
                           &out[n]);
    }
    return n;
}

static enum hr_status check(const struct hr_op *op, char text[128])
{
    int bins = bins_of(&op->rand_augment);

    if (bins < 2)
        return HR__BAD("rand_augment: bins must be 2 or more, not %d", bins);
    if (op->rand_augment.magnitude >= bins)
        return HR__BAD("rand_augment: magnitude must be 0 .. %d, not %d",
                       bins - 1, op->rand_augment.magnitude);
    return HR_OK;
}

static const struct hr_op_field fields[] = {
    HR__FIELD(rand_augment, num_ops, INT, .lo = 1, .hi = HR_MAX_OPS),
    HR__FIELD(rand_augment, magnitude, INT, .hi = HR__BINS),
    HR__FIELD(rand_augment, bins, INT, .hi = HR__BINS),
    HR__FIELD(rand_augment, filter, ENUM, .values = hr__warp_filters),
    HR__FIELD(rand_augment, fill, COLOR),
};

const struct hr__op_def hr__op_rand_augment = {
    .info = {HR__INFO("rand_augment", RAND_AUGMENT, AUGMENT), .random = true,
             .usage = "rand_augment[=N[:MAGNITUDE[:FILTER[:FILL]]]]"},
    .draws_at = offsetof(struct hr_op, rand_augment.num_ops),
    .sees_size = true,
    .words = HR__WORDS({.name = "rand_augment",
                        .syntax = "OPS:MAGNITUDE",
                        .op = HR_OP_RAND_AUGMENT(.num_ops = 2, .magnitude = 9,
                                                 .filter = HR_NEAREST),
                        .arguments = {{'=', .optional = true},
                                      HR__ARG(1),
                                      HR__ARG(3),
                                      HR__ARG(4)}}),
    .check = check,
    .draw = draw,
};
