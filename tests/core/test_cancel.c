// SPDX-License-Identifier: Apache-2.0
// Stopping: cancel at every point of a job's life, timeouts of jobs, deadlines
// of spans on an engine that hangs, and handles given up in any order.
#include "allowed.h"
#include "scene.h"

static struct scene scene;

static double seconds_of(int64_t since)
{
    return (double)(hr__now() - since) / 1e9;
}

static int count_status(hr_job job, enum hr_status status)
{
    int n = 0;

    for (int i = 0; i < job->num_samples; i++)
        n += job->results[i].status == status;
    return n;
}

// ---- The only host thread is busy -----------------------------------------

TEST_CASE(before_it_begins)
{
    uint64_t seed = test_seed;
    auto_device dev = test_device("cpu", 1, 0);
    hr_image b = test_image(dev, 8, 8, 3, &seed);
    hr_job blocker = scene_hold_worker(dev, b);
    struct watched w;

    scene_init(&scene, dev, 5, SCENE_MIXED);
    CHECK(watch_submit(&w, &scene, NULL), "%s", hr_last_error());
    CHECK(hr_job_poll(w.job, 5 * TEST_MS) == HR_PENDING, "the worker is busy");
    hr_job_cancel(w.job);
    CHECK(hr_job_wait(w.job, 60000 * TEST_MS) == HR_ECANCELED,
          "not without the worker");
    CHECK(count_status(w.job, HR_ECANCELED) == 5, "all five");
    hr_job_cancel(w.job);
    scene_let_go();
    CHECK(watch_wait(&w) == HR_ECANCELED, "cancelled");
    scene_check_results(&scene, w.job, HR_ON_ERROR_FAIL);
    watch_finish(&w);
    hr_job_release(&blocker);
    hr_image_release(&b);
    check_idle(dev);
    scene_finish(&scene);
}

TEST_CASE(after_the_end)
{
    auto_device dev = test_device("cpu", 2, 0);
    struct watched w;

    scene_init(&scene, dev, 3, SCENE_MIXED);
    watch_submit(&w, &scene, NULL);
    CHECK(watch_wait(&w) == HR_OK, "ok");
    hr_job_cancel(w.job);
    CHECK(hr_job_poll(w.job, 0) == HR_OK, "cancel after the end");
    CHECK(scene_check_results(&scene, w.job, HR_ON_ERROR_FAIL) == 3, "kept");
    CHECK(atomic_load(&w.done.calls) == 1, "called again");
    watch_finish(&w);
    scene_finish(&scene);
}

// One task is at work behind the gate, the others wait in the engine.
TEST_CASE(inside_the_engine)
{
    auto_device dev = NULL;
    struct watched w;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .gate = true);
    dev = test_device("fake", 2, 0);
    scene_init(&scene, dev, 6, SCENE_MIXED);
    watch_submit(&w, &scene, NULL);
    CHECK(test_reaches(&fake_counts.begun, 1), "begun");
    hr_job_cancel(w.job);
    CHECK(test_reaches(&fake_counts.canceled, 1), "the engine was not told");
    CHECK(hr_job_poll(w.job, 0) == HR_PENDING, "one is still inside");
    fake_gate_open();
    CHECK(watch_wait(&w) == HR_ECANCELED, "cancelled");
    CHECK(count_status(w.job, HR_ECANCELED) == 6, "all six");
    CHECK(atomic_load(&fake_counts.stopped) >= 1, "nothing was stopped");
    scene_check_results(&scene, w.job, HR_ON_ERROR_FAIL);
    watch_finish(&w);
    check_idle(dev);
    scene_finish(&scene);
}

