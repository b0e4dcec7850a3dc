// SPDX-License-Identifier: Apache-2.0
// Pillow src/libImaging/Geometry.c perspective_transform().
#include <math.h>
#include <string.h>

#include "hal/ops/op_def.h"

enum { N = 8 };

static void swap_rows(double a[N + 1], double b[N + 1])
{
    for (int i = 0; i <= N; i++) {
        double old = a[i];

        a[i] = b[i];
        b[i] = old;
    }
}

// Gauss's elimination with the largest pivot of each column; row i of a is
// N factors and what they come to.
static bool solve(double a[N][N + 1], double x[N])
{
    for (int k = 0; k < N; k++) {
        int best = k;

        for (int i = k + 1; i < N; i++)
            best = fabs(a[i][k]) > fabs(a[best][k]) ? i : best;
        swap_rows(a[k], a[best]);
        for (int i = k + 1; i < N && a[k][k] != 0; i++) {
            double factor = a[i][k] / a[k][k];

            for (int j = k; j <= N; j++)
                a[i][j] -= factor * a[k][j];
        }
    }
    for (int k = N - 1; k >= 0; k--) {
        x[k] = a[k][N];
        for (int j = k + 1; j < N; j++)
            x[k] -= a[k][j] * x[j];
        x[k] /= a[k][k];
        if (!isfinite((float)x[k]))
            return false;
    }
    return true;
}

// torchvision transforms/functional.py _get_perspective_coeffs(): the matrix
// goes from where corners are to where they were.
bool hr_perspective_matrix(const double start[8], const double end[8],
                           double matrix[8])
{
    double a[N][N + 1], m[N];

    for (int i = 0; i < N; i++) {
        const double *to = &end[i & ~1];
        int first = i & 1 ? 3 : 0;

        memset(a[i], 0, sizeof(a[i]));
        a[i][first] = to[0];
        a[i][first + 1] = to[1];
        a[i][first + 2] = 1;
        a[i][6] = -start[i] * to[0];
        a[i][7] = -start[i] * to[1];
        a[i][8] = start[i];
    }
    if (!solve(a, m))
        return false;
    for (int i = 0; i < N; i++)
        matrix[i] = (double)(float)m[i];
    return true;
}

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    const struct hr_perspective *p = &op->perspective;
    struct hr__augment code = {.code = HR__AUGMENT_WARP,
                               .w = p->w,
                               .h = p->h,
                               .warp = {.way = HR__WARP_PERSPECTIVE,
                                        .filter = p->filter}};

    memcpy(code.warp.m, p->matrix, sizeof(p->matrix));
    memcpy(code.warp.fill, p->fill, sizeof(p->fill));
    return hr__fold_augment(f, &code);
}

static const struct hr_op_field fields[] = {
    HR__FIELD(perspective, matrix, DOUBLES),
    HR__FIELD(perspective, w, INT, .hi = HR_MAX_SIDE),
    HR__FIELD(perspective, h, INT, .hi = HR_MAX_SIDE),
    HR__FIELD(perspective, filter, ENUM, .values = hr__warp_filters),
    HR__FIELD(perspective, fill, COLOR),
};

const struct hr__op_def hr__op_perspective = {
    .info = {HR__INFO("perspective", PERSPECTIVE, AUGMENT),
             .usage = "perspective=A,B,C,D,E,F,G,H[:FILTER[:FILL]]"},
    .words = HR__WORDS(HR__WORD("perspective", PERSPECTIVE, "A,B,C,D,E,F,G,H",
                                HR__ARG(3), HR__ARG(4))),
    .size = offsetof(struct hr_op, perspective.w),
    .fold = fold,
};
