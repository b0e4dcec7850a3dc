// SPDX-License-Identifier: Apache-2.0
// Lists the OpenCL devices, and finds the one that a name means.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/opencl/opencl.h"

enum { MAX_PLATFORMS = 8 };

// ---- Finding ---------------------------------------------------------------

static void get_texts(const struct ocl_api *api, struct ocl_facts *f)
{
    char all[512];
#define GET(of, id, what, to)                                               \
    do {                                                                    \
        memset(all, 0, sizeof(all));                                        \
        api->clGet##of##Info(f->id, CL_##what, sizeof(all) - 1, all, NULL); \
        snprintf(f->to, OCL_TEXT, "%.*s", OCL_TEXT - 1, all);               \
    } while (0)
    GET(Platform, platform_id, PLATFORM_NAME, platform);
    GET(Platform, platform_id, PLATFORM_VERSION, platform_version);
    GET(Device, device, DEVICE_VENDOR, vendor);
    GET(Device, device, DEVICE_NAME, name);
    GET(Device, device, DRIVER_VERSION, driver);
#undef GET
}

static bool describe(const struct ocl_api *api, struct ocl_facts *f)
{
    cl_bool available = CL_FALSE, compiler = CL_FALSE, little = CL_FALSE;
    cl_bool unified = CL_FALSE;
    cl_device_fp_config doubles = 0;
    cl_int err = 0;
#define GET(what, to)                                                    \
    err |= api->clGetDeviceInfo(f->device, CL_DEVICE_##what, sizeof(to), \
                                &(to), NULL)
    GET(TYPE, f->type);
    GET(MAX_MEM_ALLOC_SIZE, f->max_alloc);
    GET(GLOBAL_MEM_SIZE, f->global);
    GET(AVAILABLE, available);
    GET(COMPILER_AVAILABLE, compiler);
    GET(ENDIAN_LITTLE, little);
    GET(HOST_UNIFIED_MEMORY, unified);
#undef GET
    // (A driver need not know of what only some samples need.)
    if (api->clGetDeviceInfo(f->device, CL_DEVICE_MAX_WORK_GROUP_SIZE,
                             sizeof(f->items), &f->items, NULL))
        f->items = HR__GROUP;
    f->doubles = !api->clGetDeviceInfo(f->device, CL_DEVICE_DOUBLE_FP_CONFIG,
                                       sizeof(doubles), &doubles, NULL) &&
                 doubles;
    get_texts(api, f);
    f->unified = unified;
    return !err && available && compiler && little;
}

int ocl_find_devices(const struct ocl_api *api, struct ocl_facts *facts)
{
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint num_platforms = 0;
    int n = 0;

    if (api->clGetPlatformIDs(MAX_PLATFORMS, platforms, &num_platforms))
        return 0;
    for (cl_uint p = 0; p < num_platforms && p < MAX_PLATFORMS; p++) {
        cl_device_id ids[OCL_MAX_DEVICES];
        cl_uint num = 0;

        if (api->clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL,
                                OCL_MAX_DEVICES, ids, &num))
            continue;
        for (cl_uint i = 0;
             i < num && i < OCL_MAX_DEVICES && n < OCL_MAX_DEVICES; i++) {
            facts[n] = (struct ocl_facts){.platform_id = platforms[p],
                                          .device = ids[i],
                                          .index = n};
            facts[n].usable = describe(api, &facts[n]);
            n++;
        }
    }
    return n;
}

// ---- Choosing --------------------------------------------------------------

// Says whether any of the device's names has this one: "pocl" stands in the
// version of its platform only.
static bool is_called(const struct ocl_facts *f, const char *name)
{
    return strcasestr(f->platform, name) ||
           strcasestr(f->platform_version, name) ||
           strcasestr(f->vendor, name) || strcasestr(f->name, name) ||
           strcasestr(f->driver, name);
}

// Lists whole names, and how many more there are: hr__fail() has no room for
// all.
static void list_names(const struct ocl_facts *facts, int n, char *names,
                       size_t size)
{
    size_t used = 0;

    for (int i = 0; i < n; i++) {
        const char *rest = strlen(facts[i].name) > 64 ? "..." : "";
        size_t room = i < n - 1 ? sizeof(" and 99 more") : 1;
        char one[96];
        int length = snprintf(one, sizeof(one), "%s%d = %.64s%s", i ? ", " : "",
                              i, facts[i].name, rest);

        if (used + (size_t)length + room > size) {
            snprintf(names + used, size - used, " and %d more", n - i);
            break;
        }
        memcpy(names + used, one, (size_t)length + 1);
        used += (size_t)length;
    }
}

static enum hr_status none_called(const struct ocl_facts *facts, int n,
                                  const char *which)
{
    char names[116];

    list_names(facts, n, names, sizeof(names));
    return hr__fail(HR_ENODEVICE, "no OpenCL device '%.32s'; there are: %s",
                    which, names);
}

// Ranks GPUs before accelerators before CPUs; then devices that the media
// engine in front shares surfaces with; then the first.
static int rank(const struct ocl_facts *f)
{
    int type = f->type & CL_DEVICE_TYPE_GPU           ? 3
               : f->type & CL_DEVICE_TYPE_ACCELERATOR ? 2
                                                      : 1;

    return 2 * type + f->shares;
}

enum hr_status ocl_choose(const struct ocl_facts *facts, int n,
                          const char *which, int *chosen)
{
    char *end = NULL;
    long index = -1;

    if (!n)
        return hr__fail(HR_ENODEVICE, "no OpenCL driver with a device is "
                                      "installed");
    *chosen = -1;
    if (*which)
        index = strtol(which, &end, 10);
    for (int i = 0; i < n; i++) {
        bool wanted = !*which || (!*end && index == i) ||
                      (*end && is_called(&facts[i], which));

        if (wanted &&
            (*chosen < 0 ||
             (facts[i].usable && (!facts[*chosen].usable ||
                                  rank(&facts[i]) > rank(&facts[*chosen])))))
            *chosen = i;
    }
    if (*chosen < 0)
        return none_called(facts, n, which);
    if (!facts[*chosen].usable)
        return hr__fail(HR_ENODEVICE,
                        "OpenCL device %d (%.64s) is not "
                        "available, or has no compiler",
                        *chosen, facts[*chosen].name);
    return HR_OK;
}

enum hr_status ocl_find(struct ocl *o)
{
    struct ocl_facts *facts = hr__alloc(NULL, OCL_MAX_DEVICES * sizeof(*facts));
    enum hr_status status;
    int n, chosen;

    if (!facts)
        return hr__fail(HR_ENOMEM, "out of memory");
    n = ocl_find_devices(&o->api, facts);
    ocl_surface_find(o, facts, n);
    if (!(status = ocl_choose(facts, n, o->which, &chosen)))
        o->facts = facts[chosen];
    hr__free(facts);
    return status;
}
