// SPDX-License-Identifier: Apache-2.0
// One resample step: rows stream through the horizontal pass into a ring, from
// the ring through the vertical pass into one row. The ring holds as many rows
// as the filter is high. In the other order rows go into the ring as they come,
// or only their places if they stay where they are; what the vertical pass
// makes of them waits until there are enough rows for the horizontal one, which
// reads its weights once for all of them.
#include <string.h>

#include "backends/cpu/cpu.h"

enum { BLOCK = 4 };  // rows that a horizontal pass takes together

struct resample {
    const struct hr__step *step;
    bool v_first;  // in fact: there are two passes
    struct hr__axis x, y;
    struct cpu_axis h;  // x for the kernels, from the window's left on
    int channels;
    uint8_t *ring;
    int ring_rows;
    size_t ring_stride;
    const uint8_t **taps;  // rows under the vertical filter
    const uint8_t **at;    // v_first: where the rows of the ring are
    uint8_t *row;          // output rows with their padding: one, or BLOCK
    size_t row_stride;
    uint8_t *mid;  // v_first: BLOCK rows after the vertical pass, like the ring
    int waiting;   // of them, for the horizontal one
    size_t width;  // bytes of a row of the ring
    int done;      // rows of the window that are in the ring
    int next, ahead;  // next output, and the way to the one after it
    int left;         // outputs to come
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
    run->out.stage = HR_RESAMPLE;
    return build_axis(run, step, 0, &r->x) && build_axis(run, step, 1, &r->y);
}

static struct hr__rect window_of(const struct resample *r)
{
    return (struct hr__rect){r->x.src_lo, r->y.src_lo,
                             r->x.src_hi - r->x.src_lo,
                             r->y.src_hi - r->y.src_lo};
}

// The ring, and the rows behind it.
static bool make_rows(struct cpu_run *run, struct resample *r)
{
    struct cpu_arena *a = &run->w->arena;
    size_t c = (size_t)r->channels, rows;

    // With one pass only the order is the one that costs less.
    r->v_first = r->step->v_first && !r->x.identity && !r->y.identity;
    rows = r->v_first ? BLOCK : 1;
    // Between two reads less than `taps` rows are still needed, and a read
    // brings at most CPU_DECODE_ROWS.
    r->ring_rows = r->y.taps + CPU_DECODE_ROWS;
    r->width = (size_t)(r->v_first ? r->h.in : r->x.out) * c;
    r->ring_stride = cpu_row_pitch(r->width);
    r->row_stride = (size_t)r->step->win.w * c + CPU_SLACK;
    r->ring = cpu_arena_array(a, (size_t)r->ring_rows, r->ring_stride);
    r->taps = cpu_arena_array(a, (size_t)r->y.taps, sizeof(*r->taps));
    r->row = cpu_arena_array(a, rows, r->row_stride);
    if (r->v_first) {
        r->at = cpu_arena_array(a, (size_t)r->ring_rows, sizeof(*r->at));
        r->mid = cpu_arena_array(a, BLOCK, r->ring_stride);
    }
    if (!r->ring || !r->taps || !r->row || (r->v_first && (!r->at || !r->mid)))
        return cpu_run_fail(run, HR_ENOMEM, "no room for rows");
    memset(r->row, 0, rows * r->row_stride);
    return true;
}

