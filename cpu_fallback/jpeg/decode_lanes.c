// SPDX-License-Identifier: Apache-2.0
#include "decode_lanes.h"

static void lap(const struct cpu_lane_picture *pic, enum cpu_stage stage)
{
    if (pic->p.lap)
        pic->p.lap(pic->p.stop_ctx, stage);
}

static bool row(void *ctx, int row, const struct cpu_entropy_lines lines[3])
{
    struct cpu_lane_picture *pic = ctx;
    const struct hr__rect *w = &pic->p.window;

    if (pic->packs && !cpu_packing_row(&pic->packing, &pic->scan, row, lines))
        return false;
    lap(pic, CPU_STAGE_ENTROPY);
    // Only packed pictures have other rows.
    if (row < pic->ring.first || row >= pic->rows)
        return !pic->p.stop || !pic->p.stop(pic->p.stop_ctx);
    cpu_ring_reconstruct(&pic->ring, row, lines);
    lap(pic, CPU_STAGE_RECONSTRUCT);
    pic->there = cpu_ring_ready(&pic->scan, row + 1) - w->y;
    if (pic->there > w->h)
        pic->there = w->h;
    return pic->there <= 0 || pic->calls.rows(pic->calls.ctx);
}

static void done(void *ctx, enum cpu_lane_result result)
{
    struct cpu_lane_picture *pic = ctx;

    pic->calls.done(pic->calls.ctx, result);
}

// ---- Opening ----------------------------------------------------------------

// Plans the blocks that the lane hands out: the ones the window needs, or all.
static bool plan_lane(struct cpu_lane_picture *pic, struct cpu_arena *arena,
                      struct cpu_pieces *pack)
{
    const struct cpu_scan *scan = &pic->scan;
    struct cpu_lane_params *lane = &pic->lane;

    *lane = (struct cpu_lane_params){
        .scan = scan,
        .first = pic->ring.first,
        .rows = pic->rows,
        .row = row,
        .done = done,
        .ctx = pic,
    };
    for (int i = 0; i < scan->num_components; i++) {
        lane->left[i] = pic->ring.comp[i].left;
        lane->count[i] = pic->ring.comp[i].count;
    }
    if (!pic->packs)
        return true;
    if (!cpu_packing_begin(&pic->packing, scan, pic->ops, arena, pack))
        return false;
    lane->first = 0;
    lane->rows = scan->rows;
    for (int i = 0; i < scan->num_components; i++) {
        lane->left[i] = 0;
        lane->count[i] = (int)pic->packing.head->comp[i].columns;
    }
    return true;
}

bool cpu_lane_open(struct cpu_lane_picture *pic, struct cpu_lanes *lanes,
                   const struct cpu_decode_params *p, const struct cpu_ops *ops,
                   struct cpu_arena *arena, const struct cpu_lane_calls *calls,
                   struct cpu_pieces *pack)
{
    struct cpu_scan *scan = &pic->scan;

    pic->p = *p;
    pic->ops = ops;
    pic->calls = *calls;
    pic->there = 0;
    pic->packs = pack != NULL;
    if (!cpu_scan_parse(scan, p->data, p->size) || scan->width != p->width ||
        scan->height != p->height || !cpu_lanes_take(scan))
        return false;
    pic->rows = cpu_ring_to_read(scan, &p->window);
    for (int i = 0; i < scan->num_components; i++)
        hr__jpeg_quant(&scan->comp[i].quant, pic->ring.comp[i].quant);
    return !cpu_ring_open(&pic->ring, scan, CPU_RING_ROWS, p, ops, arena,
                          &pic->from) &&
           plan_lane(pic, arena, pack) && cpu_lanes_add(lanes, &pic->lane);
}
