// SPDX-License-Identifier: Apache-2.0
#if HR_HAVE_OPENCL
#include "kernel_env.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

extern const char ocl_kernels_source[];

// Not as the engine does it: a simulator may have been loaded before us.
static bool load(struct ocl_api *cl)
{
    void *library = dlopen(NULL, RTLD_NOW);

    if (!dlsym(library, "clGetPlatformIDs"))
        library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
#define X(name)                                                 \
    if (!(cl->name = (__typeof__(&name))dlsym(library, #name))) \
        return false;
    OCL_ENTRY_POINTS(X)
#undef X
    return true;
}

static bool find(const struct ocl_api *cl, cl_platform_id *platform,
                 cl_device_id *device)
{
    const char *part = getenv("HEADRACE_TEST_OPENCL");
    cl_platform_id all[16];
    cl_uint n = 0, num;
    char name[128];

    if (cl->clGetPlatformIDs(16, all, &n))
        return false;
    for (cl_uint i = 0; i < n && i < 16; i++) {
        *platform = all[i];
        if (!cl->clGetPlatformInfo(all[i], CL_PLATFORM_NAME, sizeof(name), name,
                                   NULL) &&
            strstr(name, part ? part : "Portable Computing Language") &&
            !cl->clGetDeviceIDs(all[i], CL_DEVICE_TYPE_ALL, 1, device, &num) &&
            num)
            return true;
    }
    return false;
}

static cl_int build(struct kernel_env *env, cl_device_id device,
                    const char *options, int num_kernels)
{
    static const char *const names[] = {
#define X(name, text, stage) text,
        HR__KERNELS(X)
#undef X
    };
    const char *source = ocl_kernels_source;
    static char log[4096];
    cl_int err;

    env->program = env->cl.clCreateProgramWithSource(env->context, 1, &source,
                                                     NULL, &err);
    if (err)
        return err;
    err = env->cl.clBuildProgram(env->program, 1, &device, options, NULL, NULL);
    if (err) {
        env->cl.clGetProgramBuildInfo(env->program, device,
                                      CL_PROGRAM_BUILD_LOG, sizeof(log) - 1,
                                      log, NULL);
        printf("%s\n", log);
    }
    for (int i = 0; !err && i < num_kernels; i++)
        env->kernels[i] = env->cl.clCreateKernel(env->program, names[i], &err);
    return err;
}

enum kernel_opened kernel_open(struct kernel_env *env, const char *options,
                               int num_kernels)
{
    cl_context_properties props[] = {CL_CONTEXT_PLATFORM, 0, 0};
    cl_platform_id platform;
    cl_device_id device;
    cl_int err;

    *env = (struct kernel_env){.program = NULL};
    if (!load(&env->cl) || !find(&env->cl, &platform, &device))
        return KERNEL_ABSENT;
    props[1] = (cl_context_properties)platform;
    env->context = env->cl.clCreateContext(props, 1, &device, NULL, NULL, &err);
    if (!err)
        env->queue = env->cl.clCreateCommandQueue(env->context, device, 0,
                                                  &err);
    return err || build(env, device, options, num_kernels) ? KERNEL_FAILED
                                                           : KERNEL_OPEN;
}

void kernel_close(struct kernel_env *env)
{
    for (int i = 0; i < HR__NUM_KERNELS; i++)
        if (env->kernels[i])
            env->cl.clReleaseKernel(env->kernels[i]);
    env->cl.clReleaseProgram(env->program);
    env->cl.clReleaseCommandQueue(env->queue);
    env->cl.clReleaseContext(env->context);
}

cl_int kernel_launch(struct kernel_env *env, int kernel, size_t groups,
                     cl_uint list, const cl_mem buffers[4])
{
    // The kernels of stage entropy know the flag, in out.
    cl_uint num = kernel <= HR__KERNEL_DC ? 4 : 3;
    size_t local[2] = {HR__GROUP, 1}, global[2];
    cl_kernel k = env->kernels[kernel];
    cl_int err = env->cl.clSetKernelArg(k, HR__ARG_LIST, sizeof(list), &list);

    err |= env->cl.clSetKernelArg(k, HR__ARG_PLAN, sizeof(cl_mem), &buffers[0]);
    for (cl_uint i = 1; i < num; i++)
        err |= env->cl.clSetKernelArg(k, HR__ARG_FIRST_BUFFER + i - 1,
                                      sizeof(cl_mem), &buffers[i]);
    global[1] = hr__kernel_rows(groups, &global[0]);
    global[0] *= HR__GROUP;
    return err | env->cl.clEnqueueNDRangeKernel(env->queue, k, 2, NULL, global,
                                                local, 0, NULL, NULL);
}
#endif
