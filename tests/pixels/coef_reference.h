// SPDX-License-Identifier: Apache-2.0
// The stages reconstruct and color as scalar C, from the packed coefficients of
// hal/engine/payload.h alone: kernels that read that form must equal it.
// Written to be read; nothing here is fast.
#ifndef HEADRACE_TESTS_COEF_REFERENCE_H
#define HEADRACE_TESTS_COEF_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hal/engine/engine.h"

// Checks that the form holds together: sizes, segments, payloads, escapes.
// Returns NULL or the fault.
const char *coef_reference_check(const void *data, size_t size);

// The coefficients of one block (x, y in the component's own grid), natural
// order. false: it is not there.
bool coef_reference_block(const struct hr__coefficients *c, int comp,
                          uint32_t x, uint32_t y, int16_t out[64]);

// The window: w * h pixels of `channels` (3 = RGB, 1 = grey) bytes each, no
// gaps. false: a block that it needs is not there, or out of memory.
bool coef_reference_window(const struct hr__coefficients *c, int channels,
                           uint8_t *out);

#endif
