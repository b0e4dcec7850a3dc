// SPDX-License-Identifier: Apache-2.0
// Planes by libjpeg's raw data output: the samples of a row of iMCUs at a
// time, before upsampling; of them the part that the window needs.
#include "cpu_fallback/pixel/planes.h"

#include <string.h>

#include "reader.h"

#define MAX_ROWS (MAX_SAMP_FACTOR * DCTSIZE)  // of a component in an iMCU

struct planes_decode {
    struct cpu_jpeg j;  // first
    struct hr__planes *planes;
    size_t size;
    int rows;                     // of iMCUs that must be read
    JSAMPROW lines[3][MAX_ROWS];  // of one of them
};

static struct planes_decode *planes_decode(struct cpu_decode *d)
{
    return (struct planes_decode *)d;
}

// Adds component i; its samples begin at byte `at`. Returns their end.
static size_t plan_component(struct planes_decode *d, struct hr__planes *planes,
                             int i, size_t at)
{
    const jpeg_component_info *info = &d->j.cinfo.comp_info[i];
    struct hr__plane *c = &planes->comp[i];
    unsigned last;

    c->h = (uint32_t)info->h_samp_factor;
    c->v = (uint32_t)info->v_samp_factor;
    if (planes->h_max % c->h || planes->v_max % c->v)
        cpu_jpeg_refuse(&d->j, CPU_UNSUPPORTED, "sampling factors");
    c->width = info->downsampled_width;
    c->height = info->downsampled_height;
    cpu_cover(planes->x, planes->w, planes->h_max / c->h, c->width, &c->x,
              &last);
    c->cols = last - c->x + 1;
    cpu_cover(planes->y, planes->h, planes->v_max / c->v, c->height, &c->y,
              &last);
    c->rows = last - c->y + 1;
    c->step = 1;
    c->stride = (uint32_t)cpu_aligned(c->cols);
    c->at = at;
    return at + (size_t)c->stride * c->rows;
}

// Makes the rows that libjpeg puts the samples in: whole MCUs.
static void make_lines(struct planes_decode *d, int i)
{
    struct jpeg_decompress_struct *cinfo = &d->j.cinfo;
    const jpeg_component_info *info = &cinfo->comp_info[i];
    size_t unit = (size_t)DCTSIZE * (size_t)cinfo->max_h_samp_factor;
    size_t mcus = (cinfo->image_width + unit - 1) / unit;
    size_t width = mcus * DCTSIZE * (size_t)info->h_samp_factor;
    size_t rows = (size_t)info->v_samp_factor * DCTSIZE;
    uint8_t *at = cpu_decode_alloc(&d->j.base, rows, width);

    for (size_t k = 0; k < rows; k++)
        d->lines[i][k] = at + width * k;
}

static void open_step(struct cpu_decode *base)
{
    struct planes_decode *d = planes_decode(base);
    struct jpeg_decompress_struct *cinfo = &d->j.cinfo;
    struct hr__planes head;

    cpu_jpeg_begin(&d->j);
    cinfo->raw_data_out = TRUE;
    cpu_jpeg_start(&d->j);
    head = (struct hr__planes){
        .num_components = (uint32_t)cinfo->num_components,
        .color = cpu_jpeg_color(&d->j),
        .h_max = (uint32_t)cinfo->max_h_samp_factor,
        .v_max = (uint32_t)cinfo->max_v_samp_factor,
        .x = (uint32_t)base->p.window.x,
        .y = (uint32_t)base->p.window.y,
        .w = (uint32_t)base->p.window.w,
        .h = (uint32_t)base->p.window.h,
    };
    d->size = cpu_aligned(sizeof(head));
    for (int i = 0; i < cinfo->num_components; i++)
        d->size = plan_component(d, &head, i, d->size);
    d->size += CPU_SLACK;
    d->rows = cpu_rows_to_read(&base->p.window, cinfo->max_v_samp_factor,
                               (int)cinfo->total_iMCU_rows);
    d->planes = cpu_decode_alloc(base, 1, d->size);
    memset(d->planes, 0, cpu_aligned(sizeof(head)));
    *d->planes = head;
    for (int i = 0; i < cinfo->num_components; i++)
        make_lines(d, i);
}

// Row r of iMCUs is in the lines.
static void keep_row(struct planes_decode *d, uint32_t r)
{
    for (uint32_t i = 0; i < d->planes->num_components; i++) {
        const struct hr__plane *c = &d->planes->comp[i];
        uint8_t *data = (uint8_t *)d->planes + c->at;

        for (uint32_t k = 0; k < c->v * DCTSIZE; k++) {
            // Rows above the first wrap around.
            uint32_t y = r * c->v * DCTSIZE + k - c->y;

            if (y < c->rows)
                memcpy(data + (size_t)c->stride * y, d->lines[i][k] + c->x,
                       c->cols);
        }
    }
}

static void rows_step(struct cpu_decode *base)
{
    struct planes_decode *d = planes_decode(base);
    struct jpeg_decompress_struct *cinfo = &d->j.cinfo;
    JSAMPARRAY data[3] = {d->lines[0], d->lines[1], d->lines[2]};
    JDIMENSION lines = (JDIMENSION)cinfo->max_v_samp_factor * DCTSIZE;

    cpu_jpeg_refuse_damage(&d->j);
    for (int r = 0; r < d->rows; r++) {
        if (jpeg_read_raw_data(cinfo, data, lines) != lines)
            cpu_jpeg_refuse(&d->j, CPU_CORRUPT, "no more rows");
        cpu_jpeg_refuse_damage(&d->j);
        keep_row(d, (uint32_t)r);
        cpu_decode_check_stop(base);
    }
    if (base->p.window.y + base->p.window.h == base->p.height &&
        !jpeg_has_multiple_scans(cinfo)) {
        d->j.tail = true;
        jpeg_finish_decompress(cinfo);
        cpu_jpeg_refuse_damage(&d->j);
    }
}

static const struct cpu_decode_kind planes_kind = {
    .size = sizeof(struct planes_decode),
    .open = open_step,
    .rows = rows_step,
    .close = cpu_jpeg_close,
};

enum cpu_result cpu_planes_decode(const struct cpu_decode_params *p,
                                  const struct cpu_ops *ops,
                                  struct cpu_arena *arena,
                                  struct hr__planes **out, size_t *size,
                                  struct cpu_decode_error *err)
{
    struct cpu_decode *d = cpu_jpeg_whole(&planes_kind, p, ops, arena, err);

    if (d) {
        *out = planes_decode(d)->planes;
        *size = planes_decode(d)->size;
    }
    return err->result;
}
