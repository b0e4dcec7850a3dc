// SPDX-License-Identifier: Apache-2.0
// Our own decoder: a row of MCUs at a time through the stages entropy and
// reconstruct into rings of samples, from there through color into rows. Only
// the blocks that the window needs are stored. Coefficients may come from a
// packed picture instead of the stage entropy: then nothing above the window is
// touched. If there are threads to help with a large picture, they make rows
// ahead (split.h), and the rings are longer.
#include "cpu_fallback/decode_impl.h"

#include <string.h>

#include "entropy.h"
#include "cpu_fallback/packed/packed.h"
#include "ring.h"
#include "split.h"

enum {
    // For pictures that threads help with: rows of the rings at least, and
    // bytes at most. helped_bytes() of hal/job/prepare.c depends on both.
    HELPED_ROWS = 4,
    HELPED_MOST = 8 << 20,
};

struct sequential {
    struct cpu_decode base;  // first
    struct cpu_scan scan;
    const struct cpu_packed_head *packed;  // or
    struct cpu_entropy whole;              // or, in bands,
    struct cpu_entropy *entropy;           // the one of each
    struct cpu_split *split;               // NULL: no thread helps
    int period;                            // rows of a band
    int kept;                              // rows whose blocks are
    struct cpu_entropy_lines lines[3];     // of the first of these
    struct cpu_ring ring;
    struct cpu_planes_rows *from;
    int row;  // the next one
};

static struct sequential *sequential(struct cpu_decode *d)
{
    return (struct sequential *)d;
}

static _Noreturn void redo(struct cpu_decode *d)
{
    cpu_decode_throw(d, CPU_REDO, "");
}

// ---- Help -------------------------------------------------------------------

// Rows of MCUs that the window will read.
static int rows_to_read(const struct sequential *d)
{
    return cpu_ring_to_read(&d->scan, &d->base.p.window);
}

// Says whether threads will help, and sets how many rows are in memory.
static bool find_help(struct sequential *d)
{
    struct cpu_helpers *helpers = d->base.p.helpers;
    int64_t pixels = (int64_t)rows_to_read(d) * d->scan.mcu_v * d->scan.width;
    size_t blocks = 0, row;

    d->kept = 1;
    d->period = d->scan.rows;
    if (!helpers || pixels < helpers->pixels || !helpers->idle(helpers))
        return false;
    for (int i = 0; i < d->scan.num_components; i++)
        blocks += (size_t)(d->scan.comp[i].h * d->scan.comp[i].v);
    // Coefficients and samples.
    row = (size_t)d->scan.mcus * blocks * (64 * sizeof(int16_t) + 64);
    if (row > HELPED_MOST / HELPED_ROWS)
        return false;
    d->kept = CPU_SPLIT_RING;
    if (row > helpers->bytes / CPU_SPLIT_RING)
        d->kept = (int)(helpers->bytes / row);
    if (d->kept < HELPED_ROWS)
        d->kept = HELPED_ROWS;
    return true;
}

// Rows that can be decoded apart, if there are any.
static void find_bands(struct sequential *d, int rows)
{
    int period = cpu_entropy_period(&d->scan);
    int n = cpu_split_bands(rows, period);
    const uint8_t **starts;

    if (n == 1)
        return;
    starts = cpu_decode_alloc(&d->base, (size_t)n, sizeof(*starts));
    if (!cpu_entropy_find(&d->scan, starts, n))
        return;
    d->period = period;
    d->entropy = cpu_decode_alloc(&d->base, (size_t)n, sizeof(*d->entropy));
    for (int b = 0; b < n; b++)
        cpu_entropy_begin_band(&d->entropy[b], &d->scan, d->whole.tables, b,
                               starts[b]);
}

static bool split_entropy(void *ctx, int row);
static void reconstruct(void *ctx, int row);
static void lap(void *ctx, enum cpu_stage stage);

static void ask_for_help(struct sequential *d)
{
    struct cpu_split_params p = {
        .begin = d->row,
        .rows = rows_to_read(d),
        .first = d->ring.first,
        .ring = d->kept,
        .entropy = split_entropy,
        .reconstruct = reconstruct,
        .lap = lap,
        .ctx = d,
        .helpers = d->base.p.helpers,
    };
    struct cpu_split_band *bands;
    struct cpu_split *split;
    int n;

    if (d->packed)
        d->period = 1;
    else
        find_bands(d, p.rows);
    p.period = d->period;
    n = cpu_split_bands(p.rows, p.period);
    bands = cpu_decode_alloc(&d->base, (size_t)n, sizeof(*bands));
    split = cpu_decode_alloc(&d->base, 1, sizeof(*split));
    cpu_split_begin(split, &p, bands, n);
    d->split = split;
}

// Ends the help: the owner does the rest alone.
static void close_step(struct cpu_decode *base)
{
    struct sequential *d = sequential(base);

    if (d->split)
        cpu_split_end(d->split);
    d->split = NULL;
}

// ---- Opening ----------------------------------------------------------------

// Room for blocks, and for the samples of so many rows of MCUs.
static void plan(struct sequential *d, int samples)
{
    switch (cpu_ring_open(&d->ring, &d->scan, samples, &d->base.p, d->base.ops,
                          d->base.pool.arena, &d->from)) {
    case CPU_OK:
        break;
    case CPU_NOMEM:
        cpu_decode_throw(&d->base, CPU_NOMEM, "out of memory");
    default:
        redo(&d->base);
    }
    for (int i = 0; i < d->scan.num_components; i++)
        if (!cpu_entropy_lines_alloc(&d->lines[i], d->base.pool.arena,
                                     d->scan.comp[i].v * d->kept,
                                     d->ring.comp[i].left,
                                     d->ring.comp[i].count))
            cpu_decode_throw(&d->base, CPU_NOMEM, "out of memory");
}

