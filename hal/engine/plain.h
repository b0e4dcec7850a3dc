// SPDX-License-Identifier: Apache-2.0
// Plain data that the HAL, its engines and cpu_fallback hand to each other
// without conversion.
#ifndef HR__ENGINE_PLAIN_H
#define HR__ENGINE_PLAIN_H

#include <stdbool.h>
#include <stdint.h>

#include <headrace/image.h>
#include <headrace/probe.h>

struct hr__rect {
    int x, y, w, h;
};

// Pictures that the CPU engine makes for certificates; from here on they are at
// least 64 x 64.
enum { HR__SPECIMENS_LARGE = 1000 };

// The store stage as a table: what each byte of each channel becomes. Only the
// arrays of the wanted type are read; hal/shape/table.c makes it once per job.
struct hr__table {
    float f32[3][256];
    uint8_t f32_bytes[3][4][256];  // the same, byte by byte from the lowest
    uint16_t f16[3][256];          // IEEE binary16 bits
    uint8_t u8[3][256];
    bool u8_identity;  // every byte becomes itself: store is a copy
};

// ---- Between stages --------------------------------------------------------

// The payload of a span that ends in ENTROPY: one block of memory, compact
// enough for a bus, with this header at its start, its offsets behind it, and
// then segments, one behind the other. A segment is a line of 8x8 blocks of one
// component, packed as a cache keeps them; cpu_fallback/packed/packed.h
// describes its bytes. Little endian, no padding; device code reads it as it
// is. It covers the window of the picture that the geometry needs, and around
// that window one more sample of every component on each side where the picture
// goes on. Data from outside were checked before they came here.
enum { HR__COEF_MAGIC = 0x32464f43 };

struct hr__coef_component {
    uint16_t quant[64];           // natural (row by row) order
    uint32_t h, v;                // sampling factors
    uint32_t width, height;       // samples of the whole component, unpadded:
                                  // upsampling clamps its neighbours to them
    uint32_t block_x, block_y;    // the first block that is here, in the
                                  // component's own grid of 8x8 blocks
    uint32_t blocks_w, blocks_h;  // how many are here
    uint32_t first;               // its first segment; the others follow line
                                  // by line
    uint32_t reserved[3];         // 0
};

struct hr__coefficients {
    uint32_t magic;
    uint32_t num_components;  // 1 or 3
    uint32_t color;           // enum hr_color: GRAY, YCC or RGB
    uint32_t h_max, v_max;
    uint32_t x, y, w, h;  // the window, in pixels
    uint32_t segments;
    uint32_t reserved[2];  // 0; quantizers lie at multiples of 16
    struct hr__coef_component comp[3];
    // From the start of this header to each segment, and to behind the last.
    uint32_t offset[];
};

// The payload of a span that ends in RECONSTRUCT: the samples of each component
// as the IDCT made them, before upsampling. This header is at payload.extra
// (its memory is the payload's, or lives as long); the sample in column c and
// row r of component i is the byte comp[i].at + (r - y) * stride + (c - x) *
// step of payload.data. Packed by an engine of ours the header is the beginning
// of data; a surface that is mapped as it lies has its header elsewhere.
// Interleaved chroma (NV12) has step 2, that of YUY2 step 4. The samples cover
// the window of the picture that the geometry needs and one more sample of
// every component on each side where the picture goes on; they may be more, up
// to width and height, and nothing behind payload.size is read. The reader
// checks the header: an impossible one ends the span.
struct hr__plane {
    uint32_t h, v;           // sampling factors, 1 .. 4
    uint32_t width, height;  // samples of the whole component, unpadded:
                             // upsampling clamps its neighbours to them.
                             // ceil(picture * h / h_max), .. * v / v_max
    uint32_t x, y;           // the first sample that is here
    uint32_t cols, rows;     // how many are: x + cols <= width, ..
    uint32_t stride, step;   // bytes from row to row; sample to sample: 1, 2, 4
    uint64_t at;             // bytes from data to sample (x, y)
};

struct hr__planes {
    uint32_t num_components;  // 1 or 3
    uint32_t color;           // enum hr_color: GRAY, YCC or RGB
    uint32_t h_max, v_max;    // multiples of every h, v; equal to those of an
                              // only component
    uint32_t x, y, w, h;      // the window that was wanted, in pixels
    struct hr__plane comp[3];
};

// Says whether component i of a picture of that size can be true, of which
// `rows` lie in `size` bytes. *x, *y: the pixels that one of its samples stands
// for. Sizes come from other engines: nothing here may overflow.
static inline bool hr__plane_is_true(const struct hr__planes *p, int i,
                                     int width, int height, uint32_t rows,
                                     uint64_t size, uint32_t *x, uint32_t *y)
{
    const struct hr__plane *c = &p->comp[i];
    uint64_t last;

    if (p->h_max > 4 || p->v_max > 4 || !c->h || !c->v || p->h_max < c->h ||
        p->v_max < c->v || p->h_max % c->h || p->v_max % c->v)
        return false;
    *x = p->h_max / c->h;
    *y = p->v_max / c->v;
    if (c->width != ((uint32_t)width + *x - 1) / *x ||
        c->height != ((uint32_t)height + *y - 1) / *y || !c->cols || !c->rows ||
        c->x >= c->width || c->y >= c->height || c->cols > c->width - c->x ||
        c->rows > c->height - c->y ||
        (c->step != 1 && c->step != 2 && c->step != 4))
        return false;
    // Below 2^31 * 2^32 + 2^33.
    last = (uint64_t)(rows - 1) * c->stride + (uint64_t)(c->cols - 1) * c->step;
    return c->at < size && last < size - c->at;
}

#endif
