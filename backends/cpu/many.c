// SPDX-License-Identifier: Apache-2.0
// Many tasks in one worker: the stage entropy of up to 16 pictures at a time
// (cpu_fallback/jpeg/lanes.h), each in its own lane. When a lane has a row of
// MCUs, that goes at once through the other stages, as far as it reaches; when
// a picture is complete, its lane takes the next task from the queue. No thread
// waits for lanes: with few tasks in the queue lanes are not used. When few are
// left, or a thread is idle, pictures leave their lanes, and all free threads
// finish them one by one.
#include <limits.h>
#include <stddef.h>
#include <string.h>

#include "backends/cpu/cpu.h"

enum {
    // An empty place keeps so much of its arena, in such blocks: they do for a
    // photo of 500 x 375 with the head of its packed form.
    KEEP = 512 << 10,
    BLOCK = 140 << 10,
    // Bytes that are packed in lanes, at most. Photos of 120 KB in 16 lanes
    // never reach that. Whenever larger pictures do, the one with the fewest
    // rows to go leaves its lane, and soon all are at different rows.
    PACKED = 2800 << 10,
};

// A picture's place. The thread that has taken it is its only user until it is
// given back.
struct cpu_place {
    atomic_bool taken;
    struct hr__task *task;
    struct cpu_many *many;      // of the thread that has it
    struct cpu_lane_rest rest;  // apart: the picture's rest, and
    struct cpu_place *next;     // the next place apart
    bool in_lane;               // only the owner of the lanes asks
    bool through, given_up;
    struct cpu_worker w;  // the worker, but with an arena of the place's own
    struct cpu_run run;
    struct cpu_step *step;
    struct cpu_lane_picture pic;
};

struct cpu_many {
    struct cpu_lanes *lanes;
    int tasks;    // in lanes
    int64_t lap;  // if a trace is on: when the last part ended
    struct cpu_place place[CPU_LANES];
};

void cpu_many_destroy(struct cpu_worker *w)
{
    struct cpu_many *m = w->many;

    cpu_pieces_finish(&w->pieces);
    if (!m)
        return;
    for (int i = 0; i < CPU_LANES; i++)
        cpu_arena_finish(&m->place[i].w.arena);
    cpu_lanes_destroy(&m->lanes);
    w->engine->heap.free(w->engine->heap.ctx, m, sizeof(*m));
    w->many = NULL;
}

static bool create(struct cpu_worker *w)
{
    const struct cpu_heap *heap = &w->engine->heap;
    struct cpu_many *m = heap->alloc(heap->ctx, sizeof(*m));

    if (!m)
        return false;
    memset(m, 0, sizeof(*m));
    for (int i = 0; i < CPU_LANES; i++) {
        m->place[i].w = (struct cpu_worker){.engine = w->engine};
        cpu_arena_init(&m->place[i].w.arena, heap);
        m->place[i].w.arena.limit = w->arena.limit;
        m->place[i].w.arena.block = BLOCK;
    }
    w->many = m;
    w->pieces.keep = PACKED / CPU_PIECE;
    m->lanes = cpu_lanes_create(w->engine->ops.lanes, heap);
    if (!m->lanes)
        cpu_many_destroy(w);
    return w->many != NULL;
}

// ---- A picture in a lane ----------------------------------------------------

// A lane takes all stages of a JPEG of one scan, Huffman coded. Beside 16
// pictures that wait for their codes there is no room for packed ones.
static bool fits(const struct hr__task *task)
{
    const struct hr__picture *pic = task->pic;

    return !task->in && task->span.first == HR_ENTROPY &&
           task->span.last == HR_STORE && pic->info.format == HR_FORMAT_JPEG &&
           !(pic->keep && pic->geo.num_augments) && cpu_entropy_takes(pic);
}

// The time between two laps of this thread is stage entropy of any of the
// pictures: it counts for the picture whose row it has led to.
static void lap(void *ctx, enum cpu_stage stage)
{
    struct cpu_place *place = ctx;

    if (stage == CPU_STAGE_ENTROPY)
        place->run.lap = place->many->lap;
    cpu_lap(&place->run,
            stage == CPU_STAGE_ENTROPY ? HR_PART_ENTROPY : HR_PART_RECONSTRUCT);
    place->many->lap = place->run.lap;
}

static bool stops(void *ctx)
{
    struct cpu_place *place = ctx;

    return cpu_run_stops(&place->run);
}

static bool rows(void *ctx)
{
    struct cpu_place *place = ctx;
    bool ok = cpu_step_go_on(&place->run, place->step);

    place->many->lap = place->run.lap;
    return ok;
}

static void through(void *ctx, enum cpu_lane_result result)
{
    struct cpu_place *place = ctx;

    place->through = true;
    place->given_up = result == CPU_LANE_GIVEN_UP ||
                      !cpu_step_complete(place->step);
}

static bool open_place(struct cpu_worker *w, struct cpu_place *place,
                       struct hr__task *task)
{
    const struct cpu_lane_calls calls = {rows, through, place};
    struct cpu_decode_params p;
    struct cpu_rows *rows;

