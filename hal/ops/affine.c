// SPDX-License-Identifier: Apache-2.0
// Pillow src/libImaging/Geometry.c ImagingTransformAffine: which of its ways a
// matrix takes.
#include <math.h>
#include <string.h>

#include "hal/ops/op_def.h"

enum { PLACES = 1 << 20 };  // more than any picture has

static double radians(double degrees)
{
    return degrees * (M_PI / 180);
}

// torchvision transforms/functional.py _get_inverse_affine_matrix().
void hr__affine_around(const double m[6], double cx, double cy, double out[6])
{
    double x = -cx - m[2], y = -cy - m[5];

    memcpy(out, m, 6 * sizeof(*m));
    out[2] = m[0] * x + m[1] * y + cx;
    out[5] = m[3] * x + m[4] * y + cy;
}

void hr_affine_matrix(double angle, const double translate[2], double scale,
                      const double shear[2], const double center[2],
                      double matrix[6])
{
    double rot = radians(angle), sx = radians(shear[0]), sy = radians(shear[1]);
    double a = cos(rot - sy) / cos(sy), c = sin(rot - sy) / cos(sy);
    double b = -cos(rot - sy) * tan(sx) / cos(sy) - sin(rot);
    double d = -sin(rot - sy) * tan(sx) / cos(sy) + cos(rot);
    double m[6] = {d / scale,  -b / scale, translate[0],
                   -c / scale, a / scale,  translate[1]};

    memcpy(matrix, m, sizeof(m));
    if (center)
        hr__affine_around(m, center[0], center[1], matrix);
}

static bool is_place(double x)
{
    return fabs(x) < PLACES && x == floor(x);
}

// Says whether all of w x h has places that fit 16.16 fixed point.
static bool fits_fixed(const double m[6], int w, int h)
{
    bool fits = true;

    for (int k = 0; k < 4; k++) {
        double x = k & 1 ? w : 0, y = k & 2 ? h : 0;

        fits &= fabs(x * m[0] + y * m[1] + m[2]) < 32768 &&
                fabs(x * m[3] + y * m[4] + m[5]) < 32768;
    }
    return fits;
}

static int32_t fixed(double x)
{
    return (int32_t)(uint32_t)(int64_t)floor(x * 65536 + .5);
}

static void set_way(struct hr__warp *warp, int w, int h)
{
    const double *m = warp->m;

    if (warp->filter != HR_NEAREST) {
        warp->way = HR__WARP_AFFINE;
    } else if (m[1] == 0 && m[3] == 0) {
        warp->way = HR__WARP_AXES;
    } else if (fits_fixed(m, w, h)) {
        warp->way = HR__WARP_FIXED;
        for (int i = 0; i < 6; i++)
            warp->fixed[i] = fixed(
                i % 3 == 2 ? m[i] + m[i - 2] * .5 + m[i - 1] * .5 : m[i]);
    } else {
        warp->way = HR__WARP_SUMS;
    }
}

enum hr_status hr__fold_affine(struct hr__fold *f, const struct hr_affine *op)
{
    struct hr__augment code = {.code = HR__AUGMENT_WARP,
                               .warp = {.filter = op->filter}};
    double *m = code.warp.m;
    int w, h;

    hr__fold_size(f, &w, &h);
    code.w = op->w ? op->w : w;
    code.h = op->w ? op->h : h;
    memcpy(m, op->matrix, sizeof(op->matrix));
    memcpy(code.warp.fill, op->fill, sizeof(op->fill));
    if (op->centered)
        hr__affine_around(op->matrix, w * .5, h * .5, m);
    // By whole pixels: exact with every filter.
    if (m[0] == 1 && m[1] == 0 && m[3] == 0 && m[4] == 1 && is_place(m[2]) &&
        is_place(m[5]))
        return hr__fold_shift(
            f, (struct hr__rect){(int)m[2], (int)m[5], code.w, code.h},
            op->fill);
    set_way(&code.warp, code.w, code.h);
    return hr__fold_augment(f, &code);
}

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    return hr__fold_affine(f, &op->affine);
}

static const struct hr_op_field fields[] = {
    HR__FIELD(affine, matrix, DOUBLES),
    HR__FIELD(affine, w, INT, .hi = HR_MAX_SIDE),
    HR__FIELD(affine, h, INT, .hi = HR_MAX_SIDE),
    HR__FIELD(affine, filter, ENUM, .values = hr__warp_filters),
    HR__FIELD(affine, fill, COLOR),
    HR__FIELD(affine, centered, BOOL),
};

const struct hr__op_def hr__op_affine = {
    .info = {HR__INFO("affine", AFFINE, AUGMENT),
             .usage = "affine=A,B,C,D,E,F[:FILTER[:FILL]]"},
    .words = HR__WORDS(
        HR__WORD("affine", AFFINE, "A,B,C,D,E,F", HR__ARG(3), HR__ARG(4))),
    .size = offsetof(struct hr_op, affine.w),
    .fold = fold,
};
