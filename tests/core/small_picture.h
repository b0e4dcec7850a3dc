// SPDX-License-Identifier: Apache-2.0
// For tests of packed pictures, in a cache and as sources: a JPEG of each kind,
// whether it can be packed, and one sample of it, small.
#ifndef HEADRACE_TESTS_SMALL_PICTURE_H
#define HEADRACE_TESTS_SMALL_PICTURE_H

#include <headrace/headrace.h>

#include "testing.h"

enum { SMALL_W = 40, SMALL_H = 30, SMALL_BYTES = 3 * SMALL_W * SMALL_H };

// Decodes, crops and resizes to SMALL_W x SMALL_H; for pictures of at least
// 141 x 108.
extern const struct hr_op small_ops[3];

// Returns a sample of a file in memory, with small_ops. It points to the bytes.
struct hr_sample small_sample(const struct bytes *b);

// Decodes it in a job of its own and sets *r. The caller frees the pixels.
uint8_t *small_make(hr_device dev, struct hr_sample s, struct hr_result *r);

enum { SMALL_KINDS = 12 };

extern const struct small_kind {
    const char *name;
    struct jpeg_spec spec;
    bool packs;  // can be packed, so a cache keeps it
} small_kinds[SMALL_KINDS];

// A JPEG of kind i, 181 x 143; free .data.
struct bytes small_of_kind(size_t i, uint64_t *seed);
// True if the sample came from a cache: its entropy coding was not read.
bool small_from_cache(const struct hr_result *r);
// True if the sample comes out as from a device without a cache.
bool small_same(hr_device dev, const struct hr_sample *s,
                struct hr_result *result);

#endif
