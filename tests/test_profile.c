// SPDX-License-Identifier: Apache-2.0
// What headrace profile concludes from its numbers, and how busy its consumer
// is beside an engine whose speed is known.
#include <CUnit/Basic.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_engine.h"
#include "profile.h"
#include "testing.h"

static void medians(void)
{
    double v[] = {5, 1, 4, 2, 3}, w[100];

    CU_ASSERT_EQUAL(profile_median(v, 5), 3);
    CU_ASSERT_EQUAL(profile_median(v, 4), 3);  // of 5 1 4 2
    CU_ASSERT_EQUAL(profile_median(v, 0), 0);
    for (int i = 0; i < 100; i++)
        w[i] = 100 - i;
    CU_ASSERT_EQUAL(profile_quantile(w, 100, 0.5), 50);
    CU_ASSERT_EQUAL(profile_quantile(w, 100, 0.99), 99);
    CU_ASSERT_EQUAL(profile_quantile(w, 1, 0.99), 1);
    CU_ASSERT_EQUAL(profile_quantile(w, 0, 0.99), 0);
}

static void threads_that_suffice(void)
{
    static const int threads[] = {1, 2, 4};
    static const double grows[] = {100, 190, 360}, flat[] = {100, 101, 101},
                        one[] = {100};
    bool measured;

    CU_ASSERT_EQUAL(profile_threads_enough(threads, grows, 3, 50, &measured),
                    1);
    CU_ASSERT(measured);
    CU_ASSERT_EQUAL(profile_threads_enough(threads, grows, 3, 190, &measured),
                    2);
    CU_ASSERT(measured);
    CU_ASSERT_EQUAL(profile_threads_enough(threads, grows, 3, 360, &measured),
                    4);
    CU_ASSERT(measured);
    // The last step brought 85 per thread: 360 + 2 * 85 = 530.
    CU_ASSERT_EQUAL(profile_threads_enough(threads, grows, 3, 530, &measured),
                    6);
    CU_ASSERT(!measured);
    CU_ASSERT_EQUAL(profile_threads_enough(threads, grows, 3, 531, &measured),
                    7);
    // What does not grow never gets there.
    CU_ASSERT_EQUAL(profile_threads_enough(threads, flat, 3, 500, &measured),
                    0);
    CU_ASSERT_EQUAL(profile_threads_enough(threads, one, 1, 600, &measured), 6);
    CU_ASSERT(!measured);
    CU_ASSERT_EQUAL(profile_threads_enough(threads, one, 0, 600, &measured), 0);
}

static void largest_part(void)
{
    // An engine that splits, and pictures that it leaves to the CPU.
    struct profile_watch w = {
        .parts = {{.name = "store", .ms_per_1000 = 900, .device = true},
                  {.name = "entropy", .ms_per_1000 = 300},
                  {.name = "decode", .ms_per_1000 = 400},
                  {.name = "resample", .ms_per_1000 = 300}},
        .num_parts = 4,
        .entropy = 0.75};
    double share;

    CU_ASSERT_STRING_EQUAL(profile_largest_part(&w, &share),
                           "entropy decoding");
    CU_ASSERT_DOUBLE_EQUAL(share, 0.6, 1e-12);
    w.entropy = -1;  // unknown
    CU_ASSERT_STRING_EQUAL(profile_largest_part(&w, &share), "decode");
    CU_ASSERT_DOUBLE_EQUAL(share, 0.4, 1e-12);
    w.num_parts = 1;
    CU_ASSERT_PTR_NULL(profile_largest_part(&w, &share));
}

static void enough_in_words(void)
{
    char text[128];

    profile_enough_text("cpu", 0, false, 4, text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, "cpu: more threads do not keep it fed");
    profile_enough_text("cpu", 1, true, 4, text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, "cpu: 1 thread keeps it fed");
    profile_enough_text("opencl", 3, false, 4, text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, "opencl: 3 threads keep it fed (estimated)");
    profile_enough_text("cpu", 43, false, 2, text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, "cpu: 43 threads keep it fed (estimated; this "
                                 "machine has fewer cores)");
}

static void bounds(void)
{
    CU_ASSERT_EQUAL(profile_bound(0, 0), PROFILE_NO_CONSUMER);
    CU_ASSERT_EQUAL(profile_bound(30, 0.5), PROFILE_DATA);
    CU_ASSERT_EQUAL(profile_bound(30, 0.96), PROFILE_DATA);
    CU_ASSERT_EQUAL(profile_bound(30, 0.98), PROFILE_CONSUMER);
}

