// SPDX-License-Identifier: Apache-2.0
// The header of a JPEG, up to the data of its first scan (ITU-T T.81, annex B):
// plain data, and pointers into the file. The HAL, the engines and cpu_fallback
// convert from it; hal/facts/jpeg.c is the one reader.
#ifndef HR__ENGINE_JPEG_H
#define HR__ENGINE_JPEG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <headrace/probe.h>

struct hr__jpeg_quant {
    const uint8_t *at;  // 64 numbers in zigzag order; NULL: there is none
    int bytes;          // of each, 1 or 2, big endian
};

struct hr__jpeg_component {
    uint8_t id, h, v;  // its number, its sampling factors
    uint8_t quant;     // which tables
    uint8_t dc, ac;    // .. of the first scan
};

struct hr__jpeg {
    unsigned sof;  // the frame's marker, 0: none yet
    int width, height, num_components;
    int h_max, v_max;
    struct hr__jpeg_component comp[4];
    enum hr_color color;
    struct hr__jpeg_quant quant[4];
    // 16 counts of codes, then their symbols; [0]: DC. Where a sequential file
    // has none of number 0 or 1, those of T.81, annex K.
    const uint8_t *huffman[2][4];
    int restart;  // MCUs between two restart markers, 0: none
    bool jfif, adobe;
    uint8_t transform;    // .. of Adobe
    const uint8_t *exif;  // the first EXIF block behind its name; NULL: none
    size_t exif_size;
    size_t header_size;  // bytes before the first scan's data
    // HR_WHY_*: what keeps a decoder of one Huffman coded scan with all
    // components, grey, YCbCr or RGB, from it. Whatever libjpeg-turbo warns of
    // is among that.
    unsigned why;
};

// Reads a JPEG's header. False: libjpeg-turbo would not begin to decode it.
// Reads nothing behind data + size. Threads: any.
bool hr__jpeg_read(const uint8_t *data, size_t size, struct hr__jpeg *out);

// Does the same for a file whose facts are known: 0, or HR_WHY_*, also if it is
// another frame by now.
unsigned hr__jpeg_read_plain(const uint8_t *data, size_t size,
                             const struct hr_info *info, struct hr__jpeg *out);

// The numbers of a table in natural order.
void hr__jpeg_quant(const struct hr__jpeg_quant *quant, uint16_t natural[64]);

// Natural position of zigzag position k; ITU-T T.81 figure A.6.
// clang-format off
#define HR__ZIGZAG                                   \
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25,  \
    18, 11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34,  \
    27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56,  \
    57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,  \
    58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54,  \
    47, 55, 62, 63
// clang-format on

#endif
