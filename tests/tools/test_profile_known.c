// SPDX-License-Identifier: Apache-2.0
// headrace profile, the whole command, on an engine of known cost: its JSON
// against arithmetic.
#define _GNU_SOURCE
#include <math.h>

#include <jansson.h>

#include "fake_engine.h"
#include "testing.h"
#include "tools/common/tools.h"
#include "tools/profile/profile.h"

enum { PICTURES = 6, BATCH = 4, SLOW_EVERY = 40, RING_MOST = 64 };

// A picture takes 1.5 ms asleep and 1 ms of a core; every tenth batch 30 ms
// more.
#define SLEEP_MS 1.5
#define BURN_MS 1.0
#define SLOW_MS 30.0
#define BATCH_MS (BATCH * (SLEEP_MS + BURN_MS))
#define CONSUMER_MS 60.0

static const struct fake_script known = {
    .spans = FAKE_ALL(FAKE_DRS),
    .delay_ns = (int64_t)(SLEEP_MS * 1e6),
    .burn_ns = (int64_t)(BURN_MS * 1e6),
    .device_ns = 1000000,
    .slow_every = SLOW_EVERY,
    .slow_ns = (int64_t)(SLOW_MS * 1e6),
    .launches = 3,
    .bytes_up = 1000,
    .bytes_down = 500,
    .bytes_imported = 250,
};

static char folder[256];

static json_t *profile(const char *threads, const char *consumer)
{
    const char *words[] = {"headrace profile",
                           folder,
                           "--backends",
                           "fake",
                           "--threads",
                           threads,
                           "--batch",
                           "4",
                           "--ops",
                           "decode,resize=8x8",
                           "--seconds",
                           "1",
                           "--json",
                           "-q",
                           consumer ? "--consumer" : NULL,
                           consumer,
                           NULL};
    char *argv[24] = {NULL};
    int argc = 0, old = dup(STDOUT_FILENO), code;
    FILE *out = tmpfile();
    json_t *json;

    for (; words[argc]; argc++)
        argv[argc] = (char *)words[argc];
    fflush(stdout);
    dup2(fileno(out), STDOUT_FILENO);
    code = cmd_profile(argc, argv);
    fflush(stdout);
    dup2(old, STDOUT_FILENO);
    close(old);
    rewind(out);
    json = json_loadf(out, 0, NULL);
    fclose(out);
    CHECK(code == 0 && json, "exit %d", code);
    return json;
}

static json_t *config(json_t *json, const char *device, const char *mode,
                      int threads)
{
    json_t *list = json_object_get(json, "configurations"), *c;
    size_t i;

    json_array_foreach(
        list, i,
        c) if (!strcmp(json_string_value(json_object_get(c, "device")),
                       device) &&
               !strcmp(json_string_value(json_object_get(c, "mode")), mode) &&
               json_integer_value(json_object_get(c, "threads")) ==
                   threads) return c;
    return NULL;
}

static json_t *backend(json_t *json, const char *name)
{
    json_t *list = json_object_get(json, "backends"), *b;
    size_t i;

    json_array_foreach(
        list, i,
        b) if (!strcmp(json_string_value(json_object_get(b, "backend")),
                       name)) return b;
    return NULL;
}

static double at(json_t *json, const char *key)
{
    json_t *value = json_object_get(json, key);

    CHECK(json_is_number(value), "no number %s", key);
    return json_number_value(value);
}

static void between(json_t *json, const char *key, double low, double high)
{
    double is = at(json, key);

    CHECK(is >= low && is <= high, "%s is %.6g, not %.6g .. %.6g", key, is, low,
          high);
}

static void equal(json_t *json, const char *key, double right)
{
    between(json, key, right - 1e-6 * fabs(right), right + 1e-6 * fabs(right));
}

// ---- What does not depend on the machine ----------------------------------

// Six pictures in batches of four: no batch is short.
static void counts(json_t *c)
{
    equal(c, "batch", BATCH);
    equal(c, "failed", 0);
    equal(c, "images", BATCH * at(c, "batches"));
    equal(c, "launches_per_batch", 3);
    equal(c, "bytes_per_image", 1500);
    equal(c, "imported_bytes_per_image", 250);
    equal(c, "import_falls", 0);
}

