// SPDX-License-Identifier: Apache-2.0
// Jobs: each ends exactly once in every scenario, with results that name the
// engines; refused submissions leave nothing behind.
#include "scene.h"

static struct scene scene;

// ---- Exactly one end ------------------------------------------------------

struct scenario {
    const char *name;
    struct fake_script script;
    bool cpu_only;
    int64_t deadline_ns;
    bool fails;   // samples may end with an error when strict
    bool always;  // .. and also when not
};

static const struct scenario scenarios[] = {
    {"cpu alone", .cpu_only = true},
    {"no spans", .script = {.spans = {0}}, .fails = true},
    {"thread", .script = {.spans = FAKE_ALL(FAKE_RS)}},
    {"inside", .script = {.spans = FAKE_ALL(FAKE_RS), .where = FAKE_INSIDE}},
    {"inside, in the middle",
     .script = {.spans = FAKE_ALL(FAKE_R), .where = FAKE_INSIDE}},
    {"everything", .script = {.spans = FAKE_ALL(FAKE_DRS)}, .fails = true},
    {"delayed", .script = {.spans = FAKE_ALL(FAKE_S), .delay_ns = TEST_MS}},
    {"fails all", .script = {.spans = FAKE_ALL(FAKE_RS), .fail_from = 1},
     .fails = true},
    {"fails all inside",
     .script = {.spans = FAKE_ALL(FAKE_R | FAKE_S),
                .fail_from = 1,
                .where = FAKE_INSIDE},
     .fails = true},
    {"fails the 3rd late",
     .script = {.spans = FAKE_ALL(FAKE_RS),
                .fail_from = 3,
                .fail_to = 3,
                .fail_late = true,
                .fail_status = HR_ENOMEM},
     .fails = true},
    {"fails two after the decode",
     .script = {.spans = FAKE_ALL(FAKE_DR),
                .fail_from = 2,
                .fail_to = 3,
                .fail_status = HR_ECORRUPT,
                .fail_why = HR_WHY_DAMAGED},
     .fails = true},
    {"hangs once",
     .script = {.spans = FAKE_ALL(FAKE_RS),
                .hang_from = 2,
                .hang_to = 2,
                .hang_ns = 120 * TEST_MS},
     .deadline_ns = 30 * TEST_MS, .fails = true},
    {"hangs once, lies later",
     .script = {.spans = FAKE_ALL(FAKE_RS),
                .hang_from = 1,
                .hang_to = 1,
                .hang_ns = 120 * TEST_MS,
                .done_after_lost = true},
     .deadline_ns = 30 * TEST_MS, .fails = true},
    {"hangs with the memory",
     .script = {.spans = FAKE_ALL(FAKE_RS),
                .hang_from = 2,
                .hang_to = 2,
                .hang_ns = 60 * TEST_MS,
                .hang_claimed = true},
     .deadline_ns = 20 * TEST_MS, .fails = true},
    {"claims twice",
     .script = {.spans = FAKE_ALL(FAKE_RS), .claims_twice = true}},
    {"takes every 2nd",
     .script = {.spans = FAKE_ALL(FAKE_RS), .takes_every_2nd = true},
     .fails = true},
    {"buffers of its own",
     .script = {.spans = FAKE_ALL(FAKE_R), .own_buffers = true}},
    {"buffers that fail",
     .script = {.spans = FAKE_ALL(FAKE_RS),
                .own_buffers = true,
                .buffers_fail = true},
     .fails = true, .always = true},
    {"likes two", .script = {.spans = FAKE_ALL(FAKE_RS), .batch = 2}},
};
enum { SCENARIOS = sizeof(scenarios) / sizeof(*scenarios) };

static hr_device open_scenario(const struct scenario *c, int threads)
{
    struct hr_device_params p = {.threads = threads,
                                 .deadline_ns = c->deadline_ns};
    hr_device dev;

    fake_reset(&c->script);
    dev = hr_device_open(c->cpu_only ? "cpu" : "fake", &p);
    if (!dev)
        abort();
    return dev;
}

