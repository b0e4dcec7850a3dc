// SPDX-License-Identifier: Apache-2.0
#include "decode_lanes.h"

enum { SPARE = 3 };  // blocks behind a line that reconstruct may write

static void lap(const struct cpu_lane_picture *pic, enum cpu_stage stage)
{
    if (pic->p.lap)
        pic->p.lap(pic->p.stop_ctx, stage);
}

static bool row(void *ctx, int row, const struct cpu_entropy_lines lines[3])
{
    struct cpu_lane_picture *pic = ctx;

    lap(pic, CPU_STAGE_ENTROPY);
    for (int i = 0; i < pic->scan.num_components; i++) {
        const struct cpu_plane *c = &pic->planes.comp[i];
        uint8_t *data = pic->data + c->at;
        int height = 8 * (int)c->v;

        for (int k = 0; k < height; k += 8) {
            int y = row * height + k;

            if (y < (int)c->height)
                pic->ops->reconstruct(
                    data + (size_t)c->stride * (size_t)(y - (int)c->y),
                    c->stride,
                    (const int16_t(*)[64])lines[i].blocks +
                        k / 8 * lines[i].pitch,
                    lines[i].count, pic->quant[i]);
        }
    }
    lap(pic, CPU_STAGE_RECONSTRUCT);
    return !pic->p.stop || !pic->p.stop(pic->p.stop_ctx);
}

// The columns of component i; its samples begin at byte `at`. Returns their end.
static size_t plan_component(struct cpu_lane_picture *pic, int i, size_t at)
{
    const struct cpu_scan_component *s = &pic->scan.comp[i];
    const struct cpu_rect *w = &pic->p.window;
    struct cpu_plane *c = &pic->planes.comp[i];
    int height = 8 * s->v, rows = pic->lane.rows * height, lo, blocks;
    unsigned left, right;

    cpu_cover((unsigned)w->x, (unsigned)w->w,
              (unsigned)(pic->scan.h_max / s->h), (unsigned)s->width, &left,
              &right);
    lo = (int)left / 8;
    blocks = (int)right / 8 + 1 - lo;
    pic->lane.left[i] = lo;
    pic->lane.count[i] = blocks;
    *c = (struct cpu_plane){
        .h = (uint32_t)s->h,
        .v = (uint32_t)s->v,
        .width = (uint32_t)s->width,
        .height = (uint32_t)s->height,
        .x = (uint32_t)lo * 8,
        .y = (uint32_t)(pic->lane.first * height),
        .cols = (uint32_t)blocks * 8,
        .step = 1,
        .at = at,
    };
    if (c->cols > c->width - c->x)
        c->cols = c->width - c->x;
    c->rows = (rows < s->height ? (uint32_t)rows : c->height) - c->y;
    c->stride = ((uint32_t)(blocks + SPARE) * 8 + CPU_SLACK + CPU_ALIGN - 1) &
                ~(uint32_t)(CPU_ALIGN - 1);
    if (c->stride % 4096 == 0)
        c->stride += CPU_ALIGN;  // rows would share cache sets
    return at + (size_t)c->stride * ((c->rows + 7) & ~7u);
}

// The rows of MCUs that decode_sequential.c reads, no more and no less: what is
// odd about one is found by both, or by none.
static void plan_rows(struct cpu_lane_picture *pic)
{
    const struct cpu_rect *w = &pic->p.window;
    const struct cpu_scan *scan = &pic->scan;
    int waits = scan->v_max > 1 ? scan->v_max : 0, bottom = w->y + w->h;

    pic->lane.first = scan->rows;
    for (int i = 0; i < scan->num_components; i++) {
        const struct cpu_scan_component *s = &scan->comp[i];
        unsigned ratio = (unsigned)(scan->v_max / s->v), top, end;

        cpu_cover((unsigned)w->y, (unsigned)w->h, ratio, (unsigned)s->height,
                  &top, &end);
        if ((int)top / (8 * s->v) < pic->lane.first)
            pic->lane.first = (int)top / (8 * s->v);
    }
    pic->lane.rows = bottom / scan->mcu_v;
    while (pic->lane.rows < scan->rows &&
           pic->lane.rows * scan->mcu_v - waits < bottom)
        pic->lane.rows++;
}

static bool plan(struct cpu_lane_picture *pic)
{
    const struct cpu_decode_params *p = &pic->p;

    if (!cpu_scan_parse(&pic->scan, p->data, p->size) ||
        pic->scan.width != p->width || pic->scan.height != p->height ||
        !cpu_lanes_take(&pic->scan))
        return false;
    pic->planes = (struct cpu_planes){
        .num_components = (uint32_t)pic->scan.num_components,
        .color = pic->scan.color,
        .h_max = (uint32_t)pic->scan.h_max,
        .v_max = (uint32_t)pic->scan.v_max,
        .x = (uint32_t)p->window.x,
        .y = (uint32_t)p->window.y,
        .w = (uint32_t)p->window.w,
        .h = (uint32_t)p->window.h,
    };
    plan_rows(pic);
    pic->size = 0;
    for (int i = 0; i < pic->scan.num_components; i++) {
        pic->size = plan_component(pic, i, pic->size);
        cpu_scan_quant(&pic->scan, i, pic->quant[i]);
    }
    return pic->size <= CPU_LANE_PLANES;
}

bool cpu_lane_open(struct cpu_lane_picture *pic, struct cpu_lanes *lanes,
                   const struct cpu_decode_params *p, const struct cpu_ops *ops,
                   struct cpu_arena *arena,
                   void (*done)(void *ctx, enum cpu_lane_result result),
                   void *ctx)
{
    pic->p = *p;
    pic->ops = ops;
    if (!plan(pic))
        return false;
    pic->data = cpu_arena_alloc(arena, pic->size);
    pic->lane.scan = &pic->scan;
    pic->lane.row = row;
    pic->lane.done = done;
    pic->lane.row_ctx = pic;
    pic->lane.done_ctx = ctx;
    return pic->data && cpu_lanes_add(lanes, &pic->lane);
}
