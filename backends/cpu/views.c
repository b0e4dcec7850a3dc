// SPDX-License-Identifier: Apache-2.0
// Several tasks that begin with the same bytes, the views of one source: what
// their windows have in common, and what lies between, is decoded once, into
// the worker's arena, and each goes on from these pixels. Nothing shows it: if
// that decoding finds the least fault, or a view fails with it, it is made
// alone.
#include "backends/cpu/cpu.h"

// A picture with more bytes of pixels is not shared: the arena keeps them.
enum { BYTES = 3 << 20 };

struct views {
    struct cpu_worker *w;
    struct hr__task *task[CPU_VIEWS];
    int n;
    struct cpu_shared shared;
    struct hr__task *alone[CPU_VIEWS];
    struct hr__payload *payload[CPU_VIEWS];  // of one alone: it has it already
    int num_alone;
};

// ---- Which, and whether it pays ---------------------------------------------

// Bytes of all the picture, as pixels.
static size_t size_of(const struct hr__picture *pic)
{
    return (size_t)pic->width * (size_t)pic->height * (size_t)pic->channels;
}

static bool is_view(const struct hr__task *task)
{
    return !task->in && task->span.first == HR_ENTROPY &&
           task->span.last >= HR_COLOR && size_of(task->pic) <= BYTES;
}

static bool same_pixels(const struct hr__task *a, const struct hr__task *b)
{
    return a->pic->data == b->pic->data && a->pic->size == b->pic->size &&
           a->pic->mode == b->pic->mode && a->pic->channels == b->pic->channels;
}

// Returns the cost in quarters of making a pixel from its coefficients.
// Coefficients are read from the top of a file on; in a packed picture only
// where they are needed.
static int64_t cost(const struct hr__picture *pic, const struct hr__rect *r)
{
    int64_t pixels = (int64_t)r->w * r->h;

    return pic->info.format == HR_FORMAT_PACKED
               ? 4 * pixels
               : 4 * pixels + (int64_t)10 * pic->width * (r->y + r->h);
}

static void include(struct hr__rect *all, const struct hr__rect *r)
{
    int right = all->x + all->w, bottom = all->y + all->h;

    right = right > r->x + r->w ? right : r->x + r->w;
    bottom = bottom > r->y + r->h ? bottom : r->y + r->h;
    all->x = all->x < r->x ? all->x : r->x;
    all->y = all->y < r->y ? all->y : r->y;
    all->w = right - all->x;
    all->h = bottom - all->y;
}

// Finds the window of all. (To write pixels and read them again is a quarter
// of making them.)
static bool pays(struct views *v)
{
    const struct hr__picture *pic = v->task[0]->pic;
    struct hr__rect *all = &v->shared.rect;
    int64_t alone = 0;

    for (int i = 0; i < v->n; i++) {
        struct cpu_run run = cpu_run_begin(v->w, v->task[i]);
        struct hr__rect one;
        bool ok = cpu_step_window(&run, &one);

        cpu_arena_clear(&v->w->arena, CPU_KEEP);
        if (!ok)
            return false;
        alone += cost(pic, &one);
        if (i)
            include(all, &one);
        else
            *all = one;
    }
    // (What is to be kept is packed as a whole, by each that is made alone.)
    return pic->keep || cost(pic, all) + (int64_t)all->w * all->h < alone;
}

// ---- Their way --------------------------------------------------------------

static bool decode(struct cpu_run *run, struct cpu_shared *s)
{
    struct cpu_rows rows = {.window = s->rect};
    struct cpu_mark mark;
    bool ok;

    if (!cpu_sink_memory(run, &s->pixels, s->rect.w, s->rect.h,
                         run->pic->channels, 0))
        return false;
    mark = cpu_arena_mark(&run->w->arena);
    if (!cpu_rows_decode(run, &rows))
        return false;
    ok = cpu_rows_copy(run, &rows, &s->pixels);
    ok = cpu_rows_finish(run, &rows) && ok;
    cpu_arena_reset(&run->w->arena, mark);
    return ok && !run->out.status && !run->out.warnings;
}

static void make_views(struct views *v)
{
    struct cpu_arena *arena = &v->w->arena;
    struct cpu_run run = cpu_run_begin(v->w, v->task[0]);
    bool decoded = decode(&run, &v->shared);
    struct cpu_mark mark = cpu_arena_mark(arena);

    for (int i = 0; i < v->n; i++) {
        if (i)
            run = cpu_run_begin(v->w, v->task[i]);
        run.shared = &v->shared;
        run.out.shared = i > 0;
        if (decoded && cpu_run_span(&run)) {
            cpu_run_end(&run);
        } else {
            v->payload[v->num_alone] = run.payload;
            v->alone[v->num_alone++] = v->task[i];
        }
        cpu_arena_reset(arena, mark);
    }
    cpu_arena_clear(arena, CPU_KEEP);
}

// Begins them; what is not shared is left to all threads.
static void collect(struct views *v, struct hr__task *list)
{
    struct hr__task *next;

    for (; list && !(v->num_alone && !v->n); list = next) {
        next = list->next;
        if (!hr__task_prepare(list))
            continue;
        if (is_view(list) && (!v->n || same_pixels(v->task[0], list)))
            v->task[v->n++] = list;
        else
            v->alone[v->num_alone++] = list;
    }
    cpu_queue_return(v->w->engine, list);
}

void cpu_views_run(struct cpu_worker *w, struct hr__task *list)
{
    struct views v = {.w = w};

    collect(&v, list);
    if (v.n > 1 && pays(&v)) {
        make_views(&v);
        v.n = 0;
    }
    for (int i = 0; i < v.n; i++)
        cpu_run(w, v.task[i], NULL);
    for (int i = 0; i < v.num_alone; i++)
        cpu_run(w, v.alone[i], v.payload[i]);
}
