// SPDX-License-Identifier: Apache-2.0
// The kernels between planes and pixels: C against SIMD.
#ifndef TESTS_SIMD_COLOR_H
#define TESTS_SIMD_COLOR_H

#include "cpu_fallback/cpu_ops.h"

// Random and worst-case rows through every kernel of the stage color, `cases`
// of each; how many came out unlike the readable C, read or wrote what they
// may not. Reading too far is a fault.
int test_simd_color(const struct cpu_ops *ops, int cases);

// All chroma values with some luma: 2^16 x 6 pixels. How many differ from the
// formula in 64-bit arithmetic.
int test_simd_ycc(const struct cpu_ops *ops);

#endif
