// SPDX-License-Identifier: Apache-2.0
// Which format it is, and the checks that all formats share.
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "hal/header_parts.h"

void hr__limits_default(struct hr_limits *out, const struct hr_limits *in)
{
    struct hr_limits l = in ? *in : (struct hr_limits){0};

    // The reasons for the numbers are in the table of hr_limits' defaults:
    // Pillow warns at 89 Mpixel, DALI stops at 256 scans, ICC ends at 16 MB.
    if (!l.pixels)
        l.pixels = 100 * 1000 * 1000;
    if (l.side <= 0)
        l.side = 16384;
    if (!l.block_visits)
        l.block_visits = 50 * 1000 * 1000;
    if (l.scans <= 0)
        l.scans = 100;
    if (!l.item_bytes)
        l.item_bytes = (size_t)512 << 20;
    if (!l.marker_bytes)
        l.marker_bytes = (size_t)16 << 20;
    if (l.segments <= 0)
        l.segments = 4096;
    if (!l.file_bytes)
        l.file_bytes = (size_t)256 << 20;
    if (l.item_ms <= 0)
        l.item_ms = 30000;
    *out = l;
}

enum hr_status hr__header_fail(struct hr__header *h, enum hr_status status,
                               size_t offset, const char *fmt, ...)
{
    va_list args;

    h->err->offset = (int64_t)offset;
    va_start(args, fmt);
    vsnprintf(h->err->text, sizeof(h->err->text), fmt, args);
    va_end(args);
    return status;
}

enum hr_status hr__header_short(struct hr__header *h, const char *what)
{
    return hr__header_fail(h, h->whole ? HR_ETRUNCATED : HR_PENDING, h->size,
                           "the data ends in %s", what);
}

enum hr_status hr__header_check_size(struct hr__header *h, size_t offset)
{
    const struct hr_info *info = h->info;
    uint64_t pixels = (uint64_t)info->width * (uint64_t)info->height;

    if (info->width > h->limits.side || info->height > h->limits.side)
        return hr__header_fail(h, HR_ELIMIT, offset,
                               "a side of %d x %d is over the limit of %d",
                               info->width, info->height, h->limits.side);
    if (pixels > h->limits.pixels)
        return hr__header_fail(
            h, HR_ELIMIT, offset,
            "%d x %d = %llu pixels is over the limit of %llu", info->width,
            info->height, (unsigned long long)pixels,
            (unsigned long long)h->limits.pixels);
    return HR_OK;
}

enum hr_status hr__header_check_room(struct hr__header *h, size_t offset,
                                     size_t end, int count)
{
    if (count > h->limits.segments)
        return hr__header_fail(h, HR_ELIMIT, offset,
                               "over the limit of %d segments before the "
                               "picture",
                               h->limits.segments);
    if (end > h->limits.marker_bytes)
        return hr__header_fail(h, HR_ELIMIT, offset,
                               "%zu bytes before the picture, over the limit "
                               "of %zu",
                               end, h->limits.marker_bytes);
    return HR_OK;
}

// ---- What it is if it is neither ---------------------------------------------

static const struct magic {
    uint8_t at, len;
    const char *bytes, *name;
} magics[] = {
    {0, 6, "GIF87a", "a GIF picture"},
    {0, 6, "GIF89a", "a GIF picture"},
    {8, 4, "WEBP", "a WebP picture"},
    {0, 2, "BM", "a BMP picture"},
    {0, 4, "II*\0", "a TIFF picture"},
    {0, 4, "MM\0*", "a TIFF picture"},
    {0, 8, "\0\0\0\fjP  ", "a JPEG 2000 picture"},
    {0, 4, "\xFF\x4F\xFF\x51", "a JPEG 2000 codestream"},
    {0, 8, "\0\0\0\fJXL ", "a JPEG XL picture"},
    {0, 2, "\xFF\x0A", "a JPEG XL codestream"},
    {4, 8, "ftypheic", "a HEIF picture"},
    {4, 8, "ftypmif1", "a HEIF picture"},
    {4, 8, "ftypavif", "an AVIF picture"},
    {0, 4, "8BPS", "a Photoshop document"},
    {0, 4, "%PDF", "a PDF document"},
    {0, 4, "PK\3\4", "a ZIP archive"},
    {0, 2, "\x1F\x8B", "gzip data"},
    {0, 4, "\x89PNG", "a PNG damaged by a text-mode transfer"},
    {0, 6, "\xEF\xBF\xBD\xEF\xBF\xBD", "a file that was converted as text"},
};

