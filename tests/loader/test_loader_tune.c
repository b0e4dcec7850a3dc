// SPDX-License-Identifier: Apache-2.0
// A loader whose settings follow measurements: its samples do not depend on
// them, and each setting takes effect. (test_tune.c checks which settings are
// found.)
#include <math.h>

#include "hal/base/base.h"
#include "loader/queue/loader.h"
#include "loader_data.h"

enum { N = 60 };

static struct data_calls calls;
static hr_source source;
static atomic_int latency_us, reading, most_reading;

// The same, but it takes its time.
static enum hr_status slow_read(void *ctx, uint64_t i, struct hr_encoded *to,
                                char message[256])
{
    int n = atomic_fetch_add(&reading, 1) + 1;

    if (n > atomic_load(&most_reading))
        atomic_store(&most_reading, n);
    if (atomic_load(&latency_us))
        test_sleep(atomic_load(&latency_us) * INT64_C(1000));
    atomic_fetch_sub(&reading, 1);
    return calls.calls.read(ctx, i, to, message);
}

static struct hr_loader_params begin(hr_device dev)
{
    struct hr_source_calls slow;

    data_calls_init(&calls, N, test_seed);
    slow = calls.calls;
    slow.read = slow_read;
    atomic_store(&latency_us, 0);
    atomic_store(&most_reading, 0);
    source = hr_source_of_calls(&slow);
    return (struct hr_loader_params){
        .source = source,
        .device = dev,
        .ops = data_ops,
        .num_ops = DATA_OPS,
        .batch = 4,
        .shuffle = true,
        .seed = test_seed,
        .start = {.threads = 1, .reads = 1, .depth = 1, .bytes = 1},
        .autotune = true,
    };
}

static void end(void)
{
    CHECK(atomic_load(&calls.done) == atomic_load(&calls.reads),
          "%d of %d came back", atomic_load(&calls.done),
          atomic_load(&calls.reads));
    hr_source_close(&source);
    data_calls_finish(&calls, N);
}

static int threads_of(hr_device dev)
{
    int n = 0;

    CHECK(!hr__device_use_threads(dev, 0, &n), "%s", hr_last_error());
    return n;
}

// ---- What is delivered -----------------------------------------------------

static void check_same_bits(hr_device dev, bool is_opencl)
{
    struct hr_loader_params p = begin(dev);
    struct data_seen want = {0}, got = {0};
    struct hr_loader_stats stats;
    hr_loader loader;

    p.epochs = test_loops(40);
    p.autotune = false;
    loader = hr_loader_create(&p);
    CHECK(loader && !data_drain(&want, loader, 0), "%s", hr_last_error());
    hr_loader_stats(loader, &stats);
    CHECK(!stats.tune_steps && stats.settings.threads == 1 &&
              stats.settings.depth == 1 && stats.settings.reads == 1,
          "what is set stays");
    hr_loader_destroy(&loader);
    p.autotune = true;
    atomic_store(&latency_us, 200);
    loader = hr_loader_create(&p);
    CHECK(loader && !data_drain(&got, loader, 0), "%s", hr_last_error());
    hr_loader_stats(loader, &stats);
    printf("  %llu batches: %d threads, %d reads, depth %d; %llu steps, %llu "
           "back; ready %.2f reading %.2f making %.2f starved %.2f waited "
           "%.2f\n",
           (unsigned long long)stats.batches, stats.settings.threads,
           stats.settings.reads, stats.settings.depth,
           (unsigned long long)stats.tune_steps,
           (unsigned long long)stats.tune_backs, stats.mean_ready,
           stats.mean_reading, stats.mean_making, stats.starved, stats.waited);
    CHECK(want.num == (size_t)p.epochs * N && got.num == want.num &&
              data_seen_same(&want, 0, &got),
          "other batches");
    CHECK(!is_opencl || got.by_device == got.num, "%zu of %zu by the device",
          got.by_device, got.num);
    CHECK(stats.tune_steps > 0, "nothing was tried");
    CHECK(stats.waited > 0 && stats.waited <= 1.001 &&
              stats.mean_reading > .1 && stats.starved > 0 &&
              stats.starved <= 1.001 && stats.mean_making > 0,
          "waited %g, %g reads", stats.waited, stats.mean_reading);
    hr_loader_destroy(&loader);
    data_seen_finish(&want);
    data_seen_finish(&got);
    end();
    hr_device_close(&dev);
}