static void run_scenario(const struct scenario *c, enum scene_source source,
                         enum hr_on_error on_error, bool strict, int threads)
{
    hr_device dev = open_scenario(c, threads);
    struct hr_stats stats;
    struct watched w;
    enum hr_status status;
    int n = 7, ok;

    scene_init(&scene, dev, n, source);
    CHECK(watch_submit(&w, &scene,
                       hr_job_params(.on_error = on_error, .strict = strict)),
          "%s: %s", c->name, hr_last_error());
    status = watch_wait(&w);
    ok = scene_check_results(&scene, w.job, on_error);
    CHECK(ok == n || (strict && c->fails) || c->always, "%s: %d of %d: %s",
          c->name, ok, n, w.job->results[0].message);
    CHECK(status == HR_OK || (ok < n && on_error == HR_ON_ERROR_FAIL), "%s: %s",
          c->name, hr_status_name(status));
    hr_device_stats(dev, &stats);
    CHECK(stats.samples == (uint64_t)n && stats.jobs == 1 &&
              stats.failed == (uint64_t)(n - ok) && stats.canceled == 0,
          "%s: %llu samples, %llu failed", c->name,
          (unsigned long long)stats.samples, (unsigned long long)stats.failed);
    CHECK(atomic_load(&fake_counts.empty) == 0 &&
              atomic_load(&fake_counts.mixed) == 0,
          "%s: a list was empty or mixed", c->name);
    watch_finish(&w);
    check_idle(dev);
    scene_finish(&scene);
    hr_device_close(&dev);
    CHECK(test_reaches(&fake_counts.closes, c->cpu_only ? 0 : 1),
          "%s: not closed", c->name);
    CHECK(atomic_load(&fake_counts.buffers) == 0, "%s: %d buffers leaked",
          c->name, atomic_load(&fake_counts.buffers));
}

TEST_CASE(every_job_ends_once)
{
    for (int c = 0; c < SCENARIOS; c++)
        for (int source = SCENE_BYTES; source <= SCENE_MIXED; source++) {
            enum hr_on_error e = (enum hr_on_error)((c + source) % 3);

            run_scenario(&scenarios[c], (enum scene_source)source, e, false,
                         1 + (c + source) % 3);
        }
}

TEST_CASE(strict_jobs_end_once)
{
    for (int c = 0; c < SCENARIOS; c++)
        run_scenario(&scenarios[c], SCENE_MIXED, (enum hr_on_error)(c % 3),
                     true, 2);
}

// ---- on_error -------------------------------------------------------------

TEST_CASE(policies)
{
    uint64_t seed = 5;
    auto_bytes bad = test_damaged(120, 80, &seed);
    auto_device dev = test_device("cpu", 2, 0);

    for (int e = 0; e <= HR_ON_ERROR_SKIP; e++) {
        struct watched w;
        enum hr_status status;

        scene_init(&scene, dev, 6, SCENE_BYTES);
        scene.samples[2].data = bad.data;
        scene.samples[2].size = bad.size;
        scene.samples[2].name = "the bad one";
        scene.samples[4].path = "/no/such/file.jpg";
        scene.samples[4].data = NULL;
        CHECK(watch_submit(&w, &scene,
                           hr_job_params(.on_error = (enum hr_on_error)e)),
              "%s", hr_last_error());
        status = watch_wait(&w);
        CHECK(status == (e ? HR_OK : w.job->results[2].status), "%s",
              hr_status_name(status));
        CHECK(scene_check_results(&scene, w.job, (enum hr_on_error)e) == 4,
              "four are good");
        CHECK(strstr(w.job->results[2].message, "the bad one"), "%s",
              w.job->results[2].message);
        CHECK(w.job->results[4].status == HR_EIO &&
                  w.job->results[4].stage == HR_READ &&
                  !strcmp(w.job->results[4].message,
                          "/no/such/file.jpg: read: No such file or directory"),
              "%s", w.job->results[4].message);
        if (e == HR_ON_ERROR_SKIP)
            CHECK(scene_kept(&scene, 4), "a skipped slot was touched");
        watch_finish(&w);
        scene_finish(&scene);
    }
}

