// SPDX-License-Identifier: Apache-2.0
// A JPEG's header as far as our own decoder needs it: one interleaved scan of
// 8-bit samples, Huffman coded, grey, YCbCr or RGB, with nothing odd in front
// of it. Every other file is libjpeg-turbo's.
#ifndef CPU_JPEG_SCAN_H
#define CPU_JPEG_SCAN_H

#include "cpu_fallback/decode.h"
#include "cpu_fallback/packed/packed.h"
#include "hal/engine/jpeg.h"

struct cpu_scan_component {
    int h, v;           // sampling factors
    int width, height;  // samples, unpadded
    int dc, ac;         // which tables
    struct hr__jpeg_quant quant;
};

struct cpu_scan {
    int width, height;
    int num_components;
    enum hr_color color;
    int h_max, v_max;
    int mcus, rows;  // MCUs in a row, and rows of them
    int mcu_v;       // rows of pixels of an MCU
    int restart;     // MCUs between two restart markers; 0 = none
    struct cpu_scan_component comp[3];
    // The tables of DHT segments: 16 counts of codes, then their symbols. [0]:
    // DC.
    const uint8_t *huffman[2][4];
    const uint8_t *data, *end;  // of the scan, to the end of the file
};

// Parses a file. False: it is not such a file. Reads nothing behind data +
// size.
bool cpu_scan_parse(struct cpu_scan *scan, const uint8_t *data, size_t size);

// Fills in the scan of a packed picture's JPEG, as far as making rows and
// coefficients needs it: no tables, no data.
void cpu_packed_scan(const struct cpu_packed_head *head, struct cpu_scan *scan);

#endif