// An engine that ignores cancellation: samples that it made before are results
// like any other, the rest is cancelled.
TEST_CASE(deaf_engine)
{
    auto_device dev = NULL;
    struct watched w;
    enum hr_status status;

    fake_begin(.spans = FAKE_ALL(FAKE_R), .gate = true, .deaf = true);
    dev = test_device("fake", 2, 0);
    scene_init(&scene, dev, 6, SCENE_BYTES);
    watch_submit(&w, &scene, NULL);
    CHECK(test_reaches(&fake_counts.begun, 1), "begun");
    hr_job_cancel(w.job);
    fake_gate_open();
    status = watch_wait(&w);
    CHECK(status == HR_ECANCELED, "%s", hr_status_name(status));
    scene_check_results(&scene, w.job, HR_ON_ERROR_FAIL);
    watch_finish(&w);
    check_idle(dev);
    scene_finish(&scene);
}

// A sample that waits for bytes which another holds.
TEST_CASE(waiting_for_bytes)
{
    uint64_t seed = test_seed;
    auto_bytes jpeg = test_jpeg(800, 600, &seed);
    const char *path = test_file(&jpeg, ".jpg");
    const struct hr_op ops[] = {hr_op_decode(0), hr_op_resize(.w = 8, .h = 8)};
    struct hr_sample s = {.path = path, .ops = ops, .num_ops = 2};
    auto_device dev = NULL;
    auto_batch batch = NULL;
    hr_job a, b, c;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .gate = true);
    dev = test_device("fake", 2, 3 << 20);
    batch = hr_batch_create(dev,
                            hr_batch_params(.n = 3, .c = 3, .h = 8, .w = 8));
    a = hr_submit(dev, &s, 1, batch, NULL);
    CHECK(a && test_reaches(&fake_counts.begun, 1), "a holds its bytes");
    b = hr_submit(dev, &s, 1, batch, hr_job_params(.first_slot = 1));
    c = hr_submit(dev, &s, 1, batch,
                  hr_job_params(.first_slot = 2, .timeout_ns = 30 * TEST_MS));
    CHECK(b && c, "%s", hr_last_error());
    CHECK(hr_job_poll(b, 10 * TEST_MS) == HR_PENDING &&
              atomic_load(&fake_counts.begun) == 1,
          "b must wait");
    hr_job_cancel(b);
    CHECK(hr_job_wait(b, 60000 * TEST_MS) == HR_ECANCELED, "b");
    CHECK(hr_job_wait(c, 60000 * TEST_MS) == HR_ETIMEDOUT &&
              c->results[0].status == HR_ETIMEDOUT,
          "c");
    CHECK(hr_job_poll(a, 0) == HR_PENDING, "a");
    fake_gate_open();
    CHECK(hr_job_wait(a, HR_FOREVER) == HR_OK, "a");
    hr_job_release(&a);
    hr_job_release(&b);
    hr_job_release(&c);
    check_idle(dev);
}

// A large picture that is being decoded.
TEST_CASE(while_decoding)
{
    uint64_t seed = test_seed;
    auto_bytes jpeg = test_jpeg_of(jpeg_ycc(.w = 3000, .h = 3000,
                                            .factors = {0x11}, .quality = 90,
                                            .progressive = true),
                                   &seed);
    auto_device dev = test_device("cpu", 1, 0);
    const struct hr_op op = hr_op_decode(0);
    auto_image out = hr_image_create(
        dev, hr_image_params(.w = 3000, .h = 3000, .c = 3, .dtype = HR_U8,
                             .layout = HR_NHWC));
    struct hr_sample s = test_sample(&jpeg, &op, 1, .out = out);
    int canceled = 0;

    for (int i = 0; i < 6; i++) {
        struct hr_job_params p = {0};
        auto_job job = NULL;
        enum hr_status status;

        if (i % 2)
            p.timeout_ns = (1 + i) * TEST_MS;
        job = hr_submit(dev, &s, 1, NULL, &p);
        test_sleep((1 + 2 * i) * TEST_MS);
        if (!p.timeout_ns)
            hr_job_cancel(job);
        status = hr_job_wait(job, HR_FOREVER);
        canceled += status == (p.timeout_ns ? HR_ETIMEDOUT : HR_ECANCELED);
        CHECK(status == HR_OK || status == HR_ECANCELED ||
                  status == HR_ETIMEDOUT,
              "%s", job->results[0].message);
    }
    CHECK(canceled >= 3, "only %d of 6 were stopped", canceled);
    check_idle(dev);
}

