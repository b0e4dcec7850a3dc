// SPDX-License-Identifier: Apache-2.0
// The queue: reads in flight, a consumer that stalls or leaves, descriptors,
// memory that is short, fork().
#include <poll.h>
#include <sys/wait.h>

#include "hal/base/base.h"
#include "loader/queue/loader.h"
#include "loader_data.h"

enum { N = 60 };

static struct data_calls calls;

// ---- Reading ---------------------------------------------------------------

// The reads do not return until so many are in flight.
TEST_CASE(reads_in_flight)
{
    auto_device dev = test_device("cpu", 1, 0);
    struct hr_loader_params p = data_begin(&calls, N, dev);
    struct data_seen seen = {0};

    p.reads = 13;
    atomic_store(&calls.wait_for, 13);
    data_drain_all(&seen, &p);
    CHECK(seen.num == N, "%zu samples", seen.num);
    CHECK(atomic_load(&calls.most) == 13, "%d at a time",
          atomic_load(&calls.most));
    data_seen_finish(&seen);
    data_end(&calls);
}

TEST_CASE(as_many_as_declared)
{
    struct hr_loader_params p = data_begin(&calls, N, NULL);
    struct data_seen seen = {0};

    hr_source_close(&calls.source);
    calls.calls.threads = 2;
    p.source = calls.source = hr_source_of_calls(&calls.calls);
    p.reads = 16;
    data_drain_all(&seen, &p);
    CHECK(seen.num == N, "%zu samples", seen.num);
    CHECK(atomic_load(&calls.most) <= 2, "%d at a time",
          atomic_load(&calls.most));
    data_seen_finish(&seen);
    data_end(&calls);
}

// ---- Callbacks -------------------------------------------------------------

static _Atomic(hr_loader) asking;
static atomic_int under_lock;

static int64_t class_without_lock(void *ctx, uint64_t i)
{
    hr_loader loader;

    (void)ctx;
    while (!(loader = atomic_load(&asking)))
        test_sleep(TEST_MS);
    if (!atomic_load(&under_lock))
        atomic_store(&under_lock, test_is_held(&hr__loader_of(loader)->lock));
    return (int64_t)i;
}

// Whatever a callback waits for may itself wait for the loader.
TEST_CASE(no_lock_held)
{
    const uint8_t bad[N] = {1, 0, 1};
    struct hr_loader_params p = data_begin(&calls, N, NULL);
    struct data_seen seen = {0};
    hr_loader loader;

    hr_source_close(&calls.source);
    calls.calls.class_of = class_without_lock;
    calls.bad = bad;
    calls.num_bad = N;
    p.source = calls.source = hr_source_of_calls(&calls.calls);
    p.on_error = HR_ON_ERROR_SKIP;
    loader = hr_loader_create(&p);
    atomic_store(&asking, loader);
    CHECK(loader && !data_drain(&seen, loader, 0) && seen.num == N, "%s",
          hr_last_error());
    CHECK(!atomic_load(&under_lock), "a class was asked for under the lock");
    hr_loader_destroy(&loader);
    data_seen_finish(&seen);
    data_end(&calls);
}

// A path that the loader has read is given back as a path.
TEST_CASE(paths_lent)
{
    struct hr_loader_params p = data_begin(&calls, N, NULL);
    struct data_seen seen = {0};

    calls.path = test_file(&calls.files[0], ".jpg");
    data_drain_all(&seen, &p);
    CHECK(seen.num == N, "%zu samples", seen.num);
    data_seen_finish(&seen);
    data_end(&calls);
}

// ---- The consumer ----------------------------------------------------------

// Waits until nothing more can be done without the consumer.
static struct hr_loader_stats settle(hr_loader loader)
{
    struct hr_loader_stats stats;

    do {
        test_sleep(TEST_MS);
        hr_loader_stats(loader, &stats);
    } while (stats.ready < loader->depth || stats.reading);
    return stats;
}

// Without a consumer nothing is read, and no memory is taken.
TEST_CASE(stalled)
{
    auto_device dev = test_device("cpu", 2, 0);
    struct hr_loader_params p = data_begin(&calls, N, dev);
    struct hr_loader_stats before, after;
    hr_loader loader;
    hr_loaded b;
    int64_t allocs;

    p.epochs = HR_ENDLESS;
    loader = hr_loader_create(&p);
    if (!loader) {
        CHECK(false, "%s", hr_last_error());
        return;
    }
    for (int i = 0; i < 3; i++) {
        before = settle(loader);
        allocs = hr__test_allocs();
        test_sleep(20 * TEST_MS);
        hr_loader_stats(loader, &after);
        CHECK(hr__test_allocs() == allocs &&
                  after.encoded_bytes == before.encoded_bytes &&
                  atomic_load(&calls.reads) == 4 * (i + loader->depth),
              "%d reads", atomic_load(&calls.reads));
        CHECK(!hr_loader_next(loader, HR_FOREVER, &b) && b, "%s",
              hr_last_error());
        hr_loaded_release(&b);
    }
    hr_loader_destroy(&loader);
    data_end(&calls);
}

