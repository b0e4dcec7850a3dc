// SPDX-License-Identifier: Apache-2.0
// Engines that share samples, at work: with failures, hangs and cancellation
// each sample ends once and right, and the schedule is empty in the end; strict
// jobs are not shared; a cap holds.
#include "scene.h"

enum { N = 48, JOBS = 3 };

static hr_device open_balanced(const struct fake_script *script,
                               int64_t deadline_ns)
{
    hr_device dev;

    fake_reset(script);
    dev = hr_device_open("fake", hr_device_params(.threads = 2, .balance = true,
                                                  .deadline_ns = deadline_ns));
    CHECK(dev != NULL, "%s", hr_last_error());
    return dev;
}

// Nothing is in flight: no engine holds samples or is waited for.
static void check_schedule(hr_device handle, const char *what)
{
    struct hr__device *dev = (struct hr__device *)handle;

    pthread_mutex_lock(&dev->lock);
    CHECK(dev->unassigned == 0, "%s: %d samples wait", what, dev->unassigned);
    for (int i = 0; i < dev->num_engines; i++)
        CHECK(dev->schedule.engines[i].in_flight == 0, "%s: engine %d has %d",
              what, i, dev->schedule.engines[i].in_flight);
    pthread_mutex_unlock(&dev->lock);
}

static struct hr_stats run(hr_device dev, const struct hr_job_params *params,
                           const char *what)
{
    static struct scene scenes[JOBS];
    struct watched jobs[JOBS];
    struct hr_stats stats;

    for (int i = 0; i < JOBS; i++) {
        scene_init(&scenes[i], dev, N, SCENE_BYTES);
        watch_submit(&jobs[i], &scenes[i], params);
    }
    for (int i = 0; i < JOBS; i++) {
        CHECK(watch_wait(&jobs[i]) == HR_OK, "%s", what);
        CHECK(scene_check_results(&scenes[i], jobs[i].job, HR_ON_ERROR_FAIL) ==
                  N,
              "%s", what);
        watch_finish(&jobs[i]);
        scene_finish(&scenes[i]);
    }
    hr_device_stats(dev, &stats);
    check_schedule(dev, what);
    check_idle(dev);
    return stats;
}

TEST_CASE(shared)
{
    struct hr_stats s;
    auto_device dev =
        open_balanced(&(struct fake_script){.spans = FAKE_ALL(FAKE_DRS),
                                            .delay_ns = TEST_MS / 2},
                      0);

    s = run(dev, NULL, "shared");
    CHECK(s.shares[0] + s.shares[1] == JOBS * N && s.shares[0] && s.shares[1],
          "%d and %d samples", (int)s.shares[0], (int)s.shares[1]);
    CHECK(s.fallback_reasons[25] == s.shares[1], "%d are said to be the CPU's",
          (int)s.fallback_reasons[25]);
    hr_device_close(&dev);
    dev = open_balanced(&(struct fake_script){.spans = FAKE_ALL(FAKE_DRS),
                                              .delay_ns = TEST_MS / 2},
                        0);
    s = run(dev, hr_job_params(.strict = true), "strict");
    CHECK(s.shares[0] == JOBS * N && !s.shares[1], "strict: %d and %d samples",
          (int)s.shares[0], (int)s.shares[1]);
}

// Samples that the engine cannot make are no matter of balance, and other
// engines make the samples that it fails.
TEST_CASE(failures)
{
    struct hr_stats s;
    auto_device dev =
        open_balanced(&(struct fake_script){.spans = FAKE_ALL(FAKE_DRS),
                                            .fail_from = 1,
                                            .fail_to = 5,
                                            .fail_status = HR_EDEVICE},
                      0);

    s = run(dev, NULL, "failures");
    CHECK(s.fallbacks > 0, "nothing fell back");
    hr_device_close(&dev);
    dev = open_balanced(&(struct fake_script){.spans = FAKE_ALL(FAKE_DRS),
                                              .hang_from = 1,
                                              .hang_to = 1},
                        300 * TEST_MS);
    s = run(dev, NULL, "a hang");
    // (With it what was behind it; the others were not given to it any more.)
    CHECK(s.abandoned >= 1 && s.abandoned <= 20, "%d given up",
          (int)s.abandoned);
    fake_wake();
}

