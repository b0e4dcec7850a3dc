// SPDX-License-Identifier: Apache-2.0
// Times of the pixel kernels, each instruction set beside the readable C.
#ifndef TESTS_SIMD_BENCH_H
#define TESTS_SIMD_BENCH_H

// Prints one line per kernel and picture size: the time for a whole picture,
// the best of many, and how many times faster than C that is.
void test_simd_bench(void);

#endif
