// SPDX-License-Identifier: Apache-2.0
// Pixel formats as a table of where each component lies, and memory with
// pixels in them.
#include <string.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver.h"

// <drm_fourcc.h> is libdrm's; its codes are four letters.
#define DRM(a, b, c, d) VA_FOURCC(a, b, c, d)
#define R8 DRM('R', '8', ' ', ' ')
#define PLANAR(name, kind, sx, sy, code)                                       \
    {                                                                          \
        .fourcc = VA_FOURCC_##name, .rt = VA_RT_FORMAT_##kind,                 \
        .num_components = 3, .num_planes = 3,                                  \
        .components = {{0, 0, 1, 0, 0}, {1, 0, 1, sx, sy}, {2, 0, 1, sx, sy}}, \
        .planes = {{0, 1, 0}, {sx, 1, sy}, {sx, 1, sy}}, .drm = code,          \
        .drm_planes = {                                                        \
            R8,                                                                \
            R8,                                                                \
            R8                                                                 \
        }                                                                      \
    }
#define PACKED(name, y, u, v, code)                                        \
    {                                                                      \
        .fourcc = VA_FOURCC_##name, .rt = VA_RT_FORMAT_YUV422,             \
        .num_components = 3, .num_planes = 1,                              \
        .components = {{0, y, 2, 0, 0}, {0, u, 4, 1, 0}, {0, v, 4, 1, 0}}, \
        .planes = {{1, 4, 0}}, .drm = code, .drm_planes = {                \
            code                                                           \
        }                                                                  \
    }
#define RGB32(name, n, r, g, b, a, code)                                   \
    {                                                                      \
        .fourcc = VA_FOURCC_##name, .rt = VA_RT_FORMAT_RGB32, .rgb = true, \
        .num_components = n, .num_planes = 1,                              \
        .components = {{0, r, 4, 0, 0},                                    \
                       {0, g, 4, 0, 0},                                    \
                       {0, b, 4, 0, 0},                                    \
                       {0, a, 4, 0, 0}},                                   \
        .planes = {{0, 4, 0}}, .drm = code, .drm_planes = {                \
            code                                                           \
        }                                                                  \
    }

static const struct format formats[] = {
    {.fourcc = VA_FOURCC_NV12,
     .rt = VA_RT_FORMAT_YUV420,
     .num_components = 3,
     .num_planes = 2,
     .components = {{0, 0, 1, 0, 0}, {1, 0, 2, 1, 1}, {1, 1, 2, 1, 1}},
     .planes = {{0, 1, 0}, {1, 2, 1}},
     .drm = DRM('N', 'V', '1', '2'),
     .drm_planes = {R8, DRM('G', 'R', '8', '8')}},
    PLANAR(I420, YUV420, 1, 1, DRM('Y', 'U', '1', '2')),
    {.fourcc = VA_FOURCC_YV12,  // V comes first
     .rt = VA_RT_FORMAT_YUV420,
     .num_components = 3,
     .num_planes = 3,
     .components = {{0, 0, 1, 0, 0}, {2, 0, 1, 1, 1}, {1, 0, 1, 1, 1}},
     .planes = {{0, 1, 0}, {1, 1, 1}, {1, 1, 1}},
     .drm = DRM('Y', 'V', '1', '2'),
     .drm_planes = {R8, R8, R8}},
    {.fourcc = VA_FOURCC_IMC3,
     .rt = VA_RT_FORMAT_YUV420,
     .luma_pitch = true,
     .num_components = 3,
     .num_planes = 3,
     .components = {{0, 0, 1, 0, 0}, {1, 0, 1, 1, 1}, {2, 0, 1, 1, 1}},
     .planes = {{0, 1, 0}, {1, 1, 1}, {1, 1, 1}},
     .drm = DRM('Y', 'U', '1', '2'),
     .drm_planes = {R8, R8, R8}},
    PLANAR(422H, YUV422, 1, 0, DRM('Y', 'U', '1', '6')),
    PLANAR(422V, YUV422, 0, 1, 0),
    PLANAR(444P, YUV444, 0, 0, DRM('Y', 'U', '2', '4')),
    PLANAR(411P, YUV411, 2, 0, DRM('Y', 'U', '1', '1')),
    {.fourcc = VA_FOURCC_Y800,
     .rt = VA_RT_FORMAT_YUV400,
     .num_components = 1,
     .num_planes = 1,
     .components = {{0, 0, 1, 0, 0}},
     .planes = {{0, 1, 0}},
     .drm = R8,
     .drm_planes = {R8}},
    PACKED(YUY2, 0, 1, 3, DRM('Y', 'U', 'Y', 'V')),
    PACKED(UYVY, 1, 0, 2, DRM('U', 'Y', 'V', 'Y')),
    {.fourcc = VA_FOURCC_RGBP,
     .rt = VA_RT_FORMAT_RGBP,
     .rgb = true,
     .num_components = 3,
     .num_planes = 3,
     .components = {{0, 0, 1, 0, 0}, {1, 0, 1, 0, 0}, {2, 0, 1, 0, 0}},
     .planes = {{0, 1, 0}, {0, 1, 0}, {0, 1, 0}},
     .drm_planes = {R8, R8, R8}},
    RGB32(RGBA, 4, 0, 1, 2, 3, DRM('A', 'B', '2', '4')),
    RGB32(BGRA, 4, 2, 1, 0, 3, DRM('A', 'R', '2', '4')),
    RGB32(RGBX, 4, 0, 1, 2, 3, DRM('X', 'B', '2', '4')),
    RGB32(BGRX, 4, 2, 1, 0, 3, DRM('X', 'R', '2', '4')),
};

