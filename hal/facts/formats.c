// SPDX-License-Identifier: Apache-2.0
// The table of formats. A new one is a row here, a parser, and a row of
// backends/cpu/rows.c with its decoder.
#include <string.h>

#include "hal/facts/parts.h"

// A picture's head says where it ends.
static bool ends_elsewhere(const uint8_t *tail, size_t size)
{
    (void)tail;
    (void)size;
    return false;
}

// Pillow keeps four bytes of each pixel, twice while it converts.
static size_t other_bytes(const struct hr_info *info)
{
    size_t w = (size_t)info->width, h = (size_t)info->height;

    if (w > SIZE_MAX / 32 / h)
        return SIZE_MAX / 2;
    return hr__rows_bytes(info) + w * h * 16;
}

// Pillow wants a JPEG's third byte, too (JpegImagePlugin.py, _accept).
static const struct hr__format formats[] = {
    {HR_FORMAT_JPEG,
     {"jpeg", ".jpg .jpeg .jpe .jfif .mpo"},
     3,
     "\xFF\xD8\xFF",
     "the first marker",
     hr__header_jpeg,
     hr__jpeg_ends,
     hr__jpeg_bytes},
    {HR_FORMAT_PNG,
     {"png", ".png"},
     8,
     "\x89PNG\r\n\x1A\n",
     "the signature",
     hr__header_png,
     hr__png_ends,
     hr__png_bytes},
    {HR_FORMAT_PACKED,
     {"packed", ""},
     4,
     "HRPK",
     NULL,
     hr__header_packed,
     ends_elsewhere,
     hr__jpeg_bytes},
    {HR_FORMAT_WEBP,
     {"webp", ".webp"},
     4,
     "RIFF",
     "the RIFF header",
     hr__header_webp,
     ends_elsewhere,
     hr__webp_bytes},
    {HR_FORMAT_BMP,
     {"bmp", ".bmp"},
     2,
     "BM",
     "the file header",
     hr__header_bmp,
     ends_elsewhere,
     hr__bmp_bytes},
    {HR_FORMAT_PNM,
     {"pnm", ".pgm .ppm"},
     1,
     "P",
     "the magic number",
     hr__header_pnm,
     ends_elsewhere,
     hr__rows_bytes},
    // The other suffixes that torchvision's ImageFolder takes for pictures.
    {HR_FORMAT_OTHER,
     {"other", ".tif .tiff"},
     0,
     NULL,
     NULL,
     NULL,
     ends_elsewhere,
     other_bytes},
};

enum { FORMATS = sizeof(formats) / sizeof(*formats) };

const struct hr__format *hr__format_of(const uint8_t *data, size_t size)
{
    const struct hr__format *f = formats;

    while (f < formats + FORMATS && (!f->magic || size < f->magic_size ||
                                     memcmp(data, f->magic, f->magic_size)))
        f++;
    return f < formats + FORMATS ? f : NULL;
}

const char *hr__format_begun(const uint8_t *data, size_t size)
{
    for (int i = 0; i < FORMATS; i++)
        if (formats[i].first && size && size < formats[i].magic_size &&
            !memcmp(data, formats[i].magic, size))
            return formats[i].first;
    return NULL;
}

const struct hr_format_info *hr_format_info(enum hr_format format)
{
    for (int i = 0; i < FORMATS; i++)
        if (formats[i].format == format)
            return &formats[i].info;
    return NULL;
}

// Returns the row of a format that a parser has found.
static const struct hr__format *row(enum hr_format format)
{
    int i = FORMATS - 1;

    while (i && formats[i].format != format)
        i--;
    return &formats[i];
}

bool hr__header_ends(enum hr_format format, const uint8_t *tail, size_t size)
{
    return row(format)->ends(tail, size);
}

size_t hr__decode_bytes(const struct hr_info *info)
{
    return row(info->format)->memory(info);
}
