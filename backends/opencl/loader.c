// SPDX-License-Identifier: Apache-2.0
// libOpenCL, found at run time on first use. Every device gets a table of its
// own. The library is never unloaded: drivers do not survive that.
#include <dlfcn.h>

#include "backends/opencl/opencl.h"

// The process that has used OpenCL. A driver that was used before fork() hangs
// the child, on every implementation tried; so the child gets an error instead.
static _Atomic pid_t user;

static const struct hr__entry entries[] = {
#define X(name) {#name, offsetof(struct ocl_api, name), false},
    OCL_ENTRY_POINTS(X)
#undef X
#define X(name) {#name, offsetof(struct ocl_api, name), true},
        OCL_OPTIONAL_ENTRY_POINTS(X)
#undef X
};

enum hr_status ocl_api_check(void)
{
    return hr__fork_check(&user, false, "OpenCL");
}

enum hr_status ocl_api_load(struct ocl_api *api)
{
    const char *missing;
    void *library;

    if (ocl_api_check())
        return HR_EFORK;
    library = hr__library_open(HR__LIBRARY_OPENCL);
    if (!library)
        return hr__fail(HR_ENODEVICE, "no OpenCL loader: %s", dlerror());
    hr__fork_check(&user, true, "OpenCL");
    missing = hr__library_fill(library, api, entries,
                               sizeof(entries) / sizeof(*entries));
    return missing
               ? hr__fail(HR_ENODEVICE, "the OpenCL library has no %s", missing)
               : HR_OK;
}
