// SPDX-License-Identifier: Apache-2.0
// Many samples for one thread of the CPU engine: with lanes and without them
// come the same tensors and the same results, whatever the files are; a job
// that is cancelled ends; few samples never wait in a lane; and what fills a
// cache on the way is what one stream fills it with.
#include "backends/cpu/cpu.h"
#include "hal/device/device.h"
#include "testing.h"

enum { N = 96, SIDE = 40 };

static const struct hr_op plain[] = {
    hr_op_decode(0),
    hr_op_random_resized_crop(.w = SIDE, .h = SIDE),
    hr_op_random_flip(.horizontal = .5),
};
// With codes behind the only step: in place and apart, and one that moves
// pixels.
static const struct hr_op codes[] = {
    hr_op_decode(0),
    hr_op_random_resized_crop(.w = SIDE + 6, .h = SIDE),
    {.type = HR_OP_ADJUST_CONTRAST, .adjust_contrast = {1.3}},
    {.type = HR_OP_ADJUST_SHARPNESS, .adjust_sharpness = {.4}},
    hr_op_crop(.x = 2, .y = -1, .w = SIDE, .h = SIDE, .pad = true),
};
static const struct hr_op *ops = plain;
static int num_ops = 3;
static struct bytes files[N];

// Makes a file as folders may hold them: most are for lanes.
static struct bytes file_of(int i, uint64_t *seed)
{
    int more = test_races_only() ? 90 : 240;
    struct jpeg_spec spec = {.w = 60 + random_below(seed, more),
                             .h = 60 + random_below(seed, more),
                             .space = JCS_YCbCr,
                             .quality = 40 + random_below(seed, 55),
                             .optimize = i % 2};

    switch (i % 16) {
    case 3:
        return test_png(spec.w, spec.h, seed);
    case 5:
        return test_damaged(spec.w, spec.h, seed);
    case 7:
        return test_warned(spec.w, spec.h, seed);
    case 9:
        spec.progressive = true;
        break;
    case 11:
        spec.restart = 3;
        break;
    case 13:
        spec.space = JCS_GRAYSCALE;
        break;
    case 2:
    case 4:
    case 6:
        spec.factors[0] = 0x22;
        spec.factors[1] = spec.factors[2] = 0x11;
    }
    return test_jpeg_of(&spec, seed);
}

static void make_files(void)
{
    uint64_t seed = test_seed;

    for (int i = 0; i < N; i++) {
        files[i] = file_of(i, &seed);
        // Anywhere behind the header, mostly.
        if (i % 8 == 1)
            files[i].data[files[i].size / 2 +
                          (size_t)random_below(&seed, (int)files[i].size / 2)] ^=
                0x5a;
    }
}

static void free_files(void)
{
    for (int i = 0; i < N; i++)
        free(files[i].data);
}

static int threads = 1;  // of a device

static hr_device open_device(const char *wish)
{
    hr_device dev;

    setenv("HEADRACE_LANES", wish, 1);
    dev = test_device("cpu", threads, 0);
    unsetenv("HEADRACE_LANES");
    return dev;
}

static hr_cache cache;  // of all samples; NULL: none

static hr_job submit(hr_device dev, hr_batch batch, int n)
{
    struct hr_sample s[N];
    hr_job job;

    for (int i = 0; i < n; i++)
        s[i] = test_sample(&files[i], ops, num_ops, .cache = cache,
                           .random = {.seed = 7, .index = (uint64_t)i});
    job = hr_submit(dev, s, n, batch,
                    hr_job_params(.on_error = HR_ON_ERROR_ZERO));
    CHECK(job, "%s", hr_last_error());
    return job;
}

static hr_batch batch_of(hr_device dev)
{
    return hr_batch_create(dev, hr_batch_params(.n = N, .c = 3, .h = SIDE,
                                                .w = SIDE));
}

static bool has_lanes(hr_device dev)
{
    return cpu_engine(hr__host((struct hr__device *)dev))->ops.lanes != NULL;
}

// How many pictures lanes have made, at least their beginning.
static int in_lanes(hr_device dev)
{
    const struct cpu_engine *c = cpu_engine(hr__host((struct hr__device *)dev));
    int64_t n = 0;

    for (int i = 0; i < c->num_workers; i++)
        n += c->workers[i].in_lanes;
    return (int)n;
}

// True if lanes decoded a good part of a job.
static bool used_lanes(hr_device dev)
{
    return in_lanes(dev) > N / 3;
}