static void overlap(void)
{
    const struct profile_interval alone[] = {{0, 10, 0}},
                                  host[] = {{5, 20, -1}, {0, 10, 0}},
                                  lanes[] = {{0, 4, 0}, {2, 6, 1}, {6, 8, 1}},
                                  nested[] = {{0, 9, -1},
                                              {1, 8, -1},
                                              {2, 12, 0}};

    CU_ASSERT_EQUAL(profile_overlap(alone, 1), 0);
    CU_ASSERT_DOUBLE_EQUAL(profile_overlap(host, 2), 0.5, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(profile_overlap(lanes, 3), 0.25, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(profile_overlap(nested, 3), 0.7, 1e-12);
    CU_ASSERT(profile_overlap(host, 1) < 0);  // no device
    CU_ASSERT(profile_overlap(alone, 0) < 0);
}

// Prints what was said if it is not said.
static void says(const struct profile_case *c, const char *const *words)
{
    char text[640];

    profile_advise(c, text, sizeof(text));
    for (int i = 0; words[i]; i++)
        if (!strstr(text, words[i])) {
            printf("\n    '%s' is not in: %s\n", words[i], text);
            CU_FAIL("advice");
        }
    // One sentence, or few: it ends, and on one line.
    CU_ASSERT_EQUAL(text[strlen(text) - 1], '.');
    CU_ASSERT_PTR_NULL(strchr(text, '\n'));
}

static void advice(void)
{
    struct profile_case c = {.backend = "cpu",
                             .threads = 4,
                             .cores = 8,
                             .consumer_ms = 30,
                             .busy = 0.66,
                             .rate = 1400,
                             .need = 2133,
                             .part = "entropy decoding",
                             .part_share = 0.71,
                             .enough = 6,
                             .offload = "entropy..reconstruct"};

    says(&c,
         (const char *[]){"The data side is the limit",
                          "entropy decoding takes 71 % of the host threads'",
                          "66 % busy", "about 2 more threads",
                          "or an engine with entropy..reconstruct",
                          "would feed it", NULL});
    c.cores = 4;
    says(&c, (const char *[]){"more cores than this machine has", NULL});
    c.other = "opencl:0";
    c.other_enough = 1;
    says(&c, (const char *[]){"or opencl:0 with 1 thread would feed it", NULL});
    c.other = NULL;
    c.enough = 0;
    says(&c, (const char *[]){"more threads do not help", "but an engine with",
                              NULL});
    // 1400 / (1 - 0.2) is less than what it needs: no engine for that part
    // feeds it.
    c.part_share = 0.2;
    says(&c, (const char *[]){"but an engine with entropy..reconstruct would "
                              "help, not feed it.",
                              NULL});
    c.enough = 6;
    says(&c, (const char *[]){"(more cores than this machine has) would feed "
                              "it.",
                              NULL});
    c.enough = 0;
    c.offload = NULL;
    c.part = NULL;
    says(&c, (const char *[]){"more threads do not help.", NULL});
}

static void advice_fed(void)
{
    struct profile_case c = {.backend = "cpu",
                             .threads = 2,
                             .consumer_ms = 30,
                             .busy = 0.99,
                             .enough = 2};

    says(&c, (const char *[]){"The consumer is the limit", "99 % busy",
                              "2 threads suffice.", NULL});
    c.other = "opencl:0";
    c.other_enough = 1;
    says(&c, (const char *[]){"opencl:0 would do it with 1.", NULL});
}

static void advice_alone(void)
{
    struct profile_case c = {.backend = "opencl:0",
                             .threads = 2,
                             .rate = 3000,
                             .best_cpu_rate = 1500,
                             .software = true};

    says(&c, (const char *[]){"2.00 times", "host's own processor",
                              "--consumer", NULL});
    c.noise = 0.2;
    says(&c, (const char *[]){"rounds differ by +-20 %.", NULL});
    c.others = 0.3;
    says(&c,
         (const char *[]){"other processes took 30 % of the machine.", NULL});
    c.backend = "cpu";
    says(&c, (const char *[]){"The CPU with 2 threads is the fastest", NULL});
}

// ---- A consumer against arithmetic -----------------------------------------

enum { PICTURES = 8, BATCH = 4 };

static struct profile_sample pipeline(struct profile_child *c,
                                      double consumer_ms, double *period_ms)
{
    struct profile_measure m = {0};
    uint64_t all = 0;
    bool ok;

    c->consumer_ms = consumer_ms;
    ok = profile_run_for(c, &m, 0.8, &all);
    CHECK(ok, "the pipeline stopped");
    profile_end_counting(c, &m, all);
    CHECK(profile_drain(c), "what was in flight");
    // To the end of the list: every configuration makes the same pictures.
    CHECK(m.s.batches % (PICTURES / BATCH) == 0, "%d batches",
          (int)m.s.batches);
    CHECK(c->drained <= BATCH * RUN_RING_MAX && c->made > m.s.images,
          "%d came later, of %d", (int)c->drained, (int)c->made);
    CHECK(m.s.failed == 0 && m.s.images == BATCH * m.s.batches, "%d failed",
          (int)m.s.failed);
    *period_ms = 1000 * m.s.seconds / (double)m.s.batches;
    free(m.s.latencies);
    return m.s;
}

// An engine that takes 5 ms per picture, whatever the machine does besides:
// the data side's time is known. So is its CPU time.
static struct profile_child *open_child(int64_t burn_ns)
{
    struct profile_child *c = calloc(1, sizeof(*c));
    struct fake_script script = {.spans = {FAKE_DRS, FAKE_DRS, FAKE_DRS},
                                 .delay_ns = 5 * TEST_MS,
                                 .burn_ns = burn_ns};
    struct run_options *opt = &c->run.opt;
    uint64_t seed = test_seed;
    char error[320];

    fake_reset(&script);
    for (int i = 0; i < PICTURES; i++) {
        struct bytes b = test_jpeg(16, 16, &seed);

        CHECK(inputs_add(&c->run.in, test_file(&b, ".jpg")), "%s",
              c->run.in.error);
        free(b.data);
    }
    opt->backend = "fake";
    opt->ops_text = "decode,resize=8x8";
    opt->batch = BATCH;
    opt->threads = opt->epochs = 1;
    CHECK(ops_parse(&opt->ops, opt->ops_text, error, sizeof(error)), "%s",
          error);
    CHECK(run_prepare(&c->run), "does not open");
    return c;
}

static void close_child(struct profile_child *c)
{
    run_pipe_close(&c->run);
    profile_source_close(c);
    hr_device_close(&c->run.dev);
    inputs_finish(&c->run.in);
    free(c);
}

// CPU seconds per picture, of an engine that burns so much for each of them.
static double cpu_of(int64_t burn_ns)
{
    struct profile_child *c = open_child(burn_ns);
    struct profile_sample s;
    double period;

    // The first time it warms up.
    for (int i = 0; i < 2; i++)
        s = pipeline(c, 0, &period);
    close_child(c);
    return s.cpu_seconds / (double)s.images;
}

// What a picture costs more, if the engine burns 10 ms more for it, is 10 ms:
// nothing that was counted is missing, or of another window.
static void cpu_seconds(void)
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
// measured first. *others: what other processes took of the machine meanwhile.
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

static void consumers(void)
{
    struct profile_child *c = open_child(0);

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

// Seconds that this thread was ready and had no core; 0 if nobody counts them.
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

// What a consumer takes of a core, by its thread's clock: what it is told, but
// for the time that others had the cores. What the kernel counts for the
// process beyond that is the data side's: it is little here, so the consumer
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

static void consumer_loads(void)
{
    struct profile_child *c = open_child(0);

    loads(c, 0);
    loads(c, 20);
    loads(c, 60);
    close_child(c);
}

static void consumer_is_late(void)
{
    struct profile *p = calloc(1, sizeof(*p));
    char text[96];

    p->opt.consumer_ms = 5;
    p->num_configs = 2;
    p->configs[1].took_ms = 5.2;
    profile_late_text(p, text);
    CU_ASSERT_STRING_EQUAL(text, "");
    p->configs[1].took_ms = 6.14;
    profile_late_text(p, text);
    CU_ASSERT_STRING_EQUAL(text,
                           "It took up to 6.14 ms, for its thread woke late.");
    free(p);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        TEST_CASE(medians),          TEST_CASE(threads_that_suffice),
        TEST_CASE(largest_part),     TEST_CASE(enough_in_words),
        TEST_CASE(bounds),           TEST_CASE(overlap),
        TEST_CASE(advice),           TEST_CASE(advice_fed),
        TEST_CASE(advice_alone),     TEST_CASE(cpu_seconds),
        TEST_CASE(consumers),        TEST_CASE(consumer_loads),
        TEST_CASE(consumer_is_late),
    };

    return test_main("profile", cases, sizeof(cases) / sizeof(*cases), argc,
                     argv);
}
