// SPDX-License-Identifier: Apache-2.0
// Facts that the parsers of BMP and PNM share.
#include "hal/facts/parts.h"

bool hr__raster_read(const uint8_t *data, size_t size, struct hr__raster *out)
{
    struct hr__header_error err;
    struct hr_info info = {0};
    struct hr__header h = {.data = data,
                           .size = size,
                           .whole = true,
                           .limits = hr__limits_none,
                           .info = &info,
                           .err = &err};

    *out = (struct hr__raster){0};
    return size && !(data[0] == 'B' ? hr__bmp_read : hr__pnm_read)(&h, out);
}

// Says whether the file has all rows, as far as its size tells.
static bool has_rows(const struct hr__header *h, const struct hr__raster *r)
{
    size_t row = ((size_t)r->width * (size_t)r->bits + 7) / 8;

    if (!h->file || r->coding != HR__RASTER_RAW)
        return h->file;
    return r->at <= h->file && h->file - r->at >= row &&
           (h->file - r->at - row) / r->stride >= (size_t)r->height - 1;
}

enum hr_status hr__raster_take(struct hr__header *h, const struct hr__raster *r,
                               size_t header_size)
{
    static const uint8_t components[] = {
        [HR__RASTER_BIT] = 1, [HR__RASTER_GRAY] = 1,   [HR__RASTER_PALETTE] = 1,
        [HR__RASTER_RGB] = 3, [HR__RASTER_RGB555] = 3, [HR__RASTER_RGB565] = 3,
    };
    struct hr_info *info = h->info;

    info->width = r->width;
    info->height = r->height;
    info->components = components[r->pixel];
    info->precision = r->pixel == HR__RASTER_BIT ? 1 : r->most > 255 ? 16 : 8;
    info->color = r->pixel >= HR__RASTER_PALETTE ? HR_COLOR_RGB : HR_COLOR_GRAY;
    info->header_size = header_size;
    info->ends = has_rows(h, r);
    return HR_OK;
}
