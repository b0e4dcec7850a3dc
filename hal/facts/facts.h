// SPDX-License-Identifier: Apache-2.0
// The room facts: what a header says of an encoded picture, by our own parsers:
// no allocation, no library, time linear in the bytes looked at. Every limit is
// checked here, before an engine sees a byte. formats.c is their table, jpeg.c,
// png.c and others read them (jpeg.c, bmp.c and pnm.c also for engines:
// engine/jpeg.h, engine/raster.h), exif.c finds the orientation; kind.c says
// how a JPEG is sampled, reference.c whose pictures are made.
#ifndef HR__FACTS_H
#define HR__FACTS_H

#include "hal/base/base.h"

// Why a picture was refused: a clause without file name and offset.
struct hr__header_error {
    int64_t offset;  // of the byte that is wrong; -1 = none in particular
    char text[160];
};

// *out = *in with its defaults filled in; in may be NULL or out.
void hr__limits_default(struct hr_limits *out, const struct hr_limits *in);

// Reads the header of size bytes at data. whole: they are the complete file;
// else they are its first part, and HR_PENDING asks for more of it.
//
// In a complete file the markers behind the first scan are read too where they
// matter: the scans of a progressive or multi-scan JPEG are counted, and
// info->ends looks for the end marker behind trailing bytes. For a part,
// info->scans is 1 and info->ends false: see hr__header_ends().
//
// Accepts files that libjpeg-turbo 2.1.5 starts to decode to three 8-bit
// channels, if Pillow takes their begin for a JPEG (FF D8 FF). Other statuses
// are those of hr_probe(); *err (may be NULL) is set with each of them. *info
// holds what was read. Threads: any.
enum hr_status hr__header_parse(const uint8_t *data, size_t size, bool whole,
                                const struct hr_limits *limits,
                                struct hr_info *info,
                                struct hr__header_error *err);
// Does the same. file: the bytes of the whole file, by which info->ends tells
// of a part, too, where no end marker would; 0: not known.
enum hr_status hr__header_parse_of(const uint8_t *data, size_t size, bool whole,
                                   uint64_t file,
                                   const struct hr_limits *limits,
                                   struct hr_info *info,
                                   struct hr__header_error *err);

// Does the same as hr__header_parse(), and asks the program's decoder about
// data of no format of ours; HR_PENDING then asks for all of the file. err is
// not NULL.
enum hr_status hr__header_any(const uint8_t *data, size_t size, bool whole,
                              const struct hr_limits *limits,
                              struct hr_info *info,
                              struct hr__header_error *err);

// Says whether a file of this format ends as it should, from its last bytes.
enum { HR__TAIL = 12 };
bool hr__header_ends(enum hr_format format, const uint8_t *tail, size_t size);
// An upper estimate of the memory that the CPU decodes such a picture in.
size_t hr__decode_bytes(const struct hr_info *info);
// Says whether a JPEG of one scan has an end marker, and no marker before it
// but restarts. After any other libjpeg may refuse the file, but says so only
// behind the last row: a window above that row must be decoded to the end.
bool hr__header_scan_ends(const uint8_t *data, size_t size,
                          const struct hr_info *info);

#endif
