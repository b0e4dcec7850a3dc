// SPDX-License-Identifier: Apache-2.0
// Settings that follow what is measured, on pipelines that are simulated: no
// clock, no thread; and settings as text.
#include <math.h>

#include "loader/queue/tune.h"
#include "testing.h"

// ---- A pipeline ------------------------------------------------------------

enum { MOST = 256, BATCHES = 4096 };

struct plant {
    double read;     // seconds of a read; reads go on beside each other
    double make;     // seconds of a thread for a sample
    double consume;  // seconds for a batch
    double noise;    // of all of these, relative
    size_t sample;   // encoded bytes
    int batch;
    int cores;  // threads beyond them are in each other's way
    struct hr_loader_settings most;
    int slow_from;  // batch from which on reads take ten times as long
    uint64_t seed;  // added to the test's
};

struct sim {
    const struct plant *plant;
    uint64_t seed;
    double readers[MOST], makers[MOST];  // when each is free
    double taken[BATCHES], ready[BATCHES];
    double consumer;   // is free
    double idle_from;  // the device
    int b;
    struct hr__flow sum;
};

static double vary(struct sim *s)
{
    s->seed = s->seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return 1 + s->plant->noise * ((double)(s->seed >> 40) / (1 << 23) - 1);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static int first_free(const double *at, int n)
{
    int best = 0;

    for (int i = 1; i < n; i++)
        best = at[i] < at[best] ? i : best;
    return best;
}

// One more batch, with these settings. All is first in, first out, so each time
// follows from those before.
static void sim_batch(struct sim *s, const struct hr_loader_settings *set)
{
    const struct plant *p = s->plant;
    double crowd = larger(1, (double)set->threads / p->cores);
    int b = s->b++, n = p->batch, threads = set->threads;
    double planned = b >= set->depth ? s->taken[b - set->depth] : 0;
    double room = 0, submit = 0, ready = 0, slower = 1;
    int fit = (int)(set->bytes / (p->sample * (size_t)n));

    fit = fit < 1 ? 1 : fit;
    if (b >= fit)
        room = larger(0, s->ready[b - fit] - planned);
    if (p->slow_from && b >= p->slow_from)
        slower = 10;
    for (int i = 0; i < n; i++) {
        int r = first_free(s->readers, set->reads);
        double begin = larger(s->readers[r], planned);

        s->sum.full += larger(0, planned + room - begin);
        s->readers[r] = larger(begin, planned + room) +
                        slower * p->read * vary(s);
        s->sum.reading += s->readers[r] - begin;
        submit = larger(submit, s->readers[r]);
    }
    s->sum.starved += larger(0, submit - s->idle_from);
    for (int i = 0; i < n; i++) {
        int m = first_free(s->makers, threads);

        s->makers[m] = larger(s->makers[m], submit) +
                       p->make * vary(s) * crowd * crowd;
        ready = larger(ready, s->makers[m]);
    }
    if (b)
        ready = larger(ready, s->ready[b - 1]);
    s->idle_from = s->ready[b] = ready;
    s->sum.making += n * (ready - submit);
    s->taken[b] = larger(ready, s->consumer);
    s->sum.waited += s->taken[b] - s->consumer;
    s->sum.ready += s->taken[b] - ready;
    s->sum.samples += n;
    s->sum.seconds = s->taken[b];
    s->consumer = s->taken[b] + p->consume * vary(s);
}

static struct sim *sim_new(const struct plant *plant)
{
    struct sim *s = calloc(1, sizeof(*s));

    s->plant = plant;
    s->seed = test_seed + plant->seed;
    return s;
}

// Samples per second of batches from .. to - 1 with settings that stay.
static double rate_of(const struct plant *plant,
                      const struct hr_loader_settings *set, int from, int to)
{
    auto_heap struct sim *s = sim_new(plant);
    double rate;

    while (s->b < to)
        sim_batch(s, set);
    rate = (to - from) * plant->batch / (s->taken[to - 1] - s->taken[from - 1]);
    return rate;
}

static struct hr_loader_settings best_of(const struct plant *p, double *rate)
{
    struct hr_loader_settings best = p->most, set = p->most;

    *rate = 0;
    for (set.threads = 1; set.threads <= p->most.threads; set.threads *= 2)
        for (set.reads = 1; set.reads <= p->most.reads; set.reads *= 2)
            for (set.depth = 1; set.depth <= p->most.depth; set.depth *= 2) {
                double r = rate_of(p, &set, 50, 150);

                if (r > *rate * 1.0001) {
                    *rate = r;
                    best = set;
                }
            }
    *rate = rate_of(p, &best, 50, 2000);  // the first was also the luckiest
    return best;
}

// ---- What is tuned ---------------------------------------------------------

static const struct hr_loader_settings bad = {1, 1, 1, 1};

struct tuned {
    struct hr_loader_settings at_200, end;
    double rate_200;  // samples per second from batch 200 to 400
    double rate_end;  // of the last 500
    int late;         // changes in the last 1000
    int threads;      // at most, at any time
    uint64_t steps, backs;
};

static struct tuned run(const struct plant *p,
                        const struct hr_loader_settings *start, int batches)
{
    auto_heap struct sim *s = sim_new(p);
    struct tuned out = {0};
    struct hr__tune t;

    hr__tune_init(&t, start, &p->most, p->batch);
    while (s->b < batches) {
        bool changed;

        sim_batch(s, &t.now);
        changed = hr__tune_batch(&t, &s->sum);
        if (getenv("TUNE_SHOW") && changed)
            printf("  %d: %d threads, %d reads, depth %d, %zu bytes; "
                   "rate %.0f goal %.0f waited %.3f\n",
                   s->b, t.now.threads, t.now.reads, t.now.depth, t.now.bytes,
                   t.rate, t.goal, t.seen.waited);
        if (t.now.threads > out.threads)
            out.threads = t.now.threads;
        out.late += changed && s->b > batches - 1000;
        if (s->b == 200)
            out.at_200 = t.now;
        CHECK(t.now.threads <= p->most.threads &&
                  t.now.reads <= p->most.reads &&
                  t.now.depth <= p->most.depth &&
                  t.now.bytes <= p->most.bytes && t.now.threads > 0 &&
                  t.now.reads > 0 && t.now.depth > 0 && t.now.bytes > 0,
              "batch %d: beyond the most, or nothing", s->b);
    }
    out.end = t.now;
    if (batches >= 400)
        out.rate_200 = 200 * p->batch / (s->taken[399] - s->taken[199]);
    out.rate_end = 500 * p->batch /
                   (s->taken[batches - 1] - s->taken[batches - 501]);
    out.steps = t.steps;
    out.backs = t.backs;
    return out;
}

static struct plant plant_of(double read, double make, double consume,
                             int threads)
{
    return (struct plant){.read = read,
                          .make = make,
                          .consume = consume,
                          .noise = .1,
                          .sample = 100 << 10,
                          .batch = 64,
                          .cores = threads,
                          .most = {threads, 256, 32, 256 << 20}};
}

// From one of everything the loader reaches the rate of the best settings
// within 200 batches, on small and large machines, with fast and slow sources.
TEST_CASE(from_a_bad_start)
{
    static const struct {
        const char *name;
        double read, make, consume;
        int threads, batch, more;
    } plants[] = {
        {"2 cores, fast source", 3e-5, 1e-3, 0, 2, 64, 0},
        {"2 cores, small batches", 3e-5, 1e-3, 0, 2, 8, 0},
        {"2 cores, slow source", 5e-3, 1e-3, 0, 2, 64, 0},
        {"2 cores, 20 ms a read", 2e-2, 1e-3, 0, 2, 64, 0},
        {"4 cores, consumer", 3e-5, 1e-3, 2e-2, 4, 64, 0},
        {"16 cores", 3e-5, 1e-3, 0, 16, 64, 0},
        {"16 cores, slow source", 5e-3, 1e-3, 0, 16, 64, 0},
        {"64 cores", 3e-5, 1e-3, 0, 64, 64, 0},
        {"64 cores, consumer", 3e-5, 1e-3, 2e-3, 64, 64, 0},
        {"4 cores, 16 threads", 3e-5, 1e-3, 0, 4, 64, 12},
    };

    for (size_t i = 0; i < sizeof(plants) / sizeof(*plants); i++) {
        struct plant p = plant_of(plants[i].read, plants[i].make,
                                  plants[i].consume, plants[i].threads);
        struct hr_loader_settings best;
        struct tuned t;
        double rate;

        // A sanitizer build does some.
        if (test_loops(10) < 10 && i % 3 != 1)
            continue;
        p.batch = plants[i].batch;
        p.most.threads += plants[i].more;
        best = best_of(&p, &rate);
        t = run(&p, &bad, 3000);
        printf("  %-24s best %6.0f/s (%d, %d, %d); from batch 200 %5.1f %% "
               "(%d, %d, %d), at 3000 %5.1f %% (%d, %d, %d, %zu KiB); "
               "%llu steps, %llu back, %d late\n",
               plants[i].name, rate, best.threads, best.reads, best.depth,
               100 * t.rate_200 / rate, t.at_200.threads, t.at_200.reads,
               t.at_200.depth, 100 * t.rate_end / rate, t.end.threads,
               t.end.reads, t.end.depth, t.end.bytes >> 10,
               (unsigned long long)t.steps, (unsigned long long)t.backs,
               t.late);
        // A look at what harms costs most, and is rare.
        CHECK(t.rate_200 >= (plants[i].more ? .85 : .95) * rate,
              "%s: %.1f %% of the best", plants[i].name,
              100 * t.rate_200 / rate);
        CHECK(t.rate_end >= .95 * rate, "%s: %.1f %% of the best in the end",
              plants[i].name, 100 * t.rate_end / rate);
    }
}

// Only reads and threads together raise the rate, and there is so much noise
// that one of them may look harmful. (Tuning found nothing in 9 of 100 runs
// when a harmful look excluded a setting from joint trials.)
TEST_CASE(noise)
{
    struct plant p = plant_of(1e-3, 1e-3, 1e-2, 8);
    double rate, worst_200 = 1, worst_end = 1;
    int n = test_loops(300), slow = 0, never = 0;

    p.noise = .5;
    p.batch = 32;
    best_of(&p, &rate);
    for (p.seed = 0; p.seed < (uint64_t)n; p.seed++) {
        struct tuned t = run(&p, &bad, 3000);

        slow += t.rate_200 < .85 * rate;
        never += t.rate_end < .9 * rate;
        worst_200 = fmin(worst_200, t.rate_200 / rate);
        worst_end = fmin(worst_end, t.rate_end / rate);
    }
    printf("  %d times: from batch 200 at least %.1f %%, at 3000 %.1f %%; %d "
           "late, %d never\n",
           n, 100 * worst_200, 100 * worst_end, slow, never);
    CHECK(slow <= 1 + n / 100, "%d of %d found it late", slow, n);
    CHECK(never <= 1 + n / 100, "%d of %d never found it", never, n);
}

// From too much of everything: settings that do not pay fall, and the rate
// stays.
TEST_CASE(what_does_not_pay_goes)
{
    struct plant p = plant_of(1e-3, 1e-3, 2e-2, 16);
    struct tuned t = run(&p, &p.most, 3000);
    double rate;

    best_of(&p, &rate);
    CHECK(t.rate_end >= .97 * rate, "%.1f %% of the rate",
          100 * t.rate_end / rate);
    CHECK(t.end.threads >= 4 && t.end.threads <= 6, "%d threads for 3.2",
          t.end.threads);
    CHECK(t.end.reads >= 4 && t.end.reads <= 16, "%d reads for 3.2",
          t.end.reads);
    CHECK(t.end.depth <= 8 && t.end.bytes <= p.most.bytes / 4,
          "depth %d, %zu bytes", t.end.depth, t.end.bytes);
    // The device has all it can do: more of the rest than that takes goes, too.
    p = plant_of(1e-3, 1e-3, 0, 4);
    t = run(&p, &p.most, 3000);
    best_of(&p, &rate);
    CHECK(t.rate_end >= .97 * rate && t.end.threads == 4, "%.1f %%, %d threads",
          100 * t.rate_end / rate, t.end.threads);
    CHECK(t.end.reads <= 16 && t.end.depth <= 8, "%d reads, depth %d",
          t.end.reads, t.end.depth);
}

// A loader that waits for its source gets reads in flight, not threads.
TEST_CASE(a_slow_source)
{
    struct plant p = plant_of(2e-2, 5e-5, 0, 16);
    struct tuned t;

    p.most.reads = 64;
    t = run(&p, &bad, 2000);
    CHECK(t.end.reads >= 60, "%d reads", t.end.reads);
    CHECK(t.threads == 1, "%d threads", t.threads);
    CHECK(t.rate_end >= .95 * 64 / 2e-2, "%.0f per second", t.rate_end);
    // It becomes slow when all has settled long since.
    p = plant_of(1e-3, 1e-3, 0, 2);
    p.slow_from = 1500;
    t = run(&p, &bad, 3000);
    CHECK(t.at_200.reads <= 8, "%d reads of a fast source", t.at_200.reads);
    CHECK(t.end.reads >= 20 && t.rate_end >= .95 * 2000,
          "%d reads, %.0f per second", t.end.reads, t.rate_end);
}

// When all is found nothing changes any more, but for a look now and then.
TEST_CASE(settles)
{
    for (int threads = 1; threads <= 64; threads *= 4)
        for (int consumer = 0; consumer < 3; consumer++)
            for (int quiet = 0; quiet < 2; quiet++) {
                double make = 1e-3, consume = consumer * 32 * make / threads;
                struct plant p = plant_of(1e-3, make, consume, threads);
                struct tuned t;

                p.noise = quiet ? 0 : .1;
                t = run(&p, &bad, 4000);
                CHECK(t.late <= 14, "%d threads, %g s: %d changes in the end",
                      threads, consume, t.late);
                CHECK(t.steps <= 60, "%d threads, %g s: %d changes", threads,
                      consume, (int)t.steps);
            }
}

// A device of four stages, each at another batch: it always has work, and is as
// fast as there are batches. More than four change nothing.
TEST_CASE(stages)
{
    const struct hr_loader_settings most = {1, 4, 32, 64 << 20};
    struct hr__flow total = {0};
    struct hr__tune t;
    int deepest = 0, enough = 0;

    hr__tune_init(&t, &(struct hr_loader_settings){1, 1, 2, 64 << 20}, &most,
                  32);
    for (int i = 0; i < 400; i++) {
        double batches = t.now.depth < 4 ? t.now.depth : 4, s = .1 / batches;

        total.seconds += s;
        total.samples += 32;
        total.waited += s;
        total.reading += .2 * s;
        total.making += 32 * t.now.depth * s;
        hr__tune_batch(&t, &total);
        deepest = t.now.depth > deepest ? t.now.depth : deepest;
        enough += i >= 200 && t.now.depth >= 4;
    }
    // (Now and then it is tried with fewer.)
    CHECK(enough > 160, "%d of 200 batches", enough);
    CHECK(deepest <= 16, "depth %d", deepest);
}

// (That nothing exceeds them is looked at after each batch of all runs.)
TEST_CASE(caps)
{
    struct plant p = plant_of(5e-3, 1e-3, 0, 16);
    struct tuned t;

    p.most = (struct hr_loader_settings){3, 5, 2, 1 << 20};
    t = run(&p, &bad, 1000);
    CHECK(t.end.threads <= 3 && t.end.reads == 5 && t.end.bytes == 1 << 20,
          "%d threads, %d reads, %zu bytes", t.end.threads, t.end.reads,
          t.end.bytes);
    t = run(&p, &(struct hr_loader_settings){99, 99, 99, 99 << 20}, 1000);
    CHECK(t.end.threads <= 3 && t.end.reads <= 5 && t.end.depth <= 2,
          "%d threads, %d reads, depth %d", t.end.threads, t.end.reads,
          t.end.depth);
    p.most = (struct hr_loader_settings){1, 1, 1, 1};
    t = run(&p, &bad, 1000);
    CHECK(!t.steps, "%d steps with nothing to choose", (int)t.steps);
}
