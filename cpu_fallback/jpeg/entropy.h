// SPDX-License-Identifier: Apache-2.0
// Stage entropy: the Huffman-coded data of a scan -> quantised coefficients, a
// row of MCUs at a time.
//
// Nothing is mended. An irregularity (a code that does not exist, a coefficient
// behind the 63rd, a misplaced marker or end) stops the decoding: then
// libjpeg-turbo decodes the picture again from its beginning, with its own
// mends and messages.
#ifndef CPU_ENTROPY_H
#define CPU_ENTROPY_H

#include "cpu_fallback/decode_impl.h"
#include "scan.h"

enum {
    // Bits of a look-up's index. Two AC tables of 8 KiB fit any first level
    // cache, beside the blocks; 11 bits were no faster with a cache of 32 KiB.
    CPU_AC_BITS = 10,
    // How many more bits a look-up may consume: three look-ups take 45 of a
    // refill's 56 bits, and the fourth sees 10 again.
    CPU_AC_MORE = 5,
    CPU_AC_MOST = CPU_AC_BITS + CPU_AC_MORE,
    CPU_DC_BITS = 9,
};

// A Huffman code for codes of any length: limit[n] is what follows the last
// code of n bits, and symbols[first[n] + c] stands for code c of n bits; both
// as 16 bits from the top.
struct cpu_huffman_codes {
    uint32_t limit[17];
    int32_t first[17];
    const uint8_t *symbols;
};

// One entry of an AC table: up to two symbols, if their codes are among the
// bits that were looked up. The last symbol's value may lack its last bits,
// which are added later.
//
//   bits   0  bits of all, up to CPU_AC_MOST; 6 bits
//          7  special: only the first symbol's code was seen, or (0 bits) not
//             even that. Its size is at 16
//          8  advance of the first: run + 1
//         16  advance of all
//         24  bits of the first; 5 bits
//         29  how many of the last one's are missing, taken from CPU_AC_MORE;
//             3 bits
//         32  value of the first
//         48  value of the last
struct cpu_ac_table {
    uint64_t entry[1 << CPU_AC_BITS];
    struct cpu_huffman_codes codes;
};

// Bits of the code and the value, and from bit 8 on those of the value; 0: a
// longer code.
struct cpu_dc_table {
    uint16_t entry[1 << CPU_DC_BITS];
    struct cpu_huffman_codes codes;
};

struct cpu_entropy_tables {
    struct cpu_dc_table dc[4];
    struct cpu_ac_table ac[4];
};

// Makes the tables that the scan uses. False: one of them is no Huffman code.
bool cpu_entropy_tables(struct cpu_entropy_tables *t,
                        const struct cpu_scan *scan);

struct cpu_entropy {
    const struct cpu_scan *scan;
    const struct cpu_entropy_tables *tables;
    const uint8_t *p;  // the next byte
    uint64_t buffer;   // the next bits, from the top
    int bits;          // how many of them are valid,
    int made_up;       // and of these, bits behind the last one of the data
    bool ended;        // there are no more before a marker
    int dc[3];         // the last one of each component
    int row;           // the next
    int restart;       // MCUs to the next restart marker
    uint8_t marker;    // which of the eight
};

void cpu_entropy_begin(struct cpu_entropy *e, const struct cpu_scan *scan,
                       const struct cpu_entropy_tables *tables);

// Called after begin(): goes on at that row, the first bit of which is bit
// `bit` (0 .. 7, from the top) of byte p, or a later one; dc: the DCs before
// it. Not behind a restart marker.
void cpu_entropy_go_on(struct cpu_entropy *e, int row, const uint8_t *p,
                       unsigned bit, const int dc[3]);

// ---- In bands, between restart markers (entropy_bands.c) ----

// Returns the rows of MCUs of a band: after so many a restart marker stands
// between rows. All rows, if there is no marker in such a place.
int cpu_entropy_period(const struct cpu_scan *scan);

// Finds where the data of the first n bands begin; n > 0. False: a marker in
// front of one is not the expected one. The data between are not checked.
bool cpu_entropy_find(const struct cpu_scan *scan, const uint8_t **starts,
                      int n);

// Does the same as begin(), for a band whose data begin there.
void cpu_entropy_begin_band(struct cpu_entropy *e, const struct cpu_scan *scan,
                            const struct cpu_entropy_tables *tables, int band,
                            const uint8_t *start);

// Called after the last row of a band: says whether the next one begins here,
// if one that was found follows.
bool cpu_entropy_joins(const struct cpu_entropy *e);

// ---- A decoder's ----

// Part of a decoder's step: parses the file of its params, makes the tables in
// its arena and begins; the scan must stay where it is. Throws, CPU_REDO if the
// file is not for this stage.
void cpu_entropy_open(struct cpu_decode *d, struct cpu_scan *scan,
                      struct cpu_entropy *e);

// Where the blocks of a component go: of each row of MCUs those in columns
// [first, first + count), natural order; line k of the row from
// blocks + k * pitch on. One block behind each line may be written, and
// reconstruct may read three.
struct cpu_entropy_lines {
    int16_t (*blocks)[64];
    int first, count, pitch;
};

// Allocates the blocks of a component with v lines in a row of MCUs. False: no
// memory.
bool cpu_entropy_lines_alloc(struct cpu_entropy_lines *lines,
                             struct cpu_arena *arena, int v, int first,
                             int count);

// Decodes the next row; lines: of each component, or NULL to skip it. False:
// there is an irregularity.
bool cpu_entropy_row(struct cpu_entropy *e,
                     const struct cpu_entropy_lines *lines);

// Says whether nothing but this marker comes next.
bool cpu_entropy_at_marker(const struct cpu_entropy *e, uint8_t marker);

// Called after the last row: says whether nothing but the end of the picture
// follows.
bool cpu_entropy_ends(struct cpu_entropy *e);

#endif
