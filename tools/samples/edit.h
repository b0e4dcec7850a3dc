// SPDX-License-Identifier: Apache-2.0
// Ways to damage a file. Each reads a sound file and appends the damaged one;
// on a lack of memory, or when there is nothing to damage, out->failed is set.
#ifndef HEADRACE_TOOLS_SAMPLES_EDIT_H
#define HEADRACE_TOOLS_SAMPLES_EDIT_H

#include "out.h"

enum {  // markers of JPEG, without their FF
    SAMPLES_SOF0 = 0xc0,
    SAMPLES_SOF2 = 0xc2,
    SAMPLES_DHT = 0xc4,
    SAMPLES_SOS = 0xda,
    SAMPLES_DQT = 0xdb,
    SAMPLES_APP0 = 0xe0,
    SAMPLES_APP1 = 0xe1,
};

struct samples_edit {
    int marker;     // the first segment with this marker is meant
    int at, value;  // where and what, as the edit takes it
    const char *text;
    uint64_t seed;
    enum samples_expect expect;  // what a decoder is to make of it
};

typedef void samples_edit_fn(const struct samples_edit *d,
                             const struct samples_bytes *in,
                             struct samples_bytes *out);

// Keeps `value` thousandths of the file.
samples_edit_fn samples_cut;

// A small picture without its last `value` bytes, of EOI, that Pillow refuses
// too; `in` is not read.
samples_edit_fn samples_cut_eoi;

// Ends the file `at` bytes into the segment.
samples_edit_fn samples_cut_segment;

// Leaves out every segment with the marker.
samples_edit_fn samples_drop_segments;

// Sets the byte `at` bytes into the segment, its FF being byte 0.
samples_edit_fn samples_poke;

// Claims value x value pixels.
samples_edit_fn samples_claim;

// Writes the segment twice.
samples_edit_fn samples_repeat_segment;

// Inserts `value` bytes of text before the segment.
samples_edit_fn samples_insert;

// Ends the picture with an EOI in place of its first scan, or in its middle.
samples_edit_fn samples_end_early;

// Changes the n-th restart marker: `value` is added to its number; 8 = the
// marker goes.
samples_edit_fn samples_restart;

// Flips one bit after the first scan's header, such that a decoder takes the
// file as d expects; never one that makes or unmakes an FF.
samples_edit_fn samples_flip;

// The text alone; no text: an empty file.
samples_edit_fn samples_text;

// `value` bytes of 0.
samples_edit_fn samples_zeros;

// The text in place of as many first bytes.
samples_edit_fn samples_mask;

// Sets a byte counted from the start of the file.
samples_edit_fn samples_poke_file;

// Spoils the compressed data in the middle, with the chunk's CRC untouched.
samples_edit_fn samples_spoil_png;

#endif
