// SPDX-License-Identifier: Apache-2.0
// Encoded JPEG bytes -> the quantised coefficients of the blocks that a window
// needs, packed: stage entropy alone, for an engine that does the rest.
//
// Only what every decoder reads alike is packed: Huffman coding, one scan, 8
// bits, grey, YCbCr or RGB, and not one fault. Whoever wants the rest, faults
// mended, decodes to rows (decode.h).
#ifndef CPU_COEFFICIENTS_H
#define CPU_COEFFICIENTS_H

#include "decode.h"

// ---- The packed form ----
//
// One block of memory: struct cpu_coefficients, padding up to blocks_at, the
// records, the values, padding up to a multiple of CPU_COEF_ALIGN. Padding is
// 0. Little endian.

enum {
    CPU_COEF_MAGIC = 0x31434f45,
    CPU_COEF_ALIGN = 16,     // of the whole, the records and the values
    CPU_COEF_ESCAPE = -128,  // among the values: an int16 follows
    CPU_COEF_MOST = 63 * 3,  // bytes of values of one block

    // range is 0 if in each block the sum of |coefficient x quantizer| is not
    // above this. Then no sum of 16 bits in a libjpeg-turbo inverse DCT
    // (jidctint-sse2.asm, -avx2.asm) wraps and no first pass saturates: 32-bit
    // arithmetic with one clamp at the end gives the same samples. A pass
    // multiplies a sum of inputs by 1.3871 (sqrt(2) cos(pi/16)) at most, the
    // first also by 4, and the second adds two results of the first: with s =
    // 5900 they stay below 4 x 1.3871 x 5900 = 32736.
    CPU_COEF_RANGE = 5900,
};

struct cpu_coef_component {
    uint32_t h, v;                // sampling factors
    uint32_t width, height;       // samples of the whole component, unpadded
    uint32_t block_x, block_y;    // the first block that is here, in the
                                  // component's own grid of 8x8 blocks
    uint32_t blocks_w, blocks_h;  // how many are here
    uint32_t first;               // its first record; the others follow row
                                  // by row
    uint16_t quant[64];           // natural (row by row) order
};

// One block: its DC coefficient, which of the others are not 0 (bit i of mask
// = natural position i), and where their values begin: one int8 each, low
// positions first; CPU_COEF_ESCAPE: the value is the int16 behind it.
struct cpu_coef_block {
    uint32_t values;
    int16_t dc;
    uint16_t reserved;  // 0
    uint32_t mask[2];   // low, high; bit 0 of low is never set
};

struct cpu_coefficients {
    uint32_t magic;
    uint32_t num_components;  // 1 or 3
    uint32_t color;           // enum cpu_color
    uint32_t h_max, v_max;
    uint32_t x, y, w, h;  // the window, in pixels
    uint32_t num_blocks;
    uint32_t blocks_at;  // bytes from the header to the records
    uint32_t values_at;  // and to the values
    uint32_t values_size;
    uint32_t range;  // 0 or 1, see CPU_COEF_RANGE
    struct cpu_coef_component comp[3];
};

// ---- Making it ----

// The packed form in pieces, in memory of the arena.
struct cpu_packed {
    size_t size;  // of the whole
    struct cpu_coefficients head;
    struct cpu_coef_block *blocks;   // [head.num_blocks]
    struct cpu_coef_values *values;  // the first piece of the values
};

// Decodes what p->window needs: its samples, and around them one more sample
// of every component on each side where the component goes on, in whole
// blocks. Reads no further than decoding the window to rows does, or to where
// the last of these blocks ends; if the window touches the lower edge, up to
// the end marker. p->channels means nothing here.
// *err as of cpu_decode_close(). CPU_CORRUPT, also for a fault that decoding
// to rows would mend and count as a warning. CPU_UNSUPPORTED: no picture for
// this form. On failure the arena is as it was.
enum cpu_result cpu_coef_decode(const struct cpu_decode_params *p,
                                const struct cpu_ops *ops,
                                struct cpu_arena *arena, struct cpu_packed *out,
                                struct cpu_decode_error *err);

// The same of a packed picture (packed.h) that was checked: p->data.
enum cpu_result cpu_coef_unpack(const struct cpu_decode_params *p,
                                const struct cpu_ops *ops,
                                struct cpu_arena *arena, struct cpu_packed *out,
                                struct cpu_decode_error *err);

// Writes out->size bytes.
void cpu_coef_write(const struct cpu_packed *packed, void *to);

// ---- Packing blocks (slot pack_blocks of struct cpu_ops) ----

// Where the values of a component's blocks go.
struct cpu_coef_sink {
    const uint16_t *quant;
    uint8_t quant8[64];  // quant if all of it fits; else wide is set
    bool wide;
    uint8_t *to;  // the next value; for n blocks n * CPU_COEF_MOST bytes
                  // and CPU_SLACK behind them may be written
    uint32_t at;  // its place among all values
    bool range;   // set if a block is over CPU_COEF_RANGE
};

#endif
