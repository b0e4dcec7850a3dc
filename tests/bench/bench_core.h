// SPDX-License-Identifier: Apache-2.0
// The parts of bench_core:
//   bench_core.c     jobs, headers, devices
//   bench_stages.c   the stages of decoding, each alone
//   bench_malloc.c   calls of malloc, counted
#ifndef HEADRACE_TESTS_BENCH_CORE_H
#define HEADRACE_TESTS_BENCH_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bench_file {
    uint8_t *data;
    size_t size;
    bool taken;  // by bench_stages()
};

enum {  // as bench_alone.py STAGES
    ENTROPY,
    RECONSTRUCT,
    COLOR,
    UNPACK,  // then reconstruct and color again, of a packed picture
    UNPACK_RECONSTRUCT,
    UNPACK_COLOR,
    PACK,  // stage entropy included
    NUM_STAGES
};

struct bench_stages {
    double ticks[NUM_STAGES];
    double ticks_per_ns;
    double blocks, bytes;
    int files;  // that our own decoder takes; all others are left out
};

// cpu_mask: as HR_CPU_*, 0 = the best. Threads: one at a time, for its memory
// stays, as a worker's does.
void bench_stages(struct bench_file *files, int n, unsigned cpu_mask,
                  struct bench_stages *out);

// libjpeg-turbo's nanoseconds of all files that are taken: coefficients,
// samples, pixels, file by file, so that they can be compared.
void bench_stages_peer(const struct bench_file *files, int n, double ns[3]);

// Blocks of all files, without what pads MCUs; symbols that a baseline scan has
// for them; values that are not 0, DCs not counted. False: one cannot be read.
bool bench_symbols(const struct bench_file *files, int n, double out[3]);

// Calls of malloc and the like so far, of the whole process: glibc only, and
// none with a sanitizer.
unsigned long long bench_malloc_calls(void);

#endif
