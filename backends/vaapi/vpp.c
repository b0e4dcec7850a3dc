// SPDX-License-Identifier: Apache-2.0
// The video processor, for tier FAST: crop, scale, flip and colour in one pass
// from the decoded surface to RGB, which is the first step of a picture. The
// driver lists the kinds of pictures that go in, and vpp_open.c tests them.
#include <stdio.h>

#include "backends/vaapi/vaapi.h"

enum { SMALLEST = 16 };  // of iHD

static const struct {
    uint32_t fourcc;
    uint8_t at[3];  // bytes of red, green, blue
} rgb_formats[] = {
    {VA_FOURCC_RGBX, {0, 1, 2}},
    {VA_FOURCC_RGBA, {0, 1, 2}},
    {VA_FOURCC_BGRX, {2, 1, 0}},
    {VA_FOURCC_BGRA, {2, 1, 0}},
};

// ---- Formats ---------------------------------------------------------------

static bool lists(const VASurfaceAttrib *list, unsigned n, uint32_t fourcc)
{
    for (unsigned i = 0; i < n; i++)
        if (list[i].type == VASurfaceAttribPixelFormat &&
            (uint32_t)list[i].value.value.i == fourcc)
            return true;
    return false;
}

bool va_vpp_formats(struct va *va, unsigned *kinds)
{
    VASurfaceAttrib list[VA_MAX_ATTRIBUTES];
    unsigned n = va_query_attributes(va, va->vpp.config, list,
                                     &(struct va_fault){0});

    va->vpp.format = -1;
    *kinds = 0;
    for (int i = 3; i >= 0; i--)
        if (lists(list, n, rgb_formats[i].fourcc) &&
            va_image_format(va, rgb_formats[i].fourcc))
            va->vpp.format = i;
    for (int k = 0; k < HR_NUM_KINDS; k++) {
        uint32_t fourcc = va->facts.kinds[k].fourcc;

        // Grey in the luma of another format does not go in: its chroma is
        // never written.
        if (fourcc && va_fourcc_kind(fourcc) == k && lists(list, n, fourcc) &&
            va_image_format(va, fourcc))
            *kinds |= 1u << k;
    }
    return va->vpp.format >= 0 && *kinds;
}

// ---- Its output ------------------------------------------------------------

// Returns the bytes of surface and image.
static int64_t output_bytes(const struct va_output *o)
{
    return 4 * (int64_t)o->w * o->h + (o->w ? (int64_t)o->image.data_size : 0);
}

void va_vpp_drop(struct va *va, struct va_output *o)
{
    hr__engine_ref_bytes(&va->guard.ref, -output_bytes(o));
    va_drop_image(va, &o->image);
    va_drop_surface(va, &o->surface);
    *o = VA_NO_OUTPUT;
}

bool va_vpp_fit(struct va *va, struct va_output *o, int w, int h,
                struct va_fault *fault)
{
    uint32_t fourcc = rgb_formats[va->vpp.format].fourcc;

    if (o->surface != VA_INVALID_ID && o->w == w && o->h == h)
        return true;
    va_vpp_drop(va, o);
    if (!va_make_surface(va, VA_RT_FORMAT_RGB32, fourcc, w, h, &o->surface,
                         fault) ||
        !va_make_image(va, fourcc, w, h, &o->image, fault)) {
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
    struct va_buffer buffer = {VAProcPipelineParameterBufferType, sizeof(p),
                               &p};

    return va_render(va, va->vpp.context, o->surface, &buffer, 1, 1, fault);
}

bool va_vpp_map(struct va *va, const struct va_output *o, uint8_t **data,
                struct va_fault *fault)
{
    const VAImage *image = &o->image;

