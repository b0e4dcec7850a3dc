// SPDX-License-Identifier: Apache-2.0
// Planes in the forms in which engines leave them.
#ifndef HEADRACE_TESTS_PLANES_FORMS_H
#define HEADRACE_TESTS_PLANES_FORMS_H

#include "hal/engine/engine.h"

enum planes_form {
    FORM_PACKED,     // one plane behind the other
    FORM_GAPS,       // strides of their own, the last component first
    FORM_PAIRS,      // chroma interleaved, as NV12 or NV21
    FORM_ONE_PLANE,  // as YUY2, if the sampling is 2 x 1
    NUM_FORMS,       // (where a form does not fit: with gaps)
};

// A word of a header becomes a number where headers break, or one that is
// nearly right: at the bounds.
void planes_spoil(uint32_t *word, uint64_t *seed);

uint8_t planes_sample(const struct hr__planes *p, const uint8_t *data, int i,
                      uint32_t x, uint32_t y);

// The same samples in another form: malloc'ed, exactly as many bytes as it
// takes; bytes between the samples are noise.
uint8_t *planes_in_form(const struct hr__planes *p, const uint8_t *data,
                        enum planes_form form, uint64_t *seed,
                        struct hr__planes *out, size_t *size);

#endif