// Whether the text behind white space begins with word, whatever its case.
static bool begins(const uint8_t *p, size_t n, const char *word)
{
    while (n && isspace(*p)) {
        p++;
        n--;
    }
    for (; *word; word++, p++, n--)
        if (!n || tolower(*p) != *word)
            return false;
    return true;
}

static const char *foreign_name(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < sizeof(magics) / sizeof(*magics); i++) {
        const struct magic *m = &magics[i];

        if (n >= (size_t)m->at + m->len && !memcmp(p + m->at, m->bytes, m->len))
            return m->name;
    }
    if (begins(p, n, "<!doctype html") || begins(p, n, "<html"))
        return "an HTML page";
    if (begins(p, n, "<svg") || begins(p, n, "<?xml"))
        return "an SVG or XML text";
    return NULL;
}

static enum hr_status not_ours(struct hr__header *h)
{
    const uint8_t *p = h->data;
    size_t n = h->size < 256 ? h->size : 256;
    const char *name = foreign_name(p, n);

    if (!n)
        return hr__header_fail(h, HR_EFORMAT, 0, "the file is empty");
    if (name)
        return hr__header_fail(h, HR_EFORMAT, 0, "%s, not a JPEG or PNG", name);
    if (n < 4)
        return hr__header_fail(h, HR_EFORMAT, 0,
                               "%zu byte%s, neither a JPEG nor a PNG", n,
                               n == 1 ? "" : "s");
    return hr__header_fail(h, HR_EFORMAT, 0,
                           "begins with %02X %02X %02X %02X, neither a JPEG "
                           "nor a PNG",
                           p[0], p[1], p[2], p[3]);
}

// ---- Entry -------------------------------------------------------------------

static const uint8_t png_signature[8] = {0x89, 'P', 'N', 'G', 13, 10, 26, 10};
static const uint8_t jpeg_prefix[3] = {0xFF, HR__JPEG_SOI, 0xFF};

static bool has_prefix(const struct hr__header *h, const void *prefix, size_t n)
{
    return h->size >= n && !memcmp(h->data, prefix, n);
}

enum hr_status hr__header_parse(const uint8_t *data, size_t size, bool whole,
                                const struct hr_limits *limits,
                                struct hr_info *info,
                                struct hr__header_error *err)
{
    struct hr__header_error none;
    struct hr__header h = {.data = data,
                           .size = size,
                           .whole = whole,
                           .info = info,
                           .err = err ? err : &none};

    hr__limits_default(&h.limits, limits);
    *info = (struct hr_info){.orientation = 1};
    // Pillow wants the third byte too (JpegImagePlugin.py, _accept).
    if (has_prefix(&h, jpeg_prefix, 3))
        info->format = HR_FORMAT_JPEG;
    else if (has_prefix(&h, png_signature, 8))
        info->format = HR_FORMAT_PNG;
    else if (size && size < 3 && !memcmp(data, jpeg_prefix, size))
        return hr__header_short(&h, "the first marker");
    else if (size && size < 8 && !memcmp(data, png_signature, size))
        return hr__header_short(&h, "the signature");
    else
        return not_ours(&h);

    if (size > h.limits.file_bytes) {
        hr__header_fail(&h, HR_ELIMIT, 0,
                        "%zu encoded bytes is over the limit of %zu", size,
                        h.limits.file_bytes);
        h.err->offset = -1;
        return HR_ELIMIT;
    }
    return info->format == HR_FORMAT_JPEG ? hr__header_jpeg(&h)
                                          : hr__header_png(&h);
}

bool hr__header_ends(enum hr_format format, const uint8_t *tail, size_t size)
{
    static const uint8_t iend[12] = {0,   0,   0,    0,    'I',  'E',
                                     'N', 'D', 0xAE, 0x42, 0x60, 0x82};

    if (format == HR_FORMAT_PNG)
        return size >= 12 && !memcmp(tail + size - 12, iend, 12);
    return size >= 2 && tail[size - 2] == 0xFF &&
           tail[size - 1] == HR__JPEG_EOI;
}
