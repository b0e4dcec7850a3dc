// SPDX-License-Identifier: Apache-2.0
// The rows of bench_loader.py that no test measures: one process each, which
// prints one line of JSON.
//
//   bench_loader feed SOURCE MS [CACHE]   a consumer of MS ms a batch, in turns
//                                         with one that does nothing; CACHE: MiB
//   bench_loader stall SOURCE SECONDS     a consumer that stalls
//   bench_loader epochs SOURCE N          N epochs after two that do not count
//   bench_loader slow SOURCE MS           reads of MS ms, in turns with quick ones
//
// SOURCE: a folder, or a list.
#include <poll.h>

#include "bench_core.h"
#include "hal/base/base.h"
#include "loader/queue/loader.h"
#include "testing.h"

enum {
    BATCH = 64,
    ROUNDS = 15,
    TURN = 20,        // batches: short, so that what else the machine does is
                      // much the same in two turns
    TUNED = 200,      // batches within which settings are found
    BUDGET = 96,      // MiB of a loader, and of its device
    MOST_NEXT = 4096  // calls that are kept
};

static const struct hr_op train[] = {
    HR_OP_DECODE(0), HR_OP_RANDOM_RESIZED_CROP(.w = 224, .h = 224),
    HR_OP_RANDOM_FLIP(.horizontal = .5),
    HR_OP_NORMALIZE(.mean = {.485f, .456f, .406f},
                    .std = {.229f, .224f, .225f})};

static void *must(const void *made)
{
    if (made)
        return (void *)(uintptr_t)made;
    fprintf(stderr, "bench_loader: %s\n", hr_last_error());
    exit(1);
}

static hr_source open_source(const char *path)
{
    const char *dot = strrchr(path, '.');
    hr_source source;

    if (!dot || strcmp(dot, ".txt"))
        return must(hr_source_open(path));
    source = must(hr_source_create());
    if (hr_source_add_list(source, path, false))
        must(NULL);
    return source;
}

static struct hr_loader_params params_of(hr_source source, hr_device dev)
{
    return (struct hr_loader_params){
        .source = source,
        .device = dev,
        .ops = train,
        .num_ops = 4,
        .batch = BATCH,
        .epochs = HR_ENDLESS,
        .shuffle = true,
        .seed = 1,
    };
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

// Sorts them.
static double quantile(double *x, int n, double q)
{
    qsort(x, (size_t)n, sizeof(*x), by_size);
    return n ? x[(int)(q * (n - 1))] : 0;
}

static void list(const char *name, const double *x, int n)
{
    printf("\"%s\": [", name);
    for (int i = 0; i < n; i++)
        printf("%s%.4f", i ? ", " : "", x[i]);
    printf("]");
}

static double seconds(int64_t ns)
{
    return (double)ns * 1e-9;
}

// Takes so many, and does nothing with them.
static void take(hr_loader loader, int steps)
{
    hr_loaded loaded;

    while (steps-- > 0) {
        if (hr_loader_next(loader, HR_FOREVER, &loaded) || !loaded ||
            loaded->failed)
            must(NULL);
        hr_loaded_release(&loaded);
    }
}

// What is ready before a turn does not count.
static void drain(hr_loader loader)
{
    struct hr_loader_stats stats;

    hr_loader_stats(loader, &stats);
    take(loader, stats.settings.depth + 1);
}

// What a turn took, in seconds: of the clock, of all threads' processors, and
// with no sample on the device.
struct turn {
    double wall, cpu, starved;
};

static struct turn clocks(hr_loader loader)
{
    struct hr_loader_stats stats;

    hr_loader_stats(loader, &stats);
    return (struct turn){
        .wall = seconds(hr__now()),
        .cpu = seconds(test_clock(CLOCK_PROCESS_CPUTIME_ID)),
        .starved = hr__loader_of(loader)->flow.starved,
    };
}

static struct turn since(struct turn begin, hr_loader loader)
{
    struct turn now = clocks(loader);

    return (struct turn){now.wall - begin.wall, now.cpu - begin.cpu,
                         now.starved - begin.starved};
}

static struct turn engine_turn(hr_loader loader)
{
    struct turn begin;

