// SPDX-License-Identifier: Apache-2.0
// Our own decoder: a row of MCUs at a time through the stages entropy and
// reconstruct into rings of samples, from there through color into rows. Of all
// that only the blocks exist that the window needs. Coefficients may come from a
// packed picture instead of the stage entropy: then nothing above the window is
// touched. If there are threads to help with a large picture, they make rows
// ahead (split.h), and the rings are longer.
#include "decode_impl.h"

#include <string.h>

#include "entropy.h"
#include "packed.h"
#include "planes.h"
#include "split.h"

enum {
    // Rows of MCUs whose samples are kept. The last rows of one are upsampled
    // when the next is there, and need nothing above it.
    RING = 2,
    // Blocks behind the last of a line whose samples reconstruct may write.
    SPARE = 3,
    // Of helped pictures: rows of the rings at least, and bytes at most. Who
    // changes them looks at helped_bytes() of hal/job/prepare.c.
    HELPED_ROWS = 4,
    HELPED_MOST = 8 << 20,
};

struct component {
    struct cpu_entropy_lines lines;  // of the first row in the ring
    uint8_t *samples;
    size_t stride;
    int height;  // rows of a row of MCUs
    _Alignas(CPU_ALIGN) uint16_t quant[64];
};

struct sequential {
    struct cpu_decode base;  // first
    struct cpu_scan scan;
    const struct cpu_packed_head *packed;  // or
    struct cpu_entropy whole;              // or, in bands,
    struct cpu_entropy *entropy;           // the one of each
    struct cpu_split *split;               // NULL: nobody helps
    int period;                            // rows of a band
    int ring;                              // rows whose blocks are kept,
    int samples;                           // and whose samples are
    struct component comp[3];
    struct cpu_planes_rows *from;
    int first;  // row of MCUs whose samples are needed,
    int row;    // and the next one
};

static struct sequential *sequential(struct cpu_decode *d)
{
    return (struct sequential *)d;
}

static _Noreturn void redo(struct cpu_decode *d)
{
    cpu_decode_throw(d, CPU_REDO, "");
}

// ---- Opening ----------------------------------------------------------------

// Its samples will lie at byte `at`. Returns their end.
static size_t plan_component(struct sequential *d, struct cpu_planes *planes,
                             int i, size_t at)
{
    const struct cpu_scan_component *s = &d->scan.comp[i];
    const struct cpu_rect *w = &d->base.p.window;
    struct component *c = &d->comp[i];
    struct cpu_plane *plane = &planes->comp[i];
    unsigned left, right;
    int lo, blocks;

    cpu_cover((unsigned)w->x, (unsigned)w->w, (unsigned)(d->scan.h_max / s->h),
              (unsigned)s->width, &left, &right);
    lo = (int)left / 8;
    blocks = (int)right / 8 + 1 - lo;
    if (!cpu_entropy_lines_alloc(&c->lines, d->base.pool.arena, s->v * d->ring,
                                 lo, blocks))
        cpu_decode_throw(&d->base, CPU_NOMEM, "out of memory");
    c->height = 8 * s->v;
    // A row may be handed out as it lies here, with its slack.
    c->stride = ((size_t)(blocks + SPARE) * 8 + CPU_SLACK + CPU_ALIGN - 1) &
                ~(size_t)(CPU_ALIGN - 1);
    if (c->stride % 4096 == 0)
        c->stride += CPU_ALIGN;  // rows would share cache sets
    *plane = (struct cpu_plane){
        .h = (uint32_t)s->h,
        .v = (uint32_t)s->v,
        .width = (uint32_t)s->width,
        .height = (uint32_t)s->height,
        .x = (uint32_t)lo * 8,
        .rows = (uint32_t)s->height,
        .stride = (uint32_t)c->stride,
        .step = 1,
        .at = at,
    };
    plane->cols = (uint32_t)(blocks * 8);
    if (plane->cols > plane->width - plane->x)
        plane->cols = plane->width - plane->x;
    return at + c->stride * (size_t)(c->height * d->samples);
}

