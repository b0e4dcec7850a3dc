// SPDX-License-Identifier: Apache-2.0
// The VADisplay in the hands of the next engine's driver, which then reads our
// surfaces itself, tiled or not. The display stays open as long as that driver
// has it.
#include <unistd.h>

#include "backends/vaapi/vaapi.h"

// The other driver calls ours whenever it likes to. That must be known to be
// safe, and a surface must be ready when vaSyncSurface() says so.
bool va_may_export(const struct va *va)
{
    unsigned quirks = va->facts.driver->quirks;

    return quirks & VA_QUIRK_SAFE && !(quirks & VA_QUIRK_NO_SYNC) &&
           va->facts.kinds[HR_KIND_420].fourcc == VA_FOURCC_NV12 &&
           !va->retired && !va->by_host;
}

static void on_retain(void *ctx)
{
    struct va *va = ctx;

    va_lock(va);
    va->users++;
    va_unlock(va);
}

static void on_release(void *ctx)
{
    struct va *va = ctx;

    va_lock(va);
    va->users--;
    va_wake(va, VA_DRIVER);
    va_unlock(va);
}

void va_share_display(struct hr__engine *e, struct hr__shared_display *out)
{
    struct va *va = va_of(e);

    if (va_may_export(va))
        *out = (struct hr__shared_display){.kind = HR__VA_SURFACE,
                                           .handle = va->display,
                                           .ctx = va,
                                           .retain = on_retain,
                                           .release = on_release};
}

bool va_retire_display(struct va *va)
{
    bool used;

    va_lock(va);
    used = va->users && va->initialized && !va->foreign && !va->retired;
    if (used) {
        va->retired = va->display;
        va->retired_fd = va->fd;
        va->shares = false;
    }
    va_unlock(va);
    if (!used)
        return false;
    hr__engine_ref_count(&va->guard.ref,
                         offsetof(struct hr__meter, import_falls), 1);
    va_log(va, HR_LOG_WARN, "the next engine's driver has the old display: %s",
           "surfaces are not shared any more");
    return true;
}

void va_close_retired(struct va *va)
{
    if (va->retired)
        va->api.vaTerminate(va->retired);
    if (va->retired_fd >= 0)
        close(va->retired_fd);
    va->retired = NULL;
    va->retired_fd = -1;
}
