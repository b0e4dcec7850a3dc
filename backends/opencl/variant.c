// SPDX-License-Identifier: Apache-2.0
// Which kernels suit a device. Only a measurement can tell, so the variants are
// timed once, and the fastest one is kept with the program; where they are
// equal, a GPU gets the form for GPUs. On the host's own processor that is not
// worth it, for compiling one more kernel takes longer than such a device may
// take to open: there it is done on request only, and nothing else is compiled.
#include <stdlib.h>
#include <string.h>

#include "backends/opencl/opencl.h"

static const char *const names[] = {
    [OCL_UNKNOWN] = "unknown", [OCL_STAGED] = "staged", [OCL_FUSED] = "fused",
    [OCL_GPU] = "gpu",         [OCL_TIMED] = "timed",
};

const char *ocl_variant_name(enum ocl_variant variant)
{
    return names[variant];
}

enum hr_status ocl_variant_wanted(enum ocl_variant *wanted)
{
    const char *name = secure_getenv("HEADRACE_OPENCL_VARIANT");

    *wanted = OCL_UNKNOWN;
    if (!name || !*name)
        return HR_OK;
    for (int v = OCL_STAGED; v <= OCL_TIMED; v++)
        if (!strcmp(name, names[v]))
            *wanted = (enum ocl_variant)v;
    if (*wanted)
        return HR_OK;
    return hr__fail(HR_EINVAL,
                    "HEADRACE_OPENCL_VARIANT is '%.32s', not staged, fused, "
                    "gpu or timed",
                    name);
}

enum hr_status ocl_entropy_wanted(enum hr_where where, enum ocl_who *wanted)
{
    static const char *const who[] = {
        [OCL_HOST] = "host",
        [OCL_DEVICE] = "device",
        [OCL_FASTER] = "measured",
        [OCL_SHARED] = "shared",
    };
    const char *name = secure_getenv("HEADRACE_OPENCL_ENTROPY");

    *wanted = where == HR_WHERE_HOST     ? OCL_HOST
              : where == HR_WHERE_DEVICE ? OCL_DEVICE
                                         : OCL_NOBODY;
    if (*wanted || !name || !*name)
        return HR_OK;
    for (int i = OCL_HOST; i <= OCL_SHARED; i++)
        if (!strcmp(name, who[i]))
            *wanted = (enum ocl_who)i;
    if (*wanted)
        return HR_OK;
    return hr__fail(HR_EINVAL,
                    "HEADRACE_OPENCL_ENTROPY is '%.32s', not host, device, "
                    "measured or shared",
                    name);
}

// On the host's own processor the host's decoder is faster than the same work
// as kernels, and their compilation alone takes longer than opening may.
void ocl_variant_settle(struct ocl *o)
{
    bool software = o->facts.type & CL_DEVICE_TYPE_CPU;

    if (!o->wish)
        o->wish = software ? OCL_STAGED : OCL_TIMED;
    if (!o->who)
        o->who = software ? OCL_HOST : OCL_SHARED;
    o->entropy = o->who != OCL_HOST;
}

enum ocl_variant ocl_variant_fastest(cl_device_type type,
                                     const int64_t ns[OCL_TIMED])
{
    enum ocl_variant best = type & CL_DEVICE_TYPE_GPU ? OCL_GPU : OCL_STAGED;

    for (enum ocl_variant v = OCL_STAGED; v < OCL_TIMED; v++)
        if (ns[v] < ns[best])
            best = v;
    return best;
}

static bool time_all(struct ocl *o, struct ocl_batch *batch,
                     struct ocl_fault *fault)
{
    int64_t ns[OCL_TIMED];

    if (!ocl_time_variants(o, batch, ns, fault))
        return false;
    o->timed = ocl_variant_fastest(o->facts.type, ns);
    o->timed_now = true;
    hr__guard_log(&o->guard, HR_LOG_INFO,
                  "a batch takes %d us staged, %d us fused, %d us in the form "
                  "for GPUs: %s it is",
                  (int)(ns[OCL_STAGED] / 1000), (int)(ns[OCL_FUSED] / 1000),
                  (int)(ns[OCL_GPU] / 1000), names[o->timed]);
    return true;
}

bool ocl_variant_choose(struct ocl *o, struct ocl_batch *batch,
                        struct ocl_fault *fault)
{
    o->timed_now = false;
    if (o->wish == OCL_TIMED && !o->timed && !time_all(o, batch, fault))
        return false;
    ocl_variant_use(o, o->wish == OCL_TIMED ? o->timed : o->wish);
    return true;
}