// Room for all that has to do with planes.
static void plan(struct sequential *d)
{
    const struct cpu_rect *w = &d->base.p.window;
    struct cpu_planes planes = cpu_scan_planes(&d->scan, w);
    struct cpu_planes_params p = {
        .planes = &planes,
        .width = d->base.p.width,
        .height = d->base.p.height,
        .window = *w,
        .channels = d->base.p.channels,
    };
    uint8_t *samples;

    d->first = d->scan.rows;
    for (int i = 0; i < d->scan.num_components; i++) {
        unsigned ratio = (unsigned)(d->scan.v_max / d->scan.comp[i].v);
        unsigned top, bottom;
        int row;

        p.size = plan_component(d, &planes, i, p.size);
        p.ring[i] = (uint32_t)(d->comp[i].height * d->samples);
        cpu_cover((unsigned)w->y, (unsigned)w->h, ratio,
                  (unsigned)d->scan.comp[i].height, &top, &bottom);
        row = (int)top / d->comp[i].height;
        d->first = row < d->first ? row : d->first;
    }
    samples = cpu_decode_alloc(&d->base, 1, p.size);
    p.data = samples;
    for (int i = 0; i < d->scan.num_components; i++)
        d->comp[i].samples = samples + planes.comp[i].at;
    switch (cpu_planes_open(&p, d->base.ops, d->base.pool.arena, &d->from)) {
    case CPU_OK:
        break;
    case CPU_NOMEM:
        cpu_decode_throw(&d->base, CPU_NOMEM, "out of memory");
    default:
        redo(&d->base);
    }
}

// ---- Help -------------------------------------------------------------------

// Rows of the picture whose samples are there, and those beside them, when so
// many rows of MCUs are: the last ones of a row wait for the next.
// libjpeg-turbo reads as far for them.
static int ready(const struct sequential *d, int rows)
{
    if (rows == d->scan.rows)
        return d->base.p.height;
    return rows * d->scan.mcu_v - (d->scan.v_max > 1 ? d->scan.v_max : 0);
}

// Rows of MCUs that the window will read.
static int rows_to_read(const struct sequential *d)
{
    const struct cpu_rect *w = &d->base.p.window;
    int rows = (w->y + w->h) / d->scan.mcu_v;

    while (ready(d, rows) < w->y + w->h)
        rows++;
    return rows;
}