static bool setup(struct cpu_run *run, struct resample *r)
{
    const struct cpu_ops *ops = &run->w->engine->ops;
    struct cpu_arena *a = &run->w->arena;

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
    if (!make_rows(run, r))
        return false;
    // A mirrored axis is made from its end, so that rows are used in order.
    r->ahead = r->y.lo[0] <= r->y.lo[r->y.out - 1] ? 1 : -1;
    r->next = r->ahead > 0 ? 0 : r->y.out - 1;
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

// The kernels may touch their slack: what stands behind the pixels of an output
// row, if it is margin, is made black again.
static const uint8_t *mend_margin(struct resample *r, uint8_t *row)
{
    size_t c = (size_t)r->channels, width = (size_t)r->step->win.w * c;
    size_t end = (size_t)(r->x.pad_before + r->x.out) * c;

    if (end < width)
        memset(row + end, 0, width - end < CPU_SLACK ? width - end : CPU_SLACK);
    return row;
}

// The vertical pass for the next output row.
static void vertical(struct cpu_run *run, struct resample *r, uint8_t *dst)
{
    int from = r->y.lo[r->next] - r->y.src_lo, n = r->y.n[r->next];
    const int32_t *w = r->y.w + (size_t)r->next * (size_t)r->y.stride;

    for (int k = 0; k < n; k++)
        r->taps[k] = r->v_first ? r->at[(from + k) % r->ring_rows]
                                : ring_row(r, from + k);
    run->w->engine->ops.resample_v(dst, r->taps, w, n, r->width);
}

// The next output row, from the rows in the ring.
static const uint8_t *output_row(struct cpu_run *run, struct resample *r)
{
    if (r->y.identity)
        return with_margins(r, ring_row(r, r->y.lo[r->next] - r->y.src_lo));
    vertical(run, r, r->row + r->x.pad_before * r->channels);
    return mend_margin(r, r->row);
}

// The horizontal pass for the rows that wait for it; the last of them is the
// output before the next.
static void emit_block(struct cpu_run *run, struct resample *r,
                       const struct cpu_sink *s)
{
    int n = r->waiting, first = r->next - n * r->ahead;
    uint8_t *dst[BLOCK];
    const uint8_t *src[BLOCK];

    for (int i = 0; i < n; i++) {
        dst[i] = r->row + r->row_stride * (size_t)i +
                 r->x.pad_before * r->channels;
        src[i] = r->mid + r->ring_stride * (size_t)i;
    }
    run->w->engine->ops.resample_h(dst, src, n, r->channels, &r->h);
    cpu_lap(run, HR_PART_RESAMPLE);
    for (int i = 0; i < n; i++)
        cpu_sink_row(run, s, r->y.pad_before + first + i * r->ahead,
                     mend_margin(r, r->row + r->row_stride * (size_t)i));
    cpu_lap(run, s->pic ? HR_PART_STORE : HR_PART_RESAMPLE);
    r->waiting = 0;
}

static void emit_row(struct cpu_run *run, struct resample *r,
                     const struct cpu_sink *s)
{
    const uint8_t *row = output_row(run, r);

    cpu_lap(run, HR_PART_RESAMPLE);
    cpu_sink_row(run, s, r->y.pad_before + r->next, row);
    cpu_lap(run, s->pic ? HR_PART_STORE : HR_PART_RESAMPLE);
}

static void emit(struct cpu_run *run, struct resample *r,
                 const struct cpu_sink *s)
{
    // (The next read notices a stop, too.)
    while (r->left &&
           r->y.lo[r->next] + r->y.n[r->next] - r->y.src_lo <= r->done &&
           !cpu_run_stops(run)) {
        if (r->v_first)
            vertical(run, r, r->mid + r->ring_stride * (size_t)r->waiting++);
        else
            emit_row(run, r, s);
        r->next += r->ahead;
        r->left--;
        if (r->waiting == BLOCK || (r->waiting && !r->left))
            emit_block(run, r, s);
    }
}

static void fill_ring(struct cpu_run *run, struct resample *r,
                      const struct cpu_rows *rows, const uint8_t **src, int n)
{
    uint8_t *dst[CPU_DECODE_ROWS];

    for (int i = 0; i < n; i++) {
        int at = (r->done + i) % r->ring_rows;

        dst[i] = r->ring + r->ring_stride * (size_t)at;
        if (r->v_first)
            r->at[at] = cpu_rows_stay(rows, src[i])
                            ? src[i]
                            : memcpy(dst[i], src[i], r->width);
    }
    if (!r->v_first)
        run->w->engine->ops.resample_h(dst, src, n, r->channels, &r->h);
    r->done += n;
}

// Neither pass has anything to do: rows go straight through.
static void pass_through(struct cpu_run *run, struct resample *r,
                         const uint8_t **src, int n, const struct cpu_sink *s)
{
    for (int i = 0; i < n; i++)
        cpu_sink_row(run, s, r->y.pad_before + r->done + i,
                     with_margins(r, src[i]));
    cpu_lap(run, s->pic ? HR_PART_STORE : HR_PART_RESAMPLE);
    r->done += n;
    r->left -= n;
}

static void black_rows(struct cpu_run *run, struct resample *r,
                       const struct cpu_sink *s, int from, int to)
{
    for (int y = from; y < to && !cpu_run_stops(run); y++)
        cpu_sink_row(run, s, y, r->row);
}

// The next rows of the source; false = failed.
static bool take_rows(struct cpu_run *run, struct resample *r,
                      struct cpu_rows *rows, const struct cpu_sink *s)
{
    bool through = r->x.identity && r->y.identity && r->y.out == rows->window.h;
    const uint8_t *src[CPU_DECODE_ROWS];
    int n;

    if (!(n = cpu_rows_read(run, rows, src, CPU_DECODE_ROWS)))
        return false;
    cpu_lap(run,
            rows->decode || rows->lane ? run->decode_part : HR_PART_RESAMPLE);
    if (through) {
        pass_through(run, r, src, n, s);
    } else {
        fill_ring(run, r, rows, src, n);
        emit(run, r, s);
    }
    return true;
}

static void black_margins(struct cpu_run *run, struct resample *r,
                          const struct cpu_sink *s)
{
    black_rows(run, r, s, 0, r->y.pad_before);
    black_rows(run, r, s, r->y.pad_before + r->y.out, r->step->win.h);
}

static bool resample_rows(struct cpu_run *run, struct resample *r,
                          struct cpu_rows *rows, const struct cpu_sink *s)
{
    black_margins(run, r, s);
    while (r->left)
        if (!take_rows(run, r, rows, s))
            return false;
    return true;
}

// ---- The whole step ---------------------------------------------------------

// Nothing of the picture is wanted. A file that is damaged is refused all the
// same, as it is by any other cut of the stages.
static bool look_at_source(struct cpu_run *run)
{
    struct cpu_rows rows = {.window = {0, 0, 1, 1}};
    const uint8_t *src[1];

    if (run->task->in || !run->pic->data || run->shared)
        return true;
    if (!cpu_rows_decode(run, &rows))
        return false;
    cpu_rows_read(run, &rows, src, 1);
    return cpu_rows_finish(run, &rows) && !run->out.status;
}

// Writes black rows: all of the wanted window lies outside the picture.
static bool all_black(struct cpu_run *run, const struct hr__step *step,
                      const struct cpu_sink *s)
{
    size_t bytes = (size_t)step->win.w * 3;
    uint8_t *row = cpu_arena_alloc(&run->w->arena, bytes);

    if (!row)
        return cpu_run_fail(run, HR_ENOMEM, "no room for a row");
    memset(row, 0, bytes);
    for (int y = 0; y < step->win.h && !cpu_run_stops(run); y++)
        cpu_sink_row(run, s, y, row);
    return !run->out.status;
}

bool cpu_step_run(struct cpu_run *run, const struct hr__step *step,
                  const struct cpu_sink *from, const struct cpu_sink *to)
{
    struct resample r = {.channels = from ? from->channels
                                          : run->pic->channels};
    struct cpu_rows rows = {0};
    bool ok;

    if (!build_axes(run, &r, step))
        return false;
    if (!r.x.out || !r.y.out)
        return (from || look_at_source(run)) && all_black(run, step, to);
    rows.window = window_of(&r);
    if (!setup(run, &r))
        return false;
    cpu_lap(run, HR_PART_RESAMPLE);
    if (!(from ? cpu_rows_memory(run, &rows, from,
                                 from->stride * (size_t)step->in_h)
               : cpu_rows_open(run, &rows)))
        return false;
    cpu_lap(run, rows.decode ? run->decode_part : HR_PART_RESAMPLE);
    ok = resample_rows(run, &r, &rows, to);
    return cpu_rows_finish(run, &rows) && ok;
}

// ---- In pieces --------------------------------------------------------------

struct cpu_step {
    struct resample r;
    struct cpu_rows rows;
    struct cpu_sink to;  // the tensor, or a picture that waits for its codes
    size_t waiting;      // bytes of that, when its first row comes
};

// 224 x 224 pixels take a little less. For larger pictures entropy is a small
// part of the work.
enum { WAITING = 176 << 10 };

bool cpu_step_begin(struct cpu_run *run, struct cpu_step **out,
                    struct cpu_rows **rows)
{
    const struct hr__geometry *geo = &run->pic->geo;
    struct cpu_step *s = cpu_arena_alloc(&run->w->arena, sizeof(*s));

    if (!s || geo->num_steps != 1 || geo->steps[0].transpose)
        return false;
    *s = (struct cpu_step){0};
    if (geo->num_augments)
        s->waiting = cpu_codes_bytes(run, &geo->steps[0]);
    if (s->waiting > WAITING)
        return false;
    s->r.channels = run->pic->channels;
    if (!build_axes(run, &s->r, &geo->steps[0]) || !s->r.x.out || !s->r.y.out)
        return false;
    s->rows.window = window_of(&s->r);
    s->rows.channels = run->pic->channels;
    if (!setup(run, &s->r))
        return false;
    *out = s;
    *rows = &s->rows;
    return true;
}

static bool open_sink(struct cpu_run *run, struct cpu_step *s)
{
    const struct hr__step *step = s->r.step;

    if (s->waiting && !cpu_sink_memory(run, &s->to, step->out_w, step->out_h,
                                       s->r.channels, s->waiting))
        return false;
    s->to.pic = s->waiting ? NULL : run->pic;
    black_margins(run, &s->r, &s->to);
    return true;
}

bool cpu_step_go_on(struct cpu_run *run, struct cpu_step *s)
{
    if (!s->to.pic && !s->to.data && !open_sink(run, s))
        return false;
    while (s->r.left && s->rows.next < s->rows.lane->there)
        if (!take_rows(run, &s->r, &s->rows, &s->to))
            return false;
    return !run->out.status;
}

bool cpu_step_finish(struct cpu_run *run, struct cpu_step *s)
{
    const struct cpu_sink final = {.pic = run->pic};

    return !s->waiting || cpu_codes_run(run, s->r.step, &s->to, &final);
}

bool cpu_step_complete(const struct cpu_step *s)
{
    return !s->r.left;
}

bool cpu_step_empty(const struct hr__step *s)
{
    return s->win.x >= s->rs_w || s->win.x + s->win.w <= 0 ||
           s->win.y >= s->rs_h || s->win.y + s->win.h <= 0;
}

// The weights are not needed for that.
bool cpu_step_window(struct cpu_run *run, struct hr__rect *window)
{
    const struct hr__step *step = &run->pic->geo.steps[0];
    size_t x = hr__axis_size(step, 0), y = hr__axis_size(step, 1);
    void *mem = cpu_arena_alloc(&run->w->arena, x > y ? x : y);
    int left, right, top, bottom;

    run->out.stage = HR_RESAMPLE;
    if (!mem)
        return cpu_run_fail(run, HR_ENOMEM, "no room for filter weights");
    hr__axis_reach(step, 0, mem, &left, &right);
    hr__axis_reach(step, 1, mem, &top, &bottom);
    *window = right && bottom
                  ? (struct hr__rect){left, top, right - left, bottom - top}
                  : (struct hr__rect){0, 0, 1, 1};
    return true;
}
