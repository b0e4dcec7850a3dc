// SPDX-License-Identifier: Apache-2.0
// libva and libva-drm, found at run time on first use. Every device gets a
// table of its own. The libraries are never unloaded: drivers do not survive
// that.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "backends/vaapi/vaapi.h"

// The process that has used libva: drivers have file descriptors and threads,
// which a forked child cannot use.
static _Atomic pid_t user;

static const struct {
    const char *name;
    size_t at;
    bool optional;
} entries[] = {
#define X(name) {#name, offsetof(struct va_api, name), false},
    VA_ENTRY_POINTS(X)
#undef X
#define X(name) {#name, offsetof(struct va_api, name), true},
        VA_OPTIONAL_ENTRY_POINTS(X)
#undef X
};

enum hr_status va_api_check(void)
{
    return hr__fork_check(&user, false, "VA-API");
}

static void *load(const char *variable, const char *name)
{
    const char *other = secure_getenv(variable);
    void *library = dlopen(other && *other ? other : name,
                           RTLD_NOW | RTLD_LOCAL);

    if (!library)
        hr__fail(HR_ENODEVICE, "no VA-API library: %s", dlerror());
    return library;
}

enum hr_status va_api_load(struct va_api *api)
{
    void *va, *drm, *entry;

    if (va_api_check())
        return HR_EFORK;
    if (!(va = load("HEADRACE_VAAPI_LIBRARY", "libva.so.2")) ||
        !(drm = load("HEADRACE_VAAPI_DRM_LIBRARY", "libva-drm.so.2")))
        return HR_ENODEVICE;
    hr__fork_check(&user, true, "VA-API");
    for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++) {
        entry = dlsym(va, entries[i].name);
        if (!entry && !entries[i].optional)
            return hr__fail(HR_ENODEVICE, "the VA-API library has no %s",
                            entries[i].name);
        memcpy((char *)api + entries[i].at, &entry, sizeof(entry));
    }
    if (!(entry = dlsym(drm, "vaGetDisplayDRM")))
        return hr__fail(HR_ENODEVICE,
                        "the VA-API library has no vaGetDisplayDRM");
    memcpy(&api->vaGetDisplayDRM, &entry, sizeof(entry));
    return HR_OK;
}