// Whether somebody will help, and with how many rows in memory.
static bool find_help(struct sequential *d)
{
    struct cpu_helpers *helpers = d->base.p.helpers;
    int64_t pixels = (int64_t)rows_to_read(d) * d->scan.mcu_v * d->scan.width;
    size_t blocks = 0, row;

    d->ring = 1;
    d->samples = RING;
    d->period = d->scan.rows;
    if (!helpers || pixels < helpers->pixels || !helpers->idle(helpers))
        return false;
    for (int i = 0; i < d->scan.num_components; i++)
        blocks += (size_t)(d->scan.comp[i].h * d->scan.comp[i].v);
    // Coefficients and samples.
    row = (size_t)d->scan.mcus * blocks * (64 * sizeof(int16_t) + 64);
    if (row > HELPED_MOST / HELPED_ROWS)
        return false;
    d->ring = CPU_SPLIT_RING;
    if (row > helpers->bytes / CPU_SPLIT_RING)
        d->ring = (int)(helpers->bytes / row);
    if (d->ring < HELPED_ROWS)
        d->ring = HELPED_ROWS;
    d->samples = d->ring;
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
        .first = d->first,
        .ring = d->ring,
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

// What comes now the owner does alone.
static void close_step(struct cpu_decode *base)
{
    struct sequential *d = sequential(base);

    if (d->split)
        cpu_split_end(d->split);
    d->split = NULL;
}

// ---- Opening ----------------------------------------------------------------

static void open_step(struct cpu_decode *base)
{
    struct sequential *d = sequential(base);
    bool helped;

    cpu_entropy_open(base, &d->scan, &d->whole);
    d->entropy = &d->whole;
    for (int i = 0; i < d->scan.num_components; i++)
        cpu_scan_quant(&d->scan, i, d->comp[i].quant);
    helped = find_help(d);
    plan(d);
    if (helped)
        ask_for_help(d);
}

// A packed picture says the same as a file's header, and was checked.
static void open_packed(struct cpu_decode *base)
{
    struct sequential *d = sequential(base);
    const struct cpu_packed_head *head = (const void *)base->p.data;
    bool helped;

    d->packed = head;
    cpu_packed_scan(head, &d->scan);
    if (d->scan.width != base->p.width || d->scan.height != base->p.height)
        cpu_decode_throw(base, CPU_CORRUPT, "another picture's size");
    for (int i = 0; i < d->scan.num_components; i++)
        memcpy(d->comp[i].quant, head->comp[i].quant, sizeof(d->comp[i].quant));
    helped = find_help(d);
    plan(d);
    d->row = d->first;
    if (helped)
        ask_for_help(d);
}

// ---- Rows -------------------------------------------------------------------

// Where the blocks of a row lie.
static struct cpu_entropy_lines lines_of(const struct sequential *d, int i,
                                         int row)
{
    struct cpu_entropy_lines lines = d->comp[i].lines;

    lines.blocks += (size_t)(row % d->ring * d->scan.comp[i].v) *
                    (size_t)lines.pitch;
    return lines;
}

static void reconstruct(void *ctx, int row)
{
    struct sequential *d = ctx;

    for (int i = 0; i < d->scan.num_components; i++) {
        struct component *c = &d->comp[i];
        struct cpu_entropy_lines lines = lines_of(d, i, row);

        // (Lines below a picture of one component are in no MCU.)
        for (int k = 0; k < c->height; k += 8) {
            int y = row * c->height + k;

            if (y < d->scan.comp[i].height)
                d->base.ops->reconstruct(
                    c->samples +
                        c->stride * (size_t)(y % (c->height * d->samples)),
                    c->stride,
                    (const int16_t(*)[64])lines.blocks + k / 8 * lines.pitch,
                    lines.count, c->quant);
        }
    }
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

    for (int i = 0; i < d->scan.num_components; i++)
        lines[i] = lines_of(d, i, row);
    return cpu_entropy_row(&d->entropy[row / d->period],
                           row < d->first ? NULL : lines);
}

static void unpack_row(struct sequential *d, int row)
{
    for (int i = 0; i < d->scan.num_components; i++) {
        struct cpu_entropy_lines lines = lines_of(d, i, row);
        int v = d->scan.comp[i].v;

        for (int k = 0; k < v; k++)
            d->base.ops->unpack_line(lines.blocks + k * lines.pitch,
                                     cpu_packed_line(d->packed, i, row * v + k),
                                     (int)d->packed->comp[i].columns,
                                     lines.first, lines.count);
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
        if (d->row >= d->first)
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

    while ((there = ready(d, d->row)) <= y)
        read_row(d);
    n = there - y < base->max ? there - y : base->max;
    base->got = cpu_planes_read(d->from, base->rows, n);
    lap(d, CPU_STAGE_COLOR);
}

// Below the window nobody helps: the last band goes on.
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

static const struct cpu_decode_kind sequential_kind = {
    .size = sizeof(struct sequential),
    .open = open_step,
    .rows = rows_step,
    .finish = finish_step,
    .close = close_step,
};

struct cpu_decode *cpu_sequential_open(const struct cpu_decode_params *p,
                                       const struct cpu_ops *ops,
                                       struct cpu_arena *arena,
                                       struct cpu_decode_error *err)
{
    return cpu_decode_open(&sequential_kind, p, ops, arena, err);
}

static const struct cpu_decode_kind packed_kind = {
    .size = sizeof(struct sequential),
    .open = open_packed,
    .rows = rows_step,
    .close = close_step,
};

struct cpu_decode *cpu_packed_open(const struct cpu_decode_params *p,
                                   const struct cpu_ops *ops,
                                   struct cpu_arena *arena,
                                   struct cpu_decode_error *err)
{
    return cpu_decode_open(&packed_kind, p, ops, arena, err);
}
