// SPDX-License-Identifier: Apache-2.0
// The driver's objects: how configurations, contexts, surfaces and images are
// made, and how an image's bytes are reached.
#include <string.h>

#include "backends/vaapi/vaapi.h"

// ---- Configurations and contexts -------------------------------------------

bool va_make_config(struct va *va, VAProfile profile, VAEntrypoint entrypoint,
                    VAConfigID *out, struct va_fault *fault)
{
    if (!va_failed(fault,
                   va->api.vaCreateConfig(va->display, profile, entrypoint,
                                          NULL, 0, out),
                   "vaCreateConfig"))
        return true;
    *out = VA_INVALID_ID;
    return false;
}

void va_drop_config(struct va *va, VAConfigID *config)
{
    if (*config != VA_INVALID_ID)
        va->api.vaDestroyConfig(va->display, *config);
    *config = VA_INVALID_ID;
}

// Without targets: surfaces come and go with the sizes of pictures.
bool va_make_context(struct va *va, VAConfigID config, int w, int h,
                     VAContextID *out, struct va_fault *fault)
{
    if (!va_failed(fault,
                   va->api.vaCreateContext(va->display, config, w, h,
                                           VA_PROGRESSIVE, NULL, 0, out),
                   "vaCreateContext"))
        return true;
    *out = VA_INVALID_ID;
    return false;
}

void va_drop_context(struct va *va, VAContextID *context)
{
    if (*context != VA_INVALID_ID)
        va->api.vaDestroyContext(va->display, *context);
    *context = VA_INVALID_ID;
}

unsigned va_query_attributes(struct va *va, VAConfigID config,
                             VASurfaceAttrib list[VA_MAX_ATTRIBUTES],
                             struct va_fault *fault)
{
    unsigned n = VA_MAX_ATTRIBUTES;

    memset(list, 0, n * sizeof(*list));
    if (va_failed(fault,
                  va->api.vaQuerySurfaceAttributes(va->display, config, list,
                                                   &n),
                  "vaQuerySurfaceAttributes") ||
        n > VA_MAX_ATTRIBUTES)
        return 0;
    return n;
}

// ---- Surfaces and images ---------------------------------------------------

bool va_make_surface(struct va *va, unsigned rt_format, uint32_t fourcc, int w,
                     int h, VASurfaceID *out, struct va_fault *fault)
{
    unsigned named = !(va->facts.driver->quirks & VA_QUIRK_NO_FOURCC);
    VASurfaceAttrib format = {.type = VASurfaceAttribPixelFormat,
                              .flags = VA_SURFACE_ATTRIB_SETTABLE};

    format.value.type = VAGenericValueTypeInteger;
    format.value.value.i = (int)fourcc;
    if (!va_failed(fault,
                   va->api.vaCreateSurfaces(va->display, rt_format, (unsigned)w,
                                            (unsigned)h, out, 1,
                                            named ? &format : NULL, named),
                   "vaCreateSurfaces"))
        return true;
    *out = VA_INVALID_ID;
    return false;
}

const VAImageFormat *va_image_format(const struct va *va, uint32_t fourcc)
{
    for (int i = 0; i < va->facts.num_images; i++)
        if (va->facts.images[i].fourcc == fourcc)
            return &va->facts.images[i];
    return NULL;
}

bool va_make_image(struct va *va, uint32_t fourcc, int w, int h, VAImage *out,
                   struct va_fault *fault)
{
    const VAImageFormat *format = va_image_format(va, fourcc);
    VAImageFormat copy;

    if (!format)
        return va_wrong(fault, "the driver has no image of that format");
    copy = *format;
    return !va_failed(fault,
                      va->api.vaCreateImage(va->display, &copy, w, h, out),
                      "vaCreateImage");
}

bool va_map_image(struct va *va, const VAImage *image, uint8_t **data,
                  struct va_fault *fault)
{
    void *at = NULL;

    if (va_failed(fault, va->api.vaMapBuffer(va->display, image->buf, &at),
                  "vaMapBuffer"))
        return false;
    if ((*data = at))
        return true;
    va->api.vaUnmapBuffer(va->display, image->buf);
    return va_wrong(fault, "vaMapBuffer gave no memory");
}

bool va_get_image(struct va *va, VASurfaceID surface, int w, int h,
                  const VAImage *image, struct va_fault *fault)
{
    return !va_failed(fault,
                      va->api.vaGetImage(va->display, surface, 0, 0,
                                         (unsigned)w, (unsigned)h,
                                         image->image_id),
                      "vaGetImage");
}
