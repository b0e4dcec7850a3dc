// SPDX-License-Identifier: Apache-2.0
// What host and kernels agree on of stage entropy on a device (entropy.cl);
// read by C11 and by OpenCL C 1.2. Every number has 32 bits. entropy_plan.h is
// the host's side.
//
// The scan's bytes, with neither stuffing nor markers, are cut at restart
// markers into intervals and these into subsequences of HR__SUB_BITS. A decoder
// that begins anywhere soon falls into step with the right one, so each
// subsequence is decoded from some bits before it; what that found is checked
// against the end of its predecessor, and repeated where it was wrong.
//
//   hr_entropy_begin   codes        -> tables; coefs: zeros; no flag
//   hr_entropy_guess   scan         -> subs, as far as they can be guessed
//   hr_entropy_again   scan, subs   -> other: what began wrong, once more; GPUs
//   hr_entropy_back    scan, other  -> subs: the same
//   hr_entropy_check   scan, subs   -> subs as they are; flag
//   hr_entropy_write   scan, subs   -> coefs but DCs; differences of DCs
//   hr_entropy_dc      differences  -> coefs: DCs
//
// Their launches are those of layout.h: an item of guess, again, back and write
// is a subsequence; check and dc have a group for each interval, begin one for each
// code and for as many blocks of the window as it has items. A picture of which
// anything is odd gets flags; its coefficients mean nothing then.
#ifndef HR__KERNELS_ENTROPY_H
#define HR__KERNELS_ENTROPY_H

#ifdef __OPENCL_VERSION__
typedef uint hr__word;
typedef ushort hr__half;
typedef uchar hr__byte;
#else
#include <stdint.h>
typedef uint32_t hr__word;
typedef uint16_t hr__half;
typedef uint8_t hr__byte;
#endif

enum {
    HR__SUB_BITS = 1024,
    HR__SUB_EARLY = 512,    // bits before it that a subsequence begins; more
    HR__SUB_EARLY_GPU = 1536,  // where decoding again takes longer
    HR__MCU_BLOCKS = 10,    // at most
    HR__CODES = 6,          // of a scan, at most
    HR__FAST_BITS = 12,     // of codes that one look-up decodes
    HR__SCAN_SLACK = 2,     // words behind the scan that are read
    HR__DC_SIZE = 11,       // most bits of a value
    HR__AC_SIZE = 10,
    // Blocks of an interval and a component, at most: an item of hr_entropy_dc
    // goes through a 64th of them, twice, of three components (layout.h says of
    // HR__MAX_TAPS what happens to longer loops).
    HR__INTERVAL_BLOCKS = 600000,
    HR__SUB_ROUNDS = 8,  // in which subsequences are decoded again at once
    HR__SUB_LEFT = 32,    // of an interval that are decoded one by one then
    HR__SUB_LEFT_GPU = 8,  // .. where all of a batch wait for that
    // Flags: the file is odd; so much of it is out of step that one thread of the
    // host is faster.
    HR__ODD_FILE = 1,
    HR__ODD_STEP = 2,
};

// Where the coefficients of a scan, in their zigzag, stand row by row.
#define HR__NATURAL                                                            \
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33,    \
    40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43,  \
    36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53,    \
    60, 61, 54, 47, 55, 62, 63

// A Huffman code as DHT has it: how many codes there are of 1 .. 16 bits, and
// the symbols in their order.
struct hr__code {
    hr__byte counts[16], symbols[256];
};

// What is made of it. Codes of up to HR__FAST_BITS bits: length << 8 | symbol,
// else 0; the others by their length: the largest code, -1 without one, and
// what is added to a code for the place of its symbol.
struct hr__huffman {
    hr__half fast[1 << HR__FAST_BITS];
    hr__word last[17], add[17];
    hr__word symbol[256];
};

struct hr__interval {
    hr__word begin, end;        // bits of the scan
    hr__word mcu, mcus;         // its first MCU, and how many
    hr__word sub, subs;         // its subsequences
};

// A subsequence: where its first symbol begins, and where the first begins that
// is no longer its own. State: block of the MCU << 6 | coefficient; HR__SUB_ODD.
struct hr__sub {
    hr__word from, from_state;
    hr__word at, state;
    hr__word blocks;  // that begin in it; from hr_entropy_check on those of the
                      // interval that begin before it; or HR__SUB_AGAIN
};
#define HR__SUB_ODD 0x80000000u
#define HR__SUB_AGAIN 0xffffffffu

struct hr__entropy_component {
    hr__word dc, ac;              // work: byte of its struct hr__huffman
    hr__word h, v;                // blocks of an MCU
    hr__word block_x, block_y;    // the window, in the component's blocks
    hr__word blocks_w, blocks_h;
    hr__word coefs;               // work: byte of its coefficients: i16[64] per
                                  // block of the window, natural order, row by
                                  // row
    hr__word diffs;               // work: byte of i16 per block of the scan
};

struct hr__entropy {
    // Bytes from the beginning of this struct, which lies in `in`:
    hr__word scan;       // its bytes (multiple of 4)
    hr__word intervals;  // struct hr__interval[num_intervals]
    hr__word codes;      // struct hr__code[num_codes]
    hr__word num_codes;
    hr__word num_intervals, num_subs;
    hr__word subs, other;   // work: byte of struct hr__sub[num_subs], twice,
    hr__word tables;        // of struct hr__huffman[num_codes]
    hr__word flag;          // out: byte of a word, HR__ODD_..
    hr__word counts;        // work: in programs built with HR__COUNTED, byte of a
                            // word for each subsequence: the symbols decoded
    hr__word early, left;   // HR__SUB_EARLY.., HR__SUB_LEFT..
    hr__word num_components, mcus_w;
    hr__word mcu_blocks;                 // blocks of an MCU
    hr__word of[HR__MCU_BLOCKS];         // of each, its component
    hr__word nth[HR__MCU_BLOCKS];        // and which of that one's it is
    struct hr__entropy_component comp[3];
};

#endif
