// SPDX-License-Identifier: Apache-2.0
// Groups of ops: random_apply, random_choice. How long one is follows from its
// count and those of groups inside of it.
#include <string.h>

#include "hal/ops/op_def.h"

// Items that an op has behind it.
static int items(const struct hr_op *op)
{
    const struct hr__op_def *def = hr__op_def(op->type);
    int count;

    if (!def->group)
        return 0;
    memcpy(&count, (const char *)op + def->group, sizeof(count));
    return count ? count : 1;
}

// The place behind the item that begins at `at`; 0: it is longer than the list.
static int behind(const struct hr_op *ops, int num_ops, int at)
{
    for (long left = 1; left > 0; at++) {
        if (at == num_ops)
            return 0;
        left += items(&ops[at]) - 1;
    }
    return at;
}

// Says whether a plain op leaves pictures of any size as large as they are, and
// their channels.
static bool keeps_size(const struct hr_op *op)
{
    static const int sides[][2] = {{5, 7}, {11, 3}, {HR_MAX_SIDE, HR_MAX_SIDE}};
    char text[128];

    if (hr_ops_channels(op, 1, 3) != 3)
        return false;
    for (int i = 0; i < HR__NUM(sides); i++) {
        struct hr__geometry geo = {0};
        int w, h;

        if (hr__geometry_build(&geo, op, 1, HR_REFERENCE_NEWEST, sides[i][0],
                               sides[i][1], 1, text))
            return false;
        hr__geometry_size(&geo, &w, &h);
        if (w != sides[i][0] || h != sides[i][1])
            return false;
    }
    return true;
}

// The size of any picture that the item at `at` makes, if it is one op; or
// NULL.
static const int *size_at(const struct hr_op *ops, int at)
{
    const struct hr__op_def *def = hr__op_def(ops[at].type);
    const int *size = (const void *)((const char *)&ops[at] + def->size);

    return def->size && size[0] ? size : NULL;
}

// Says whether a choice is one of ops that all make one size, as crops that are
// resized by different filters.
static bool chooses_size(const struct hr_op *ops, int num_ops, int at)
{
    const int *first = ops[at].type == HR_OP_RANDOM_CHOICE
                           ? size_at(ops, at + 1)
                           : NULL;
    int num = items(&ops[at]);

    if (!first || behind(ops, num_ops, at) != at + 1 + num)
        return false;
    for (int i = 1; i < num; i++) {
        const int *size = size_at(ops, at + 1 + i);

        if (!size || size[0] != first[0] || size[1] != first[1])
            return false;
    }
    return true;
}

enum hr_status hr__groups_check(const struct hr_op *ops, int num_ops,
                                char text[128])
{
    int inside = 0;  // items that must keep the size end there

    for (int i = 0; i < num_ops; i++) {
        const struct hr__op_def *def = hr__op_def(ops[i].type);
        int end = behind(ops, num_ops, i);

        if (!end)
            return HR__BAD("%s: fewer than %d ops or groups follow it",
                           def->info.name, items(&ops[i]));
        if (i < inside &&
            (def->place != HR__ANYWHERE ||
             (def->info.random ? def->size > 0 : !keeps_size(&ops[i]))))
            return HR__BAD("%s: not in a group, whose items keep the size of "
                           "any picture, and are no decode or normalize",
                           def->info.name);
        if (end > inside && (i < inside || !chooses_size(ops, num_ops, i)))
            inside = end;
    }
    return HR_OK;
}

void hr__group_drop(const struct hr_op *ops, int num_ops,
                    const struct hr__draw *d, bool off[HR_MAX_OPS])
{
    const struct hr_op *group = &ops[d->place];
    int at = d->place + 1;

    for (int i = 0; i < items(group); i++) {
        int end = behind(ops, num_ops, at);

        if (!hr__op_def(group->type)->stays(group, d, i))
            memset(off + at, true, (size_t)(end - at));
        at = end;
    }
}
