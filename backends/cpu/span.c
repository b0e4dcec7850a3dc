// SPDX-License-Identifier: Apache-2.0
// One task: rows stream from their source through the horizontal pass into a
// ring, from the ring through the vertical pass into one row, from there into
// the tensor. The full picture never exists; the ring holds as many rows as
// the filter is high.
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "backends/cpu/cpu.h"

// The HAL's table is handed to the kernels as it is.
_Static_assert(sizeof(struct hr__table) == sizeof(struct cpu_store_table) &&
                   offsetof(struct hr__table, f16) ==
                       offsetof(struct cpu_store_table, f16) &&
                   offsetof(struct hr__table, u8) ==
                       offsetof(struct cpu_store_table, u8) &&
                   offsetof(struct hr__table, u8_identity) ==
                       offsetof(struct cpu_store_table, u8_identity),
               "the store tables of HAL and CPU kernels have one layout");
_Static_assert((int)CPU_TYPE_F32 == (int)HR_F32 &&
                   (int)CPU_TYPE_F16 == (int)HR_F16 &&
                   (int)CPU_TYPE_U8 == (int)HR_U8,
               "the element types of HAL and CPU kernels have one order");

bool cpu_run_fail(struct cpu_run *run, enum hr_status status, const char *text)
{
    // Of the arena's two ways to say no one is a limit of the user's.
    if (status == HR_ENOMEM && run->w->arena.limited) {
        status = HR_ELIMIT;
        text = "memory for one picture";
    }
    if (!run->out.status) {
        run->out.status = status;
        snprintf(run->out.text, sizeof(run->out.text), "%s", text);
    }
    return false;
}

bool cpu_run_stops(void *ctx)
{
    struct cpu_run *run = ctx;

    if (run->out.status)
        return true;
    if (hr__task_stop(run->task))
        cpu_run_fail(run, hr__task_stop_status(run->task), "");
    else if (run->asked++ % 32 == 31 && hr__now() >= run->deadline)
        // (the clock costs more than the question: not every time)
        cpu_run_fail(run, HR_ELIMIT, "over the time limit per picture");
    return run->out.status != HR_OK;
}

// ---- Where rows go ---------------------------------------------------------------

struct sink {
    const struct hr__picture *pic;  // a tensor,
    uint8_t *data;                  // or rows of u8 in memory
    size_t stride, bytes;
    int column;  // > 0: of memory, and a row coming in is
};               // a column of it, of so many pixels

// Rows become columns. What one row touches fits the second level cache, and
// the next row touches the same lines.
static void sink_column(const struct cpu_run *run, const struct sink *s, int x,
                        const uint8_t *row)
{
    size_t c = (size_t)run->pic->channels;

    for (int y = 0; y < s->column; y++)
        memcpy(s->data + s->stride * (size_t)y + c * (size_t)x,
               row + c * (size_t)y, c);
}

