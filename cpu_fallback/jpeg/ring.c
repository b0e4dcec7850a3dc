// SPDX-License-Identifier: Apache-2.0
#include "ring.h"

enum { SPARE = 3 };  // blocks behind a line that reconstruct may write

int cpu_ring_ready(const struct cpu_scan *scan, int rows)
{
    if (rows == scan->rows)
        return scan->height;
    return rows * scan->mcu_v - (scan->v_max > 1 ? scan->v_max : 0);
}

int cpu_ring_to_read(const struct cpu_scan *scan, const struct hr__rect *window)
{
    int bottom = window->y + window->h, rows = bottom / scan->mcu_v;

    while (cpu_ring_ready(scan, rows) < bottom)
        rows++;
    return rows;
}

// Component i; its samples will lie at byte `at`. Returns their end.
static size_t plan_component(struct cpu_ring *r, const struct hr__rect *w,
                             int i, struct hr__plane *plane, size_t at)
{
    const struct cpu_scan_component *s = &r->scan->comp[i];
    struct cpu_ring_component *c = &r->comp[i];
    unsigned left, right, top, bottom;
    int row;

    cpu_cover((unsigned)w->x, (unsigned)w->w, (unsigned)(r->scan->h_max / s->h),
              (unsigned)s->width, &left, &right);
    cpu_cover((unsigned)w->y, (unsigned)w->h, (unsigned)(r->scan->v_max / s->v),
              (unsigned)s->height, &top, &bottom);
    c->left = (int)left / 8;
    c->count = (int)right / 8 + 1 - c->left;
    c->height = 8 * s->v;
    row = (int)top / c->height;
    r->first = row < r->first ? row : r->first;
    // A row may be handed out as it lies here, with its slack.
    c->stride = cpu_row_pitch((size_t)(c->count + SPARE) * 8);
    *plane = (struct hr__plane){
        .h = (uint32_t)s->h,
        .v = (uint32_t)s->v,
        .width = (uint32_t)s->width,
        .height = (uint32_t)s->height,
        .x = (uint32_t)c->left * 8,
        .cols = (uint32_t)c->count * 8,
        .rows = (uint32_t)s->height,
        .stride = (uint32_t)c->stride,
        .step = 1,
        .at = at,
    };
    if (plane->cols > plane->width - plane->x)
        plane->cols = plane->width - plane->x;
    return at + c->stride * (size_t)(c->height * r->rows);
}

enum cpu_result cpu_ring_open(struct cpu_ring *r, const struct cpu_scan *scan,
                              int rows, const struct cpu_decode_params *p,
                              const struct cpu_ops *ops,
                              struct cpu_arena *arena,
                              struct cpu_planes_rows **from)
{
    const struct hr__rect *w = &p->window;
    struct hr__planes planes = {
        .num_components = (uint32_t)scan->num_components,
        .color = scan->color,
        .h_max = (uint32_t)scan->h_max,
        .v_max = (uint32_t)scan->v_max,
        .x = (uint32_t)w->x,
        .y = (uint32_t)w->y,
        .w = (uint32_t)w->w,
        .h = (uint32_t)w->h,
    };
    struct cpu_planes_params to_rows = {
        .planes = &planes,
        .width = p->width,
        .height = p->height,
        .window = *w,
        .channels = p->channels,
    };
    uint8_t *samples;

    r->scan = scan;
    r->ops = ops;
    r->rows = rows;
    r->first = scan->rows;
    for (int i = 0; i < scan->num_components; i++) {
        to_rows.size = plan_component(r, w, i, &planes.comp[i], to_rows.size);
        to_rows.ring[i] = (uint32_t)(r->comp[i].height * rows);
    }
    to_rows.data = samples = cpu_arena_alloc(arena, to_rows.size);
    if (!samples)
        return CPU_NOMEM;
    for (int i = 0; i < scan->num_components; i++)
        r->comp[i].samples = samples + planes.comp[i].at;
    return cpu_planes_open(&to_rows, ops, arena, from);
}

void cpu_ring_reconstruct(const struct cpu_ring *r, int row,
                          const struct cpu_entropy_lines lines[3])
{
    for (int i = 0; i < r->scan->num_components; i++) {
        const struct cpu_ring_component *c = &r->comp[i];
        int skip = c->left - lines[i].first;

        // (Lines below a picture of one component are in no MCU.)
        for (int k = 0; k < c->height; k += 8) {
            int y = row * c->height + k;

            if (y < r->scan->comp[i].height)
                r->ops->reconstruct(c->samples +
                                        c->stride *
                                            (size_t)(y % (c->height * r->rows)),
                                    c->stride,
                                    (const int16_t(*)[64])lines[i].blocks +
                                        k / 8 * lines[i].pitch + skip,
                                    c->count, c->quant);
        }
    }
}
