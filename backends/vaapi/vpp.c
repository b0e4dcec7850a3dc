// SPDX-License-Identifier: Apache-2.0
// The video processor, for tier FAST: crop, scale, flip and colour in one pass
// from the decoded surface to RGB. Which kinds of pictures it takes the driver
// lists, and vpp_probe.c finds out.
#include <stdio.h>
#include <string.h>

#include "backends/vaapi/vaapi.h"

enum {
    MAX_ATTRIBUTES = 256,
    CONTEXT_SIDE = 4096,
    SMALLEST = 16  // of iHD
};

static const struct {
    uint32_t fourcc;
    uint8_t at[3];  // bytes of red, green, blue
} rgb_formats[] = {
    {VA_FOURCC_RGBX, {0, 1, 2}},
    {VA_FOURCC_RGBA, {0, 1, 2}},
    {VA_FOURCC_BGRX, {2, 1, 0}},
    {VA_FOURCC_BGRA, {2, 1, 0}},
};

// ---- Surfaces of the processor ---------------------------------------------

static bool has_image(const struct va *va, uint32_t fourcc)
{
    for (int i = 0; i < va->facts.num_images; i++)
        if (va->facts.images[i].fourcc == fourcc)
            return true;
    return false;
}

static bool lists(const VASurfaceAttrib *list, unsigned n, uint32_t fourcc)
{
    for (unsigned i = 0; i < n; i++)
        if (list[i].type == VASurfaceAttribPixelFormat &&
            (uint32_t)list[i].value.value.i == fourcc)
            return true;
    return false;
}

// The RGB format that comes out, and which kinds of surfaces go in, by bits: as
// the decoder makes them. Grey in the luma of another format is not one: nobody
// writes its chroma.
static bool choose_formats(struct va *va, unsigned *kinds)
{
    unsigned n = MAX_ATTRIBUTES;
    VASurfaceAttrib *list = hr__alloc(NULL, n * sizeof(*list));

    va->vpp.format = -1;
    *kinds = 0;
    if (!list)
        return false;
    memset(list, 0, n * sizeof(*list));
    if (va->api.vaQuerySurfaceAttributes(va->display, va->vpp.config, list,
                                         &n) ||
        n > MAX_ATTRIBUTES)
        n = 0;
    for (int i = 3; i >= 0; i--)
        if (lists(list, n, rgb_formats[i].fourcc) &&
            has_image(va, rgb_formats[i].fourcc))
            va->vpp.format = i;
    for (int k = 0; k < VA_KINDS; k++) {
        uint32_t fourcc = va->facts.kinds[k].fourcc;

        if (fourcc && (int)va_fourcc_kind(fourcc) == k &&
            lists(list, n, fourcc) && has_image(va, fourcc))
            *kinds |= 1u << k;
    }
    hr__free(list);
    return va->vpp.format >= 0 && *kinds;
}

bool va_vpp_surface(struct va *va, unsigned rt_format, uint32_t fourcc, int w,
                    int h, VASurfaceID *out, struct va_fault *fault)
{
    VASurfaceAttrib format = {.type = VASurfaceAttribPixelFormat,
                              .flags = VA_SURFACE_ATTRIB_SETTABLE};

    format.value.type = VAGenericValueTypeInteger;
    format.value.value.i = (int)fourcc;
    if (!va_failed(fault,
                   va->api.vaCreateSurfaces(va->display, rt_format, (unsigned)w,
                                            (unsigned)h, out, 1, &format, 1),
                   "vaCreateSurfaces (processor)"))
        return true;
    *out = VA_INVALID_ID;
    return false;
}

bool va_vpp_image(struct va *va, uint32_t fourcc, int w, int h, VAImage *out,
                  struct va_fault *fault)
{
    for (int i = 0; i < va->facts.num_images; i++) {
        VAImageFormat format = va->facts.images[i];

        if (format.fourcc == fourcc)
            return !va_failed(
                fault, va->api.vaCreateImage(va->display, &format, w, h, out),
                "vaCreateImage (processor)");
    }
    return false;
}

