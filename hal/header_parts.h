// SPDX-License-Identifier: Apache-2.0
// What the files of the header parser share; nobody else includes it.
#ifndef HR__HEADER_PARTS_H
#define HR__HEADER_PARTS_H

#include "hal/header.h"

struct hr__header {
    const uint8_t *data;
    size_t size;
    bool whole;
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
// Limits of pixels and side; info has the size. offset is where it stands.
enum hr_status hr__header_check_size(struct hr__header *h, size_t offset);
// Limits of what may stand before the first picture data: bytes up to end,
// count segments.
enum hr_status hr__header_check_room(struct hr__header *h, size_t offset,
                                     size_t end, int count);

static inline unsigned hr__be16(const uint8_t *p)
{
    return (unsigned)p[0] << 8 | p[1];
}

static inline uint32_t hr__be32(const uint8_t *p)
{
    return (uint32_t)hr__be16(p) << 16 | hr__be16(p + 2);
}

enum hr_status hr__header_png(struct hr__header *h);
enum hr_status hr__header_jpeg(struct hr__header *h);

// Orientation 1 .. 8 in a TIFF structure (an EXIF block without its "Exif"
// prefix); 1 if there is none or it is damaged. Looks at no more than the
// first 64 kB, one directory and 256 entries.
int hr__exif_orientation(const uint8_t *tiff, size_t size);

// ---- JPEG (header_jpeg.c: markers; header_scan.c: scans) ---------------------

enum {
    HR__JPEG_TEM = 0x01,
    HR__JPEG_SOF0 = 0xC0,
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

struct hr__jpeg {
    struct hr__header *h;
    size_t pos;        // next byte to read
    size_t bound;      // no marker may reach behind it (marker_bytes)
    unsigned marker;   // the one being read: its second byte
    size_t marker_at;  // offset of its FF
    int segments;
    bool sof, jfif, adobe, exif;
    uint8_t adobe_transform;
    uint8_t ids[4];
    uint8_t quant_of[4];     // quantisation table of each component
    unsigned quant, dc, ac;  // tables seen, bit per number
    unsigned latched;        // components whose first scan has begun
    int restart_interval;
    int hmax, vmax;
    uint64_t mcus;       // of a scan with several components
    uint64_t blocks[4];  // of a scan with only this component
    int scans;
    uint64_t visits;   // blocks of all scans so far
    uint64_t full[4];  // of each component, bit per coefficient: it is there
                       // to the last bit
};

// Reads on to the next marker: sets marker and marker_at, pos is behind it.
enum hr_status hr__jpeg_next(struct hr__jpeg *j);
// Reads the segment of the marker, if it has one; pos is behind it.
enum hr_status hr__jpeg_segment(struct hr__jpeg *j);
// One SOS segment: n bytes of payload at p, offset at in the data.
enum hr_status hr__jpeg_sos(struct hr__jpeg *j, const uint8_t *p, size_t n);
// What lies behind the first SOS of a complete file.
enum hr_status hr__jpeg_rest(struct hr__jpeg *j);

#endif
