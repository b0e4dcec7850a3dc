// SPDX-License-Identifier: Apache-2.0
// Allocation failure: each allocation and thread start of a scenario is failed
// once, then for ever. The scenario ends with HR_ENOMEM, in whole or for some
// samples, never with a crash or a wrong picture, leaves nothing behind (a
// sanitizer build sees that), and works again right after.
#include "scene.h"

// Statuses that a failed allocation may become on its way.
static bool fine(enum hr_status s)
{
    return s == HR_OK || s == HR_ENOMEM || s == HR_EINPUT;
}

struct scenario {
    const char *name;
    // True: all went well. *bad counts what must not happen.
    bool (*run)(int *bad);
};

static struct bytes baseline, progressive, png;
static const char *path;

static const struct hr_op ops[] = {
    {.type = HR_OP_DECODE},
    {.type = HR_OP_CROP, .crop = {.x = 3, .y = 5, .w = 50, .h = 40}},
    {.type = HR_OP_RESIZE, .resize = {.w = 20, .h = 16}},
    {.type = HR_OP_FLIP, .flip = {.transpose = true}},
    {.type = HR_OP_RESIZE, .resize = {.w = 11, .h = 9}},
    {.type = HR_OP_NORMALIZE},
};
enum { OPS = sizeof(ops) / sizeof(*ops) };

static uint8_t *expected[4];  // per source: baseline, progressive, PNG, path

static struct hr_sample source(int i)
{
    const struct bytes *b[] = {&baseline, &progressive, &png, NULL};
    struct hr_sample s = {.ops = ops, .num_ops = OPS};

    if (i == 3) {
        s.path = path;
    } else {
        s.data = b[i]->data;
        s.size = b[i]->size;
    }
    return s;
}

static hr_batch make_batch(hr_device dev)
{
    return hr_batch_create(dev,
                           hr_batch_params(.n = 4, .c = 3, .h = 9, .w = 11));
}

// ---- Scenarios ------------------------------------------------------------

static bool failed(int *bad)
{
    *bad += hr_last_status() != HR_ENOMEM;
    return false;
}

static bool job_on(hr_device dev, int *bad)
{
    struct hr_sample s[4];
    auto_batch out = make_batch(dev);
    hr_job job;
    bool ok;

    for (int i = 0; i < 4; i++)
        s[i] = source(i);
    if (!out)
        return failed(bad);
    job = hr_submit(dev, s, 4, out, NULL);
    if (!job) {
        hr_batch_destroy(&out);
        return failed(bad);
    }
    *bad += hr_job_fd(job) < 0 && hr_last_status() != HR_ENOMEM;
    ok = hr_job_wait(job, HR_FOREVER) == HR_OK;
    for (int i = 0; i < 4; i++) {
        const uint8_t *slot = (uint8_t *)out->params.data +
                              out->params.stride_n * (size_t)i;

        *bad += !fine(job->results[i].status);
        if (job->results[i].status == HR_OK && expected[i])
            *bad += memcmp(slot, expected[i], out->params.stride_n) != 0;
    }
    hr_job_release(&job);
    hr_wait_all(dev, HR_FOREVER);
    return ok;
}

static bool on_device(const char *name, int threads,
                      bool (*work)(hr_device dev, int *bad), int *bad)
{
    auto_device dev = hr_device_open(name, &(struct hr_device_params){
                                               .threads = threads});
    bool ok;

    if (!dev)
        return failed(bad);
    ok = work(dev, bad);
    return ok;
}

static bool cpu_job(int *bad)
{
    return on_device("cpu", 2, job_on, bad);
}

static bool fake_job(int *bad)
{
    return on_device("fake", 1, job_on, bad);
}

// Each step may be NULL; the next is told so.
static bool chain_on(hr_device dev, int *bad)
{
    hr_image i[5] = {0};
    int n = 0;
    bool ok;

    i[n] = hr_decode(dev, baseline.data, baseline.size, NULL);
    while (n < 4 && i[n]) {
        hr_image from = i[n++];

        i[n] = n == 1   ? hr_crop(dev, from, &ops[1].crop)
               : n == 2 ? hr_resize(dev, from, &ops[2].resize)
               : n == 3 ? hr_apply_op(dev, from, &ops[3])
                        : test_apply(dev, from,
                                     &(struct hr_op){.type = HR_OP_NORMALIZE},
                                     HR_F16, HR_NHWC);
    }
    ok = i[n] != NULL;
    if (!ok)
        failed(bad);
    for (int k = 0; k < 5 && i[k]; k++) {
        enum hr_status s = hr_image_wait(i[k], HR_FOREVER);

        ok = ok && s == HR_OK;
        *bad += !fine(s);
    }
    for (int k = 0; k < 5; k++)
        hr_image_release(&i[k]);
    return ok;
}

static bool eager_chain(int *bad)
{
    return on_device("cpu", 2, chain_on, bad);
}

// With a timeout: the watchdog is started, too.
static bool timeout_on(hr_device dev, int *bad)
{
    auto_image out = hr_image_create(dev,
                                     hr_image_params(.w = 11, .h = 9, .c = 3));
    struct hr_sample s = source(3);
    auto_job job = NULL;
    bool ok;

    s.out = out;
    job = out ? hr_submit(dev, &s, 1, NULL,
                          hr_job_params(.timeout_ns = 60000 * TEST_MS))
              : NULL;
    ok = job && hr_job_wait(job, HR_FOREVER) == HR_OK;
    if (job)
        *bad += !fine(job->results[0].status);
    else
        failed(bad);
    return ok;
}