    if (image->pitches[0] < (unsigned)o->w * 4 ||
        image->offsets[0] + (uint64_t)image->pitches[0] * (unsigned)o->h >
            image->data_size)
        return va_wrong(fault, "the RGB image is too small");
    if (!VA_OK(va, fault, vaGetImage, o->surface, 0, 0, (unsigned)o->w,
               (unsigned)o->h, image->image_id) ||
        !va_map_image(va, image, data, fault))
        return false;
    *data += image->offsets[0];
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

// ---- Which pictures go in --------------------------------------------------

// The part of the picture that comes out. False: some of it is outside, or it
// is cut after it was resized.
static bool part_of(const struct hr__step *s, struct hr__rect *part)
{
    const struct hr__rect *win = &s->win;

    *part = s->src;
    if (s->resized)
        return !win->x && !win->y && win->w == s->rs_w && win->h == s->rs_h &&
               !(s->box[0] > 0) && !(s->box[1] > 0) &&
               s->box[2] >= (float)s->src.w && s->box[3] >= (float)s->src.h;
    // The window is a part of the mirrored picture.
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

// Corners must be on whole chroma, and even: some drivers round others. The
// part is no more than halved, for the processor's filters look at two samples.
static bool part_fits(const struct hr_info *info, const struct hr__rect *r,
                      const struct hr__step *s)
{
    int w = info->components == 3 && info->h[0] > 2 ? info->h[0] : 2;
    int h = info->components == 3 && info->v[0] > 2 ? info->v[0] : 2;

    return r->x % w == 0 && r->y % h == 0 && r->w >= SMALLEST &&
           r->h >= SMALLEST && s->out_w >= SMALLEST && s->out_h >= SMALLEST &&
           s->out_w <= VA_VPP_SIDE && s->out_h <= VA_VPP_SIDE &&
           r->w <= 2 * s->out_w && r->h <= 2 * s->out_h;
}

bool va_vpp_any(const struct va *va)
{
    for (int k = 0; k < HR_NUM_KINDS; k++)
        if (va->vpp.mirrors[k])
            return true;
    return false;
}

unsigned va_vpp_why_not(const struct va *va, const struct hr__picture *pic)
{
    const struct hr__step *s = &pic->geo.steps[0];
    int kind = hr__jpeg_kind(&pic->info);
    unsigned mirrors = kind < 0 ? 0 : va->vpp.mirrors[kind];
    struct hr__rect r;

    if (!mirrors)
        return HR_WHY_CHROMA;
    if (pic->info.color !=
        (kind == HR_KIND_GRAY ? HR_COLOR_GRAY : HR_COLOR_YCC))
        return HR_WHY_COLOR;
    if (pic->channels != 3)
        return HR_WHY_SPAN;
    if (!part_of(s, &r) || s->transpose || !(mirrors >> mirror_of(s) & 1) ||
        !part_fits(&pic->info, &r, s))
        return HR_WHY_GEOMETRY;
    return s->resized && s->filter == HR_NEAREST ? HR_WHY_FILTER : 0;
}

void va_vpp_text(const struct va *va, char text[VA_PROCESSOR_TEXT])
{
    unsigned any = 0;
    size_t n = 0;

    for (int k = 0; k < HR_NUM_KINDS; k++) {
        if (!va->vpp.mirrors[k])
            continue;
        n += (size_t)snprintf(text + n, VA_PROCESSOR_TEXT - n, "%s%s",
                              n ? ", " : ", video processor: ",
                              hr_jpeg_kind_name((enum hr_jpeg_kind)k));
        any |= va->vpp.mirrors[k];
    }
    if (any == 1)
        snprintf(text + n, VA_PROCESSOR_TEXT - n, ", no flips");
}

void va_vpp_plan(struct va_frame *frame, const struct hr__picture *pic)
{
    const struct hr__step *s = &pic->geo.steps[0];
    struct hr__rect r;

    part_of(s, &r);
    frame->crop = (VARectangle){(int16_t)r.x, (int16_t)r.y, (uint16_t)r.w,
                                (uint16_t)r.h};
    frame->mirror = mirror_of(s);
    frame->out_w = s->out_w;
    frame->out_h = s->out_h;
}
