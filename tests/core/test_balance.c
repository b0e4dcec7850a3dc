// SPDX-License-Identifier: Apache-2.0
// The balance over engines in simulated time: what several make together, what
// a stall costs, and that a slow engine never makes it slower.
#include <stdlib.h>

#include "balance_sim.h"

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

static void together(void)
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

// One stands still for 2 seconds: the others go on as before, what it had comes
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

static void stalls(void)
{
    stall(0);
    stall(1);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {TEST_CASE(together),
                                             TEST_CASE(stalls)};

    return test_main("balance", cases, 2, argc, argv);
}
