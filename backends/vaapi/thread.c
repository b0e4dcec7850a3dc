// SPDX-License-Identifier: Apache-2.0
// The driver thread from open to close; submit.c has its tasks.
#include <stdio.h>

#include "backends/vaapi/vaapi.h"

// Twice that is less than closing may take.
#define READY_NS INT64_C(250000000)

// ---- Open ------------------------------------------------------------------

static void choose_depth(struct va *va)
{
    int most = va->facts.driver->max_surfaces, depth = va->wish;

    depth = !depth ? VA_DEPTH : depth < VA_MAX_DEPTH ? depth : VA_MAX_DEPTH;
    // As many again may be read by the next engine.
    va->num_frames = 2 * depth < VA_FRAMES ? 2 * depth : VA_FRAMES;
    if (most && va->num_frames > most)
        va->num_frames = most;
    va->depth = depth < va->num_frames ? depth : va->num_frames - 1;
}

// The driver's file, by the address of its entry, which is named by the version
// of VA-API that it was made for. (A display that is the caller's does not tell
// its version.)
static void find_file(struct va *va)
{
    enum { NEWEST = 99 };
    char name[48];
    VAPrivFunc entry = NULL;

    for (int minor = NEWEST; minor >= 0 && !entry && va->api.vaGetLibFunc;
         minor--) {
        snprintf(name, sizeof(name), "__vaDriverInit_%d_%d", VA_MAJOR_VERSION,
                 minor);
        entry = va->api.vaGetLibFunc(va->display, name);
    }
    hr__library_text((uintptr_t)entry, va->file, sizeof(va->file));
}

enum hr_status va_open_first(void *owner)
{
    struct va_fault fault = {0};
    struct va *va = owner;
    enum hr_status status;

    if ((status = va_api_load(&va->api)))
        return status;
    if (!va_display_open(va, &fault)) {
        va_close_all(va);
        return hr__fail(HR_EDEVICE, "%s", fault.text);
    }
    snprintf(va->guard.name, sizeof(va->guard.name), "vaapi%s%.57s",
             va->node[0] ? ":" : "", va->node);
    choose_depth(va);
    va->rung = va->facts.driver->quirks & VA_QUIRK_DERIVE_FIRST ? VA_RUNG_DERIVE
                                                                : VA_RUNG_GET;
    va->sync2 = va->api.vaSyncSurface2 != NULL;
    find_file(va);
    return HR_OK;
}

// ---- Close -----------------------------------------------------------------

// Says whether all frames are free, or have pictures that were given up.
static bool all_done(const struct va *va)
{
    for (int i = 0; i < va->num_frames; i++) {
        const struct va_frame *s = &va->frames[i];

        if (s->state != VA_FREE && (s->state != VA_SUBMITTED || s->task))
            return false;
    }
    return true;
}

// Waits until the display can be closed. True: it has no other users any more.
// The driver may still wait for a picture that was given up when its surface is
// destroyed: then that call is left behind.
static bool may_close(struct va *va)
{
    const struct hr__guard_thread *waiter = &va->guard.threads[VA_WAITER];
    int64_t deadline;
    bool ok = true;

    va_lock(va);
    // The waiter's call may come back; hr__guard_stop() looks at the clock.
    while (va->guard.dead && !va_barred(va))
        va_wait(va, VA_DRIVER, INT64_MAX);
    deadline = hr__now() + READY_NS;
    while (ok && (va->guard.dead || !all_done(va) || va->users))
        ok = va_wait(va, VA_DRIVER, deadline);
    va->closing = true;
    va_wake(va, VA_WAITER);
    while (ok && waiter->started && !waiter->gone)
        ok = va_wait(va, VA_DRIVER, deadline + READY_NS);
    ok = ok && !va_barred(va);
    va_unlock(va);
    return ok;
}

bool va_drive(void *owner)
{
    struct va *va = owner;
    struct va_frame *frame;

    while ((frame = va_next_picture(va)))
        va_take_up(va, frame);
    if (!may_close(va))
        return false;
    if (va_enter(va, VA_DRIVER)) {
        va_close_all(va);
        va_close_retired(va);
    }
    va_leave(va, VA_DRIVER);
    return true;
}