// Of surface and image.
static int64_t output_bytes(const struct va_output *o)
{
    return 4 * (int64_t)o->w * o->h + (o->w ? (int64_t)o->image.data_size : 0);
}

void va_vpp_drop(struct va *va, struct va_output *o)
{
    hr__engine_ref_bytes(&va->guard.ref, -output_bytes(o));
    if (o->have_image)
        va->api.vaDestroyImage(va->display, o->image.image_id);
    if (o->surface != VA_INVALID_ID)
        va->api.vaDestroySurfaces(va->display, &o->surface, 1);
    *o = (struct va_output){.surface = VA_INVALID_ID};
}

bool va_vpp_fit(struct va *va, struct va_output *o, int w, int h,
                struct va_fault *fault)
{
    uint32_t fourcc = rgb_formats[va->vpp.format].fourcc;

    if (o->surface != VA_INVALID_ID && o->w == w && o->h == h)
        return true;
    va_vpp_drop(va, o);
    if (!va_vpp_surface(va, VA_RT_FORMAT_RGB32, fourcc, w, h, &o->surface,
                        fault) ||
        !(o->have_image = va_vpp_image(va, fourcc, w, h, &o->image, fault))) {
        va_vpp_drop(va, o);
        return false;
    }
    o->w = w;
    o->h = h;
    hr__engine_ref_bytes(&va->guard.ref, output_bytes(o));
    return true;
}

// ---- One pass --------------------------------------------------------------

bool va_vpp_run(struct va *va, VASurfaceID from, const VARectangle *crop,
                unsigned mirror, const struct va_output *o,
                struct va_fault *fault)
{
    VARectangle all = {0, 0, (uint16_t)o->w, (uint16_t)o->h};
    VAProcPipelineParameterBuffer p = {
        .surface = from,
        .surface_region = crop,
        .output_region = &all,
        // JPEG: BT.601, full range, chroma between the samples.
        .surface_color_standard = VAProcColorStandardBT601,
        .output_color_standard = VAProcColorStandardNone,
        .filter_flags = VA_FILTER_SCALING_DEFAULT |
                        VA_FILTER_INTERPOLATION_BILINEAR,
        .mirror_state = mirror,
        .input_color_properties = {
            .chroma_sample_location = VA_CHROMA_SITING_VERTICAL_CENTER |
                                      VA_CHROMA_SITING_HORIZONTAL_CENTER,
            .color_range = VA_SOURCE_RANGE_FULL}};
    VABufferID id = VA_INVALID_ID;
    bool ok;

    if (va_failed(fault,
                  va->api.vaCreateBuffer(va->display, va->vpp.context,
                                         VAProcPipelineParameterBufferType,
                                         sizeof(p), 1, &p, &id),
                  "vaCreateBuffer (pipeline)"))
        return false;
    ok = !va_failed(
        fault, va->api.vaBeginPicture(va->display, va->vpp.context, o->surface),
        "vaBeginPicture (RGB)");
    if (ok) {
        ok = !va_failed(fault,
                        va->api.vaRenderPicture(va->display, va->vpp.context,
                                                &id, 1),
                        "vaRenderPicture (RGB)");
        ok = !va_failed(fault,
                        va->api.vaEndPicture(va->display, va->vpp.context),
                        "vaEndPicture (RGB)") &&
             ok;
    }
    va->api.vaDestroyBuffer(va->display, id);
    return ok;
}

// The output's pixels, 4 bytes each; unmap the image's buffer afterwards.
bool va_vpp_map(struct va *va, const struct va_output *o, uint8_t **data,
                struct va_fault *fault)
{
    const VAImage *image = &o->image;
    void *at = NULL;

