// SPDX-License-Identifier: Apache-2.0
// A surface as memory that the next engine reads where it lies: exported once,
// when it is first read, and kept with the surface. Only what is linear and
// one object goes on; nobody behind could be told of anything else. Exporting
// waits for nothing: the waiter has synchronised the surface before.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

// ---- Exporting -----------------------------------------------------------------

static bool wrong(struct va_fault *fault, const char *text)
{
    if (!fault->why)
        fault->why = HR_WHY_FAILED;
    snprintf(fault->text, sizeof(fault->text), "%s", text);
    return false;
}

static void close_all(const VADRMPRIMESurfaceDescriptor *d)
{
    for (uint32_t i = 0; i < d->num_objects && i < 4; i++)
        if (d->objects[i].fd >= 0)
            close(d->objects[i].fd);
}

// Its layers as the planes of an image, for what knows images.
static bool read_layers(const VADRMPRIMESurfaceDescriptor *d, VAImage *layout)
{
    *layout = (VAImage){.format.fourcc = d->fourcc,
                        .width = (uint16_t)d->width,
                        .height = (uint16_t)d->height,
                        .data_size = d->objects[0].size,
                        .num_planes = d->num_layers};
    if (!d->num_layers || d->num_layers > 3)
        return false;
    for (uint32_t i = 0; i < d->num_layers; i++) {
        if (d->layers[i].num_planes != 1 || d->layers[i].object_index[0])
            return false;
        layout->pitches[i] = d->layers[i].pitch[0];
        layout->offsets[i] = d->layers[i].offset[0];
    }
    return true;
}

// Some drivers leave the size out; none may say more than there is.
static bool read_size(VADRMPRIMESurfaceDescriptor *d)
{
    off_t there = lseek(d->objects[0].fd, 0, SEEK_END);

    if (!d->objects[0].size && there > 0 && there <= UINT32_MAX)
        d->objects[0].size = (uint32_t)there;
    return d->objects[0].size &&
           (there < 0 || (uint64_t)there >= d->objects[0].size);
}

static bool export(struct va *va, VASurfaceID surface,
                   VADRMPRIMESurfaceDescriptor *d, VAImage *layout,
                   struct va_fault *fault)
{
    const char *why = NULL;

    memset(d, 0, sizeof(*d));
    if (va_failed(
            fault,
            va->api.vaExportSurfaceHandle(
                va->display, surface, VA_SURFACE_ATTRIB_MEM_TYPE_DRM_PRIME_2,
                VA_EXPORT_SURFACE_READ_ONLY | VA_EXPORT_SURFACE_SEPARATE_LAYERS,
                d),
            "vaExportSurfaceHandle"))
        return false;
    if (d->num_objects != 1 || d->objects[0].fd < 0)
        why = "the surface is several objects";
    else if (d->objects[0].drm_format_modifier)
        why = "the surface is not linear";
    else if (!read_size(d) || !read_layers(d, layout))
        why = "what was exported is not what it should be";
    if (!why)
        return true;
    close_all(d);
    return wrong(fault, why);
}

bool va_share_may(const struct va *va)
{
    return va->api.vaExportSurfaceHandle &&
           !(va->facts.driver->quirks & VA_QUIRK_NO_SYNC);
}

void va_share_try(struct va *va)
{
    VADRMPRIMESurfaceDescriptor d;
    struct va_slot slot = {.va = va,
                           .surface = VA_INVALID_ID,
                           .out = {.surface = VA_INVALID_ID}};
    struct va_fault fault = {0};
    struct va_key key;
    VAImage layout;
    int kind = VA_KIND_420;

    va->shares = false;
    while (kind < VA_KINDS && !va->facts.kinds[kind].fourcc)
        kind++;
    if (!va_share_may(va) || kind == VA_KINDS)
        return;
    key = (struct va_key){.rt_format = va->facts.kinds[kind].rt_format,
                          .fourcc = va->facts.kinds[kind].fourcc,
                          .w = (va->facts.min_w + 63) / 64 * 64,
                          .h = (va->facts.min_h + 63) / 64 * 64};
    if (va_surface_fit(va, &slot, &key, &fault) &&
        export(va, slot.surface, &d, &layout, &fault)) {
        va->shares = true;
        close_all(&d);
    }
    va_surface_drop(va, &slot);
    if (!va->shares)
        va_log(va, HR_LOG_INFO, "surfaces are not shared: %s", fault.text);
}