// After a while nothing is allocated any more. (How many samples are at work at
// a time is up to the machine; memory for one more is made once.)
TEST_CASE(steady)
{
    auto_device dev = test_device("cpu", 2, 0);
    const char *folder = data_folder(N, test_seed);
    hr_source files = hr_source_open(folder);
    struct hr_loader_params p = data_begin(&calls, N, dev);
    int64_t before = 0, after = 1;
    hr_loader loader;
    struct data_seen seen = {0};

    p.source = files;
    p.epochs = HR_ENDLESS;
    p.shuffle = false;
    loader = hr_loader_create(&p);
    for (int i = 0; loader && i < 20 && after > before; i++) {
        before = hr__test_allocs();
        CHECK(!data_drain(&seen, loader, 5 * N / 4), "%s", hr_last_error());
        after = hr__test_allocs();
    }
    CHECK(after == before, "%d allocations", (int)(after - before));
    hr_loader_destroy(&loader);
    data_seen_finish(&seen);
    hr_source_close(&files);
    data_end(&calls);
}

// True if all of a batch is read but for one sample.
static bool one_is_left(struct hr__loader *l)
{
    bool found = false;

    pthread_mutex_lock(&l->lock);
    for (int i = 0; i < l->pub.depth; i++)
        found |= l->slots[i].state == SLOT_READ && !l->slots[i].wanted &&
                 l->slots[i].reading == 1;
    pthread_mutex_unlock(&l->lock);
    return found;
}

static void lengthen(const char *path)
{
    FILE *f = fopen(path, "ab");

    CHECK(f && !ftruncate(fileno(f), 1 << 20) && !fclose(f), "%s", path);
}

// As if the device had so many batches more.
static void more_to_do(struct hr__loader *l, int batches)
{
    pthread_mutex_lock(&l->lock);
    l->making += batches * l->pub.batch;
    pthread_cond_broadcast(&l->bytes);
    pthread_mutex_unlock(&l->lock);
}

// Later on, a sample that needs more memory than there is waits while the
// device has enough to do. (Nothing else can happen meanwhile: the sleep is for
// a loader that does not wait.)
TEST_CASE(larger_waits)
{
    auto_device dev = test_device("cpu", 2, 0);
    hr_source files = hr_source_open(data_folder(N, test_seed));
    struct hr_loader_params p = data_begin(&calls, N, dev);
    struct hr_loader_stats before, after;
    struct data_seen seen = {0};
    struct hr__loader *l;
    char path[4096];
    hr_loader loader;

    p.source = files;
    p.epochs = HR_ENDLESS;
    p.shuffle = false;
    loader = hr_loader_create(&p);
    CHECK(loader && !data_drain(&seen, loader, 20), "%s", hr_last_error());
    l = hr__loader_of(loader);
    before = settle(loader);
    CHECK(before.batches >= 4 * (uint64_t)loader->depth, "too few batches");
    lengthen(hr_source_path(files, l->plan.k % N, path, sizeof(path)));
    more_to_do(l, 10);
    CHECK(!data_drain(&seen, loader, 1), "%s", hr_last_error());
    do
        hr_loader_stats(loader, &after);
    while (after.encoded_bytes == before.encoded_bytes && !one_is_left(l));
    test_sleep(20 * TEST_MS);
    hr_loader_stats(loader, &after);
    CHECK(after.encoded_bytes == before.encoded_bytes, "%zu bytes, %zu before",
          after.encoded_bytes, before.encoded_bytes);
    more_to_do(l, -10);
    CHECK(!data_drain(&seen, loader, (uint64_t)loader->depth + 1), "%s",
          hr_last_error());
    hr_loader_stats(loader, &after);
    CHECK(after.encoded_bytes > before.encoded_bytes && !after.failed,
          "%zu bytes", after.encoded_bytes);
    hr_loader_destroy(&loader);
    data_seen_finish(&seen);
    hr_source_close(&files);
    data_end(&calls);
}

