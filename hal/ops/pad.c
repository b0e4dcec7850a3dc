// SPDX-License-Identifier: Apache-2.0
// torchvision transforms/_functional_pil.py pad(): Pillow's ImageOps.expand(),
// and NumPy's pad().
#include "hal/ops/op_def.h"

static int above_0(int x)
{
    return x > 0 ? x : 0;
}

// Borders below 0 cut pixels away first.
static enum hr_status cut(struct hr__fold *f, const struct hr_pad *p)
{
    struct hr__rect r = {above_0(-p->left), above_0(-p->top), 0, 0};
    int w, h;

    hr__fold_size(f, &w, &h);
    r.w = w - r.x - above_0(-p->right);
    r.h = h - r.y - above_0(-p->bottom);
    if (r.w >= 1 && r.h >= 1)
        return hr__fold_crop(f, r, false);
    snprintf(f->text, 128, "pad of %d,%d,%d,%d leaves nothing of %dx%d",
             p->left, p->top, p->right, p->bottom, w, h);
    return HR_EINVAL;
}

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    const struct hr_pad *p = &op->pad;
    int left = above_0(p->left), top = above_0(p->top), w, h;
    enum hr_status status = cut(f, p);

    if (status)
        return status;
    hr__fold_size(f, &w, &h);
    return hr__fold_window(f,
                           (struct hr__rect){-left, -top,
                                             w + left + above_0(p->right),
                                             h + top + above_0(p->bottom)},
                           p->mode, p->fill);
}

#define BORDER .lo = -HR_MAX_SIDE, .hi = HR_MAX_SIDE

static const struct hr_op_field fields[] = {
    HR__FIELD(pad, left, INT, BORDER),
    HR__FIELD(pad, top, INT, BORDER),
    HR__FIELD(pad, right, INT, BORDER),
    HR__FIELD(pad, bottom, INT, BORDER),
    HR__FIELD(pad, mode, ENUM, .values = hr__edges),
    HR__FIELD(pad, fill, COLOR),
};

static bool mixes(const struct hr_op *op)
{
    (void)op;
    return true;
}

const struct hr__op_def hr__op_pad = {
    .info = {HR__INFO("pad", PAD, AUGMENT),
             .usage = "pad=L,T,R,B[:MODE[:COLOR]]"},
    .words = HR__WORDS(
        {.name = "pad",
         .syntax = "LEFT,TOP,RIGHT,BOTTOM",
         .op = {.type = HR_OP_PAD},
         .arguments = {{'=', .as = HR__AS_FOUR}, HR__ARG(4), HR__ARG(5)}}),
    .mixes = mixes,
    .fold = fold,
};
