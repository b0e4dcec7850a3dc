// SPDX-License-Identifier: Apache-2.0
// Small legal files that cost a decoder much time or memory.
#ifndef HEADRACE_TOOLS_SAMPLES_BOMB_H
#define HEADRACE_TOOLS_SAMPLES_BOMB_H

#include "out.h"

enum samples_bomb_kind {
    SAMPLES_BOMB_FLAT,    // gray, one flat scan
    SAMPLES_BOMB_VISITS,  // gray, flat, 64 scans: few enough in itself
    SAMPLES_BOMB_SCANS,   // a small picture in hundreds of scans
    SAMPLES_BOMB_PNG,     // a header that claims much, no data
};

struct samples_bomb {
    enum samples_bomb_kind kind;
    int value;  // side in pixels; SCANS: an enum samples_order
};

// Appends the file. false: memory ran out.
bool samples_bomb_make(const struct samples_bomb *bomb, uint64_t seed,
                       struct samples_bytes *out);

#endif