// ---- Timeouts -------------------------------------------------------------

TEST_CASE(job_timeout)
{
    auto_device dev = NULL;
    struct watched w;
    int64_t start = hr__now();

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .delay_ns = 30 * TEST_MS);
    dev = test_device("fake", 2, 0);
    scene_init(&scene, dev, 40, SCENE_MIXED);
    start = hr__now();
    watch_submit(&w, &scene,
                 hr_job_params(.timeout_ns = 100 * TEST_MS,
                               .on_error = HR_ON_ERROR_ZERO));
    CHECK(watch_wait(&w) == HR_ETIMEDOUT, "whatever on_error says");
    CHECK(count_status(w.job, HR_ETIMEDOUT) + count_status(w.job, HR_OK) == 40,
          "other ends");
    // It did not wait for samples that could not be made in that time.
    CHECK(count_status(w.job, HR_OK) < 40 && seconds_of(start) < 20,
          "%d made, took %.2f s", count_status(w.job, HR_OK),
          seconds_of(start));
    scene_check_results(&scene, w.job, HR_ON_ERROR_ZERO);
    for (int i = 0; i < 40; i++)
        CHECK(w.job->results[i].fallbacks == 0, "a timeout is no fallback");
    watch_finish(&w);
    check_idle(dev);
    scene_finish(&scene);
}

// The engine hangs for ever with one task; its queue behind it, too.
TEST_CASE(hung_engine)
{
    struct hr_device_params p = {.threads = 2, .deadline_ns = 600 * TEST_MS};
    hr_device dev;
    struct watched w;
    struct hr_stats stats;
    int64_t start;
    int timeouts = 0;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .hang_from = 3, .hang_to = 3,
               .own_buffers = true);
    dev = hr_device_open("fake", &p);
    scene_init(&scene, dev, 9, SCENE_BYTES);
    start = hr__now();
    watch_submit(&w, &scene, NULL);
    CHECK(watch_wait(&w) == HR_OK, "%s", w.job->results[0].message);
    CHECK(hr__now() - start < test_allowed(5000 * TEST_MS), "took %.2f s",
          seconds_of(start));
    CHECK(scene_check_results(&scene, w.job, HR_ON_ERROR_FAIL) == 9, "all");
    for (int i = 0; i < 9; i++) {
        const struct hr_result *r = &w.job->results[i];

        if (!(r->why & HR_WHY_TIMEOUT))
            continue;
        timeouts++;
        CHECK(r->fallbacks == 1 && r->num_spans == 1 &&
                  !strcmp(r->spans[0].device, "cpu"),
              "sample %d: %d fallbacks", i, r->fallbacks);
    }
    hr_device_stats(dev, &stats);
    CHECK(timeouts == 7, "%d timeouts", timeouts);
    CHECK(stats.abandoned == 7, "%llu abandoned",
          (unsigned long long)stats.abandoned);
    CHECK(stats.fallbacks == 7 &&
              stats.fallback_reasons[__builtin_ctz(HR_WHY_TIMEOUT)] == 7,
          "counted");
    watch_finish(&w);
    check_idle(dev);
    hr_device_close(&dev);
    scene_finish(&scene);
    // The caller has let go of everything; now the driver comes back.
    CHECK(atomic_load(&fake_counts.closes) == 0, "closed under the engine");
    CHECK(atomic_load(&fake_counts.buffers) > 0,
          "its memory was taken from it");
    fake_wake();
    CHECK(test_reaches(&fake_counts.closes, 1), "never closed");
    CHECK(atomic_load(&fake_counts.claims_lost) == 7, "%d claims lost",
          atomic_load(&fake_counts.claims_lost));
    CHECK(atomic_load(&fake_counts.buffers) == 0, "%d buffers leaked",
          atomic_load(&fake_counts.buffers));
}

