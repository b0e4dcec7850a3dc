// SPDX-License-Identifier: Apache-2.0
// How the pixels of a BMP or PNM lie in their file: plain data. hal/facts/bmp.c
// and pnm.c are the readers, for the HAL and for cpu_fallback.
#ifndef HR__ENGINE_RASTER_H
#define HR__ENGINE_RASTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <headrace/probe.h>

enum hr__raster_pixel {
    HR__RASTER_BIT,      // black or white
    HR__RASTER_GRAY,     // a sample
    HR__RASTER_PALETTE,  // an index
    HR__RASTER_RGB,      // three samples, at most one more
    HR__RASTER_RGB555,   // 16 bits, little endian, blue the lowest
    HR__RASTER_RGB565,
};

enum hr__raster_coding {
    HR__RASTER_RAW,
    HR__RASTER_RLE8,
    HR__RASTER_RLE4,
    HR__RASTER_TEXT,  // numbers; of BIT, digits
};

struct hr__raster {
    int width, height;
    enum hr__raster_pixel pixel;
    enum hr__raster_coding coding;
    int bits;   // RAW: of a pixel
    bool wide;  // RAW: samples have two bytes, the high one first
    int most;   // the sample that is white; wide or TEXT: below 65536,
                // else below 256
    bool ones_are_black;  // BIT
    uint8_t place[3];     // RGB: bytes of a pixel that are red, green and blue
    bool upwards;         // the first row is the lowest
    size_t at;            // of the first row; may lie behind the file's end
    size_t stride;        // RAW: from a row to the next, at least a row's bytes
    const uint8_t *palette;   // PALETTE: blue, green, red; points into the file
    int colors, color_bytes;  // how many are there, at most 256; of each
};

// Reads a token as Python's int() does: a sign, digits, and single underscores
// between them. n: up to HR__RASTER_TOKEN bytes. False: it is no number.
enum { HR__RASTER_TOKEN = 10 };
static inline bool hr__raster_number(const uint8_t *p, int n, int64_t *value)
{
    bool minus = n && *p == '-', digit = false;
    int i = n && (*p == '-' || *p == '+');

    for (*value = 0; i < n; i++) {
        if (p[i] == '_' && digit) {
            digit = false;
            continue;
        }
        if (p[i] < '0' || p[i] > '9')
            return false;
        *value = *value * 10 + p[i] - '0';
        digit = true;
    }
    *value = minus ? -*value : *value;
    return digit;
}

// White space to Pillow.
static inline bool hr__raster_space(unsigned c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

// Reads a file that begins with the magic of either. False: the library decodes
// no such file. Reads nothing behind data + size. Threads: any.
bool hr__raster_read(const uint8_t *data, size_t size, struct hr__raster *out);

#endif