// ---- Refused submissions --------------------------------------------------

struct refusal {
    struct test_done done;
    struct hr_sample s[2];
    struct hr_job_params p;
    hr_batch batch;
    int n;
    hr_device dev;
};

static void refused(struct refusal *r, const char *what,
                    enum hr_status expected)
{
    hr_job job;

    r->p.on_done = test_on_done;
    r->p.ctx = &r->done;
    job = hr_submit(r->dev, r->s, r->n, r->batch, &r->p);
    CHECK(!job && hr_last_status() == expected && hr_last_error()[0],
          "%s: %s, %s", what, job ? "taken" : "refused",
          hr_status_name(hr_last_status()));
    if (job) {
        hr_job_wait(job, HR_FOREVER);
        hr_job_release(&job);
    }
}

static const struct hr_op good_ops[] = {
    {.type = HR_OP_RESIZE, .resize = {.w = SCENE_W, .h = SCENE_H}},
};

// Each changes one thing of a job that would be fine.
static void refuse_samples(struct refusal *r, hr_image other_device)
{
    struct hr_sample good = r->s[1];
    static const struct hr_op bad_ops[] = {
        {.type = HR_OP_DECODE},
        {.type = HR_OP_RESIZE, .resize = {.w = 0, .h = 5}},
        {.type = HR_OP_CROP, .crop = {.w = 0, .h = 5}},
        {.type = (enum hr_op_type)99},
        {.type = HR_OP_NORMALIZE, .normalize = {.std = {1, 0, 1}}},
        // This is valid for a grey picture only.
        {.type = HR_OP_NORMALIZE, .normalize = {.std = {1, 0, 0}}},
        {.type = HR_OP_RESIZE, .resize = {.w = 5, .h = 5, .filter = 17}},
    };
    static const struct hr_op numbers = {.type = HR_OP_NORMALIZE};
    auto_image bytes = hr_image_create(
        r->dev, hr_image_params(.w = 30, .h = 30, .c = 3, .dtype = HR_U8));

#define TRY(what, ...) \
    (r->s[1] = good, __VA_ARGS__, refused(r, what, HR_EINVAL), r->s[1] = good)
    TRY("two sources", r->s[1].path = "x");
    TRY("no source", r->s[1].image = NULL);
    TRY("no ops array", r->s[1].ops = NULL);
    TRY("negative ops", r->s[1].num_ops = -1);
    TRY("too many ops", r->s[1].num_ops = HR_MAX_OPS + 1);
    TRY("bytes without decode", r->s[1].image = NULL, r->s[1].data = "x",
        r->s[1].size = 1);
    TRY("image in another device's memory", r->s[1].image = other_device);
    TRY("out in another device's memory", r->s[1].out = other_device);
    TRY("in place", r->s[1].out = r->s[1].image);
    for (size_t i = 0; i < sizeof(bad_ops) / sizeof(*bad_ops); i++)
        TRY("a bad op", r->s[1].ops = &bad_ops[i], r->s[1].num_ops = 1);
    TRY("numbers to u8", r->s[1].ops = &numbers, r->s[1].out = bytes);
#undef TRY
}

static void refuse_params(struct refusal *r, hr_batch other_batch)
{
    hr_batch batch = r->batch;

#define TRY(what, field, value) \
    (r->field = (value), refused(r, what, HR_EINVAL))
    TRY("tier", p.tier, (enum hr_tier)7);
    r->p = (struct hr_job_params){0};
    TRY("on_error", p.on_error, (enum hr_on_error)3);
    r->p = (struct hr_job_params){0};
    TRY("slot -1", p.first_slot, -1);
    TRY("slot 1 for two", p.first_slot, 1);
    TRY("slot INT_MAX", p.first_slot, INT32_MAX);
    r->p = (struct hr_job_params){0};
    TRY("no batch", batch, NULL);
    TRY("a batch in another device's memory", batch, other_batch);
    r->batch = batch;
    TRY("no samples", n, 0);
    TRY("negative samples", n, -3);
    r->n = 2;
#undef TRY
}

