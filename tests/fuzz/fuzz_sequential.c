// SPDX-License-Identifier: Apache-2.0
// Differential fuzz target of our own JPEG decoder against libjpeg-turbo: any
// file; a sum of its bytes selects the window, the instruction set, and the
// turns of helpers. libjpeg must decode an accepted file to the same rows
// without a warning; any other file is given up. In lanes, where there are any,
// the file gives the same rows or is given up; the packed bytes made on the way
// equal those of cpu_pack().
#include "cpu_fallback/jpeg/decode_lanes.h"
#include "cpu_fallback/jpeg/scan.h"
#include "fuzz_rows.h"
#include "split_help.h"

static struct fuzz_rows f;
static uint8_t own[3 * FUZZ_PIXELS], other[3 * FUZZ_PIXELS];

// Room for a packed picture: no coefficient has more than three bytes, and the
// rest is more than the padding to whole MCUs of any narrow picture.
enum { FUZZ_PACKED = 64 << 20 };
static _Alignas(8) uint8_t packed[2][FUZZ_PACKED];

// ---- The file in lanes ----

static struct cpu_lanes *lanes;
static struct cpu_pieces pieces;

struct lane {
    struct cpu_lane_picture pic;
    int got;
    bool open, made;
};

static bool take_rows(void *ctx)
{
    struct lane *lane = ctx;
    const uint8_t *rows[CPU_DECODE_ROWS];
    size_t row = (size_t)lane->pic.p.window.w * (size_t)lane->pic.p.channels;

    while (lane->got < lane->pic.there) {
        int n = lane->pic.there - lane->got;

        n = cpu_planes_read(lane->pic.from, rows, n < 16 ? n : 16);
        for (int i = 0; i < n; i++)
            memcpy(other + row * (size_t)lane->got++, rows[i], row);
    }
    return true;
}

static void through(void *ctx, enum cpu_lane_result result)
{
    ((struct lane *)ctx)->made = result == CPU_LANE_ROWS;
}

static void write_pack(const struct cpu_pack *pack, uint8_t *to)
{
    promise(pack->size <= FUZZ_PACKED);
    cpu_pack_write(pack, to);
}

// Compares the bytes that the first lane has packed.
static void check_packed(struct lane *l, const struct cpu_decode_params *p,
                         const struct cpu_ops *with)
{
    struct cpu_decode_error err;
    struct cpu_pack ours, want;

    if (!cpu_packing_end(&l->pic.packing, 1, &ours)) {
        promise(cpu_pack(p, 1, with, &f.arena, &want, &err));
        return;
    }
    write_pack(&ours, packed[0]);
    promise(!cpu_pack(p, 1, with, &f.arena, &want, &err));
    write_pack(&want, packed[1]);
    promise(ours.size == want.size);
    promise(!memcmp(packed[0], packed[1], want.size));
}

// Decodes the file in lanes into `other`; returns false if they give it up. It
// is in several lanes, so that its rows come when others' do.
static bool in_lanes(const struct cpu_decode_params *p,
                     const struct cpu_ops *with, int n, bool pack)
{
    static struct lane lane[4];
    unsigned runs = 0;

    if (!with->lanes)
        return false;
    if (!lanes)
        promise(lanes = cpu_lanes_create(with->lanes, &f.heap.heap));
    cpu_arena_clear(&f.arena, 1 << 20);
    pieces = (struct cpu_pieces){.heap = &f.heap.heap, .keep = 3};
    for (int i = 0; i < n; i++) {
        const struct cpu_lane_calls calls = {take_rows, through, &lane[i]};

        lane[i].got = 0;
        lane[i].made = false;
        lane[i].open = cpu_lane_open(&lane[i].pic, lanes, p, with, &f.arena,
                                     &calls, pack ? &pieces : NULL);
    }
    while (cpu_lanes_empty(lanes) < CPU_LANES)
        cpu_lanes_run(lanes, runs++ % CPU_LANE_FORMS);
    for (int i = 1; i < n; i++)
        promise(lane[i].made == lane[0].made);
    promise(!lane[0].made || lane[0].got == p->window.h);
    if (lane[0].made && pack)
        check_packed(&lane[0], p, with);
    for (int i = 0; pack && i < n; i++)
        if (lane[i].open)
            cpu_packing_drop(&lane[i].pic.packing);
    cpu_pieces_finish(&pieces);
    return lane[0].made;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cpu_decode_params p = {.data = data, .size = size};
    struct cpu_decode_error err;
    const struct cpu_ops *with;
    struct turns_help help;
    struct cpu_scan scan;
    uint64_t seed = size;
    bool check, pack = size % 5 < 2;

    fuzz_rows_begin(&f);
    // Only these files have sizes that need no guess.
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
    if (fuzz_decode_rows(cpu_decode_open(&cpu_sequential_decoder, &p, with,
                                         &f.arena, &err),
                         &p, check, own, &err)) {
        promise(err.result == CPU_REDO);
        promise(!in_lanes(&p, with, 1 + (int)(size % 4), pack));
        return 0;
    }
    promise(!err.warnings);
    if (in_lanes(&p, with, 1 + (int)(size % 4), pack))
        promise(!memcmp(own, other, fuzz_bytes(&p)));
    cpu_arena_clear(&f.arena, 1 << 20);
    promise(!fuzz_decode_rows(cpu_decode_open(&cpu_jpeg_decoder, &p, with,
                                              &f.arena, &err),
                              &p, check, other, &err));
    promise(!err.warnings);
    promise(!memcmp(own, other, fuzz_bytes(&p)));
    return 0;
}