TEST_CASE(hung_strict)
{
    struct hr_device_params p = {.threads = 1,
                                 .deadline_ns = 40 * TEST_MS,
                                 .strict = true};
    hr_device dev;
    struct watched w;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .hang_from = 1, .hang_to = 1);
    dev = hr_device_open("fake", &p);
    scene_init(&scene, dev, 3, SCENE_PATH);
    watch_submit(&w, &scene, NULL);
    CHECK(watch_wait(&w) == HR_ETIMEDOUT, "strict");
    CHECK(count_status(w.job, HR_ETIMEDOUT) == 3, "all");
    scene_check_results(&scene, w.job, HR_ON_ERROR_FAIL);
    watch_finish(&w);
    fake_wake();
    check_idle(dev);
    hr_device_close(&dev);
    scene_finish(&scene);
    CHECK(test_reaches(&fake_counts.closes, 1), "never closed");
}

// ---- Letting go -----------------------------------------------------------

// Everything is given up right after the submission, in any order; the last
// user of the device is a thread of its own.
TEST_CASE(early_release)
{
    uint64_t seed = test_seed;

    for (int round = 0; round < test_loops(60); round++) {
        uint32_t spans = round % 3 ? FAKE_RS : 0;
        struct test_done done = {0};
        struct hr_sample copies[SCENE_MAX];
        hr_device dev;
        hr_job job;

        fake_begin(.spans = FAKE_ALL(spans), .own_buffers = round % 2,
                   .where = round % 5 == 0 ? FAKE_INSIDE : FAKE_THREAD);
        dev = test_device("fake", 1 + round % 3, 0);
        scene_init(&scene, dev, 6, SCENE_MIXED);
        memcpy(copies, scene.samples, sizeof(copies));
        job = hr_submit(dev, copies, 6, scene.out,
                        hr_job_params(.on_done = test_on_done, .ctx = &done));
        for (int k = 0, left = 7; left; k = random_below(&seed, 3)) {
            if (k == 0 && (left & 1))
                hr_job_release(&job), left &= ~1;
            if (k == 1 && (left & 2))
                scene_finish(&scene), left &= ~2;
            if (k == 2 && (left & 4))
                hr_device_close(&dev), left &= ~4;
        }
        CHECK(test_reaches(&done.calls, 1), "no callback");
        CHECK(test_reaches(&fake_counts.closes, 1), "never closed");
        CHECK(atomic_load(&done.calls) == 1 &&
                  atomic_load(&done.status) == HR_OK,
              "%d calls", atomic_load(&done.calls));
        CHECK(atomic_load(&fake_counts.buffers) == 0, "buffers leaked");
    }
}

TEST_CASE(random_cancels)
{
    uint64_t seed = test_seed;
    int canceled = 0, ok = 0;

    for (int round = 0; round < test_loops(150); round++) {
        hr_device dev;
        struct watched w;
        enum hr_status status;

        fake_begin(.spans = FAKE_ALL(round % 4 ? FAKE_RS : 0),
                   .delay_ns = random_below(&seed, 200000),
                   .deaf = random_below(&seed, 4) == 0,
                   .fail_from = random_below(&seed, 8), .fail_to = 5,
                   .own_buffers = random_below(&seed, 2));
        dev = test_device("fake", 1 + random_below(&seed, 3), 0);
        scene_init(&scene, dev, 8, SCENE_MIXED);
        watch_submit(&w, &scene, NULL);
        test_sleep(random_below(&seed, 2000000));
        hr_job_cancel(w.job);
        status = watch_wait(&w);
        CHECK(status == HR_OK || status == HR_ECANCELED, "%s",
              hr_status_name(status));
        canceled += status == HR_ECANCELED;
        ok += scene_check_results(&scene, w.job, HR_ON_ERROR_FAIL);
        watch_finish(&w);
        check_idle(dev);
        scene_finish(&scene);
        hr_device_close(&dev);
        CHECK(test_reaches(&fake_counts.closes, 1), "never closed");
        CHECK(atomic_load(&fake_counts.buffers) == 0, "buffers leaked");
    }
    printf("\n  %d jobs cancelled, %d samples made ", canceled, ok);
}
