// SPDX-License-Identifier: Apache-2.0
// The table of ops, in the order of their types.
#include "hal/ops/op_def.h"

#define X(NAME, name) extern const struct hr__op_def hr__op_##name;
HR_OP_MAP(X)
#undef X

const struct hr__op_def *hr__op_def(enum hr_op_type type)
{
#define X(NAME, name) [HR_OP_##NAME] = &hr__op_##name,
    static const struct hr__op_def *const table[] = {HR_OP_MAP(X)};
#undef X

    return type > 0 && (int)type < HR__NUM(table) ? table[type] : NULL;
}

const struct hr_op_info *hr_op_info(enum hr_op_type type)
{
    const struct hr__op_def *def = hr__op_def(type);

    return def ? &def->info : NULL;
}
