// SPDX-License-Identifier: Apache-2.0
// hal/shape/table.c computes what it says.
#include <math.h>

#include "hal/ops/op_def.h"

static enum hr_status check(const struct hr_op *op, int channels,
                            char text[128])
{
    const struct hr_normalize *n = &op->normalize;
    int zeros = 0;

    for (int c = 0; c < 3 && !n->table; c++) {
        if (!isfinite(n->mean[c]) || !isfinite(n->std[c]))
            return HR__BAD("normalize: mean or std is not finite");
        zeros += n->std[c] == 0;
    }
    // A grey picture uses the first entry only, so {s, 0, 0} is fine.
    if (zeros && zeros != 3 && !(channels == 1 && n->std[0] != 0 && zeros == 2))
        return HR__BAD("normalize: a std of 0");
    return HR_OK;
}

static const struct hr_op_value ariths[] = {{"div", HR_ARITH_DIV},
                                            {"mul", HR_ARITH_MUL},
                                            {NULL, 0}};

static const struct hr_op_field fields[] = {
    HR__FIELD(normalize, mean, CHANNELS),
    HR__FIELD(normalize, std, CHANNELS, .not_zero = true),
    HR__FIELD_AS("arithmetic", normalize, arith, ENUM, .values = ariths),
    HR__FIELD_AS("values", normalize, table, TABLE),
};

static const struct hr_op_form forms[] = {
    {"normalize", HR__FIELDS(3), {.type = HR_OP_NORMALIZE}},
    {"table", 1 << 3, {.type = HR_OP_NORMALIZE}},
};

// By torchvision's releases.
static const struct hr_op_value versions[] = {{"v1", HR_ARITH_DIV},
                                              {"v2", HR_ARITH_MUL},
                                              {NULL, 0}};
#define ARG_ARITH                            \
    {                                        \
        ':', true, 2, HR__AS_FIELD, versions \
    }

const struct hr__op_def hr__op_normalize = {
    .info = {HR__INFO_FORMS("normalize", NORMALIZE, STORE),
             .usage = "to_tensor[:v2], normalize=imagenet|M,M,M/S,S,S[:v2]"},
    .place = HR__LAST,
    .words = HR__WORDS({.name = "to_tensor",
                        .op = {.type = HR_OP_NORMALIZE},
                        .arguments = {ARG_ARITH}},
                       {.name = "normalize",
                        .literal = "imagenet",
                        .op = {.type = HR_OP_NORMALIZE,
                               .normalize = {.mean = {.485f, .456f, .406f},
                                             .std = {.229f, .224f, .225f}}},
                        .arguments = {ARG_ARITH}},
                       {.name = "normalize",
                        .syntax = "imagenet or MEANS/STDS",
                        .op = {.type = HR_OP_NORMALIZE},
                        .arguments = {{.before = '='},
                                      {'/', .field = 1, .as = HR__AS_ABOVE_0},
                                      ARG_ARITH}}),
    .check_for = check,
};
