// SPDX-License-Identifier: Apache-2.0
// Shared by the tests in which OpenCL's driver knows surfaces of the software
// VA driver: the steps of a case, and the expected descriptions.
#ifndef HEADRACE_TESTS_SHARE_ENV_H
#define HEADRACE_TESTS_SHARE_ENV_H

#include "import_env.h"

// In descriptions, how surfaces come to the next engine.
extern const char share_shared[], share_got[];
// Options of the VA driver: surfaces that lie in rows, or do not.
extern const char share_linear[], share_tiled[];

// A driver that shares, or as said. It has time, for a busy machine is not what
// is tested.
void share_set_up(const char *options, unsigned how, bool discrete);
// That with a scene, of a device that shares.
void share_new_scene(const char *options, bool discrete);

// The description says so.
void share_check_top(hr_device dev, const char *top);
// Samples that came that way; how often one was left for the next.
uint64_t share_samples_by(hr_device dev, const char *rung);
int share_falls(hr_device dev);
// Jobs over the scene, all made by both engines.
void share_run_together(int times);
// All pictures go that way now, and none is shared.
void share_check_next(const char *rung);

#endif
