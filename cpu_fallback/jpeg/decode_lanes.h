// SPDX-License-Identifier: Apache-2.0
// Decodes a picture in a lane (lanes.h), as decode_sequential.c does in one
// stream. Rows of MCUs come when the lane has them, and the caller is told how
// many of the window's rows are ready by then.
#ifndef CPU_DECODE_LANES_H
#define CPU_DECODE_LANES_H

#include "lanes.h"
#include "pack.h"
#include "ring.h"

struct cpu_lane_calls {
    // There are more rows: all that are there are read before it returns (with
    // cpu_planes_read()). False: the picture is given up.
    bool (*rows)(void *ctx);
    void (*done)(void *ctx, enum cpu_lane_result result);
    void *ctx;
};

struct cpu_lane_picture {
    struct cpu_planes_rows *from;
    int there;                   // rows of the window
    struct cpu_packing packing;  // if that was wanted: all of the picture, when
                                 // it is done with CPU_LANE_ROWS
    // Private.
    bool packs;
    struct cpu_scan scan;
    const struct cpu_ops *ops;
    struct cpu_decode_params p;
    struct cpu_lane_calls calls;
    struct cpu_lane_params lane;
    struct cpu_ring ring;
    int rows;  // behind the last row of MCUs that the window needs
};

// Makes room in the arena and puts the picture into an empty lane; p->lap is
// called as of cpu_sequential_decoder; p->stop only where no rows of the window
// come. pack: all of the picture is decoded, and packed on the way, in pieces
// from there; NULL: it is not. False: it is not for lanes, or there is no
// memory; one stream decodes it, as it does what a lane gives up. The picture
// stays where it is until it is done.
bool cpu_lane_open(struct cpu_lane_picture *pic, struct cpu_lanes *lanes,
                   const struct cpu_decode_params *p, const struct cpu_ops *ops,
                   struct cpu_arena *arena, const struct cpu_lane_calls *calls,
                   struct cpu_pieces *pack);

#endif
