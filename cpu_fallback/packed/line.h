// SPDX-License-Identifier: Apache-2.0
// Private to packed.c and its sisters: a segment in its parts.
#ifndef CPU_PACKED_LINE_H
#define CPU_PACKED_LINE_H

#include "cpu_fallback/cpu_kernels.h"
#include "cpu_fallback/packed/packed.h"

struct line {
    const int8_t *d;
    const uint8_t *rows, *len;
    const uint8_t *escapes;  // int16, unaligned
    const uint8_t *payload;
};

CPU_INLINE int16_t packed_word(const uint8_t *p)
{
    int16_t word;

    memcpy(&word, p, sizeof(word));
    return word;
}

CPU_INLINE uint64_t load64(const void *p)
{
    uint64_t bits;

    memcpy(&bits, p, sizeof(bits));
    return bits;
}

CPU_INLINE struct line packed_line(const uint8_t *segment, int n)
{
    uint16_t escapes;

    memcpy(&escapes, segment, sizeof(escapes));
    return (struct line){
        .d = (const int8_t *)segment + 2,
        .rows = segment + 2 + n,
        .len = segment + 2 + 2 * n,
        .escapes = segment + 2 + 3 * n,
        .payload = segment + 2 + 3 * n + 2 * (size_t)escapes,
    };
}

// The next DC, of that of the block to the left. One escape more may be read
// than there are.
CPU_INLINE int packed_dc(struct line *l, int i, int dc)
{
    int d = l->d[i], word = packed_word(l->escapes);
    bool escapes = d == CPU_PACKED_ESCAPE;

    l->escapes += escapes ? 2 : 0;
    return (int16_t)(dc + (escapes ? word : d));
}

static inline bool packed_dc_fits(int16_t d)
{
    return d > CPU_PACKED_ESCAPE && d <= INT8_MAX;
}

// The head of a segment, all but its payloads; returns where these begin.
static inline uint8_t *packed_put_dc(uint8_t *segment,
                                     const int16_t (*blocks)[64], int n)
{
    uint8_t *escape = segment + 2 + 3 * (size_t)n;
    int dc = 0, escapes = 0;

    for (int i = 0; i < n; i++) {
        int16_t d = (int16_t)(blocks[i][0] - dc);
        bool fits = packed_dc_fits(d);

        dc = blocks[i][0];
        segment[2 + i] = (uint8_t)(fits ? d : CPU_PACKED_ESCAPE);
        memcpy(escape + 2 * escapes, &d, sizeof(d));
        escapes += !fits;
    }
    segment[0] = (uint8_t)escapes;
    segment[1] = (uint8_t)(escapes >> 8);
    return escape + 2 * escapes;
}

// A whole segment; how many bytes. put_block writes a block's payload at `to`,
// and which rows it has; returns its end. It is a constant, so it is inlined.
CPU_INLINE size_t packed_put_line(
    uint8_t *segment, const int16_t (*blocks)[64], int n,
    uint8_t *(*put_block)(uint8_t *to, uint8_t *rows, const int16_t block[64]))
{
    uint8_t *to = packed_put_dc(segment, blocks, n);

    for (int i = 0; i < n; i++) {
        uint8_t *end = put_block(to, &segment[2 + n + i], blocks[i]);

        segment[2 + 2 * n + i] = (uint8_t)(end - to);
        to = end;
    }
    return (size_t)(to - segment);
}

#endif
