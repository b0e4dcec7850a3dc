// SPDX-License-Identifier: Apache-2.0
// The one table that names the backends, in order of preference.
#include <stdio.h>
#include <string.h>

#include "hal/device/device.h"

#ifndef HR_HAVE_VAAPI
#define HR_HAVE_VAAPI 0
#endif
#ifndef HR_HAVE_OPENCL
#define HR_HAVE_OPENCL 0
#endif

#if HR_HAVE_VAAPI
extern const struct hr__backend hr__backend_vaapi;
#endif
#if HR_HAVE_OPENCL
extern const struct hr__backend hr__backend_opencl;
#endif
extern const struct hr__backend hr__backend_cpu;

enum { MAX_BACKENDS = 8 };

// Tests add scripted engines in front; the CPU stays last.
static const struct hr__backend *backends[MAX_BACKENDS] = {
#if HR_HAVE_VAAPI
    &hr__backend_vaapi,
#endif
#if HR_HAVE_OPENCL
    &hr__backend_opencl,
#endif
    &hr__backend_cpu,
};

const struct hr__backend *const *hr__backends(int *n)
{
    for (*n = 0; *n < MAX_BACKENDS && backends[*n]; ++*n)
        ;
    return backends;
}

const struct hr__backend *hr__backend_host(void)
{
    return &hr__backend_cpu;
}

void hr__registry_add(const struct hr__backend *backend)
{
    int n;

    hr__backends(&n);
    memmove(backends + 1, backends, sizeof(*backends) * (size_t)n);
    backends[0] = backend;
}

const struct hr__backend *hr__backend_find(const char *name, size_t len)
{
    char all[16 * MAX_BACKENDS] = "";

    for (int i = 0; i < MAX_BACKENDS && backends[i]; i++) {
        size_t used = strlen(all);

        if (strlen(backends[i]->name) == len &&
            !strncmp(backends[i]->name, name, len))
            return backends[i];
        snprintf(all + used, sizeof(all) - used, "%s%s", i ? ", " : "",
                 backends[i]->name);
    }
    hr__fail(HR_ENODEVICE, "this build has no such backend; it has: %s", all);
    return NULL;
}

const char *hr__backend_absent(int i)
{
    static const struct {
        const char *name;
        bool have;
    } possible[] = {
        {"vaapi", HR_HAVE_VAAPI},
        {"opencl", HR_HAVE_OPENCL},
    };

    for (size_t k = 0; k < sizeof(possible) / sizeof(*possible); k++)
        if (!possible[k].have && i-- == 0)
            return possible[k].name;
    return NULL;
}
