// SPDX-License-Identifier: Apache-2.0
// What host and kernels agree on of packing a whole picture's coefficients
// (pack.cl) for a cache; read by C11 and by OpenCL C 1.2. What the bytes are
// stands in cpu_fallback/packed.h; all but the head and the padding are made
// here.
//
// A sample decodes its window only, so a picture that is to be packed has its
// scan decoded once more, of all its blocks, behind everything else of its
// batch: where the subsequences begin is known by then. It is a picture of the
// plan of its own, of which only what hr_entropy_write and hr_entropy_dc look at
// is there.
//
//   hr_pack_clear      coefs: zeros; cursor: 0
//   hr_entropy_write, hr_entropy_dc
//   hr_pack_measure    coefs -> facts of each block; bytes of each line
//   hr_pack_place      lines -> where each begins; where the picture lies;
//                      packed: its offsets
//   hr_pack_write      coefs, facts, lines -> packed: its segments
//
// clear has a group for as many blocks as it has items, measure and write have
// one for each line of blocks, place has one. All have the arguments of
// hr_entropy_write, and behind them `packed`. A picture with a flag, or that
// has no room, gets size 0.
#ifndef HR__KERNELS_PACK_H
#define HR__KERNELS_PACK_H

#ifndef __OPENCL_VERSION__
#include "kernels/entropy.h"
#endif

// In the order of their launches; in programs built with HR__ENTROPY.
#define HR__PACK_KERNELS(X)       \
    X(CLEAR, "hr_pack_clear")     \
    X(MEASURE, "hr_pack_measure") \
    X(PLACE, "hr_pack_place")     \
    X(WRITE, "hr_pack_write")
enum {
#define X(name, text) HR__PACK_##name,
    HR__PACK_KERNELS(X)
#undef X
        HR__NUM_PACK_KERNELS
};

enum {
    HR__PACK_HEAD = 488,  // bytes of the head in front of the offsets
    HR__PACK_PAD = 128,   // and behind the last segment
    HR__PACK_ALIGN = 64,  // where pictures begin in `packed`
};

// Lies in `in` where hr__kernel_picture.entropy says.
struct hr__pack {
    struct hr__entropy scan;  // first. The window is all there is, with what
                              // pads the last MCU; coefs without gaps
    hr__word facts;    // work: byte of a word per block, as coefs: rows, then
                       // from bits 8, 16 and 24 on: coefficients that are not
                       // 0, those with a byte, those with a word; no DC
    hr__word lines;    // work: byte of two words per line: its bytes, which
                       // place turns into where it begins; its DCs that escape
    hr__word segments, row_lines;  // lines, and how many a row of MCUs has
    hr__word head;    // bytes in front of the first segment
    hr__word cursor;  // out: byte of how many bytes of `packed` are taken
    hr__word table;   // out: byte of two words: where in `packed` the picture
                      // begins, and its size with the padding
    hr__word room;    // bytes of `packed`
    hr__word first;   // of its batch: clears the cursor
};

#endif
