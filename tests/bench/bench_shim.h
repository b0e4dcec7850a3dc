// SPDX-License-Identifier: Apache-2.0
// The rooms of the flat API for Python (bench_shim.c):
//   bench_shim.c     ops, devices, images, sets and their results
//   bench_times.c    the loops that are timed
//   bench_stages.c   the stages of decoding, each alone
//   bench_malloc.c   calls of malloc, counted
#ifndef HEADRACE_TESTS_BENCH_SHIM_H
#define HEADRACE_TESTS_BENCH_SHIM_H

#include <stdint.h>

#include <headrace/headrace.h>

#define SHIM __attribute__((visibility("default")))
#define EXPORT(type, name, ...)  \
    SHIM type name(__VA_ARGS__); \
    type name(__VA_ARGS__)

struct shim_source {  // hrshim.py Source; data, image or path
    const void *data;
    size_t size;
    hr_image image;
    const struct hr_op *ops;
    int64_t num_ops;
    int64_t verified;  // data is a packed picture that was checked
    const char *path;  // borrowed
};

struct shim_set {
    hr_device dev;
    hr_batch batch;
    int n;
    struct hr_sample samples[];
};

// Calls of malloc and the like so far. 0 for ever if the library is not
// preloaded.
SHIM unsigned long long shim_malloc_calls(void);

#endif
