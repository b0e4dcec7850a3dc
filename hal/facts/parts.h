// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the header parser, which alone include it.
#ifndef HR__FACTS_PARTS_H
#define HR__FACTS_PARTS_H

#include "hal/engine/raster.h"
#include "hal/facts/facts.h"

struct hr__header {
    const uint8_t *data;
    size_t size;
    bool whole;
    uint64_t file;            // bytes of the whole file; 0: not known
    struct hr_limits limits;  // defaults filled in
    struct hr_info *info;
    struct hr__header_error *err;  // never NULL
};

// Writes *err and returns status.
enum hr_status hr__header_fail(struct hr__header *h, enum hr_status status,
                               size_t offset, const char *fmt, ...)
    HR_PRINTF(4, 5);
// The data ends inside of what: HR_ETRUNCATED, or HR_PENDING for a part.
enum hr_status hr__header_short(struct hr__header *h, const char *what);
// Every limit lifted: engines read what was checked.
extern const struct hr_limits hr__limits_none;
// Limits of pixels and side; info has the size. offset is where it stands.
enum hr_status hr__header_check_size(struct hr__header *h, size_t offset);
// Limits of what may stand before the first picture data: bytes up to end,
// count segments.
enum hr_status hr__header_check_room(struct hr__header *h, size_t offset,
                                     size_t end, int count);
// Fails with HR_EFORMAT for data of no format of ours, and names theirs if it
// is known.
enum hr_status hr__header_foreign(struct hr__header *h);

static inline unsigned hr__be16(const uint8_t *p)
{
    return (unsigned)p[0] << 8 | p[1];
}

static inline uint32_t hr__be32(const uint8_t *p)
{
    return (uint32_t)hr__be16(p) << 16 | hr__be16(p + 2);
}

static inline unsigned hr__le16(const uint8_t *p)
{
    return (unsigned)p[1] << 8 | p[0];
}

static inline uint32_t hr__le32(const uint8_t *p)
{
    return (uint32_t)hr__le16(p + 2) << 16 | hr__le16(p);
}

// A row of the table of formats.
struct hr__format {
    enum hr_format format;
    struct hr_format_info info;  // the public part
    size_t magic_size;
    const char *magic;  // its first bytes; NULL: it is not known by them
    const char *first;  // what these are; NULL: a part of them tells nothing
    enum hr_status (*parse)(struct hr__header *h);
    bool (*ends)(const uint8_t *tail, size_t size);
    size_t (*memory)(const struct hr_info *info);
};
// Returns the format whose magic data begins with, or NULL.
const struct hr__format *hr__format_of(const uint8_t *data, size_t size);
// Returns the format for which data is too short, if it may be the beginning of
// such a file, or NULL.
const char *hr__format_begun(const uint8_t *data, size_t size);

// The most bytes that decoding in rows needs.
static inline size_t hr__rows_bytes(const struct hr_info *info)
{
    return (size_t)info->width * (size_t)info->components * 96 + (256 << 10);
}

bool hr__jpeg_ends(const uint8_t *tail, size_t size);
size_t hr__jpeg_bytes(const struct hr_info *info);
bool hr__png_ends(const uint8_t *tail, size_t size);
size_t hr__png_bytes(const struct hr_info *info);
size_t hr__webp_bytes(const struct hr_info *info);
enum hr_status hr__header_png(struct hr__header *h);
enum hr_status hr__header_webp(struct hr__header *h);
enum hr_status hr__header_bmp(struct hr__header *h);
enum hr_status hr__header_pnm(struct hr__header *h);
size_t hr__bmp_bytes(const struct hr_info *info);
// *r holds what was read, up to the fault.
enum hr_status hr__bmp_read(struct hr__header *h, struct hr__raster *r);
enum hr_status hr__pnm_read(struct hr__header *h, struct hr__raster *r);
// Takes size and coding over into info, and checks them.
enum hr_status hr__raster_take(struct hr__header *h, const struct hr__raster *r,
                               size_t header_size);
enum hr_status hr__header_jpeg(struct hr__header *h);
enum hr_status hr__header_packed(struct hr__header *h);

// Orientation 1 .. 8 in a TIFF structure (an EXIF block without its "Exif"
// prefix); 1 if there is none or it is damaged. Looks at no more than the
// first 64 kB, one directory and 256 entries.
int hr__exif_orientation(const uint8_t *tiff, size_t size);

// A Huffman table of T.81, annex K.3, as a DHT segment has it. index: 0 or 1.
const uint8_t *hr__jpeg_huffman(int ac, int index);

// ---- JPEG -------------------------------------------------------------------

enum {
    HR__JPEG_TEM = 0x01,
    HR__JPEG_SOF0 = 0xC0,
    HR__JPEG_SOF1 = 0xC1,
    HR__JPEG_SOF2 = 0xC2,
    HR__JPEG_DHT = 0xC4,
    HR__JPEG_JPG = 0xC8,
    HR__JPEG_DAC = 0xCC,
    HR__JPEG_RST0 = 0xD0,
    HR__JPEG_RST7 = 0xD7,
    HR__JPEG_SOI = 0xD8,
    HR__JPEG_EOI = 0xD9,
    HR__JPEG_SOS = 0xDA,
    HR__JPEG_DQT = 0xDB,
    HR__JPEG_DNL = 0xDC,
    HR__JPEG_DRI = 0xDD,
    HR__JPEG_DHP = 0xDE,
    HR__JPEG_EXP = 0xDF,
    HR__JPEG_APP0 = 0xE0,
    HR__JPEG_APP1 = 0xE1,
    HR__JPEG_APP14 = 0xEE,
    HR__JPEG_APP15 = 0xEF,
    HR__JPEG_SOF55 = 0xF7,  // JPEG-LS
    HR__JPEG_COM = 0xFE,
};

#endif
