// SPDX-License-Identifier: Apache-2.0
// A surface as memory that the next engine reads where it lies, tiled or not:
// its driver knows the surface by name, and the waiter has synchronised it
// before.
#include "backends/vaapi/vaapi.h"

// ---- Who still reads it ------------------------------------------------------

// On any thread, so nothing is called. va->guard.lock
static void read_by_one_less(struct va *va, struct va_slot *slot)
{
    if (--slot->readers || slot->state != VA_HELD)
        return;
    slot->state = VA_FREE;
    pthread_cond_broadcast(&va->guard.lanes[VA_DRIVER].wake);
}

static void on_hold(const struct hr__external *external)
{
    struct va_slot *slot = external->ctx;

    pthread_mutex_lock(&slot->va->guard.lock);
    slot->readers++;
    pthread_mutex_unlock(&slot->va->guard.lock);
}

static void on_let(const struct hr__external *external)
{
    struct va_slot *slot = external->ctx;

    pthread_mutex_lock(&slot->va->guard.lock);
    read_by_one_less(slot->va, slot);
    pthread_mutex_unlock(&slot->va->guard.lock);
}

// What the waiter has mapped, or is about to, it unmaps first.
void va_on_shared_released(struct hr__payload *payload)
{
    struct va_slot *slot = payload->release_ctx;
    struct va *va = slot->va;

    pthread_mutex_lock(&va->guard.lock);
    // Who holds it may never let go; the guard looks at the clock.
    slot->since = hr__now();
    slot->over = true;
    if (slot->state != VA_READING)
        slot->state = slot->mapped ? VA_RETURNED : VA_HELD;
    read_by_one_less(va, slot);
    if (slot->state == VA_HELD)
        pthread_cond_signal(&va->guard.clock);
    if (slot->state == VA_RETURNED)
        pthread_cond_signal(&va->guard.lanes[VA_WAITER].wake);
    pthread_mutex_unlock(&va->guard.lock);
}

// ---- One picture ---------------------------------------------------------------

// Numbers of memory, in the whole process.
static _Atomic uint64_t ids = 1;

// Where its samples would lie, see hr__external: nobody but drivers looks at
// the surface, and exporting it is theirs, too.
static bool share(struct va *va, struct va_slot *slot)
{
    uint32_t w = (uint32_t)slot->key.w, h = (uint32_t)slot->key.h;
    VAImage layout = {.format.fourcc = VA_FOURCC_NV12,
                      .width = (uint16_t)w,
                      .height = (uint16_t)h,
                      .num_planes = 2,
                      .pitches = {w, w},
                      .offsets = {0, w * h},
                      .data_size = w * h + w * (h / 2)};

    if (!slot->shared.id)
        slot->shared = (struct hr__external){.kind = HR__VA_SURFACE,
                                             .size = layout.data_size,
                                             .surface = slot->surface,
                                             .width = w,
                                             .height = h,
                                             .id = atomic_fetch_add(&ids, 1),
                                             .place = (int)(slot - va->slots),
                                             .ctx = slot,
                                             .hold = on_hold,
                                             .let = on_let,
                                             .map = va_on_map};
    if (!va_place_all(slot, &layout, &(struct va_fault){0}))
        return false;
    va_count_rung(va, VA_RUNG_SURFACE);
    return true;
}

// Other formats go by the rungs below, which is no failure.
static bool is_nv12(const struct va_slot *slot)
{
    return slot->key.fourcc == VA_FOURCC_NV12 && !(slot->key.w & 1) &&
           !(slot->key.h & 1);
}

bool va_share(struct va *va, struct va_slot *slot)
{
    return va->shares && slot->wanted && is_nv12(slot) && share(va, slot);
}

void va_unshare(struct va_slot *slot)
{
    slot->shared = (struct hr__external){0};
}
