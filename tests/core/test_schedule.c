// SPDX-License-Identifier: Apache-2.0
// The schedule of engines in simulated time: the rate of several engines
// together, the cost of a stall, and that a slow engine never makes the device
// slower.
#include <math.h>

#include "schedule_sim.h"

static struct sim sim;

// Whatever happens, each sample ends once.
static void check_all(const struct sim *s, const char *what)
{
    int wrong = 0;

    for (int i = 0; i < s->samples; i++)
        wrong += s->ends[i] != 1;
    CHECK(!wrong && s->done == s->samples, "%s: %d samples did not end once",
          what, wrong);
}

// Rates of 3:2:1, in all 800 a second.
static void three(int samples)
{
    static const struct sim s = {
        .num = 3,
        .engines = {{.depth = 8, .takes = 20 * SIM_MS},
                    {.depth = 4, .takes = 15 * SIM_MS},
                    {.depth = 1, .takes = 7500 * SIM_MS / 1000}},
        .prepare = 20000,
        .job = 64,
        .ring = 3,
        .only = SIM_BALANCED,
    };

    sim = s;
    sim.samples = samples;
}

TEST_CASE(together)
{
    double sum;

    three(8000);
    sum = sim_sum(&sim);
    sim_run(&sim);
    check_all(&sim, "3:2:1");
    CHECK(8000 / (sim.end / 1e9) >= 0.95 * sum, "%.1f of %.1f a second",
          8000 / (sim.end / 1e9), sum);
    for (int e = 0; e < 3; e++) {
        double rate = sim_rate(&sim, e, SIM_MS * 1000, sim.end),
               own = sim.engines[e].depth * 1e9 / (double)sim.engines[e].takes;

        CHECK(rate > 0.9 * own, "engine %d: %.1f of %.1f", e, rate, own);
    }
}

// However much waits, an engine has no more than keeps it busy: that is what
// would be stuck.
TEST_CASE(room)
{
    three(8000);
    sim.ring = 60;
    sim_run(&sim);
    check_all(&sim, "much waits");
    CHECK(sim.most[0] <= 16 && sim.most[1] <= 8, "%d and %d at once",
          sim.most[0], sim.most[1]);
}

// One engine stalls for 2 seconds: the others go on as before, its samples come
// late by no more than that, and it has its share again at once.
static void stall(int engine)
{
    const int64_t from = 3000 * SIM_MS, to = 5000 * SIM_MS;
    double before, after, others, all = 0;
    int64_t late = 0;

    three(8000);
    sim.engines[engine].stall_from = from;
    sim.engines[engine].stall_to = to;
    sim_run(&sim);
    check_all(&sim, "stall");
    for (int i = 0; i < sim.samples; i++) {
        int64_t t = sim.ended[i] - sim.submitted[i];

        late = t > late ? t : late;
    }
    CHECK(late < to - from + 1000 * SIM_MS, "engine %d: one was late by %d ms",
          engine, (int)(late / SIM_MS));
    before = sim_rate(&sim, engine, 1000 * SIM_MS, from);
    after = sim_rate(&sim, engine, to + 200 * SIM_MS, to + 2200 * SIM_MS);
    CHECK(after > 0.95 * before, "engine %d: %.1f a second before, %.1f after",
          engine, before, after);
    others = sim_rate(&sim, -1, from + 100 * SIM_MS, to - 100 * SIM_MS);
    for (int e = 0; e < 3; e++)
        if (e != engine)
            all += sim_rate(&sim, e, 1000 * SIM_MS, from);
    CHECK(others > 0.93 * all,
          "without engine %d: %.1f a second of %.1f before", engine, others,
          all);
}

TEST_CASE(stalls)
{
    stall(0);
    stall(1);
}

// Ten times as slow, and then as before: it keeps what it is worth.
TEST_CASE(slows_down)
{
    const int64_t from = 3000 * SIM_MS, to = 5000 * SIM_MS;
    double rate;

    three(8000);
    sim.engines[0].slow = 10;
    sim.engines[0].slow_from = from;
    sim.engines[0].slow_to = to;
    sim_run(&sim);
    check_all(&sim, "slow");
    rate = sim_rate(&sim, -1, from + 300 * SIM_MS, to);
    CHECK(rate > 0.93 * (40 + 400), "%.1f a second meanwhile", rate);
    rate = sim_rate(&sim, 0, to + 300 * SIM_MS, to + 2300 * SIM_MS);
    CHECK(rate > 0.93 * 400, "%.1f a second afterwards", rate);
}