TEST_CASE(same_bits)
{
    check_same_bits(test_device("cpu", 3, 0), false);
}

// NULL: there is none here.
static hr_device open_opencl(int threads)
{
    hr_device dev = hr_device_open(test_device_name(),
                                   hr_device_params(.threads = threads));

    if (!dev)
        test_no_device();
    return dev;
}

// The threads are those of the host, which prepare for the device.
TEST_CASE(same_bits_opencl)
{
    hr_device dev = open_opencl(3);

    if (dev)
        check_same_bits(dev, true);
}

// As many reads, batches and threads as are set, no more; but never more
// threads than there are cores.
TEST_CASE(what_is_set)
{
    int threads = hr__usable_cores() < 2 ? 1 : 2;
    auto_device dev = test_device("cpu", 3, 0);
    struct hr_loader_params p = begin(dev);
    struct hr_loader_stats stats;
    struct data_seen seen = {0};
    hr_loader loader;

    p.autotune = false;
    p.start =
        (struct hr_loader_settings){.threads = 2, .reads = 11, .depth = 2};
    atomic_store(&calls.wait_for, 8);  // two batches' worth
    loader = hr_loader_create(&p);
    CHECK(loader, "%s", hr_last_error());
    do {
        test_sleep(TEST_MS);
        hr_loader_stats(loader, &stats);
    } while (stats.ready < 2 || stats.reading);
    CHECK(stats.settings.threads == threads && stats.settings.reads == 11 &&
              stats.settings.depth == 2 && stats.settings.bytes > 100 << 20,
          "%d threads, %d reads, depth %d", stats.settings.threads,
          stats.settings.reads, stats.settings.depth);
    test_sleep(20 * TEST_MS);
    CHECK(atomic_load(&calls.reads) == 8, "%d reads for two batches",
          atomic_load(&calls.reads));
    CHECK(threads_of(dev) == threads, "%d threads", threads_of(dev));
    CHECK(!data_drain(&seen, loader, 0) && seen.num == N, "%s",
          hr_last_error());
    CHECK(atomic_load(&calls.most) <= 11, "%d at a time",
          atomic_load(&calls.most));
    hr_loader_destroy(&loader);
    CHECK(threads_of(dev) == 3, "afterwards %d threads", threads_of(dev));
    data_seen_finish(&seen);
    end();
}

// ---- What may be -----------------------------------------------------------

// A source that takes its time: reads in flight grow, threads do not.
TEST_CASE(reads_grow)
{
    auto_device dev = test_device("cpu", 2, 0);
    struct hr_loader_params p = begin(dev);
    struct hr_loader_stats stats;
    struct data_seen seen = {0};
    hr_loader loader;

    p.epochs = HR_ENDLESS;
    atomic_store(&latency_us, 5000);
    loader = hr_loader_create(&p);
    // (200 batches are enough; not if others have the cores all the time.)
    for (int i = 0; i < 10 && (!i || atomic_load(&most_reading) < 4); i++)
        CHECK(loader && !data_drain(&seen, loader, 200), "%s", hr_last_error());
    hr_loader_stats(loader, &stats);
    CHECK(atomic_load(&most_reading) >= 4, "%d at a time, now %d",
          atomic_load(&most_reading), stats.settings.reads);
    hr_loader_destroy(&loader);
    data_seen_finish(&seen);
    end();
}

