// SPDX-License-Identifier: Apache-2.0
// Sample JPEG files: encoding in every way that libjpeg offers, and reading
// back how a decoder takes a file.
#ifndef HEADRACE_TOOLS_SAMPLES_JPEG_H
#define HEADRACE_TOOLS_SAMPLES_JPEG_H

#include "out.h"
#include "scene.h"

enum samples_color {
    SAMPLES_YCC,
    SAMPLES_GRAY,
    SAMPLES_RGB,
    SAMPLES_CMYK,
    SAMPLES_YCCK
};

enum samples_order {      // how the scans are cut
    SAMPLES_INTERLEAVED,  // one scan
    SAMPLES_SEPARATE,     // one scan per component
    SAMPLES_PARTLY,       // luma, then the chroma components together
    SAMPLES_PROGRESSIVE,  // libjpeg's usual script
    SAMPLES_SPECTRAL,     // progressive by spectral selection alone
    SAMPLES_DC_ONLY,      // progressive that stops after the DC scan
    SAMPLES_EVERY_COEF,   // one scan per coefficient: 190 of a colour picture
    SAMPLES_EVERY_BIT,    // the same with two refinements each: 568
    SAMPLES_PAIRS,        // two coefficients per scan: 97
};

// Every field 0 = libjpeg's default.
struct samples_jpeg {
    enum samples_color color;
    int quality;        // 1 .. 100; 0 = 75
    unsigned sampling;  // factors in hex, two digits (across, down) per
                        // component: 0x22 = luma 2x2, 0x112222 = luma 1x1,
                        // chroma 2x2; those left out are 1x1; 0 = all 1x1
    enum samples_order order;
    bool arithmetic, optimize;
    bool wide_quant;  // quantizers may exceed 8 bits
    int restart_mcus, restart_rows;
    bool no_jfif, no_adobe;  // the colour is to be guessed
    int orientation;         // 1 .. 8: writes EXIF; 0 = none
    bool motorola;           // EXIF in big-endian
    const char *comment;
    size_t icc_bytes;  // size of a made-up ICC profile
    int app_segments;  // full-sized APP9 segments
};

// Appends the encoded picture. false: libjpeg refused, or memory ran out.
bool samples_jpeg_encode(const struct samples_jpeg *params,
                         const struct samples_picture *p,
                         struct samples_bytes *out);

// How libjpeg takes the file, by Pillow's rules: a fault that can be mended is
// a warning, a file that ends too soon is refused.
enum samples_expect samples_jpeg_check(const void *data, size_t size);

// Width and height from the first frame header; 0 = there is none.
void samples_jpeg_size(const unsigned char *data, size_t size, int *w, int *h);

// Offset of the n-th (from 0) segment with this marker before the first scan's
// data, of its FF byte; 0 = there is none. *len: whole, with the marker.
size_t samples_jpeg_segment(const unsigned char *data, size_t size, int marker,
                            int n, size_t *len);

// Appends the file without its segments of this marker.
void samples_jpeg_drop(struct samples_bytes *out,
                       const struct samples_bytes *in, int marker);

#endif
