// SPDX-License-Identifier: Apache-2.0
// Whether the video processor is right: some are wrong in colours or in flips,
// and not for every kind of picture alike. When a device is opened four colours
// go through it for each kind that the driver lists, as they are and mirrored;
// what does not come out right is not used for that kind.
#include <string.h>

#include "backends/vaapi/vaapi.h"

enum { SIDE = 64, TOLERANCE = 3 };

struct trial {
    enum va_kind kind;
    VASurfaceID source;
    VAImage image;
    bool have_image;
    struct va_output out;
    uint8_t fields[4][3];  // Y, Cb, Cr
    uint8_t pixels[SIDE * SIDE * 3];
    struct va_fault fault;  // why it could not be tried
};

// ---- One pass --------------------------------------------------------------

// Four fields of one colour or grey each into the image.
static void paint(const struct va *va, const struct trial *t, uint8_t *to)
{
    struct va_samples at;
    int w, h;

    for (int c = 0; c < (t->kind == VA_KIND_GRAY ? 1 : 3); c++) {
        va_samples_of(va->facts.kinds[t->kind].fourcc, t->kind, c, &at);
        va_kind_pixels(t->kind, c, &w, &h);
        for (int y = 0; y < SIDE / h; y++) {
            uint8_t *row = to + t->image.offsets[at.plane] +
                           (size_t)t->image.pitches[at.plane] * (size_t)y +
                           at.first;

            for (int x = 0; x < SIDE / w; x++)
                row[(size_t)x * at.step] =
                    t->fields[y * h / (SIDE / 2) * 2 + x * w / (SIDE / 2)][c];
        }
    }
}