// Readers beyond the number that is set sleep, and come back.
TEST_CASE(fewer_reads)
{
    auto_device dev = test_device("cpu", 1, 0);
    struct hr_loader_params p = begin(dev);
    struct data_seen seen = {0};
    hr_loader loader;
    struct hr__loader *l;

    p.autotune = false;
    p.epochs = HR_ENDLESS;
    p.start = (struct hr_loader_settings){.reads = 12};
    atomic_store(&latency_us, 500);
    loader = hr_loader_create(&p);
    CHECK(loader && !data_drain(&seen, loader, 20), "%s", hr_last_error());
    CHECK(atomic_load(&most_reading) > 2, "%d at a time",
          atomic_load(&most_reading));
    l = hr__loader_of(loader);
    for (int reads = 2; reads <= 12; reads += 10) {
        pthread_mutex_lock(&l->lock);
        l->settings.reads = reads;
        pthread_cond_broadcast(&l->work);
        pthread_cond_broadcast(&l->unused);
        pthread_mutex_unlock(&l->lock);
        // Samples that were begun under the old setting are drained first.
        CHECK(!data_drain(&seen, loader, 20), "%s", hr_last_error());
        atomic_store(&most_reading, 0);
        CHECK(!data_drain(&seen, loader, 20), "%s", hr_last_error());
        CHECK(reads == 2 ? atomic_load(&most_reading) <= 2
                         : atomic_load(&most_reading) > 2,
              "%d at a time of %d", atomic_load(&most_reading), reads);
    }
    hr_loader_destroy(&loader);
    data_seen_finish(&seen);
    end();
}

TEST_CASE(caps)
{
    auto_device dev = test_device("cpu", 3, 0);
    struct hr_loader_params p = begin(dev);
    int cores = hr__usable_cores(), most = cores < 3 ? cores : 3;
    struct hr_loader_stats stats;
    hr_loader loader;
    const struct {
        int reserve, threads;
        double share;
    } cases[] = {
        {0, most, 0},
        {cores, 1, 0},
        {0, 1, .01},
        {cores > 1 ? cores - 1 : 0, 1, 1},
        {0,
         cores / 2 < 1   ? 1
         : cores / 2 < 3 ? cores / 2
                         : 3,
         .5},
    };

    p.start.threads = 99;
    p.start.reads = 99;
    p.start.depth = 9999;
    p.start.bytes = SIZE_MAX;
    p.reads = 5;
    p.epochs = 2 + test_loops(18);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        auto_seen seen = {0};

        p.reserve = cases[i].reserve;
        p.cpu_share = cases[i].share;
        p.budget = 1 << 20;
        loader = hr_loader_create(&p);
        CHECK(loader, "%s", hr_last_error());
        hr_loader_stats(loader, &stats);
        CHECK(stats.settings.threads == cases[i].threads,
              "reserve %d, share %g: %d threads", p.reserve, p.cpu_share,
              stats.settings.threads);
        CHECK(stats.settings.reads == 5 && stats.settings.bytes <= p.budget &&
                  (size_t)stats.settings.depth * loader->batch * 3 * DATA_SIDE *
                          DATA_SIDE * 4 <=
                      p.budget,
              "%d reads, depth %d, %zu bytes", stats.settings.reads,
              stats.settings.depth, stats.settings.bytes);
        CHECK(!data_drain(&seen, loader, 0), "%s", hr_last_error());
        hr_loader_stats(loader, &stats);
        CHECK(stats.settings.threads <= cases[i].threads &&
                  threads_of(dev) <= cases[i].threads,
              "then %d threads", threads_of(dev));
        CHECK(atomic_load(&calls.most) <= 5 &&
                  stats.batch_bytes + stats.peak_encoded_bytes <=
                      p.budget + (64 << 10),
              "%d at a time", atomic_load(&calls.most));
        hr_loader_destroy(&loader);
    }
    end();
}

