// SPDX-License-Identifier: Apache-2.0
// For tests of kernels/entropy.cl: batches of scans as the engine makes them,
// without an engine, and what libjpeg says of them.
#ifndef ENTROPY_ENV_H
#define ENTROPY_ENV_H

#include "decode_files.h"
#include "kernels/entropy_plan.h"
#include "kernels/plan.h"

enum {
    ENTROPY_KERNELS = HR__KERNEL_DC + 1,
    ENTROPY_BATCH = 8,
    ENTROPY_LAUNCHES = 16,
    ENTROPY_WARP = 32,  // items that a GPU runs in step
};

// Runs the cases on PoCL, or on the platform that HEADRACE_TEST_OPENCL names.
// counted: the kernels count the symbols that they decode. (The device is
// opened before cases count descriptors: simulators keep some.)
int entropy_test_main(int argc, char **argv, bool counted);

// Symbols that a launch has decoded for a picture; of the item with the most;
// and the sum over warps of the most that an item of the warp has.
struct entropy_counts {
    uint64_t symbols, steps;
    uint32_t longest;
};

struct entropy_batch {
    enum { ENTROPY_EITHER, ENTROPY_HOST, ENTROPY_GPU } form;  // by chance
    struct hr__kernel_picture pics[ENTROPY_BATCH];
    struct hr__entropy scans[ENTROPY_BATCH];
    int n;
    struct bytes plan, in, work, out;
    struct entropy_counts counts[ENTROPY_LAUNCHES][ENTROPY_BATCH];
};

// One more picture; false: the host must decode it.
bool entropy_put(struct entropy_batch *b, const struct bytes *jpeg);
// Runs those kernels, one launch each.
void entropy_run(struct entropy_batch *b, const int *kernels, int n);
void entropy_free(struct entropy_batch *b);

hr__word entropy_flag(const struct entropy_batch *b, int i);
// Lines that differ from libjpeg's; -1: libjpeg warns of the file.
int entropy_lines_differ(const struct entropy_batch *b, int i,
                         const struct bytes *jpeg);

#endif
