// SPDX-License-Identifier: Apache-2.0
// OpenCL's codes: their names, and what they mean here. They are translated
// nowhere else.
#include <stdio.h>

#include "backends/opencl/opencl.h"

// Codes that some driver has returned; others are printed as numbers. LOST:
// nothing made in this context will work again.
static const struct {
    cl_int code;
    const char *name;
    enum hr_why why;
} codes[] = {
#define X(name, why)                         \
    {                                        \
        CL_##name, "CL_" #name, HR_WHY_##why \
    }
    X(DEVICE_NOT_FOUND, LOST),
    X(DEVICE_NOT_AVAILABLE, LOST),
    X(COMPILER_NOT_AVAILABLE, FAILED),
    X(MEM_OBJECT_ALLOCATION_FAILURE, MEMORY),
    X(OUT_OF_RESOURCES, LOST),
    X(OUT_OF_HOST_MEMORY, MEMORY),
    X(BUILD_PROGRAM_FAILURE, FAILED),
    X(MAP_FAILURE, FAILED),
    X(EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, FAILED),
    X(INVALID_VALUE, FAILED),
    X(INVALID_DEVICE, LOST),
    X(INVALID_CONTEXT, LOST),
    X(INVALID_COMMAND_QUEUE, LOST),
    X(INVALID_MEM_OBJECT, FAILED),
    X(INVALID_BINARY, FAILED),
    X(INVALID_BUILD_OPTIONS, FAILED),
    X(INVALID_PROGRAM, FAILED),
    X(INVALID_PROGRAM_EXECUTABLE, FAILED),
    X(INVALID_KERNEL_NAME, FAILED),
    X(INVALID_KERNEL, FAILED),
    X(INVALID_ARG_INDEX, FAILED),
    X(INVALID_ARG_VALUE, FAILED),
    X(INVALID_ARG_SIZE, FAILED),
    X(INVALID_KERNEL_ARGS, FAILED),
    X(INVALID_WORK_DIMENSION, FAILED),
    X(INVALID_WORK_GROUP_SIZE, FAILED),
    X(INVALID_WORK_ITEM_SIZE, FAILED),
    X(INVALID_EVENT_WAIT_LIST, FAILED),
    X(INVALID_EVENT, FAILED),
    X(INVALID_OPERATION, FAILED),
    X(INVALID_BUFFER_SIZE, MEMORY),
    X(INVALID_GLOBAL_WORK_SIZE, FAILED),
    X(PLATFORM_NOT_FOUND_KHR, FAILED),
#undef X
};

bool ocl_failed(struct ocl_fault *fault, cl_int code, const char *call)
{
    if (code == CL_SUCCESS)
        return false;
    // The first failure counts; the others follow from it.
    if (fault->why)
        return true;
    fault->why = HR_WHY_FAILED;
    snprintf(fault->text, sizeof(fault->text), "%s: OpenCL error %d", call,
             (int)code);
    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
        if (codes[i].code == code) {
            fault->why |= codes[i].why;
            snprintf(fault->text, sizeof(fault->text), "%s: %s", call,
                     codes[i].name);
        }
    return true;
}