static void speed_ups(json_t *json)
{
    static const char *const devices[] = {"cpu", "fake:0"};
    double one = at(config(json, "cpu", "planned", 1), "img_per_s");
    double best = fmax(one, at(config(json, "cpu", "planned", 2), "img_per_s"));

    CU_ASSERT(best > 0);
    for (int i = 0; i < 4; i++) {
        json_t *c = config(json, devices[i / 2], "planned", 1 + i % 2);

        equal(c, "times_cpu_1_thread", at(c, "img_per_s") / one);
        equal(c, "times_best_cpu", at(c, "img_per_s") / best);
    }
}

// ---- What can be slower, but not faster -----------------------------------

// A batch is submitted when one has come out: by Little's law its time is that
// of all in flight. The slow tenth is in the mean, and in p99, not in p50.
static void rates(json_t *c)
{
    const double slow = BATCH * SLOW_MS / SLOW_EVERY;
    double rate = at(c, "img_per_s"), ring = at(c, "in_flight");
    double mean = 1000 * ring * BATCH / rate;

    CHECK(ring >= 2 && ring < RING_MOST, "%f in flight", ring);
    between(c, "img_per_s", 0.1 * 1000 * BATCH / (BATCH_MS + slow),
            1.03 * 1000 * BATCH / (BATCH_MS + slow));
    between(c, "latency_p50_ms", 0.95 * ring * BATCH_MS, 1.6 * mean);
    between(c, "latency_p99_ms", at(c, "latency_p50_ms") + 0.5 * SLOW_MS,
            1e6);  // (a busy machine may stop all for a while)
    // By the clocks of its threads.
    between(c, "cpu_s_per_1000", 0.5 * BURN_MS, 4 * BURN_MS);
    between(c, "noise", 0, 1);
    between(c, "peak_rss_bytes", 1 << 20, 1 << 30);
}

static double part_of(json_t *b, const char *name, const char *key)
{
    json_t *list = json_object_get(b, "parts"), *part;
    size_t i;

    json_array_foreach(
        list, i,
        part) if (!strcmp(json_string_value(json_object_get(part, "engine")),
                          "fake:0") &&
                  !strcmp(json_string_value(json_object_get(part, "part")),
                          name)) return json_number_value(json_object_get(part,
                                                                          key));
    return -1;
}

