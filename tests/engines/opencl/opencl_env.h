// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the OpenCL engine on a working device: the device
// beside the CPU's, caches of its own, pictures of every kind, the same job on
// both and the differences.
#ifndef HEADRACE_TESTS_OPENCL_ENV_H
#define HEADRACE_TESTS_OPENCL_ENV_H

#include "opencl_private.h"
#include "testing.h"

enum { OPENCL_FILES = 400, OPENCL_SIDE = 96 };

// Drivers compile, and on a busy machine for longer than samples usually wait
// before the CPU makes them. These shall be made by the device.
#define OPENCL_PATIENCE INT64_C(120000000000)

// While opencl_main() runs.
extern struct opencl_env {
    const char *folder;  // of the caches: cache/ is the engine's, pocl/ PoCL's
    char *files[OPENCL_FILES];  // first the photos
    int num_files;
    hr_device cpu, ocl;  // ocl: opened first, with nothing cached
} env;

double opencl_ms_since(int64_t start);

// A job and the batch it goes to. Ends the test case if there is none.
struct opencl_run {
    hr_batch batch;
    hr_job job;
};
struct opencl_run opencl_start(hr_device dev, const struct hr_sample *samples,
                               int n, const struct hr_batch_params *params);
void opencl_finish(struct opencl_run *r);

size_t opencl_stride(const struct opencl_run *r);
const void *opencl_slot(const struct opencl_run *r, int i);

// Waits for both; how many samples differ in status or bytes.
int opencl_differences(struct opencl_run *a, struct opencl_run *b, int n,
                       const char *what);
// Counts, for n samples, the spans from that stage on that an OpenCL device
// made.
int opencl_count_spans(const struct opencl_run *r, int n, enum hr_stage first);

// n samples over the photos, each with a crop of its own, to squares of
// OPENCL_SIDE. ops must live as long as they do.
void opencl_fill(struct hr_sample *s, struct hr_op (*ops)[4], int n);

#define OPENCL_NORMALIZE \
    hr_op_normalize(.mean = {.485f, .456f, .406f}, .std = {.229f, .224f, .225f})

// main() of these programs; 77 without a device. One that is here but does
// not open is a failure.
int opencl_main(int argc, char **argv);

#endif
