// SPDX-License-Identifier: Apache-2.0
// A picture's samples, on the host. Where they lie is read from the image each
// time, never assumed: drivers choose pitches, and some choose another format
// than they were asked for. What an image says is checked before it is
// believed.
#include <string.h>

#include "backends/vaapi/vaapi.h"

static const char *const names[VA_RUNGS] = {
    [VA_RUNG_SURFACE] = "shared with the next engine's driver",
    [VA_RUNG_DERIVE] = "surface mapped",
    [VA_RUNG_GET] = "image got from the driver",
};

const char *va_rung_name(enum va_rung rung)
{
    return names[rung];
}

void va_count_rung(struct va *va, enum va_rung rung)
{
    const struct hr__meter *m;

    _Static_assert((int)VA_RUNGS < (int)HR_PROFILE_RUNGS, "NULL ends the list");
    hr__engine_ref_count(&va->guard.ref,
                         offsetof(struct hr__meter, rungs[0].samples) +
                             rung * sizeof(m->rungs[0]),
                         1);
}

static bool wrong(struct va_fault *fault, const char *text)
{
    if (!fault->why)
        *fault = (struct va_fault){.why = HR_WHY_FAILED};
    strncpy(fault->text, text, sizeof(fault->text) - 1);
    return false;
}

// Fills in where component c lies; false if the image cannot hold it.
static bool place(const VAImage *image, enum va_kind kind, int c,
                  struct hr__plane *p)
{
    struct va_samples s;
    uint64_t last, row;

    if (!va_samples_of(image->format.fourcc, kind, c, &s) ||
        s.plane >= image->num_planes || s.plane >= 3)
        return false;
    p->stride = image->pitches[s.plane];
    p->step = s.step;
    p->at = (uint64_t)image->offsets[s.plane] + s.first;
    row = (uint64_t)(p->cols - 1) * s.step + s.first + 1;
    last = (uint64_t)(p->rows - 1) * p->stride +
           (uint64_t)(p->cols - 1) * s.step + p->at;
    return p->stride >= row && last < image->data_size;
}

bool va_place_all(struct va_slot *slot, const VAImage *image,
                  struct va_fault *fault)
{
    if (image->width < slot->planes.w || image->height < slot->planes.h)
        return wrong(fault, "the driver's image is too small");
    for (uint32_t c = 0; c < slot->planes.num_components; c++)
        if (!place(image, slot->kind, (int)c, &slot->planes.comp[c])) {
            char fourcc[8];

            va_fourcc_text(image->format.fourcc, fourcc);
            va_log(slot->va, HR_LOG_WARN, "a %s picture came as %s, %u planes",
                   va_kind_name(slot->kind), fourcc, image->num_planes);
            return wrong(fault, "the driver's image is not what it should be");
        }
    return true;
}

// ---- Two ways to an image --------------------------------------------------

static bool map_derived(struct va *va, struct va_slot *slot, uint8_t **data,
                        struct va_fault *fault)
{
    void *at = NULL;

    slot->derived = (VAImage){.image_id = VA_INVALID_ID};
    if (va_failed(fault,
                  va->api.vaDeriveImage(va->display, slot->surface,
                                        &slot->derived),
                  "vaDeriveImage"))
        return false;
    if (!va_place_all(slot, &slot->derived, fault) ||
        va_failed(fault,
                  va->api.vaMapBuffer(va->display, slot->derived.buf, &at),
                  "vaMapBuffer")) {
        va->api.vaDestroyImage(va->display, slot->derived.image_id);
        return false;
    }
    slot->have_derived = true;
    *data = at;
    return true;
}

static const VAImageFormat *format_of(const struct va *va, uint32_t fourcc)
{
    for (int i = 0; i < va->facts.num_images; i++)
        if (va->facts.images[i].fourcc == fourcc)
            return &va->facts.images[i];
    return NULL;
}

static bool map_got(struct va *va, struct va_slot *slot, uint8_t **data,
                    struct va_fault *fault)
{
    const VAImageFormat *format = format_of(va, slot->key.fourcc);
    int w = slot->key.w, h = slot->key.h;
    void *at = NULL;

    if (!format)
        return wrong(fault, "the driver has no image of the surface's format");
    if (!slot->have_image) {
        VAImageFormat copy = *format;

        if (va_failed(fault,
                      va->api.vaCreateImage(va->display, &copy, w, h,
                                            &slot->image),
                      "vaCreateImage"))
            return false;
        slot->have_image = true;
        hr__engine_ref_bytes(&va->guard.ref, (int64_t)slot->image.data_size);
    }
    if (!va_place_all(slot, &slot->image, fault) ||
        va_failed(fault,
                  va->api.vaGetImage(va->display, slot->surface, 0, 0,
                                     (unsigned)w, (unsigned)h,
                                     slot->image.image_id),
                  "vaGetImage") ||
        va_failed(fault, va->api.vaMapBuffer(va->display, slot->image.buf, &at),
                  "vaMapBuffer"))
        return false;
    *data = at;
    return true;
}

// ---- The ladder ------------------------------------------------------------

static bool map_by(struct va *va, struct va_slot *slot, enum va_rung rung,
                   uint8_t **data, size_t *size, struct va_fault *fault)
{
    bool derive = rung == VA_RUNG_DERIVE;

    *data = NULL;
    if (!(derive ? map_derived : map_got)(va, slot, data, fault))
        return false;
    *size = derive ? slot->derived.data_size : slot->image.data_size;
    if (*data)
        return true;
    va_unmap(va, slot);
    return wrong(fault, "vaMapBuffer gave no memory");
}

bool va_map(struct va *va, struct va_slot *slot, uint8_t **data, size_t *size,
            struct va_fault *fault)
{
    struct va_fault first = {0};
    enum va_rung rung = va->rung;
    enum va_rung other = rung == VA_RUNG_DERIVE ? VA_RUNG_GET : VA_RUNG_DERIVE;

    if (rung == VA_RUNG_GET && !format_of(va, slot->key.fourcc)) {
        other = rung;
        rung = VA_RUNG_DERIVE;
    }
    if (map_by(va, slot, rung, data, size, &first)) {
        va_count_rung(va, rung);
        return true;
    }
    *fault = first;
    if (first.why & HR_WHY_LOST ||
        (other == VA_RUNG_GET && !format_of(va, slot->key.fourcc)))
        return false;
    if (!map_by(va, slot, other, data, size, &(struct va_fault){0}))
        return false;
    va_count_rung(va, other);
    va_log(va, HR_LOG_INFO, "%s failed (%s), %s did", va_rung_name(rung),
           first.text, va_rung_name(other));
    return true;
}

void va_unmap(struct va *va, struct va_slot *slot)
{
    VABufferID buf = slot->have_derived ? slot->derived.buf : slot->image.buf;

    va->api.vaUnmapBuffer(va->display, buf);
    if (slot->have_derived)
        va->api.vaDestroyImage(va->display, slot->derived.image_id);
    slot->have_derived = false;
}