// 1 ms on one queue, and in their second half another one.
static void device_time(json_t *b)
{
    CU_ASSERT_DOUBLE_EQUAL(part_of(b, "resample", "ms_per_1000"), 1000, 0.01);
    CU_ASSERT_DOUBLE_EQUAL(part_of(b, "download", "ms_per_1000"), 500, 0.01);
    CU_ASSERT_DOUBLE_EQUAL(part_of(b, "resample", "share"), 2 / 3.0, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(part_of(b, "download", "share"), 1 / 3.0, 1e-6);
}

// The loader's figures agree with each other, and with the engine's speed.
static void queue(json_t *q, double most_waited)
{
    json_t *changes = json_object_get(q, "changes"), *change;
    json_t *points = json_object_get(q, "queue"), *point;
    double before = 0, batches = at(q, "batches");
    size_t i;

    between(q, "img_per_s", 1, 1.1 * 1000 * BATCH / BATCH_MS);
    CHECK(fabs(at(q, "img_per_s") * at(q, "seconds") - BATCH * batches) < 1,
          "%f batches in %f s", batches, at(q, "seconds"));
    between(q, "waits", 0, batches);
    between(q, "waited", 0, most_waited + 0.001);
    between(q, "starved", 0, 1.001);
    CHECK(at(json_object_get(q, "start"), "reads") == 1 &&
              at(json_object_get(q, "start"), "depth") == 1 &&
              at(json_object_get(q, "start"), "threads") == 1,
          "it starts from something else");
    // So many are kept; each was tried or taken back.
    between(q, "steps", 0, 1e6);
    between(q, "backs", 0, at(q, "steps"));
    CHECK(json_array_size(changes) <= at(q, "steps") + at(q, "backs"),
          "%zu changes", json_array_size(changes));
    if (json_array_size(changes) && json_array_size(changes) < PROFILE_CHANGES)
        CHECK(json_equal(
                  json_object_get(json_array_get(changes,
                                                 json_array_size(changes) - 1),
                                  "settings"),
                  json_object_get(q, "settings")),
              "the last change is not what is set");
    json_array_foreach(changes, i, change)
    {
        between(change, "seconds", before, at(q, "seconds"));
        before = at(change, "seconds");
    }
    CHECK(json_array_size(points) > batches / PROFILE_POINTS / 2, "%zu points",
          json_array_size(points));
    before = 0;
    json_array_foreach(points, i, point)
    {
        between(point, "seconds", before, at(q, "seconds"));
        CHECK(at(point, "seconds") > before, "point %zu is there twice", i);
        between(point, "ready", 0, 64);
        between(point, "reading", 0, 256);
        before = at(point, "seconds");
    }
}

TEST_CASE(alone)
{
    json_t *json = profile("1,2", NULL), *c, *b;
    double ring;

    CU_ASSERT_PTR_NOT_NULL_FATAL(c = config(json, "fake:0", "planned", 1));
    CU_ASSERT_PTR_NOT_NULL_FATAL(b = backend(json, "fake"));
    ring = at(c, "in_flight");
    equal(json, "pictures", PICTURES);
    counts(c);
    counts(config(json, "fake:0", "planned", 2));
    speed_ups(json);
    rates(c);
    device_time(b);
    // Half of it, and what the host happens to do at the same time.
    between(b, "overlap", 0.4, 0.9);
    // The engine is the limit: always full, and all wait for it.
    between(b, "queue_empty", 0, 0.2);
    // (A job ends a little after its batch is ready, and the next is made.)
    between(b, "jobs_in_flight", 0.6 * ring, ring + 1);
    between(b, "wait_results", 0.6, 1);
    between(b, "wait_submit", 1e-9, 0.3);
    CHECK(at(b, "wait_results") + at(b, "wait_submit") > 0.8, "%f, %f",
          at(b, "wait_results"), at(b, "wait_submit"));
    between(b, "worker_idle", 0.4, 1.01);
    queue(json_object_get(b, "loader"), 1);
    json_decref(json);
}

// A consumer that takes three times as long as the engine: one thread is
// enough.
TEST_CASE(beside_a_consumer)
{
    json_t *json = profile("1", "60"), *c, *b;

    CU_ASSERT_PTR_NOT_NULL_FATAL(c = config(json, "fake:0", "planned", 1));
    CU_ASSERT_PTR_NOT_NULL_FATAL(b = backend(json, "fake"));
    equal(json, "consumer_ms", CONSUMER_MS);
    equal(json, "consumer_img_per_s", 1000 * BATCH / CONSUMER_MS);
    between(c, "consumer_busy", 0.3, 1.001);
    between(c, "consumer_took_ms", CONSUMER_MS, 3 * CONSUMER_MS);
    // It takes what it can, at the pace that it had.
    between(c, "consumer_img_per_s",
            0.7 * 1000 * BATCH / at(c, "consumer_took_ms"),
            1.03 * 1000 * BATCH / CONSUMER_MS);
    if (at(c, "consumer_busy") >= 0.97) {
        CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(c, "bound")),
                               "consumer");
        equal(b, "threads_enough", 1);
        CU_ASSERT(json_is_true(json_object_get(b, "threads_enough_measured")));
    } else {
        test_not_run("threads that are enough: others have the cores");
    }
    // The engine has a sixth of the time to do.
    between(b, "wait_results", 1e-9, 0.5);
    between(b, "queue_empty", 0, 0.9);
    // So a batch is ready when it wants one, mostly.
    queue(json_object_get(b, "loader"), 0.6);
    json_decref(json);
}

int main(int argc, char **argv)
{
    uint64_t seed = 7;

    fake_reset(&known);
    snprintf(folder, sizeof(folder), "%s", test_folder());
    for (int i = 0; i < PICTURES; i++) {
        auto_bytes b = test_jpeg(16, 16, &seed);
        char path[300];

        snprintf(path, sizeof(path), "%s/%d.jpg", folder, i);
        test_write(path, b.data, b.size);
    }
    return test_main(argc, argv);
}