static int between(uint64_t *seed, int from, int to)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return from + (int)((*seed >> 33) % (uint64_t)(to - from + 1));
}

static double seconds_of(int only)
{
    sim.only = only;
    sim_run(&sim);
    check_all(&sim, only < 0 ? "balanced" : "one alone");
    return (double)sim.end / 1e9;
}

// Engines of all speeds, jobs of all sizes: no engine alone is faster than all
// of them, but for the cost of measuring their rates.
TEST_CASE(never_slower)
{
    uint64_t seed = test_seed;

    for (int round = 0; round < test_loops(100); round++) {
        double best = 1e9, all, learn = 0;
        int64_t measured[3];
        int share[3];

        sim = (struct sim){.num = between(&seed, 2, 3), .prepare = 10000};
        for (int e = 0; e < sim.num; e++) {
            struct sim_engine *engine = &sim.engines[e];

            engine->depth = between(&seed, 1, 8);
            engine->takes = (int64_t)(pow(10, between(&seed, -10, 20) / 10.0) *
                                      SIM_MS);
            learn += 6 * (double)engine->takes / 1e9;
        }
        sim.job = between(&seed, 1, 128);
        sim.ring = between(&seed, 1, 4);
        sim.samples = sim.job * between(&seed, 8, 64);
        all = seconds_of(SIM_BALANCED);
        for (int e = 0; e < sim.num; e++) {
            measured[e] = sim.schedule.engines[e].task_ns;
            share[e] = (int)sim.schedule.engines[e].samples;
        }
        for (int e = 0; e < sim.num; e++) {
            double own = seconds_of(e);

            best = own < best ? own : best;
        }
        CHECK(all < 1.05 * best + learn,
              "round %d: jobs of %d x %d, %d in all: %.3f s, the best alone "
              "%.3f s",
              round, sim.ring, sim.job, sim.samples, all, best);
        if (all >= 1.05 * best + learn)
            for (int e = 0; e < sim.num; e++)
                printf("\nengine %d: depth %d, %.3f ms, %.3f ms measured, %d",
                       e, sim.engines[e].depth,
                       (double)sim.engines[e].takes / SIM_MS,
                       (double)measured[e] / SIM_MS, share[e]);
    }
}

// The host uses no more than its cap, and all of it.
TEST_CASE(cap)
{
    static const int caps[] = {100, 400, 800};

    for (int i = 0; i < 3; i++) {
        double used, rate, want;

        three(4000);
        sim.num = 2;
        sim.engines[1] = (struct sim_engine){.depth = 2, .takes = 5 * SIM_MS};
        sim.cap_milli = caps[i];
        sim_run(&sim);
        check_all(&sim, "cap");
        used = (double)sim.host_ns / (double)sim.end;
        CHECK(used < caps[i] / 1e3 * 1.02 && used > caps[i] / 1e3 * 0.9,
              "%.3f cores of %.3f", used, caps[i] / 1e3);
        rate = 4000 / ((double)sim.end / 1e9);
        want = 400 + (caps[i] / 1e3 - 400 * 20e-6) * 200;
        CHECK(rate > 0.93 * want, "%.1f a second of %.1f", rate, want);
    }
}

// A target keeps jobs from an engine that is too slow for it.
TEST_CASE(target)
{
    int64_t late;
    double without;

    for (int on = 0; on < 2; on++) {
        three(20000);
        sim.num = 2;
        sim.ring = 4;
        sim.engines[0] = (struct sim_engine){.depth = 8, .takes = 100 * SIM_MS};
        sim.engines[1] = (struct sim_engine){.depth = 2, .takes = 1 * SIM_MS};
        sim.target = on ? 160 * SIM_MS : 0;
        sim_run(&sim);
        check_all(&sim, "target");
        late = sim_late(&sim, 0.01);
        without = sim_late(&sim, 0.05);
        CHECK((late <= 160 * SIM_MS) == on,
              "target %d: 99 of 100 jobs in %d ms, %.1f", on,
              (int)(late / SIM_MS), without / 1e6);
    }
}
