// SPDX-License-Identifier: Apache-2.0
// The instruction sets of the CPU engine, each with those before it.
#ifndef HEADRACE_TESTS_SIMD_LEVELS_H
#define HEADRACE_TESTS_SIMD_LEVELS_H

#include "cpu_fallback/cpu_ops.h"

enum { SIMD_LEVELS = 3 };
extern const struct simd_level {
    const char *name;
    unsigned flags;
} simd_levels[SIMD_LEVELS];

// Sets up ops for a level. False, said once, if this machine has not got it.
bool simd_level_ops(int i, struct cpu_ops *ops);

#endif
