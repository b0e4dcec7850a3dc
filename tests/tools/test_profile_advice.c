// SPDX-License-Identifier: Apache-2.0
// What headrace profile concludes from its numbers. Nothing is measured here.
#include <CUnit/Basic.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/profile/profile.h"
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

#define ENOUGH(rates, n, need, cost) \
    profile_threads_enough(threads, rates, n, need, cost, &measured)
    CU_ASSERT_EQUAL(ENOUGH(grows, 3, 50, 0.01), 1);
    CU_ASSERT(measured);
    CU_ASSERT_EQUAL(ENOUGH(grows, 3, 190, 0.01), 2);
    CU_ASSERT(measured);
    CU_ASSERT_EQUAL(ENOUGH(grows, 3, 360, 0.01), 4);
    CU_ASSERT(measured);
    // A picture costs 10 ms of a core: 500 of them take 5 cores, 501 six.
    CU_ASSERT_EQUAL(ENOUGH(grows, 3, 500, 0.01), 5);
    CU_ASSERT(!measured);
    CU_ASSERT_EQUAL(ENOUGH(grows, 3, 501, 0.01), 6);
    // 2.1 cores' work, whatever rates two threads had that others starved.
    CU_ASSERT_EQUAL(ENOUGH(((const double[]){150, 220}), 2, 1842, 0.00114), 3);
    // Four were measured, and were too few.
    CU_ASSERT_EQUAL(ENOUGH(grows, 3, 361, 0.001), 5);
    // What does not grow never gets there.
    CU_ASSERT_EQUAL(ENOUGH(flat, 3, 500, 0.01), 0);
    CU_ASSERT_EQUAL(ENOUGH(one, 1, 600, 0.01), 6);
    CU_ASSERT(!measured);
    CU_ASSERT_EQUAL(ENOUGH(one, 0, 600, 0.01), 0);
#undef ENOUGH
}

static void largest_part(void)
{
    // An engine that splits, and pictures that it leaves to the CPU.
    struct profile_watch w = {
        .parts = {{.name = "store", .ms_per_1000 = 900, .device = true},
                  {.name = "entropy", .ms_per_1000 = 300},
                  {.name = "decode", .ms_per_1000 = 400},
                  {.name = "resample", .ms_per_1000 = 300}},
        .num_parts = 4};
    double share;

    CU_ASSERT_STRING_EQUAL(profile_largest_part(&w, &share), "decode");
    CU_ASSERT_DOUBLE_EQUAL(share, 0.4, 1e-12);
    w.num_parts = 2;
    CU_ASSERT_STRING_EQUAL(profile_largest_part(&w, &share),
                           "entropy decoding");
    w.num_parts = 1;
    CU_ASSERT_PTR_NULL(profile_largest_part(&w, &share));
}

