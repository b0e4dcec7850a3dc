// SPDX-License-Identifier: Apache-2.0
// Profiles of the VA-API engine: its own time, and its threads'; how long it
// waits for its driver; how much memory it has.
#include <headrace/trace.h>

#include "vaapi_env.h"

enum { N = 24, DEPTH = 8, LATENCY_MS = 20 };

static void run_size(hr_device dev, int w, int h)
{
    static const struct hr_op ops[] = {hr_op_decode(0),
                                       hr_op_resize(.w = 40, .h = 30)};
    uint64_t seed = test_seed;
    struct jpeg_spec spec = *YCC(.factors = {0x22});
    auto_bytes b = {0};
    struct hr_sample s[N];
    auto_batch out = hr_batch_create(dev, hr_batch_params(.n = N, .c = 3,
                                                          .h = 30, .w = 40));
    auto_job job = NULL;

    spec.w = w;
    spec.h = h;
    b = test_jpeg_of(&spec, &seed);
    for (int i = 0; i < N; i++)
        s[i] = test_sample(&b, ops, 2);
    job = hr_submit(dev, s, N, out, hr_job_params(.strict = true));
    CHECK(hr_job_wait(job, HR_FOREVER) == HR_OK, "%s", hr_last_error());
}

static void run(hr_device dev)
{
    run_size(dev, 100, 90);
}

static uint64_t delivered(const struct hr_profile *profile)
{
    return profile->engines[0].parts[HR_PART_DELIVER].times;
}

// Pictures side by side in the driver: their time is counted once, and all of
// it is within the job's.
TEST_CASE(parts)
{
    static const enum hr_part host[] = {HR_PART_PACK, HR_PART_DELIVER};
    struct hr_profile before, after;
    const struct hr_part_profile *a, *b;
    int64_t begin, took, ns;
    hr_device dev;

    vaapi_driver("default,reset,personality=ihd,latency=%d", LATENCY_MS);
    dev = vaapi_open_with(hr_device_params(.threads = 1, .depth = DEPTH));
    CHECK(dev != NULL, "%s", hr_last_error());
    if (!dev)
        return;
    hr_profile_times(true);
    hr_device_profile(dev, &before);
    begin = hr__now();
    run(dev);
    took = hr__now() - begin;
    hr_device_profile(dev, &after);
    // (The last delivery ends behind the job that it ends.)
    for (int i = 0; i < 5000 && delivered(&after) < delivered(&before) + N;
         i++) {
        test_sleep(TEST_MS);
        hr_device_profile(dev, &after);
    }
    hr_profile_times(false);
    CHECK(after.engines[0].device_times, "not the device's time");
    a = &before.engines[0].parts[HR_PART_DECODE];
    b = &after.engines[0].parts[HR_PART_DECODE];
    ns = (int64_t)(b->ns - a->ns);
    CHECK(b->times - a->times == N, "%d pictures", (int)(b->times - a->times));
    CHECK(ns >= N / DEPTH * LATENCY_MS * TEST_MS && ns <= took,
          "the decoder worked %d ms of %d", (int)(ns / TEST_MS),
          (int)(took / TEST_MS));
    for (int i = 0; i < 2; i++) {
        a = &before.engines[0].parts[host[i]];
        b = &after.engines[0].parts[host[i]];
        CHECK(b->times - a->times >= N && b->ns > a->ns, "%s: %d times",
              hr_part_name(host[i]), (int)(b->times - a->times));
    }
    CHECK(after.engines[0].num_threads == 2, "%d threads",
          after.engines[0].num_threads);
    vaapi_driver("default");
    vaapi_close(&dev);
}

// ---- Memory -----------------------------------------------------------------

static size_t bytes_of(hr_device dev)
{
    struct hr_stats stats;

    hr_device_stats(dev, &stats);
    CHECK(stats.peak_device_bytes >= stats.device_bytes, "the peak");
    return stats.device_bytes;
}

// Surfaces and images stay for the next pictures; those of other sizes take
// their place.
TEST_CASE(bytes_held)
{
    const size_t one = (size_t)112 * 96 * 3;  // a surface, as it is reckoned
    size_t before, most;
    hr_device dev;

    vaapi_driver("default,reset,personality=ihd");
    dev = vaapi_open_with(hr_device_params(.threads = 1, .depth = 2));
    CHECK(dev != NULL, "%s", hr_last_error());
    if (!dev)
        return;
    before = bytes_of(dev);
    run(dev);
    CHECK(bytes_of(dev) >= one / 2, "%zu bytes", bytes_of(dev));
    // Four slots, of up to twice that for surface and image.
    most = before + 4 * 2 * one;
    CHECK(bytes_of(dev) <= most, "%zu bytes", bytes_of(dev));
    for (int i = 0; i < 36; i++)
        run_size(dev, 112 - 8 * (i % 6), 96 - 8 * (i / 6));
    CHECK(bytes_of(dev) <= most, "it grows: %zu bytes", bytes_of(dev));
    vaapi_close(&dev);
}

TEST_MAIN(vaapi_main)
