// SPDX-License-Identifier: Apache-2.0
// Where the rows of a span come from: a decoder, an image, or the payload of
// the span before.
#include <string.h>

#include "backends/cpu/cpu.h"
#include "cpu_fallback/pixel/planes.h"

static bool decode_failed(struct cpu_run *run,
                          const struct cpu_decode_error *err)
{
    run->redo = err->result == CPU_REDO;
    run->out.offset = err->offset;
    run->out.stage = HR_ENTROPY;
    run->out.warnings = err->warnings;
    if (err->result == CPU_STOPPED)
        return cpu_run_stops(run), false;
    return cpu_run_fail(run, cpu_status_of(err->result), err->text);
}

static struct cpu_decode *open_as(const struct cpu_decode_kind *kind,
                                  struct cpu_run *run,
                                  const struct cpu_decode_params *p,
                                  struct cpu_decode_error *err)
{
    return cpu_decode_open(kind, p, &run->w->engine->ops, &run->w->arena, err);
}

static struct cpu_decode *open_jpeg(struct cpu_run *run,
                                    struct cpu_decode_params *p,
                                    struct cpu_decode_error *err)
{
    struct cpu_decode *d = NULL;

    if (!cpu_run_packed(run, p))
        return NULL;
    err->result = CPU_REDO;
    if (run->packed || !run->plain)
        d = open_as(run->packed ? &cpu_packed_decoder : &cpu_sequential_decoder,
                    run, p, err);
    // Our own reports its stages; what lies between its last report and the
    // next counts as colour.
    run->decode_part = d || run->packed ? HR_PART_COLOR : HR_PART_DECODE;
    return err->result == CPU_REDO && !run->packed
               ? open_as(&cpu_jpeg_decoder, run, p, err)
               : d;
}

// By formats.
static const struct cpu_decode_kind *const decoders[] = {
    [HR_FORMAT_JPEG] = &cpu_jpeg_decoder,
    [HR_FORMAT_PACKED] = &cpu_packed_decoder,
#if HR_HAVE_PNG
    [HR_FORMAT_PNG] = &cpu_png_decoder,
#endif
#if HR_HAVE_WEBP
    [HR_FORMAT_WEBP] = &cpu_webp_decoder,
#endif
    [HR_FORMAT_BMP] = &cpu_raster_decoder,
    [HR_FORMAT_PNM] = &cpu_raster_decoder,
    [HR_FORMAT_OTHER] = &cpu_other_decoder,
};

bool cpu_rows_can(enum hr_format format)
{
    return (size_t)format < sizeof(decoders) / sizeof(*decoders) &&
           decoders[format];
}

bool cpu_rows_decode(struct cpu_run *run, struct cpu_rows *rows)
{
    const struct hr__picture *pic = run->pic;
    enum hr_format format = pic->info.format;
    struct cpu_decode_params p = cpu_run_decode(run);
    struct cpu_decode_error err = {.offset = -1};

    p.window = rows->window;
    rows->channels = pic->channels;
    rows->decode = format == HR_FORMAT_JPEG || format == HR_FORMAT_PACKED
                       ? open_jpeg(run, &p, &err)
                       : open_as(decoders[format], run, &p, &err);
    // Opening one of our own decoders counts as entropy: it makes tables, or
    // checks a packed picture.
    cpu_lap(run, run->decode_part == HR_PART_COLOR ? HR_PART_ENTROPY
                                                   : run->decode_part);
    if (run->out.status)
        return false;
    return rows->decode || decode_failed(run, &err);
}

static bool rows_planes(struct cpu_run *run, struct cpu_rows *rows)
{
    const struct hr__payload *in = run->task->in;
    struct cpu_planes_params p = {.planes = in->extra,
                                  .data = in->data,
                                  .size = in->size,
                                  .width = run->pic->width,
                                  .height = run->pic->height,
                                  .window = rows->window,
                                  .channels = run->pic->channels};

    rows->channels = run->pic->channels;
    run->out.stage = HR_COLOR;
    switch (p.planes ? cpu_planes_open(&p, &run->w->engine->ops, &run->w->arena,
                                       &rows->planes)
                     : CPU_CORRUPT) {
    case CPU_OK:
        return true;
    case CPU_NOMEM:
        return cpu_run_fail(run, HR_ENOMEM, "no room for rows");
    default:
        // Not the file's fault.
        run->out.why = HR_WHY_FAILED;
        return cpu_run_fail(run, HR_EDEVICE,
                            "the engine before left wrong planes");
    }
}