// ---- One picture ---------------------------------------------------------------

unsigned va_share_kinds(const struct va *va, unsigned imports)
{
    const char *wish = secure_getenv("HEADRACE_VAAPI_READ");
    unsigned may = (va->shares ? HR__DMA_BUF : 0) |
                   (va_origin_may(va) ? HR__VA_SURFACE : 0);

    if (wish && *wish)
        may &= !strcmp(wish, "import")  ? HR__DMA_BUF
               : !strcmp(wish, "share") ? HR__VA_SURFACE
                                        : 0u;
    return imports & may;
}

// Numbers of memory, in the whole process.
static _Atomic uint64_t ids = 1;

static struct hr__external external_of(struct va_slot *slot, unsigned kind)
{
    return (struct hr__external){.kind = kind,
                                 .fd = -1,
                                 .id = atomic_fetch_add(&ids, 1),
                                 .place = (int)(slot - slot->va->slots),
                                 .ctx = slot,
                                 .hold = on_hold,
                                 .let = on_let};
}

static void fell(struct va *va, struct va_slot *slot,
                 const struct va_fault *fault)
{
    slot->unshared = true;
    va_count_fall(va);
    va_log(va, va->fell ? HR_LOG_DEBUG : HR_LOG_WARN,
           "%s failed (%s): %s instead", va_rung_name(VA_RUNG_SHARED),
           fault->text, va_rung_name(va->rung));
    va->fell = true;
}

static bool share_memory(struct va *va, struct va_slot *slot)
{
    VADRMPRIMESurfaceDescriptor d;
    struct va_fault fault = {0};

    if (slot->unshared)
        return false;
    if (!slot->shared.id) {
        if (!export(va, slot->surface, &d, &slot->layout, &fault)) {
            fell(va, slot, &fault);
            return false;
        }
        slot->shared = external_of(slot, HR__DMA_BUF);
        slot->shared.fd = d.objects[0].fd;
        slot->shared.size = d.objects[0].size;
    }
    if (!va_place_all(slot, &slot->layout, &fault)) {
        fell(va, slot, &fault);
        return false;
    }
    va_count_rung(va, VA_RUNG_SHARED);
    return true;
}

// Where its samples would lie, see hr__external: nobody but drivers looks at
// the surface, and exporting it is theirs, too.
static bool share_surface(struct va *va, struct va_slot *slot)
{
    uint32_t w = (uint32_t)slot->key.w, h = (uint32_t)slot->key.h;
    VAImage layout = {.format.fourcc = VA_FOURCC_NV12,
                      .width = (uint16_t)w,
                      .height = (uint16_t)h,
                      .num_planes = 2,
                      .pitches = {w, w},
                      .offsets = {0, w * h},
                      .data_size = w * h + w * (h / 2)};

    if (!slot->shared.id) {
        slot->shared = external_of(slot, HR__VA_SURFACE);
        slot->shared.surface = slot->surface;
        slot->shared.width = w;
        slot->shared.height = h;
        slot->shared.size = layout.data_size;
        slot->shared.map = va_on_map;
    }
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
    unsigned kinds = va->kinds & slot->wanted;
    unsigned kind = kinds & HR__VA_SURFACE && is_nv12(slot) ? HR__VA_SURFACE
                                                            : HR__DMA_BUF;

    if (!(kinds & kind))
        return false;
    // The kind of before has failed, or another engine goes on.
    if (slot->shared.id && slot->shared.kind != kind)
        va_unshare(slot);
    return kind == HR__VA_SURFACE ? share_surface(va, slot)
                                  : share_memory(va, slot);
}

void va_unshare(struct va_slot *slot)
{
    if (slot->shared.id && slot->shared.fd >= 0)
        close(slot->shared.fd);
    slot->shared = (struct hr__external){0};
    slot->unshared = false;
}
