// SPDX-License-Identifier: Apache-2.0
// Lines of blocks of every kind, for the tests of packing.
#ifndef HEADRACE_TESTS_PACKED_BLOCKS_H
#define HEADRACE_TESTS_PACKED_BLOCKS_H

#include <stdint.h>

enum packed_kind {
    PACKED_PICTURE,  // as in pictures
    PACKED_NIBBLES,  // dense: no escapes,
    PACKED_BYTES,    // some to bytes,
    PACKED_WORDS,    // some to words
    PACKED_EDGES,    // what just escapes, and what just does not
    PACKED_RANDOM,   // any 16 bits
    PACKED_EXTREME,  // only the largest and the least
    PACKED_LEAPS,    // DC from one end to the other, alone
    PACKED_EMPTY,
    PACKED_KINDS,
};

// From test_rnd(). Kind PACKED_KINDS: each block of another.
void packed_blocks_fill(int16_t (*blocks)[64], int n, enum packed_kind kind);

#endif
