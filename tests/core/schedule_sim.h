// SPDX-License-Identifier: Apache-2.0
// Engines in simulated time, for test_schedule.c: devices work on samples, but
// make no pictures. The schedule decides, or everything goes to one engine.
#ifndef HEADRACE_TESTS_BALANCE_SIM_H
#define HEADRACE_TESTS_BALANCE_SIM_H

#include "testing.h"

enum { SIM_SAMPLES = 40000, SIM_SLOTS = 32, SIM_BALANCED = -1 };
#define SIM_MS INT64_C(1000000)

struct sim_engine {
    int depth;      // works at so many together; of the host: threads
    int64_t takes;  // ns each
    // It stands still, or takes `slow` times as long, from .. to
    int64_t stall_from, stall_to;
    int64_t slow_from, slow_to;
    int slow;
};

struct sim {
    // The script. The last engine is the host.
    int num;
    struct sim_engine engines[HR__MAX_ENGINES];
    int64_t prepare;         // ns of a host thread for each sample
    int samples, job, ring;  // samples in all, of a job; jobs in flight
    int cap_milli;           // of the host; 0 = none
    int64_t target;          // ns of a job; 0 = none
    int only;                // SIM_BALANCED, or the engine that gets them all

    // Results.
    int64_t submitted[SIM_SAMPLES], ended[SIM_SAMPLES];
    int engine_of[SIM_SAMPLES], ends[SIM_SAMPLES];
    int most[HR__MAX_ENGINES];  // samples that an engine had at once
    int64_t end, host_ns;  // when all was done; CPU time of the host's threads

    // At work.
    struct hr__schedule schedule;
    int64_t now;
    int queue[HR__MAX_ENGINES][SIM_SAMPLES], head[HR__MAX_ENGINES],
        tail[HR__MAX_ENGINES];
    struct {
        int sample;  // -1 = none
        bool decides;
        int64_t until;
    } slots[HR__MAX_ENGINES][SIM_SLOTS];
    int64_t begun[SIM_SAMPLES];
    int load[SIM_SAMPLES];
    int taken, done;  // of those submitted; of all
    int known;        // submitted
};

void sim_run(struct sim *s);
// Samples that ended in [from, to), of one engine or (-1) of all; per second.
double sim_rate(const struct sim *s, int engine, int64_t from, int64_t to);
// The longest that a job took, of all but a share `past` of them.
int64_t sim_late(const struct sim *s, double past);
// The sum over all engines.
double sim_sum(const struct sim *s);

#endif
