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
    {.name = "arithmetic",
     .kind = HR_FIELD_ENUM,
     .offset = offsetof(struct hr_op, normalize.arith),
     .values = ariths},
    {.name = "values",
     .kind = HR_FIELD_TABLE,
     .offset = offsetof(struct hr_op, normalize.table)},
};

static const struct hr_op_form forms[] = {
    {"normalize", HR__FIELDS(3), {.type = HR_OP_NORMALIZE}},
    {"table", 1 << 3, {.type = HR_OP_NORMALIZE}},
};

const struct hr__op_def hr__op_normalize = {
    .info = {"normalize", HR_OP_NORMALIZE, HR_STORE, false, fields,
             HR__NUM(fields), forms, HR__NUM(forms)},
    .place = HR__LAST,
    .check = check,
};
