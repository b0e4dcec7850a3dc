// SPDX-License-Identifier: Apache-2.0
// Pillow PIL/Image.py point(): the caller's own table of bytes.
#include "hal/ops/op_def.h"

static enum hr_status check(const struct hr_op *op, char text[128])
{
    const struct hr_lut *lut = &op->lut;

    if (lut->table && (lut->entries == 256 || lut->entries == 3 * 256))
        return HR_OK;
    return HR__BAD("lut: table must have 256 or 768 entries, not %d",
                   lut->table ? lut->entries : 0);
}

static uint8_t value(const struct hr_op *op, int channel, uint8_t x)
{
    return op->lut.table[op->lut.entries == 256 ? x : channel * 256 + x];
}

static const struct hr_op_field fields[] = {
    {.kind = HR_FIELD_BYTES,
     .name = "table",
     .offset = offsetof(struct hr_op, lut),
     .size = offsetof(struct hr_lut, entries) + sizeof(int)},
};

const struct hr__op_def hr__op_lut = {
    .info = {HR__INFO("lut", LUT, STORE), .usage = ""},
    // A text cannot hold bytes for its reader.
    .words = HR__WORDS({0}),
    .check = check,
    .value = value,
};
