// SPDX-License-Identifier: Apache-2.0
// Many tasks in one worker: the stage entropy of up to 16 pictures at a time
// (cpu_fallback/lanes.h), each in its own lane and into planes of its own; when
// a picture's are there, the rest of the task runs as always, and the lane takes
// the next one from the queue. Nobody waits for a lane: with few tasks in the
// queue there are none, and when it becomes empty the last ones are finished one
// by one.
#include <string.h>

#include "backends/cpu/cpu.h"

enum {
    // What an empty lane keeps of its planes.
    KEEP = 1 << 20,
};

struct place {
    struct hr__task *task;  // NULL: none
    struct cpu_many *many;
    bool through, given_up;
    struct cpu_arena arena;
    struct cpu_lane_picture pic;
};

struct cpu_many {
    struct cpu_engine *engine;
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
        cpu_arena_finish(&m->place[i].arena);
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
    m->engine = w->engine;
    for (int i = 0; i < CPU_LANES; i++) {
        m->place[i].many = m;
        cpu_arena_init(&m->place[i].arena, heap);
        m->place[i].arena.limit = w->arena.limit;
    }
    w->many = m;
    m->lanes = cpu_lanes_create(w->engine->ops.lanes, heap);
    if (!m->lanes)
        cpu_many_destroy(w);
    return w->many != NULL;
}

// ---- A picture in a lane ----------------------------------------------------

// Whether the task begins with a JPEG's bytes and has nothing to do with them
// but to make rows.
static bool fits(const struct hr__task *task)
{
    const struct hr__picture *pic = task->pic;

    return !task->in && !pic->keep && task->span.first == HR_ENTROPY &&
           task->span.last >= HR_COLOR && cpu_planes_takes(pic) &&
           pic->info.process != HR_PROCESS_PROGRESSIVE &&
           !pic->info.arithmetic && pic->info.interleaved;
}

static bool stops(void *ctx)
{
    return hr__task_stop(((struct place *)ctx)->task);
}

// What passes between two laps is the stage entropy of all lanes, but for the
// rows of one that are made of it.
static void lap(void *ctx, enum cpu_stage stage)
{
    struct cpu_many *m = ((struct place *)ctx)->many;
    int64_t now = hr__now();

    hr__watch_sum(m->engine->e,
                  stage == CPU_STAGE_RECONSTRUCT ? HR_PART_RECONSTRUCT
                                                 : HR_PART_ENTROPY,
                  now - m->lap);
    m->lap = now;
}

static void through(void *ctx, enum cpu_lane_result result)
{
    struct place *place = ctx;

    place->through = true;
    place->given_up = result == CPU_LANE_GIVEN_UP;
}

// Into a lane; false: it is run in one stream.
static bool add(struct cpu_worker *w, struct hr__task *task)
{
    struct cpu_run run = {.w = w, .task = task, .pic = task->pic};
    struct place *place = w->many->place;
    struct cpu_decode_params p;
    bool ok;

    if (!fits(task))
        return false;
    while (place->task)
        place++;
    p = cpu_run_decode(&run);
    p.stop = stops;
    p.stop_ctx = place;
    p.lap = hr__watched() & HR__WATCH_TIMES ? lap : NULL;
    place->task = task;
    place->through = false;
    ok = cpu_step_window(&run, &p.window) &&
         (int64_t)(p.window.y + p.window.h) * p.width < CPU_HELPED &&
         cpu_lane_open(&place->pic, w->many->lanes, &p, &w->engine->ops,
                       &place->arena, through, place);
    cpu_arena_clear(&w->arena, CPU_KEEP);
    if (!ok) {
        place->task = NULL;
        cpu_arena_clear(&place->arena, KEEP);
        return false;
    }
    w->many->tasks++;
    return true;
}

// ---- All of them ------------------------------------------------------------

// What the lanes are through with runs to its end.
static void run_through(struct cpu_worker *w)
{
    struct cpu_many *m = w->many;

    for (int i = 0; i < CPU_LANES; i++) {
        struct place *place = &m->place[i];

        if (!place->task || !place->through)
            continue;
        cpu_run(w, place->task, place->given_up ? NULL : &place->pic);
        cpu_arena_clear(&place->arena, KEEP);
        place->task = NULL;
        m->tasks--;
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
    run_through(w);
}

void cpu_many_run(struct cpu_worker *w, struct hr__task *task)
{
    struct hr__task *next = NULL;

    if (w->engine->lanes != CPU_LANES_NEVER && (w->many || create(w)))
        next = cpu_take_if(w->engine, CPU_LANES - 1);
    if (!next || !add(w, task))
        cpu_run(w, task, NULL);
    while (next || (w->many && w->many->tasks)) {
        if (next && hr__task_prepare(next) && !add(w, next))
            cpu_run(w, next, NULL);
        next = NULL;
        if (w->many->tasks < CPU_LANES)
            next = cpu_take_if(w->engine, 1);
        if (!next && w->many->tasks)
            run_lanes(w);
    }
}