static hr_device open_memory(void)
{
    fake_begin(.memory = true);
    return test_device("fake", 1, 0);
}

TEST_CASE(refused_jobs_leave_nothing)
{
    auto_device dev = test_device("cpu", 1, 0), other = open_memory();
    static uint8_t pixels[30 * 30 * 3];
    hr_image image = hr_image_create(
        dev, hr_image_params(.w = 30, .h = 30, .c = 3, .dtype = HR_U8,
                             .layout = HR_NHWC, .data = pixels,
                             .free_fn = test_count_free));
    auto_image foreign = hr_image_create(
        other,
        hr_image_params(.w = SCENE_W, .h = SCENE_H, .c = 3, .dtype = HR_U8,
                        .layout = HR_NHWC, .memory = HR_MEMORY_DEVICE));
    auto_batch batch = hr_batch_create(
        dev, hr_batch_params(.n = 2, .c = 3, .h = SCENE_H, .w = SCENE_W));
    auto_batch foreign_batch = hr_batch_create(
        other, hr_batch_params(.n = 2, .c = 3, .h = SCENE_H, .w = SCENE_W,
                               .memory = HR_MEMORY_DEVICE));
    struct refusal r = {.dev = dev, .batch = batch, .n = 2};
    struct hr_sample s = {.image = image, .ops = good_ops, .num_ops = 1};
    hr_job job;

    atomic_store(&test_freed, 0);
    r.s[0] = r.s[1] = s;
    refuse_samples(&r, foreign);
    refuse_params(&r, foreign_batch);
    CHECK(!hr_submit(dev, NULL, 1, batch, NULL) &&
              hr_last_status() == HR_EINVAL,
          "samples NULL");
    check_idle(dev);
    CHECK(atomic_load(&r.done.calls) == 0, "a refused job called back");
    CHECK(atomic_load(&test_freed) == 0, "a refused job freed the image");
    // And the very same things are fine without the fault.
    job = hr_submit(dev, r.s, 2, batch, NULL);
    CHECK(job && hr_job_wait(job, HR_FOREVER) == HR_OK, "%s", hr_last_error());
    hr_job_release(&job);
    hr_wait_all(dev, HR_FOREVER);
    hr_image_release(&image);
    CHECK(atomic_load(&test_freed) == 1, "freed %d times",
          atomic_load(&test_freed));
}

// Handles that are not there.
TEST_CASE(null_handles)
{
    hr_device dev = NULL;
    hr_image image = NULL;
    hr_batch batch = NULL;
    hr_job job = NULL;

    hr_device_close(&dev);
    hr_device_close(NULL);
    hr_image_release(&image);
    hr_image_release(NULL);
    hr_batch_destroy(&batch);
    hr_batch_destroy(NULL);
    hr_job_release(&job);
    hr_job_release(NULL);
    hr_job_cancel(NULL);
    CHECK(hr__image_retain(NULL) == NULL, "retain NULL");
    CHECK(hr_job_poll(NULL, 0) == HR_EINVAL, "poll NULL");
    CHECK(hr_job_wait(NULL, 0) == HR_EINVAL, "wait NULL");
    CHECK(hr_job_fd(NULL) == -1, "fd of NULL");
    CHECK(hr_image_wait(NULL, 0) == HR_EINVAL, "image_wait NULL");
}

// ---- Facts in results -----------------------------------------------------