// When all readers have nothing to do, and a batch is given back, one of them
// wakes, and wakes the others.
TEST_CASE(woken)
{
    auto_device dev = test_device("cpu", 1, 0);
    struct hr_loader_params p = data_begin(&calls, N, dev);
    hr_loader loader;
    hr_loaded b;

    p.epochs = HR_ENDLESS;
    loader = hr_loader_create(&p);
    if (!loader) {
        CHECK(false, "%s", hr_last_error());
        return;
    }
    settle(loader);
    atomic_store(&calls.gate, 1);
    CHECK(!hr_loader_next(loader, HR_FOREVER, &b) && b, "%s", hr_last_error());
    hr_loaded_release(&b);
    CHECK(test_reaches(&calls.in, 4), "%d reads in flight",
          atomic_load(&calls.in));
    atomic_store(&calls.gate, 0);
    hr_loader_destroy(&loader);
    data_end(&calls);
}

static bool readable(hr_loader loader)
{
    struct pollfd fd = {.fd = loader->fd, .events = POLLIN};

    return poll(&fd, 1, 0) == 1;
}

TEST_CASE(descriptor)
{
    struct hr_loader_params p = data_begin(&calls, N, NULL);
    struct pollfd fd = {.events = POLLIN};
    hr_loader loader;
    hr_loaded b = NULL;
    int batches = 0;

    atomic_store(&calls.gate, 1);
    loader = hr_loader_create(&p);
    CHECK(loader && !readable(loader), "readable too early");
    CHECK(hr_loader_next(loader, 0, &b) == HR_PENDING && !b, "not yet");
    CHECK(hr_loader_next(loader, TEST_MS, &b) == HR_PENDING && !b, "not yet");
    atomic_store(&calls.gate, 0);
    for (fd.fd = loader->fd; poll(&fd, 1, -1) == 1;) {
        CHECK(!hr_loader_next(loader, 0, &b), "%s", hr_last_error());
        if (!b)
            break;
        batches++;
        hr_loaded_release(&b);
    }
    CHECK(batches == N / 4 && readable(loader), "%d batches", batches);
    hr_loader_destroy(&loader);
    data_end(&calls);
}

// ---- Memory ----------------------------------------------------------------

// A batch is no larger than an epoch, and there are no more than there will be.
TEST_CASE(short_epochs)
{
    static const struct {
        int64_t epochs;
        int batch, holds, least, most;  // samples; batches
    } cases[] = {
        {1, 1 << 30, N, 2, 2},  // far too large for memory
        {1, 40, 40, 2, 2},
        {2, 30, 30, 2, 4},
        {HR_ENDLESS, N, N, 5, 64},  // batches of the next epochs
    };
    auto_device dev = test_device("cpu", 16, 0);

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct hr_loader_params p = data_begin(&calls, N, dev);
        struct data_seen seen = {0};
        struct hr_loader_stats stats;
        hr_loader loader;

        p.epochs = cases[i].epochs;
        p.batch = cases[i].batch;
        if ((loader = hr_loader_create(&p))) {
            hr_loader_stats(loader, &stats);
            CHECK(loader->batch == cases[i].holds &&
                      loader->depth >= cases[i].least &&
                      loader->depth <= cases[i].most,
                  "case %zu: %d batches of %d", i, loader->depth,
                  loader->batch);
            CHECK(stats.batch_bytes == (size_t)loader->depth * 3 * DATA_SIDE *
                                           DATA_SIDE * sizeof(float) *
                                           (size_t)loader->batch,
                  "case %zu: %zu bytes", i, stats.batch_bytes);
        }
        CHECK(loader && !data_drain(&seen, loader, loader->batches) &&
                  seen.num == N,
              "case %zu: %zu samples: %s", i, seen.num, hr_last_error());
        hr_loader_destroy(&loader);
        data_seen_finish(&seen);
        data_end(&calls);
    }
}

// A batch that is long work for an engine's threads has one less beside it: 16
// pictures for each of them.
TEST_CASE(long_batches)
{
    static const struct {
        int threads, batch, depth;
    } cases[] = {{1, 15, 5}, {1, 16, 4}, {2, 31, 5}, {2, 32, 4}, {16, 8, 9}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        auto_device dev = test_device("cpu", cases[i].threads, 0);
        struct hr_loader_params p = data_begin(&calls, N, dev);
        hr_loader loader;

        p.epochs = HR_ENDLESS;
        p.batch = cases[i].batch;
        loader = hr_loader_create(&p);
        CHECK(loader && loader->depth == cases[i].depth, "case %zu: %d", i,
              loader ? loader->depth : 0);
        hr_loader_destroy(&loader);
        data_end(&calls);
    }
}

