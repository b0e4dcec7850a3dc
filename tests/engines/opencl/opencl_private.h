// SPDX-License-Identifier: Apache-2.0
// The OpenCL backend's state of an opened device, for tests to look at.
#ifndef HEADRACE_TESTS_OPENCL_PRIVATE_H
#define HEADRACE_TESTS_OPENCL_PRIVATE_H

#include "backends/opencl/opencl.h"
#include "hal/job/work.h"

static inline struct ocl *opencl_private(hr_device dev)
{
    return ocl_of(((struct hr__device *)(uintptr_t)dev)->engines[0]);
}

#endif
