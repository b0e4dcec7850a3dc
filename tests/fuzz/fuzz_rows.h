// SPDX-License-Identifier: Apache-2.0
// Shared by the differential fuzz targets of decoders: a window that the file's
// bytes choose, and its rows by any decoder.
#ifndef HEADRACE_TESTS_FUZZ_ROWS_H
#define HEADRACE_TESTS_FUZZ_ROWS_H

#include <string.h>

#include "cpu_fallback/decode.h"
#include "fuzz.h"
#include "heaps.h"

enum { FUZZ_PIXELS = 1 << 16 };  // of a picture, at most

struct fuzz_rows {
    struct counting_heap heap;
    struct cpu_ops ops[3];
    struct cpu_arena arena;
    struct cpu_jpeg_state *state;
};

static inline void fuzz_rows_begin(struct fuzz_rows *f)
{
    if (f->state)
        return;
    counting_heap_init(&f->heap);
    cpu_arena_init(&f->arena, &f->heap.heap);
    f->state = cpu_jpeg_state_create(&f->heap.heap);
    promise(f->state);
    for (unsigned i = 0; i < 3; i++)
        cpu_ops_init(&f->ops[i], (2u << i) - 1);
}

// A number below n, and the next one.
static inline int fuzz_choose(uint32_t *sum, int n)
{
    *sum = *sum * 1664525u + 1013904223u;
    return (int)((uint64_t)*sum * (uint64_t)n >> 32);
}

// Window, channels and instruction set, of a picture whose size is known.
static inline const struct cpu_ops *fuzz_draw(struct fuzz_rows *f,
                                              struct cpu_decode_params *p)
{
    uint32_t sum = 0;
    const struct cpu_ops *with;

    for (size_t i = 0; i < p->size; i++)
        sum = sum * 31 + p->data[i];
    p->jpeg = f->state;
    p->channels = fuzz_choose(&sum, 2) ? 1 : 3;
    with = &f->ops[fuzz_choose(&sum, 3)];
    p->window = (struct hr__rect){0, 0, p->width, p->height};
    if (fuzz_choose(&sum, 2)) {
        p->window.x = fuzz_choose(&sum, p->width);
        p->window.y = fuzz_choose(&sum, p->height);
        p->window.w = 1 + fuzz_choose(&sum, p->width - p->window.x);
        p->window.h = 1 + fuzz_choose(&sum, p->height - p->window.y);
    }
    return with;
}

static inline size_t fuzz_bytes(const struct cpu_decode_params *p)
{
    return (size_t)p->window.w * (size_t)p->window.h * (size_t)p->channels;
}

// All rows of an opened decoder; out has fuzz_bytes().
static inline enum cpu_result fuzz_decode_rows(
    struct cpu_decode *d, const struct cpu_decode_params *p, bool check,
    uint8_t *out, struct cpu_decode_error *err)
{
    size_t row = (size_t)p->window.w * (size_t)p->channels;
    const uint8_t *rows[CPU_DECODE_ROWS];

    if (!d)
        return err->result;
    for (int y = 0, n; y < p->window.h; y += n) {
        n = cpu_decode_rows(d, rows, CPU_DECODE_ROWS, err);
        if (!n)
            break;
        for (int i = 0; i < n; i++)
            memcpy(out + row * (size_t)(y + i), rows[i], row);
    }
    return cpu_decode_close(d, check, err);
}

#endif
