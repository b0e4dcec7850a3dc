// SPDX-License-Identifier: Apache-2.0
// Rings of samples: what our own decoders (decode_sequential.c, decode_lanes.c)
// make of a scan's blocks, between the stages reconstruct and color. No more
// than some rows of MCUs of them are in memory, and only the columns that the
// window needs.
#ifndef CPU_RING_H
#define CPU_RING_H

#include "entropy.h"
#include "cpu_fallback/pixel/planes.h"

// Rows of MCUs that are enough: the last rows of one are upsampled when the
// next is there, and need nothing above it.
enum { CPU_RING_ROWS = 2 };

struct cpu_ring_component {
    int left, count;  // columns of blocks that the window needs
    int height;       // rows of a row of MCUs
    uint8_t *samples;
    size_t stride;
    _Alignas(CPU_ALIGN) uint16_t quant[64];  // the decoder fills it in
};

struct cpu_ring {
    const struct cpu_scan *scan;
    const struct cpu_ops *ops;
    int rows;   // of MCUs that are kept
    int first;  // of the picture's that the window needs
    struct cpu_ring_component comp[3];
};

// Rows of the picture whose samples are there, and those beside them, when so
// many rows of MCUs are: the last ones of a row wait for the next.
// libjpeg-turbo reads as far for them.
int cpu_ring_ready(const struct cpu_scan *scan, int rows);

// Rows of MCUs that the window will read.
int cpu_ring_to_read(const struct cpu_scan *scan,
                     const struct hr__rect *window);

// Opens a ring of so many rows of MCUs, in memory of the arena, for the picture
// and window of p; the scan must stay where it is. *from reads the window's
// rows, as far as they are ready. CPU_NOMEM; CPU_CORRUPT: stage color cannot
// take it.
enum cpu_result cpu_ring_open(struct cpu_ring *r, const struct cpu_scan *scan,
                              int rows, const struct cpu_decode_params *p,
                              const struct cpu_ops *ops,
                              struct cpu_arena *arena,
                              struct cpu_planes_rows **from);

// The samples of a row of MCUs, of its blocks in these lines, which have all
// the columns that are needed.
void cpu_ring_reconstruct(const struct cpu_ring *r, int row,
                          const struct cpu_entropy_lines lines[3]);

#endif
