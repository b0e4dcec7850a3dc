// SPDX-License-Identifier: Apache-2.0
// The driver's objects: how configurations, contexts, surfaces and images are
// made and used.
#include <string.h>

#include "backends/vaapi/vaapi.h"

// ---- Configurations and contexts -------------------------------------------

bool va_make_config(struct va *va, VAProfile profile, VAEntrypoint entrypoint,
                    VAConfigID *out, struct va_fault *fault)
{
    return VA_OK(va, fault, vaCreateConfig, profile, entrypoint, NULL, 0,
                 out) ||
           (*out = VA_INVALID_ID, false);
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
    return VA_OK(va, fault, vaCreateContext, config, w, h, VA_PROGRESSIVE, NULL,
                 0, out) ||
           (*out = VA_INVALID_ID, false);
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
    if (!VA_OK(va, fault, vaQuerySurfaceAttributes, config, list, &n) ||
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
    return VA_OK(va, fault, vaCreateSurfaces, rt_format, (unsigned)w,
                 (unsigned)h, out, 1, named ? &format : NULL, named) ||
           (*out = VA_INVALID_ID, false);
}

void va_drop_surface(struct va *va, VASurfaceID *surface)
{
    if (*surface != VA_INVALID_ID)
        va->api.vaDestroySurfaces(va->display, surface, 1);
    *surface = VA_INVALID_ID;
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
    return VA_OK(va, fault, vaCreateImage, &copy, w, h, out) ||
           (out->image_id = VA_INVALID_ID, false);
}

void va_drop_image(struct va *va, VAImage *image)
{
    if (image->image_id != VA_INVALID_ID)
        va->api.vaDestroyImage(va->display, image->image_id);
    image->image_id = VA_INVALID_ID;
}

bool va_map_image(struct va *va, const VAImage *image, uint8_t **data,
                  struct va_fault *fault)
{
    void *at = NULL;

    if (!VA_OK(va, fault, vaMapBuffer, image->buf, &at))
        return false;
    if ((*data = at))
        return true;
    va->api.vaUnmapBuffer(va->display, image->buf);
    return va_wrong(fault, "vaMapBuffer gave no memory");
}

// ---- One pass of a context -------------------------------------------------

bool va_render(struct va *va, VAContextID context, VASurfaceID target,
               const struct va_buffer *buffers, int n, int first,
               struct va_fault *fault)
{
    VABufferID ids[VA_MAX_BUFFERS];
    int made = 0;
    bool ok;

    while (made < n && VA_OK(va, fault, vaCreateBuffer, context,
                             buffers[made].type, (unsigned)buffers[made].size,
                             1, buffers[made].data, &ids[made]))
        made++;
    ok = made == n && VA_OK(va, fault, vaBeginPicture, context, target);
    if (ok) {
        ok = VA_OK(va, fault, vaRenderPicture, context, ids, first) &&
             (n == first || VA_OK(va, fault, vaRenderPicture, context,
                                  ids + first, n - first));
        // Also after a failure, or the context stays in the picture.
        ok = VA_OK(va, fault, vaEndPicture, context) && ok;
    }
    // The driver has what it needs.
    for (int i = 0; i < made; i++)
        va->api.vaDestroyBuffer(va->display, ids[i]);
    return ok;
}