    if (image->pitches[0] < (unsigned)o->w * 4 ||
        image->offsets[0] + (uint64_t)image->pitches[0] * (unsigned)o->h >
            image->data_size) {
        *fault = (struct va_fault){HR_WHY_FAILED, "the RGB image is too small"};
        return false;
    }
    if (va_failed(fault,
                  va->api.vaGetImage(va->display, o->surface, 0, 0,
                                     (unsigned)o->w, (unsigned)o->h,
                                     image->image_id),
                  "vaGetImage (RGB)") ||
        va_failed(fault, va->api.vaMapBuffer(va->display, image->buf, &at),
                  "vaMapBuffer (RGB)"))
        return false;
    if (!at) {
        va->api.vaUnmapBuffer(va->display, image->buf);
        *fault = (struct va_fault){HR_WHY_FAILED, "vaMapBuffer (RGB): nothing"};
        return false;
    }
    *data = (uint8_t *)at + image->offsets[0];
    return true;
}

void va_vpp_pack(const struct va *va, const struct va_output *o,
                 const uint8_t *from, uint8_t *to)
{
    const uint8_t *at = rgb_formats[va->vpp.format].at;

    for (int y = 0; y < o->h; y++, from += o->image.pitches[0])
        for (int x = 0; x < o->w; x++, to += 3)
            for (int c = 0; c < 3; c++)
                to[c] = from[4 * x + at[c]];
}

// ---- Open and close --------------------------------------------------------

static bool open_config(struct va *va, struct va_fault *fault)
{
    if (!va_failed(fault,
                   va->api.vaCreateConfig(va->display, VAProfileNone,
                                          VAEntrypointVideoProc, NULL, 0,
                                          &va->vpp.config),
                   "vaCreateConfig (processor)"))
        return true;
    va->vpp.config = VA_INVALID_ID;
    return false;
}

static bool open_context(struct va *va, struct va_fault *fault)
{
    int w = va->facts.max_w < CONTEXT_SIDE ? va->facts.max_w : CONTEXT_SIDE;
    int h = va->facts.max_h < CONTEXT_SIDE ? va->facts.max_h : CONTEXT_SIDE;

    if (!va_failed(fault,
                   va->api.vaCreateContext(va->display, va->vpp.config, w, h,
                                           VA_PROGRESSIVE, NULL, 0,
                                           &va->vpp.context),
                   "vaCreateContext (processor)"))
        return true;
    va->vpp.context = VA_INVALID_ID;
    return false;
}

void va_vpp_open(struct va *va)
{
    bool known = va->vpp.tried;
    struct va_fault fault = {0};
    unsigned kinds = 0;

    if (!va->facts.vpp || !va->api.vaPutImage ||
        va->facts.driver->quirks & (VA_QUIRK_NO_VPP | VA_QUIRK_NO_FOURCC) ||
        (known && !va_vpp_any(va)))
        return;
    va->vpp.tried = true;
    if (!open_config(va, &fault) || (!known && !choose_formats(va, &kinds)) ||
        !open_context(va, &fault)) {
        va_vpp_close(va);
        if (fault.why)
            va_log(va, HR_LOG_WARN, "the video processor is not used: %s",
                   fault.text);
        return;
    }
    if (!known)
        va_vpp_try(va, kinds);
    if (!va_vpp_any(va))
        va_vpp_close(va);
}

void va_vpp_close(struct va *va)
{
    if (va->vpp.context != VA_INVALID_ID)
        va->api.vaDestroyContext(va->display, va->vpp.context);
    if (va->vpp.config != VA_INVALID_ID)
        va->api.vaDestroyConfig(va->display, va->vpp.config);
    va->vpp.context = va->vpp.config = VA_INVALID_ID;
}

// ---- What it takes ---------------------------------------------------------

