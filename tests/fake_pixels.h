// SPDX-License-Identifier: Apache-2.0
// The work of the fake engine: any span of decode, resample and store in the
// plainest C, from whatever lies in front of it to whatever comes behind.
#ifndef HEADRACE_TESTS_FAKE_PIXELS_H
#define HEADRACE_TESTS_FAKE_PIXELS_H

#include "hal/backend.h"

// Runs task->span; *out says how it went.
void fake_pixels(struct hr__task *task, struct hr__outcome *out);
// Where the first element goes, also if that is the fake's own memory.
uint8_t *fake_dst(const struct hr__dst *dst);

#endif
