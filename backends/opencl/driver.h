// SPDX-License-Identifier: Apache-2.0
// OpenCL itself, as this backend has it: its headers, the library's functions,
// its codes.
#ifndef HR_OPENCL_DRIVER_H
#define HR_OPENCL_DRIVER_H

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS  // clCreateCommandQueue
#include <CL/cl.h>
// After the header that chooses the version
#include <CL/cl_ext.h>

#include "hal/engine/engine.h"

// ---- loader.c --------------------------------------------------------------

// clang-format off
#define OCL_ENTRY_POINTS(X) \
    X(clGetPlatformIDs) \
    X(clGetPlatformInfo) \
    X(clGetDeviceIDs) \
    X(clGetDeviceInfo) \
    X(clCreateContext) \
    X(clReleaseContext) \
    X(clCreateCommandQueue) \
    X(clReleaseCommandQueue) \
    X(clCreateBuffer) \
    X(clReleaseMemObject) \
    X(clCreateProgramWithSource) \
    X(clCreateProgramWithBinary) \
    X(clBuildProgram) \
    X(clReleaseProgram) \
    X(clGetProgramInfo) \
    X(clGetProgramBuildInfo) \
    X(clCreateKernel) \
    X(clReleaseKernel) \
    X(clSetKernelArg) \
    X(clEnqueueNDRangeKernel) \
    X(clEnqueueWriteBuffer) \
    X(clEnqueueReadBuffer) \
    X(clEnqueueMapBuffer) \
    X(clEnqueueUnmapMemObject) \
    X(clReleaseEvent) \
    X(clSetEventCallback) \
    X(clGetEventInfo) \
    X(clGetEventProfilingInfo) \
    X(clFlush) \
    X(clFinish)
// A library may lack these.
#define OCL_OPTIONAL_ENTRY_POINTS(X) \
    X(clEnqueueCopyImageToBuffer) \
    X(clGetExtensionFunctionAddressForPlatform)
// clang-format on

struct ocl_api {
#define X(name) __typeof__(&name) name;
    OCL_ENTRY_POINTS(X)
    OCL_OPTIONAL_ENTRY_POINTS(X)
#undef X
};

// HR_ENODEVICE or HR_EFORK with the reason. HEADRACE_OPENCL_LIBRARY names
// another library than libOpenCL.so.1.
enum hr_status ocl_api_load(struct ocl_api *api);
// HR_EFORK if a parent of this process has used OpenCL.
enum hr_status ocl_api_check(void);

// ---- error.c ---------------------------------------------------------------

// The first thing that went wrong. why == 0: nothing.
struct ocl_fault {
    unsigned why;
    char text[96];
};

// Returns true and notes the fault, unless code is CL_SUCCESS.
bool ocl_failed(struct ocl_fault *fault, cl_int code, const char *call);

#endif
