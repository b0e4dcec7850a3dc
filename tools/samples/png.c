// SPDX-License-Identifier: Apache-2.0
#include "png.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

static void on_error(png_structp png, png_const_charp text)
{
    (void)text;
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void on_write(png_structp png, png_bytep data, png_size_t size)
{
    samples_bytes_add(png_get_io_ptr(png), data, size);
}

static void on_flush(png_structp png)
{
    (void)png;
}

// ITU-R BT.601 luma as libjpeg rounds it, so both formats show the same gray.
static int luma(const uint8_t *rgb)
{
    return (19595 * rgb[0] + 38470 * rgb[1] + 7471 * rgb[2] + 32768) >> 16;
}

// A palette of 16 has two bits of green, one of red and blue; one of 256 has
// 3-3-2.
static int palette_index(const uint8_t *rgb, int depth)
{
    if (depth == 8)
        return (rgb[0] >> 5) << 5 | (rgb[1] >> 5) << 2 | rgb[2] >> 6;
    return ((rgb[0] >> 7) << 3 | (rgb[1] >> 6) << 1 | rgb[2] >> 7) >>
           (4 - depth);
}

static void set_palette(png_structp png, png_infop info,
                        const struct samples_png *p)
{
    png_color colors[256];
    png_byte alpha[256];
    int n = 1 << p->depth;
    for (int i = 0; i < n; i++) {
        int j = p->depth == 8 ? i : i << (4 - p->depth);
        if (p->depth == 8)
            colors[i] = (png_color){(png_byte)((j >> 5) * 255 / 7),
                                    (png_byte)((j >> 2 & 7) * 255 / 7),
                                    (png_byte)((j & 3) * 85)};
        else
            colors[i] = (png_color){(png_byte)((j >> 3) * 255),
                                    (png_byte)((j >> 1 & 3) * 85),
                                    (png_byte)((j & 1) * 255)};
        alpha[i] = (png_byte)(255 - i * 255 / n);
    }
    png_set_PLTE(png, info, colors, n);
    if (p->alpha == SAMPLES_TRNS)
        png_set_tRNS(png, info, alpha, n, NULL);
}

static void set_header(png_structp png, png_infop info,
                       const struct samples_png *p, int w, int h)
{
    int type = p->palette ? PNG_COLOR_TYPE_PALETTE
               : p->gray  ? PNG_COLOR_TYPE_GRAY
                          : PNG_COLOR_TYPE_RGB;
    if (p->alpha == SAMPLES_ALPHA)
        type |= PNG_COLOR_MASK_ALPHA;
    png_set_IHDR(png, info, (png_uint_32)w, (png_uint_32)h, p->depth, type,
                 p->interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (p->palette) {
        set_palette(png, info, p);
    } else if (p->alpha == SAMPLES_TRNS) {
        png_color_16 clear = {.red = 64, .green = 64, .blue = 64, .gray = 64};
        png_set_tRNS(png, info, NULL, 0, &clear);
    }
}

static png_bytep put(png_bytep out, int v, int depth, int x, int y)
{
    *out++ = (png_byte)v;
    if (depth == 16)  // low bytes that no 8-bit picture would have
        *out++ = (png_byte)(v * 37 + x * 11 + y * 3);
    return out;
}

static void fill_row(const struct samples_png *p,
                     const struct samples_picture *s, int y, png_bytep out)
{
    const uint8_t *rgb = s->rgb + 3 * (size_t)y * (size_t)s->w;
    int shift = 8 - p->depth;
    memset(out, 0, (size_t)s->w);
    for (int x = 0; x < s->w; x++, rgb += 3) {
        if (p->palette || p->depth < 8) {
            int v = p->palette ? palette_index(rgb, p->depth)
                               : luma(rgb) >> shift;
            int bit = x * p->depth;
            out[bit / 8] = (png_byte)(out[bit / 8] | v << (shift - bit % 8));
            continue;
        }
        if (p->gray)
            out = put(out, luma(rgb), p->depth, x, y);
        for (int c = 0; c < 3 && !p->gray; c++)
            out = put(out, rgb[c], p->depth, x, y);
        if (p->alpha == SAMPLES_ALPHA)
            out = put(out, x * 255 / s->w, p->depth, x, y);
    }
}

static bool encode(png_structp png, png_infop info, png_bytep row,
                   const struct samples_png *p, const struct samples_picture *s)
{
    int passes;
    if (setjmp(png_jmpbuf(png)))
        return false;
    set_header(png, info, p, s->w, s->h);
    png_set_compression_level(png, 6);
    png_write_info(png, info);
    passes = png_set_interlace_handling(png);
    for (int i = 0; i < passes; i++) {
        for (int y = 0; y < s->h; y++) {
            fill_row(p, s, y, row);
            png_write_row(png, row);
        }
    }
    png_write_end(png, info);
    return true;
}

bool samples_png_encode(const struct samples_png *params,
                        const struct samples_picture *p,
                        struct samples_bytes *out)
{
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL,
                                              on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    png_bytep row = malloc(8 * (size_t)p->w);
    bool ok = false;
    if (info && row) {
        png_set_write_fn(png, out, on_write, on_flush);
        ok = encode(png, info, row, params, p) && !out->failed;
    }
    png_destroy_write_struct(&png, &info);
    free(row);
    return ok;
}