const struct format *format_of(uint32_t fourcc)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
        if (formats[i].fourcc == fourcc)
            return &formats[i];
    return NULL;
}

static uint32_t align_to(uint32_t value, uint32_t to)
{
    return (value + to - 1) / to * to;
}

void layout_make(struct layout *l, const struct format *f, int w, int h,
                 uint32_t pitch_align, uint32_t first)
{
    size_t at = first;

    *l = (struct layout){.format = f, .width = w, .height = h};
    for (int i = 0; i < f->num_planes; i++) {
        const struct plane *p = &f->planes[i];
        uint32_t units = ((uint32_t)w + (1u << p->xs) - 1) >> p->xs;
        uint32_t rows = ((uint32_t)h + (1u << p->ys) - 1) >> p->ys;

        l->pitch[i] = align_to(units * p->bytes, pitch_align);
        if (f->luma_pitch && i > 0)
            l->pitch[i] = l->pitch[0];
        l->offset[i] = (uint32_t)at;
        at += (size_t)l->pitch[i] * rows;
    }
    l->size = at;
}

// `shared` memory has a descriptor that can be exported.
struct memory *memory_create(const struct layout *l, bool shared)
{
    struct memory *m = calloc(1, sizeof(*m));

    if (!m)
        return NULL;
    m->refs = 1;
    m->fd = -1;
    m->layout = *l;
    if (shared) {
        m->fd = memfd_create("va-surface", MFD_CLOEXEC);
        if (m->fd < 0 || ftruncate(m->fd, (off_t)l->size) < 0)
            goto error;
        m->bytes = mmap(NULL, l->size, PROT_READ | PROT_WRITE, MAP_SHARED,
                        m->fd, 0);
        if (m->bytes == MAP_FAILED)
            goto error;
        count(&counters.memfds, 1);
    } else {
        m->bytes = calloc(1, l->size + 1);
        if (!m->bytes)
            goto error;
    }
    return m;
error:
    if (m->fd >= 0)
        close(m->fd);
    free(m);
    return NULL;
}

struct memory *memory_ref(struct memory *m)
{
    atomic_fetch_add(&m->refs, 1);
    return m;
}

void memory_unref(struct memory *m)
{
    if (!m || atomic_fetch_sub(&m->refs, 1) != 1)
        return;
    if (m->fd >= 0) {
        munmap(m->bytes, m->layout.size);
        close(m->fd);
        count(&counters.memfds, -1);
    } else {
        free(m->bytes);
    }
    free(m);
}

// x, y: of the component's own samples.
uint8_t *memory_at(const struct memory *m, const struct component *c, int x,
                   int y)
{
    return m->bytes + m->layout.offset[c->plane] +
           (size_t)y * m->layout.pitch[c->plane] + c->offset +
           (size_t)x * c->step;
}

