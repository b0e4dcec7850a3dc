// SPDX-License-Identifier: Apache-2.0
#include "hal/ops/op_def.h"

// EXIF orientation as "transpose, then mirror" (TIFF 6.0 tag 274; Pillow
// src/PIL/ImageOps.py exif_transpose).
static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    static const struct {
        bool transpose, x, y;
    } turns[9] = {
        [2] = {.x = true},
        [3] = {.x = true, .y = true},
        [4] = {.y = true},
        [5] = {.transpose = true},
        [6] = {.transpose = true, .x = true},
        [7] = {.transpose = true, .x = true, .y = true},
        [8] = {.transpose = true, .y = true},
    };
    int o = f->orientation;

    if (!op->decode.apply_orientation || o <= 0 || o >= HR__NUM(turns))
        return HR_OK;
    return hr__fold_turn(f, turns[o].transpose, turns[o].x, turns[o].y);
}

static const struct hr_op_value modes[] = {{"RGB", HR_RGB},
                                           {"L", HR_GRAY},
                                           {NULL, 0}};

static const struct hr_op_field fields[] = {
    HR__FIELD(decode, mode, ENUM, .values = modes),
    HR__FIELD(decode, apply_orientation, BOOL),
};

static const struct hr__flag flags[] = {
    {"gray", 0, HR_GRAY}, {"rgb", 0, HR_RGB}, {"exif", 1, 1}, {NULL, 0, 0}};

const struct hr__op_def hr__op_decode = {
    .info = {HR__INFO("decode", DECODE, COLOR),
             .usage = "decode[=gray|rgb|exif]"},
    .place = HR__FIRST,
    .words = HR__WORDS(
        {.name = "decode", .op = HR_OP_DECODE(0), .flags = flags}),
    .fold = fold,
};
