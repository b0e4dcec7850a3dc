// SPDX-License-Identifier: Apache-2.0
// Chooses the kernels that suit a device, and where entropy coding is decoded.
// Only kernels that are used are compiled: on the host's own processor that
// takes longer than all else of opening.
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

static enum hr_status where_of(const char *variable, enum hr_where *wanted)
{
    const char *name = secure_getenv(variable);

    if (!name || !*name)
        return HR_OK;
    if (!strcmp(name, "host"))
        *wanted = HR_WHERE_HOST;
    else if (!strcmp(name, "device"))
        *wanted = HR_WHERE_DEVICE;
    else
        return hr__fail(HR_EINVAL, "%s is '%.32s', not host or device",
                        variable, name);
    return HR_OK;
}

enum hr_status ocl_entropy_wanted(enum hr_where where, enum hr_where *wanted)
{
    *wanted = where;
    return where ? HR_OK : where_of("HEADRACE_OPENCL_ENTROPY", wanted);
}

enum hr_status ocl_augment_wanted(enum hr_where *wanted)
{
    *wanted = HR_WHERE_DEFAULT;
    return where_of("HEADRACE_OPENCL_AUGMENT", wanted);
}

enum ocl_variant ocl_variant_of(cl_device_type type)
{
    return type & CL_DEVICE_TYPE_GPU ? OCL_GPU : OCL_STAGED;
}

// A GPU with memory of its own decodes entropy coding faster than the host's
// threads, and leaves them to the program. On the host's own processor the
// host's decoder is faster than the same work as kernels, and their compilation
// alone takes longer than opening may; the same is true of stage augment.
// Behind a media engine, which has most of the files, the host decodes the
// rest.
void ocl_variant_settle(struct ocl *o)
{
    bool discrete = o->facts.type & CL_DEVICE_TYPE_GPU && !o->facts.unified;

    if (!o->variant)
        o->variant = ocl_variant_of(o->facts.type);
    o->asks = o->variant == OCL_GPU;
    o->augment = o->codes ? o->codes == HR_WHERE_DEVICE
                          : o->facts.type & CL_DEVICE_TYPE_GPU;
    o->entropy = o->where ? o->where == HR_WHERE_DEVICE : discrete && o->first;
}