static bool timeout_job(int *bad)
{
    return on_device("cpu", 1, timeout_on, bad);
}

// The second job may find what the first left.
static bool cached_job(int *bad)
{
    auto_cache cache = hr_cache_create((size_t)1 << 20);
    auto_device dev = NULL;
    struct hr_cache_stats stats;
    bool ok;

    if (!cache)
        return failed(bad);
    dev = hr_device_open("cpu", hr_device_params(.threads = 1, .cache = cache));
    if (!dev)
        return failed(bad);
    ok = job_on(dev, bad) && job_on(dev, bad);
    hr_cache_stats(cache, &stats);
    *bad += stats.bytes > cache->bytes;
    return ok && stats.hits;
}

// ---- Walking --------------------------------------------------------------

static const struct scenario scenarios[] = {
    {"cpu job", cpu_job},
    {"job with an engine", fake_job},
    {"eager chain", eager_chain},
    {"job with a timeout", timeout_job},
    {"jobs with a cache", cached_job},
};

// Devices close on other threads, too: nothing may be armed until they have.
static void settle(void)
{
    for (int i = 0; i < 2000; i++) {
        hr_device dev;

        if (atomic_load(&fake_counts.closes) == atomic_load(&fake_counts.opens))
            return;
        // Opening takes down what no thread could be had for.
        test_sleep(TEST_MS);
        if (i % 10 == 9 && (dev = hr_device_open("nothing", NULL)))
            hr_device_close(&dev);
    }
    CHECK(false, "never closed");
}

static void walk(const struct scenario *s, bool for_ever)
{
    int n, bad = 0, in_a_row = 0, passed = 0, injected;

    // Threads share the work differently each time, so that the number of
    // allocations varies: several runs without a failure end the walk.
    for (n = 1; n < 5000 && in_a_row < 4; n++) {
        int64_t before = hr__test_allocs();
        bool ok, reached;

        hr__test_fail_alloc(n, for_ever);
        ok = s->run(&bad);
        settle();
        reached = hr__test_allocs() - before >= n;
        hr__test_fail_alloc(0, false);
        passed += ok;
        in_a_row = reached ? 0 : in_a_row + 1;
        CHECK(ok || reached, "%s: failed by itself at %d", s->name, n);
        CHECK(!(ok && reached && for_ever && n == 1), "%s: nothing failed",
              s->name);
        CHECK(bad == 0, "%s: allocation %d%s: %s", s->name, n,
              for_ever ? " and on" : "", hr_last_error());
        if (bad)
            break;
        // Right after, all is well.
        if (n % 5 == 0)
            CHECK(s->run(&bad) && !bad, "%s: does not recover from %d", s->name,
                  n);
        settle();
    }
    injected = n - 1 - in_a_row;
    CHECK(injected > 5 && n < 5000, "%s: %d allocations", s->name, injected);
    printf("\n  %s%s: %d allocations failed, %d times it went well all the "
           "same ",
           s->name, for_ever ? ", for ever" : "", injected, passed - in_a_row);
}

TEST_CASE(once)
{
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++)
        walk(&scenarios[i], false);
}

TEST_CASE(for_ever)
{
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++)
        walk(&scenarios[i], true);
}

// One device that lives through all failures and then works.
TEST_CASE(same_device)
{
    auto_device dev = test_device("fake", 2, 0);
    int bad = 0;

    for (int n = 1; n < test_loops(60); n++) {
        hr__test_fail_alloc(n % 20 + 1, n % 3 == 0);
        job_on(dev, &bad);
        chain_on(dev, &bad);
        hr__test_fail_alloc(0, false);
        CHECK(bad == 0, "round %d: %s", n, hr_last_error());
        CHECK(job_on(dev, &bad) && chain_on(dev, &bad) && !bad,
              "round %d: does not recover", n);
        check_idle(dev);
        if (bad)
            break;
    }
}

static void make_expected(void)
{
    auto_device dev = test_device("cpu", 1, 0);
    auto_batch out = make_batch(dev);
    struct hr_sample s[4];
    auto_job job = NULL;

    for (int i = 0; i < 4; i++)
        s[i] = source(i);
    job = hr_submit(dev, s, 4, out, NULL);
    if (!job || hr_job_wait(job, HR_FOREVER))
        abort();
    for (int i = 0; i < 4; i++)
        expected[i] = test_copy((uint8_t *)out->params.data +
                                    out->params.stride_n * (size_t)i,
                                out->params.stride_n);
}

int main(int argc, char **argv)
{
    uint64_t seed = 9;
    int result;

    baseline = test_jpeg(90, 70, &seed);
    progressive = test_jpeg_of(jpeg_ycc(.w = 90, .h = 70, .factors = {0x22},
                                        .quality = 80, .progressive = true),
                               &seed);
    png = test_png(90, 70, &seed);
    path = test_file(&baseline, ".jpg");
    make_expected();
    fake_begin(.spans = FAKE_ALL(FAKE_R), .own_buffers = true);
    result = test_main(argc, argv);
    for (int i = 0; i < 4; i++)
        free(expected[i]);
    free(baseline.data);
    free(progressive.data);
    free(png.data);
    return result;
}
