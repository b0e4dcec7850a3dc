// SPDX-License-Identifier: Apache-2.0
// Host side of entropy.h: codes and scans of a JPEG as the kernels read them.
// Pure functions.
#ifndef HR__KERNELS_ENTROPY_PLAN_H
#define HR__KERNELS_ENTROPY_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "kernels/entropy.h"

// Copies a code that lies at from, counts and symbols. False: no such code
// exists, or one of its codes is all ones, or it is for DCs and has more than
// 15 bits: libjpeg refuses those, too (src/jdhuff.c jpeg_make_d_derived_tbl).
static inline bool hr__entropy_code(struct hr__code *to, const uint8_t *from,
                                    bool dc)
{
    uint32_t code = 0, n = 0;

    memset(to, 0, sizeof(*to));
    memcpy(to->counts, from, sizeof(to->counts));
    for (uint32_t length = 1; length <= 16; length++, code <<= 1) {
        code += to->counts[length - 1];
        n += to->counts[length - 1];
        if (n > 256 || (to->counts[length - 1] && code >> length))
            return false;
    }
    memcpy(to->symbols, from + 16, n);
    for (uint32_t i = 0; i < n && dc; i++)
        if (to->symbols[i] > 15)
            return false;
    return true;
}

// Bytes that a scan of so many may take.
static inline size_t hr__entropy_room(size_t size)
{
    return 4 * (size / 4 + 1 + HR__SCAN_SLACK);
}

// Marks of a subsequence, for a scan of so many bytes and blocks.
static inline uint32_t hr__entropy_marks(size_t size, uint32_t blocks)
{
    return 8 * (uint64_t)size > (uint64_t)HR__LONG_BITS * blocks
               ? HR__LONG_MARKS
               : HR__SUB_MARKS;
}

// Subsequences of so many bits.
static inline uint32_t hr__entropy_subs(uint32_t bits, uint32_t marks)
{
    return (bits + HR__MARK_BITS * marks - 1) / (HR__MARK_BITS * marks);
}

// Ends one more interval with byte `at` of them.
static inline bool hr__entropy_interval(struct hr__interval *list, uint32_t n,
                                        uint32_t at, uint32_t restart,
                                        uint32_t mcus, uint32_t marks)
{
    struct hr__interval *i = &list[n];

    i->begin = n ? i[-1].end : 0;
    i->end = 8 * at;
    i->mcu = n * restart;
    i->mcus = mcus - i->mcu < restart ? mcus - i->mcu : restart;
    i->sub = n ? i[-1].sub + i[-1].subs : 0;
    i->subs = hr__entropy_subs(i->end - i->begin, marks);
    return i->subs;
}

// The scan's bytes, which begin behind its header, as kernels want them (bytes:
// at a multiple of 4), and its intervals of `restart` MCUs (0: there is one) of
// `mcus`, which `list` has room for. How many; 0: there are others, or the scan
// does not end with EOI.
static inline uint32_t hr__entropy_scan(const uint8_t *scan, size_t size,
                                        uint32_t restart, uint32_t mcus,
                                        uint32_t marks, uint8_t *bytes,
                                        struct hr__interval *list)
{
    uint32_t n = 0, all, at = 0, marker = 0;
    const uint8_t *end = scan + size, *ff;

    restart = restart ? restart : mcus;
    all = (mcus + restart - 1) / restart;
    while (marker != 0xd9) {
        ff = memchr(scan, 0xff, (size_t)(end - scan));
        if (!ff || end - ff < 2)
            return 0;
        memcpy(bytes + at, scan, (size_t)(ff - scan));
        at += (uint32_t)(ff - scan);
        scan = ff + 2;
        marker = ff[1];
        if (!marker)
            bytes[at++] = 0xff;
        else if ((marker != 0xd9 && marker != (0xd0 | (n & 7))) || n == all ||
                 !hr__entropy_interval(list, n++, at, restart, mcus, marks))
            return 0;
    }
    memset(bytes + at, 0, 4 + 4 * HR__SCAN_SLACK - at % 4);
    return n == all ? n : 0;
}

#endif
