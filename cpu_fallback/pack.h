// SPDX-License-Identifier: Apache-2.0
// Encoded JPEG bytes -> a packed picture (packed.h): stage entropy of the whole
// picture, a row of MCUs at a time, each packed before the next is read. And
// the same for whoever has rows of coefficients from elsewhere.
#ifndef CPU_PACK_H
#define CPU_PACK_H

#include "decode.h"
#include "packed.h"

// The packed picture in pieces, in memory of the arena.
struct cpu_pack {
    size_t size;  // of the whole
    struct cpu_packed_head *head;
    struct cpu_pack_piece *pieces;
};

// A packed picture in the making, in memory of the arena.
struct cpu_packing {
    const struct cpu_ops *ops;
    struct cpu_arena *arena;
    struct cpu_packed_head *head;
    struct cpu_pack_piece *first, *last;
    uint64_t at;  // bytes so far
    uint32_t segment;
    enum cpu_result result;  // why one of those below was false
    const char *text;
};

struct cpu_scan;
struct cpu_entropy_lines;

// Begins; then all rows of MCUs from the first to the last, with all columns of
// their blocks; then end(), which says what there is to write. False: it goes
// no further, and the arena keeps what it has until the caller resets it.
bool cpu_packing_begin(struct cpu_packing *k, const struct cpu_scan *scan,
                       const struct cpu_ops *ops, struct cpu_arena *arena);
bool cpu_packing_row(struct cpu_packing *k, const struct cpu_scan *scan,
                     int row, const struct cpu_entropy_lines *lines);
bool cpu_packing_end(struct cpu_packing *k, int orientation,
                     struct cpu_pack *out);

// Packs the picture of p->data, of which cpu_packed_open() makes the rows that
// cpu_sequential_open() or cpu_jpeg_open() make of the file, without a warning.
// orientation: 1 .. 8, kept in the head. Window and channels mean nothing here.
//
// CPU_UNSUPPORTED: no picture for this form (CMYK, 12 bits, sampling factors
// that are no divisors, a progressive file whose scans lack coefficients).
// CPU_CORRUPT, CPU_TRUNCATED: also for faults that decoding mends. *err as of
// cpu_decode_close(). On failure the arena is as it was.
enum cpu_result cpu_pack(const struct cpu_decode_params *p, int orientation,
                         const struct cpu_ops *ops, struct cpu_arena *arena,
                         struct cpu_pack *out, struct cpu_decode_error *err);

// Writes out->size bytes, to a multiple of 8.
void cpu_pack_write(const struct cpu_pack *pack, void *to);

#endif
