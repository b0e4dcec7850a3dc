// SPDX-License-Identifier: Apache-2.0
// The conclusions of headrace profile from its numbers. Nothing is measured
// here.
#include <CUnit/Basic.h>
#include <math.h>

#include "tools/profile/profile.h"
#include "testing.h"

TEST_CASE(medians)
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

// There are more than are kept, and the kept ones stand for all. Every 40th is
// slow.
TEST_CASE(many_latencies)
{
    enum { ALL = 300000 };
    auto_heap struct profile_latencies *l = calloc(1, sizeof(*l));
    double slow = 0, late = 0;

    for (int i = 0; i < ALL; i++)
        profile_keep(l, i % 40 ? i : -i - 1);
    CU_ASSERT_EQUAL(l->seen, ALL);
    for (int i = 0; i < PROFILE_LATENCIES; i++) {
        slow += l->ms[i] < 0;
        late += fabs(l->ms[i]) >= ALL / 2;
    }
    CHECK(fabs(40 * slow / PROFILE_LATENCIES - 1) < 0.3, "%.0f slow ones",
          slow);
    CHECK(fabs(2 * late / PROFILE_LATENCIES - 1) < 0.1,
          "%.0f of the second half", late);
}

TEST_CASE(threads_that_suffice)
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
    // A rate that does not grow never gets there.
    CU_ASSERT_EQUAL(ENOUGH(flat, 3, 500, 0.01), 0);
    CU_ASSERT_EQUAL(ENOUGH(one, 1, 600, 0.01), 6);
    CU_ASSERT(!measured);
    CU_ASSERT_EQUAL(ENOUGH(one, 0, 600, 0.01), 0);
#undef ENOUGH
}

TEST_CASE(largest_part)
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
    w.num_parts = 1;
    CU_ASSERT_PTR_NULL(profile_largest_part(&w, &share));
}

// Returns the lines beside a consumer for some rates: (busy, fed rate), one for
// each number of threads; the next call frees them.
static const char *noted(const double (*fed)[2], int n, double cpu_per_1000)
{
    static char *text;
    auto_heap struct profile *p = calloc(1, sizeof(*p));
    size_t size;
    FILE *to;

    free(text);
    p->opt.backends[0] = "cpu";
    p->opt.num_backends = 1;
    p->opt.consumer_ms = 30;
    p->per_batch = 64;
    p->need = 64 / 0.030;
    p->num_configs = n;
    for (int i = 0; i < n; i++)
        p->configs[i] = (struct profile_config){.threads = i + 1,
                                                .cpu_per_1000 = cpu_per_1000,
                                                .busy = fed[i][0],
                                                .fed_rate = fed[i][1]};
    to = open_memstream(&text, &size);
    profile_beside_notes(p, to);
    p->others = 0.5;
    profile_beside_notes(p, to);
    fclose(to);
    return text;
}

// 64 pictures in 30 ms.
TEST_CASE(enough_in_words)
{
    static const double fed[][2] = {{0.5, 1000}, {0.99, 2100}},
                        grows[][2] = {{0.5, 1000}, {0.9, 1900}},
                        flat[][2] = {{0.5, 1000}, {0.5, 1000}};
    const char *text = noted(fed, 2, 1);

    CU_ASSERT(!strncmp(text,
                       "A consumer of 30 ms per batch of 64 takes at most "
                       "2133.3 img/s. At 97 % busy",
                       76));
    CU_ASSERT(!!strstr(text, "\ncpu: 2 threads keep it fed\n"));
    CU_ASSERT(!!strstr(noted(fed + 1, 1, 1), "\ncpu: 1 thread keeps it fed\n"));
    CU_ASSERT(!!strstr(noted(flat, 2, 1),
                       "\ncpu: no number of threads would keep it fed\n"));
    CU_ASSERT(
        !!strstr(noted(grows, 2, 200),
                 "\ncpu: 427 threads keep it fed (estimated; this machine "
                 "has fewer cores)\n"));
    CU_ASSERT(!!strstr(noted(grows, 2, 0.1),
                       tools_cores() < 3
                           ? "\ncpu: 3 threads keep it fed (estimated; "
                           : "\ncpu: 3 threads keep it fed (estimated)\n"));
    // On a machine that is crowded.
    CU_ASSERT(!!strstr(noted(grows, 2, 200),
                       "\ncpu: how many threads keep it fed is not known, for "
                       "other processes took too much of the machine\n"));
}

