// SPDX-License-Identifier: Apache-2.0
// The inverse DCT: C against SIMD.
#ifndef TESTS_SIMD_RECONSTRUCT_H
#define TESTS_SIMD_RECONSTRUCT_H

#include "cpu_fallback/cpu_ops.h"

// Rows of 1 to 9 blocks of every kind, times tables of every kind; how many
// came out unlike the readable C, or were written where they may not be.
// Reading too far is a fault.
int test_simd_reconstruct(const struct cpu_ops *ops, int cases);

#endif
