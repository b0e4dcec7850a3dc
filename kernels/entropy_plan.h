// SPDX-License-Identifier: Apache-2.0
// Host side of entropy.h: tables and scans of a JPEG as the kernels read them.
// Pure functions.
#ifndef HR__KERNELS_ENTROPY_PLAN_H
#define HR__KERNELS_ENTROPY_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "kernels/entropy.h"

// From the counts of codes by length, 1 .. 16, and the symbols in their order.
// False: no such codes exist.
static inline bool hr__entropy_table(struct hr__huffman *t,
                                     const uint8_t counts[16],
                                     const uint8_t symbols[256])
{
    uint32_t code = 0, n = 0;

    memset(t, 0, sizeof(*t));
    for (uint32_t length = 1; length <= 16; length++, code <<= 1) {
        t->add[length] = n - code;
        for (int i = 0; i < counts[length - 1]; i++, code++, n++) {
            uint32_t shift = HR__FAST_BITS - length;

            if (n == 256 || code >> length)
                return false;
            t->symbol[n] = symbols[n];
            if (length > HR__FAST_BITS)
                continue;
            for (uint32_t k = 0; k < UINT32_C(1) << shift; k++)
                t->fast[code << shift | k] = length << 8 | symbols[n];
        }
        t->last[length] = counts[length - 1] ? code - 1 : UINT32_MAX;
    }
    return true;
}

// Words that a scan of that many bytes may take.
static inline size_t hr__entropy_words(size_t size)
{
    return size / 4 + 1 + HR__SCAN_SLACK;
}

// One more interval ends with byte `at` of the words.
static inline bool hr__entropy_interval(struct hr__interval *list, uint32_t n,
                                        uint32_t at, uint32_t restart,
                                        uint32_t mcus)
{
    struct hr__interval *i = &list[n];

    i->begin = n ? i[-1].end : 0;
    i->end = 8 * at;
    i->mcu = n * restart;
    i->mcus = mcus - i->mcu < restart ? mcus - i->mcu : restart;
    i->sub = n ? i[-1].sub + i[-1].subs : 0;
    i->subs = (i->end - i->begin + HR__SUB_BITS - 1) / HR__SUB_BITS;
    return i->subs;
}

// The scan's bytes, which begin behind its header, to words, and its intervals
// of `restart` MCUs (0: there is one) of `mcus`, which `list` has room for. How
// many; 0: there are others, or the scan does not end with EOI.
static inline uint32_t hr__entropy_scan(const uint8_t *scan, size_t size,
                                        uint32_t restart, uint32_t mcus,
                                        uint32_t *words,
                                        struct hr__interval *list)
{
    uint8_t *bytes = (uint8_t *)words;
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
                 !hr__entropy_interval(list, n++, at, restart, mcus))
            return 0;
    }
    memset(bytes + at, 0, 4 + 4 * HR__SCAN_SLACK - at % 4);
    for (uint32_t i = 0; i < at / 4 + 1 + HR__SCAN_SLACK; i++)
        words[i] = __builtin_bswap32(words[i]);
    return n == all ? n : 0;
}

#endif
