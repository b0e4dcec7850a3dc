// SPDX-License-Identifier: Apache-2.0
// Packed lines: C against SIMD, and their times.
#ifndef TESTS_SIMD_PACKED_H
#define TESTS_SIMD_PACKED_H

#include "cpu_fallback/cpu_ops.h"

// Lines of 1 to 70 blocks of every kind, and any part of them back again; how
// many came out unlike the readable C, or were written where they may not be.
// Reading too far is a fault.
int test_simd_packed(const struct cpu_ops *ops, int cases);

// 1000 blocks: a line's thousands of ns are ns per block.
void test_simd_packed_bench(void);

#endif
