// SPDX-License-Identifier: Apache-2.0
// Where rows go: a tensor, the memory between two steps, the payload for the
// next engine.
#include <string.h>

#include "backends/cpu/cpu.h"

// Rows become columns. The cache lines that one row touches fit the second
// level cache, and the next row touches the same ones.
static void sink_column(const struct cpu_sink *s, int x, const uint8_t *row)
{
    size_t c = (size_t)s->channels;

    for (int y = 0; y < s->column; y++)
        memcpy(s->data + s->stride * (size_t)y + c * (size_t)x,
               row + c * (size_t)y, c);
}

void cpu_sink_row(const struct cpu_run *run, const struct cpu_sink *s, int y,
                  const uint8_t *row)
{
    const struct hr__dst *d;
    uint8_t *at;
    void *to[3];

    if (s->column) {
        sink_column(s, y, row);
        return;
    }
    if (!s->pic) {
        memcpy(s->data + s->stride * (size_t)y, row, s->bytes);
        return;
    }
    d = &s->pic->dst;
    at = d->data + d->stride_h * (size_t)y;
    for (int c = 0; c < 3; c++)
        to[c] = at + (c < d->c ? d->stride_c * (size_t)c : 0);
    // The next row's memory was mostly used a batch ago.
    run->w->engine->ops.store(to, y + 1 < d->h ? d->stride_h : 0, row, d->w,
                              d->c, d->layout == HR_NCHW, d->dtype,
                              s->table ? s->table : s->pic->table);
}

bool cpu_sink_memory(struct cpu_run *run, struct cpu_sink *s, int w, int h,
                     int channels, size_t least)
{
    size_t size;

    *s = (struct cpu_sink){.channels = channels};
    s->bytes = (size_t)w * (size_t)channels;
    s->stride = s->bytes + CPU_SLACK;
    if (!hr__mul(&size, s->stride, (size_t)h) ||
        !(s->data = cpu_arena_alloc(&run->w->arena,
                                    size > least ? size : least)))
        return cpu_run_fail(run, HR_ENOMEM,
                            "no room for the picture between two steps");
    return true;
}

bool cpu_sink_payload(struct cpu_run *run, struct cpu_sink *s,
                      struct hr__rect rect)
{
    struct hr__payload *out;

    *s = (struct cpu_sink){
        .channels = hr__picture_channels(run->pic, run->task->span.last)};
    s->bytes = (size_t)rect.w * (size_t)s->channels;
    s->stride = s->bytes;
    out = cpu_run_payload(run, s->bytes * (size_t)rect.h + CPU_SLACK, rect,
                          "no room for the rows between two engines");
    if (!out)
        return false;
    out->stride = s->stride;
    s->data = out->data;
    return true;
}

bool cpu_sink_rows(struct cpu_run *run, const struct cpu_sink *from, int rows,
                   const struct cpu_sink *to)
{
    for (int y = 0; y < rows && !cpu_run_stops(run); y++)
        cpu_sink_row(run, to, y, from->data + from->stride * (size_t)y);
    cpu_lap(run, to->pic ? HR_PART_STORE : HR_PART_RESAMPLE);
    return !run->out.status;
}
