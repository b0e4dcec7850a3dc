// SPDX-License-Identifier: Apache-2.0
// Rows that kernels read, up to where they may no longer, and write, between
// bytes that are watched.
#ifndef HEADRACE_TESTS_SIMD_ROWS_H
#define HEADRACE_TESTS_SIMD_ROWS_H

#include "cpu_fallback/cpu_ops.h"
#include "fenced.h"

enum { SIMD_ROWS = 16, SIMD_BYTES = 8192, SIMD_GUARD = 64 };

// Rows of random content: each ends CPU_SLACK before a page that faults.
struct simd_rows {
    struct fenced f[SIMD_ROWS];
    const uint8_t *row[SIMD_ROWS];
};
void simd_rows_init(struct simd_rows *rows, size_t size);
void simd_rows_finish(struct simd_rows *rows);
// The slack is not zero: kernels must not let it into a result.
void simd_rows_fill(struct simd_rows *rows, size_t bytes);

// A destination row with watched bytes before it and behind its slack.
struct simd_target {
    uint8_t *buf;
    size_t capacity;
};
bool simd_target_intact(const struct simd_target *t, const uint8_t *row,
                        size_t bytes, size_t slack);

// For rows of up to SIMD_BYTES; clear() puts them anywhere.
struct simd_targets {
    struct simd_target t[SIMD_ROWS];
    uint8_t *row[SIMD_ROWS];
};
void simd_targets_init(struct simd_targets *t);
void simd_targets_finish(struct simd_targets *t);
void simd_targets_clear(struct simd_targets *t);
// The first rows have the same bytes, and nothing else of got was written.
bool simd_targets_equal(const struct simd_targets *want,
                        const struct simd_targets *got, int rows, size_t bytes);

#endif
