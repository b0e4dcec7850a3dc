// SPDX-License-Identifier: Apache-2.0
// torchvision's v2 permute_channels().
#include <string.h>

#include "hal/ops/op_def.h"

static enum hr_status check(const struct hr_op *op, char text[128])
{
    const uint8_t *from = op->permute_channels.from;

    if (from[0] < 3 && from[1] < 3 && from[2] < 3)
        return HR_OK;
    return HR__BAD("permute_channels: from must be 0 .. 2, not %d,%d,%d",
                   from[0], from[1], from[2]);
}

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    struct hr__augment code = {.code = HR__AUGMENT_PERMUTE};

    memcpy(code.from, op->permute_channels.from, sizeof(code.from));
    return hr__fold_augment(f, &code);
}

static const struct hr_op_field fields[] = {
    HR__FIELD(permute_channels, from, COLOR),
};

const struct hr__op_def hr__op_permute_channels = {
    .info = {HR__INFO("permute_channels", PERMUTE_CHANNELS, AUGMENT),
             .usage = "permute_channels=R,G,B"},
    .words = HR__WORDS(HR__WORD("permute_channels", PERMUTE_CHANNELS, "R,G,B")),
    .check = check,
    .fold = fold,
};
