// SPDX-License-Identifier: Apache-2.0
// Packed lines: C against SIMD.
#ifndef TESTS_SIMD_PACKED_H
#define TESTS_SIMD_PACKED_H

#include "cpu_fallback/cpu_ops.h"

// Lines of 1 to 70 blocks of every kind, and any part of them back again; how
// many came out unlike the readable C, or were written where they may not be.
// Reading too far is a fault.
int test_simd_packed(const struct cpu_ops *ops, int cases);

#endif
