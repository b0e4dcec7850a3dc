// SPDX-License-Identifier: Apache-2.0
// Many tasks in one worker: the stage entropy of up to 16 pictures at a time
// (cpu_fallback/lanes.h), each in its own lane. When a lane has a row of MCUs,
// that goes at once through the other stages, as far as it reaches; when a
// picture is complete, its lane takes the next task from the queue. Nobody waits
// for a lane: with few tasks in the queue there are none, and when it becomes
// empty the last ones are finished one by one.
#include <string.h>

#include "backends/cpu/cpu.h"

enum {
    // What an empty place keeps of its arena.
    KEEP = CPU_KEEP / CPU_LANES,
};

struct place {
    struct hr__task *task;  // NULL: none
    struct cpu_many *many;
    bool through, given_up;
    struct cpu_worker w;  // the worker, but with an arena of the place's own
    struct cpu_run run;
    struct cpu_step *step;
    struct cpu_lane_picture pic;
};

struct cpu_many {
    struct cpu_lanes *lanes;
    int tasks;
    int64_t lap;  // if somebody watches: when the last part ended
    struct place place[CPU_LANES];
};

void cpu_many_destroy(struct cpu_worker *w)
{
    struct cpu_many *m = w->many;

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
        m->place[i].many = m;
        m->place[i].w = (struct cpu_worker){.engine = w->engine};
        cpu_arena_init(&m->place[i].w.arena, heap);
        m->place[i].w.arena.limit = w->arena.limit;
    }
    w->many = m;
    m->lanes = cpu_lanes_create(w->engine->ops.lanes, heap);
    if (!m->lanes)
        cpu_many_destroy(w);
    return w->many != NULL;
}

// ---- A picture in a lane ----------------------------------------------------

// Whether the task is all stages of a JPEG.
static bool fits(const struct hr__task *task)
{
    const struct hr__picture *pic = task->pic;

    return !task->in && !pic->keep && task->span.first == HR_ENTROPY &&
           task->span.last == HR_STORE && cpu_planes_takes(pic) &&
           pic->info.process != HR_PROCESS_PROGRESSIVE &&
           !pic->info.arithmetic && pic->info.interleaved;
}

// What passes between two laps of this thread is the stage entropy, whoever's:
// it counts for the picture whose row it has led to.
static void lap(void *ctx, enum cpu_stage stage)
{
    struct place *place = ctx;

    if (stage == CPU_STAGE_ENTROPY)
        place->run.lap = place->many->lap;
    cpu_lap(&place->run,
            stage == CPU_STAGE_ENTROPY ? HR_PART_ENTROPY : HR_PART_RECONSTRUCT);
    place->many->lap = place->run.lap;
}

static bool rows(void *ctx)
{
    struct place *place = ctx;
    bool ok = cpu_step_go_on(&place->run, place->step);

    place->many->lap = place->run.lap;
    return ok;
}

static void through(void *ctx, enum cpu_lane_result result)
{
    struct place *place = ctx;

    place->through = true;
    place->given_up = result == CPU_LANE_GIVEN_UP ||
                      !cpu_step_complete(place->step);
}

static bool open_place(struct place *place, struct hr__task *task)
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
    p.stop_ctx = place;
    p.lap = p.lap ? lap : NULL;
    if (!cpu_step_begin(&place->run, &place->step, &rows))
        return false;
    p.window = rows->window;
    rows->lane = &place->pic;
    return (int64_t)(p.window.y + p.window.h) * p.width < HR__HELPED_PIXELS &&
           cpu_lane_open(&place->pic, place->many->lanes, &p,
                         &place->w.engine->ops, &place->w.arena, &calls);
}

// Into a lane; false: it is run in one stream.
static bool add(struct cpu_worker *w, struct hr__task *task)
{
    struct place *place = w->many->place;

    if (!fits(task))
        return false;
    while (place->task)
        place++;
    if (!open_place(place, task)) {
        cpu_arena_clear(&place->w.arena, KEEP);
        return false;
    }
    place->task = task;
    place->through = false;
    w->many->tasks++;
    return true;
}

// ---- All of them ------------------------------------------------------------

// What the lanes are through with ends; what one has given up is made anew, by
// one stream.
static void end_through(struct cpu_worker *w)
{
    struct cpu_many *m = w->many;

    for (int i = 0; i < CPU_LANES; i++) {
        struct place *place = &m->place[i];
        struct hr__task *task = place->task;

        if (!task || !place->through)
            continue;
        cpu_arena_clear(&place->w.arena, KEEP);
        place->task = NULL;
        m->tasks--;
        if (place->given_up && !place->run.out.status) {
            cpu_run(w, task);
            continue;
        }
        w->in_lanes++;
        cpu_run_end(&place->run);
    }
}

// Whether lanes pay, if nobody knows yet. All are full.
static void try_lanes(struct cpu_worker *w)
{
    const struct cpu_lane_params *p[CPU_LANES];

    for (int i = 0; i < CPU_LANES; i++)
        p[i] = &w->many->place[i].pic.lane;
    w->engine->lanes = cpu_lanes_pay(w->engine, p) ? CPU_LANES_ALWAYS
                                                   : CPU_LANES_NEVER;
}

static void run_lanes(struct cpu_worker *w)
{
    struct cpu_many *m = w->many;

    if (w->engine->lanes == CPU_LANES_TRIAL && m->tasks == CPU_LANES)
        try_lanes(w);
    m->lap = hr__watch_begin();
    if (w->engine->lanes == CPU_LANES_ALWAYS && m->tasks >= CPU_LANES_FEW)
        cpu_lanes_run(m->lanes);
    else
        cpu_lanes_finish(m->lanes);
    end_through(w);
}

// Not under a cap, for a thread shall rest between pictures, nor where pictures
// have little time: those in lanes take their turns at it.
static bool may_share(const struct cpu_engine *c)
{
    return !c->e->params.cpu_cap && c->e->params.limits.item_ms >= 1000;
}

// The next task, if so many are queued for each thread; NULL.
static struct hr__task *take_if(struct cpu_worker *w, int queued)
{
    struct cpu_engine *c = w->engine;
    struct hr__task *t = NULL;

    pthread_mutex_lock(&c->lock);
    if (!c->stop && may_share(c) && w - c->workers < c->use &&
        c->queued_tasks >= queued * c->use)
        t = cpu_queue_pop(c);
    pthread_mutex_unlock(&c->lock);
    return t;
}

void cpu_many_run(struct cpu_worker *w, struct hr__task *task)
{
    struct hr__task *next = NULL;

    if (w->engine->lanes != CPU_LANES_NEVER && (w->many || create(w)))
        next = take_if(w, CPU_LANES - 1);
    if (!next || !add(w, task))
        cpu_run(w, task);
    while (next || (w->many && w->many->tasks)) {
        if (next && hr__task_prepare(next) && !add(w, next))
            cpu_run(w, next);
        next = NULL;
        if (w->many->tasks < CPU_LANES)
            next = take_if(w, 1);
        if (!next && w->many->tasks)
            run_lanes(w);
    }
}