static void same_result(const struct hr_result *a, const struct hr_result *b,
                        int i)
{
    CHECK(a->status == b->status && a->stage == b->stage &&
              a->width == b->width && a->height == b->height &&
              a->warnings == b->warnings && a->offset == b->offset &&
              !strcmp(a->message, b->message),
          "%d: %d, '%s' in lanes, %d, '%s' without", i, a->status, a->message,
          b->status, b->message);
}

TEST_CASE(same)
{
    auto_device with = open_device("always"), without = open_device("never");
    auto_batch a = batch_of(with), b = batch_of(without);
    hr_job x, y;

    if (!has_lanes(with)) {
        test_not_run("this processor has no lanes");
    } else {
        x = submit(with, a, N);
        y = submit(without, b, N);
        hr_job_wait(x, HR_FOREVER);
        hr_job_wait(y, HR_FOREVER);
        for (int i = 0; i < N; i++)
            same_result(&x->results[i], &y->results[i], i);
        CHECK(!memcmp(a->params.data, b->params.data, a->size), "pixels");
        CHECK(used_lanes(with) && !used_lanes(without),
              "lanes were not used, or without being asked for");
        hr_job_release(&x);
        hr_job_release(&y);
    }
}

static hr_job epoch(hr_device dev, hr_batch batch)
{
    hr_job job = submit(dev, batch, N);

    hr_job_wait(job, HR_FOREVER);
    return job;
}

// Two epochs with a cache of their own; made: pictures that lanes have made by
// then.
static void two_epochs(hr_device dev, hr_batch batch, hr_job jobs[2],
                       int made[2], struct hr_cache_stats *stats)
{
    void *first = malloc(batch->size);

    cache = hr_cache_create((size_t)64 << 20);
    for (int i = 0; i < 2; i++) {
        memset(batch->params.data, 0xee, batch->size);
        jobs[i] = epoch(dev, batch);
        made[i] = in_lanes(dev);
        if (!i)
            memcpy(first, batch->params.data, batch->size);
    }
    CHECK(!memcmp(first, batch->params.data, batch->size),
          "pixels of what was kept");
    free(first);
    hr_cache_stats(cache, stats);
    hr_cache_release(&cache);
}

TEST_CASE(fills)
{
    auto_device with = open_device("halved"), without = open_device("never");
    auto_batch a = batch_of(with), b = batch_of(without);
    struct hr_cache_stats x, y;
    hr_job jobs[4];
    int made[4];

    if (!has_lanes(with)) {
        test_not_run("this processor has no lanes");
    } else {
        two_epochs(with, a, jobs, made, &x);
        two_epochs(without, b, jobs + 2, made + 2, &y);
        for (int i = 0; i < N; i++) {
            same_result(&jobs[0]->results[i], &jobs[2]->results[i], i);
            same_result(&jobs[1]->results[i], &jobs[3]->results[i], i);
        }
        CHECK(!memcmp(a->params.data, b->params.data, a->size), "pixels");
        CHECK(ops == codes ? !made[0] : made[0] > N / 3, "%d in lanes",
              made[0]);
        CHECK(x.kept > N / 3 && x.kept == y.kept && x.bytes == y.bytes &&
                  x.hits == y.hits,
              "%d kept, %zu bytes, %d hits; of one stream %d, %zu, %d",
              (int)x.kept, x.bytes, (int)x.hits, (int)y.kept, y.bytes,
              (int)y.hits);
        for (int i = 0; i < 4; i++)
            hr_job_release(&jobs[i]);
    }
}

TEST_CASE(augmented)
{
    ops = codes;
    num_ops = 5;
    for (threads = 1; threads <= 3; threads += 2) {
        same();
        fills();
    }
    ops = plain;
    num_ops = 3;
    threads = 1;
}

// More than lanes may hold of it: pictures leave them early.
TEST_CASE(heavy)
{
    const struct jpeg_spec spec = {
        .w = 320, .h = 300, .space = JCS_YCbCr, .quality = 97};
    struct bytes others[N / 2];
    uint64_t seed = test_seed;

    memcpy(others, files, sizeof(others));
    for (int i = 0; i < N / 2; i++)
        files[i] = test_jpeg_of(&spec, &seed);
    fills();
    for (int i = 0; i < N / 2; i++) {
        free(files[i].data);
        files[i] = others[i];
    }
}

TEST_CASE(few)
{
    auto_device dev = open_device("always");
    auto_batch batch = batch_of(dev);
    auto_job job = submit(dev, batch, 15);

    hr_job_wait(job, HR_FOREVER);
    CHECK(!cpu_engine(hr__host((struct hr__device *)dev))->workers[0].in_lanes,
          "15 samples");
}

