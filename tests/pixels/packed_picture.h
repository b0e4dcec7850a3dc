// SPDX-License-Identifier: Apache-2.0
// Whole files to packed pictures, through our own entropy decoder.
#ifndef HEADRACE_TESTS_PACKED_PICTURE_H
#define HEADRACE_TESTS_PACKED_PICTURE_H

#include "cpu_fallback/cpu_ops.h"
#include "cpu_fallback/packed/packed.h"

// Each line, as it was and as it was packed.
typedef void packed_line_fn(void *ctx, const int16_t (*blocks)[64], int n,
                            const uint8_t *segment, size_t size);

// In one piece of malloc(), of exactly head->size bytes. NULL: no file for our
// own decoder. line may be NULL.
struct cpu_packed_head *packed_picture(const uint8_t *data, size_t size,
                                       const struct cpu_ops *ops,
                                       packed_line_fn *line, void *ctx);

#endif