// The mean of the samples of `from` that sample x, y of `c` covers, whose
// top left pixel is at 0, 0; pixels outside are the nearest inside.
static uint8_t covered(const struct memory *from, const struct component *f,
                       const struct component *c, int x, int y)
{
    int x0 = x << c->xs >> f->xs, x1 = ((x + 1) << c->xs) - 1;
    int y0 = y << c->ys >> f->ys, y1 = ((y + 1) << c->ys) - 1;
    int last_x = (from->layout.width - 1) >> f->xs;
    int last_y = (from->layout.height - 1) >> f->ys;
    int sum = 0, n = 0;

    x1 >>= f->xs;
    y1 >>= f->ys;
    for (int v = y0; v <= y1; v++)
        for (int u = x0; u <= x1; u++, n++)
            sum += *memory_at(from, f, u < last_x ? u : last_x,
                              v < last_y ? v : last_y);
    return (uint8_t)((sum + n / 2) / n);
}

// The same samples in other places.
static void copy_samples(struct memory *to, const struct component *t, int x0,
                         int y0, const struct memory *from,
                         const struct component *f, int from_x, int from_y,
                         int w, int h)
{
    for (int y = 0; y < h; y++) {
        uint8_t *out = memory_at(to, t, x0, y0 + y);
        const uint8_t *in = memory_at(from, f, from_x, from_y + y);

        if (t->step == 1 && f->step == 1)
            memcpy(out, in, (size_t)w);
        else
            for (int x = 0; x < w; x++)
                out[x * t->step] = in[x * f->step];
    }
}

static void copy_component(struct memory *to, int to_x, int to_y,
                           const struct memory *from, int from_x, int from_y,
                           int w, int h, int i)
{
    const struct format *tf = to->layout.format, *ff = from->layout.format;
    const struct component *t = &tf->components[i];
    int x0 = to_x >> t->xs, x1 = (to_x + w - 1) >> t->xs;
    int y0 = to_y >> t->ys, y1 = (to_y + h - 1) >> t->ys;
    int shift_x = (from_x >> t->xs) - x0, shift_y = (from_y >> t->ys) - y0;

    if (i < ff->num_components && ff->components[i].xs == t->xs &&
        ff->components[i].ys == t->ys) {
        copy_samples(to, t, x0, y0, from, &ff->components[i], x0 + shift_x,
                     y0 + shift_y, x1 - x0 + 1, y1 - y0 + 1);
        return;
    }
    for (int y = y0; y <= y1; y++) {
        for (int x = x0; x <= x1; x++) {
            uint8_t value = i == 3 ? 255 : 128;

            if (i < ff->num_components)
                value = covered(from, &ff->components[i], t, x + shift_x,
                                y + shift_y);
            *memory_at(to, t, x, y) = value;
        }
    }
}

// Same planes, same place in them: whole rows.
static bool copy_rows(struct memory *to, const struct memory *from, int w,
                      int h)
{
    const struct format *f = to->layout.format;

    for (int i = 0; i < f->num_planes; i++) {
        const struct plane *p = &f->planes[i];
        size_t bytes = (size_t)((w + (1 << p->xs) - 1) >> p->xs) * p->bytes;
        int rows = (h + (1 << p->ys) - 1) >> p->ys;

        for (int y = 0; y < rows; y++)
            memcpy(to->bytes + to->layout.offset[i] +
                       (size_t)y * to->layout.pitch[i],
                   from->bytes + from->layout.offset[i] +
                       (size_t)y * from->layout.pitch[i],
                   bytes);
    }
    return true;
}

// A rectangle that lies inside both. Chroma changes its sampling by the mean of
// the covered samples, or by repetition. False: not between these formats.
bool memory_copy(struct memory *to, int to_x, int to_y,
                 const struct memory *from, int from_x, int from_y, int w,
                 int h)
{
    const struct format *tf = to->layout.format, *ff = from->layout.format;

    if (w < 1 || h < 1)
        return true;
    if (tf == ff && !to_x && !to_y && !from_x && !from_y)
        return copy_rows(to, from, w, h);
    if (tf->rgb != ff->rgb)
        return false;
    for (int i = 0; i < tf->num_components; i++)
        copy_component(to, to_x, to_y, from, from_x, from_y, w, h, i);
    return true;
}
