// SPDX-License-Identifier: Apache-2.0
// The checks that all formats share, and how they fail.
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

#include "hal/facts/parts.h"

const struct hr_limits hr__limits_none = {.pixels = UINT64_MAX,
                                          .side = INT_MAX,
                                          .block_visits = UINT64_MAX,
                                          .scans = INT_MAX,
                                          .marker_bytes = SIZE_MAX,
                                          .segments = INT_MAX};

void hr__limits_default(struct hr_limits *out, const struct hr_limits *in)
{
    struct hr_limits l = in ? *in : (struct hr_limits){0};

    // The reasons for the numbers are in the table of hr_limits' defaults:
    // Pillow warns at 89 Mpixel, DALI stops at 256 scans, ICC ends at 16 MB.
    if (!l.pixels)
        l.pixels = 100 * 1000 * 1000;
    if (l.side <= 0)
        l.side = 16384;
    if (!l.block_visits)
        l.block_visits = 50 * 1000 * 1000;
    if (l.scans <= 0)
        l.scans = 100;
    if (!l.item_bytes)
        l.item_bytes = (size_t)512 << 20;
    if (!l.marker_bytes)
        l.marker_bytes = (size_t)16 << 20;
    if (l.segments <= 0)
        l.segments = 4096;
    if (!l.file_bytes)
        l.file_bytes = (size_t)256 << 20;
    if (l.item_ms <= 0)
        l.item_ms = 30000;
    *out = l;
}

enum hr_status hr__header_fail(struct hr__header *h, enum hr_status status,
                               size_t offset, const char *fmt, ...)
{
    va_list args;

    h->err->offset = (int64_t)offset;
    va_start(args, fmt);
    vsnprintf(h->err->text, sizeof(h->err->text), fmt, args);
    va_end(args);
    return status;
}

enum hr_status hr__header_short(struct hr__header *h, const char *what)
{
    return hr__header_fail(h, h->whole ? HR_ETRUNCATED : HR_PENDING, h->size,
                           "the data ends in %s", what);
}

enum hr_status hr__header_check_size(struct hr__header *h, size_t offset)
{
    const struct hr_info *info = h->info;
    uint64_t pixels = (uint64_t)info->width * (uint64_t)info->height;

    if (info->width > h->limits.side || info->height > h->limits.side)
        return hr__header_fail(h, HR_ELIMIT, offset,
                               "a side of %d x %d is over the limit of %d",
                               info->width, info->height, h->limits.side);
    if (pixels > h->limits.pixels)
        return hr__header_fail(
            h, HR_ELIMIT, offset,
            "%d x %d = %llu pixels is over the limit of %llu", info->width,
            info->height, (unsigned long long)pixels,
            (unsigned long long)h->limits.pixels);
    return HR_OK;
}

enum hr_status hr__header_check_room(struct hr__header *h, size_t offset,
                                     size_t end, int count)
{
    if (count > h->limits.segments)
        return hr__header_fail(h, HR_ELIMIT, offset,
                               "over the limit of %d segments before the "
                               "picture",
                               h->limits.segments);
    if (end > h->limits.marker_bytes)
        return hr__header_fail(h, HR_ELIMIT, offset,
                               "%zu bytes before the picture, over the limit "
                               "of %zu",
                               end, h->limits.marker_bytes);
    return HR_OK;
}
