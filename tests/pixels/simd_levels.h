// SPDX-License-Identifier: Apache-2.0
// The instruction sets of the CPU engine.
#ifndef HEADRACE_TESTS_SIMD_LEVELS_H
#define HEADRACE_TESTS_SIMD_LEVELS_H

#include "cpu_fallback/cpu_ops.h"

// Sets up ops for cpu_levels[i]. False if this machine has not got it, which is
// said once where another one of its kind may have it.
bool simd_level_ops(int i, struct cpu_ops *ops);

#endif
