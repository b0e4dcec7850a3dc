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
    // encoded: encoded samples; decoded: the ones that the device brought from
    // reconstruct to store; from_bytes: the decoded ones that it brought from
    // entropy on. pixels: samples without a file; resampled: the ones that the
    // device brought from resample to store.
    int encoded, decoded, from_bytes;
    int pixels, resampled;
    int refused;    // samples passed over for the certificate
    int fallbacks;  // changes of engine on the way
};

// Types x layouts x filters.
enum { CONFORMANCE_SETS = 3 * 2 * HR_NUM_FILTERS };

// Runs the suite, or by HEADRACE_TEST_SCALE a part of it that has every source
// and every list; CHECKs as it goes (main thread only). `tier` as jobs have
// it; bytes are compared in HR_EXACT and in HR_CLOSE if the device says that
// it is exact.
struct conformance conformance_run(hr_device dev, enum hr_tier tier,
                                   uint64_t seed);
// The same with source images and results of dev in that memory.
struct conformance conformance_run_in(hr_device dev, enum hr_tier tier,
                                      enum hr_memory memory, uint64_t seed);

// One job for each type, layout and filter in the tier EXACT, or as many as n
// of them, at least 6: each type, layout and filter has its turn. sums[set] is
// of set (type * 2 + layout) * HR_NUM_FILTERS + filter; jobs 0: not run.
void conformance_run_sets(hr_device dev, int n, uint64_t seed,
                          struct conformance sums[CONFORMANCE_SETS]);

// CHECKs of an engine that decodes, like OpenCL's, that what was compared is
// its work: it is exact by its certificate, nothing was refused for that or
// fell back, at least a third of the encoded samples went from reconstruct to
// store there, from entropy on if it offers that (else none), and all that
// differed is 0.
void conformance_is_own_work(hr_device dev, const struct conformance *c,
                             const char *what);

#endif
