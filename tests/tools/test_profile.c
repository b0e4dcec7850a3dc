// SPDX-License-Identifier: Apache-2.0
// How busy headrace profile's consumer is beside an engine whose speed is
// known, and what CPU time it counts.
#include <CUnit/Basic.h>
#include <math.h>

#include "fake_engine.h"
#include "tools/profile/profile.h"
#include "testing.h"

// ---- A consumer against arithmetic -----------------------------------------

enum { PICTURES = 8, BATCH = 4 };

static struct profile_sample pipeline(struct profile_child *c,
                                      double consumer_ms, double *period_ms)
{
    struct profile_measure m = {0};

    c->consumer_ms = consumer_ms;
    CHECK(profile_measure(c, &m, 0.8), "the pipeline stopped");
    // To the end of the list: every configuration makes the same pictures.
    CHECK(m.s.batches % (PICTURES / BATCH) == 0, "%d batches",
          (int)m.s.batches);
    CHECK(c->made > m.s.images && c->made == c->lent, "%d were made, of %d",
          (int)c->made, (int)c->lent);
    CHECK(m.s.failed == 0 && m.s.images == BATCH * m.s.batches, "%d failed",
          (int)m.s.failed);
    *period_ms = 1000 * m.s.seconds / (double)m.s.batches;
    return m.s;
}

// An engine that takes 5 ms per picture, whatever the machine does besides:
// the data side's time is known. So is its CPU time.
static struct profile_child *open_child(int pictures, int64_t burn_ns)
{
    struct profile_child *c = calloc(1, sizeof(*c));
    struct fake_script script = {.spans = {FAKE_DRS, FAKE_DRS, FAKE_DRS},
                                 .delay_ns = 5 * TEST_MS,
                                 .burn_ns = burn_ns};
    struct run_options *opt = &c->run.opt;
    uint64_t seed = test_seed;

    fake_reset(&script);
    for (int i = 0; i < pictures; i++) {
        auto_bytes b = test_jpeg(16, 16, &seed);

        CHECK(inputs_add(&c->run.in, test_file(&b, ".jpg")), "%s",
              c->run.in.error);
    }
    opt->backend = "fake";
    opt->ops_text = "decode,resize=8x8";
    opt->batch = BATCH;
    opt->threads = opt->epochs = 1;
    CHECK(!hr_ops_parse(opt->ops_text, opt->ops.ops, &opt->ops.num), "%s",
          hr_last_error());
    c->run.opt.quiet = true;
    CHECK(run_prepare(&c->run) && profile_source_open(c), "does not open");
    return c;
}

static void close_child(struct profile_child *c)
{
    hr_loader_destroy(&c->loader);
    profile_source_close(c);
    hr_device_close(&c->run.dev);
    inputs_finish(&c->run.in);
    free(c);
}

// Six pictures in batches of four: a list of eight, whose batches are full, and
// of each picture as many are made as given back, of which two come twice.
TEST_CASE(full_batches)
{
    struct profile_child *c = open_child(PICTURES - 2, 0);
    struct profile_measure m = {0};
    struct profile_config config = {0};

    CU_ASSERT_EQUAL(c->run.total, PICTURES - 2);
    CU_ASSERT_EQUAL(c->source->num, PICTURES);
    CHECK(profile_measure(c, &m, 0.1), "the pipeline stopped");
    CHECK(m.s.images == BATCH * m.s.batches, "%d pictures in %d batches",
          (int)m.s.images, (int)m.s.batches);
    profile_count_device(c, &config);
    // Nothing is in flight: finished pictures lie ready, or were counted.
    CU_ASSERT_EQUAL(atomic_load(&c->made), atomic_load(&c->lent));
    CU_ASSERT_EQUAL((uint64_t)atomic_load(&fake_counts.ended),
                    atomic_load(&c->made));
    close_child(c);
}

// CPU seconds per picture, of an engine that burns so much for each of them.
static double cpu_of(int64_t burn_ns)
{
    struct profile_child *c = open_child(PICTURES, burn_ns);
    struct profile_sample s;
    double period;

    // The first time it warms up.
    for (int i = 0; i < 2; i++)
        s = pipeline(c, 0, &period);
    close_child(c);
    return s.cpu_seconds / (double)s.images;
}

