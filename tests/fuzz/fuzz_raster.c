// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the decoders of BMP and PNM: any file; a sum of its bytes says
// which window, on which instruction set. A window has the pixels of the whole
// picture, grey those of its colours, and no part is refused of what is good.
#include "fuzz_rows.h"
#include "hal/engine/raster.h"

static struct fuzz_rows f;
static uint8_t whole[3 * FUZZ_PIXELS], part[3 * FUZZ_PIXELS];
static uint8_t gray[FUZZ_PIXELS + CPU_SLACK];

static enum cpu_result decode(const struct cpu_decode_params *p,
                              const struct cpu_ops *with, uint8_t *out)
{
    struct cpu_decode_error err;

    cpu_arena_clear(&f.arena, 1 << 20);
    return fuzz_decode_rows(cpu_decode_open(&cpu_raster_decoder, p, with,
                                            &f.arena, &err),
                            p, true, out, &err);
}

static void compare(const struct cpu_decode_params *p)
{
    size_t row = (size_t)p->window.w * (size_t)p->channels;

    for (int y = 0; y < p->window.h; y++) {
        const uint8_t *from = whole + 3 * ((size_t)(p->window.y + y) *
                                               (size_t)p->width +
                                           (size_t)p->window.x);

        if (p->channels == 1)
            f.ops[0].rgb_to_gray(gray, from, p->window.w);
        promise(!memcmp(part + (size_t)y * row, p->channels == 1 ? gray : from,
                        row));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cpu_decode_params p = {.data = data, .size = size}, all;
    const struct cpu_ops *with;
    struct hr__raster r;
    enum cpu_result result;

    fuzz_rows_begin(&f);
    if (!hr__raster_read(data, size, &r) || r.width > FUZZ_PIXELS ||
        (int64_t)r.width * r.height > FUZZ_PIXELS)
        return 0;
    p.width = r.width;
    p.height = r.height;
    with = fuzz_draw(&f, &p);
    all = p;
    all.channels = 3;
    all.window = (struct hr__rect){0, 0, p.width, p.height};
    result = decode(&all, &f.ops[0], whole);
    promise(decode(&p, with, part) == result);
    if (!result)
        compare(&p);
    return 0;
}
