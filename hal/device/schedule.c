// SPDX-License-Identifier: Apache-2.0
// Decides which engine takes the next sample, if several could: a pure function
// of the engines' loads and their tasks' times, so that it is tested without
// devices and in simulated time.
//
// A sample goes to a device engine if that has room and would finish before all
// engines together drain the queue: so no batch waits for a slow engine at its
// end. Else the host, on whose thread this is decided, makes it at once. An
// engine has room for twice the number of tasks that it runs concurrently, or
// for as many as it finishes while the host's threads are busy. No more is
// queued on it, so a stall delays no more than that.
//
// The time of a task is counted as if at most `depth` were in flight, since
// beyond that each waits for its share. An engine that moves again after a
// stall, and one that has not been measured yet, makes one list of tasks on
// trial.
#include <stdlib.h>

#include "hal/device/schedule.h"

enum {
    ROOM = 2,       // depths of tasks
    WEIGHT = 8,     // of the past, in averages, against one task
    STALL = 8,      // times what a task takes, without any sign
    PROBE = 64,     // .. between samples for one that is otherwise too slow
    SPREADS = 3,    // deviations that a target has room for
    BURST_MS = 50,  // of the cap, that may be used at once
};
#define STALL_LEAST INT64_C(50000000)
#define PROBE_LEAST INT64_C(250000000)

// ---- The host's cap --------------------------------------------------------

void hr__allowance_fill(struct hr__allowance *a, int64_t now)
{
    int64_t most = a->milli * BURST_MS * 1000, ns = now - a->filled;

    if (!a->milli || ns <= 0)
        return;
    // (Rounded down to whole microseconds, of which none is lost.)
    ns -= ns % 1000;
    a->filled += ns;
    if (ns / 1000 > (most - a->level) / a->milli)
        a->level = most;
    else
        a->level += ns / 1000 * a->milli;
}

int64_t hr__allowance_wait(const struct hr__allowance *a)
{
    return a->milli && a->level < 0 ? -a->level / a->milli * 1000 + 1000 : 0;
}

int64_t hr__allowance_next(const struct hr__allowance *a, int64_t task_ns,
                           int n)
{
    int64_t all = task_ns * (n + 1), paid;

    if (!a->milli || a->level >= all)
        return task_ns;
    paid = (all - a->level) / a->milli * 1000;
    return paid > task_ns ? paid : task_ns;
}

// Returns the time until the host has made a picture.
static int64_t on_host(const struct hr__schedule *s)
{
    const struct hr__engine_load *host = &s->engines[s->num - 1];

    return hr__allowance_next(&s->allowance, host->task_ns, host->in_flight);
}

// ---- What is known of an engine --------------------------------------------

static bool is_stalled(const struct hr__engine_load *l, int64_t now)
{
    int64_t quiet = STALL * l->task_ns;

    return l->in_flight && l->task_ns &&
           now - l->progress_at > (quiet > STALL_LEAST ? quiet : STALL_LEAST);
}

// Time until it has made one more, if its tasks began together.
static int64_t expected(const struct hr__engine_load *l)
{
    return (l->in_flight + l->depth) / l->depth * l->task_ns;
}

// The room also covers the time for which all threads of the host are busy.
static bool has_room(const struct hr__engine_load *l, int64_t host)
{
    if (l->trial)
        return l->in_flight < l->unit;
    return l->in_flight < ROOM * l->depth || expected(l) < ROOM * host;
}

// Returns how many more samples engine i will have made in ns from now.
static int64_t made(const struct hr__schedule *s, int i, int64_t ns)
{
    const struct hr__allowance *a = &s->allowance;
    const struct hr__engine_load *l = &s->engines[i];
    int64_t n = l->task_ns ? ns / l->task_ns * l->depth : 0, paid = INT64_MAX;

    if (i == s->num - 1 && a->milli && l->task_ns)
        paid = (a->level + ns / 1000 * a->milli) / l->task_ns;
    n = (n < paid ? n : paid) - l->in_flight;
    return n > 0 ? n : 0;
}

static bool all_made(const struct hr__schedule *s, int n, int64_t ns,
                     int64_t now)
{
    int64_t sum = 0;

    for (int i = 0; i < s->num; i++)
        if (!is_stalled(&s->engines[i], now))
            sum += made(s, i, ns);
    return sum >= n;
}

