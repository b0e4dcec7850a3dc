// SPDX-License-Identifier: Apache-2.0
// A memory manager for libjpeg that takes everything from an arena, so that a
// decode makes no heap allocation of its own and the arena's limit holds for
// it. It stands in for the one of libjpeg-turbo's jmemmgr.c.
//
// Differences from that one: pools are not freed before the arena is, and a
// virtual array is whole in memory (no backing store), or, if it holds blocks
// and the user says so, a ring.
#ifndef CPU_JPEG_MEMORY_H
#define CPU_JPEG_MEMORY_H

#include <stddef.h>
#include <stdio.h>

#include <jpeglib.h>

#include "cpu_fallback/decode_impl.h"

// Threads: one thread at a time.
struct cpu_jpeg_memory {
    struct jpeg_memory_mgr pub;  // first: libjpeg hands back a pointer to it
    struct cpu_pool *pool;
    struct cpu_jpeg_array *sarrays, *barrays;  // all of the picture
    bool ring;  // arrays of blocks keep only the rows of
                // their last access, which is never above
                // the one before; set it before they are made
};

// Fills in every method; the caller then sets cinfo->mem = &m->pub. A request
// that the pool denies ends in JERR_OUT_OF_MEMORY.
void cpu_jpeg_memory_init(struct cpu_jpeg_memory *m, struct cpu_pool *pool);

// The rows that array number i of blocks (in the order of their making) holds:
// all of them, or the ring's. NULL if there is no such array.
JBLOCKARRAY cpu_jpeg_memory_blocks(const struct cpu_jpeg_memory *m, int i);

#endif
