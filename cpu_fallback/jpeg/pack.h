// SPDX-License-Identifier: Apache-2.0
// Encoded JPEG bytes -> a packed picture (packed.h): stage entropy of the whole
// picture, a row of MCUs at a time, each packed before the next is read.
// cpu_packing_row() does the same for rows of coefficients from elsewhere.
#ifndef CPU_PACK_H
#define CPU_PACK_H

#include "cpu_fallback/decode.h"
#include "cpu_fallback/packed/packed.h"

// The packed picture in pieces, in memory of the arena.
struct cpu_pack {
    size_t size;  // of the whole
    struct cpu_packed_head *head;
    struct cpu_pack_piece *pieces;
};

// A free list of the pieces that packed pictures are built in, all of one size.
// Zero but for the heap. Threads: one at a time.
struct cpu_pieces {
    const struct cpu_heap *heap;
    int keep;  // so many free pieces are kept
    int spare;
    struct cpu_pack_piece *first;  // of these
    uint8_t *line;                 // room for a line that does not fit a piece
    size_t capacity;
};

void cpu_pieces_finish(struct cpu_pieces *pieces);

// Bytes of a piece.
enum { CPU_PIECE = (32 << 10) - 128 };

// A packed picture in the making: its head is in memory of the arena, and so
// are its pieces, unless there is another place for them.
struct cpu_packing {
    const struct cpu_ops *ops;
    struct cpu_arena *arena;
    struct cpu_pieces *pieces;  // NULL: the arena
    int num;                    // of its pieces
    struct cpu_packed_head *head;
    struct cpu_pack_piece *first, *last;
    uint8_t *line;  // as of cpu_pieces, of the arena
    uint64_t at;    // bytes so far
    uint32_t segment;
    enum cpu_result result;  // why one of those below was false
    const char *text;
};

struct cpu_scan;
struct cpu_entropy_lines;

// Begins; then come all rows of MCUs from the first to the last, with all
// columns of their blocks; then end(), which says what there is to write.
// False: the packing has failed, and the arena keeps its memory until the
// caller resets it.
bool cpu_packing_begin(struct cpu_packing *k, const struct cpu_scan *scan,
                       const struct cpu_ops *ops, struct cpu_arena *arena,
                       struct cpu_pieces *pieces);
bool cpu_packing_row(struct cpu_packing *k, const struct cpu_scan *scan,
                     int row, const struct cpu_entropy_lines *lines);
bool cpu_packing_end(struct cpu_packing *k, int orientation,
                     struct cpu_pack *out);
// Gives back the pieces that are not the arena's; what end() made is gone then.
void cpu_packing_drop(struct cpu_packing *k);

// Packs the picture of p->data, of which cpu_packed_decoder makes the rows that
// cpu_sequential_decoder or cpu_jpeg_decoder make of the file, without a warning.
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