TEST_CASE(cancellation)
{
    static struct scene scene;
    struct watched w;
    auto_device dev = open_balanced(
        &(struct fake_script){.spans = FAKE_ALL(FAKE_DRS), .gate = true}, 0);

    for (int i = 0; i < 10; i++) {
        scene_init(&scene, dev, N, SCENE_BYTES);
        watch_submit(&w, &scene, NULL);
        // Some have begun by then, or none.
        if (i == 0)
            test_reaches(&fake_counts.tasks, 1);
        hr_job_cancel(w.job);
        fake_gate_open();
        watch_wait(&w);
        check_schedule(dev, "cancelled");
        watch_finish(&w);
        scene_finish(&scene);
    }
}

// ---- The cap ---------------------------------------------------------------

static uint64_t used(hr_device dev)
{
    struct hr_profile p;

    hr_device_profile(dev, &p);
    return p.engines[0].cpu_ns[0] + p.engines[0].cpu_ns[1];
}

// Pictures without end for a third of a second; the host's threads use no more
// of it than they may. (test_schedule.c checks that they use as much, on a
// simulated processor of their own.)
TEST_CASE(cap)
{
    enum { JOBS_HERE = 8, LARGE = 64, PERCENT = 20 };
    static const struct hr_op ops[] = {hr_op_decode(0),
                                       hr_op_resize(.w = 32, .h = 32)};
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg(1200, 900, &seed);
    struct hr_sample s[LARGE];
    hr_batch out[JOBS_HERE];
    hr_job jobs[JOBS_HERE];
    auto_device dev =
        hr_device_open("cpu", hr_device_params(.threads = 2, .cpu_cap = PERCENT,
                                               .budget = (size_t)8 << 30));
    double most = PERCENT / 100.0 * hr__usable_cores(), had;
    uint64_t before;
    int64_t begin;

    for (int i = 0; i < LARGE; i++)
        s[i] = test_sample(&b, ops, 2);
    for (int i = 0; i < JOBS_HERE; i++) {
        out[i] = hr_batch_create(dev, hr_batch_params(.n = LARGE, .c = 3,
                                                      .h = 32, .w = 32));
        jobs[i] = hr_submit(dev, s, LARGE, out[i], NULL);
        CHECK(jobs[i] != NULL, "%s", hr_last_error());
    }
    test_sleep(100 * TEST_MS);
    before = used(dev);
    begin = hr__now();
    test_sleep(400 * TEST_MS);
    had = (double)(used(dev) - before) / (double)(hr__now() - begin);
    // (With a sanitizer one picture takes longer than is counted together.)
    CHECK((TEST_SANITIZED || had < 1.2 * most) && had > 0, "%.3f cores of %.3f",
          had, most);
    for (int i = 0; i < JOBS_HERE; i++)
        hr_job_cancel(jobs[i]);
    for (int i = 0; i < JOBS_HERE; i++) {
        hr_job_wait(jobs[i], HR_FOREVER);
        hr_job_release(&jobs[i]);
        hr_batch_destroy(&out[i]);
    }
}

TEST_CASE(refused)
{
    static const struct hr_device_params wrong[] = {{.cpu_cap = -1},
                                                    {.cpu_cap = 101},
                                                    {.latency_ns = -1}};

    for (int i = 0; i < 3; i++) {
        auto_device dev = hr_device_open("cpu", &wrong[i]);

        CHECK(!dev && hr_last_status() == HR_EINVAL, "%d: %s", i,
              hr_last_error());
    }
}