// The scan and the quantizers are known.
static void begin(struct sequential *d)
{
    bool helped = find_help(d);

    plan(d, helped ? d->kept : CPU_RING_ROWS);
    // Above the window a packed picture has nothing to be read.
    if (d->packed)
        d->row = d->ring.first;
    if (helped)
        ask_for_help(d);
}

static void open_step(struct cpu_decode *base)
{
    struct sequential *d = sequential(base);

    cpu_entropy_open(base, &d->scan, &d->whole);
    d->entropy = &d->whole;
    for (int i = 0; i < d->scan.num_components; i++)
        hr__jpeg_quant(&d->scan.comp[i].quant, d->ring.comp[i].quant);
    begin(d);
}

// A packed picture says the same as a file's header, and was checked.
static void open_packed(struct cpu_decode *base)
{
    struct sequential *d = sequential(base);
    const struct cpu_packed_head *head = (const void *)base->p.data;

    d->packed = head;
    cpu_packed_scan(head, &d->scan);
    if (d->scan.width != base->p.width || d->scan.height != base->p.height)
        cpu_decode_throw(base, CPU_CORRUPT, "another picture's size");
    for (int i = 0; i < d->scan.num_components; i++)
        memcpy(d->ring.comp[i].quant, head->comp[i].quant,
               sizeof(head->comp[i].quant));
    begin(d);
}

// ---- Rows -------------------------------------------------------------------

// Finds where the blocks of a row lie.
static void lines_of(const struct sequential *d, int row,
                     struct cpu_entropy_lines lines[3])
{
    for (int i = 0; i < d->scan.num_components; i++) {
        lines[i] = d->lines[i];
        lines[i].blocks += (size_t)(row % d->kept * d->scan.comp[i].v) *
                           (size_t)lines[i].pitch;
    }
}

static void reconstruct(void *ctx, int row)
{
    struct sequential *d = ctx;
    struct cpu_entropy_lines lines[3];

    lines_of(d, row, lines);
    cpu_ring_reconstruct(&d->ring, row, lines);
}

static void lap(void *ctx, enum cpu_stage stage)
{
    const struct sequential *d = ctx;

    if (d->base.p.lap)
        d->base.p.lap(d->base.p.stop_ctx, stage);
}

static bool decode_row(struct sequential *d, int row)
{
    struct cpu_entropy_lines lines[3];

    lines_of(d, row, lines);
    return cpu_entropy_row(&d->entropy[row / d->period],
                           row < d->ring.first ? NULL : lines);
}

static void unpack_row(struct sequential *d, int row)
{
    struct cpu_entropy_lines lines[3];

    lines_of(d, row, lines);
    for (int i = 0; i < d->scan.num_components; i++) {
        int v = d->scan.comp[i].v;

        for (int k = 0; k < v; k++)
            d->base.ops->unpack_line(lines[i].blocks + k * lines[i].pitch,
                                     cpu_packed_line(d->packed, i, row * v + k),
                                     (int)d->packed->comp[i].columns,
                                     lines[i].first, lines[i].count);
    }
}

static bool split_entropy(void *ctx, int row)
{
    struct sequential *d = ctx;

    if (d->packed)
        unpack_row(d, row);
    return d->packed || decode_row(d, row);
}

// Bands were decoded from where a marker was found: whether the one above ends
// there.
static bool joins(const struct sequential *d, int row)
{
    int band = row / d->period;

    return d->packed || row % d->period || !band ||
           cpu_entropy_joins(&d->entropy[band - 1]);
}

static void read_row(struct sequential *d)
{
    bool ok = d->split ? cpu_split_row(d->split, d->row)
                       : split_entropy(d, d->row);

    if (!ok || !joins(d, d->row))
        redo(&d->base);
    if (!d->split) {
        lap(d, CPU_STAGE_ENTROPY);
        if (d->row >= d->ring.first)
            reconstruct(d, d->row);
        lap(d, CPU_STAGE_RECONSTRUCT);
    }
    d->row++;
    cpu_decode_check_stop(&d->base);
}

static void rows_step(struct cpu_decode *base)
{
    struct sequential *d = sequential(base);
    int y = base->p.window.y + base->done, there, n;

    while ((there = cpu_ring_ready(&d->scan, d->row)) <= y)
        read_row(d);
    n = there - y < base->max ? there - y : base->max;
    base->got = cpu_planes_read(d->from, base->rows, n);
    lap(d, CPU_STAGE_COLOR);
}

// Reads to the end of the scan. Below the window no thread helps: the decoder
// of the last band goes on.
static void finish_step(struct cpu_decode *base)
{
    struct sequential *d = sequential(base);

    while (d->split && d->row < rows_to_read(d))
        read_row(d);
    close_step(base);
    d->whole = d->entropy[(d->row - 1) / d->period];
    d->entropy = &d->whole;
    d->period = d->scan.rows;
    while (d->row < d->scan.rows)
        read_row(d);
    if (!cpu_entropy_ends(&d->whole))
        redo(base);
}

const struct cpu_decode_kind cpu_sequential_decoder = {
    .size = sizeof(struct sequential),
    .open = open_step,
    .rows = rows_step,
    .finish = finish_step,
    .close = close_step,
};

const struct cpu_decode_kind cpu_packed_decoder = {
    .size = sizeof(struct sequential),
    .open = open_packed,
    .rows = rows_step,
    .close = close_step,
};
