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
    // Lanes below which one stream after the other is as fast.
    FEW = 9,
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
    struct cpu_lanes *lanes;
    int tasks;
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
    for (int i = 0; i < CPU_LANES; i++)
        cpu_arena_init(&m->place[i].arena, heap);
    w->many = m;
    m->lanes = cpu_lanes_create(w->engine->ops.lanes, heap);
    if (!m->lanes)
        cpu_many_destroy(w);
    return w->many != NULL;
}

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

static bool stops(void *task)
{
    return hr__task_stop(task);
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
    struct cpu_many *m = w->many;
    struct place *place = m->place;
    struct cpu_run run = {.w = w, .task = task, .pic = task->pic};
    struct cpu_decode_params p;
    bool ok;

    if (!fits(task))
        return false;
    while (place->task)
        place++;
    p = cpu_run_decode(&run);
    p.stop = stops;
    p.stop_ctx = task;
    ok = cpu_step_window(&run, &p.window) &&
         cpu_lane_open(&place->pic, m->lanes, &p, &w->engine->ops,
                       &place->arena, through, place);
    cpu_arena_clear(&w->arena, CPU_KEEP);
    if (!ok) {
        cpu_arena_clear(&place->arena, KEEP);
        return false;
    }
    place->task = task;
    place->through = false;
    m->tasks++;
    return true;
}

// What the lanes are through with runs to its end.
static void run_through(struct cpu_worker *w)
{
    struct cpu_many *m = w->many;

    for (struct place *place = m->place; place < m->place + CPU_LANES; place++) {
        if (!place->task || !place->through)
            continue;
        cpu_run(w, place->task, place->given_up ? NULL : &place->pic);
        cpu_arena_clear(&place->arena, KEEP);
        place->task = NULL;
        m->tasks--;
    }
}

void cpu_many_run(struct cpu_worker *w, struct hr__task *task)
{
    struct hr__task *next = NULL;

    if (!w->engine->ops.lanes ||
        !(next = cpu_take_if(w->engine, CPU_LANES - 1)) ||
        (!w->many && !create(w)) || !add(w, task))
        cpu_run(w, task, NULL);
    while (next || (w->many && w->many->tasks)) {
        bool full = w->many && w->many->tasks == CPU_LANES;

        if (!full && (next || (next = cpu_take_if(w->engine, 1)))) {
            if (hr__task_prepare(next) && (!w->many || !add(w, next)))
                cpu_run(w, next, NULL);
            next = NULL;
            continue;
        }
        if (w->many->tasks < FEW)
            cpu_lanes_finish(w->many->lanes);
        else
            cpu_lanes_run(w->many->lanes);
        run_through(w);
    }
}
