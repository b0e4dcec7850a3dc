// SPDX-License-Identifier: Apache-2.0
// The stages of decoding, each alone: ours as the decoder itself tells them
// apart (lap of cpu_decode_params), row of MCUs by row of MCUs; libjpeg-turbo's
// by difference, for it does not: coefficients, samples, pixels.
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "bench_core.h"
#include "cpu_fallback/cpu_ops.h"
#include "cpu_fallback/jpeg/scan.h"
#include "cpu_fallback/jpeg/pack.h"
#include "hal/engine/base.h"

// The time stamp counter of x86 runs at one speed, whatever the core's clock
// does; elsewhere a tick is a nanosecond.
static uint64_t ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return (uint64_t)hr__now();
#endif
}

// ---- Ours -------------------------------------------------------------------

struct watch {
    uint64_t lap;
    double *ticks;  // of three stages
};

static void lap(void *ctx, enum cpu_stage stage)
{
    struct watch *w = ctx;
    uint64_t now = ticks();

    w->ticks[stage] += (double)(now - w->lap);
    w->lap = now;
}

static bool decode(const struct cpu_decode_kind *kind,
                   struct cpu_decode_params p, const struct cpu_ops *ops,
                   struct cpu_arena *arena, double into[3])
{
    struct cpu_decode_error err = {.offset = -1};
    struct watch w = {ticks(), into};
    const uint8_t *rows[CPU_DECODE_ROWS];
    struct cpu_decode *d;
    int left = p.height;

    p.lap = lap;
    p.stop_ctx = &w;
    if (!(d = cpu_decode_open(kind, &p, ops, arena, &err)))
        return false;
    while (left > 0) {
        int n = cpu_decode_rows(d, rows, CPU_DECODE_ROWS, &err);

        if (!n)
            break;
        left -= n;
    }
    return cpu_decode_close(d, !left, &err) == CPU_OK && !left;
}

static double blocks_of(const struct cpu_scan *scan)
{
    double n = 0;

    for (int i = 0; i < scan->num_components; i++)
        n += scan->comp[i].h * scan->comp[i].v;
    return n * scan->mcus * scan->rows;
}

// All stages of one file; nothing is added if one of them does not take it.
static bool one_file(const struct bench_file *source, const struct cpu_ops *ops,
                     struct cpu_arena *arena, struct bench_stages *out)
{
    struct cpu_decode_params p = {.data = source->data, .size = source->size};
    struct bench_stages one = {.files = 1};
    struct cpu_decode_error err;
    struct cpu_scan scan;
    struct cpu_pack pack;
    uint64_t start;
    uint8_t *to;

    if (!cpu_scan_parse(&scan, p.data, p.size))
        return false;
    p.width = scan.width;
    p.height = scan.height;
    p.window = (struct hr__rect){0, 0, p.width, p.height};
    p.channels = 3;
    if (!decode(&cpu_sequential_decoder, p, ops, arena, &one.ticks[ENTROPY]))
        return false;
    start = ticks();
    if (cpu_pack(&p, 1, ops, arena, &pack, &err) ||
        !(to = cpu_arena_alloc(arena, pack.size)))
        return false;
    cpu_pack_write(&pack, to);
    one.ticks[PACK] = (double)(ticks() - start);
    p.data = to;
    p.size = pack.size;
    if (!decode(&cpu_packed_decoder, p, ops, arena, &one.ticks[UNPACK]))
        return false;
    for (int i = 0; i < NUM_STAGES; i++)
        out->ticks[i] += one.ticks[i];
    out->blocks += blocks_of(&scan);
    out->bytes += (double)source->size;
    out->files++;
    return true;
}

void bench_stages(struct bench_file *files, int n, unsigned cpu_mask,
                  struct bench_stages *out)
{
    static struct cpu_arena arena;
    int64_t start = hr__now();
    uint64_t begin = ticks();
    struct cpu_ops ops;

    if (!arena.heap)
        cpu_arena_init(&arena, &cpu_plain_heap);
    cpu_ops_init(&ops, cpu_mask ? cpu_mask : ~0u);
    *out = (struct bench_stages){0};
    for (int i = 0; i < n; i++) {
        files[i].taken = one_file(&files[i], &ops, &arena, out);
        cpu_arena_clear(&arena, SIZE_MAX);
    }
    out->ticks_per_ns = (double)(ticks() - begin) / (double)(hr__now() - start);
}

// ---- libjpeg-turbo's --------------------------------------------------------

struct peer {
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    jmp_buf jump;
    uint8_t *rows;  // as many as one call gives
    size_t size;
};

static void fail(j_common_ptr cinfo)
{
    longjmp(((struct peer *)cinfo)->jump, 1);
}

