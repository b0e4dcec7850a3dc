// SPDX-License-Identifier: Apache-2.0
// Differential fuzz target of packing: any JPEG. A packed picture is sound, and
// its rows are the rows that libjpeg-turbo makes of the file, which it decodes
// to the end without a warning.
#include <stdlib.h>

#include "cpu_fallback/jpeg/pack.h"
#include "fuzz_rows.h"
#include "hal/facts/facts.h"

static struct fuzz_rows f;
static uint8_t packed_rows[3 * FUZZ_PIXELS], rows[3 * FUZZ_PIXELS];

static bool is_picture(const uint8_t *data, size_t size, struct hr_info *info)
{
    return !hr__header_parse(data, size, true, NULL, info, NULL) &&
           info->format == HR_FORMAT_JPEG && info->width <= FUZZ_PIXELS &&
           (int64_t)info->width * info->height <= FUZZ_PIXELS &&
           info->scans < 20;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cpu_decode_params p = {.data = data, .size = size}, of_packed;
    struct cpu_decode_error err;
    const struct cpu_ops *with;
    struct cpu_pack pack;
    struct hr_info info;
    bool whole;

    if (!is_picture(data, size, &info))
        return 0;
    fuzz_rows_begin(&f);
    p.width = info.width;
    p.height = info.height;
    with = fuzz_draw(&f, &p);
    whole = p.window.y + p.window.h == p.height;
    cpu_arena_clear(&f.arena, 1 << 20);
    if (cpu_pack(&p, info.orientation, with, &f.arena, &pack, &err))
        return 0;
    of_packed = p;
    of_packed.size = pack.size;
    of_packed.data = aligned_alloc(64, (pack.size + 63) & ~(size_t)63);
    promise(of_packed.data);
    cpu_pack_write(&pack, (uint8_t *)of_packed.data);
    promise(cpu_packed_check(of_packed.data, pack.size));
    cpu_arena_clear(&f.arena, 1 << 20);
    promise(!fuzz_decode_rows(cpu_decode_open(&cpu_packed_decoder, &of_packed,
                                              with, &f.arena, &err),
                              &of_packed, true, packed_rows, &err));
    promise(!err.warnings);
    free((uint8_t *)of_packed.data);
    cpu_arena_clear(&f.arena, 1 << 20);
    promise(!fuzz_decode_rows(cpu_decode_open(&cpu_jpeg_decoder, &p, with,
                                              &f.arena, &err),
                              &p, whole, rows, &err));
    promise(!err.warnings);
    promise(!memcmp(packed_rows, rows, fuzz_bytes(&p)));
    return 0;
}
