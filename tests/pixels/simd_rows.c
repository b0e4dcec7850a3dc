// SPDX-License-Identifier: Apache-2.0
#include "simd_rows.h"

#include <stdlib.h>
#include <string.h>

#include "simd_axes.h"

enum { FILL = 0x99 };

void simd_rows_init(struct simd_rows *rows, size_t size)
{
    for (int r = 0; r < SIMD_ROWS; r++)
        fenced_init(&rows->f[r], size + CPU_SLACK);
}

void simd_rows_finish(struct simd_rows *rows)
{
    for (int r = 0; r < SIMD_ROWS; r++)
        fenced_finish(&rows->f[r]);
}

void simd_rows_fill(struct simd_rows *rows, size_t bytes)
{
    int kind = test_rnd_int(0, 5);
    for (int r = 0; r < SIMD_ROWS; r++) {
        uint8_t *p = rows->f[r].end - CPU_SLACK - bytes;
        rows->row[r] = p;
        for (size_t i = 0; i < bytes; i++)
            p[i] = (uint8_t)(kind == 0   ? 0
                             : kind == 1 ? 255
                             : kind == 2 ? (i & 1) * 255
                             : kind == 3 ? (i / 3 & 1) * 255
                                         : test_rnd());
        for (size_t i = 0; i < CPU_SLACK; i++)
            p[bytes + i] = (uint8_t)test_rnd();
    }
}

static uint8_t *target_row(struct simd_target *t, int misalign)
{
    memset(t->buf, FILL, t->capacity);
    return t->buf + SIMD_GUARD + misalign;
}

bool simd_target_intact(const struct simd_target *t, const uint8_t *row,
                        size_t bytes, size_t slack)
{
    const uint8_t *end = row + bytes + slack;
    for (const uint8_t *p = t->buf; p < row; p++)
        if (*p != FILL)
            return false;
    for (const uint8_t *p = end; p < end + SIMD_GUARD; p++)
        if (*p != FILL)
            return false;
    return true;
}

void simd_targets_init(struct simd_targets *t)
{
    for (int r = 0; r < SIMD_ROWS; r++) {
        t->t[r].capacity = SIMD_BYTES + 3 * SIMD_GUARD + CPU_SLACK;
        t->t[r].buf = malloc(t->t[r].capacity);
        if (!t->t[r].buf)
            abort();
    }
}

void simd_targets_finish(struct simd_targets *t)
{
    for (int r = 0; r < SIMD_ROWS; r++)
        free(t->t[r].buf);
}

void simd_targets_clear(struct simd_targets *t)
{
    for (int r = 0; r < SIMD_ROWS; r++)
        t->row[r] = target_row(&t->t[r], test_rnd_int(0, 63));
}

bool simd_targets_equal(const struct simd_targets *want,
                        const struct simd_targets *got, int rows, size_t bytes)
{
    for (int r = 0; r < SIMD_ROWS; r++) {
        size_t m = r < rows ? bytes : 0;
        if (memcmp(want->row[r], got->row[r], m) != 0 ||
            !simd_target_intact(&got->t[r], got->row[r], m,
                                r < rows ? CPU_SLACK : 0))
            return false;
    }
    return true;
}