// The part of the picture that comes out, and how large. False: not one that
// is all inside, or one that is cut after it was resized.
static bool part_of(const struct hr__step *s, struct hr__rect *part)
{
    const struct hr__rect *win = &s->win;

    *part = s->src;
    if (s->resized)
        return !win->x && !win->y && win->w == s->rs_w && win->h == s->rs_h &&
               !(s->box[0] > 0) && !(s->box[1] > 0) &&
               s->box[2] >= (float)s->src.w && s->box[3] >= (float)s->src.h;
    // The window is one of the mirrored picture.
    part->x += s->pre_x ? s->src.w - win->x - win->w : win->x;
    part->y += s->pre_y ? s->src.h - win->y - win->h : win->y;
    part->w = win->w;
    part->h = win->h;
    return win->x >= 0 && win->y >= 0 && win->x + win->w <= s->src.w &&
           win->y + win->h <= s->src.h;
}

static unsigned mirror_of(const struct hr__step *s)
{
    return (s->pre_x != s->post_x ? VA_MIRROR_HORIZONTAL : 0u) |
           (s->pre_y != s->post_y ? VA_MIRROR_VERTICAL : 0u);
}

// Corners are on whole chroma, and even: some drivers round others. No more
// than halved, for the processor's filters look at two samples.
static bool part_fits(const struct hr_info *info, const struct hr__rect *r,
                      const struct hr__step *s)
{
    int w = info->components == 3 && info->h[0] > 2 ? info->h[0] : 2;
    int h = info->components == 3 && info->v[0] > 2 ? info->v[0] : 2;

    return r->x % w == 0 && r->y % h == 0 && r->w >= SMALLEST &&
           r->h >= SMALLEST && s->out_w >= SMALLEST && s->out_h >= SMALLEST &&
           s->out_w <= CONTEXT_SIDE && s->out_h <= CONTEXT_SIDE &&
           r->w <= 2 * s->out_w && r->h <= 2 * s->out_h;
}

bool va_vpp_any(const struct va *va)
{
    for (int k = 0; k < VA_KINDS; k++)
        if (va->vpp.mirrors[k])
            return true;
    return false;
}

unsigned va_vpp_why_not(const struct va *va, const struct hr__picture *pic)
{
    const struct hr__step *s = &pic->geo.steps[0];
    enum va_kind kind = va_kind_of(&pic->info);
    unsigned mirrors = kind == VA_KIND_NONE ? 0 : va->vpp.mirrors[kind];
    struct hr__rect r;

    if (!mirrors)
        return HR_WHY_CHROMA;
    if (pic->info.color !=
        (kind == VA_KIND_GRAY ? HR_COLOR_GRAY : HR_COLOR_YCC))
        return HR_WHY_COLOR;
    if (pic->channels != 3)
        return HR_WHY_SPAN;
    if (pic->geo.num_steps != 1 || !part_of(s, &r) || s->transpose ||
        !(mirrors >> mirror_of(s) & 1) || !part_fits(&pic->info, &r, s))
        return HR_WHY_GEOMETRY;
    return s->resized && s->filter == HR_NEAREST ? HR_WHY_FILTER : 0;
}

void va_vpp_text(const struct va *va, char text[VA_PROCESSOR_TEXT])
{
    unsigned any = 0;
    size_t n = 0;

    for (int k = 0; k < VA_KINDS; k++) {
        if (!va->vpp.mirrors[k])
            continue;
        n += (size_t)snprintf(text + n, VA_PROCESSOR_TEXT - n, "%s%s",
                              n ? ", " : ", video processor: ",
                              va_kind_name((enum va_kind)k));
        any |= va->vpp.mirrors[k];
    }
    if (any == 1)
        snprintf(text + n, VA_PROCESSOR_TEXT - n, ", no flips");
}

void va_vpp_plan(struct va_slot *slot, const struct hr__picture *pic)
{
    const struct hr__step *s = &pic->geo.steps[0];
    struct hr__rect r;

    part_of(s, &r);
    slot->crop = (VARectangle){(int16_t)r.x, (int16_t)r.y, (uint16_t)r.w,
                               (uint16_t)r.h};
    slot->mirror = mirror_of(s);
    slot->out_w = s->out_w;
    slot->out_h = s->out_h;
}
