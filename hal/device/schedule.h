// SPDX-License-Identifier: Apache-2.0
// Decides which engine takes the next sample. Pure functions: the caller holds
// the lock and passes the time.
#ifndef HR__SCHEDULE_H
#define HR__SCHEDULE_H

#include "hal/engine/engine.h"

// A token bucket for the CPU time of the host's threads: it fills with time,
// empties with their use, and tasks under way may overdraw it.
struct hr__allowance {
    int64_t milli;   // thousandths of a core; 0 = all there is
    int64_t level;   // ns of CPU time
    int64_t filled;  // when level was last computed
};
void hr__allowance_fill(struct hr__allowance *a, int64_t now);
// ns that the host's threads rest for, as there is a debt.
int64_t hr__allowance_wait(const struct hr__allowance *a);
// ns until one more task of `task_ns` is done, and the CPU time of it and of
// the n at work has been paid.
int64_t hr__allowance_next(const struct hr__allowance *a, int64_t task_ns,
                           int n);

// An engine as the schedule sees it.
struct hr__engine_load {
    int depth;            // tasks that it works at together
    int unit;             // tasks that it likes to get together
    int in_flight;        // samples it has now
    bool trial;           // no more than a unit, until one of them has ended
    int64_t task_ns;      // ns of a task; 0 = not known
    int64_t spread_ns;    // mean distance of tasks from that
    int64_t progress_at;  // when it last ended a task, or got its first
    int64_t assigned_at;  // when it last got one
    int64_t since;        // tasks that began before tell nothing
    uint64_t samples;     // that it got, ever
};

struct hr__schedule {
    int num;  // engines; the last is the host
    struct hr__engine_load engines[HR__MAX_ENGINES];
    struct hr__allowance allowance;
};

struct hr__schedule_ask {
    unsigned may;    // engines that can make the sample, bit per index
    int waiting;     // samples behind it that no engine has been given
    int64_t latest;  // when it should be made; INT64_MAX
};

void hr__schedule_init(struct hr__schedule *b, int num);
// Returns the engine for the sample: the host if no other should take it, even
// where its bit in may is 0.
int hr__schedule_pick(const struct hr__schedule *b,
                      const struct hr__schedule_ask *ask, int64_t now);
void hr__schedule_give(struct hr__schedule *b, int engine, int64_t now);
// The engine has made a sample that it began at `begun`, with `load` in flight.
void hr__schedule_end(struct hr__schedule *b, int engine, int64_t begun,
                      int load, int64_t now);
// The engine has not made a sample; failed: it has failed.
void hr__schedule_drop(struct hr__schedule *b, int engine, bool failed,
                       int64_t now);

#endif