bool cpu_rows_finish(struct cpu_run *run, struct cpu_rows *rows)
{
    struct cpu_decode_error err = {.offset = -1};
    // The job has looked below the window of a JPEG with an end for what
    // libjpeg refuses (prepare.c), so reading on is spared unless only the end
    // is left. Damage of a PNG, and of a PNM of text, shows only when it is
    // read.
    bool check = !run->out.status && rows->next == rows->window.h &&
                 (rows->window.y + rows->window.h == run->pic->height ||
                  !run->pic->info.ends ||
                  run->pic->info.format == HR_FORMAT_PNG ||
                  run->pic->info.format == HR_FORMAT_PNM);
    struct cpu_decode *decode = rows->decode;

    if (!decode)
        return true;
    rows->decode = NULL;
    if (cpu_decode_close(decode, check, &err) && check)
        return decode_failed(run, &err);
    if (!run->out.status)
        run->out.warnings = err.warnings;
    return true;
}

static bool copies(struct cpu_run *run, struct cpu_rows *rows)
{
    rows->copy_stride = (size_t)rows->window.w * (size_t)rows->channels +
                        CPU_SLACK;
    rows->copy = cpu_arena_array(&run->w->arena, CPU_DECODE_ROWS,
                                 rows->copy_stride);
    return rows->copy || cpu_run_fail(run, HR_ENOMEM, "");
}

static bool rows_image(struct cpu_run *run, struct cpu_rows *rows)
{
    const struct hr_image_t *image = run->pic->image;
    const struct hr_image_params *p = &image->params;

    rows->channels = p->c;
    rows->data = run->pic->pixels;
    rows->stride_h = p->stride_h;
    rows->stride_c = p->layout == HR_NCHW && p->c > 1 ? p->stride_c : 0;
    rows->end = rows->data + image->size;
    return copies(run, rows);
}

bool cpu_rows_memory(struct cpu_run *run, struct cpu_rows *rows,
                     const struct cpu_sink *from, size_t size)
{
    rows->channels = from->channels;
    rows->data = from->data;
    rows->stride_h = from->stride;
    rows->end = from->data + size;
    return copies(run, rows);
}

bool cpu_rows_payload(struct cpu_run *run, struct cpu_rows *rows)
{
    const struct hr__payload *in = run->task->in;

    const struct cpu_sink from = {.data = in->data,
                                  .stride = in->stride,
                                  .channels = hr__picture_channels(run->pic,
                                                                   in->after)};

    rows->x0 = in->rect.x;
    rows->y0 = in->rect.y;
    return cpu_rows_memory(run, rows, &from, in->size);
}

static bool rows_shared(struct cpu_run *run, struct cpu_rows *rows)
{
    const struct cpu_shared *s = run->shared;

    rows->x0 = s->rect.x;
    rows->y0 = s->rect.y;
    return cpu_rows_memory(run, rows, &s->pixels,
                           s->pixels.stride * (size_t)s->rect.h);
}

bool cpu_rows_open(struct cpu_run *run, struct cpu_rows *rows)
{
    if (run->shared)
        return rows_shared(run, rows);
    if (run->task->in)
        return run->task->in->after == HR_RECONSTRUCT
                   ? rows_planes(run, rows)
                   : cpu_rows_payload(run, rows);
    return run->pic->data ? cpu_rows_decode(run, rows) : rows_image(run, rows);
}

// Returns one row of the window in memory: in place where that is possible,
// else copied, so that kernels may read CPU_SLACK bytes behind it.
static const uint8_t *memory_row(struct cpu_rows *rows, int y, uint8_t *copy)
{
    size_t w = (size_t)rows->window.w, c = (size_t)rows->channels;
    const uint8_t *row = rows->data + rows->stride_h * (size_t)(y - rows->y0) +
                         (size_t)(rows->window.x - rows->x0) *
                             (rows->stride_c ? 1 : c);

    if (rows->stride_c) {
        for (size_t x = 0; x < w; x++)
            for (size_t i = 0; i < c; i++)
                copy[x * c + i] = row[i * rows->stride_c + x];
        return copy;
    }
    if ((size_t)(rows->end - row) >= w * c + CPU_SLACK)
        return row;
    return memcpy(copy, row, w * c);
}

int cpu_rows_read(struct cpu_run *run, struct cpu_rows *rows,
                  const uint8_t **out, int max)
{
    struct cpu_decode_error err = {.offset = -1};
    int n = rows->window.h - rows->next;

    n = n < max ? n : max;
    if (rows->lane && n > rows->lane->there - rows->next)
        n = rows->lane->there - rows->next;
    if (cpu_run_stops(run))
        return 0;
    if (rows->decode) {
        n = cpu_decode_rows(rows->decode, out, n, &err);
        if (n == 0)
            decode_failed(run, &err);
    } else if (rows->lane) {
        n = cpu_planes_read(rows->lane->from, out, n);
    } else if (rows->planes) {
        n = cpu_planes_read(rows->planes, out, n);
    } else {
        for (int i = 0; i < n; i++)
            out[i] = memory_row(rows, rows->window.y + rows->next + i,
                                rows->copy + rows->copy_stride * (size_t)i);
    }
    rows->next += n;
    return n;
}
