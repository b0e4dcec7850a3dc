// SPDX-License-Identifier: Apache-2.0
// The video processor, for tier FAST: crop, scale, flip and colour in one pass
// from the decoded surface to RGB. Drivers differ in how they scale, and some
// are wrong in colours or flips: when a device is opened four colours and a
// pattern go through it, and what does not come out right is not used.
#include <stdlib.h>
#include <string.h>

#include "backends/vaapi/vaapi.h"

enum {
    SIDE = 64,
    MAX_ATTRIBUTES = 256,
    TOLERANCE = 3,
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

// The RGB format that comes out, and whether NV12 goes in.
static bool choose_format(struct va *va)
{
    unsigned n = MAX_ATTRIBUTES;
    VASurfaceAttrib *list = hr__alloc(NULL, n * sizeof(*list));

    va->vpp.format = -1;
    if (!list)
        return false;
    memset(list, 0, n * sizeof(*list));
    if (va->api.vaQuerySurfaceAttributes(va->display, va->vpp.config, list,
                                         &n) ||
        n > MAX_ATTRIBUTES || !lists(list, n, VA_FOURCC_NV12))
        n = 0;
    for (int i = 3; i >= 0; i--)
        if (lists(list, n, rgb_formats[i].fourcc) &&
            has_image(va, rgb_formats[i].fourcc))
            va->vpp.format = i;
    hr__free(list);
    return va->vpp.format >= 0;
}

static bool make_surface(struct va *va, unsigned rt_format, uint32_t fourcc,
                         int w, int h, VASurfaceID *out, struct va_fault *fault)
{
    VASurfaceAttrib format = {.type = VASurfaceAttribPixelFormat,
                              .flags = VA_SURFACE_ATTRIB_SETTABLE};

    format.value.type = VAGenericValueTypeInteger;
    format.value.value.i = (int)fourcc;
    if (!va_failed(fault,
                   va->api.vaCreateSurfaces(va->display, rt_format, (unsigned)w,
                                            (unsigned)h, out, 1, &format, 1),
                   "vaCreateSurfaces (RGB)"))
        return true;
    *out = VA_INVALID_ID;
    return false;
}

static bool make_image(struct va *va, uint32_t fourcc, int w, int h,
                       VAImage *out, struct va_fault *fault)
{
    for (int i = 0; i < va->facts.num_images; i++) {
        VAImageFormat format = va->facts.images[i];

        if (format.fourcc == fourcc)
            return !va_failed(
                fault, va->api.vaCreateImage(va->display, &format, w, h, out),
                "vaCreateImage (RGB)");
    }
    return false;
}

void va_vpp_drop(struct va *va, struct va_output *o)
{
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
    if (!make_surface(va, VA_RT_FORMAT_RGB32, fourcc, w, h, &o->surface,
                      fault) ||
        !(o->have_image = make_image(va, fourcc, w, h, &o->image, fault))) {
        va_vpp_drop(va, o);
        return false;
    }
    o->w = w;
    o->h = h;
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

// ---- The probe -------------------------------------------------------------

struct trial {
    VASurfaceID source;
    VAImage image;
    bool have_image;
    struct va_output out;
    uint8_t pixels[SIDE * SIDE * 3];
};

// Four fields of one colour or grey each; what comes out of them is in pixels.
static bool pass(struct va *va, struct trial *t, const uint8_t fields[4][3],
                 unsigned mirror)
{
    struct va_fault fault = {0};
    const VAImage *image = &t->image;
    uint8_t *data;
    void *at = NULL;

    if (va->api.vaMapBuffer(va->display, image->buf, &at) || !at)
        return false;
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            const uint8_t *field = fields[y / (SIDE / 2) * 2 + x / (SIDE / 2)];
            uint8_t *luma = (uint8_t *)at + image->offsets[0] +
                            image->pitches[0] * (unsigned)y;
            uint8_t *chroma = (uint8_t *)at + image->offsets[1] +
                              image->pitches[1] * (unsigned)(y / 2);

            luma[x] = field[0];
            chroma[x] = field[1 + x % 2];
        }
    va->api.vaUnmapBuffer(va->display, image->buf);
    if (va->api.vaPutImage(va->display, t->source, image->image_id, 0, 0, SIDE,
                           SIDE, 0, 0, SIDE, SIDE) ||
        !va_vpp_run(va, t->source, NULL, mirror, &t->out, &fault) ||
        va->api.vaSyncSurface(va->display, t->out.surface) ||
        !va_vpp_map(va, &t->out, &data, &fault))
        return false;
    va_vpp_pack(va, &t->out, data, t->pixels);
    va->api.vaUnmapBuffer(va->display, t->out.image.buf);
    return true;
}

static bool near(double want, int is)
{
    want = want < 0 ? 0 : want > 255 ? 255 : want;
    return is >= want - TOLERANCE && is <= want + TOLERANCE;
}

// The middle of field f has the colour of that field (JFIF's equations).
static bool is_right(const struct trial *t, int f, const uint8_t c[3])
{
    const uint8_t *p = t->pixels + 3 * ((f / 2 * SIDE / 2 + SIDE / 4) * SIDE +
                                        f % 2 * SIDE / 2 + SIDE / 4);
    double y = c[0], cb = c[1] - 128, cr = c[2] - 128;

    return near(y + 1.402 * cr, p[0]) &&
           near(y - .344136 * cb - .714136 * cr, p[1]) &&
           near(y + 1.772 * cb, p[2]);
}

static void judge(struct va *va, struct trial *t)
{
    // Grey at both ends, where a limited range would be cut, and two colours.
    static const uint8_t colors[4][3] = {
        {16, 128, 128}, {235, 128, 128}, {120, 90, 160}, {150, 170, 100}};
    struct {
        unsigned mirror;
        int to[4];  // where field i comes from
    } flips[] = {{VA_MIRROR_NONE, {0, 1, 2, 3}},
                 {VA_MIRROR_HORIZONTAL, {1, 0, 3, 2}},
                 {VA_MIRROR_VERTICAL, {2, 3, 0, 1}}};

    va->vpp.color = va->vpp.flip = true;
    for (int i = 0; i < 3; i++) {
        bool right = pass(va, t, colors, flips[i].mirror);

        for (int f = 0; f < 4 && right; f++)
            right = is_right(t, f, colors[flips[i].to[f]]);
        if (!right && !i)
            va->vpp.color = false;
        if (!right)
            va->vpp.flip = false;
    }
}

static void try_it(struct va *va)
{
    struct trial *t = hr__alloc(NULL, sizeof(*t));
    struct va_fault fault = {0};

    if (!t)
        return;
    memset(t, 0, sizeof(*t));
    t->source = t->out.surface = VA_INVALID_ID;
    if (make_surface(va, VA_RT_FORMAT_YUV420, VA_FOURCC_NV12, SIDE, SIDE,
                     &t->source, &fault) &&
        (t->have_image = make_image(va, VA_FOURCC_NV12, SIDE, SIDE, &t->image,
                                    &fault)) &&
        t->image.num_planes == 2 &&
        t->image.offsets[1] + (uint64_t)t->image.pitches[1] * SIDE / 2 <=
            t->image.data_size &&
        va_vpp_fit(va, &t->out, SIDE, SIDE, &fault))
        judge(va, t);
    va_vpp_drop(va, &t->out);
    if (t->have_image)
        va->api.vaDestroyImage(va->display, t->image.image_id);
    if (t->source != VA_INVALID_ID)
        va->api.vaDestroySurfaces(va->display, &t->source, 1);
    hr__free(t);
}

// ---- Open and close --------------------------------------------------------

void va_vpp_open(struct va *va)
{
    int w = va->facts.max_w < CONTEXT_SIDE ? va->facts.max_w : CONTEXT_SIDE;
    int h = va->facts.max_h < CONTEXT_SIDE ? va->facts.max_h : CONTEXT_SIDE;
    bool known = va->vpp.tried;

    if (!va->facts.vpp || !va->api.vaPutImage ||
        va->facts.kinds[VA_KIND_420].fourcc != VA_FOURCC_NV12 ||
        va->facts.driver->quirks & (VA_QUIRK_NO_VPP | VA_QUIRK_NO_FOURCC) ||
        (known && !va->vpp.color))
        return;
    va->vpp.tried = true;
    if (va->api.vaCreateConfig(va->display, VAProfileNone,
                               VAEntrypointVideoProc, NULL, 0,
                               &va->vpp.config)) {
        va->vpp.config = VA_INVALID_ID;
        return;
    }
    if ((!known && !choose_format(va)) ||
        va->api.vaCreateContext(va->display, va->vpp.config, w, h,
                                VA_PROGRESSIVE, NULL, 0, &va->vpp.context)) {
        va->vpp.context = VA_INVALID_ID;
        va_vpp_close(va);
        return;
    }
    if (!known)
        try_it(va);
    if (!va->vpp.color)
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

// No more than halved, for the processor's filters look at two samples; and
// corners on whole chroma.
static bool step_fits(const struct va *va, const struct hr__step *s)
{
    bool flipped = s->pre_x != s->post_x || s->pre_y != s->post_y;
    struct hr__rect r;

    return part_of(s, &r) && !s->transpose && (!flipped || va->vpp.flip) &&
           !(r.x & 1) && !(r.y & 1) && r.w >= SMALLEST && r.h >= SMALLEST &&
           s->out_w >= SMALLEST && s->out_h >= SMALLEST &&
           s->out_w <= CONTEXT_SIDE && s->out_h <= CONTEXT_SIDE &&
           r.w <= 2 * s->out_w && r.h <= 2 * s->out_h &&
           (!s->resized || s->filter != HR_NEAREST);
}

bool va_vpp_takes(const struct va *va, const struct hr__picture *pic)
{
    return va->vpp.color && pic->tier == HR_FAST && pic->channels == 3 &&
           pic->info.color == HR_COLOR_YCC &&
           va_kind_of(&pic->info) == VA_KIND_420 && pic->geo.num_steps == 1 &&
           step_fits(va, &pic->geo.steps[0]);
}

void va_vpp_plan(struct va_slot *slot, const struct hr__picture *pic)
{
    const struct hr__step *s = &pic->geo.steps[0];
    struct hr__rect r;

    part_of(s, &r);
    slot->crop = (VARectangle){(int16_t)r.x, (int16_t)r.y, (uint16_t)r.w,
                               (uint16_t)r.h};
    slot->mirror = (s->pre_x != s->post_x ? VA_MIRROR_HORIZONTAL : 0u) |
                   (s->pre_y != s->post_y ? VA_MIRROR_VERTICAL : 0u);
    slot->out_w = s->out_w;
    slot->out_h = s->out_h;
}
