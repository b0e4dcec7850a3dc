// SPDX-License-Identifier: Apache-2.0
// Which of the devices a name means.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/opencl/opencl.h"

static bool contains(const char *text, const char *part)
{
    size_t n = strlen(part);

    for (; *text; text++) {
        size_t i = 0;

        while (i < n && tolower((unsigned char)text[i]) ==
                            tolower((unsigned char)part[i]))
            i++;
        if (i == n)
            return true;
    }
    return false;
}

// By any of its names: "pocl" stands in the version of its platform only.
static bool is_called(const struct ocl_facts *f, const char *name)
{
    return contains(f->platform, name) || contains(f->platform_version, name) ||
           contains(f->vendor, name) || contains(f->name, name) ||
           contains(f->driver, name);
}

// Whole names, and how many have no room: what hr__fail() can say behind the
// name that was asked for is not much more.
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

// GPUs before accelerators before CPUs; then those that the media engine in
// front shares surfaces with; then the first.
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