// A caller that keeps batches still gets others; their memory comes back with
// them.
TEST_CASE(batches_kept)
{
    auto_device dev = test_device("cpu", 2, 0);
    struct hr_loader_params p = begin(dev);
    struct hr_loader_stats stats;
    hr_loaded kept[9];
    struct data_seen seen = {0};
    hr_loader loader;
    int depth = 0;
    size_t each;

    p.epochs = HR_ENDLESS;
    loader = hr_loader_create(&p);
    CHECK(loader && loader->depth > 9, "%s", hr_last_error());
    for (int i = 0; i < 9; i++)
        CHECK(!hr_loader_next(loader, 30000 * TEST_MS, &kept[i]) && kept[i],
              "batch %d: %s", i, hr_last_error());
    each = kept[0]->batch->size;
    hr_loader_stats(loader, &stats);
    CHECK(stats.batch_bytes >= 9 * each, "%zu bytes", stats.batch_bytes);
    for (int i = 0; i < 9; i++) {
        data_seen_add(&seen, kept[i]);
        hr_loaded_release(&kept[i]);
    }
    // Some batches with a depth for which there are too many. (If it has just
    // become less there are more for a while; so all that it was counts.)
    for (int i = 0; i < 40 && (!i || depth >= 9); i++) {
        depth = 0;
        for (int k = 0; k < 50; k++) {
            CHECK(!data_drain(&seen, loader, 1), "%s", hr_last_error());
            hr_loader_stats(loader, &stats);
            depth = depth > stats.settings.depth ? depth : stats.settings.depth;
        }
    }
    CHECK(stats.batch_bytes <= (size_t)(depth + 1) * each,
          "%zu bytes, depth %d at most", stats.batch_bytes, depth);
    hr_loader_destroy(&loader);
    data_seen_finish(&seen);
    end();
}

TEST_CASE(wrong)
{
    struct hr_loader_params p = begin(NULL), bad;

    bad = p, bad.start.threads = -1;
    CHECK(!hr_loader_create(&bad) && hr_last_status() == HR_EINVAL, "threads");
    bad = p, bad.start.reads = -1;
    CHECK(!hr_loader_create(&bad) && hr_last_status() == HR_EINVAL, "reads");
    bad = p, bad.start.depth = -1;
    CHECK(!hr_loader_create(&bad) && hr_last_status() == HR_EINVAL, "depth");
    bad = p, bad.reserve = -1;
    CHECK(!hr_loader_create(&bad) && hr_last_status() == HR_EINVAL, "reserve");
    bad = p, bad.cpu_share = 1.01;
    CHECK(!hr_loader_create(&bad) && hr_last_status() == HR_EINVAL, "share");
    bad = p, bad.cpu_share = 0. / 0.;
    CHECK(!hr_loader_create(&bad) && hr_last_status() == HR_EINVAL, "no share");
    end();
}

// Each allocation and each thread of a run in turn: it ends, well or with
// HR_ENOMEM in the place of a batch, and another run is whole.
TEST_CASE(no_memory)
{
    auto_device dev = test_device("cpu", 2, 0);
    struct hr_loader_params p = begin(dev);
    bool passed = false;

    p.epochs = 2;
    // (Some of them are enough to look for races.)
    for (int nth = 1; !passed && nth < 2000; nth += test_races_only() ? 4 : 1) {
        auto_seen seen = {0};
        auto_loader loader = NULL;
        int dropped = 0;

        hr__test_fail_alloc(nth, false);
        loader = hr_loader_create(&p);
        CHECK(loader || hr_last_status() == HR_ENOMEM, "%d: %s", nth,
              hr_last_error());
        for (int i = 0; loader && i < 100; i++) {
            enum hr_status status = data_drain(&seen, loader, 0);

            if (!status)
                break;
            CHECK(status == HR_ENOMEM, "%d: %s", nth, hr_last_error());
            dropped++;
        }
        CHECK(!loader || seen.num + 4 * (size_t)dropped == 2 * N,
              "%d: %zu samples", nth, seen.num);
        hr__test_fail_alloc(0, false);
        passed = loader && !dropped && nth > 60;
    }
    CHECK(passed, "it never passed");
    end();
}

// ---- The rate --------------------------------------------------------------

