// SPDX-License-Identifier: Apache-2.0
// A JPEG's header as far as our own decoder needs it: one interleaved scan of
// 8-bit samples, Huffman coded, grey, YCbCr or RGB, with nothing odd in front
// of it. Every other file is libjpeg-turbo's.
#ifndef CPU_JPEG_SCAN_H
#define CPU_JPEG_SCAN_H

#include "decode.h"

struct cpu_scan_component {
    int h, v;              // sampling factors
    int width, height;     // samples, unpadded
    int dc, ac;            // which tables
    const uint8_t *quant;  // 64 numbers in zigzag order,
    int quant_bytes;       // of so many bytes each, big endian
};

struct cpu_scan {
    int width, height;
    int num_components;
    enum cpu_color color;
    int h_max, v_max;
    int mcus, rows;  // MCUs in a row, and rows of them
    int mcu_v;       // rows of pixels of an MCU
    int restart;     // MCUs between two restart markers; 0 = none
    struct cpu_scan_component comp[3];
    // What DHT segments say: 16 counts of codes, then their symbols. [0]: DC.
    const uint8_t *huffman[2][4];
    const uint8_t *data, *end;  // of the scan, to the end of the file
};

// False: not such a file. Reads nothing behind data + size.
bool cpu_scan_parse(struct cpu_scan *scan, const uint8_t *data, size_t size);

// The quantizers of component i, in natural order.
void cpu_scan_quant(const struct cpu_scan *scan, int i, uint16_t quant[64]);

// Natural position of zigzag position k; ITU-T T.81 figure A.6.
// clang-format off
#define CPU_ZIGZAG                                   \
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25,  \
    18, 11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34,  \
    27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56,  \
    57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,  \
    58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54,  \
    47, 55, 62, 63
// clang-format on

#endif