// Little time for a picture, or a cap on the thread's: one after the other.
TEST_CASE(no_turns)
{
    for (int i = 0; i < 2; i++) {
        auto_device dev = NULL;
        auto_batch batch = NULL;
        auto_job job = NULL;

        setenv("HEADRACE_LANES", "always", 1);
        dev = hr_device_open(
            "cpu", hr_device_params(.threads = 1, .cpu_cap = i ? 99 : 0,
                                    .limits = {.item_ms = i ? 0 : 999}));
        unsetenv("HEADRACE_LANES");
        CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
        batch = batch_of(dev);
        job = submit(dev, batch, N);
        hr_job_wait(job, HR_FOREVER);
        CHECK(
            !cpu_engine(hr__host((struct hr__device *)dev))->workers[0].in_lanes,
            "%s", i ? "capped" : "little time");
    }
}

TEST_CASE(cancelled)
{
    auto_device dev = open_device("always");
    auto_batch batch = batch_of(dev);

    for (int i = 0; i < 6; i++) {
        hr_job job;

        cache = i % 2 ? hr_cache_create((size_t)64 << 20) : NULL;
        job = submit(dev, batch, N);

        test_sleep(i * TEST_MS);
        hr_job_cancel(job);
        CHECK(hr_job_wait(job, 20000 * TEST_MS) != HR_PENDING, "it ends");
        hr_job_release(&job);
        hr_cache_release(&cache);
    }
}

// A trial decides, and whatever it does the pixels are right; no other word
// opens a device.
TEST_CASE(wishes)
{
    hr_device dev = open_device("");
    hr_batch batch = batch_of(dev);
    hr_job job = submit(dev, batch, N);
    struct cpu_engine *c = cpu_engine(hr__host((struct hr__device *)dev));

    hr_job_wait(job, HR_FOREVER);
    CHECK(c->lanes != CPU_LANES_TRIAL, "there was no trial");
    hr_job_release(&job);
    hr_batch_destroy(&batch);
    hr_device_close(&dev);
    setenv("HEADRACE_LANES", "sometimes", 1);
    CHECK(!hr_device_open("cpu", NULL) && hr_last_status() == HR_EINVAL &&
              strstr(hr_last_error(), "always, halved or never"),
          "%s", hr_last_error());
    unsetenv("HEADRACE_LANES");
}

// Several threads: those without a task finish what is in others' lanes.
TEST_CASE(shared)
{
    threads = 3;
    for (int i = 0; i < 3; i++) {
        same();
        fills();
    }
    heavy();
    threads = 1;
}

// The next action of a thread, whatever time it is.
TEST_CASE(next)
{
    static const struct {
        struct cpu_many_view v;  // in lanes, queued, idle, apart, threads
        enum cpu_many_next want;
    } cases[] = {
        // The first is at hand: 16 for each thread, or one by one.
        {{0, 15, 0, 0, 1}, CPU_MANY_TAKE},
        {{0, 14, 0, 0, 1}, CPU_MANY_APART},
        {{0, 30, 0, 0, 2}, CPU_MANY_TAKE},
        {{0, 29, 0, 0, 2}, CPU_MANY_APART},
        // Lanes are filled, but for tasks that idle threads are about to take.
        {{1, 1, 0, 0, 2}, CPU_MANY_TAKE},
        {{15, 1, 0, 0, 2}, CPU_MANY_TAKE},
        {{15, 1, 1, 0, 2}, CPU_MANY_LANES},
        {{15, 2, 1, 0, 2}, CPU_MANY_TAKE},
        {{16, 99, 0, 0, 2}, CPU_MANY_LANES},
        // Too few.
        {{9, 0, 0, 0, 1}, CPU_MANY_LANES},
        {{8, 0, 0, 0, 1}, CPU_MANY_APART},
        {{1, 1, 1, 0, 2}, CPU_MANY_APART},
        // Threads are idle: one thread gives pictures away for each.
        {{16, 0, 1, 0, 2}, CPU_MANY_APART},
        {{9, 0, 1, 0, 2}, CPU_MANY_APART},
        {{16, 0, 1, 5, 8}, CPU_MANY_LANES},
        {{16, 0, 6, 5, 8}, CPU_MANY_APART},
        // .. but a task is about to come.
        {{16, 1, 1, 0, 2}, CPU_MANY_LANES},
        {{16, 1, 2, 0, 4}, CPU_MANY_APART},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        enum cpu_many_next got = cpu_many_next(&cases[i].v);

        CHECK(got == cases[i].want, "case %d: %d", (int)i, got);
    }
}

int main(int argc, char **argv)
{
    int failed;

    test_begin();
    make_files();
    failed = test_main(argc, argv);
    free_files();
    return failed;
}
