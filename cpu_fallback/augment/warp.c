// SPDX-License-Identifier: Apache-2.0
// Pixels from other places, in readable C. Pillow src/libImaging/Geometry.c.
#include <math.h>
#include <stdbool.h>

#include "cpu_fallback/augment/augment_kernels.h"

static inline void put(uint8_t *dst, const uint8_t *pixel, int channels)
{
    dst[0] = pixel[0];
    if (channels == 1)
        return;
    dst[1] = pixel[1];
    dst[2] = pixel[2];
}

void cpu_pick_c(uint8_t *dst, const uint8_t *src, int width,
                const int32_t *columns, int w, int channels,
                const uint8_t fill[3])
{
    for (int x = 0; x < w; x++, dst += channels) {
        bool inside = columns[x] >= 0 && columns[x] < width;

        put(dst, inside ? src + (size_t)columns[x] * (size_t)channels : fill,
            channels);
    }
}

static const uint8_t *pixel_at(const struct cpu_pixels *src, int x, int y)
{
    return src->data + src->stride * (size_t)y +
           (size_t)x * (size_t)src->channels;
}

// ---- Nearest ----------------------------------------------------------------

static const uint8_t *nearest(const struct cpu_pixels *src, double x, double y,
                              const uint8_t *fill)
{
    return x >= 0 && x < src->w && y >= 0 && y < src->h
               ? pixel_at(src, (int)x, (int)y)
               : fill;
}

// 32-bit sums wrap, as there.
static void warp_fixed(uint8_t *dst, const struct cpu_pixels *src, int w, int y,
                       const struct hr__warp *warp)
{
    const int32_t *a = warp->fixed;
    uint32_t sx = (uint32_t)a[2] + (uint32_t)y * (uint32_t)a[1];
    uint32_t sy = (uint32_t)a[5] + (uint32_t)y * (uint32_t)a[4];

    for (int x = 0; x < w; x++, dst += src->channels) {
        int32_t xi = (int32_t)sx >> 16, yi = (int32_t)sy >> 16;
        bool inside = xi >= 0 && xi < src->w && yi >= 0 && yi < src->h;

        put(dst, inside ? pixel_at(src, xi, yi) : warp->fill, src->channels);
        sx += (uint32_t)a[0];
        sy += (uint32_t)a[3];
    }
}

// Pillow adds the coordinates up, row by row and then along the row, and each
// addition rounds. This does the same.
void cpu_warp_sums(const struct cpu_pixels *dst, const struct cpu_pixels *src,
                   const struct hr__warp *warp)
{
    const double *m = warp->m;
    double x0 = m[2] + m[1] * .5 + m[0] * .5, y0 = m[5] + m[4] * .5 + m[3] * .5;

    for (int y = 0; y < dst->h; y++, x0 += m[1], y0 += m[4]) {
        uint8_t *to = dst->data + dst->stride * (size_t)y;
        double sx = x0, sy = y0;

        for (int x = 0; x < dst->w; x++, to += dst->channels) {
            put(to, nearest(src, sx, sy, warp->fill), dst->channels);
            sx += m[0];
            sy += m[3];
        }
    }
}

// ---- Filters ----------------------------------------------------------------

static int within(int i, int size)
{
    return i < 0 ? 0 : i < size ? i : size - 1;
}

// x, y: of the upper left pixel of four; dx, dy: how far from its centre.
static void bilinear(uint8_t *dst, const struct cpu_pixels *src, int x, int y,
                     double dx, double dy)
{
    int left = within(x, src->w), right = within(x + 1, src->w);
    int top = within(y, src->h), bottom = y + 1 < src->h ? y + 1 : top;
    const uint8_t *a = pixel_at(src, left, top), *b = pixel_at(src, right, top);
    const uint8_t *c = pixel_at(src, left, bottom);
    const uint8_t *d = pixel_at(src, right, bottom);

    for (int i = 0; i < src->channels; i++) {
        double upper = a[i] + (b[i] - a[i]) * dx;
        double lower = c[i] + (d[i] - c[i]) * dx;

        dst[i] = (uint8_t)(upper + (lower - upper) * dy);
    }
}

static double cubic(const double v[4], double d)
{
    double p2 = -v[0] + v[2];
    double p3 = 2 * (v[0] - v[1]) + v[2] - v[3];
    double p4 = -v[0] + v[1] - v[2] + v[3];

    return v[1] + d * (p2 + d * (p3 + d * p4));
}

// A row outside repeats the one before it, the first the nearest.
static void bicubic(uint8_t *dst, const struct cpu_pixels *src, int x, int y,
                    double dx, double dy)
{
    const uint8_t *row[4];
    int at[4];

    for (int k = 0; k < 4; k++) {
        at[k] = within(x - 1 + k, src->w) * src->channels;
        row[k] = k && (y - 1 + k < 0 || y - 1 + k >= src->h)
                     ? row[k - 1]
                     : pixel_at(src, 0, within(y - 1 + k, src->h));
    }
    for (int c = 0; c < src->channels; c++) {
        double v[4], out;

        for (int k = 0; k < 4; k++)
            v[k] = cubic((double[4]){row[k][at[0] + c], row[k][at[1] + c],
                                     row[k][at[2] + c], row[k][at[3] + c]},
                         dx);
        out = cubic(v, dy);
        dst[c] = out <= 0 ? 0 : out >= 255 ? 255 : (uint8_t)out;
    }
}

static void filtered(uint8_t *dst, const struct cpu_pixels *src, double x,
                     double y, const struct hr__warp *warp)
{
    double left, top;

    if (!(x >= 0 && x < src->w && y >= 0 && y < src->h)) {
        put(dst, warp->fill, src->channels);
        return;
    }
    left = floor(x - .5);
    top = floor(y - .5);
    (warp->filter == HR_BICUBIC ? bicubic : bilinear)(dst, src, (int)left,
                                                      (int)top, x - .5 - left,
                                                      y - .5 - top);
}

void cpu_warp_pixel_c(uint8_t *dst, const struct cpu_pixels *src, int x, int y,
                      const struct hr__warp *warp)
{
    const double *m = warp->m;
    double ox = x + .5, oy = y + .5;
    double sx = m[0] * ox + m[1] * oy + m[2];
    double sy = m[3] * ox + m[4] * oy + m[5];

    if (warp->way == HR__WARP_PERSPECTIVE) {
        double under = m[6] * ox + m[7] * oy + 1;

        sx /= under;
        sy /= under;
    }
    if (warp->filter == HR_NEAREST)
        put(dst, nearest(src, sx, sy, warp->fill), src->channels);
    else
        filtered(dst, src, sx, sy, warp);
}

void cpu_warp_c(uint8_t *dst, const struct cpu_pixels *src, int w, int y,
                const struct hr__warp *warp)
{
    if (warp->way == HR__WARP_FIXED)
        warp_fixed(dst, src, w, y, warp);
    else
        for (int x = 0; x < w; x++, dst += src->channels)
            cpu_warp_pixel_c(dst, src, x, y, warp);
}
