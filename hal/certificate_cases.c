// SPDX-License-Identifier: Apache-2.0
// The geometries that an engine is tested with: all filters, smaller and
// larger, crops, turns and paddings, and some of them together. Every resize
// says its order of passes, so that no reference changes what is compared.
#include "hal/certificate.h"

int hr__certificate_case(int i, int w, int h, struct hr_op *ops)
{
    enum hr_filter filter = (enum hr_filter)(i % HR_NUM_FILTERS);
    struct hr_crop crop = {
        .x = w / 5, .y = h / 7, .w = (w + 1) / 2, .h = (h + 1) / 2};
    struct hr_crop around = {
        .x = -3, .y = -2, .w = w + 7, .h = h + 4, .pad = true};
    // Each filter both ways: one smaller, one larger.
    enum hr_order order = (i + i / 6) % 2 ? HR_ORDER_VERTICAL
                                          : HR_ORDER_HORIZONTAL;
    struct hr_resize down = {
        .w = w * 2 / 5 + 1, .h = h / 3 + 1, .filter = filter, .order = order};
    struct hr_resize up = {.w = w * 7 / 5 + 2,
                           .h = h * 3 / 2 + 1,
                           .filter = filter,
                           .order = order};
    const struct hr_op op_crop = {.type = HR_OP_CROP, .crop = crop};
    int n = 0;

    if (i < 6) {  // all filters, smaller and larger
        ops[n++] = (struct hr_op){.type = HR_OP_RESIZE, .resize = down};
    } else if (i < 12) {
        ops[n++] = (struct hr_op){.type = HR_OP_RESIZE, .resize = up};
    } else if (i == 13) {
        ops[n++] = op_crop;
    } else if (i == 14) {
        ops[n++] = hr_op_flip(.horizontal = true);
    } else if (i == 15) {
        ops[n++] = hr_op_flip(.transpose = true, .vertical = true);
    } else if (i == 16) {
        ops[n++] = (struct hr_op){.type = HR_OP_CROP, .crop = around};
    } else if (i == 17) {
        ops[n++] = op_crop;
        ops[n++] = hr_op_resize(.w = 24, .h = 24, .order = HR_ORDER_HORIZONTAL);
        ops[n++] = hr_op_flip(.horizontal = true);
    } else if (i == 18) {
        ops[n++] = hr_op_resize(.w = 21, .h = 30, .filter = HR_BICUBIC,
                                .order = HR_ORDER_HORIZONTAL,
                                .box = {(float)w * .1f, (float)h * .2f,
                                        (float)w * .8f, (float)h * .9f});
        ops[n++] = hr_op_flip(.transpose = true);
    } else if (i == 19) {
        ops[n++] = hr_op_resize(.w = 26, .h = 22, .order = HR_ORDER_VERTICAL);
        ops[n++] = hr_op_crop(.w = 30, .h = 18, .center = true, .pad = true);
    }
    return n;  // 12: as it is
}
