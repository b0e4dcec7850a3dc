// SPDX-License-Identifier: Apache-2.0
// The fifteen kinds of changes, each with a magnitude, from which
// trivial_augment_wide, rand_augment and auto_augment draw.
#ifndef HR__POLICY_H
#define HR__POLICY_H

#include "hal/ops/op_def.h"

enum hr__change {
    HR__IDENTITY,
    HR__SHEAR_X,
    HR__SHEAR_Y,
    HR__TRANSLATE_X,
    HR__TRANSLATE_Y,
    HR__ROTATE,
    HR__BRIGHTNESS,
    HR__COLOR,
    HR__CONTRAST,
    HR__SHARPNESS,
    HR__POSTERIZE,
    HR__SOLARIZE,
    HR__AUTOCONTRAST,
    HR__EQUALIZE,
    HR__NUM_DRAWN,  // all the above, of which two of the ops draw evenly
    HR__INVERT = HR__NUM_DRAWN,
};

// Magnitudes are the bins of a range from nothing to these.
struct hr__magnitudes {
    double shear, degrees, factor;
    double translate;  // pixels; of each side of the picture, if `relative`
    bool relative;
    int bits;  // that posterize takes away
};

// The magnitudes of rand_augment and auto_augment.
extern const struct hr__magnitudes hr__rand_magnitudes;

enum { HR__BINS = 1 << 16 };  // at most

// The bin that was drawn, of how many, and the filter and fill of a warp.
struct hr__change_as {
    const struct hr__magnitudes *most;
    int bin, bins;
    bool negative;  // of shears, translations, rotations and factors
    enum hr_filter filter;
    const uint8_t *fill;
};

// Writes the plain op that the change becomes for the draw's picture, and
// returns how many: 0 or 1.
int hr__change_op(enum hr__change change, const struct hr__change_as *as,
                  const struct hr__draw *draw, struct hr_op *out);

#endif
