// SPDX-License-Identifier: Apache-2.0
// Op lists where C programs like to have them: static, outside of functions.
// Only compiled, with -pedantic-errors.
#include <headrace/op.h>

extern const struct hr_op evaluation[], pixels[];

const struct hr_op evaluation[] = {
    HR_OP_DECODE(0),
    HR_OP_RESIZE(.short_side = 256),
    HR_OP_CROP(.center = true, .w = 224, .h = 224),
    HR_OP_NORMALIZE(.mean = {.485f, .456f, .406f},
                    .std = {.229f, .224f, .225f}),
};

const struct hr_op pixels[] = {
    HR_OP_FLIP(.horizontal = true),
    HR_OP_NORMALIZE(0),
};

enum hr_op_type first_of(int n);

enum hr_op_type first_of(int n)
{
    static const struct hr_op turn = HR_OP_FLIP(.transpose = true);
    struct hr_op value = hr_op_decode(.mode = HR_GRAY);

    value = n ? value : hr_op_flip(0);
    switch (value.type) {  // the names are still those of the enum
    case HR_OP_DECODE:
        return HR_OP_DECODE;
    default:
        return turn.type;
    }
}
