// SPDX-License-Identifier: Apache-2.0
// The conformance suite: any device against the readable C of the CPU. In the
// tier EXACT every byte must be equal, whatever engine made it.
#ifndef HEADRACE_TESTS_CONFORMANCE_H
#define HEADRACE_TESTS_CONFORMANCE_H

#include "testing.h"

struct conformance {
    int samples, jobs;  // run
    int by_device;      // samples of which the device itself did a span
    int different;      // results that differ from the reference
};

// Runs the suite, or by HEADRACE_TEST_SCALE a part of it that has every source
// and every list; CHECKs as it goes (main thread only). `tier` as jobs have
// it; bytes are compared in HR_EXACT and in HR_CLOSE if the device says that
// it is exact.
struct conformance conformance_run(hr_device dev, enum hr_tier tier,
                                   uint64_t seed);
// The same with source images and results of dev in that memory.
struct conformance conformance_run_in(hr_device dev, enum hr_tier tier,
                                      enum hr_memory memory, uint64_t seed);

#endif
