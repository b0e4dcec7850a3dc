// SPDX-License-Identifier: Apache-2.0
// For tests that launch kernels/ themselves, where an engine would be in the
// way: a device, its program, and launches.
#ifndef KERNEL_ENV_H
#define KERNEL_ENV_H

#include "backends/opencl/opencl.h"
#include "kernels/plan.h"

struct kernel_env {
    struct ocl_api cl;  // of the backend only this table of calls
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_kernel kernels[HR__NUM_KERNELS];
};

enum kernel_opened { KERNEL_OPEN, KERNEL_ABSENT, KERNEL_FAILED };

// Opens PoCL, or the platform of which HEADRACE_TEST_OPENCL has a part of the
// name, and builds the first num_kernels kernels.
enum kernel_opened kernel_open(struct kernel_env *env, const char *options,
                               int num_kernels);
void kernel_close(struct kernel_env *env);
// The buffers are those of the plan, of in, work and out.
cl_int kernel_launch(struct kernel_env *env, int kernel, size_t groups,
                     cl_uint list, const cl_mem buffers[4]);

#endif
