// SPDX-License-Identifier: Apache-2.0
// For tests that launch kernels/ themselves: OpenCL, of the backend only the
// table of calls, and its devices.
#ifndef KERNEL_ENV_H
#define KERNEL_ENV_H

#include <stdbool.h>

#include "backends/opencl/opencl.h"
#include "kernels/plan.h"

struct kernel_device {
    cl_platform_id platform;
    cl_device_id device;
    char platform_name[128];
};

// False without a libOpenCL.
bool kernel_cl_load(struct ocl_api *cl);
// At most max devices of all platforms.
int kernel_devices(const struct ocl_api *cl, struct kernel_device *devices,
                   int max);

#endif
