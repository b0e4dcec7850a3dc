// SPDX-License-Identifier: Apache-2.0
// Times of kernels/ by themselves.
#ifndef KERNEL_BENCH_H
#define KERNEL_BENCH_H

#include "kernel_picture.h"

// Prints microseconds per picture and kernel for each kind of transform, over
// the first `most` JPEG files of the folder; compares what came out with the
// CPU device.
void kernel_bench(struct kernel_env *env, hr_device cpu, const char *folder,
                  int most);

#endif
