// SPDX-License-Identifier: Apache-2.0
// Pillow's GaussianBlur (src/libImaging/BoxBlur.c): three boxes along x, then
// three along y, whose radius has the variance of the Gaussian; float32, but
// where C promotes to double.
#include <math.h>

#include "hal/ops/op_def.h"

static float radius_of(float sigma)
{
    float s2 = sigma * sigma / 3;
    float length = (float)sqrt(12.0 * (double)s2 + 1.0);
    float l = (float)floor(((double)length - 1.0) / 2.0);
    float a = (2 * l + 1) * (l * (l + 1) - 3 * s2);

    a /= 6 * (s2 - (l + 1) * (l + 1));
    return l + a;
}

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    const double *sigma = op->gaussian_blur.sigma;
    double radius[2];

    for (int i = 0; i < 2; i++)
        radius[i] = sigma[i] == 0 ? 0 : radius_of((float)sigma[i]);
    return hr__fold_boxes(f, radius, 3);
}

static enum hr_status check(const struct hr_op *op, char text[128])
{
    return hr__box_check("gaussian_blur: sigma", op->gaussian_blur.sigma, text);
}

static const struct hr_op_field fields[] = {
    HR__FIELD(gaussian_blur, sigma, DOUBLES),
};

const struct hr__op_def hr__op_gaussian_blur = {
    .info = {HR__INFO("gaussian_blur", GAUSSIAN_BLUR, AUGMENT),
             .usage = "gaussian_blur=SIGMA|X,Y"},
    .words = HR__WORDS(HR__WORD("gaussian_blur", GAUSSIAN_BLUR, "SIGMA")),
    .check = check,
    .fold = fold,
};
