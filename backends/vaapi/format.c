// SPDX-License-Identifier: Apache-2.0
// Surface formats: the fourcc that a picture of a kind is decoded to, its
// planes, and where each component's samples lie in an image.
#include <string.h>

#include "backends/vaapi/vaapi.h"

enum { MAX_FOURCCS = 5 };

static const struct {
    unsigned rt_format;
    uint8_t factors;  // of the first component; the others have 1 x 1
    uint32_t fourccs[MAX_FOURCCS];  // best first
} kinds[HR_NUM_KINDS] = {
    [HR_KIND_GRAY] = {VA_RT_FORMAT_YUV400, 0x11, {VA_FOURCC_Y800}},
    [HR_KIND_420] = {VA_RT_FORMAT_YUV420,
                     0x22,
                     {VA_FOURCC_NV12, VA_FOURCC_IMC3, VA_FOURCC_I420,
                      VA_FOURCC_YV12}},
    [HR_KIND_422] = {VA_RT_FORMAT_YUV422,
                     0x21,
                     {VA_FOURCC_422H, VA_FOURCC_YUY2, VA_FOURCC_UYVY}},
    [HR_KIND_440] = {VA_RT_FORMAT_YUV422, 0x12, {VA_FOURCC_422V}},
    [HR_KIND_444] = {VA_RT_FORMAT_YUV444, 0x11, {VA_FOURCC_444P}},
    [HR_KIND_411] = {VA_RT_FORMAT_YUV411, 0x41, {VA_FOURCC_411P}},
};

static bool surface_of(enum hr_jpeg_kind kind, unsigned rt_formats,
                       const uint32_t *fourccs, int n,
                       struct va_surface_kind *out)
{
    if (!(rt_formats & kinds[kind].rt_format))
        return false;
    for (int i = 0; i < MAX_FOURCCS && kinds[kind].fourccs[i]; i++)
        for (int k = 0; k < n; k++)
            if (fourccs[k] == kinds[kind].fourccs[i]) {
                out->rt_format = kinds[kind].rt_format;
                out->fourcc = fourccs[k];
                return true;
            }
    return false;
}

void va_kind_surface(enum hr_jpeg_kind kind, unsigned rt_formats,
                     const uint32_t *fourccs, int n,
                     struct va_surface_kind *out)
{
    *out = (struct va_surface_kind){0};
    if (!surface_of(kind, rt_formats, fourccs, n, out) && kind == HR_KIND_GRAY)
        surface_of(HR_KIND_420, rt_formats, fourccs, n, out);
}

// ---- Samples ---------------------------------------------------------------

// The kind that an image of this fourcc holds; grey is the luma of any. Planes
// have the numbers that they have in the VAImage.
static const struct {
    uint32_t fourcc;
    enum hr_jpeg_kind kind;
    struct va_samples comp[3];
} layouts[] = {
    {VA_FOURCC_Y800, HR_KIND_GRAY, {{0, 0, 1}}},
    {VA_FOURCC_Y8, HR_KIND_GRAY, {{0, 0, 1}}},
    {VA_FOURCC_NV12, HR_KIND_420, {{0, 0, 1}, {1, 0, 2}, {1, 1, 2}}},
    {VA_FOURCC_NV21, HR_KIND_420, {{0, 0, 1}, {1, 1, 2}, {1, 0, 2}}},
    {VA_FOURCC_IMC3, HR_KIND_420, {{0, 0, 1}, {1, 0, 1}, {2, 0, 1}}},
    {VA_FOURCC_I420, HR_KIND_420, {{0, 0, 1}, {1, 0, 1}, {2, 0, 1}}},
    {VA_FOURCC_IYUV, HR_KIND_420, {{0, 0, 1}, {1, 0, 1}, {2, 0, 1}}},
    {VA_FOURCC_YV12, HR_KIND_420, {{0, 0, 1}, {2, 0, 1}, {1, 0, 1}}},
    {VA_FOURCC_422H, HR_KIND_422, {{0, 0, 1}, {1, 0, 1}, {2, 0, 1}}},
    {VA_FOURCC_YUY2, HR_KIND_422, {{0, 0, 2}, {0, 1, 4}, {0, 3, 4}}},
    {VA_FOURCC('Y', 'U', 'Y', 'V'),  // Mesa's name for YUY2
     HR_KIND_422,
     {{0, 0, 2}, {0, 1, 4}, {0, 3, 4}}},
    {VA_FOURCC_UYVY, HR_KIND_422, {{0, 1, 2}, {0, 0, 4}, {0, 2, 4}}},
    {VA_FOURCC_422V, HR_KIND_440, {{0, 0, 1}, {1, 0, 1}, {2, 0, 1}}},
    {VA_FOURCC_444P, HR_KIND_444, {{0, 0, 1}, {1, 0, 1}, {2, 0, 1}}},
    {VA_FOURCC_411P, HR_KIND_411, {{0, 0, 1}, {1, 0, 1}, {2, 0, 1}}},
};

bool va_samples_of(uint32_t fourcc, enum hr_jpeg_kind kind, int c,
                   struct va_samples *out)
{
    for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++)
        if (layouts[i].fourcc == fourcc &&
            (layouts[i].kind == kind || kind == HR_KIND_GRAY)) {
            *out = layouts[i].comp[c];
            return true;
        }
    return false;
}

int va_fourcc_kind(uint32_t fourcc)
{
    for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++)
        if (layouts[i].fourcc == fourcc)
            return (int)layouts[i].kind;
    return -1;
}

struct hr_info va_kind_info(enum hr_jpeg_kind kind, int w, int h)
{
    return (struct hr_info){.width = w,
                            .height = h,
                            .components = kind == HR_KIND_GRAY ? 1 : 3,
                            .h = {kinds[kind].factors >> 4, 1, 1},
                            .v = {kinds[kind].factors & 15, 1, 1}};
}

void va_plan_planes(const struct hr_info *info, struct hr__planes *p)
{
    *p = (struct hr__planes){.num_components = (uint32_t)info->components,
                             .color = (uint32_t)info->color,
                             .h_max = 1,
                             .v_max = 1,
                             .w = (uint32_t)info->width,
                             .h = (uint32_t)info->height};
    for (uint32_t i = 0; i < p->num_components; i++) {
        // The factors of the only component mean nothing.
        p->comp[i].h = p->num_components == 1 ? 1 : info->h[i];
        p->comp[i].v = p->num_components == 1 ? 1 : info->v[i];
        p->h_max = p->comp[i].h > p->h_max ? p->comp[i].h : p->h_max;
        p->v_max = p->comp[i].v > p->v_max ? p->comp[i].v : p->v_max;
    }
    for (uint32_t i = 0; i < p->num_components; i++) {
        struct hr__plane *c = &p->comp[i];

        c->width = c->cols = (p->w * c->h + p->h_max - 1) / p->h_max;
        c->height = c->rows = (p->h * c->v + p->v_max - 1) / p->v_max;
    }
}

void va_fourcc_text(uint32_t fourcc, char text[8])
{
    for (int i = 0; i < 4; i++) {
        char c = (char)(fourcc >> 8 * i & 0xff);

        text[i] = c > ' ' && c < 127 ? c : '?';
    }
    text[4] = '\0';
}
