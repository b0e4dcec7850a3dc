// SPDX-License-Identifier: Apache-2.0
// Differential fuzz target of our own JPEG decoder against libjpeg-turbo: the
// first bytes choose a window, the rest is the file. What it takes, libjpeg
// must decode to the same rows without a warning; anything else it gives up.
#include <string.h>

#include "cpu_fallback/decode.h"
#include "cpu_fallback/jpeg_scan.h"
#include "fuzz.h"
#include "heaps.h"

enum { CONTROL = 6, MOST = 1 << 16 };

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

static int part(uint8_t of, int n)
{
    return of * n / 256;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cpu_decode_params p = {.channels = 3};
    struct cpu_decode_error err;
    const uint8_t *control = data;
    const struct cpu_ops *with;
    struct cpu_scan scan;
    bool check;

    if (!state)
        begin();
    if (size < CONTROL)
        return 0;
    p.data = data + CONTROL;
    p.size = size - CONTROL;
    p.jpeg = state;
    // Of others only the sizes of a picture would be guessed.
    if (!cpu_scan_parse(&scan, p.data, p.size) || scan.width > MOST ||
        (int64_t)scan.width * scan.height > MOST)
        return 0;
    p.width = scan.width;
    p.height = scan.height;
    p.channels = control[5] & 1 ? 1 : 3;
    with = &ops[(control[5] >> 1) % 3];
    p.window.x = part(control[0], p.width);
    p.window.y = part(control[1], p.height);
    p.window.w = 1 + part(control[2], p.width - p.window.x);
    p.window.h = 1 + part(control[3], p.height - p.window.y);
    if (control[4] & 1)
        p.window = (struct cpu_rect){0, 0, p.width, p.height};
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
