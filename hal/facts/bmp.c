// SPDX-License-Identifier: Apache-2.0
// BMP: its headers, masks and palette, as Pillow 13 takes them
// (BmpImagePlugin.py, BmpImageFile._bitmap). Earlier releases refuse some
// headers and masks.
#include <string.h>

#include "hal/facts/parts.h"

enum { FILE_HEADER = 14, OLD_HEADER = 12, MASKS = 12 };
enum { COLORS = 65536 };  // of a palette, at most

enum compression { RAW, RLE8, RLE4, BITFIELDS };

struct bmp {
    struct hr__header *h;
    struct hr__raster *r;
    size_t at;        // behind what was read
    uint32_t header;  // bytes of the second header
    uint32_t rows;    // where they lie; 0: behind all headers
    uint32_t compression, colors;
    unsigned depth;  // bits of a pixel
    uint32_t mask[4];
};

static enum hr_status read_size(struct bmp *b, uint32_t w, uint32_t height)
{
    size_t at = FILE_HEADER + 4;

    if (!w || !height || w > INT32_MAX || height > INT32_MAX)
        return hr__header_fail(b->h, HR_ECORRUPT, at, "size %lu x %lu",
                               (unsigned long)w, (unsigned long)height);
    b->h->info->width = b->r->width = (int)w;
    b->h->info->height = b->r->height = (int)height;
    return hr__header_check_size(b->h, at);
}

// A height whose highest byte is FF is below zero: the first row is the upper.
static enum hr_status read_header(struct bmp *b, const uint8_t *p)
{
    uint32_t height = hr__le32(p + 8);

    b->r->upwards = true;
    if (b->header == OLD_HEADER) {
        b->depth = hr__le16(p + 10);
        b->r->color_bytes = 3;
        return read_size(b, hr__le16(p + 4), hr__le16(p + 6));
    }
    if (p[11] == 0xFF) {
        b->r->upwards = false;
        height = -height;
    }
    b->depth = hr__le16(p + 14);
    b->compression = hr__le32(p + 16);
    b->colors = hr__le32(p + 32);
    b->r->color_bytes = 4;
    return read_size(b, hr__le32(p + 4), height);
}

// They stand at the end of a header that has them, else behind it.
static enum hr_status read_masks(struct bmp *b)
{
    const uint8_t *p = b->h->data + FILE_HEADER + 40;
    int n = b->header >= 56 ? 4 : 3;

    if (b->compression != BITFIELDS)
        return HR_OK;
    b->at += b->header == 40 ? MASKS : 0;
    if (b->h->size < b->at)
        return hr__header_short(b->h, "the masks");
    for (int i = 0; i < n; i++)
        b->mask[i] = hr__le32(p + 4 * i);
    return HR_OK;
}

static enum hr_status read_headers(struct bmp *b)
{
    static const uint8_t known[] = {OLD_HEADER, 40, 52, 56, 64, 108, 124};
    struct hr__header *h = b->h;
    enum hr_status status;

    if (h->size < FILE_HEADER + 4)
        return hr__header_short(h, "the file header");
    b->rows = hr__le32(h->data + 10);
    b->header = hr__le32(h->data + FILE_HEADER);
    if (b->header > 255 || !memchr(known, (int)b->header, sizeof(known)))
        return hr__header_fail(h, HR_ECORRUPT, FILE_HEADER,
                               "a BMP header of %lu bytes",
                               (unsigned long)b->header);
    b->at = FILE_HEADER + b->header;
    if (h->size < b->at)
        return hr__header_short(h, "the BMP header");
    status = read_header(b, h->data + FILE_HEADER);
    return status ? status : read_masks(b);
}

// ---- How pixels are coded --------------------------------------------------

static enum hr_status refuse_coding(struct bmp *b)
{
    return hr__header_fail(b->h, HR_EUNSUPPORTED,
                           FILE_HEADER + (b->header == OLD_HEADER ? 10 : 14),
                           "%u bits a pixel with compression %lu", b->depth,
                           (unsigned long)b->compression);
}

// The byte of a pixel that a mask covers.
static uint8_t byte_of(uint32_t mask)
{
    return mask == 0xFF ? 0 : mask == 0xFF00 ? 1 : mask == 0xFF0000 ? 2 : 3;
}

static enum hr_status choose_masks(struct bmp *b)
{
    static const struct {
        unsigned depth;
        uint32_t mask[4];
        enum hr__raster_pixel pixel;
    } layouts[] = {
        {32, {0xFF0000, 0xFF00, 0xFF, 0}, HR__RASTER_RGB},
        {32, {0xFF000000, 0xFF0000, 0xFF00, 0}, HR__RASTER_RGB},
        {32, {0xFF000000, 0xFF00, 0xFF, 0}, HR__RASTER_RGB},
        {32, {0xFF000000, 0xFF0000, 0xFF00, 0xFF}, HR__RASTER_RGB},
        {32, {0xFF, 0xFF00, 0xFF0000, 0xFF000000}, HR__RASTER_RGB},
        {32, {0xFF0000, 0xFF00, 0xFF, 0xFF000000}, HR__RASTER_RGB},
        {32, {0xFF000000, 0xFF00, 0xFF, 0xFF0000}, HR__RASTER_RGB},
        {24, {0xFF0000, 0xFF00, 0xFF, 0}, HR__RASTER_RGB},
        {16, {0xF800, 0x7E0, 0x1F, 0}, HR__RASTER_RGB565},
        {16, {0x7C00, 0x3E0, 0x1F, 0}, HR__RASTER_RGB555},
    };
    static const uint32_t none[4];
    size_t i = 0, n = sizeof(layouts) / sizeof(*layouts);

