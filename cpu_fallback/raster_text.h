// SPDX-License-Identifier: Apache-2.0
// The numbers of a PNM that is text, P1 to P3, as Pillow reads them
// (PpmImagePlugin.py, PpmPlainDecoder): in blocks of 1 MiB, of which the one
// with the last pixel is checked to its end.
#ifndef CPU_RASTER_TEXT_H
#define CPU_RASTER_TEXT_H

#include <math.h>
#include <stdbool.h>

#include "hal/engine/raster.h"

struct cpu_text {
    const uint8_t *data;
    size_t size, begin, at;
    bool digits, gray;  // of P1, of P2
    int most;
    uint8_t token[HR__RASTER_TOKEN + 1];
    int length;  // of the token so far, at most one too many
};

// A sample as a byte. White is that of Pillow's mode, of which convert() cuts
// off what is above 255. As Python computes: two roundings to double, then to
// even.
static inline uint8_t cpu_text_scale(int64_t v, int most, int white)
{
    long scaled = lrint((double)v / most * white);

    return scaled < 255 ? (uint8_t)scaled : 255;
}

void cpu_text_open(struct cpu_text *t, const uint8_t *data, size_t size,
                   const struct hr__raster *r);
// Reads the next n samples, of P1 bits. NULL, or a clause that says what is
// wrong: then t->length is 0 if the text ends.
const char *cpu_text_read(struct cpu_text *t, uint8_t *to, size_t n);
// Behind the last: the rest of the block.
const char *cpu_text_finish(struct cpu_text *t);

#endif
