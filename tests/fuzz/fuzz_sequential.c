// SPDX-License-Identifier: Apache-2.0
// Differential fuzz target of our own JPEG decoder against libjpeg-turbo: any
// file; what window of it, on which instruction set, and who helps when, a sum
// of its bytes says. What it takes, libjpeg must decode to the same rows without
// a warning; anything else it gives up.
#include "cpu_fallback/jpeg_scan.h"
#include "fuzz_rows.h"
#include "split_help.h"

static struct fuzz_rows f;
static uint8_t own[3 * FUZZ_PIXELS], other[3 * FUZZ_PIXELS];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cpu_decode_params p = {.data = data, .size = size};
    struct cpu_decode_error err;
    const struct cpu_ops *with;
    struct turns_help help;
    struct cpu_scan scan;
    uint64_t seed = size;
    bool check;

    fuzz_rows_begin(&f);
    // Of others only the sizes of a picture would be guessed.
    if (!cpu_scan_parse(&scan, p.data, p.size) || scan.width > FUZZ_PIXELS ||
        (int64_t)scan.width * scan.height > FUZZ_PIXELS)
        return 0;
    p.width = scan.width;
    p.height = scan.height;
    with = fuzz_draw(&f, &p);
    check = p.window.y + p.window.h == p.height;
    turns_help_init(&help, &seed, 20, size % 2 ? 40000 : 1 << 20);
    if (size % 4)
        p.helpers = &help.h;
    cpu_arena_clear(&f.arena, 1 << 20);
    if (fuzz_decode_rows(cpu_sequential_open(&p, with, &f.arena, &err), &p,
                         check, own, &err)) {
        promise(err.result == CPU_REDO);
        return 0;
    }
    promise(!err.warnings);
    cpu_arena_clear(&f.arena, 1 << 20);
    promise(!fuzz_decode_rows(cpu_jpeg_open(&p, with, &f.arena, &err), &p,
                              check, other, &err));
    promise(!err.warnings);
    promise(!memcmp(own, other, fuzz_bytes(&p)));
    return 0;
}