// ---- The end at any time ---------------------------------------------------

static void *stop_later(void *ctx)
{
    test_sleep(5 * TEST_MS);
    hr_loader_stop(ctx);
    return NULL;
}

// A caller that waits for a batch that never comes is woken.
TEST_CASE(stopped)
{
    struct hr_loader_params p = data_begin(&calls, N, NULL);
    hr_loaded b;
    hr_loader loader;
    pthread_t thread;

    atomic_store(&calls.gate, 1);
    loader = hr_loader_create(&p);
    pthread_create(&thread, NULL, stop_later, (void *)(uintptr_t)loader);
    CHECK(hr_loader_next(loader, HR_FOREVER, &b) == HR_ECANCELED && !b,
          "not woken");
    CHECK(readable(loader), "not readable");
    pthread_join(thread, NULL);
    atomic_store(&calls.gate, 0);
    hr_loader_destroy(&loader);
    CHECK(!loader, "still there");
    data_end(&calls);
}

TEST_CASE(destroyed_anywhere)
{
    auto_device dev = test_device("cpu", 2, 0);
    uint64_t seed = test_seed;
    auto_seen seen = {0};

    for (int i = 0; i < test_loops(60); i++) {
        struct hr_loader_params p = data_begin(&calls, N, i % 2 ? dev : NULL);
        uint64_t steps = next_random(&seed) % 12;
        hr_loader loader;
        hr_loaded held = NULL;
        uint64_t sum = 0;

        p.epochs = HR_ENDLESS;
        p.batch = 1 + (int)(next_random(&seed) % 9);
        p.reads = 1 + (int)(next_random(&seed) % 6);
        p.as_ready = i % 3 == 0;
        loader = hr_loader_create(&p);
        CHECK(loader && (!steps || !data_drain(&seen, loader, steps)), "%s",
              hr_last_error());
        if (i % 4 == 0)
            hr_loader_next(loader, HR_FOREVER, &held);
        if (i % 5 == 0)
            test_sleep((int64_t)(next_random(&seed) % 2000) * 1000);
        hr_loader_destroy(&loader);
        // A held batch is whole.
        for (size_t k = 0; held && k < held->batch->size; k++)
            sum += ((const uint8_t *)held->batch->params.data)[k];
        CHECK(!held || sum, "a batch of nothing");
        hr_loaded_release(&held);
        data_end(&calls);
    }
}

TEST_CASE(no_memory)
{
    auto_device dev = test_device("cpu", 1, 0);
    struct hr_loader_params p = data_begin(&calls, N, dev);
    bool done = false;
    int nth;

    p.reads = 1;
    for (nth = 1; nth < 300 && !done; nth++) {
        auto_seen seen = {0};
        hr_loader loader;
        enum hr_status status = HR_OK;

        hr__test_fail_alloc(nth, false);
        loader = hr_loader_create(&p);
        // FAIL: a batch for which there was no memory is an error, others come.
        for (bool more = loader; more;) {
            hr_loaded b;
            enum hr_status now = hr_loader_next(loader, HR_FOREVER, &b);

            status = now ? now : status;
            more = now || b;
            hr_loaded_release(&b);
        }
        done = loader && !status && nth > 40;
        CHECK(loader || hr_last_status() == HR_ENOMEM, "%d: %s", nth,
              hr_last_error());
        CHECK(!status || status == HR_ENOMEM || status == HR_EIO, "%d: %d", nth,
              status);
        hr_loader_destroy(&loader);
        hr__test_fail_alloc(0, false);
    }
    CHECK(done, "it never runs");
    data_end(&calls);
}

// ---- fork() ----------------------------------------------------------------

static int in_child(hr_loader *loader, hr_loaded *held)
{
    struct hr_loader_stats stats;
    struct hr_loader_state state;
    hr_loaded b;

    alarm(20);
    if (hr_loader_next(*loader, HR_FOREVER, &b) != HR_EFORK || b)
        return 1;
    if (hr_loader_save(*loader, &state) != HR_EFORK)
        return 2;
    hr_loader_stats(*loader, &stats);
    hr_loader_stop(*loader);
    hr_loaded_release(held);
    hr_loader_destroy(loader);
    return *loader || *held ? 3 : 0;
}

