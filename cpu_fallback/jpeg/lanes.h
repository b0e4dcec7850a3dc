// SPDX-License-Identifier: Apache-2.0
// Stage entropy of up to 16 pictures at a time in one thread, one in each
// 32-bit lane of a register: the sister of entropy.h for batches. A lane makes
// the same of a row of MCUs as cpu_entropy_row(). At an irregularity, or at the
// end of its data, it stops in front of that row, and cpu_entropy goes on
// there.
//
// A lane knows no picture but its own: the result does not depend on which lane
// a picture is in, nor on the pictures in the others.
#ifndef CPU_LANES_H
#define CPU_LANES_H

#include "entropy.h"

enum {
    CPU_LANES = 16,
    // Tables of a lane, 256 entries each: two for DC, two for AC, and those of
    // longer codes.
    CPU_LANE_TABLES = 32,
    // Bytes of a lane's stream at hand, and behind them what a step reads.
    CPU_LANE_STREAM = 8 << 10,
    CPU_LANE_PAD = 64,
    // Blocks of a row of MCUs at most, and behind them what a coefficient
    // behind the last one would write.
    CPU_LANE_BLOCKS = 384,
    CPU_LANE_SPARE = 1,
};

// The kernel's: a number of each lane. Positions count from the beginning of
// the memory below.
struct cpu_lane_steps {
    _Alignas(CPU_ALIGN) uint32_t pos[CPU_LANES];  // next bit,
    uint32_t limit[CPU_LANES];   // no step begins behind this one
    uint32_t at[CPU_LANES];      // byte of the next coefficient,
    uint32_t end[CPU_LANES];     // and behind the row's last
    uint32_t table[CPU_LANES];   // first entry of the next symbol's,
    uint32_t base[CPU_LANES];    // and of the lane's first
    uint32_t block[CPU_LANES];   // the block of the MCU after this, one bit,
    uint32_t top[CPU_LANES];     // the bit behind the last one's,
    uint32_t second[CPU_LANES];  // bits of those with the second tables
    uint32_t keep[CPU_LANES];    // CPU_LANE_DC, CPU_LANE_AC: what is stored
    uint32_t odd[CPU_LANES];     // CPU_LANE_ODD: something was
    const uint8_t *streams;
    const uint32_t *tables;
    int16_t *blocks;
    uint32_t nowhere;  // as `at`: no block lies there, so values go there
};

// One entry of a table.
//
//   bits   0  bits of code and value, 5 bits
//          5  CPU_LANE_DC, CPU_LANE_AC: a value to store
//          7  not the end of a block
//          8  bits of the code, 5 bits
//         13  bits of the value, 5 bits
//         18  the table after this one, unless a block begins; 6 bits
//         24  twice the advance
enum {
    CPU_LANE_DC = 1 << 5,
    CPU_LANE_AC = 1 << 6,
    CPU_LANE_GOES_ON = 1 << 7,
    CPU_LANE_ODD = 0x7e,
};

struct cpu_lane_mcus {
    int mcus, units;  // of a row; blocks of each
    int h, v;         // of which this component has so many
};

// The same steps in two forms, of which the processor says which is faster.
enum cpu_lane_form {
    CPU_LANES_WIDE,    // all lanes in one register, gathers and scatters
    CPU_LANES_HALVES,  // in two of half the width, loads and stores
    CPU_LANE_FORMS,
};

typedef unsigned cpu_lane_steps_fn(struct cpu_lane_steps *s);

struct cpu_lane_ops {
    // Steps until a lane's row is complete, or its stream wants more. Returns
    // the lanes of which one is true.
    cpu_lane_steps_fn *steps[CPU_LANE_FORMS];
    // Drops the zero behind each 0xff of [*src, end) until there is no more,
    // `capacity` bytes are written or what follows is a marker. *src: as far as
    // it came. Returns how many; up to 64 more may be written.
    size_t (*unstuff)(uint8_t *dst, size_t capacity, const uint8_t **src,
                      const uint8_t *end);
    // Counts bytes that are 0xff.
    size_t (*stuffed)(const uint8_t *p, size_t n);
    // A component's blocks of a row of MCUs, of which the first one's is the
    // block here, to lines in natural order; they are zero then. dc: the one
    // before; returns the last.
    int (*spread)(const struct cpu_entropy_lines *lines, int16_t (*block)[64],
                  const struct cpu_lane_mcus *mcus, int dc);
};

extern const struct cpu_lane_ops cpu_lane_ops_avx512;
extern cpu_lane_steps_fn cpu_lane_steps_half_avx512;

// How a picture left its lane.
enum cpu_lane_result {
    CPU_LANE_ROWS,  // it has the rows that were wanted
    CPU_LANE_GIVEN_UP,
};

// One picture. The file and the params must stay until it is done.
struct cpu_lane_params {
    const struct cpu_scan *scan;  // one that cpu_lanes_take() takes
    int first, rows;              // rows of MCUs wanted: first .. rows - 1
    int left[3], count[3];        // and of each component the columns of blocks
    // The next row's blocks, as of cpu_entropy_row(), and it may go on.
    bool (*row)(void *ctx, int row, const struct cpu_entropy_lines lines[3]);
    void (*done)(void *ctx, enum cpu_lane_result result);
    void *ctx;
};

// The remaining work of a picture that has left its lane.
struct cpu_lane_rest {
    struct cpu_lane_params p;
    int row;            // the next,
    const uint8_t *at;  // which begins at this byte
    unsigned bit;       // and bit of it,
    int dc[3];          // with these before it
};

struct cpu_lanes;

// Returns NULL if there is no memory.
struct cpu_lanes *cpu_lanes_create(const struct cpu_lane_ops *ops,
                                   const struct cpu_heap *heap);
void cpu_lanes_destroy(struct cpu_lanes **lanes);

// Says whether lanes can take such a scan at all.
bool cpu_lanes_take(const struct cpu_scan *scan);
// Returns how many are empty.
int cpu_lanes_empty(const struct cpu_lanes *l);
// Puts a picture into an empty one. False: its tables are not for lanes, or its
// data too few; nothing is called.
bool cpu_lanes_add(struct cpu_lanes *l, const struct cpu_lane_params *p);
// Goes on until a picture is done, or each lane has had a row or so.
void cpu_lanes_run(struct cpu_lanes *l, enum cpu_lane_form form);
// Empties all lanes; returns how many pictures were in them. The caller then
// calls cpu_lanes_alone() for each rest.
int cpu_lanes_leave(struct cpu_lanes *l, struct cpu_lane_rest rest[CPU_LANES]);
// Empties one of them: the lane whose params have this ctx.
void cpu_lanes_leave_one(struct cpu_lanes *l, const void *ctx,
                         struct cpu_lane_rest *rest);
// Goes on as one stream, to the end: too few lanes cost more than that. These
// lanes, in which there may be pictures, only lend memory: any thread may do
// it.
void cpu_lanes_alone(struct cpu_lanes *l, const struct cpu_lane_rest *rest);
// Does both for all pictures.
void cpu_lanes_finish(struct cpu_lanes *l);

#endif
