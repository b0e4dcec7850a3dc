// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>

#include <png.h>

#include "parts.h"
#include "tools/common/out_file.h"

static void on_write(png_structp png, png_bytep data, size_t size)
{
    if (!out_file_write(png_get_io_ptr(png), data, size))
        png_error(png, "write");
}

static void on_flush(png_structp png)
{
    (void)png;
}

static void on_error(png_structp png, png_const_charp text)
{
    (void)text;
    longjmp(png_jmpbuf(png), 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void write_rows(png_structp png, png_infop info,
                       const unsigned char *pixels, int w, int h, int c,
                       size_t stride)
{
    png_set_IHDR(png, info, (png_uint_32)w, (png_uint_32)h, 8,
                 c == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    // Half the time of the usual level, for files that are not to be kept long.
    png_set_compression_level(png, 1);
    png_write_info(png, info);
    for (int y = 0; y < h; y++)
        png_write_row(png, pixels + stride * (size_t)y);
    png_write_end(png, info);
}

bool pack_png_write(struct out_file *file, const unsigned char *pixels, int w,
                    int h, int c, size_t stride)
{
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL,
                                              on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    volatile bool ok = false;

    errno = ENOMEM;
    if (info && !setjmp(png_jmpbuf(png))) {
        png_set_write_fn(png, file, on_write, on_flush);
        write_rows(png, info, pixels, w, h, c, stride);
        ok = true;
    }
    if (!ok && file->error)
        errno = file->error;
    if (png)
        png_destroy_write_struct(&png, info ? &info : NULL);
    return ok;
}
