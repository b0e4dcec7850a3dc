// SPDX-License-Identifier: Apache-2.0
// libva and libva-drm, found at run time on first use. Every device gets a
// table of its own. The libraries are never unloaded: drivers do not survive
// that.
#include <dlfcn.h>

#include "backends/vaapi/vaapi.h"

// The process that has used libva: drivers have file descriptors and threads,
// which a forked child cannot use.
static _Atomic pid_t user;

static const struct hr__entry entries[] = {
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

enum hr_status va_api_load(struct va_api *api)
{
    static const struct hr__entry display = {
        "vaGetDisplayDRM", offsetof(struct va_api, vaGetDisplayDRM), false};
    const char *missing;
    void *va, *drm;

    if (va_api_check())
        return HR_EFORK;
    if (!(va = hr__library_open(HR__LIBRARY_VA)) ||
        !(drm = hr__library_open(HR__LIBRARY_VA_DRM)))
        return hr__fail(HR_ENODEVICE, "no VA-API library: %s", dlerror());
    hr__fork_check(&user, true, "VA-API");
    missing = hr__library_fill(va, api, entries,
                               sizeof(entries) / sizeof(*entries));
    missing = missing ? missing : hr__library_fill(drm, api, &display, 1);
    return missing
               ? hr__fail(HR_ENODEVICE, "the VA-API library has no %s", missing)
               : HR_OK;
}
