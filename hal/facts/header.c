// SPDX-License-Identifier: Apache-2.0
// Recognizes a picture's format by its first bytes.
#include "hal/facts/parts.h"

enum hr_status hr__header_parse(const uint8_t *data, size_t size, bool whole,
                                const struct hr_limits *limits,
                                struct hr_info *info,
                                struct hr__header_error *err)
{
    return hr__header_parse_of(data, size, whole, whole ? size : 0, limits,
                               info, err);
}

enum hr_status hr__header_parse_of(const uint8_t *data, size_t size, bool whole,
                                   uint64_t file,
                                   const struct hr_limits *limits,
                                   struct hr_info *info,
                                   struct hr__header_error *err)
{
    const struct hr__format *format = hr__format_of(data, size);
    const char *begun = hr__format_begun(data, size);
    struct hr__header_error none;
    struct hr__header h = {.data = data,
                           .size = size,
                           .whole = whole,
                           .file = file,
                           .info = info,
                           .err = err ? err : &none};

    hr__limits_default(&h.limits, limits);
    *info = (struct hr_info){.orientation = 1};
    if (!format)
        return begun ? hr__header_short(&h, begun) : hr__header_foreign(&h);
    info->format = format->format;
    if (size > h.limits.file_bytes) {
        hr__header_fail(&h, HR_ELIMIT, 0,
                        "%zu encoded bytes is over the limit of %zu", size,
                        h.limits.file_bytes);
        h.err->offset = -1;
        return HR_ELIMIT;
    }
    return format->parse(&h);
}