    // The usual order.
    if (b->depth == 32 && !memcmp(b->mask, none, sizeof(none)))
        return HR_OK;
    // (Alpha counts only where a pixel has room for it.)
    while (i < n &&
           (layouts[i].depth != b->depth ||
            memcmp(layouts[i].mask, b->mask, (b->depth == 32 ? 4 : 3) * 4)))
        i++;
    if (i == n)
        return hr__header_fail(b->h, HR_EUNSUPPORTED, FILE_HEADER + 40,
                               "masks %lX %lX %lX %lX of %u bits",
                               (unsigned long)b->mask[0],
                               (unsigned long)b->mask[1],
                               (unsigned long)b->mask[2],
                               (unsigned long)b->mask[3], b->depth);
    b->r->pixel = layouts[i].pixel;
    for (int c = 0; c < 3; c++)
        b->r->place[c] = byte_of(b->mask[c]);
    return HR_OK;
}

static enum hr_status choose_coding(struct bmp *b)
{
    struct hr__raster *r = b->r;
    bool indexed = b->depth == 1 || b->depth == 4 || b->depth == 8;

    r->bits = (int)b->depth;
    r->most = 255;
    r->pixel = indexed          ? HR__RASTER_PALETTE
               : b->depth == 16 ? HR__RASTER_RGB555
                                : HR__RASTER_RGB;
    memcpy(r->place, "\2\1\0", 3);
    if (!indexed && b->depth != 16 && b->depth != 24 && b->depth != 32)
        return refuse_coding(b);
    if (b->compression == BITFIELDS && !indexed)
        return choose_masks(b);
    // (Pillow does not ask whether the depth fits the runs.)
    if (b->compression > (indexed ? RLE4 : RAW))
        return refuse_coding(b);
    r->coding = b->compression == RAW    ? HR__RASTER_RAW
                : b->compression == RLE8 ? HR__RASTER_RLE8
                                         : HR__RASTER_RLE4;
    return HR_OK;
}

// ---- The palette -----------------------------------------------------------

// Says whether each index is its own grey; of two, whether they are black and
// white.
static bool is_gray(const struct bmp *b, const uint8_t *p, size_t size)
{
    size_t step = (size_t)b->r->color_bytes;

    if (size < (b->colors - 1) * step + 3)
        return false;
    for (uint32_t i = 0; i < b->colors; i++, p += step) {
        uint8_t gray = (uint8_t)(b->colors == 2 && i ? 255 : i);

        if (p[0] != gray || p[1] != gray || p[2] != gray)
            return false;
    }
    return true;
}

// Without a palette Pillow takes the pixels as greys of a byte, or of a bit,
// whatever the file says.
static void drop_palette(struct bmp *b)
{
    struct hr__raster *r = b->r;

    r->pixel = b->colors <= 2 ? HR__RASTER_BIT : HR__RASTER_GRAY;
    r->bits = b->colors <= 2 ? 1 : 8;
}

// A file may have fewer colours than it says: pixels may begin among them, or
// the file may end there.
static enum hr_status read_palette(struct bmp *b)
{
    struct hr__header *h = b->h;
    struct hr__raster *r = b->r;
    size_t step = (size_t)r->color_bytes, size, left = h->size - b->at;
    const uint8_t *p = h->data + b->at;
    enum hr_status status;

    if (!b->colors)
        b->colors = 1u << b->depth;
    if (b->colors > COLORS)
        return hr__header_fail(h, HR_ECORRUPT, FILE_HEADER + 32,
                               "a palette of %lu colours",
                               (unsigned long)b->colors);
    size = b->colors * step;
    if (b->rows == b->at)
        b->rows += (uint32_t)size;
    status = hr__header_check_room(h, b->at, b->at + size, 1);
    if (status)
        return status;
    if (left < size) {
        if (!h->whole)
            return hr__header_short(h, "the palette");
        size = left;
    }
    b->at += size;
    r->palette = p;
    r->colors = (int)(size / step);
    if (is_gray(b, p, size))
        drop_palette(b);
    else if (r->colors > 256)
        return hr__header_fail(h, HR_EUNSUPPORTED, FILE_HEADER + 32,
                               "a palette of %d colours", r->colors);
    return HR_OK;
}

// ---- Entry -----------------------------------------------------------------

// Rows end at a multiple of four bytes of the depth that the file says.
static enum hr_status place_rows(struct bmp *b)
{
    struct hr__raster *r = b->r;
    size_t w = (size_t)r->width;

    r->at = b->rows ? b->rows : b->at;
    r->stride = (w * b->depth + 31) / 32 * 4;
    if (r->coding == HR__RASTER_RAW &&
        r->stride < (w * (size_t)r->bits + 7) / 8)
        return hr__header_fail(b->h, HR_EUNSUPPORTED, FILE_HEADER + 32,
                               "a palette of %lu greys with %u bits a pixel",
                               (unsigned long)b->colors, b->depth);
    return HR_OK;
}

enum hr_status hr__bmp_read(struct hr__header *h, struct hr__raster *r)
{
    struct bmp b = {.h = h, .r = r};
    enum hr_status status = read_headers(&b);

    if (!status)
        status = choose_coding(&b);
    if (!status && r->pixel == HR__RASTER_PALETTE)
        status = read_palette(&b);
    if (!status)
        status = place_rows(&b);
    return status ? status : hr__raster_take(h, r, b.at);
}

enum hr_status hr__header_bmp(struct hr__header *h)
{
    struct hr__raster r = {0};

    return hr__bmp_read(h, &r);
}

// Runs make all indices first.
size_t hr__bmp_bytes(const struct hr_info *info)
{
    size_t w = (size_t)info->width, h = (size_t)info->height;

    if (w > SIZE_MAX / 16 / h)
        return SIZE_MAX / 2;
    return hr__rows_bytes(info) + (info->components == 1 ? w * h : 0);
}
