// SPDX-License-Identifier: Apache-2.0
// How long an engine's threads waited for work, as a profile says it: exactly
// what of a wait lies within the measurement, also of one that has not ended.
#include "fake_engine.h"
#include "testing.h"

enum { WORKERS = 3, PICTURES = 6 };

// A sum, and between which moments it was read.
struct reading {
    int64_t before, after;
    int64_t idle;
};

// Reads the CPU engine, the last of the chain.
static struct reading read_idle(hr_device dev)
{
    struct reading r = {.before = hr__now()};
    struct hr_profile p;

    hr_device_profile(dev, &p);
    r.after = hr__now();
    r.idle = (int64_t)p.engines[p.num_engines - 1].idle_ns;
    return r;
}

static void run_job(hr_device dev, const struct bytes *jpeg)
{
    const struct hr_op op = hr_op_decode(0);
    struct hr_sample samples[PICTURES];
    hr_image out[PICTURES];
    hr_job job;

    for (int i = 0; i < PICTURES; i++) {
        out[i] = hr_image_create(dev, hr_image_params(.w = 16, .h = 16, .c = 3,
                                                      .dtype = HR_U8));
        samples[i] = test_sample(jpeg, &op, 1, .out = out[i]);
    }
    job = hr_submit(dev, samples, PICTURES, NULL, NULL);
    CHECK(job && hr_job_wait(job, HR_FOREVER) == HR_OK, "%s", hr_last_error());
    hr_job_release(&job);
    for (int i = 0; i < PICTURES; i++)
        hr_image_release(&out[i]);
}

// Until n threads wait: then as many times the time between two readings is
// what they differ by. On a busy machine one may come late to its first wait.
static bool all_wait(hr_device dev, int n)
{
    for (int tries = 0; tries < 3000; tries++) {
        struct reading a = read_idle(dev), b;

        test_sleep(10 * TEST_MS);
        b = read_idle(dev);
        CHECK(b.idle - a.idle <= n * (b.after - a.before),
              "more than there is: %lld ns", (long long)(b.idle - a.idle));
        if (b.idle - a.idle >= n * (b.before - a.after))
            return true;
    }
    return false;
}

// Workers that sleep all the time that is measured were idle all of it.
TEST_CASE(asleep_throughout)
{
    uint64_t seed = test_seed;
    auto_bytes jpeg = test_jpeg(16, 16, &seed);
    auto_device dev = NULL;

    fake_reset_spans(FAKE_DRS);
    dev = test_device("fake", WORKERS, 0);
    hr_profile_times(true);
    CHECK(all_wait(dev, WORKERS), "the workers are not idle");
    // The engine before them has the work.
    run_job(dev, &jpeg);
    CHECK(all_wait(dev, WORKERS), "nor after a job of another engine's");
    hr_profile_times(false);
}

// They waited before it begins, and go on when it has ended.
TEST_CASE(only_what_is_measured)
{
    auto_device dev = test_device("cpu", WORKERS, 0);
    struct reading r[4];
    int64_t begin;

    hr_profile_times(true);
    CHECK(all_wait(dev, WORKERS), "the workers are not idle");
    hr_profile_times(false);
    r[0] = read_idle(dev);
    test_sleep(30 * TEST_MS);
    r[1] = read_idle(dev);
    CHECK(r[1].idle == r[0].idle, "%lld ns, though off",
          (long long)(r[1].idle - r[0].idle));
    begin = hr__now();
    hr_profile_times(true);
    hr_profile_times(true);  // again is no other beginning
    r[2] = read_idle(dev);
    CHECK(r[2].idle - r[1].idle <= WORKERS * (r[2].after - begin),
          "%lld ns are from before", (long long)(r[2].idle - r[1].idle));
    test_sleep(30 * TEST_MS);
    r[3] = read_idle(dev);
    CHECK(r[3].idle - r[2].idle >= WORKERS * (r[3].before - r[2].after),
          "%lld ns in progress", (long long)(r[3].idle - r[2].idle));
    hr_profile_times(false);
}

// A wait that work has ended counts to that moment, and no further: whatever
// the threads do, they cannot be idle for longer than time goes by.
TEST_CASE(beside_work)
{
    uint64_t seed = test_seed;
    auto_bytes jpeg = test_jpeg(16, 16, &seed);
    auto_device dev = test_device("cpu", WORKERS, 0);
    struct reading first, last;

    hr_profile_times(true);
    first = last = read_idle(dev);
    for (int i = 0; i < test_loops(200); i++) {
        struct reading r;

        run_job(dev, &jpeg);
        r = read_idle(dev);
        CHECK(r.idle >= last.idle, "it goes back by %lld ns",
              (long long)(last.idle - r.idle));
        CHECK(r.idle - first.idle <= WORKERS * (r.after - first.before),
              "more than there is");
        last = r;
    }
    CHECK(all_wait(dev, WORKERS), "the workers are not idle");
    hr_profile_times(false);
}