static void sink_row(const struct cpu_run *run, const struct sink *s, int y,
                     const uint8_t *row)
{
    const struct hr__dst *d;
    uint8_t *at;
    void *to[3];

    if (s->column) {
        sink_column(run, s, y, row);
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
    run->w->engine->ops.store(to, row, d->w, d->c, d->layout == HR_NCHW,
                              (enum cpu_type)d->dtype,
                              (const struct cpu_store_table *)s->pic->table);
}

static bool sink_memory(struct cpu_run *run, struct sink *s, int w, int h)
{
    size_t size;

    *s = (struct sink){0};
    s->bytes = (size_t)w * (size_t)run->pic->channels;
    s->stride = s->bytes + CPU_SLACK;
    if (!hr__mul(&size, s->stride, (size_t)h) ||
        !(s->data = cpu_arena_alloc(&run->w->arena, size)))
        return cpu_run_fail(run, HR_ENOMEM,
                            "no room for the picture between "
                            "two resamplings");
    return true;
}

static bool sink_payload(struct cpu_run *run, struct sink *s,
                         struct hr__rect rect)
{
    struct hr__payload *out;

    *s = (struct sink){0};
    s->bytes = (size_t)rect.w * (size_t)run->pic->channels;
    s->stride = s->bytes;
    out = hr__task_payload(run->task, s->bytes * (size_t)rect.h + CPU_SLACK);
    if (!out) {
        // The next engine's memory, not ours: somebody else may have room.
        run->out.why = HR_WHY_MEMORY;
        return cpu_run_fail(run, HR_ENOMEM,
                            "no room for the rows between two "
                            "engines");
    }
    out->rect = rect;
    out->stride = s->stride;
    s->data = out->data;
    return true;
}

// ---- One resample step --------------------------------------------------------------

struct resample {
    const struct hr__step *step;
    struct hr__axis x, y;
    struct cpu_axis h;  // x for the kernels, from the window's left on
    int channels;
    uint8_t *ring;
    int ring_rows;
    size_t ring_stride;
    const uint8_t **taps;  // rows under the vertical filter
    uint8_t *row;          // one output row, with its padding
    uint8_t *mid;          // v_first: one row after the vertical pass
    size_t width;          // bytes of a row of the ring
    int done;              // rows of the window that are in the ring
    int at, ahead;         // next output, and the way to the one after it
    int left;              // outputs to come
};

static bool build_axis(struct cpu_run *run, const struct hr__step *step,
                       int which, struct hr__axis *axis)
{
    void *mem = cpu_arena_alloc(&run->w->arena, hr__axis_size(step, which));

    if (!mem)
        return cpu_run_fail(run, HR_ENOMEM, "no room for filter weights");
    hr__axis_build(axis, step, which, mem);
    return true;
}

static bool build_axes(struct cpu_run *run, struct resample *r,
                       const struct hr__step *step)
{
    r->step = step;
    r->channels = run->pic->channels;
    run->out.stage = HR_RESAMPLE;
    return build_axis(run, step, 0, &r->x) && build_axis(run, step, 1, &r->y);
}

static struct cpu_rect window_of(const struct resample *r)
{
    return (struct cpu_rect){r->x.src_lo, r->y.src_lo,
                             r->x.src_hi - r->x.src_lo,
                             r->y.src_hi - r->y.src_lo};
}

static bool setup(struct cpu_run *run, struct resample *r)
{
    const struct cpu_ops *ops = &run->w->engine->ops;
    struct cpu_arena *a = &run->w->arena;
    size_t c = (size_t)r->channels;

    for (int i = 0; i < r->x.out; i++)
        r->x.lo[i] -= r->x.src_lo;
    r->h = (struct cpu_axis){.in = r->x.src_hi - r->x.src_lo,
                             .out = r->x.out,
                             .taps = r->x.taps,
                             .stride = r->x.stride,
                             .lo = r->x.lo,
                             .n = r->x.n,
                             .w = r->x.w,
                             .identity = r->x.identity};
    if (ops->pack_h && !ops->pack_h(&r->h, r->channels, a))
        return cpu_run_fail(run, HR_ENOMEM, "no room for filter weights");
    // Between two reads less than `taps` rows are still needed, and a read
    // brings at most CPU_DECODE_ROWS.
    r->ring_rows = r->y.taps + CPU_DECODE_ROWS;
    r->width = (size_t)(r->step->v_first ? r->h.in : r->x.out) * c;
    r->ring_stride = (r->width + CPU_SLACK + 63) & ~(size_t)63;
    // Rows 4 KiB apart share cache sets, and stores stall loads behind them.
    if (r->ring_stride % 4096 == 0)
        r->ring_stride += 64;
    r->ring = cpu_arena_array(a, (size_t)r->ring_rows, r->ring_stride);
    r->taps = cpu_arena_array(a, (size_t)r->y.taps, sizeof(*r->taps));
    r->row = cpu_arena_alloc(a, (size_t)r->step->win.w * c + CPU_SLACK);
    r->mid = r->step->v_first ? cpu_arena_alloc(a, r->width) : r->row;
    if (!r->ring || !r->taps || !r->row || !r->mid)
        return cpu_run_fail(run, HR_ENOMEM, "no room for rows");
    memset(r->row, 0, (size_t)r->step->win.w * c);
    // A mirrored axis is made from its end, so that rows are used in order.
    r->ahead = r->y.lo[0] <= r->y.lo[r->y.out - 1] ? 1 : -1;
    r->at = r->ahead > 0 ? 0 : r->y.out - 1;
    r->left = r->y.out;
    return true;
}

static uint8_t *ring_row(const struct resample *r, int i)
{
    return r->ring + r->ring_stride * (size_t)(i % r->ring_rows);
}

static bool padded_x(const struct resample *r)
{
    return r->x.out != r->step->win.w;
}

// Puts the row between its black margins, if it has any.
static const uint8_t *with_margins(struct resample *r, const uint8_t *row)
{
    if (!padded_x(r))
        return row;
    return memcpy(r->row + r->x.pad_before * r->channels, row,
                  (size_t)r->x.out * (size_t)r->channels) -
           r->x.pad_before * r->channels;
}

// The kernels may touch their slack: what stands behind the pixels of r->row,
// if it is margin, is made black again.
static const uint8_t *mend_margin(struct resample *r)
{
    size_t c = (size_t)r->channels, width = (size_t)r->step->win.w * c;
    size_t end = (size_t)(r->x.pad_before + r->x.out) * c;

    if (end < width)
        memset(r->row + end, 0,
               width - end < CPU_SLACK ? width - end : CPU_SLACK);
    return r->row;
}

static const uint8_t *vertical(struct cpu_run *run, struct resample *r,
                               uint8_t *dst)
{
    int from = r->y.lo[r->at] - r->y.src_lo, n = r->y.n[r->at];

    for (int k = 0; k < n; k++)
        r->taps[k] = ring_row(r, from + k);
    run->w->engine->ops.resample_v(dst, r->taps,
                                   r->y.w + (size_t)r->at * (size_t)r->y.stride,
                                   n, r->width);
    return dst;
}

// The next output row, from the rows in the ring.
static const uint8_t *output_row(struct cpu_run *run, struct resample *r)
{
    uint8_t *at = r->row + r->x.pad_before * r->channels;
    const uint8_t *row = ring_row(r, r->y.lo[r->at] - r->y.src_lo);

    if (r->step->v_first) {
        if (!r->y.identity)
            row = vertical(run, r, r->mid);
        run->w->engine->ops.resample_h(&at, &row, 1, r->channels, &r->h);
        return mend_margin(r);
    }
    if (r->y.identity)
        return with_margins(r, row);
    vertical(run, r, at);
    return mend_margin(r);
}

static void emit(struct cpu_run *run, struct resample *r, const struct sink *s)
{
    while (r->left && r->y.lo[r->at] + r->y.n[r->at] - r->y.src_lo <= r->done) {
        const uint8_t *row = output_row(run, r);

        cpu_lap(run, HR_PART_RESAMPLE);
        sink_row(run, s, r->y.pad_before + r->at, row);
        cpu_lap(run, s->pic ? HR_PART_STORE : HR_PART_RESAMPLE);
        r->at += r->ahead;
        r->left--;
    }
}

static void fill_ring(struct cpu_run *run, struct resample *r,
                      const uint8_t **src, int n)
{
    uint8_t *dst[CPU_DECODE_ROWS];

    for (int i = 0; i < n; i++) {
        dst[i] = ring_row(r, r->done + i);
        if (r->step->v_first)
            memcpy(dst[i], src[i], r->width);
    }
    if (!r->step->v_first)
        run->w->engine->ops.resample_h(dst, src, n, r->channels, &r->h);
    r->done += n;
}

// Neither pass has anything to do: rows go straight through.
static void pass_through(struct cpu_run *run, struct resample *r,
                         const uint8_t **src, int n, const struct sink *s)
{
    for (int i = 0; i < n; i++)
        sink_row(run, s, r->y.pad_before + r->done + i,
                 with_margins(r, src[i]));
    cpu_lap(run, s->pic ? HR_PART_STORE : HR_PART_RESAMPLE);
    r->done += n;
    r->left -= n;
}

static void black_rows(struct cpu_run *run, struct resample *r,
                       const struct sink *s, int from, int to)
{
    for (int y = from; y < to; y++)
        sink_row(run, s, y, r->row);
}

static bool resample_rows(struct cpu_run *run, struct resample *r,
                          struct cpu_rows *rows, const struct sink *s)
{
    bool through = r->x.identity && r->y.identity && r->y.out == rows->window.h;
    const uint8_t *src[CPU_DECODE_ROWS];
    int n;

    black_rows(run, r, s, 0, r->y.pad_before);
    black_rows(run, r, s, r->y.pad_before + r->y.out, r->step->win.h);
    while (r->left) {
        if (!(n = cpu_rows_read(run, rows, src, CPU_DECODE_ROWS)))
            return false;
        cpu_lap(run, rows->decode ? HR_PART_DECODE : HR_PART_RESAMPLE);
        if (through) {
            pass_through(run, r, src, n, s);
        } else {
            fill_ring(run, r, src, n);
            emit(run, r, s);
        }
    }
    return true;
}

// ---- The steps of a span --------------------------------------------------------------

static bool open_source(struct cpu_run *run, struct cpu_rows *rows)
{
    if (run->task->in)
        return run->task->in->after == HR_RECONSTRUCT
                   ? cpu_rows_planes(run, rows)
                   : cpu_rows_payload(run, rows);
    return run->pic->data ? cpu_rows_decode(run, rows)
                          : cpu_rows_image(run, rows);
}

// Nothing of the picture is wanted. A file that is damaged is refused all the
// same, as it is by any other cut of the stages.
static bool look_at_source(struct cpu_run *run)
{
    struct cpu_rows rows = {.window = {0, 0, 1, 1}};
    const uint8_t *src[1];

    if (run->task->in || !run->pic->data)
        return true;
    if (!cpu_rows_decode(run, &rows))
        return false;
    cpu_rows_read(run, &rows, src, 1);
    return cpu_rows_finish(run, &rows) && !run->out.status;
}

// All of the wanted window lies outside the picture.
static bool all_black(struct cpu_run *run, const struct hr__step *step,
                      const struct sink *s)
{
    size_t bytes = (size_t)step->win.w * (size_t)run->pic->channels;
    uint8_t *row = cpu_arena_alloc(&run->w->arena, bytes);

    if (!row)
        return cpu_run_fail(run, HR_ENOMEM, "no room for a row");
    memset(row, 0, bytes);
    for (int y = 0; y < step->win.h; y++)
        sink_row(run, s, y, row);
    return true;
}

// from: what the step before made, NULL for the first.
static bool run_step(struct cpu_run *run, const struct hr__step *step,
                     const struct sink *from, const struct sink *to)
{
    struct resample r = {0};
    struct cpu_rows rows = {0};
    bool ok;

    if (!build_axes(run, &r, step))
        return false;
    if (!r.x.out || !r.y.out)
        return (from || look_at_source(run)) && all_black(run, step, to);
    rows.window = window_of(&r);
    if (!setup(run, &r) ||
        !(from ? cpu_rows_memory(run, &rows, from->data, from->stride,
                                 from->stride * (size_t)step->in_h)
               : open_source(run, &rows)))
        return false;
    cpu_lap(run, rows.decode ? HR_PART_DECODE : HR_PART_RESAMPLE);
    ok = resample_rows(run, &r, &rows, to);
    return cpu_rows_finish(run, &rows) && ok;
}

// A step whose output is turned goes through memory, then row by row to `to`
// if that is not memory itself.
static bool run_turned(struct cpu_run *run, const struct hr__step *step,
                       const struct sink *from, struct sink *to, bool last)
{
    struct sink turned;

    if (!sink_memory(run, &turned, step->out_w, step->out_h))
        return false;
    turned.column = step->out_h;
    if (!run_step(run, step, from, &turned))
        return false;
    turned.column = 0;
    if (!last) {
        *to = turned;
        return true;
    }
    for (int y = 0; y < step->out_h; y++)
        sink_row(run, to, y, turned.data + turned.stride * (size_t)y);
    return true;
}

static bool run_steps(struct cpu_run *run, struct sink *final)
{
    const struct hr__geometry *geo = &run->pic->geo;
    struct sink between[2];

    for (int i = 0; i < geo->num_steps; i++) {
        const struct hr__step *step = &geo->steps[i];
        struct sink *from = i ? &between[(i - 1) & 1] : NULL;
        bool last = i == geo->num_steps - 1;
        struct sink *to = last ? final : &between[i & 1];

        if (step->transpose) {
            if (!run_turned(run, step, from, to, last))
                return false;
            continue;
        }
        if (!last && !sink_memory(run, to, step->out_w, step->out_h))
            return false;
        if (!run_step(run, step, from, to))
            return false;
    }
    return true;
}

// ---- Spans that end or begin elsewhere -----------------------------------------------

bool cpu_run_window(struct cpu_run *run, struct cpu_rect *window)
{
    struct resample r = {0};

    if (!build_axes(run, &r, &run->pic->geo.steps[0]))
        return false;
    *window = r.x.out && r.y.out ? window_of(&r)
                                 : (struct cpu_rect){0, 0, 1, 1};
    return true;
}

// ..color: the window that the first step reads, as pixels.
static bool run_decode(struct cpu_run *run)
{
    const uint8_t *src[CPU_DECODE_ROWS];
    struct cpu_rows rows = {0};
    struct sink s;
    int n;

    if (!cpu_run_window(run, &rows.window) ||
        !sink_payload(run, &s,
                      (struct hr__rect){rows.window.x, rows.window.y,
                                        rows.window.w, rows.window.h}) ||
        !open_source(run, &rows))
        return false;
    while (rows.next < rows.window.h) {
        int y = rows.next;

        if (!(n = cpu_rows_read(run, &rows, src, CPU_DECODE_ROWS)))
            break;
        for (int i = 0; i < n; i++)
            sink_row(run, &s, y + i, src[i]);
    }
    return cpu_rows_finish(run, &rows) && !run->out.status;
}

// store..store: the payload is the whole output.
static bool run_store(struct cpu_run *run)
{
    const uint8_t *src[CPU_DECODE_ROWS];
    struct cpu_rows rows = {.window = {0, 0, run->pic->dst.w, run->pic->dst.h}};
    struct sink s = {.pic = run->pic};
    int n;

    run->out.stage = HR_STORE;
    if (!cpu_rows_payload(run, &rows))
        return false;
    while (rows.next < rows.window.h) {
        int y = rows.next;

        if (!(n = cpu_rows_read(run, &rows, src, CPU_DECODE_ROWS)))
            return false;
        for (int i = 0; i < n; i++)
            sink_row(run, &s, y + i, src[i]);
    }
    return true;
}

static bool run_span(struct cpu_run *run)
{
    const struct hr_span *span = &run->task->span;
    const struct hr__dst *d = &run->pic->dst;
    struct sink final = {.pic = run->pic};

    if (span->last == HR_ENTROPY)
        return cpu_run_entropy(run);
    if (span->last == HR_RECONSTRUCT)
        return cpu_run_planes(run);
    if (span->last == HR_COLOR)
        return run_decode(run);
    if (span->first == HR_STORE)
        return run_store(run);
    if (span->last == HR_RESAMPLE &&
        !sink_payload(run, &final, (struct hr__rect){0, 0, d->w, d->h}))
        return false;
    return run_steps(run, &final);
}

// What the laps did not see: the end of a decoder, a span of one stage.
static enum hr_part last_part(const struct cpu_run *run)
{
    const struct hr_span *span = &run->task->span;

    return span->last == HR_ENTROPY     ? HR_PART_ENTROPY
           : span->first == HR_STORE    ? HR_PART_STORE
           : span->first == HR_RESAMPLE ? HR_PART_RESAMPLE
                                        : HR_PART_DECODE;
}

static void report(struct cpu_run *run, int64_t begin)
{
    cpu_lap(run, last_part(run));
    for (int i = 0; run->lap && i < HR_NUM_PARTS; i++)
        if (run->spent[i])
            hr__watch_sum(run->w->engine->e, (enum hr_part)i, run->spent[i]);
    hr__watch_task(run->task, begin);
}

void cpu_run(struct cpu_worker *w, struct hr__task *task)
{
    struct cpu_run run = {.w = w, .task = task, .pic = task->pic};
    int64_t begin = hr__watch_begin();

    run.lap = hr__watched() & HR__WATCH_TIMES ? begin : 0;

    run.out = (struct hr__outcome){.offset = -1, .stage = task->span.first};
    run.deadline = hr__now() + (int64_t)task->pic->limits->item_ms * 1000000;
    if (!run_span(&run) && !run.out.status)
        cpu_run_fail(&run, HR_ECORRUPT, "");
    cpu_arena_clear(&w->arena, CPU_KEEP);
    report(&run, begin);
    hr__task_done(task, &run.out);
}
