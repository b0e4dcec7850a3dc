// SPDX-License-Identifier: Apache-2.0
// Differential fuzz target of our own JPEG decoder against libjpeg-turbo: any
// file; what window of it, and on which instruction set, a sum of its bytes
// says. What it takes, libjpeg must decode to the same rows without a warning; anything else it gives up.
#include <string.h>

#include "cpu_fallback/decode.h"
#include "cpu_fallback/jpeg_scan.h"
#include "fuzz.h"
#include "heaps.h"

enum { MOST = 1 << 16 };

static struct counting_heap heap;
static struct cpu_ops ops[3];
static struct cpu_arena arena;
static struct cpu_jpeg_state *state;
static uint8_t own[3 * MOST], other[3 * MOST];

static void begin(void)
{
    counting_heap_init(&heap);
    cpu_arena_init(&arena, &heap.heap);
    state = cpu_jpeg_state_create(&heap.heap);
    promise(state);
    for (unsigned i = 0; i < 3; i++)
        cpu_ops_init(&ops[i], (2u << i) - 1);
}

static enum cpu_result decode(struct cpu_decode *d,
                              const struct cpu_decode_params *p, bool check,
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

// A number below n, and the next one.
static int choose(uint32_t *sum, int n)
{
    *sum = *sum * 1664525u + 1013904223u;
    return (int)((uint64_t)*sum * (uint64_t)n >> 32);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cpu_decode_params p = {.data = data, .size = size};
    struct cpu_decode_error err;
    uint32_t sum = 0;
    const struct cpu_ops *with;
    struct cpu_scan scan;
    bool check;

    if (!state)
        begin();
    p.jpeg = state;
    // Of others only the sizes of a picture would be guessed.
    if (!cpu_scan_parse(&scan, p.data, p.size) || scan.width > MOST ||
        (int64_t)scan.width * scan.height > MOST)
        return 0;
    p.width = scan.width;
    p.height = scan.height;
    for (size_t i = 0; i < size; i++)
        sum = sum * 31 + data[i];
    p.channels = choose(&sum, 2) ? 1 : 3;
    with = &ops[choose(&sum, 3)];
    p.window = (struct cpu_rect){0, 0, p.width, p.height};
    if (choose(&sum, 2)) {
        p.window.x = choose(&sum, p.width);
        p.window.y = choose(&sum, p.height);
        p.window.w = 1 + choose(&sum, p.width - p.window.x);
        p.window.h = 1 + choose(&sum, p.height - p.window.y);
    }
    check = p.window.y + p.window.h == p.height;
    cpu_arena_clear(&arena, 1 << 20);
    switch (decode(cpu_sequential_open(&p, with, &arena, &err), &p, check, own,
                   &err)) {
    case CPU_OK:
        break;
    default:
        promise(err.result == CPU_REDO);
        return 0;
    }
    promise(!err.warnings);
    cpu_arena_clear(&arena, 1 << 20);
    promise(
        !decode(cpu_jpeg_open(&p, with, &arena, &err), &p, check, other, &err));
    promise(!err.warnings);
    promise(
        !memcmp(own, other,
                (size_t)p.window.w * (size_t)p.window.h * (size_t)p.channels));
    return 0;
}
