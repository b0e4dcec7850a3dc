// SPDX-License-Identifier: Apache-2.0
// The VA-API engine on a driver that is slow, one picture after the other: many
// wait in the queue, some in the driver, and each has its time from when those
// before it are through.
#include "vaapi_env.h"

// Eight in the driver take longer than one may; a late wake-up does not matter.
enum { N = 24, LATENCY_MS = 120, DEADLINE_MS = 700, LONG_MS = 1500 };

static hr_job submit(hr_device dev, hr_batch out, const struct bytes *b, int n,
                     bool strict)
{
    static const struct hr_op ops[] = {hr_op_decode(0),
                                       hr_op_resize(.w = 40, .h = 30)};
    struct hr_sample s[N];

    for (int i = 0; i < n; i++)
        s[i] = test_sample(b, ops, 2);
    return hr_submit(dev, s, n, out, hr_job_params(.strict = strict));
}

// depth pictures are in the driver at a time.
static void slow(int depth, const struct bytes *b)
{
    struct hr_stats stats;
    hr_device dev;
    hr_batch out;
    hr_job job;

    vaapi_driver("default,reset,personality=ihd,cores=1");
    dev = vaapi_open_with(
        hr_device_params(.threads = 1, .depth = depth,
                         .deadline_ns = DEADLINE_MS * TEST_MS));
    CHECK(dev != NULL, "%s", hr_last_error());
    if (!dev)
        return;
    out = hr_batch_create(dev,
                          hr_batch_params(.n = N, .c = 3, .h = 30, .w = 40));
    // (Not before: the device's test need not take so long.)
    vaapi_driver("fault=Decode:sleep%d:always", LATENCY_MS);
    job = submit(dev, out, b, N, true);
    CHECK(hr_job_wait(job, 60000 * TEST_MS) == HR_OK, "depth %d: %s", depth,
          job->results[N - 1].message);
    for (int i = 0; i < N; i++)
        CHECK(job->results[i].num_spans == 2, "depth %d, sample %d: %s", depth,
              i, job->results[i].message);
    hr_job_release(&job);
    hr_device_stats(dev, &stats);
    CHECK(stats.abandoned == 0, "depth %d: %d given up", depth,
          (int)stats.abandoned);
    hr_batch_destroy(&out);
    vaapi_driver("fault=none");
    vaapi_close(&dev);
}

TEST_CASE(slow_driver)
{
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg_of(YCC(.factors = {0x22}), &seed);

    slow(2, &b);
    slow(8, &b);
}

static void run_one(hr_device dev, hr_batch out, const struct bytes *b,
                    const char *what)
{
    auto_job job = submit(dev, out, b, 1, false);
    const struct hr_result *r = job->results;

    CHECK(hr_job_wait(job, 60000 * TEST_MS) == HR_OK, "%s: %s", what,
          r->message);
    CHECK(r->fallbacks == 1 && r->why & HR_WHY_TIMEOUT, "%s: why %#x", what,
          r->why);
}

// A picture that never lands keeps the context; one that needs a larger one
// does not wait for that till the HAL takes it away.
TEST_CASE(stuck_context)
{
    uint64_t seed = test_seed;
    auto_bytes small = test_jpeg_of(YCC(.factors = {0x22}), &seed);
    auto_bytes wide = test_jpeg_of(
        jpeg_ycc(.w = 3000, .h = 64, .quality = 90, .factors = {0x22}), &seed);
    struct hr_stats stats;
    hr_device dev;
    hr_batch out;

    vaapi_driver("default,reset,personality=ihd");
    dev = vaapi_open_with(
        hr_device_params(.threads = 1, .deadline_ns = LONG_MS * TEST_MS));
    CHECK(dev != NULL, "%s", hr_last_error());
    out = hr_batch_create(dev,
                          hr_batch_params(.n = 1, .c = 3, .h = 30, .w = 40));
    vaapi_driver("fault=Decode:hang:1");
    run_one(dev, out, &small, "it hangs");
    run_one(dev, out, &wide, "behind it");
    hr_device_stats(dev, &stats);
    // The first; or none, where the engine saw first that it is late.
    CHECK(stats.abandoned <= 1, "%d given up", (int)stats.abandoned);
    vaapi_driver("release");
    hr_batch_destroy(&out);
    vaapi_close(&dev);
}

TEST_MAIN(vaapi_main)