// If the engine burns 10 ms more for a picture, the picture costs 10 ms more:
// no counted time is missing, or from another window.
TEST_CASE(cpu_seconds)
{
    const double burnt = 0.010;
    double little, much;
    int tries = 0;

    // Again, if the machine had other things to do: changing between them
    // costs the rest of a picture more.
    do {
        little = cpu_of(0);
        much = cpu_of((int64_t)(1e9 * burnt));
    } while (fabs(much - little - burnt) > 0.02 * burnt && ++tries < 5);
    CHECK(fabs(much - little - burnt) <= 0.02 * burnt,
          "%.3f and %.3f ms per picture, not %.0f more", 1000 * little,
          1000 * much, 1000 * burnt);
}

// How busy a consumer is that takes so much of the data side's time, which is
// measured first. *others: the time that other processes took of the machine
// meanwhile.
static double busy_at(struct profile_child *c, double part, double *data,
                      double *others)
{
    struct profile_sample alone = pipeline(c, 0, data), fed;
    double period;

    CHECK(*data >= 5 * BATCH, "%f ms per batch", *data);
    fed = pipeline(c, *data * part, &period);
    *others = alone.others > fed.others ? alone.others : fed.others;
    return fed.busy;
}

TEST_CASE(consumers)
{
    struct profile_child *c = open_child(PICTURES, 0);

    for (int i = 0; i < 2; i++) {
        double right = i ? 1 : 0.5, data, others, busy;
        int tries = 0;

        // Both again, if the machine had other things to do in between.
        do
            busy = busy_at(c, i ? 2 : 0.5, &data, &others);
        while (fabs(busy - right) > 0.03 && ++tries < 5);
        if (fabs(busy - right) > 0.03 && others > 0.2)
            test_not_run("the consumer's share: others have the cores");
        else
            CHECK(fabs(busy - right) <= 0.03,
                  "data takes %.1f ms: %.1f %% busy", data, 100 * busy);
    }
    close_child(c);
}

// Seconds that this thread was ready and had no core; 0 if they are not
// counted.
static double without_core(void)
{
    unsigned long long ran, waited = 0;
    FILE *f = fopen("/proc/thread-self/schedstat", "re");

    if (f && fscanf(f, "%llu %llu", &ran, &waited) != 2)
        waited = 0;
    if (f)
        fclose(f);
    return 1e-9 * (double)waited;
}

// The share of a core that a consumer takes, by its thread's clock, is the one
// it is told, less the time that others had the cores. The rest of the
// process's CPU time is the data side's: it is little here, so the consumer
// took no more than it says, and no less.
static void loads(struct profile_child *c, double per_cent)
{
    const double part = per_cent / 100;
    double mine = 0, data = 0, lost = 1, period;

    c->consumer_cpu = per_cent;
    // Again, if the machine had other things to do.
    for (int k = 0;
         k < 5 && (lost > 0.01 + part / 4 || fabs(mine - part) >= 0.03); k++) {
        double waited = without_core();
        struct profile_sample s = pipeline(c, 20, &period);

        CHECK((double)s.batches * 0.020 <= s.consumer_seconds,
              "%d batches took %f s", (int)s.batches, s.consumer_seconds);
        lost = (without_core() - waited) / s.consumer_seconds;
        mine = s.consumer_cpu / s.consumer_seconds;
        data = s.cpu_seconds / s.consumer_seconds;
    }
    CHECK(mine < part + 0.03 && mine > part - 0.03 - lost,
          "%.1f %% of a core, not %.0f; it waited for one for %.1f %%",
          100 * mine, per_cent, 100 * lost);
    CHECK(data > -0.01 && data < 0.3, "the data side has %.1f %% of a core",
          100 * data);
    if (part > 0 && lost > part)
        test_not_run("the consumer's load: others have the cores");
}

TEST_CASE(consumer_loads)
{
    struct profile_child *c = open_child(PICTURES, 0);

    loads(c, 0);
    loads(c, 20);
    loads(c, 60);
    close_child(c);
}
