// SPDX-License-Identifier: Apache-2.0
// A surface as memory that the next engine reads where it lies: exported once,
// when it is first read, and kept with the surface. Only what is linear and
// one object goes on; nobody behind could be told of anything else. Exporting
// waits for nothing: the waiter has synchronised the surface before.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/vaapi/vaapi.h"

// ---- Who still reads it ------------------------------------------------------

// On any thread, so nothing is called. va->lock
static void read_by_one_less(struct va *va, struct va_slot *slot)
{
    if (--slot->readers)
        return;
    slot->state = VA_FREE;
    pthread_cond_broadcast(&va->work);
}

static void on_hold(const struct hr__external *external)
{
    struct va_slot *slot = external->ctx;

    pthread_mutex_lock(&slot->va->lock);
    slot->readers++;
    pthread_mutex_unlock(&slot->va->lock);
}

static void on_let(const struct hr__external *external)
{
    struct va_slot *slot = external->ctx;

    pthread_mutex_lock(&slot->va->lock);
    read_by_one_less(slot->va, slot);
    pthread_mutex_unlock(&slot->va->lock);
}

void va_on_shared_released(struct hr__payload *payload)
{
    struct va_slot *slot = payload->release_ctx;
    struct va *va = slot->va;

    pthread_mutex_lock(&va->lock);
    // Who holds it may never let go; the nurse looks at the clock.
    slot->state = VA_HELD;
    slot->since = hr__now();
    read_by_one_less(va, slot);
    if (slot->state == VA_HELD)
        pthread_cond_signal(&va->nurse_c);
    pthread_mutex_unlock(&va->lock);
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

// Numbers of memory, in the whole process.
static _Atomic uint64_t ids = 1;

static void fell(struct va *va, struct va_slot *slot,
                 const struct va_fault *fault)
{
    slot->unshared = true;
    va_count_fall(va);
    va_log(va, va->fell ? HR_LOG_DEBUG : HR_LOG_WARN,
           "%s failed (%s): %s instead", va_rung_name(VA_RUNG_SHARED),
           fault->text, va_rung_name(va->next_rung));
    va->fell = true;
}

bool va_share(struct va *va, struct va_slot *slot)
{
    VADRMPRIMESurfaceDescriptor d;
    struct va_fault fault = {0};

    if (va->rung != VA_RUNG_SHARED || !slot->wanted || slot->unshared)
        return false;
    if (!slot->shared.id) {
        if (!export(va, slot->surface, &d, &slot->layout, &fault)) {
            fell(va, slot, &fault);
            return false;
        }
        slot->shared = (struct hr__external){.kind = HR__DMA_BUF,
                                             .fd = d.objects[0].fd,
                                             .size = d.objects[0].size,
                                             .id = atomic_fetch_add(&ids, 1),
                                             .place = (int)(slot - va->slots),
                                             .ctx = slot,
                                             .hold = on_hold,
                                             .let = on_let};
    }
    if (!va_place_all(slot, &slot->layout, &fault)) {
        fell(va, slot, &fault);
        return false;
    }
    atomic_store(&va->used_rung, VA_RUNG_SHARED);
    return true;
}

void va_unshare(struct va_slot *slot)
{
    if (slot->shared.id)
        close(slot->shared.fd);
    slot->shared = (struct hr__external){0};
    slot->unshared = false;
}