// What comes out of them is in pixels then.
static bool pass(struct va *va, struct trial *t, unsigned mirror)
{
    struct va_fault *fault = &t->fault;
    const VAImage *image = &t->image;
    uint8_t *data;
    void *at = NULL;

    if (va_failed(fault, va->api.vaMapBuffer(va->display, image->buf, &at),
                  "vaMapBuffer"))
        return false;
    if (at)
        paint(va, t, at);
    va->api.vaUnmapBuffer(va->display, image->buf);
    if (!at ||
        va_failed(fault,
                  va->api.vaPutImage(va->display, t->source, image->image_id, 0,
                                     0, SIDE, SIDE, 0, 0, SIDE, SIDE),
                  "vaPutImage") ||
        !va_vpp_run(va, t->source, NULL, mirror, &t->out, fault) ||
        va_failed(fault, va->api.vaSyncSurface(va->display, t->out.surface),
                  "vaSyncSurface (RGB)") ||
        !va_vpp_map(va, &t->out, &data, fault))
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

// The middle of field f has that colour (JFIF's equations).
static bool is_right(const struct trial *t, int f, const uint8_t c[3])
{
    const uint8_t *p = t->pixels + 3 * ((f / 2 * SIDE / 2 + SIDE / 4) * SIDE +
                                        f % 2 * SIDE / 2 + SIDE / 4);
    double y = c[0], cb = c[1] - 128, cr = c[2] - 128;

    return near(y + 1.402 * cr, p[0]) &&
           near(y - .344136 * cb - .714136 * cr, p[1]) &&
           near(y + 1.772 * cb, p[2]);
}

// ---- One kind --------------------------------------------------------------

// Grey at both ends, where a limited range would be cut, and two colours. Each
// kind has its own, or a driver that leaves the surface as it was would have
// those of the kind before.
static void choose_colors(struct trial *t)
{
    static const uint8_t colors[4][3] = {
        {16, 128, 128}, {235, 128, 128}, {120, 90, 160}, {150, 170, 100}};

    memcpy(t->fields, colors, sizeof(colors));
    for (int f = 0; f < 4; f++) {
        t->fields[f][0] = (uint8_t)(colors[f][0] + 4 * (int)t->kind);
        if (t->kind == VA_KIND_GRAY)
            t->fields[f][1] = t->fields[f][2] = 128;
    }
}

// Bits VA_MIRROR_* that come out right; without the first, none. One mirror
// more is not the sum of two: Mesa knows no picture mirrored both ways.
static unsigned judge(struct va *va, struct trial *t)
{
    unsigned right = 0;

    for (unsigned mirror = 0; mirror < 4; mirror++) {
        bool all = pass(va, t, mirror);
        // Which field is seen where field 0 was.
        unsigned from = (mirror & VA_MIRROR_HORIZONTAL ? 1u : 0u) |
                        (mirror & VA_MIRROR_VERTICAL ? 2u : 0u);

        for (unsigned f = 0; f < 4 && all; f++)
            all = is_right(t, (int)f, t->fields[f ^ from]);
        right |= all ? 1u << mirror : 0;
        if (!right)
            break;
    }
    return right;
}

// All samples are inside the image.
static bool image_fits(const struct va *va, const struct trial *t)
{
    const VAImage *image = &t->image;
    struct va_samples at;
    int w, h;

    for (int c = 0; c < (t->kind == VA_KIND_GRAY ? 1 : 3); c++) {
        if (!va_samples_of(va->facts.kinds[t->kind].fourcc, t->kind, c, &at) ||
            at.plane >= image->num_planes)
            return false;
        va_kind_pixels(t->kind, c, &w, &h);
        if (image->pitches[at.plane] < (uint32_t)(SIDE / w) * at.step ||
            image->offsets[at.plane] +
                    (uint64_t)image->pitches[at.plane] * (uint32_t)(SIDE / h) >
                image->data_size)
            return false;
    }
    return true;
}

static unsigned try_kind(struct va *va, struct trial *t)
{
    const struct va_surface_kind *form = &va->facts.kinds[t->kind];
    unsigned right = 0;

    t->source = VA_INVALID_ID;
    t->fault = (struct va_fault){0};
    choose_colors(t);
    if (va_vpp_surface(va, form->rt_format, form->fourcc, SIDE, SIDE,
                       &t->source, &t->fault) &&
        (t->have_image = va_vpp_image(va, form->fourcc, SIDE, SIDE, &t->image,
                                      &t->fault)) &&
        image_fits(va, t))
        right = judge(va, t);
    if (t->have_image)
        va->api.vaDestroyImage(va->display, t->image.image_id);
    t->have_image = false;
    if (t->source != VA_INVALID_ID)
        va->api.vaDestroySurfaces(va->display, &t->source, 1);
    return right;
}

static void tell(struct va *va, const struct trial *t, unsigned right)
{
    const char *kind = va_kind_name(t->kind);
    char fourcc[8];

    va_fourcc_text(va->facts.kinds[t->kind].fourcc, fourcc);
    if (!right)
        va_log(va, HR_LOG_INFO,
               "the video processor is not used for %s (%s): %s", kind, fourcc,
               t->fault.why ? t->fault.text : "its colours are wrong");
    else if (right != VA_ALL_MIRRORS)
        va_log(va, HR_LOG_INFO, "the video processor does not flip %s (%s)%s",
               kind, fourcc, right == 1 ? "" : " every way");
}

void va_vpp_try(struct va *va, unsigned kinds)
{
    struct trial *t = hr__alloc(NULL, sizeof(*t));
    struct va_fault fault = {0};

    if (!t) {
        va_log(va, HR_LOG_WARN, "the video processor is not used: %s",
               "out of memory");
        return;
    }
    memset(t, 0, sizeof(*t));
    t->out.surface = VA_INVALID_ID;
    if (va_vpp_fit(va, &t->out, SIDE, SIDE, &fault))
        for (int k = 0; k < VA_KINDS; k++) {
            if (!(kinds >> k & 1))
                continue;
            t->kind = (enum va_kind)k;
            va->vpp.mirrors[k] = try_kind(va, t);
            tell(va, t, va->vpp.mirrors[k]);
        }
    else
        va_log(va, HR_LOG_WARN, "the video processor is not used: %s",
               fault.text);
    va_vpp_drop(va, &t->out);
    hr__free(t);
}
