// SPDX-License-Identifier: Apache-2.0
// Definitions that host and kernels share for stage entropy on a device
// (entropy.cl); read by C11 and by OpenCL C 1.2. Every number has 32 bits.
// entropy_plan.h is the host's side.
//
// The scan's bytes, with neither stuffing nor markers, are cut at restart
// markers into intervals and these into subsequences of some marks. A decoder
// that begins anywhere soon falls into step with the right one. So each
// subsequence has a decoder that begins where it does and leaves marks: its
// position every HR__MARK_BITS. Behind its end the decoder goes on until it is
// in step with that of another subsequence, as a mark of that one shows. From
// the first subsequence on these meetings are a chain, and each decoder of the
// chain is correct from the mark where it was met to the one that it meets.
//
//   hr_entropy_begin   codes           -> tables; coefs: zeros; no flag
//   hr_entropy_guess   scan            -> subs, marks; kept
//   hr_entropy_again   scan, marks     -> subs: what each meets; kept; GPUs
//   hr_entropy_check   subs, marks     -> subs: the chain; flag. Does the
//                                         work of again first, if that was
//                                         not launched
//   hr_entropy_write   subs, kept or scan -> coefs but DCs; differences of DCs
//   hr_entropy_dc      differences     -> coefs: DCs
//
// Their launches are those of layout.h: an item of guess, again and write is
// a subsequence; check and dc have a group for each interval, begin one for
// each code and for as many blocks of the window as it has items. A picture
// with an irregularity gets flags; its coefficients mean nothing then.
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
    HR__MARK_BITS = 128,
    // Marks of a subsequence. The longer it is, the less is decoded twice, but
    // the more symbols follow on each other. A picture of more bits a block has
    // long ones: it has more bits a symbol, too.
    HR__SUB_MARKS = 8,
    HR__LONG_MARKS = 18,
    HR__LONG_BITS = 50,
    HR__SUB_FAR = 6,    // at most so many subsequences behind its own a decoder
                        // reads
    HR__SUB_BACK = 64,  // that an item of hr_entropy_check goes back to find
                        // one that is of the chain for certain
    HR__SUB_ROOM = 1024,  // symbols of a decoder that a GPU keeps
    // Marks of a picture's subsequences for which hr_entropy_check goes on by
    // itself, each item for a 64th of them (HR__MAX_TAPS of layout.h explains
    // the limit on loops).
    HR__MARKS_ALONE = 65536,
    HR__MCU_BLOCKS = 10,  // at most
    HR__CODES = 6,        // of a scan, at most
    HR__FAST_BITS = 11,   // of the scan, that a look-up sees
    HR__SCAN_SLACK = 2,   // words behind the scan that are read
    HR__DC_SIZE = 11,     // most bits of a value
    HR__AC_SIZE = 10,
    // Blocks of an interval and a component, at most: an item of hr_entropy_dc
    // goes through a 64th of them, twice, for three components (HR__MAX_TAPS of
    // layout.h explains the limit on loops).
    HR__INTERVAL_BLOCKS = 600000,
    // Flags: the file is irregular; so much of it is out of step that one
    // thread of the host is faster.
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

// The table that is made of it. An entry of `fast` has the symbol that so many
// bits begin with: length of the code << 8 | symbol, 0 for longer codes. Its
// upper half has the same of a second symbol, one of an AC whose code begins
// behind the first one's value and ends among these bits; else 0. Longer codes
// by their length: the largest code, -1 without one, and the number to add to a
// code for the place of its symbol.
struct hr__huffman {
    hr__word fast[1 << HR__FAST_BITS];
    hr__word last[17], add[17];
    hr__word symbol[256];
};

struct hr__interval {
    hr__word begin, end;        // bits of the scan
    hr__word mcu, mcus;         // its first MCU, and how many
    hr__word sub, subs;         // its subsequences
};

// The decoder of a subsequence. State: block of the MCU << 6 | coefficient.
struct hr__sub {
    hr__word at, state;  // where it is
    hr__word symbols;    // decoded up to the end of the next subsequence
    hr__word blocks;     // that began
    hr__word next, mark;  // the subsequence of the interval whose decoder it
                          // met, and 1 + the mark; or HR__NEXT_..
    hr__word last;        // how many subsequences behind its own, if 2 or more
    // From hr_entropy_check on: 1 + the mark from which on it tells the truth,
    // 0: its beginning, or HR__FROM_NOWHERE; blocks of the interval that begin
    // before that.
    hr__word from, before;
    // And what another decoder from further back has found in this subsequence:
    // a place, the bit where that ends (0: nothing), blocks that begin before.
    hr__word cover, cover_to, cover_before;
};
#define HR__NEXT_OPEN 0xffffffffu  // it is at the end of its own
#define HR__NEXT_ON 0xfffffffeu    // of the next one
#define HR__NEXT_FAR 0xfffffffdu   // and as far as it may be
#define HR__NEXT_ODD 0xfffffffcu   // what it read was odd
#define HR__NEXT_END 0xfffffffbu   // the interval ended
#define HR__FROM_NOWHERE 0xffffffffu

// Where a decoder is at or behind so many bits of a subsequence: its own, then
// the next one, then where others begin.
struct hr__mark {
    hr__word place;   // bits from there << 10 | state; or HR__MARK_NONE
    hr__word counts;  // symbols << 16 | blocks
};
#define HR__MARK_NONE 0xffffffffu

// Marks that a decoder may leave: so many in its own subsequence and as many in
// the next one, and where others begin.
static inline hr__word hr__all_marks(hr__word sub_marks)
{
    return 2 * sub_marks + HR__SUB_FAR - 1;
}

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
    hr__word codes;      // struct hr__code[num_codes], in pairs: of DCs, of
                         // the ACs of the same components
    hr__word num_codes;
    hr__word num_intervals, num_subs;
    hr__word sub_marks;     // of a subsequence
    hr__word subs, marks;   // work: byte of struct hr__sub[num_subs], of
                            // struct hr__mark[num_subs][hr__all_marks()],
    hr__word tables;        // of struct hr__huffman[num_codes],
    hr__word kept, capacity;  // of u16[][capacity][HR__GROUP]: symbols of as
                              // many decoders side by side. 0: none are kept
    hr__word open;          // of 1 + num_subs words: how many decoders are
                            // HR__NEXT_ON, and of which subsequences
    hr__word flag;          // out: byte of a word, HR__ODD_..
    hr__word counts;        // work: in programs built with HR__COUNTED, byte of
                            // a word for each subsequence: look-ups << 16 |
                            // symbols decoded
    hr__word num_components, mcus_w;
    hr__word mcu_blocks;                 // blocks of an MCU
    hr__word of[HR__MCU_BLOCKS];         // of each, its component
    hr__word nth[HR__MCU_BLOCKS];        // and which of that one's it is
    struct hr__entropy_component comp[3];
};

#endif
