// SPDX-License-Identifier: Apache-2.0
// Shared by the tests over fault_opencl.c: the codes that may come, scripts, a
// scene to run under them, and the checks that hold whatever happens.
#ifndef HEADRACE_TESTS_OPENCL_FAULTS_H
#define HEADRACE_TESTS_OPENCL_FAULTS_H

#include "fault_opencl.h"
#include "opencl_private.h"
#include "scene.h"

#define SECOND INT64_C(1000000000)
// A deadline where nothing hangs: drivers compile, and on a busy machine for
// longer than samples usually wait before the CPU makes them.
#define FAULTS_PATIENCE (60 * SECOND)

enum { FAULTS_SAMPLES = 6, FAULTS_CODES = 18 };

extern struct faults {
    struct fault_control ctl;
    struct scene scene;  // of the device at hand
    char label[160];     // the case at hand
    bool all;            // HEADRACE_TEST_LONG: every call with every code
    bool may_leak;       // clFinish fails
    int cases, hits[FAULT_ENTRIES];
    unsigned why;  // of all samples of the last job
} faults;

extern const char *const faults_names[FAULT_ENTRIES];

// The codes that the reference pages of OpenCL 1.2 name, up to a 0.
extern const cl_int faults_codes[FAULT_ENTRIES][FAULTS_CODES];
int faults_num_codes(int entry);

// A rule from call first on: that one, or all.
struct fault_rule faults_rule(int entry, int first, bool ever,
                              enum fault_action action, cl_int code);
// The script is one failure, and the label says so; no script.
void faults_set(int entry, int first, bool ever, cl_int code);
void faults_calm(void);
struct fault_counts faults_now(void);
// True if a rule of the script was hit; such a case counts.
bool faults_hit(int entry);

// Another folder for programs, in which there may be some; an empty one.
void faults_cache(const char *name);
void faults_new_cache(void);
// The driver hangs while it hands out the program of an opened device, to be
// kept, as after its first opening.
void faults_hang_program(hr_device dev);

// deadline: ns, 0 = default. open_scene: with no script; ends the program if
// it does not open.
hr_device faults_open(int64_t deadline);
hr_device faults_open_scene(int64_t deadline, enum scene_source source);
// One job over the scene: right, and done in time. How many of its samples
// the device made.
int faults_run(int64_t most_ns);
// Counts the calls that such a job makes, once its buffers are there.
void faults_count(struct fault_counts *c);
// How many objects are alive, when those of the device before are gone.
int faults_settled(void);
// Closes scene and device in time; of all that was made since there were
// live objects nothing is left.
void faults_close(hr_device *dev, int live);
void faults_check_objects(int live);

// main() of both programs; 77 without a device. library: fault_opencl.
int faults_main(const char *library, int argc, char **argv);
#define FAULTS_MAIN                                       \
    int main(int argc, char **argv)                       \
    {                                                     \
        return faults_main(HR_FAULT_LIBRARY, argc, argv); \
    }

#endif