    drain(loader);
    begin = clocks(loader);
    take(loader, TURN);
    return since(begin, loader);
}

static double rate_of(hr_loader loader)
{
    return TURN * BATCH / engine_turn(loader).wall;
}

// ---- A consumer that takes its time ----------------------------------------

// Microseconds in hr_loader_next() when a batch was ready.
static struct {
    double wall[MOST_NEXT], cpu[MOST_NEXT];
    int num;
} nexts;

static void step(hr_loader loader, int64_t ns, double *busy)
{
    struct pollfd fd = {.fd = loader->fd, .events = POLLIN};
    bool ready = poll(&fd, 1, 0) == 1;
    int64_t cpu = test_clock(CLOCK_THREAD_CPUTIME_ID), begun = hr__now(), got;
    hr_loaded loaded;

    if (hr_loader_next(loader, HR_FOREVER, &loaded) || !loaded ||
        loaded->failed)
        must(NULL);
    got = hr__now();
    if (ready && nexts.num < MOST_NEXT) {
        nexts.cpu[nexts.num] =
            (double)(test_clock(CLOCK_THREAD_CPUTIME_ID) - cpu) / 1e3;
        nexts.wall[nexts.num++] = (double)(got - begun) / 1e3;
    }
    test_sleep(ns);
    *busy += seconds(hr__now() - got);
    hr_loaded_release(&loaded);
}

static int feed(hr_source source, double ms, size_t cache_mib)
{
    hr_cache cache = cache_mib ? must(hr_cache_create(cache_mib << 20)) : NULL;
    hr_device dev = must(
        hr_device_open("cpu", hr_device_params(.cache = cache)));
    struct hr_loader_params p = params_of(source, dev);
    hr_loader loader = must(hr_loader_create(&p));
    double engine[ROUNDS], fed[ROUNDS], busy[ROUNDS], nominal[ROUNDS];
    double cpu[ROUNDS], starved[ROUNDS];
    int64_t ns = (int64_t)(ms * 1e6);

    // Twice: the first time a cache is filled.
    take(loader, (int)(2 * source->num / BATCH) + 2);
    for (int round = 0; round < ROUNDS; round++) {
        double slept = 0, ignored = 0;
        struct turn alone = engine_turn(loader), turn;

        for (int i = 0; i <= loader->depth; i++)
            step(loader, ns, &ignored);
        turn = clocks(loader);
        for (int i = 0; i < TURN; i++)
            step(loader, ns, &slept);
        turn = since(turn, loader);
        engine[round] = TURN * BATCH / alone.wall;
        fed[round] = TURN * BATCH / turn.wall;
        busy[round] = slept / turn.wall;
        nominal[round] = TURN * seconds(ns) / turn.wall;
        cpu[round] = turn.cpu / alone.cpu;
        starved[round] = turn.starved / turn.wall;
    }
    printf("{\"ms\": %g, ", ms);
    list("engine", engine, ROUNDS);
    printf(", ");
    list("fed", fed, ROUNDS);
    printf(", ");
    list("busy", busy, ROUNDS);
    printf(", ");
    list("nominal", nominal, ROUNDS);
    printf(", ");
    list("cpu", cpu, ROUNDS);
    printf(", ");
    list("starved", starved, ROUNDS);
    printf(", \"next\": {\"ready\": %d, \"median_us\": %.2f, \"p99_us\": %.2f, "
           "\"cpu_median_us\": %.2f, \"cpu_p99_us\": %.2f}}\n",
           nexts.num, quantile(nexts.wall, nexts.num, .5),
           quantile(nexts.wall, nexts.num, .99),
           quantile(nexts.cpu, nexts.num, .5),
           quantile(nexts.cpu, nexts.num, .99));
    hr_loader_destroy(&loader);
    hr_device_close(&dev);
    hr_cache_release(&cache);
    return 0;
}

// ---- Memory ----------------------------------------------------------------

static double mib(const char *field)
{
    return (double)test_proc("/proc/self/status", field) / 1024;
}

static int stall(hr_source source, double for_seconds)
{
    hr_device dev = must(hr_device_open(
        "cpu", hr_device_params(.budget = (size_t)BUDGET << 20)));
    struct hr_loader_params p = params_of(source, dev);
    hr_loader loader;
    double first, most, now;
    int64_t end;

    p.budget = (size_t)BUDGET << 20;
    loader = must(hr_loader_create(&p));
    take(loader, 100);
    test_sleep(1000 * TEST_MS);
    first = most = mib("VmRSS:");
    end = hr__now() + (int64_t)(for_seconds * 1e9);
    while (hr__now() < end) {
        test_sleep(50 * TEST_MS);
        now = mib("VmRSS:");
        most = now > most ? now : most;
    }
    take(loader, 100);
    printf("{\"samples\": %llu, \"budget_mib\": %d, \"peak_mib\": %.1f, "
           "\"growth_mib\": %.2f}\n",
           (unsigned long long)source->num, 2 * BUDGET, mib("VmHWM:"),
           most - first);
    hr_loader_destroy(&loader);
    hr_device_close(&dev);
    return 0;
}

static int run_epochs(hr_source source, int epochs)
{
    hr_device dev = must(hr_device_open("cpu", NULL));
    struct hr_loader_params p = params_of(source, dev);
    hr_loader loader = must(hr_loader_create(&p));
    int batches = (int)loader->batches;
    unsigned long long mallocs;
    int64_t heap;
    double rss;

    take(loader, 2 * batches);
    rss = mib("VmRSS:");
    heap = hr__test_allocs();
    mallocs = bench_malloc_calls();
    take(loader, epochs * batches);
    heap = hr__test_allocs() - heap;
    mallocs = bench_malloc_calls() - mallocs;
    printf("{\"epochs\": %d, \"heap\": %lld, \"malloc\": %llu, "
           "\"growth_mib\": %.2f}\n",
           epochs, (long long)heap, mallocs, mib("VmRSS:") - rss);
    hr_loader_destroy(&loader);
    hr_device_close(&dev);
    return 0;
}

// ---- A source that is slow -------------------------------------------------

struct files {
    hr_source source;
    struct hr_encoded *read;  // [source->num]
    int64_t ns;               // that a read takes
};

static enum hr_status read_slowly(void *ctx, uint64_t i, struct hr_encoded *to,
                                  char message[256])
{
    const struct files *files = ctx;

    (void)message;
    if (files->ns)
        test_sleep(files->ns);
    to->data = files->read[i].data;
    to->size = files->read[i].size;
    return HR_OK;
}

static hr_loader tuned(struct files *files, hr_device *dev)
{
    const struct hr_source_calls calls = {.num = files->source->num,
                                          .ctx = files,
                                          .read = read_slowly};
    struct hr_loader_params p;
    hr_loader loader;

    *dev = must(hr_device_open("cpu", NULL));
    p = params_of(must(hr_source_of_calls(&calls)), *dev);
    p.autotune = true;
    loader = must(hr_loader_create(&p));
    take(loader, TUNED);
    return loader;
}

static int slow(hr_source source, double ms)
{
    struct files ways[2] = {{source, NULL, 0},
                            {source, NULL, (int64_t)(ms * 1e6)}};
    struct hr_loader_stats stats;
    double rates[2][ROUNDS];
    hr_loader loaders[2];
    hr_device devices[2];

    ways[0].read = ways[1].read = must(
        calloc(source->num, sizeof(struct hr_encoded)));
    for (uint64_t i = 0; i < source->num; i++)
        if (hr_source_read(source, i, 0, &ways[0].read[i]))
            must(NULL);
    for (int i = 0; i < 2; i++)
        loaders[i] = tuned(&ways[i], &devices[i]);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 2; i++)
            rates[i][round] = rate_of(loaders[i]);
    hr_loader_stats(loaders[1], &stats);
    printf("{\"ms\": %g, \"reads\": %d, ", ms, stats.settings.reads);
    list("quick", rates[0], ROUNDS);
    printf(", ");
    list("slow", rates[1], ROUNDS);
    printf("}\n");
    for (int i = 0; i < 2; i++) {
        hr_loader_destroy(&loaders[i]);
        hr_device_close(&devices[i]);
    }
    return 0;
}

int main(int argc, char **argv)
{
    hr_source source;
    double number;

    if (argc < 4)
        return fprintf(stderr, "usage: bench_loader feed|stall|epochs|slow "
                               "SOURCE NUMBER [CACHE]\n"),
               2;
    source = open_source(argv[2]);
    number = atof(argv[3]);
    if (!strcmp(argv[1], "feed"))
        return feed(source, number, argc > 4 ? (size_t)atol(argv[4]) : 0);
    if (!strcmp(argv[1], "stall"))
        return stall(source, number);
    if (!strcmp(argv[1], "epochs"))
        return run_epochs(source, (int)number);
    return slow(source, number);
}