    place->run = cpu_run_begin(&place->w, task);
    place->run.decode_part = HR_PART_COLOR;
    // They share the thread.
    place->run.deadline += (int64_t)task->pic->limits->item_ms * 1000000 *
                           (CPU_LANES - 1);
    p = cpu_run_decode(&place->run);
    p.stop = stops;
    p.stop_ctx = place;
    p.lap = p.lap ? lap : NULL;
    if (!cpu_step_begin(&place->run, &place->step, &rows))
        return false;
    p.window = rows->window;
    rows->lane = &place->pic;
    return (int64_t)(p.window.y + p.window.h) * p.width < HR__HELPED_PIXELS &&
           cpu_lane_open(&place->pic, place->many->lanes, &p,
                         &place->w.engine->ops, &place->w.arena, &calls,
                         task->pic->keep ? &w->pieces : NULL);
}

// Puts a task into a lane; false: it is run in one stream.
static bool add(struct cpu_worker *w, struct hr__task *task)
{
    struct cpu_place *place = w->many->place;

    if (!fits(task))
        return false;
    // (Some may be taken by pictures that have left their lanes.)
    for (int i = 0; atomic_load(&place->taken); i++, place++)
        if (i == CPU_LANES - 1)
            return false;
    place->many = w->many;
    place->through = false;
    if (!open_place(w, place, task)) {
        cpu_arena_clear(&place->w.arena, KEEP);
        return false;
    }
    place->task = task;
    place->in_lane = true;
    atomic_store(&place->taken, true);
    w->many->tasks++;
    return true;
}

// ---- All of them ------------------------------------------------------------

// The codes of a complete picture, in memory of the thread.
static void augment(struct cpu_worker *w, struct cpu_place *place)
{
    struct cpu_run *run = &place->run;

    if (place->given_up || run->out.status || !run->pic->geo.num_augments)
        return;
    run->w = w;
    run->lap = run->lap ? place->many->lap : 0;
    cpu_step_finish(run, place->step);
    place->many->lap = run->lap;
    cpu_arena_clear(&w->arena, CPU_KEEP);
}

// Gives the packed picture to the cache, if that wants it.
static void keep(struct cpu_place *place)
{
    struct cpu_run *run = &place->run;
    struct cpu_pack pack;
    void *to;

    if (!run->pic->keep || place->given_up || run->out.status)
        return;
    run->lap = run->lap ? place->many->lap : 0;
    if (cpu_packing_end(&place->pic.packing, run->pic->info.orientation,
                        &pack) &&
        (to = hr__task_keep(run->task, pack.size)))
        cpu_pack_write(&pack, to);
    cpu_lap(run, HR_PART_ENTROPY);
    place->many->lap = run->lap;
}

// The picture's task ends; what a lane has given up is made anew, by one
// stream.
static void end_place(struct cpu_worker *w, struct cpu_place *place)
{
    struct hr__task *again = NULL;

    keep(place);
    if (place->run.pic->keep)
        cpu_packing_drop(&place->pic.packing);
    augment(w, place);
    cpu_arena_clear(&place->w.arena, KEEP);
    if (place->given_up && !place->run.out.status) {
        again = place->task;
    } else {
        w->in_lanes++;
        cpu_run_end(&place->run);
    }
    atomic_store(&place->taken, false);
    if (again)
        cpu_run(w, again, NULL);
}

static void end_through(struct cpu_worker *w)
{
    struct cpu_many *m = w->many;

    for (int i = 0; i < CPU_LANES; i++) {
        struct cpu_place *place = &m->place[i];

        if (!place->in_lane || !place->through)
            continue;
        place->in_lane = false;
        m->tasks--;
        end_place(w, place);
    }
}

// Measures whether lanes pay. All lanes are full.
static void try_lanes(struct cpu_worker *w)
{
    const struct cpu_lane_params *p[CPU_LANES];

    for (int i = 0; i < CPU_LANES; i++)
        p[i] = &w->many->place[i].pic.lane;
    w->engine->lanes = cpu_lanes_try(w->engine, p);
}

// The picture in a lane that has the fewest rows to go; NULL: together they
// have not packed too much.
static struct cpu_place *most_packed(struct cpu_many *m)
{
    struct cpu_place *last = NULL;
    int pieces = 0, fewest = INT_MAX;

    for (int i = 0; i < CPU_LANES; i++) {
        struct cpu_place *place = &m->place[i];
        const struct cpu_packing *k = &place->pic.packing;
        int left;

        if (!place->in_lane || !place->run.pic->keep)
            continue;
        pieces += k->num;
        left = (int)(k->head->segments - k->segment);
        if (left < fewest) {
            fewest = left;
            last = place;
        }
    }
    return pieces > PACKED / CPU_PIECE ? last : NULL;
}

static void limit_packed(struct cpu_worker *w)
{
    struct cpu_many *m = w->many;
    struct cpu_place *place;

    while ((place = most_packed(m))) {
        cpu_lanes_leave_one(m->lanes, &place->pic, &place->rest);
        place->in_lane = false;
        m->tasks--;
        cpu_many_finish(w, place);
    }
}