// Returns the time that all engines together take for n samples more.
static int64_t together(const struct hr__schedule *s, int n, int64_t now)
{
    int64_t least = 0, most = on_host(s);

    while (most && !all_made(s, n, most, now) && most < INT64_MAX / 4) {
        least = most;
        most *= 2;
    }
    for (int i = 0; i < 20; i++) {
        int64_t half = least + (most - least) / 2;

        if (all_made(s, n, half, now))
            most = half;
        else
            least = half;
    }
    return most;
}

// ---- Choosing --------------------------------------------------------------

// Says whether it is time to probe an idle engine: one that measured too slow
// has not got a sample for long.
static bool is_probed(const struct hr__engine_load *l, int waiting, int64_t now)
{
    int64_t rest = PROBE * l->task_ns;

    return !l->in_flight && waiting > 0 &&
           now - l->assigned_at > (rest > PROBE_LEAST ? rest : PROBE_LEAST);
}

static bool in_time(const struct hr__engine_load *l, int64_t latest,
                    int64_t now)
{
    return latest - now >= expected(l) + SPREADS * l->spread_ns;
}

static bool takes_it(const struct hr__schedule *s,
                     const struct hr__engine_load *l,
                     const struct hr__schedule_ask *ask, int64_t now)
{
    int64_t host = on_host(s);

    if (is_stalled(l, now))
        return false;
    if (is_probed(l, ask->waiting, now))
        return true;
    if (ask->latest - now >= host && !in_time(l, ask->latest, now))
        return false;
    // Engines that were not measured yet are tried, each in turn.
    if (!has_room(l, host) || !l->task_ns || !host)
        return has_room(l, host) && !l->task_ns;
    return expected(l) <= together(s, ask->waiting + 1, now);
}

int hr__schedule_pick(const struct hr__schedule *s,
                      const struct hr__schedule_ask *ask, int64_t now)
{
    int best = s->num - 1;

    for (int i = 0; i < s->num - 1; i++)
        if (ask->may >> i & 1 && takes_it(s, &s->engines[i], ask, now) &&
            (best == s->num - 1 ||
             expected(&s->engines[i]) < expected(&s->engines[best])))
            best = i;
    return best;
}

// ---- What happens ----------------------------------------------------------

void hr__schedule_init(struct hr__schedule *s, int num)
{
    *s = (struct hr__schedule){.num = num};
    for (int i = 0; i < num; i++)
        s->engines[i] =
            (struct hr__engine_load){.depth = 1, .unit = 1, .trial = true};
}

void hr__schedule_give(struct hr__schedule *s, int engine, int64_t now)
{
    struct hr__engine_load *l = &s->engines[engine];

    if (!l->in_flight++)
        l->progress_at = now;
    l->assigned_at = now;
    l->samples++;
}

// Puts an engine that moves again on trial: the times of its tasks so far
// measure only the stall.
static void try_again(struct hr__engine_load *l, int64_t now)
{
    l->trial = true;
    l->since = now;
}

void hr__schedule_end(struct hr__schedule *s, int engine, int64_t begun,
                      int load, int64_t now)
{
    struct hr__engine_load *l = &s->engines[engine];
    bool stalled = is_stalled(l, now);
    int64_t took = now - begun, off;

    l->in_flight--;
    l->progress_at = now;
    if (stalled)
        try_again(l, now);
    if (begun < l->since)
        return;
    if (load > l->depth)
        took = took / (2 * load + l->depth - 1) * (2 * l->depth);
    took = took > 0 ? took : 1;
    if (l->trial || !l->task_ns) {
        l->task_ns = took;
        l->spread_ns = took / 4;
        l->trial = false;
        return;
    }
    off = took - l->task_ns;
    l->task_ns += off / WEIGHT;
    l->spread_ns += ((off < 0 ? -off : off) - l->spread_ns) / WEIGHT;
}

void hr__schedule_drop(struct hr__schedule *s, int engine, bool failed,
                       int64_t now)
{
    struct hr__engine_load *l = &s->engines[engine];

    l->in_flight--;
    l->progress_at = now;
    if (failed)
        try_again(l, now);
}
