// SPDX-License-Identifier: Apache-2.0
// A trial finds out whether lanes pay on this processor, and in which form.
// Loads are faster where gathers are slow, and one stream after the other is as
// fast where the tables of 16 files do not fit into the nearest cache. The
// trial takes the first pictures themselves, since their tables decide.
#include <time.h>

#include "backends/cpu/cpu.h"

enum {
    ROUNDS = 2,
    TIMES = 2,  // each picture, in a round,
    PART = 8,   // a part of its rows
};

// (The thread's own time: others may be at work.)
static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static bool drop_row(void *ctx, int row,
                     const struct cpu_entropy_lines lines[3])
{
    (void)ctx;
    (void)row;
    (void)lines;
    return true;
}

static void drop(void *ctx, enum cpu_lane_result result)
{
    (void)ctx;
    (void)result;
}

static bool add(struct cpu_lanes *l, const struct cpu_lane_params *from)
{
    struct cpu_lane_params p = *from;

    p.rows = p.first + (p.rows - p.first + PART - 1) / PART;
    p.row = drop_row;
    p.done = drop;
    return cpu_lanes_add(l, &p);
}

static int64_t in_lanes(struct cpu_lanes *l, enum cpu_lane_form form,
                        const struct cpu_lane_params *const *p)
{
    int64_t begin = now();

    for (int i = 0; i < TIMES * CPU_LANES; i++) {
        while (!cpu_lanes_empty(l))
            cpu_lanes_run(l, form);
        add(l, p[i % CPU_LANES]);
    }
    while (CPU_LANES - cpu_lanes_empty(l) >= CPU_LANES_FEW)
        cpu_lanes_run(l, form);
    cpu_lanes_finish(l);
    return now() - begin;
}

static int64_t one_by_one(struct cpu_lanes *l,
                          const struct cpu_lane_params *const *p)
{
    int64_t all = 0, begin;

    for (int i = 0; i < TIMES * CPU_LANES; i++) {
        add(l, p[i % CPU_LANES]);
        begin = now();
        cpu_lanes_finish(l);
        all += now() - begin;
    }
    return all;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

enum cpu_lanes_use cpu_lanes_try(struct cpu_engine *c,
                                 const struct cpu_lane_params *const *p)
{
    struct cpu_lanes *l = cpu_lanes_create(c->ops.lanes, &c->heap);
    int64_t wide = INT64_MAX, half = INT64_MAX, one = INT64_MAX;

    if (!l)
        return CPU_LANES_NEVER;
    for (int i = 0; i < ROUNDS; i++) {
        wide = least(wide, in_lanes(l, CPU_LANES_WIDE, p));
        half = least(half, in_lanes(l, CPU_LANES_HALVES, p));
        one = least(one, one_by_one(l, p));
    }
    cpu_lanes_destroy(&l);
    hr__log(
        c->e->device, HR_LOG_DEBUG,
        "entropy of 16 pictures takes %lld us in lanes, %lld us in lanes of "
        "half the width, %lld us one by one",
        (long long)wide / 1000, (long long)half / 1000, (long long)one / 1000);
    // Planes that lie in memory meanwhile cost some of it.
    if (one * 10 <= least(wide, half) * 11)
        return CPU_LANES_NEVER;
    return half < wide ? CPU_LANES_HALVED : CPU_LANES_ALWAYS;
}
