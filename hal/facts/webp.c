// SPDX-License-Identifier: Apache-2.0
// WebP: the RIFF container and the headers of its pictures (RFC 9649).
#include <string.h>

#include "hal/facts/parts.h"

enum { RIFF = 12, CHUNK = 8 };  // sizes of their headers
enum { FLAG_EXIF = 8, FLAG_ALPHA = 16 };

static uint32_t le24(const uint8_t *p)
{
    return (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

static enum hr_status set_size(struct hr__header *h, size_t at, uint32_t w,
                               uint32_t height, bool alpha)
{
    struct hr_info *info = h->info;

    info->width = (int)w;
    info->height = (int)height;
    info->components = alpha ? 4 : 3;
    info->precision = 8;
    info->color = HR_COLOR_RGB;
    if (!w || !height)
        return hr__header_fail(h, HR_ECORRUPT, at, "size %lu x %lu",
                               (unsigned long)w, (unsigned long)height);
    return hr__header_check_size(h, at);
}

// A key frame of VP8: three bytes of flags, a start code, two sizes of 14 bits
// and their scales (RFC 6386, 9.1).
static enum hr_status read_lossy(struct hr__header *h, size_t at)
{
    const uint8_t *p = h->data + at;

    h->info->header_size = at + 10;
    if (h->size < at + 10)
        return hr__header_short(h, "the frame header");
    if (p[0] & 1 || memcmp(p + 3, "\x9D\x01\x2A", 3))
        return hr__header_fail(h, HR_ECORRUPT, at, "VP8: no key frame");
    return set_size(h, at + 6, hr__le32(p + 6) & 0x3FFF,
                    hr__le32(p + 6) >> 16 & 0x3FFF, false);
}

// A byte, two sizes of 14 bits, a bit for alpha, and a version of 0.
static enum hr_status read_lossless(struct hr__header *h, size_t at)
{
    const uint8_t *p = h->data + at;
    uint32_t bits;

    h->info->header_size = at + 5;
    if (h->size < at + 5)
        return hr__header_short(h, "the frame header");
    bits = hr__le32(p + 1);
    if (p[0] != 0x2F || bits >> 29)
        return hr__header_fail(h, HR_ECORRUPT, at, "VP8L: wrong signature");
    return set_size(h, at + 1, (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1,
                    bits >> 28 & 1);
}

static void read_exif(struct hr__header *h, const uint8_t *p, size_t length)
{
    size_t mark = length >= 6 && !memcmp(p, "Exif\0", 6) ? 6 : 0;

    h->info->orientation = hr__exif_orientation(p + mark, length - mark);
}

// The decoder will miss it, too, and says that the file is cut short.
static enum hr_status cut(struct hr__header *h)
{
    h->info->header_size = h->size;
    return h->whole ? HR_OK : hr__header_short(h, "a chunk");
}

// The EXIF block may stand behind the picture. If the chain of chunks is
// damaged, the decoder says how.
static enum hr_status find_exif(struct hr__header *h, size_t at, size_t end)
{
    size_t length;

    for (; at < end && end - at >= CHUNK; at += CHUNK + length + (length & 1)) {
        const uint8_t *p = h->data + at;

        if (at > h->size || h->size - at < CHUNK)
            return cut(h);
        length = hr__le32(p + 4);
        h->info->header_size = at + CHUNK;
        if (!memcmp(p, "EXIF", 4)) {
            if (length > h->size - at - CHUNK)
                return cut(h);
            h->info->header_size += length;
            read_exif(h, p + CHUNK, length);
            break;
        }
        if (length > end - at - CHUNK)
            break;
    }
    return HR_OK;
}

static enum hr_status read_extended(struct hr__header *h, size_t at, size_t end)
{
    const uint8_t *p = h->data + at;
    enum hr_status status;

    h->info->header_size = at + 10;
    if (h->size < at + 10)
        return hr__header_short(h, "the VP8X chunk");
    if (hr__le32(p - 4) < 10)
        return hr__header_fail(h, HR_ECORRUPT, at, "VP8X chunk of %lu bytes",
                               (unsigned long)hr__le32(p - 4));
    status = set_size(h, at + 4, le24(p + 4) + 1, le24(p + 7) + 1,
                      p[0] & FLAG_ALPHA);
    return status || !(p[0] & FLAG_EXIF)
               ? status
               : find_exif(h, at + hr__le32(p - 4) + (hr__le32(p - 4) & 1),
                           end);
}

// libwebp keeps four bytes of each pixel of a lossless picture, or of its
// alpha, and rows; the decoder all pixels.
size_t hr__webp_bytes(const struct hr_info *info)
{
    size_t w = (size_t)info->width, h = (size_t)info->height;

    if (w > SIZE_MAX / 32 / h)
        return SIZE_MAX / 2;
    return hr__rows_bytes(info) + w * h * 8;
}

// Pillow takes a RIFF file for a WebP picture by the first chunk, too.
enum hr_status hr__header_webp(struct hr__header *h)
{
    const uint8_t *p = h->data;
    enum hr_status status;
    size_t end;

    if (h->size < RIFF + CHUNK)
        return h->size >= RIFF && memcmp(p + 8, "WEBP", 4)
                   ? hr__header_foreign(h)
                   : hr__header_short(h, "the RIFF header");
    if (memcmp(p + 8, "WEBPVP8", 7))
        return hr__header_foreign(h);
    end = (size_t)hr__le32(p + 4) + 8;
    if (p[15] == ' ')
        status = read_lossy(h, RIFF + CHUNK);
    else if (p[15] == 'L')
        status = read_lossless(h, RIFF + CHUNK);
    else if (p[15] == 'X')
        status = read_extended(h, RIFF + CHUNK, end);
    else
        return hr__header_foreign(h);
    h->info->ends = end <= h->file;
    return status;
}