TEST_CASE(bounds)
{
    CU_ASSERT_EQUAL(profile_bound(0, 0), PROFILE_NO_CONSUMER);
    CU_ASSERT_EQUAL(profile_bound(30, 0.5), PROFILE_DATA);
    CU_ASSERT_EQUAL(profile_bound(30, 0.96), PROFILE_DATA);
    CU_ASSERT_EQUAL(profile_bound(30, 0.98), PROFILE_CONSUMER);
}

TEST_CASE(overlap)
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
    CU_ASSERT(isnan(profile_overlap(host, 1)));  // no device
    CU_ASSERT(isnan(profile_overlap(alone, 0)));
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

TEST_CASE(trace_arithmetic)
{
    struct bytes b = {.data = (uint8_t *)trace, .size = sizeof(trace) - 1};
    auto_heap struct profile *p = calloc(1, sizeof(*p));
    struct profile_watch *w = &p->watch[1];

    p->configs[0].backend = 1;
    w->begun = 0.1;
    w->ended = 0.2;
    CU_ASSERT(profile_read_trace(p, &p->configs[0], test_file(&b, ".json")));
    CU_ASSERT_DOUBLE_EQUAL(w->empty, 0.25, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(w->occupancy, 2 * 0.30 + 4 * 0.45, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(w->overlap, 0.25, 1e-9);
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

#define DATA "The data side is the limit: cpu kept the consumer 70 % busy"
#define MADE "With 4 threads it made 1400 of 2133 pictures per second."
#define PART " Of the host threads' time 71 % goes into entropy decoding."
#define CORES " To feed it takes about 5.5 cores, so 6 threads"

TEST_CASE(advice)
{
    struct profile_case c = {.backend = "cpu",
                             .threads = 4,
                             .cores = 8,
                             .consumer_ms = 30,
                             .busy = 0.70,
                             .rate = 1400,
                             .need = 2133,
                             .cost = 0.00256,
                             .part = "entropy",
                             .part_share = 0.71,
                             .enough = 6};

    says(&c, DATA,
         MADE PART CORES ". An engine with entropy..reconstruct would feed it.",
         "");
    c.cores = 4;
    c.other = "opencl:0";
    c.other_enough = 1;
    says(&c, DATA,
         MADE PART CORES ": more than this machine has cores. opencl:0 with 1 "
                         "thread would feed it.",
         "");
    c.other = NULL;
    c.enough = 0;
    says(&c, DATA,
         MADE PART " More threads do not help. An engine with "
                   "entropy..reconstruct would feed it.",
         "");
}

TEST_CASE(advice_without_remedy)
{
    static const char time[] = " Of the host threads' time 20 % goes into ";
    struct profile_case c = {.backend = "cpu",
                             .threads = 4,
                             .cores = 4,
                             .consumer_ms = 30,
                             .busy = 0.70,
                             .rate = 1400,
                             .need = 2133,
                             .cost = 0.00256,
                             .part = "resample",
                             .part_share = 0.2};
    char text[512];

    // 1400 / (1 - 0.2) is less than what it needs: no engine for that part
    // feeds it.
    snprintf(text, sizeof(text), "%s%sresample. %s", MADE, time,
             "More threads do not help. An engine with resample..store would "
             "help, but not feed it.");
    says(&c, DATA, text, "");
    c.part = "decode";
    snprintf(text, sizeof(text), "%s%sdecode. %s", MADE, time,
             "More threads do not help. An engine with entropy..color would "
             "help, but not feed it.");
    says(&c, DATA, text, "");
    c.enough = 6;
    snprintf(text, sizeof(text), "%s%sdecode.%s", MADE, time,
             CORES ": more than this machine has cores.");
    says(&c, DATA, text, "");
    c.enough = 0;
    c.part = "read";  // no engine takes that
    snprintf(text, sizeof(text), "%s%sread.%s", MADE, time,
             " More threads do not help.");
    says(&c, DATA, text, "");
    c.part = NULL;
    says(&c, DATA, MADE " More threads do not help.", "");
    // Users may buy a machine by the number: no number is better than a wrong
    // one.
    c.enough = PROFILE_UNKNOWN;
    c.others = 0.33;
    says(&c, DATA,
         MADE " How many threads would feed it cannot be told while other "
              "processes take 33 % of the machine.",
         "Measure again: other processes took 33 % of the machine.");
}

TEST_CASE(advice_fed)
{
    static const char headline[] = "The consumer is the limit: cpu kept it "
                                   "99 % busy";
    struct profile_case c = {.backend = "cpu",
                             .threads = 2,
                             .cores = 1,
                             .consumer_ms = 30,
                             .busy = 0.99,
                             .part = "decode",
                             .enough = 2};

    says(&c, headline, "It is fed with 2 threads.", "");
    c.other = "opencl:0";
    c.other_enough = 2;
    says(&c, headline, "It is fed with 2 threads.", "");
    c.other_enough = 1;
    says(&c, headline,
         "It is fed with 2 threads. opencl:0 would do it with 1 thread.", "");
}

TEST_CASE(advice_alone)
{
    static const char hint[] = "Name a network's time with --consumer MS to "
                               "see what would feed it.";
    struct profile_case c = {.backend = "opencl:0",
                             .threads = 2,
                             .rate = 3000,
                             .best_cpu_rate = 1500};
    char text[256];

    says(&c,
         "opencl:0 makes 2.00 times the pictures of the CPU's best: 3000 per "
         "second",
         hint, "");
    c.noise = 0.2;
    says(&c, NULL, hint, "Measure again, for longer: rounds differ by +-20 %.");
    c.others = 0.3;
    says(&c, NULL, hint,
         "Measure again: other processes took 30 % of the machine.");
    c.software = true;
    c.part = "decode";
    c.part_share = 0.5;
    snprintf(text, sizeof(text), "%s %s",
             "It runs on the host's own processor, so it cannot free it. Of "
             "the host threads' time 50 % goes into decode.",
             hint);
    says(&c, NULL, text,
         "Measure again: other processes took 30 % of the machine.");
    c.software = false;
    c.part = NULL;
    c.backend = "cpu";
    says(&c,
         "The CPU with 2 threads is the fastest here: 3000 pictures per "
         "second",
         hint, "Measure again: other processes took 30 % of the machine.");
    c.mismatch = "vaapi";
    says(&c, NULL, hint,
         "vaapi made wrong pictures and was left: see headrace validate. "
         "Measure again: other processes took 30 % of the machine.");
    c.others = c.noise = 0;
    says(&c, NULL, hint,
         "vaapi made wrong pictures and was left: see headrace validate.");
}

// A crowded machine: no number where none was measured, in the advice and in
// the list. One sentence is about one round.
TEST_CASE(of_one_round)
{
    auto_heap struct profile *p = calloc(1, sizeof(*p));
    struct profile_config *c = &p->configs[0];
    bool measured;

    p->opt.backends[0] = "cpu";
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
    CU_ASSERT_DOUBLE_EQUAL(p->need, 64 / 0.030, 1e-9);
    CU_ASSERT_EQUAL(profile_enough(p, 0, &measured), 5);
    p->others = 0.19;
    CU_ASSERT_EQUAL(profile_enough(p, 0, &measured), 5);
    p->others = 0.21;
    CU_ASSERT_EQUAL(profile_enough(p, 0, &measured), PROFILE_UNKNOWN);
    CU_ASSERT(!measured);
}