static void run_lanes(struct cpu_worker *w)
{
    w->many->lap = hr__watch_begin();
    cpu_lanes_run(w->many->lanes, w->engine->lanes == CPU_LANES_HALVED
                                      ? CPU_LANES_HALVES
                                      : CPU_LANES_WIDE);
    end_through(w);
    limit_packed(w);
}

// ---- Apart ------------------------------------------------------------------

struct cpu_place *cpu_many_take(struct cpu_engine *c)
{
    struct cpu_place *place = c->apart;

    if (place) {
        c->apart = place->next;
        c->num_apart--;
    }
    return place;
}

void cpu_many_finish(struct cpu_worker *w, struct cpu_place *place)
{
    place->pic.packing.pieces = &w->pieces;
    if (w->many || create(w)) {
        place->many = w->many;
        w->many->lap = hr__watch_begin();
        cpu_lanes_alone(w->many->lanes, &place->rest);
    } else {
        place->given_up = true;
    }
    end_place(w, place);
}

static struct cpu_place *place_of(const struct cpu_lane_rest *rest)
{
    return (struct cpu_place *)((char *)rest->p.ctx -
                                offsetof(struct cpu_place, pic));
}

// Offers all pictures in lanes to all threads, and takes this thread's share.
static void run_apart(struct cpu_worker *w)
{
    struct cpu_lane_rest rest[CPU_LANES];
    struct cpu_engine *c = w->engine;
    int n = cpu_lanes_leave(w->many->lanes, rest);
    struct cpu_place *place;

    w->many->tasks = 0;
    pthread_mutex_lock(&c->lock);
    for (int i = 0; i < n; i++) {
        place = place_of(&rest[i]);
        place->in_lane = false;
        place->rest = rest[i];
        place->next = c->apart;
        c->apart = place;
        if (i && i <= c->idle)
            pthread_cond_signal(&c->wake);
    }
    c->num_apart += n;
    while ((place = cpu_many_take(c))) {
        pthread_mutex_unlock(&c->lock);
        cpu_many_finish(w, place);
        pthread_mutex_lock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
}

// ---- What comes next --------------------------------------------------------

// A picture alone takes some 1.3 times what it takes in lanes, so two threads
// are sooner done with it in any case than one that has it in lanes. As many
// threads give theirs away as there are idle ones without a task to come.
enum cpu_many_next cpu_many_next(const struct cpu_many_view *v)
{
    if (!v->in_lanes)
        return v->queued >= (CPU_LANES - 1) * v->threads ? CPU_MANY_TAKE
                                                         : CPU_MANY_APART;
    if (v->in_lanes < CPU_LANES && v->queued > v->idle)
        return CPU_MANY_TAKE;
    if (v->in_lanes < CPU_LANES_FEW || v->idle - v->queued > v->apart)
        return CPU_MANY_APART;
    return CPU_MANY_LANES;
}

// Says whether tasks may share a thread: not under a cap on CPU time, for a
// thread shall rest between pictures, nor where pictures have little time,
// since pictures in lanes take turns.
static bool may_share(const struct cpu_engine *c)
{
    return !c->e->params.cpu_cap && c->e->params.limits.item_ms >= 1000;
}

// *task: what was taken; NULL.
static enum cpu_many_next next_of(struct cpu_worker *w, struct hr__task **task)
{
    struct cpu_engine *c = w->engine;
    struct cpu_many_view v = {.in_lanes = w->many->tasks};
    enum cpu_many_next next;

    if (c->lanes == CPU_LANES_TRIAL && v.in_lanes == CPU_LANES)
        try_lanes(w);
    *task = NULL;
    pthread_mutex_lock(&c->lock);
    if (!c->stop && may_share(c) && w - c->workers < c->use)
        v.queued = c->queued_tasks;
    v.idle = c->idle;
    v.apart = c->num_apart;
    v.threads = c->use;
    next = cpu_many_next(&v);
    if (next == CPU_MANY_TAKE)
        *task = cpu_queue_pop(c);
    pthread_mutex_unlock(&c->lock);
    // (Before a trial, too.)
    return next == CPU_MANY_LANES && c->lanes != CPU_LANES_ALWAYS &&
                   c->lanes != CPU_LANES_HALVED
               ? CPU_MANY_APART
               : next;
}

void cpu_many_run(struct cpu_worker *w, struct hr__task *task)
{
    enum cpu_many_next next = CPU_MANY_APART;
    struct hr__task *more = NULL;

    if (w->engine->lanes != CPU_LANES_NEVER && (w->many || create(w)))
        next = next_of(w, &more);
    if (next != CPU_MANY_TAKE || !add(w, task))
        cpu_run(w, task, NULL);
    while (more || (w->many && w->many->tasks)) {
        if (more && more->source)
            cpu_views_run(w, more);
        else if (more && hr__task_prepare(more) && !add(w, more))
            cpu_run(w, more, NULL);
        next = next_of(w, &more);
        if (next == CPU_MANY_LANES)
            run_lanes(w);
        else if (next == CPU_MANY_APART)
            run_apart(w);
    }
}