enum {
    FILES = 64,
    SIDE = 160,
    PER_BATCH = 32,
    HANDS = 8,
    ROUNDS = 3,
    PAIRS = 11,
    TRIES = 3,
    TURN = 50,  // batches: many times as many as may be on their way
};

static void take(hr_loader loader, int steps)
{
    hr_loaded loaded;

    for (int i = 0; i < steps; i++) {
        CHECK(!hr_loader_next(loader, HR_FOREVER, &loaded) && loaded, "%s",
              hr_last_error());
        hr_loaded_release(&loaded);
    }
}

static double most_cores;  // that any turn had
static int full_turns;     // with as many threads as cores
static int starved_turns;  // of these, that had less than 70 % of the cores

// Samples per second, less the samples that were ready before. Then the loader
// makes as many again, before it is another one's turn.
static double rate_of(hr_loader loader)
{
    struct hr_loader_stats stats;
    int64_t ns, cpu;

    hr_loader_stats(loader, &stats);
    take(loader, stats.settings.depth + 1);
    ns = hr__now();
    cpu = test_clock(CLOCK_PROCESS_CPUTIME_ID);
    take(loader, TURN);
    ns = hr__now() - ns;
    cpu = test_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    if ((double)cpu / (double)ns > most_cores)
        most_cores = (double)cpu / (double)ns;
    if (stats.settings.threads == hr__usable_cores()) {
        full_turns++;
        starved_turns += (double)cpu / (double)ns < .7 * hr__usable_cores();
    }
    do {
        test_sleep(TEST_MS);
        hr_loader_stats(loader, &stats);
    } while (stats.ready < stats.settings.depth);
    return TURN * PER_BATCH * 1e9 / (double)ns;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static hr_source source_of_files(void)
{
    const char *dir = test_folder();
    uint64_t seed = test_seed;
    char path[4200];

    for (int i = 0; i < FILES; i++) {
        auto_bytes b = test_jpeg(SIDE, SIDE, &seed);

        snprintf(path, sizeof(path), "%s/%03d.jpg", dir, i);
        test_write(path, b.data, b.size);
    }
    return hr_source_open(dir);
}

static double median(double *values, int num)
{
    qsort(values, (size_t)num, sizeof(double), by_size);
    return values[num / 2];
}

static int best_of(hr_loader by_hand[HANDS])
{
    double rates[HANDS][ROUNDS], best = 0;
    int at = 0;

    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < HANDS; i++)
            rates[i][round] = rate_of(by_hand[i]);
    for (int i = 0; i < HANDS; i++)
        if (median(rates[i], ROUNDS) > best) {
            best = median(rates[i], ROUNDS);
            at = i;
        }
    return at;
}

// The ratio of the tuned settings to the best by hand, in turns, so that other
// work on the machine affects both. New turns, since the best of eight was
// lucky in the turns by which it was chosen.
static double compare(hr_loader tuned, hr_loader by_hand[HANDS],
                      double ratios[PAIRS])
{
    double rates[2][PAIRS];
    int best = best_of(by_hand);

    for (int i = 0; i < PAIRS; i++) {
        for (int k = 0; k < 2; k++) {
            bool second = (i + k) & 1;

            rates[second][i] = rate_of(second ? by_hand[best] : tuned);
        }
        ratios[i] = rates[0][i] / rates[1][i];
    }
    printf("  tuned %.0f/s, by hand number %d: %.0f/s: %.1f %% (",
           median(rates[0], PAIRS), best, median(rates[1], PAIRS),
           100 * median(ratios, PAIRS));
    printf("%.1f .. %.1f)\n", 100 * ratios[0], 100 * ratios[PAIRS - 1]);
    return ratios[PAIRS / 2];
}

// The settings found within 200 batches, beginning from one of everything. A
// trial that is running is left out: it has no verdict yet.
static struct hr_loader_settings found(struct hr_loader_params p)
{
    auto_loader loader = hr_loader_create(&p);
    struct hr_loader_settings settings;
    struct hr_loader_stats stats;
    struct hr__loader *l;

