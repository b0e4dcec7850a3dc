// SPDX-License-Identifier: Apache-2.0
// Which kernels suit a device, and who decodes entropy coding. Nothing but the
// kernels that are used is compiled: for the host's own processor that takes
// longer than all else of opening.
#include <stdlib.h>
#include <string.h>

#include "backends/opencl/opencl.h"

static const char *const names[] = {
    [OCL_UNKNOWN] = "unknown",
    [OCL_STAGED] = "staged",
    [OCL_GPU] = "gpu",
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
    for (int v = OCL_STAGED; v <= OCL_GPU; v++)
        if (!strcmp(name, names[v]))
            *wanted = (enum ocl_variant)v;
    if (*wanted)
        return HR_OK;
    return hr__fail(HR_EINVAL,
                    "HEADRACE_OPENCL_VARIANT is '%.32s', not staged or gpu",
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

enum ocl_variant ocl_variant_of(cl_device_type type)
{
    return type & CL_DEVICE_TYPE_GPU ? OCL_GPU : OCL_STAGED;
}

// On the host's own processor the host's decoder is faster than the same work
// as kernels, and their compilation alone takes longer than opening may.
void ocl_variant_settle(struct ocl *o)
{
    bool software = o->facts.type & CL_DEVICE_TYPE_CPU;

    if (!o->variant)
        o->variant = ocl_variant_of(o->facts.type);
    o->asks = o->variant == OCL_GPU;
    if (!o->who)
        o->who = software ? OCL_HOST : OCL_SHARED;
    o->entropy = o->who != OCL_HOST;
}
