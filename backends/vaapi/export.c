// SPDX-License-Identifier: Apache-2.0
// A surface as memory that the next engine reads where it lies, tiled or not:
// its driver knows the surface by name, and the waiter has synchronised it
// before. If that driver cannot read it after all, the waiter maps it for the
// host; no other thread reads surfaces back.
#include "backends/vaapi/vaapi.h"

// ---- The readers of a surface ----------------------------------------------

// Ends a reader's use of the frame, on any thread, so no driver is called.
// Locked
static void end_reader(struct va *va, struct va_frame *frame)
{
    if (--frame->readers || frame->state != VA_HELD)
        return;
    frame->state = VA_FREE;
    va_wake(va, VA_DRIVER);
}

static void on_retain(const struct hr__external *external)
{
    struct va_frame *frame = external->ctx;

    va_lock(frame->va);
    frame->readers++;
    va_unlock(frame->va);
}

static void on_release(const struct hr__external *external)
{
    struct va_frame *frame = external->ctx;

    va_lock(frame->va);
    end_reader(frame->va, frame);
    va_unlock(frame->va);
}

// If the waiter has mapped the surface, or is about to, it unmaps it first.
void va_on_export_released(struct hr__payload *payload)
{
    struct va_frame *frame = payload->release_ctx;
    struct va *va = frame->va;

    va_lock(va);
    // A reader may hold it for ever; the guard looks at the clock.
    frame->since = hr__now();
    frame->over = true;
    if (frame->state != VA_READING)
        frame->state = frame->mapped ? VA_RETURNED : VA_HELD;
    end_reader(va, frame);
    if (frame->state == VA_HELD)
        pthread_cond_signal(&va->guard.clock);
    if (frame->state == VA_RETURNED)
        va_wake(va, VA_WAITER);
    va_unlock(va);
}

// ---- Mapped for the host after all -----------------------------------------

bool va_map_export(struct va *va, struct va_frame *frame)
{
    struct va_fault fault = {0};
    uint8_t *data = NULL;
    size_t size = 0;
    bool ok, may;

    ok = va_enter(va, VA_WAITER) && va_map(va, frame, &data, &size, &fault);
    may = va_leave(va, VA_WAITER);
    if (!ok)
        va_log(va, HR_LOG_WARN, "a surface that was shared: %s", fault.text);
    va_lock(va);
    frame->mapped = ok ? data : NULL;
    frame->mapped_size = size;
    frame->state = !frame->over     ? VA_LENT
                   : ok             ? VA_RETURNED
                   : frame->readers ? VA_HELD
                                    : VA_FREE;
    pthread_cond_broadcast(&va->guard.changed);
    va_wake(va, VA_DRIVER);
    va_unlock(va);
    return may;
}

// Asks the waiter to map the frame and waits. No other thread changes a frame
// that is lent. Locked, but unlocks meanwhile.
static void ask_and_wait(struct va *va, struct va_frame *frame)
{
    int64_t deadline = hr__now() + va->guard.deadline / 2;

    frame->state = VA_ASKED;
    va_wake(va, VA_WAITER);
    while ((frame->state == VA_ASKED || frame->state == VA_READING) &&
           !va->guard.dead && !va->closing &&
           !va->guard.threads[VA_WAITER].gone &&
           hr__cond_wait(&va->guard.changed, &va->guard.lock, deadline))
        ;
    // While it is being read it stays the waiter's.
    if (frame->state == VA_ASKED)
        frame->state = VA_LENT;
}

static bool on_map(struct hr__payload *payload)
{
    struct va_frame *frame = payload->external->ctx;
    struct va *va = frame->va;
    bool ok;

    va_lock(va);
    if (frame->state == VA_LENT && !frame->mapped) {
        if (hr__guard_is_thread(&va->guard, VA_WAITER)) {
            frame->state = VA_READING;
            va_unlock(va);
            va_map_export(va, frame);
            va_lock(va);
        } else {
            ask_and_wait(va, frame);
        }
    }
    ok = frame->state == VA_LENT && frame->mapped;
    if (ok) {
        payload->data = frame->mapped;
        payload->size = frame->mapped_size;
    }
    va_unlock(va);
    return ok;
}

// ---- One picture -----------------------------------------------------------

// Numbers of memory, in the whole process.
static _Atomic uint64_t ids = 1;

bool va_export(struct va *va, struct va_frame *frame)
{
    uint32_t w = (uint32_t)frame->key.w, h = (uint32_t)frame->key.h;
    // The places that struct hr__external speaks of: only drivers know the
    // true ones.
    VAImage layout = {.format.fourcc = VA_FOURCC_NV12,
                      .width = (uint16_t)w,
                      .height = (uint16_t)h,
                      .num_planes = 2,
                      .pitches = {w, w},
                      .offsets = {0, w * h},
                      .data_size = w * h + w * (h / 2)};

    // Other formats are mapped, which is no failure.
    if (!va->shares || !frame->imported ||
        frame->key.fourcc != VA_FOURCC_NV12 || w % 2 || h % 2)
        return false;
    if (!frame->shared.id)
        frame->shared = (struct hr__external){.kind = HR__VA_SURFACE,
                                              .size = layout.data_size,
                                              .surface = frame->surface,
                                              .width = w,
                                              .height = h,
                                              .id = atomic_fetch_add(&ids, 1),
                                              .place = (int)(frame -
                                                             va->frames),
                                              .ctx = frame,
                                              .retain = on_retain,
                                              .release = on_release,
                                              .map = on_map};
    if (!va_place(va, frame->kind, &frame->planes, &layout,
                  &(struct va_fault){0}))
        return false;
    va_count_rung(va, VA_RUNG_SURFACE);
    return true;
}
