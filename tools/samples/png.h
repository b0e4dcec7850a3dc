// SPDX-License-Identifier: Apache-2.0
// Sample PNG files: every colour type.
#ifndef HEADRACE_TOOLS_SAMPLES_PNG_H
#define HEADRACE_TOOLS_SAMPLES_PNG_H

#include "out.h"
#include "scene.h"

enum samples_png_alpha { SAMPLES_OPAQUE, SAMPLES_ALPHA, SAMPLES_TRNS };

struct samples_png {
    bool gray, palette;  // neither = RGB; palette excludes gray and ALPHA
    int depth;           // bits per sample: 8 or 16, palette and gray also
                         // 1, 2, 4
    enum samples_png_alpha alpha;  // TRNS: one colour, or palette entries
    bool interlaced;
};

// Appends the encoded picture. false: libpng refused, or memory ran out.
bool samples_png_encode(const struct samples_png *params,
                        const struct samples_picture *p,
                        struct samples_bytes *out);

#endif
