// SPDX-License-Identifier: Apache-2.0
// PNG: IHDR and the chunks before the picture data (W3C PNG, third edition).
#include <string.h>

#include "hal/facts/parts.h"

enum { SIGNATURE = 8, CHUNK = 12, IHDR = 13 };  // CHUNK: length, type, CRC

#define TYPE(a, b, c, d) \
    ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (d))

// By colour type: channels, and the bit depths that go with it as a mask.
static const struct {
    uint8_t channels;
    uint32_t depths;
} color_types[7] = {
    [0] = {1, 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8 | 1 << 16},
    [2] = {3, 1 << 8 | 1 << 16},
    [3] = {3, 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8},  // palette of RGB
    [4] = {2, 1 << 8 | 1 << 16},
    [6] = {4, 1 << 8 | 1 << 16},
};

// CRC-32 of ISO 3309, bit by bit: it runs over the 17 bytes of one IHDR.
static uint32_t crc32_of(const uint8_t *p, size_t n)
{
    uint32_t crc = 0xFFFFFFFF;

    for (; n; n--, p++) {
        crc ^= *p;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
    }
    return ~crc;
}

static enum hr_status read_ihdr(struct hr__header *h, const uint8_t *p)
{
    struct hr_info *info = h->info;
    size_t at = SIGNATURE + 8;
    uint32_t w = hr__be32(p), height = hr__be32(p + 4);
    unsigned depth = p[8], type = p[9];

    if (crc32_of(p - 4, IHDR + 4) != hr__be32(p + IHDR))
        return hr__header_fail(h, HR_ECORRUPT, at, "IHDR: wrong checksum");
    if (!w || !height || w > INT32_MAX || height > INT32_MAX)
        return hr__header_fail(h, HR_ECORRUPT, at, "IHDR: size %lu x %lu",
                               (unsigned long)w, (unsigned long)height);
    info->width = (int)w;
    info->height = (int)height;
    info->precision = (int)depth;
    if (type > 6 || depth > 16 || !(color_types[type].depths >> depth & 1))
        return hr__header_fail(h, HR_ECORRUPT, at + 8,
                               "IHDR: bit depth %u with colour type %u", depth,
                               type);
    info->components = color_types[type].channels;
    info->color = type & 2 ? HR_COLOR_RGB : HR_COLOR_GRAY;
    if (p[10] || p[11] || p[12] > 1)
        return hr__header_fail(h, HR_EUNSUPPORTED, at + 10,
                               "IHDR: compression %u, filter %u, interlace %u",
                               p[10], p[11], p[12]);
    info->adam7 = p[12] == 1;
    return hr__header_check_size(h, at);
}

static bool is_letter(unsigned c)
{
    return (c | 32) >= 'a' && (c | 32) <= 'z';
}

// Length and type of the chunk at pos; its data may lie behind the end.
static enum hr_status read_chunk(struct hr__header *h, size_t pos,
                                 uint32_t *length, uint32_t *type)
{
    const uint8_t *p = h->data + pos;

    if (h->size - pos < 8)
        return hr__header_short(h, "a chunk header");
    *length = hr__be32(p);
    *type = hr__be32(p + 4);
    if (*length > INT32_MAX)
        return hr__header_fail(h, HR_ECORRUPT, pos, "chunk length %lu",
                               (unsigned long)*length);
    for (int i = 4; i < 8; i++)
        if (!is_letter(p[i]))
            return hr__header_fail(h, HR_ECORRUPT, pos + 4, "chunk type %08lX",
                                   (unsigned long)*type);
    return HR_OK;
}

// Says whether an IEND chunk follows, for files with bytes behind it.
static bool find_end(struct hr__header *h, size_t pos)
{
    uint32_t length, type;

    while (read_chunk(h, pos, &length, &type) == HR_OK) {
        if (h->size - pos < CHUNK || h->size - pos - CHUNK < length)
            return false;
        if (type == TYPE('I', 'E', 'N', 'D'))
            return true;
        pos += CHUNK + length;
    }
    return false;
}

static enum hr_status walk(struct hr__header *h, size_t pos)
{
    bool palette = h->data[SIGNATURE + 8 + 9] == 3;
    uint32_t length, type;

    for (int count = 2;; count++) {
        enum hr_status status = read_chunk(h, pos, &length, &type);

        if (status != HR_OK)
            return status;
        if (type == TYPE('I', 'D', 'A', 'T'))
            break;
        if (type == TYPE('I', 'E', 'N', 'D'))
            return hr__header_fail(h, HR_ECORRUPT, pos, "no IDAT chunk");
        status = hr__header_check_room(h, pos, pos + CHUNK + (size_t)length,
                                       count);
        if (status != HR_OK)
            return status;
        if (h->size - pos < CHUNK || h->size - pos - CHUNK < length)
            return hr__header_short(h, "a chunk");
        if (type == TYPE('P', 'L', 'T', 'E'))
            palette = false;
        if (type == TYPE('e', 'X', 'I', 'f'))
            h->info->orientation = hr__exif_orientation(h->data + pos + 8,
                                                        length);
        pos += CHUNK + (size_t)length;
    }
    if (palette)
        return hr__header_fail(h, HR_ECORRUPT, pos, "no PLTE chunk");
    h->info->header_size = pos + 8;
    if (h->whole)
        h->info->ends = hr__png_ends(h->data, h->size) || find_end(h, pos);
    return HR_OK;
}

bool hr__png_ends(const uint8_t *tail, size_t size)
{
    static const uint8_t iend[12] = {0,   0,   0,    0,    'I',  'E',
                                     'N', 'D', 0xAE, 0x42, 0x60, 0x82};

    return size >= 12 && !memcmp(tail + size - 12, iend, 12);
}

// Interlaced ones need all pixels.
size_t hr__png_bytes(const struct hr_info *info)
{
    size_t w = (size_t)info->width, h = (size_t)info->height;

    // (Sides are below 2^31, but a user may lift every other limit.)
    if (w > SIZE_MAX / 16 / h)
        return SIZE_MAX / 2;
    return hr__rows_bytes(info) + (info->adam7 ? w * h * 8 : 0);
}

enum hr_status hr__header_png(struct hr__header *h)
{
    size_t end = SIGNATURE + CHUNK + IHDR;
    uint32_t length, type;
    enum hr_status status = read_chunk(h, SIGNATURE, &length, &type);

    if (status != HR_OK)
        return status;
    if (type != TYPE('I', 'H', 'D', 'R') || length != IHDR)
        return hr__header_fail(h, HR_ECORRUPT, SIGNATURE,
                               "the first chunk is not an IHDR of 13 bytes");
    if (h->size < end)
        return hr__header_short(h, "IHDR");
    status = read_ihdr(h, h->data + SIGNATURE + 8);
    return status == HR_OK ? walk(h, end) : status;
}
