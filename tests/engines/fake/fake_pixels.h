// SPDX-License-Identifier: Apache-2.0
// The work of the fake engine: any span of decode, resample and store in the
// plainest C, from whatever lies in front of it to whatever comes behind.
#ifndef HEADRACE_TESTS_FAKE_PIXELS_H
#define HEADRACE_TESTS_FAKE_PIXELS_H

#include "hal/engine/engine.h"

// Mistakes it makes on purpose, each in the stage of its name, whatever the
// span: one level off in every 16th pixel, or red and blue chroma swapped.
enum fake_fault {
    FAKE_RIGHT,
    FAKE_FAULT_RECONSTRUCT,  // of the luma
    FAKE_FAULT_COLOR,        // of red
    FAKE_FAULT_IDCT,         // 2 levels, luma and chroma, in every pixel
    FAKE_FAULT_LUMA,         // 3 levels
    FAKE_FAULT_CHROMA,
    FAKE_FAULT_RESAMPLE,  // where something is resized
    FAKE_FAULT_STORE,     // where bytes become floats
    FAKE_FAULT_SPREAD,    // many sizes at the end, another one in each channel
    FAKE_FAULT_RANKS,     // at the end the more the narrower the picture is;
                          // where nothing was resized, the less
};

// Runs task->span; *out says how it went.
void fake_pixels(struct hr__task *task, enum fake_fault fault,
                 struct hr__outcome *out);
// Where the first element goes, also if that is the fake's own memory.
uint8_t *fake_dst(const struct hr__dst *dst);

// Memory of the fake's own, and copies of it; counted.
struct hr__memory *fake_memory(struct hr__engine *e, enum hr_memory kind,
                               size_t size, bool clear);
void fake_memory_free(struct hr__engine *e, struct hr__memory *memory);
void fake_do_copy(const struct hr__copy *copy);

// The same for entropy..reconstruct: planes of the whole picture in memory of
// its own, in a form of planes_forms.h.
void fake_planes(struct hr__task *task, int form, struct hr__outcome *out);

#endif