static void read_samples(struct peer *p)
{
    struct jpeg_decompress_struct *c = &p->cinfo;
    JSAMPROW lines[3][4 * DCTSIZE];
    JSAMPARRAY planes[3] = {lines[0], lines[1], lines[2]};
    uint8_t *at = p->rows;

    c->raw_data_out = TRUE;
    jpeg_start_decompress(c);
    for (int i = 0; i < c->num_components && i < 3; i++)
        for (int y = 0; y < c->comp_info[i].v_samp_factor * DCTSIZE; y++) {
            lines[i][y] = at;
            at += c->comp_info[i].width_in_blocks * DCTSIZE + 64;
        }
    while (c->output_scanline < c->output_height)
        jpeg_read_raw_data(c, planes,
                           (JDIMENSION)c->max_v_samp_factor * DCTSIZE);
}

static void read_pixels(struct peer *p)
{
    struct jpeg_decompress_struct *c = &p->cinfo;

    c->out_color_space = JCS_RGB;
    jpeg_start_decompress(c);
    while (c->output_scanline < c->output_height) {
        JSAMPROW rows[4];

        for (int i = 0; i < 4; i++)
            rows[i] = p->rows + (size_t)i * c->output_width * 3;
        jpeg_read_scanlines(c, rows, 4);
    }
}

// how: 0 coefficients, 1 samples, 2 pixels. False: it does not decode.
static bool peer_file(struct peer *p, const struct bench_file *source, int how)
{
    size_t need;

    if (setjmp(p->jump)) {
        jpeg_abort_decompress(&p->cinfo);
        return false;
    }
    jpeg_mem_src(&p->cinfo, source->data, (unsigned long)source->size);
    jpeg_read_header(&p->cinfo, TRUE);
    need = ((size_t)p->cinfo.image_width + 1024) * 4 * DCTSIZE * 3;
    if (need > p->size) {
        free(p->rows);
        p->size = (p->rows = malloc(need)) ? need : 0;
        if (!p->rows)
            return false;
    }
    if (how == 0)
        jpeg_read_coefficients(&p->cinfo);
    else if (how == 1)
        read_samples(p);
    else
        read_pixels(p);
    jpeg_abort_decompress(&p->cinfo);
    return true;
}

static void open_peer(struct peer *p)
{
    p->cinfo.err = jpeg_std_error(&p->errors);
    p->errors.error_exit = fail;
    jpeg_create_decompress(&p->cinfo);
}

void bench_stages_peer(const struct bench_file *files, int n, double ns[3])
{
    static struct peer peer;

    open_peer(&peer);
    ns[0] = ns[1] = ns[2] = 0;
    for (int i = 0; i < 3 * n; i++) {
        int64_t start = hr__now();

        if (!files[i / 3].taken)
            continue;
        if (!peer_file(&peer, &files[i / 3], i % 3))
            abort();  // for the stages took it
        ns[i % 3] += (double)(hr__now() - start);
    }
    jpeg_destroy_decompress(&peer.cinfo);
}

// ---- Symbols ----------------------------------------------------------------

// Huffman symbols of one block: its DC, each value, 16 zeros in front of one,
// an end unless the last value is there (ITU-T T.81 F.1.2).
static void count_symbols(const JCOEF *block, double out[3])
{
    static const uint8_t natural[64] = {HR__ZIGZAG};
    int run = 0;

    out[0] += 1;
    out[1] += 1;
    for (int k = 1; k < 64; k++) {
        if (!block[natural[k]]) {
            run++;
            continue;
        }
        out[1] += 1 + run / 16;
        out[2] += 1;
        run = 0;
    }
    out[1] += run > 0;
}

static bool symbols_of(struct peer *p, const struct bench_file *source,
                       double out[3])
{
    jvirt_barray_ptr *arrays;

    if (setjmp(p->jump)) {
        jpeg_abort_decompress(&p->cinfo);
        return false;
    }
    jpeg_mem_src(&p->cinfo, source->data, (unsigned long)source->size);
    jpeg_read_header(&p->cinfo, TRUE);
    arrays = jpeg_read_coefficients(&p->cinfo);
    for (int i = 0; i < p->cinfo.num_components; i++) {
        const jpeg_component_info *c = &p->cinfo.comp_info[i];

        for (JDIMENSION y = 0; y < c->height_in_blocks; y++) {
            JBLOCKARRAY row = p->cinfo.mem->access_virt_barray(
                (j_common_ptr)&p->cinfo, arrays[i], y, 1, FALSE);

            for (JDIMENSION x = 0; x < c->width_in_blocks; x++)
                count_symbols(row[0][x], out);
        }
    }
    jpeg_finish_decompress(&p->cinfo);
    return true;
}

bool bench_symbols(const struct bench_file *files, int n, double out[3])
{
    static struct peer peer;
    bool ok = true;

    open_peer(&peer);
    out[0] = out[1] = out[2] = 0;
    for (int i = 0; i < n; i++)
        ok &= symbols_of(&peer, &files[i], out);
    jpeg_destroy_decompress(&peer.cinfo);
    return ok;
}
