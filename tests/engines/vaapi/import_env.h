// SPDX-License-Identifier: Apache-2.0
// Shared by the tests in which OpenCL reads the surfaces of the software VA
// driver: fault_opencl between the engine and the OpenCL driver that is here, a
// scene, and the checks that hold whatever happens.
#ifndef HEADRACE_TESTS_IMPORT_ENV_H
#define HEADRACE_TESTS_IMPORT_ENV_H

#include <headrace/trace.h>

#include "fault_opencl.h"
#include "scene.h"
#include "vaapi_env.h"

// One in six of a scene's samples is progressive.
enum { IMPORTS_N = 6, IMPORTS_MADE = 5, IMPORTS_DEADLINE_MS = 400 };

extern struct imports {
    struct fault_control ctl;
    struct scene scene;  // of the device at hand
    char label[160];     // the case at hand
    int deadline_ms;     // of devices; 0 = IMPORTS_DEADLINE_MS
} imports;

// Drivers and variables, library: fault_opencl. Nothing is imported yet. False:
// exit with TEST_NOT_RUN, it is said why.
bool imports_init(const char *library);

// The media engine with OpenCL behind it; ends the program if that does not
// open. close: checks that no object is left in the drivers, and that this
// process has that many descriptors again.
hr_device imports_open(void);
void imports_close(hr_device *dev, int fds);
// The same with a scene of n samples.
void imports_open_scene(int n);
void imports_close_scene(int fds);
int imports_fds(void);  // descriptors of this process

// One job over the scene: right, and done in time. How many of its samples
// both engines made together.
int imports_run(int64_t most_ms);

struct fault_counts imports_now(void);
// Engine i of the chain.
struct hr_engine_profile imports_engine(hr_device dev, int i);
// Surfaces read back through the VA driver, by either engine.
long imports_read_back(void);
// Surfaces that are not to be written, while no job is under way.
int imports_held(void);

// With the scene open: sooner or later five jobs allocate nothing.
void imports_check_steady(void);
// Batches come back late, by a rule; for ever if its last is 0. Their surfaces
// are held until then, and not longer.
void imports_check_late(const struct fault_rule *r, int deadline_ms);

#endif
