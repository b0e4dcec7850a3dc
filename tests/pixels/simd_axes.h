// SPDX-License-Identifier: Apache-2.0
// Axes of a resample, and the random numbers that they are made from.
#ifndef TESTS_SIMD_AXES_H
#define TESTS_SIMD_AXES_H

#include "cpu_fallback/cpu_ops.h"

void test_rnd_seed(uint64_t seed);
uint32_t test_rnd(void);
int test_rnd_int(int low, int high);  // both included

struct axis {
    struct cpu_axis a;
    int32_t *lo, *n, *w;
};

enum {
    TEST_BOX,
    TEST_BILINEAR,
    TEST_HAMMING,
    TEST_BICUBIC,
    TEST_LANCZOS,
    TEST_NEAREST,
};

// The weights Pillow would make. Pair each with test_axis_finish().
void test_axis_filter(struct axis *x, int in, int out, int filter);
void test_axis_finish(struct axis *x);

// Any filter, identity, or numbers without sense that the contract allows;
// perhaps mirrored. Writes into text what it made.
void test_axis_random(struct axis *x, char *text, size_t size);

#endif