static void enough_in_words(void)
{
    char text[128];

    profile_enough_text("cpu", 0, false, 4, text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, "cpu: no number of threads would keep it fed");
    profile_enough_text("cpu", PROFILE_UNKNOWN, false, 4, text, sizeof(text));
    CU_ASSERT(
        !strncmp(text, "cpu: how many threads keep it fed is not known", 46));
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

// A trace made by hand, in microseconds; the window is 100 ms to 200 ms.
static const char trace[] =
    "{\"traceEvents\": ["
    "{\"ph\": \"C\", \"name\": \"jobs in flight\", \"ts\": 50000,"
    " \"args\": {\"value\": 2}},"
    "{\"ph\": \"C\", \"name\": \"jobs in flight\", \"ts\": 130000,"
    " \"args\": {\"value\": 0}},"
    "{\"ph\": \"C\", \"name\": \"something else\", \"ts\": 140000,"
    " \"args\": {\"value\": 9}},"
    "{\"ph\": \"C\", \"name\": \"jobs in flight\", \"ts\": 155000,"
    " \"args\": {\"value\": 4}},"
    // A device for 60 ms of the window; a worker beside 15 of them, one
    // that waits does not count.
    "{\"ph\": \"X\", \"cat\": \"device\", \"name\": \"store\","
    " \"tid\": 1073741824, \"ts\": 140000, \"dur\": 90000},"
    "{\"ph\": \"X\", \"cat\": \"host\", \"name\": \"entropy\","
    " \"tid\": 12, \"ts\": 120000, \"dur\": 35000},"
    "{\"ph\": \"X\", \"cat\": \"host\", \"name\": \"idle\","
    " \"tid\": 11, \"ts\": 100000, \"dur\": 100000},"
    "{\"ph\": \"M\", \"name\": \"thread_name\", \"tid\": 12,"
    " \"args\": {\"name\": \"cpu worker 1\"}},"
    "{\"ph\": \"M\", \"name\": \"thread_name\", \"tid\": 11,"
    " \"args\": {\"name\": \"cpu worker 0\"}}"
    "]}";

static void trace_arithmetic(void)
{
    struct bytes b = {.data = (uint8_t *)trace, .size = sizeof(trace) - 1};
    struct profile *p = calloc(1, sizeof(*p));
    struct profile_watch *w = &p->watch[0];

    p->opt.backends[0] = (char *)"cpu";
    p->opt.num_backends = 1;
    CU_ASSERT(profile_read_trace(p, &p->configs[0], w, test_file(&b, ".json"),
                                 0.1, 0.2));
    CU_ASSERT_DOUBLE_EQUAL(w->empty, 0.25, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(w->occupancy, 2 * 0.30 + 4 * 0.45, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(w->overlap, 0.25, 1e-9);
    free(p);
}

// Prints what was said if it is not said. headline NULL: any.
static void says(const struct profile_case *c, const char *headline,
                 const char *text, const char *caution)
{
    struct profile_advice is;

    profile_advise(c, &is);
    CHECK(!headline || !strcmp(is.headline, headline), "'%s', not '%s'",
          is.headline, headline);
    CHECK(!strcmp(is.text, text), "'%s', not '%s'", is.text, text);
    CHECK(!strcmp(is.caution, caution), "'%s', not '%s'", is.caution, caution);
}

#define DATA \
    "The data side is the limit: cpu feeds 66 % of what the consumer takes"
#define MADE "With 4 threads it made 1400 of 2133 pictures per second"
#define PART ", and entropy decoding takes 71 % of the host threads' time; "

static void advice(void)
{
    struct profile_case c = {.backend = "cpu",
                             .threads = 4,
                             .cores = 8,
                             .consumer_ms = 30,
                             .busy = 0.70,
                             .rate = 1400,
                             .need = 2133,
                             .cost = 0.00256,
                             .part = "entropy decoding",
                             .part_share = 0.71,
                             .enough = 6,
                             .offload = "entropy..reconstruct"};

    says(&c, DATA,
         MADE PART "to feed it takes about 5.5 cores, so 6 threads; an engine "
                   "with entropy..reconstruct would feed it, too.",
         "");
    c.cores = 4;
    c.other = "opencl:0";
    c.other_enough = 1;
    says(&c, DATA,
         MADE PART "to feed it takes about 5.5 cores, so 6 threads (more than "
                   "this machine has cores); opencl:0 with 1 thread would feed "
                   "it, too.",
         "");
    c.other = NULL;
    c.enough = 0;
    says(&c, DATA,
         MADE PART "more threads do not help; an engine with "
                   "entropy..reconstruct would feed it.",
         "");
}

static void advice_without_remedy(void)
{
    struct profile_case c = {.backend = "cpu",
                             .threads = 4,
                             .cores = 4,
                             .consumer_ms = 30,
                             .busy = 0.70,
                             .rate = 1400,
                             .need = 2133,
                             .cost = 0.00256,
                             .offload = "entropy..reconstruct"};

    // 1400 / (1 - 0.2) is less than what it needs: no engine for that part
    // feeds it.
    c.part_share = 0.2;
    says(&c, DATA,
         MADE "; more threads do not help; an engine with entropy..reconstruct "
              "would help, not feed it.",
         "");
    c.enough = 6;
    says(&c, DATA,
         MADE "; to feed it takes about 5.5 cores, so 6 threads (more than "
              "this machine has cores).",
         "");
    c.enough = 0;
    c.offload = NULL;
    says(&c, DATA, MADE "; more threads do not help.", "");
    // Somebody may buy a machine by the number: none is better than a wrong
    // one.
    c.enough = PROFILE_UNKNOWN;
    c.others = 0.33;
    says(&c, DATA,
         MADE "; how many threads would feed it cannot be told while other "
              "processes take 33 % of the machine.",
         "Measure again: other processes took 33 % of the machine.");
}

static void advice_fed(void)
{
    static const char headline[] = "The consumer is the limit: cpu kept it "
                                   "99 % busy";
    struct profile_case c = {.backend = "cpu",
                             .threads = 2,
                             .consumer_ms = 30,
                             .busy = 0.99,
                             .enough = 2};

    says(&c, headline, "2 threads suffice.", "");
    c.other = "opencl:0";
    c.other_enough = 1;
    says(&c, headline, "2 threads suffice; opencl:0 would do it with 1.", "");
}

static void advice_alone(void)
{
    static const char hint[] = "Name a network's time with --consumer MS to "
                               "see what would feed it.";
    struct profile_case c = {.backend = "opencl:0",
                             .threads = 2,
                             .rate = 3000,
                             .best_cpu_rate = 1500};

    says(&c,
         "opencl:0 makes 2.00 times the pictures of the CPU's best: 3000 per "
         "second",
         hint, "");
    c.noise = 0.2;
    says(&c, NULL, hint, "Measure again, for longer: rounds differ by +-20 %.");
    c.others = 0.3;
    says(&c, NULL, hint,
         "Measure again: other processes took 30 % of the machine.");
    c.backend = "cpu";
    says(&c,
         "The CPU with 2 threads is the fastest here: 3000 pictures per "
         "second",
         hint, "Measure again: other processes took 30 % of the machine.");
    c.mismatch = "vaapi";
    c.others = c.noise = 0;
    says(&c, NULL, hint,
         "vaapi made wrong pictures and was left: see headrace validate.");
}

// A crowded machine: no number where none was measured, in the advice and in
// the list. One sentence is about one round.
static void of_one_round(void)
{
    struct profile *p = calloc(1, sizeof(*p));
    struct profile_config *c = &p->configs[0];
    bool measured;

    p->opt.backends[0] = (char *)"cpu";
    p->opt.num_backends = p->num_configs = p->opt.num_threads = 1;
    p->opt.threads[0] = 1;
    p->opt.consumer_ms = 30;
    *c = (struct profile_config){
        .mode = PROFILE_PLANNED, .threads = 1, .num_rounds = 3, .num_fed = 3};
    for (int i = 0; i < 3; i++) {
        static const double busy[] = {0.3, 0.1, 0.2}, rate[] = {450, 500, 400};

        c->rounds[i] = (struct profile_sample){.images = 640,
                                               .batches = 10,
                                               .rate = 500,
                                               .seconds = 1.28,
                                               .cpu_seconds = 1.28};
        c->fed[i] = c->rounds[i];
        c->fed[i].busy = busy[i];
        c->fed[i].rate = rate[i];
    }
    profile_summarize(p);
    CU_ASSERT_DOUBLE_EQUAL(c->busy, 0.2, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(c->fed_rate, 400, 1e-12);  // 450 is the median's
    // 64 in 30 ms, 2 ms of CPU each.
    CU_ASSERT_DOUBLE_EQUAL(profile_need(p), 64 / 0.030, 1e-9);
    CU_ASSERT_EQUAL(profile_enough(p, 0, &measured), 5);
    p->others = 0.19;
    CU_ASSERT_EQUAL(profile_enough(p, 0, &measured), 5);
    p->others = 0.21;
    CU_ASSERT_EQUAL(profile_enough(p, 0, &measured), PROFILE_UNKNOWN);
    CU_ASSERT(!measured);
    free(p);
}

static void consumer_is_late(void)
{
    struct profile *p = calloc(1, sizeof(*p));
    char text[PROFILE_LATE];

    p->opt.consumer_ms = 5;
    p->num_configs = 2;
    p->configs[1].took_ms = 5.2;
    profile_late_text(p, text);
    CU_ASSERT_STRING_EQUAL(text, "");
    p->configs[1].took_ms = 6.14;
    profile_late_text(p, text);
    CU_ASSERT_STRING_EQUAL(text,
                           "Its batches took up to 6.14 ms because its thread "
                           "was scheduled late.");
    free(p);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        TEST_CASE(medians),
        TEST_CASE(threads_that_suffice),
        TEST_CASE(largest_part),
        TEST_CASE(enough_in_words),
        TEST_CASE(bounds),
        TEST_CASE(overlap),
        TEST_CASE(trace_arithmetic),
        TEST_CASE(advice),
        TEST_CASE(advice_without_remedy),
        TEST_CASE(advice_fed),
        TEST_CASE(advice_alone),
        TEST_CASE(of_one_round),
        TEST_CASE(consumer_is_late),
    };

    return test_main("profile_advice", cases, sizeof(cases) / sizeof(*cases),
                     argc, argv);
}
