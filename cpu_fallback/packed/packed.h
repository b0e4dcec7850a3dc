// SPDX-License-Identifier: Apache-2.0
// A whole picture's quantised coefficients, packed to be kept: about half as
// much again as its file, and many times faster to read. Made a line of blocks
// at a time (pack_line), read any part of a line at a time (unpack_line).
//
// One block of memory, little endian: struct cpu_packed_head, the offsets, the
// segments one behind the other, CPU_PACKED_PAD bytes of 0. A segment is a line
// of 8x8 blocks of one component, with what pads the last MCU, and stands
// alone. Their order: rows of MCUs, in each the components, in each its lines.
// A segment of n blocks:
//
//   u16 escapes        how many DC differences escape
//   i8  d[n]           DC minus that of the block to the left, the first minus
//                      0, modulo 2^16; CPU_PACKED_ESCAPE: it escapes
//   u8  rows[n]        bit r: row r has a coefficient that is not 0; DC does
//                      not count
//   u8  len[n]         bytes of the block's payload
//   i16 dc[escapes]    the differences that escape
//   payloads           those of each block one behind the other
//
// The payload of a block whose k coefficients are not 0, DC not counted:
//
//   u8  mask[]         of each row that has any: bit c = column c
//   u4  nibbles[k]     in natural order, low half of a byte first, two's
//                      complement; 0: not -8 .. 7, see the bytes. The unused
//                      half of the last byte is 0
//   i8  bytes[]        for each nibble that is 0; 0: not -128 .. 127, see
//   i16 words[]        for each byte that is 0
//
// A reader that begins in the middle of a line adds up d and len from its
// start: 40 blocks in 6 ns with AVX-512, 26 with AVX2 (check_simd --bench, the
// last 10 blocks of 50 and the first). Offsets within a line would save less,
// since the DCs must be added up anyway, and would need 32 bits: a line may
// have 8192 blocks of 229 bytes.
#ifndef CPU_PACKED_H
#define CPU_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CPU_PACKED_MAGIC = 0x4b505248,  // "HRPK"
    CPU_PACKED_VERSION = 1,
    CPU_PACKED_PAD = 128,       // bytes behind the last segment
    CPU_PACKED_ESCAPE = -128,   // of a DC difference
    CPU_PACKED_MOST = 229,      // bytes of a payload: 8 + 32 + 63 + 2 x 63
    CPU_PACKED_COMPONENTS = 3,  // at most
};

struct cpu_packed_component {
    uint32_t h, v;       // sampling factors
    uint32_t columns;    // blocks in a line: MCUs in a row x h
    uint16_t quant[64];  // natural order
};

struct cpu_packed_head {
    uint32_t magic;
    uint32_t version;
    uint64_t checksum;  // of all that follows it, up to the padding
    uint64_t size;      // bytes of all, padding included
    uint32_t width, height;
    uint32_t num_components;  // 1 or 3
    uint32_t color;           // enum hr_color
    uint32_t h_max, v_max;
    uint32_t mcus, rows;  // MCUs in a row, and rows of them
    uint32_t segments;
    uint32_t orientation;                                     // EXIF's, 1 .. 8
    uint32_t reserved;                                        // 0
    struct cpu_packed_component comp[CPU_PACKED_COMPONENTS];  // others: 0
    // From the start of the head to each segment, and to behind the last one:
    // a picture of 4 GiB or more is not kept.
    uint32_t offset[];
};

// ---- Writing ----

// The most bytes that pack_line writes for a line of n blocks.
static inline size_t cpu_packed_bound(size_t n)
{
    return 2 + n * (3 + 2 + CPU_PACKED_MOST) + 64;
}

// Fills in the rest of a head of which width, height, orientation,
// num_components, color, and of each component h, v and quant are there. False:
// no such picture is kept. Then offset[segments + 1] are to be filled in by the
// caller.
bool cpu_packed_head_init(struct cpu_packed_head *head);

// Bytes of the head with its offsets: where the first segment begins.
size_t cpu_packed_head_size(const struct cpu_packed_head *head);

// Fills in size and checksum, when all else is there, the padding too.
void cpu_packed_seal(struct cpu_packed_head *head);

// ---- Reading ----

// Says whether these bytes, at a multiple of 8, are a picture that all of this
// file may read: whatever they are, this reads none behind them, and takes time
// in proportion to them. After it unpack_line cannot go astray.
bool cpu_packed_check(const void *data, size_t size);

// The same for one segment of n blocks, 1 .. 65535. Behind it CPU_PACKED_PAD
// bytes may be read, whose values do not matter.
bool cpu_packed_check_line(const uint8_t *segment, size_t size, int n);

// The segment of a component's line, counted from the top of the picture.
const uint8_t *cpu_packed_line(const struct cpu_packed_head *head,
                               int component, int line);

// ---- A part of a line ----

// Blocks first .. first + count - 1 of a segment of n, which was checked: they
// become a segment that stands alone.
struct cpu_packed_cut {
    const uint8_t *segment;
    int n, first, count;
    // The rest is found by cpu_packed_cut():
    int16_t dc;                 // of the first block
    uint32_t skipped, escapes;  // DC differences that escape: up to the first
                                // block, and behind it
    uint32_t from, bytes;       // of the payloads
};

// The bytes of the new segment; then writes so many, and no more.
size_t cpu_packed_cut(struct cpu_packed_cut *cut);
void cpu_packed_cut_write(const struct cpu_packed_cut *cut, uint8_t *to);

#endif
