// SPDX-License-Identifier: Apache-2.0
#include "decode_lanes.h"

#include <string.h>

enum {
    RING = 2,   // rows of MCUs whose samples are kept
    SPARE = 3,  // blocks behind a line that reconstruct may write
};

static void lap(const struct cpu_lane_picture *pic, enum cpu_stage stage)
{
    if (pic->p.lap)
        pic->p.lap(pic->p.stop_ctx, stage);
}

// Rows of the picture that can be made of so many rows of MCUs, as in
// decode_sequential.c: the last ones of a row wait for the next.
static int ready(const struct cpu_scan *scan, int rows)
{
    if (rows == scan->rows)
        return scan->height;
    return rows * scan->mcu_v - (scan->v_max > 1 ? scan->v_max : 0);
}

static void reconstruct(struct cpu_lane_picture *pic, int row,
                        const struct cpu_entropy_lines lines[3])
{
    for (int i = 0; i < pic->scan.num_components; i++) {
        const struct cpu_scan_component *s = &pic->scan.comp[i];
        int height = 8 * s->v, skip = pic->left[i] - lines[i].first;

        for (int k = 0; k < height; k += 8) {
            int y = row * height + k;

            if (y < s->height)
                pic->ops->reconstruct(pic->samples[i] +
                                          pic->stride[i] *
                                              (size_t)(y % (height * RING)),
                                      pic->stride[i],
                                      (const int16_t(*)[64])lines[i].blocks +
                                          k / 8 * lines[i].pitch + skip,
                                      pic->count[i], pic->quant[i]);
        }
    }
}

static bool row(void *ctx, int row, const struct cpu_entropy_lines lines[3])
{
    struct cpu_lane_picture *pic = ctx;
    const struct cpu_rect *w = &pic->p.window;

    if (pic->packs && !cpu_packing_row(&pic->packing, &pic->scan, row, lines))
        return false;
    lap(pic, CPU_STAGE_ENTROPY);
    // Only packed pictures have other rows.
    if (row < pic->first || row >= pic->rows)
        return !pic->p.stop || !pic->p.stop(pic->p.stop_ctx);
    reconstruct(pic, row, lines);
    lap(pic, CPU_STAGE_RECONSTRUCT);
    pic->there = ready(&pic->scan, row + 1) - w->y;
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

// Of component i. Its samples will lie at byte `at`; returns their end.
static size_t plan_component(struct cpu_lane_picture *pic,
                             struct cpu_plane *plane, int i, size_t at)
{
    const struct cpu_scan_component *s = &pic->scan.comp[i];
    const struct cpu_rect *w = &pic->p.window;
    int lo, blocks, row;
    unsigned left, right, top, bottom;

    cpu_cover((unsigned)w->x, (unsigned)w->w,
              (unsigned)(pic->scan.h_max / s->h), (unsigned)s->width, &left,
              &right);
    cpu_cover((unsigned)w->y, (unsigned)w->h,
              (unsigned)(pic->scan.v_max / s->v), (unsigned)s->height, &top,
              &bottom);
    row = (int)top / (8 * s->v);
    pic->first = row < pic->first ? row : pic->first;
    lo = (int)left / 8;
    blocks = (int)right / 8 + 1 - lo;
    pic->left[i] = lo;
    pic->count[i] = blocks;
    pic->stride[i] = ((size_t)(blocks + SPARE) * 8 + CPU_SLACK + CPU_ALIGN -
                      1) &
                     ~(size_t)(CPU_ALIGN - 1);
    *plane = (struct cpu_plane){
        .h = (uint32_t)s->h,
        .v = (uint32_t)s->v,
        .width = (uint32_t)s->width,
        .height = (uint32_t)s->height,
        .x = (uint32_t)lo * 8,
        .cols = (uint32_t)blocks * 8,
        .rows = (uint32_t)s->height,
        .stride = (uint32_t)pic->stride[i],
        .step = 1,
        .at = at,
    };
    if (plane->cols > plane->width - plane->x)
        plane->cols = plane->width - plane->x;
    return at + pic->stride[i] * (size_t)(8 * s->v * RING);
}

static bool open_rows(struct cpu_lane_picture *pic, struct cpu_arena *arena)
{
    const struct cpu_scan *scan = &pic->scan;
    const struct cpu_rect *w = &pic->p.window;
    struct cpu_planes planes = cpu_scan_planes(scan, w);
    struct cpu_planes_params p = {
        .planes = &planes,
        .width = scan->width,
        .height = scan->height,
        .window = *w,
        .channels = pic->p.channels,
    };
    uint8_t *samples;

    for (int i = 0; i < scan->num_components; i++) {
        p.size = plan_component(pic, &planes.comp[i], i, p.size);
        p.ring[i] = (uint32_t)(8 * scan->comp[i].v * RING);
    }
    p.data = samples = cpu_arena_alloc(arena, p.size);
    if (!samples)
        return false;
    for (int i = 0; i < scan->num_components; i++)
        pic->samples[i] = samples + planes.comp[i].at;
    return cpu_planes_open(&p, pic->ops, arena, &pic->from) == CPU_OK;
}

// What the lane hands out: what the window needs, or all.
static bool plan_lane(struct cpu_lane_picture *pic, struct cpu_arena *arena,
                      struct cpu_pieces *pack)
{
    const struct cpu_scan *scan = &pic->scan;
    struct cpu_lane_params *lane = &pic->lane;

    *lane = (struct cpu_lane_params){
        .scan = scan,
        .first = pic->first,
        .rows = pic->rows,
        .row = row,
        .done = done,
        .ctx = pic,
    };
    memcpy(lane->left, pic->left, sizeof(lane->left));
    memcpy(lane->count, pic->count, sizeof(lane->count));
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
    int bottom = p->window.y + p->window.h;

    pic->p = *p;
    pic->ops = ops;
    pic->calls = *calls;
    pic->there = 0;
    pic->packs = pack != NULL;
    if (!cpu_scan_parse(scan, p->data, p->size) || scan->width != p->width ||
        scan->height != p->height || !cpu_lanes_take(scan))
        return false;
    pic->first = scan->rows;
    pic->rows = bottom / scan->mcu_v;
    while (ready(scan, pic->rows) < bottom)
        pic->rows++;
    for (int i = 0; i < scan->num_components; i++)
        cpu_scan_quant(scan, i, pic->quant[i]);
    return open_rows(pic, arena) && plan_lane(pic, arena, pack) &&
           cpu_lanes_add(lanes, &pic->lane);
}
