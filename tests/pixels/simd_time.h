// SPDX-License-Identifier: Apache-2.0
// Times of kernels, each instruction set beside the readable C.
#ifndef HEADRACE_TESTS_SIMD_TIME_H
#define HEADRACE_TESTS_SIMD_TIME_H

#include "cpu_fallback/cpu_ops.h"

// use() gives bench the kernels that run() shall call. Prints one line: the
// best time of C, and of every level that this machine has, and how many times
// faster than C that is.
void simd_time(const char *name, void (*run)(void *bench),
               void (*use)(void *bench, const struct cpu_ops *ops),
               void *bench);
// Of what C does not do at all.
void simd_time_without_c(const char *name, void (*run)(void *bench),
                         void (*use)(void *bench, const struct cpu_ops *ops),
                         void *bench);

#endif