    take(loader, 200);
    hr_loader_stats(loader, &stats);
    l = hr__loader_of(loader);
    pthread_mutex_lock(&l->lock);
    settings = l->tune.tried ? l->tune.before : l->tune.now;
    pthread_mutex_unlock(&l->lock);
    printf("  after 200 batches %d threads, %d reads, %d batches, %zu bytes; "
           "%llu steps, %llu back\n",
           settings.threads, settings.reads, settings.depth, settings.bytes,
           (unsigned long long)stats.tune_steps,
           (unsigned long long)stats.tune_backs);
    return settings;
}

// Compares the settings found with settings by hand, all without trials:
// test_tune.c measures the cost of trials.
static double tune_and_compare(hr_source files, const char *device,
                               double ratios[PAIRS])
{
    int cores = hr__usable_cores();
    struct hr_loader_params p = {.source = files,
                                 .batch = PER_BATCH,
                                 .ops = data_ops,
                                 .num_ops = DATA_OPS,
                                 .epochs = HR_ENDLESS,
                                 .shuffle = true,
                                 .autotune = true,
                                 .start = {1, 1, 1, 1}};
    hr_device devices[1 + HANDS];
    hr_loader loaders[1 + HANDS];
    double ratio;

    for (int i = 0; i <= HANDS; i++)
        devices[i] = test_device(device, cores, 0);
    p.device = devices[HANDS];
    p.start = found(p);
    p.autotune = false;
    loaders[HANDS] = hr_loader_create(&p);
    rate_of(loaders[HANDS]);
    for (int i = 0; i < HANDS; i++) {
        p.device = devices[i];
        p.start = (struct hr_loader_settings){.threads = i & 1 ? cores : 1,
                                              .reads = i & 2 ? 8 : 1,
                                              .depth = i & 4 ? 5 : 1};
        loaders[i] = hr_loader_create(&p);
        rate_of(loaders[i]);
    }
    ratio = compare(loaders[HANDS], loaders, ratios);
    for (int i = 0; i <= HANDS; i++) {
        hr_loader_destroy(&loaders[i]);
        hr_device_close(&devices[i]);
    }
    return ratio;
}

// How far the median of values may be off: twice its standard error, by the
// median of the distances, as tests/support/doubt.py has it.
static double doubt_of(double *values, int num)
{
    double middle = median(values, num);

    for (int i = 0; i < num; i++)
        values[i] = fabs(values[i] - middle);
    return 2 * 1.2533 * 1.4826 * median(values, num) / sqrt(num);
}

static void check_rate(const char *device)
{
    double ratios[TRIES][PAIRS], ratio = 0, doubt;
    auto_source files = NULL;

    // (ThreadSanitizer makes a hundredth of it.)
    if (TEST_SANITIZED || !getenv("HEADRACE_TEST_LONG")) {
        test_not_run("rates: HEADRACE_TEST_LONG is not set, or a sanitizer is");
        return;
    }
    full_turns = starved_turns = 0;
    files = source_of_files();
    for (int i = 0; i < TRIES && ratio < .95; i++)
        ratio = tune_and_compare(files, device, ratios[i]);
    printf("  %d of %d turns had less than 70 %% of the cores; at most %.1f\n",
           starved_turns, full_turns, most_cores);
    if (ratio < .95) {
        bool others = starved_turns > full_turns / 4;

        ratio = median(ratios[0], TRIES * PAIRS);
        doubt = doubt_of(ratios[0], TRIES * PAIRS);
        if (!others && ratio + doubt < .95)
            CHECK(false, "%.1f %% of the best by hand, doubt %.1f", 100 * ratio,
                  100 * doubt);
        else if (ratio < .95)
            test_not_run(others ? "rates: others use the cores, too"
                                : "rates: the machine is too unsteady");
    }
}

TEST_CASE(rate)
{
    check_rate("cpu");
}

TEST_CASE(rate_opencl)
{
    auto_device dev = open_opencl(1);

    if (dev)
        check_rate(test_device_name());
}