// An error that is found only after the header was read fails its sample alone.
TEST_CASE(late_errors)
{
    auto_device dev = test_device("cpu", 2, 0);
    struct watched w;

    scene_init(&scene, dev, 5, SCENE_BYTES);
    scene.ops[1][1] = hr_op_resize(.w = SCENE_W + 1, .h = SCENE_H);
    scene.ops[2][1] = hr_op_crop(.x = 9999, .w = 4, .h = 4);
    scene.ops[3][0] = hr_op_decode(.mode = HR_GRAY);
    scene.samples[1].num_ops = scene.samples[2].num_ops = 2;
    scene.samples[4].size = 0;
    watch_submit(&w, &scene, NULL);
    CHECK(watch_wait(&w) == HR_EINVAL, "the first that failed");
    for (int i = 1; i < 4; i++)
        CHECK(w.job->results[i].status == HR_EINVAL &&
                  w.job->results[i].stage == HR_RESAMPLE,
              "sample %d: %s", i, w.job->results[i].message);
    CHECK(w.job->results[4].status == HR_EFORMAT ||
              w.job->results[4].status == HR_ETRUNCATED,
          "no bytes: %s", w.job->results[4].message);
    CHECK(w.job->results[4].stage == HR_HEADER &&
              strstr(w.job->results[4].message, ": header"),
          "%s: %s", hr_stage_name(w.job->results[4].stage),
          w.job->results[4].message);
    CHECK(scene_check_results(&scene, w.job, HR_ON_ERROR_FAIL) == 1, "one");
    watch_finish(&w);
    scene_finish(&scene);
}

TEST_CASE(waits)
{
    auto_device dev = NULL;
    struct watched w;
    struct hr_stats stats;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .gate = true);
    dev = test_device("fake", 1, 0);
    scene_init(&scene, dev, 3, SCENE_BYTES);
    CHECK(watch_submit(&w, &scene, NULL), "%s", hr_last_error());
    CHECK(hr_job_poll(w.job, 0) == HR_PENDING, "poll 0");
    CHECK(hr_job_poll(w.job, TEST_MS) == HR_PENDING, "poll 1 ms");
    CHECK(hr_job_wait(w.job, TEST_MS) == HR_ETIMEDOUT, "wait 1 ms");
    CHECK(hr_wait_all(dev, TEST_MS) == HR_ETIMEDOUT, "wait_all 1 ms");
    CHECK(w.job->results[0].status == HR_PENDING, "result before the end");
    hr_device_stats(dev, &stats);
    CHECK(stats.bytes_in_flight > 0 && stats.jobs == 0, "stats at work");
    CHECK(atomic_load(&w.done.calls) == 0, "called early");
    fake_gate_open();
    CHECK(watch_wait(&w) == HR_OK, "the end");
    CHECK(atomic_load(&w.done.on_library), "the callback's thread");
    scene_check_results(&scene, w.job, HR_ON_ERROR_FAIL);
    watch_finish(&w);
    scene_finish(&scene);
}

// A fault that the decoder mends: HR_OK, and told. The second of its restart
// markers has the number of another.
TEST_CASE(warnings)
{
    static const struct jpeg_spec spec = {.w = 96,
                                          .h = 64,
                                          .space = JCS_YCbCr,
                                          .factors = {0x22},
                                          .quality = 85,
                                          .restart = 2};
    const struct hr_op op = hr_op_decode(0);
    uint64_t seed = 9;
    auto_bytes whole = test_jpeg_of(&spec, &seed), bad = {0};
    auto_device dev = test_device("cpu", 1, 0);
    auto_batch out = hr_batch_create(dev, hr_batch_params(.n = 2, .c = 3,
                                                          .h = 64, .w = 96));
    struct hr_sample s[2];
    auto_job job = NULL;

    bad = (struct bytes){test_copy(whole.data, whole.size), whole.size};
    for (size_t i = 0; i + 1 < bad.size; i++)
        if (bad.data[i] == 0xff && bad.data[i + 1] == 0xd1) {
            bad.data[i + 1] = 0xd5;
            break;
        }
    CHECK(memcmp(bad.data, whole.data, bad.size) != 0, "no such marker");
    for (int i = 0; i < 2; i++)
        s[i] = (struct hr_sample){.data = i ? bad.data : whole.data,
                                  .size = bad.size,
                                  .ops = &op,
                                  .num_ops = 1};
    job = hr_submit(dev, s, 2, out, NULL);
    CHECK(job && hr_job_wait(job, HR_FOREVER) == HR_OK, "%s", hr_last_error());
    CHECK(!job->results[0].warnings, "the whole one: %d warnings",
          job->results[0].warnings);
    CHECK(job->results[1].warnings > 0, "the damaged one: no warning");
}
