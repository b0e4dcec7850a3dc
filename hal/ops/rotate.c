// SPDX-License-Identifier: Apache-2.0
// Pillow PIL/Image.py rotate().
#include <math.h>
#include <string.h>

#include "hal/ops/op_def.h"

// The smallest size that all corners of w x h are in, and the matrix for it.
static void expand(struct hr_affine *a, int w, int h)
{
    double *m = a->matrix, lo[2] = {INFINITY, INFINITY};
    double hi[2] = {-INFINITY, -INFINITY}, x, y;

    for (int k = 0; k < 4; k++) {
        double cx = k & 1 ? w : 0, cy = k & 2 ? h : 0;
        double at[2] = {m[0] * cx + m[1] * cy + m[2],
                        m[3] * cx + m[4] * cy + m[5]};

        for (int i = 0; i < 2; i++) {
            lo[i] = fmin(lo[i], at[i]);
            hi[i] = fmax(hi[i], at[i]);
        }
    }
    a->w = (int)(ceil(hi[0]) - floor(lo[0]));
    a->h = (int)(ceil(hi[1]) - floor(lo[1]));
    x = -(a->w - w) / 2.0;
    y = -(a->h - h) / 2.0;
    m[2] = m[0] * x + m[1] * y + m[2];
    m[5] = m[3] * x + m[4] * y + m[5];
}

static enum hr_status turn_around(struct hr__fold *f, const struct hr_rotate *r,
                                  int w, int h)
{
    struct hr_affine a = {.filter = r->filter};
    double m[6], x = r->around ? r->center[0] : w / 2.0;
    double y = r->around ? r->center[1] : h / 2.0;

    memcpy(a.fill, r->fill, sizeof(a.fill));
    hr__rotation_matrix(r->angle, m);
    hr__affine_around(m, x, y, a.matrix);
    if (r->expand)
        expand(&a, w, h);
    return hr__fold_affine(f, &a);
}

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    const struct hr_rotate *r = &op->rotate;
    struct hr_op plain;
    int w, h;

    hr__fold_size(f, &w, &h);
    // Where sides may change, a quarter is a turn of any picture.
    if (!r->around && !hr__rotation(r->angle, w, r->expand ? w : h, r->filter,
                                    r->fill, &plain))
        return HR_OK;
    if (!r->around && plain.type == HR_OP_FLIP)
        return hr__fold_turn(f, plain.flip.transpose, plain.flip.horizontal,
                             plain.flip.vertical);
    return turn_around(f, r, w, h);
}

static enum hr_status check(const struct hr_op *op, char text[128])
{
    for (int i = 0; i < 2; i++)
        if (!(fabs(op->rotate.center[i]) <= 1e6))
            return HR__BAD("rotate: center must be -1e+06 .. 1e+06, not %.15g",
                           op->rotate.center[i]);
    return HR_OK;
}

static const struct hr_op_field fields[] = {
    HR__FIELD(rotate, angle, DOUBLE, .lo = -1e6, .hi = 1e6),
    HR__FIELD(rotate, expand, BOOL),
    HR__FIELD(rotate, filter, ENUM, .values = hr__warp_filters),
    HR__FIELD(rotate, fill, COLOR),
    HR__FIELD(rotate, around, BOOL),
    HR__FIELD(rotate, center, DOUBLES),
};

const struct hr__op_def hr__op_rotate = {
    .info = {HR__INFO("rotate", ROTATE, AUGMENT),
             .usage = "rotate=ANGLE[:FILTER[:FILL]]"},
    .words = HR__WORDS(
        HR__WORD("rotate", ROTATE, "ANGLE", HR__ARG(2), HR__ARG(3))),
    .check = check,
    .fold = fold,
};
