// SPDX-License-Identifier: Apache-2.0
// Slots and their surfaces. Pictures of one format and size in whole MCUs use
// each other's surfaces; what a slot has is kept until another size needs the
// slot, or its memory.
#include <string.h>

#include "backends/vaapi/vaapi.h"

// Of all surfaces; one alone may be larger.
#define MOST_BYTES ((size_t)512 << 20)

static bool same(const struct va_key *a, const struct va_key *b)
{
    return a->rt_format == b->rt_format && a->fourcc == b->fourcc &&
           a->w == b->w && a->h == b->h;
}

// No more than the driver will take: at most 3 bytes a pixel.
static size_t bytes_of(const struct va_key *key)
{
    return (size_t)key->w * (size_t)key->h * 3;
}

struct va_slot *va_find_slot(struct va *va, enum va_slot_state state)
{
    for (int i = 0; i < va->num_slots; i++)
        if (va->slots[i].state == state)
            return &va->slots[i];
    return NULL;
}

int va_count_slots(const struct va *va, enum va_slot_state state)
{
    int n = 0;

    for (int i = 0; i < va->num_slots; i++)
        n += va->slots[i].state == state;
    return n;
}

struct va_slot *va_oldest(struct va *va)
{
    struct va_slot *best = NULL;

    for (int i = 0; i < va->num_slots; i++) {
        struct va_slot *s = &va->slots[i];

        if (s->state != VA_FLYING)
            continue;
        // One that was given up comes last.
        if (!best || (s->task && !best->task) ||
            (!s->task == !best->task && s->number < best->number))
            best = s;
    }
    return best;
}

// The one that has the right surface, else one without, else the one that has
// not been used for longest.
struct va_slot *va_slot_take(struct va *va, const struct va_key *key)
{
    struct va_slot *best = NULL;
    int rank, best_rank = -1;

    for (int i = 0; i < va->num_slots; i++) {
        struct va_slot *s = &va->slots[i];

        if (s->state != VA_FREE)
            continue;
        rank = s->surface == VA_INVALID_ID ? 1 : same(&s->key, key) ? 2 : 0;
        if (rank < best_rank || (rank == best_rank && s->used >= best->used))
            continue;
        best = s;
        best_rank = rank;
    }
    if (best)
        best->state = VA_BUSY;
    return best;
}

void va_surface_drop(struct va *va, struct va_slot *slot)
{
    if (slot->have_image) {
        va->api.vaDestroyImage(va->display, slot->image.image_id);
        hr__engine_ref_bytes(&va->guard.ref, -(int64_t)slot->image.data_size);
    }
    slot->have_image = false;
    va_unshare(slot);
    va_vpp_drop(va, &slot->out);
    if (slot->surface == VA_INVALID_ID)
        return;
    va->api.vaDestroySurfaces(va->display, &slot->surface, 1);
    slot->surface = VA_INVALID_ID;
    va->surface_bytes -= bytes_of(&slot->key);
    hr__engine_ref_bytes(&va->guard.ref, -(int64_t)bytes_of(&slot->key));
}

// Surfaces that nobody uses make room for a new one.
static void make_room(struct va *va, size_t bytes)
{
    for (int i = 0; i < va->num_slots; i++) {
        struct va_slot *s = &va->slots[i];
        bool mine;

        if (va->surface_bytes + bytes <= MOST_BYTES)
            return;
        pthread_mutex_lock(&va->guard.lock);
        if ((mine = s->state == VA_FREE && s->surface != VA_INVALID_ID))
            s->state = VA_BUSY;
        pthread_mutex_unlock(&va->guard.lock);
        if (!mine)
            continue;
        va_surface_drop(va, s);
        pthread_mutex_lock(&va->guard.lock);
        s->state = VA_FREE;
        pthread_mutex_unlock(&va->guard.lock);
    }
}

bool va_surface_fit(struct va *va, struct va_slot *slot,
                    const struct va_key *key, struct va_fault *fault)
{
    bool named = !(va->facts.driver->quirks & VA_QUIRK_NO_FOURCC);
    VASurfaceAttrib format = {.type = VASurfaceAttribPixelFormat,
                              .flags = VA_SURFACE_ATTRIB_SETTABLE};

    if (slot->surface != VA_INVALID_ID && same(&slot->key, key))
        return true;
    va_surface_drop(va, slot);
    make_room(va, bytes_of(key));
    format.value.type = VAGenericValueTypeInteger;
    format.value.value.i = (int)key->fourcc;
    if (va_failed(fault,
                  va->api.vaCreateSurfaces(
                      va->display, key->rt_format, (unsigned)key->w,
                      (unsigned)key->h, &slot->surface, 1,
                      named ? &format : NULL, named ? 1 : 0),
                  "vaCreateSurfaces")) {
        slot->surface = VA_INVALID_ID;
        return false;
    }
    slot->key = *key;
    va->surface_bytes += bytes_of(key);
    hr__engine_ref_bytes(&va->guard.ref, (int64_t)bytes_of(key));
    return true;
}
