// SPDX-License-Identifier: Apache-2.0
// torchvision/transforms/autoaugment.py: what its changes do to Pillow's
// pictures.
#include <math.h>
#include <string.h>

#include "hal/ops/policy.h"

const struct hr__magnitudes hr__rand_magnitudes = {.shear = .3,
                                                   .degrees = 30,
                                                   .factor = .9,
                                                   .translate = 150. / 331,
                                                   .relative = true,
                                                   .bits = 4};

// torch.linspace(low, high, bins)[bin], in float32 (ATen
// RangeFactoriesKernel.cpp: from the nearer end, a product and a sum that are
// rounded once).
static double bin_of(double low, double high, int bin, int bins)
{
    float from = (float)low, to = (float)high;
    float step = (to - from) / (float)(bins - 1);

    return bin < bins / 2
               ? (float)((double)from + (double)step * bin)
               : (float)((double)to - (double)step * (bins - 1 - bin));
}

static struct hr_op affine(const struct hr__change_as *as, const double move[2],
                           const double shear[2], const double center[2])
{
    struct hr_op op = {.type = HR_OP_AFFINE,
                       .affine.filter = as->filter,
                       .affine.centered = !center};

    hr_affine_matrix(0, move, 1, shear, center, op.affine.matrix);
    memcpy(op.affine.fill, as->fill, sizeof(op.affine.fill));
    return op;
}

// Around the first corner, by a tangent and not an angle.
static struct hr_op shear(const struct hr__change_as *as, double tangent,
                          bool vertical)
{
    static const double none[2];
    double angle[2] = {0, 0};

    angle[vertical] = atan(tangent) * (180 / M_PI);
    return affine(as, none, angle, none);
}

static struct hr_op translate(const struct hr__change_as *as, double pixels,
                              bool vertical)
{
    static const double none[2];
    double move[2] = {0, 0};

    move[vertical] = (int)pixels;
    return affine(as, move, none, NULL);
}

static double most_of(enum hr__change change, const struct hr__magnitudes *m,
                      const struct hr__draw *d)
{
    switch (change) {
    case HR__SHEAR_X:
    case HR__SHEAR_Y:
        return m->shear;
    case HR__TRANSLATE_X:
        return m->relative ? m->translate * d->w : m->translate;
    case HR__TRANSLATE_Y:
        return m->relative ? m->translate * d->h : m->translate;
    case HR__ROTATE:
        return m->degrees;
    default:
        return m->factor;
    }
}

// Half to even, of a float32 quotient.
static int bits_of(const struct hr__change_as *as)
{
    float bin_of_bit = (float)((double)(as->bins - 1) / as->most->bits);

    return 8 - (int)nearbyintf((float)as->bin / bin_of_bit);
}

int hr__change_op(enum hr__change change, const struct hr__change_as *as,
                  const struct hr__draw *d, struct hr_op *out)
{
    static const enum hr_op_type types[] = {
        [HR__BRIGHTNESS] = HR_OP_ADJUST_BRIGHTNESS,
        [HR__COLOR] = HR_OP_ADJUST_SATURATION,
        [HR__CONTRAST] = HR_OP_ADJUST_CONTRAST,
        [HR__SHARPNESS] = HR_OP_ADJUST_SHARPNESS,
        [HR__POSTERIZE] = HR_OP_POSTERIZE,
        [HR__SOLARIZE] = HR_OP_SOLARIZE,
        [HR__AUTOCONTRAST] = HR_OP_AUTOCONTRAST,
        [HR__EQUALIZE] = HR_OP_EQUALIZE,
        [HR__INVERT] = HR_OP_INVERT,
    };
    double x = bin_of(0, most_of(change, as->most, d), as->bin, as->bins);

    x = as->negative ? -x : x;
    *out = (struct hr_op){.type = types[change]};
    switch (change) {
    case HR__IDENTITY:
        return 0;
    case HR__SHEAR_X:
    case HR__SHEAR_Y:
        *out = shear(as, x, change == HR__SHEAR_Y);
        return 1;
    case HR__TRANSLATE_X:
    case HR__TRANSLATE_Y:
        *out = translate(as, x, change == HR__TRANSLATE_Y);
        return 1;
    case HR__ROTATE:
        return hr__rotation(x, d->w, d->h, as->filter, as->fill, out);
    case HR__POSTERIZE:
        out->posterize.bits = bits_of(as);
        return 1;
    case HR__SOLARIZE:
        out->solarize.threshold = bin_of(255, 0, as->bin, as->bins);
        return 1;
    default:
        // (each of the four has a struct hr_adjust)
        if (change >= HR__BRIGHTNESS && change <= HR__SHARPNESS)
            out->adjust_hue.factor = 1 + x;
        return 1;
    }
}
