// SPDX-License-Identifier: Apache-2.0
// Our own decoder: a row of MCUs at a time through the stages entropy and
// reconstruct into rings of samples, from there through color into rows. Of all
// that only the blocks exist that the window needs. In place of the stage entropy
// coefficients may come from a packed picture: then nothing above the window is
// touched.
#include "decode_impl.h"

#include <string.h>

#include "entropy.h"
#include "packed.h"
#include "planes.h"

// Rows of MCUs whose samples are kept. The last rows of one are upsampled when
// the next is there, and need nothing above it.
#define RING 2
// Blocks behind the last of a line whose samples reconstruct may write.
#define SPARE 3

struct component {
    struct cpu_entropy_lines lines;
    uint8_t *samples;
    size_t stride;
    int height;  // rows of a row of MCUs
    _Alignas(CPU_ALIGN) uint16_t quant[64];
};

struct sequential {
    struct cpu_decode base;  // first
    struct cpu_scan scan;
    const struct cpu_packed_head *packed;  // or
    struct cpu_entropy entropy;
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

static void *take(struct sequential *d, size_t n, size_t size)
{
    void *p = cpu_arena_array(d->base.pool.arena, n, size);

    if (!p)
        cpu_decode_throw(&d->base, CPU_NOMEM, "out of memory");
    return p;
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
    if (!cpu_entropy_lines_alloc(&c->lines, d->base.pool.arena, s->v, lo,
                                 blocks))
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
    return at + c->stride * (size_t)(c->height * RING);
}

static void plan(struct sequential *d)
{
    const struct cpu_rect *w = &d->base.p.window;
    struct cpu_planes planes = {
        .num_components = (uint32_t)d->scan.num_components,
        .color = d->scan.color,
        .h_max = (uint32_t)d->scan.h_max,
        .v_max = (uint32_t)d->scan.v_max,
        .x = (uint32_t)w->x,
        .y = (uint32_t)w->y,
        .w = (uint32_t)w->w,
        .h = (uint32_t)w->h,
    };
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
        p.ring[i] = (uint32_t)(d->comp[i].height * RING);
        cpu_cover((unsigned)w->y, (unsigned)w->h, ratio,
                  (unsigned)d->scan.comp[i].height, &top, &bottom);
        row = (int)top / d->comp[i].height;
        d->first = row < d->first ? row : d->first;
    }
    samples = take(d, 1, p.size);
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

static void open_step(struct cpu_decode *base)
{
    struct sequential *d = sequential(base);

    cpu_entropy_open(base, &d->scan, &d->entropy);
    for (int i = 0; i < d->scan.num_components; i++)
        cpu_scan_quant(&d->scan, i, d->comp[i].quant);
    plan(d);
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
        memcpy(d->comp[i].quant, head->comp[i].quant, sizeof(d->comp[i].quant));
    plan(d);
    d->row = d->first;
}

// ---- Rows -------------------------------------------------------------------

static void reconstruct(struct sequential *d, int row)
{
    for (int i = 0; i < d->scan.num_components; i++) {
        struct component *c = &d->comp[i];

        // (Lines below a picture of one component are in no MCU.)
        for (int k = 0; k < c->height; k += 8) {
            int y = row * c->height + k;

            if (y < d->scan.comp[i].height)
                d->base.ops->reconstruct(
                    c->samples + c->stride * (size_t)(y % (c->height * RING)),
                    c->stride,
                    (const int16_t(*)[64])c->lines.blocks +
                        k / 8 * c->lines.pitch,
                    c->lines.count, c->quant);
        }
    }
}

static void lap(const struct sequential *d, enum cpu_stage stage)
{
    if (d->base.p.lap)
        d->base.p.lap(d->base.p.stop_ctx, stage);
}

static void decode_row(struct sequential *d)
{
    struct cpu_entropy_lines lines[3];

    for (int i = 0; i < d->scan.num_components; i++)
        lines[i] = d->comp[i].lines;
    if (!cpu_entropy_row(&d->entropy, d->row < d->first ? NULL : lines))
        redo(&d->base);
}

static void unpack_row(struct sequential *d)
{
    for (int i = 0; i < d->scan.num_components; i++) {
        const struct cpu_entropy_lines *lines = &d->comp[i].lines;
        int v = d->scan.comp[i].v;

        for (int k = 0; k < v; k++)
            d->base.ops->unpack_line(
                lines->blocks + k * lines->pitch,
                cpu_packed_line(d->packed, i, d->row * v + k),
                (int)d->packed->comp[i].columns, lines->first, lines->count);
    }
}

static void read_row(struct sequential *d)
{
    if (d->packed)
        unpack_row(d);
    else
        decode_row(d);
    lap(d, CPU_STAGE_ENTROPY);
    if (d->row >= d->first)
        reconstruct(d, d->row);
    d->row++;
    lap(d, CPU_STAGE_RECONSTRUCT);
    cpu_decode_check_stop(&d->base);
}

// Rows of the picture whose samples are there, and those beside them: the last
// ones of a row of MCUs wait for the next. libjpeg-turbo reads as far for them.
static int ready(const struct sequential *d)
{
    if (d->row == d->scan.rows)
        return d->base.p.height;
    return d->row * d->scan.mcu_v - (d->scan.v_max > 1 ? d->scan.v_max : 0);
}

static void rows_step(struct cpu_decode *base)
{
    struct sequential *d = sequential(base);
    int y = base->p.window.y + base->done, n;

    while (ready(d) <= y)
        read_row(d);
    n = ready(d) - y < base->max ? ready(d) - y : base->max;
    base->got = cpu_planes_read(d->from, base->rows, n);
    lap(d, CPU_STAGE_COLOR);
}

static void finish_step(struct cpu_decode *base)
{
    struct sequential *d = sequential(base);

    while (d->row < d->scan.rows)
        read_row(d);
    if (!cpu_entropy_ends(&d->entropy))
        redo(base);
}

static const struct cpu_decode_kind sequential_kind = {
    .size = sizeof(struct sequential),
    .open = open_step,
    .rows = rows_step,
    .finish = finish_step,
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
};

struct cpu_decode *cpu_packed_open(const struct cpu_decode_params *p,
                                   const struct cpu_ops *ops,
                                   struct cpu_arena *arena,
                                   struct cpu_decode_error *err)
{
    return cpu_decode_open(&packed_kind, p, ops, arena, err);
}
