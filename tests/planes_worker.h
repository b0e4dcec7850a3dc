// SPDX-License-Identifier: Apache-2.0
// What tests of planes work with, without a device: instruction sets, and
// memory that ends where it may no longer be read.
#ifndef HEADRACE_TESTS_PLANES_WORKER_H
#define HEADRACE_TESTS_PLANES_WORKER_H

#include "cpu_fallback/planes.h"

struct fenced {
    uint8_t *map;
    size_t size;
};

// A copy right in front of a page that faults.
uint8_t *fenced_copy(struct fenced *f, const uint8_t *from, size_t size);
void fenced_finish(struct fenced *f);

enum { PLANES_LEVELS = 3 };
extern const struct planes_level {
    const char *name;
    unsigned flags;
} planes_levels[PLANES_LEVELS];
// False, said once, if this machine has not got it.
bool planes_level_ops(int i, struct cpu_ops *ops);

#endif
