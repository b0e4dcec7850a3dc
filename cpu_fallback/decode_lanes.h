// SPDX-License-Identifier: Apache-2.0
// A picture in a lane (lanes.h): the planes that its window needs, made a row of
// MCUs at a time; rows are made of them when all are there.
#ifndef CPU_DECODE_LANES_H
#define CPU_DECODE_LANES_H

#include "lanes.h"
#include "planes.h"

struct cpu_lane_picture {
    struct cpu_scan scan;
    struct cpu_planes planes;
    uint8_t *data;  // of the planes
    size_t size;
    // Private.
    const struct cpu_ops *ops;
    struct cpu_decode_params p;
    struct cpu_lane_params lane;
    _Alignas(CPU_ALIGN) uint16_t quant[3][64];
};

// Bytes of planes at most; of larger windows one stream decodes row by row.
enum { CPU_LANE_PLANES = 1 << 20 };

// Makes room for the window's planes in the arena and puts the picture into an
// empty lane; done() is called with ctx when it is through. p->stop is asked
// after each row, and ends it as given up. False: it is not for lanes, or there
// is no memory; one stream decodes it, as it does what a lane gives up.
bool cpu_lane_open(struct cpu_lane_picture *pic, struct cpu_lanes *lanes,
                   const struct cpu_decode_params *p, const struct cpu_ops *ops,
                   struct cpu_arena *arena,
                   void (*done)(void *ctx, enum cpu_lane_result result),
                   void *ctx);

#endif