TEST_CASE(forked)
{
    struct hr_loader_params p = data_begin(&calls, N, NULL);
    struct data_seen seen = {0};
    hr_loader loader;
    hr_loaded held;
    int status = -1;
    pid_t pid;

    loader = hr_loader_create(&p);
    CHECK(loader && !hr_loader_next(loader, HR_FOREVER, &held) && held, "%s",
          hr_last_error());
    pid = fork();
    if (!pid)
        _exit(in_child(&loader, &held));
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "child: %d", status);
    hr_loaded_release(&held);
    CHECK(!data_drain(&seen, loader, 0) && seen.num == N - 4, "%zu in all",
          seen.num);
    data_seen_finish(&seen);
    hr_loader_destroy(&loader);
    data_end(&calls);
}

// ---- Params ----------------------------------------------------------------

static void wrong(struct hr_loader_params p, const char *reason)
{
    auto_loader loader = hr_loader_create(&p);

    CHECK(!loader && hr_last_status() == HR_EINVAL &&
              strstr(hr_last_error(), reason),
          "%s, not %s", hr_last_error(), reason);
}

// docs/loader.md has a line for each parameter, and each has a place of its
// own.
TEST_CASE(params_are_in_the_page)
{
    static char page[1 << 17];
    FILE *file = fopen(HR_SOURCE_DIR "/docs/loader.md", "r");
    size_t size = file ? fread(page, 1, sizeof(page) - 1, file) : 0;
    const struct hr_loader_param *row;
    uint64_t seen[16] = {0};
    char line[512];

    CHECK(size > 0, "docs/loader.md");
    for (int i = 0; (row = hr_loader_param(i)); i++) {
        snprintf(line, sizeof(line), "| `.%s` | %s | %s |\n", row->name,
                 row->fallback, row->help);
        CHECK(strstr(page, line), "no line %s", line);
        CHECK(!(seen[row->offset / 64] >> row->offset % 64 & 1), "%s twice",
              row->name);
        seen[row->offset / 64] |= UINT64_C(1) << row->offset % 64;
    }
    CHECK(!hr_loader_param(-1) && !hr_loader_param(1000), "no such row");
    if (file)
        fclose(file);
}

TEST_CASE(wrong_params)
{
    static const struct hr_op resize[] = {HR_OP_DECODE(0),
                                          HR_OP_RESIZE(.short_side = 9)};
    static const struct hr_op middle[][3] = {
        {HR_OP_DECODE(0), HR_OP_RESIZE(.w = -1, .h = 3),
         HR_OP_CROP(.w = 3, .h = 3)},
        {HR_OP_DECODE(0), HR_OP_NORMALIZE(0), HR_OP_CROP(.w = 3, .h = 3)},
        {HR_OP_DECODE(0), HR_OP_DECODE(0), HR_OP_CROP(.w = 3, .h = 3)},
        {HR_OP_DECODE(0), {.type = 99}, HR_OP_CROP(.w = 3, .h = 3)},
    };
    struct hr_loader_params p = data_begin(&calls, N, NULL), q;

    q = p, q.source = NULL;
    wrong(q, "no samples");
    q = p, q.batch = -1;
    wrong(q, "batch: -1 is not in 0 .. ");
    q = p, q.reads = 257;
    wrong(q, "reads: 257 is not in 0 .. 256");
    q = p, q.epochs = -2;
    wrong(q, "epochs: -2 is not in -1 .. ");
    q = p, q.map_threads = -1;
    wrong(q, "map_threads: -1 ");
    q = p, q.cpu_share = 1.5;
    wrong(q, "cpu_share: 1.5 is not in 0 .. 1");
    q = p, q.tier = 3;
    wrong(q, "tier: 3 is not in 0 .. 2");
    q = p, q.shards = 2, q.shard = 2;
    wrong(q, "shard: there is no 2 of 2");
    q = p, q.resume = &(struct hr_loader_state){{0}};
    wrong(q, "not the state of a loader");
    q = p, q.num_ops = 0;
    wrong(q, "decode");
    q = p, q.ops = data_ops + 1, q.num_ops = 2;
    wrong(q, "decode");
    q = p, q.ops = resize, q.num_ops = 2;
    wrong(q, "different sizes");
    q = p, q.ops = middle[0], q.num_ops = 3;
    wrong(q, "resize to -1x3");
    q.ops = middle[1];
    wrong(q, "normalize must be the last");
    q.ops = middle[2];
    wrong(q, "decode must be the first");
    q.ops = middle[3], q.w = q.h = 3;
    wrong(q, "unknown op 99");
    q = p, q.w = 3;
    wrong(q, "h and w");
    CHECK(!hr_loader_create(NULL), "no params");
    CHECK(!hr_source_of_calls(&(struct hr_source_calls){.num = 3}), "no read");
    data_end(&calls);
}

TEST_MAIN(data_main)
