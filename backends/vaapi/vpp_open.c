// SPDX-License-Identifier: Apache-2.0
// Opens the video processor and tests it: some are wrong in colours or in
// flips, and not for every kind of picture alike. When a device is first opened
// four colours go through it for each kind that the driver lists, as they are
// and mirrored; a kind, or a mirror, that does not come out right is not used.
#include <string.h>

#include "backends/vaapi/vaapi.h"

enum { SIDE = 64, TOLERANCE = 3, ALL_MIRRORS = 15 };

struct trial {
    enum hr_jpeg_kind kind;
    struct hr__planes planes;
    VASurfaceID source;
    VAImage image;
    struct va_output out;
    uint8_t fields[4][3];  // Y, Cb, Cr
    uint8_t pixels[SIDE * SIDE * 3];
    struct va_fault fault;  // why it could not be tried
};

// ---- One pass --------------------------------------------------------------

// Four fields of one colour or grey each into the image.
static void paint(const struct trial *t, uint8_t *to)
{
    for (uint32_t c = 0; c < t->planes.num_components; c++) {
        const struct hr__plane *p = &t->planes.comp[c];

        for (uint32_t y = 0; y < p->rows; y++)
            for (uint32_t x = 0; x < p->cols; x++)
                to[p->at + (size_t)p->stride * y + (size_t)p->step * x] =
                    t->fields[2 * y / p->rows * 2 + 2 * x / p->cols][c];
    }
}

// Runs the fields through the processor; t->pixels has the result.
static bool pass(struct va *va, struct trial *t, unsigned mirror)
{
    struct va_fault *fault = &t->fault;
    const VAImage *image = &t->image;
    uint8_t *data;

    if (!va_map_image(va, image, &data, fault))
        return false;
    paint(t, data);
    va->api.vaUnmapBuffer(va->display, image->buf);
    if (!VA_OK(va, fault, vaPutImage, t->source, image->image_id, 0, 0, SIDE,
               SIDE, 0, 0, SIDE, SIDE) ||
        !va_vpp_run(va, t->source, NULL, mirror, &t->out, fault) ||
        !VA_OK(va, fault, vaSyncSurface, t->out.surface) ||
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
        if (t->kind == HR_KIND_GRAY)
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
        // The field that is seen where field 0 was.
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

static unsigned try_kind(struct va *va, struct trial *t)
{
    const struct va_surface_kind *form = &va->facts.kinds[t->kind];
    struct hr_info info = va_kind_info(t->kind, SIDE, SIDE);
    unsigned right = 0;

    t->fault = (struct va_fault){0};
    choose_colors(t);
    va_plan_planes(&info, &t->planes);
    if (!va_make_surface(va, form->rt_format, form->fourcc, SIDE, SIDE,
                         &t->source, &t->fault))
        return 0;
    if (va_make_image(va, form->fourcc, SIDE, SIDE, &t->image, &t->fault)) {
        if (va_place(va, t->kind, &t->planes, &t->image, &t->fault))
            right = judge(va, t);
        va_drop_image(va, &t->image);
    }
    va_drop_surface(va, &t->source);
    return right;
}

static void tell(struct va *va, const struct trial *t, unsigned right)
{
    const char *kind = hr_jpeg_kind_name(t->kind);
    char fourcc[8];

    va_fourcc_text(va->facts.kinds[t->kind].fourcc, fourcc);
    if (!right)
        va_log(va, HR_LOG_INFO,
               "the video processor is not used for %s (%s): %s", kind, fourcc,
               t->fault.why ? t->fault.text : "its colours are wrong");
    else if (right != ALL_MIRRORS)
        va_log(va, HR_LOG_INFO, "the video processor does not flip %s (%s)%s",
               kind, fourcc, right == 1 ? "" : " every way");
}

// va->vpp.mirrors of these kinds, by bits. False: nothing could be tried.
static bool try_kinds(struct va *va, unsigned kinds, struct va_fault *fault)
{
    struct trial *t = hr__alloc(NULL, sizeof(*t));
    bool ok;

    if (!t)
        return va_wrong(fault, "out of memory");
    memset(t, 0, sizeof(*t));
    t->out = VA_NO_OUTPUT;
    ok = va_vpp_fit(va, &t->out, SIDE, SIDE, fault);
    for (int k = 0; k < HR_NUM_KINDS && ok; k++) {
        if (!(kinds >> k & 1))
            continue;
        t->kind = (enum hr_jpeg_kind)k;
        va->vpp.mirrors[k] = try_kind(va, t);
        tell(va, t, va->vpp.mirrors[k]);
    }
    va_vpp_drop(va, &t->out);
    hr__free(t);
    return ok;
}

// ---- Open and close --------------------------------------------------------

void va_vpp_open(struct va *va)
{
    int w = va->facts.max_w < VA_VPP_SIDE ? va->facts.max_w : VA_VPP_SIDE;
    int h = va->facts.max_h < VA_VPP_SIDE ? va->facts.max_h : VA_VPP_SIDE;
    bool tried = va->vpp.tried;
    struct va_fault fault = {0};
    unsigned kinds = 0;

    if (!va->facts.vpp || !va->api.vaPutImage ||
        va->facts.driver->quirks & (VA_QUIRK_NO_VPP | VA_QUIRK_NO_FOURCC) ||
        (tried && !va_vpp_any(va)))
        return;
    va->vpp.tried = true;
    if (!va_make_config(va, VAProfileNone, VAEntrypointVideoProc,
                        &va->vpp.config, &fault) ||
        (!tried && !va_vpp_formats(va, &kinds)) ||
        !va_make_context(va, va->vpp.config, w, h, &va->vpp.context, &fault) ||
        (!tried && !try_kinds(va, kinds, &fault)) || !va_vpp_any(va))
        va_vpp_close(va);
    if (fault.why)
        va_log(va, HR_LOG_WARN, "the video processor is not used: %s",
               fault.text);
}

void va_vpp_close(struct va *va)
{
    va_drop_context(va, &va->vpp.context);
    va_drop_config(va, &va->vpp.config);
}
