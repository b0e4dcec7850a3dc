// SPDX-License-Identifier: Apache-2.0
// The work of the fake engine: any span of decode, resample and store in the
// plainest C, from whatever lies in front of it to whatever comes behind.
#ifndef HEADRACE_TESTS_FAKE_PIXELS_H
#define HEADRACE_TESTS_FAKE_PIXELS_H

#include "hal/backend.h"

// Runs task->span; *out says how it went.
void fake_pixels(struct hr__task *task, struct hr__outcome *out);

// The same for entropy..reconstruct: planes of the whole picture in memory of
// its own, in a form of planes_forms.h.
void fake_planes(struct hr__task *task, int form, struct hr__outcome *out);

#endif
