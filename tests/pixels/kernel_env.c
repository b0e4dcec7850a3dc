// SPDX-License-Identifier: Apache-2.0
#if HR_HAVE_OPENCL
#include "kernel_env.h"

#include <dlfcn.h>

// Not as the engine does it: a simulator may have been loaded before us.
bool kernel_cl_load(struct ocl_api *cl)
{
    void *library = dlopen(NULL, RTLD_NOW);

    if (!dlsym(library, "clGetPlatformIDs"))
        library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    memset(cl, 0, sizeof(*cl));
#define X(name)                                                 \
    if (!(cl->name = (__typeof__(&name))dlsym(library, #name))) \
        return false;
    OCL_ENTRY_POINTS(X)
#undef X
    return true;
}

int kernel_devices(const struct ocl_api *cl, struct kernel_device *devices,
                   int max)
{
    cl_platform_id platforms[16];
    cl_uint num_platforms = 0, num;
    int n = 0;

    if (cl->clGetPlatformIDs(16, platforms, &num_platforms))
        return 0;
    for (cl_uint i = 0; i < num_platforms && i < 16 && n < max; i++) {
        struct kernel_device *d = &devices[n];

        if (cl->clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &d->device,
                               &num) ||
            !num)
            continue;
        d->platform = platforms[i];
        cl->clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME,
                              sizeof(d->platform_name), d->platform_name, NULL);
        n++;
    }
    return n;
}
#endif
