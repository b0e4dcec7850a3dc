// SPDX-License-Identifier: Apache-2.0
// Pillow src/libImaging/BoxBlur.c: boxes of float32 radius, along x, then y.
#include "hal/ops/op_def.h"

static struct hr__box box_of(float radius)
{
    struct hr__box box = {.reach = (int)radius};

    box.inner = (uint32_t)((float)(1 << 24) / (radius * 2 + 1));
    box.outer = ((1u << 24) - (uint32_t)(box.reach * 2 + 1) * box.inner) / 2;
    return box;
}

enum hr_status hr__fold_boxes(struct hr__fold *f, const double radius[2],
                              int passes)
{
    struct hr__augment code = {.code = HR__AUGMENT_BOX,
                               .box = {.passes = passes}};

    if ((float)radius[0] != 0)
        code.box.x = box_of((float)radius[0]);
    if ((float)radius[1] != 0)
        code.box.y = box_of((float)radius[1]);
    return code.box.x.inner || code.box.y.inner ? hr__fold_augment(f, &code)
                                                : HR_OK;
}

enum hr_status hr__box_check(const char *what, const double x[2],
                             char text[128])
{
    for (int i = 0; i < 2; i++)
        if (!(x[i] >= 0 && x[i] <= 1e4))
            return HR__BAD("%s must be 0 .. 10000, not %.15g", what, x[i]);
    return HR_OK;
}

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    return hr__fold_boxes(f, op->box_blur.radius, 1);
}

static enum hr_status check(const struct hr_op *op, char text[128])
{
    return hr__box_check("box_blur: radius", op->box_blur.radius, text);
}

static const struct hr_op_field fields[] = {
    HR__FIELD(box_blur, radius, DOUBLES),
};

const struct hr__op_def hr__op_box_blur = {
    .info = {HR__INFO("box_blur", BOX_BLUR, AUGMENT),
             .usage = "box_blur=RADIUS|X,Y"},
    .words = HR__WORDS(HR__WORD("box_blur", BOX_BLUR, "RADIUS")),
    .check = check,
    .fold = fold,
};
