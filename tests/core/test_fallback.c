// SPDX-License-Identifier: Apache-2.0
// Plans at work: every cut between an engine and the CPU makes the same bytes
// and names the engine of each part; engines get their samples in lists of
// equal spans; samples that an engine refuses or fails go on elsewhere, and are
// counted.
#include "scene.h"

static struct scene scene;

// ---- Cuts -----------------------------------------------------------------

static bool by_fake(const struct hr_result *r, enum hr_stage stage)
{
    for (int i = 0; i < r->num_spans; i++)
        if (r->spans[i].span.first <= stage && r->spans[i].span.last >= stage)
            return !strcmp(r->spans[i].device, "fake:0");
    return false;
}

// The most of decode, resample and store that any cut gives the engine with
// these offers, given that the CPU can do every part.
static int best_share(uint32_t spans, bool image)
{
    static const struct {
        uint32_t span;
        int first, last;  // of 0 = decode, 1 = resample, 2 = store
        int stages;
    } all[] = {{FAKE_D, 0, 0, 3}, {FAKE_DR, 0, 1, 4}, {FAKE_DRS, 0, 2, 5},
               {FAKE_R, 1, 1, 1}, {FAKE_RS, 1, 2, 2}, {FAKE_S, 2, 2, 1}};
    int best[4] = {0};

    for (int at = 2; at >= image; at--) {
        best[at] = best[at + 1];
        for (int i = 0; i < 6; i++)
            if (all[i].first == at && (spans & all[i].span) &&
                best[all[i].last + 1] + all[i].stages > best[at])
                best[at] = best[all[i].last + 1] + all[i].stages;
    }
    return best[image];
}

static void check_share(const struct hr_result *r, uint32_t spans, bool image)
{
    int share = 0;

    for (int s = HR_ENTROPY; s < HR_NUM_STAGES; s++)
        share += s != HR_AUGMENT && by_fake(r, (enum hr_stage)s);
    CHECK(share == best_share(spans, image), "offers %#x: %d stages, not %d",
          spans, share, best_share(spans, image));
}

TEST_CASE(cuts)
{
    static const uint32_t each[] = {FAKE_D, FAKE_DR, FAKE_DRS,
                                    FAKE_R, FAKE_RS, FAKE_S};

    for (int set = 0; set < 64; set++) {
        uint32_t spans = 0;
        auto_device dev = NULL;
        struct watched w;

        for (int i = 0; i < 6; i++)
            spans |= set & 1 << i ? each[i] : 0;
        fake_begin(.spans = FAKE_ALL(spans), .own_buffers = set % 2,
                   .where = set % 3 ? FAKE_THREAD : FAKE_INSIDE);
        dev = test_device("fake", 2, 0);
        scene_init(&scene, dev, 9, SCENE_MIXED);
        watch_submit(&w, &scene, NULL);
        CHECK(watch_wait(&w) == HR_OK, "set %d", set);
        CHECK(scene_check_results(&scene, w.job, HR_ON_ERROR_FAIL) == 9,
              "set %d", set);
        for (int i = 0; i < 9; i++)
            check_share(&w.job->results[i], spans, scene.samples[i].image);
        CHECK(atomic_load(&fake_counts.mixed) == 0 &&
                  atomic_load(&fake_counts.empty) == 0,
              "set %d: a mixed or an empty list", set);
        watch_finish(&w);
        scene_finish(&scene);
    }
}

// The tier decides which offers count.
TEST_CASE(tiers)
{
    auto_device dev = NULL;
    struct watched w;

    fake_begin(.spans = {[HR_CLOSE] = FAKE_RS, [HR_FAST] = FAKE_DRS});
    dev = test_device("fake", 1, 0);
    // The default is the tier in which no device can change a picture.
    CHECK(HR_EXACT == 0 && hr_job_params(0)->tier == HR_EXACT, "the default");
    for (int tier = 0; tier <= HR_FAST; tier++) {
        scene_init(&scene, dev, 2, SCENE_BYTES);
        watch_submit(&w, &scene, hr_job_params(.tier = (enum hr_tier)tier));
        CHECK(watch_wait(&w) == HR_OK, "tier %d", tier);
        scene_check_results(&scene, w.job, HR_ON_ERROR_FAIL);
        CHECK(by_fake(&w.job->results[0], HR_ENTROPY) == (tier == HR_FAST) &&
                  by_fake(&w.job->results[0], HR_STORE) == (tier != HR_EXACT),
              "tier %d: the wrong engine", tier);
        watch_finish(&w);
        scene_finish(&scene);
    }
}

// ---- Lists ----------------------------------------------------------------

static void one_list(enum scene_source source, int n, int batch, int lists)
{
    auto_device dev = NULL;
    struct watched w;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .batch = batch);
    dev = test_device("fake", 3, 0);
    scene_init(&scene, dev, n, source);
    watch_submit(&w, &scene, NULL);
    CHECK(watch_wait(&w) == HR_OK, "ok");
    scene_check_results(&scene, w.job, HR_ON_ERROR_FAIL);
    CHECK(atomic_load(&fake_counts.lists) == lists, "%d samples in %d lists", n,
          atomic_load(&fake_counts.lists));
    CHECK(atomic_load(&fake_counts.tasks) == n, "%d tasks",
          atomic_load(&fake_counts.tasks));
    CHECK(!batch || atomic_load(&fake_counts.longest) <= batch, "a list of %d",
          atomic_load(&fake_counts.longest));
    CHECK(atomic_load(&fake_counts.empty) == 0 &&
              atomic_load(&fake_counts.mixed) == 0,
          "empty or mixed");
    watch_finish(&w);
    scene_finish(&scene);
}

TEST_CASE(lists)
{
    for (int source = SCENE_BYTES; source <= SCENE_MIXED; source++) {
        one_list((enum scene_source)source, 32, 0, 1);
        one_list((enum scene_source)source, 32, 8, 4);
        one_list((enum scene_source)source, 1, 0, 1);
    }
}

// Some are planned to the engine, some stay on the CPU, some fail: the list
// goes out all the same, without them.
TEST_CASE(lists_with_gaps)
{
    uint64_t seed = 3;
    auto_bytes bad = test_damaged(50, 50, &seed);

    for (int round = 0; round < test_loops(40); round++) {
        auto_device dev = NULL;
        struct watched w;
        int ok;

        fake_begin(.spans = FAKE_ALL(FAKE_RS), .takes_every_2nd = true);
        dev = test_device("fake", 1 + round % 4, 0);
        scene_init(&scene, dev, 16, SCENE_MIXED);
        for (int i = round % 16; i < 16; i += 5) {
            scene.samples[i].data = bad.data;
            scene.samples[i].size = bad.size;
            scene.samples[i].path = NULL;
            hr_image_release(&scene.samples[i].image);
            scene.ops[i][0] = hr_op_decode(0);
            scene.samples[i].num_ops = 1;
        }
        watch_submit(&w, &scene, NULL);
        watch_wait(&w);
        ok = scene_check_results(&scene, w.job, HR_ON_ERROR_FAIL);
        CHECK(ok >= 12 && ok < 16, "%d are ok", ok);
        CHECK(atomic_load(&fake_counts.lists) == 1, "%d lists",
              atomic_load(&fake_counts.lists));
        watch_finish(&w);
        scene_finish(&scene);
    }
}

// JPEGs begin with the decode, images with the resample: two lists.
TEST_CASE(lists_of_equal_spans)
{
    auto_device dev = NULL;
    struct watched w;

    fake_begin(.spans = FAKE_ALL(FAKE_DRS | FAKE_RS));
    dev = test_device("fake", 2, 0);
    scene_init(&scene, dev, 12, SCENE_MIXED);
    watch_submit(&w, &scene, NULL);
    CHECK(watch_wait(&w) == HR_OK, "ok");
    CHECK(scene_check_results(&scene, w.job, HR_ON_ERROR_FAIL) == 12, "ok");
    CHECK(atomic_load(&fake_counts.mixed) == 0, "%d tasks of other spans",
          atomic_load(&fake_counts.mixed));
    CHECK(atomic_load(&fake_counts.lists) == 2 &&
              atomic_load(&fake_counts.tasks) == 12,
          "%d lists", atomic_load(&fake_counts.lists));
    watch_finish(&w);
    scene_finish(&scene);
}

// ---- Failures at every place ----------------------------------------------

TEST_CASE(fails_at_every_task)
{
    static const enum hr_status codes[] = {HR_EDEVICE, HR_ENOMEM, HR_ECORRUPT,
                                           HR_ETIMEDOUT, HR_EUNSUPPORTED};
    static const uint32_t spans[] = {FAKE_RS, FAKE_R | FAKE_S, FAKE_DR,
                                     FAKE_D | FAKE_S};
    int n = 5;

    for (int k = 1; k <= 2 * n; k++)
        for (int round = 0; round < 8; round++) {
            struct fake_script script = {.spans = FAKE_ALL(spans[round % 4]),
                                         .fail_from = k,
                                         .fail_to = round % 3 ? k : 0,
                                         .fail_late = round % 2,
                                         .fail_status = codes[(k + round) % 5],
                                         .fail_why = HR_WHY_LOST,
                                         .own_buffers = true,
                                         .where = round / 4 ? FAKE_INSIDE
                                                            : FAKE_THREAD};
            struct hr_stats stats;
            hr_device dev;
            struct watched w;
            unsigned failed = 0;

            script.fail_to = script.fail_to ? k : -1;  // -1: from k on
            fake_reset(&script);
            dev = test_device("fake", 2, 0);
            scene_init(&scene, dev, n, SCENE_BYTES);
            watch_submit(&w, &scene, NULL);
            CHECK(watch_wait(&w) == HR_OK, "task %d, round %d: %s", k, round,
                  w.job->results[0].message);
            CHECK(scene_check_results(&scene, w.job, HR_ON_ERROR_FAIL) == n,
                  "task %d, round %d", k, round);
            for (int i = 0; i < n; i++) {
                const struct hr_result *r = &w.job->results[i];

                failed += r->fallbacks;
                CHECK(!r->fallbacks == !(r->why & HR_WHY_LOST), "why %#x",
                      r->why);
            }
            hr_device_stats(dev, &stats);
            CHECK(stats.fallbacks == failed, "%u", failed);
            CHECK(stats.fallback_reasons[__builtin_ctz(HR_WHY_LOST)] == failed,
                  "reasons");
            watch_finish(&w);
            scene_finish(&scene);
            hr_device_close(&dev);
            test_reaches(&fake_counts.closes, 1);
            CHECK(atomic_load(&fake_counts.buffers) == 0, "buffers leaked");
        }
}

// The engine reports spans as done but leaves no payload. That counts like any
// other failure of its own, and no engine continues from there.
TEST_CASE(leaves_nothing)
{
    static const uint32_t spans[] = {FAKE_P, FAKE_D, FAKE_DR, FAKE_R | FAKE_S,
                                     FAKE_D | FAKE_S};
    enum { SAMPLES = 5 };

    for (int k = 0; k < 10; k++) {
        bool strict = k / 5;
        struct hr_stats stats;
        auto_device dev = NULL;
        struct watched w;
        int ok;

        fake_begin(.spans = FAKE_ALL(spans[k % 5]), .empty_from = 1,
                   .empty_to = -1);
        dev = test_device("fake", 2, 0);
        scene_init(&scene, dev, SAMPLES, SCENE_BYTES);
        watch_submit(&w, &scene,
                     hr_job_params(.strict = strict,
                                   .on_error = HR_ON_ERROR_ZERO));
        watch_wait(&w);
        ok = scene_check_results(&scene, w.job, HR_ON_ERROR_ZERO);
        CHECK(ok == (strict ? 0 : SAMPLES), "case %d: %d made", k, ok);
        for (int i = 0; i < SAMPLES; i++) {
            const struct hr_result *r = &w.job->results[i];

            CHECK(r->why & HR_WHY_FAILED && r->fallbacks == !strict,
                  "case %d: why %#x, %d fallbacks", k, r->why, r->fallbacks);
            CHECK(!strict || (r->status == HR_EDEVICE &&
                              strstr(r->message, "left nothing")),
                  "case %d: %s", k, r->message);
        }
        hr_device_stats(dev, &stats);
        CHECK(stats.fallbacks == (strict ? 0u : SAMPLES), "case %d", k);
        watch_finish(&w);
        scene_finish(&scene);
    }
}

// The reasons for passing an engine over are in why, and nothing else is.
TEST_CASE(reasons)
{
    auto_device dev = NULL;
    struct watched w;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .takes_every_2nd = true);
    dev = test_device("fake", 2, 0);
    scene_init(&scene, dev, 8, SCENE_BYTES);
    watch_submit(&w, &scene, NULL);
    CHECK(watch_wait(&w) == HR_OK, "ok");
    for (int i = 0; i < 8; i++) {
        const struct hr_result *r = &w.job->results[i];
        bool odd = r->width % 2;

        CHECK(r->why == (odd ? HR_WHY_SIZE : 0u) && r->fallbacks == 0 &&
                  by_fake(r, HR_STORE) == !odd,
              "sample %d: why %#x", i, r->why);
    }
    watch_finish(&w);
    watch_submit(&w, &scene,
                 hr_job_params(.strict = true, .on_error = HR_ON_ERROR_ZERO));
    CHECK(watch_wait(&w) == HR_OK, "zero");
    for (int i = 0; i < 8; i++)
        CHECK(w.job->results[i].status ==
                  (w.job->results[i].width % 2 ? HR_EUNSUPPORTED : HR_OK),
              "strict sample %d: %s", i, w.job->results[i].message);
    watch_finish(&w);
    scene_finish(&scene);
}

TEST_CASE(open_failures)
{
    hr_device dev;

    fake_begin(.open_fails = true);
    dev = hr_device_open("fake", NULL);
    CHECK(!dev && hr_last_status() == HR_EDEVICE &&
              strstr(hr_last_error(), "the script says no") &&
              strstr(hr_last_error(), "fake"),
          "%s", hr_last_error());
    CHECK(atomic_load(&fake_counts.closes) == 1, "half-opened engines, too");
    CHECK(hr_set_image_backend("fake") == HR_EDEVICE, "set");
    unsetenv("HEADRACE_BACKEND");
    dev = hr_device_open(NULL, NULL);
    CHECK(dev && strcmp(dev->backend, "fake"), "auto goes on");
    hr_device_close(&dev);
    setenv("HEADRACE_BACKEND", "fake", 1);
    CHECK(!hr_device_open(NULL, NULL) && hr_last_status() == HR_EDEVICE,
          "an explicit wish");
    unsetenv("HEADRACE_BACKEND");
}

// The CPU begins anew where its own decoder gives up: it still leaves one
// payload for the next engine, reserved once.
TEST_CASE(begun_anew)
{
    enum { WARM = 4, JOBS = 40 };
    uint64_t seed = test_seed;
    auto_bytes jpeg = test_warned(120, 90, &seed);
    struct hr_stats stats, warm = {0};
    struct hr_result r;
    auto_device dev = NULL;
    auto_image out = NULL;

    fake_reset_spans(FAKE_RS);
    dev = test_device("fake", 1, 0);
    out = hr_image_create(dev, hr_image_params(.w = 50, .h = 40, .c = 3,
                                               .dtype = HR_U8));
    for (int i = 0; i < WARM + JOBS; i++) {
        const struct hr_op ops[] = {hr_op_decode(0),
                                    hr_op_resize(.w = 50, .h = 40)};
        hr_job job = hr_submit(dev, &test_sample(&jpeg, ops, 2, .out = out), 1,
                               NULL, NULL);

        CU_ASSERT_FATAL(job != NULL);
        hr_job_wait(job, HR_FOREVER);
        r = job->results[0];
        CHECK(r.status == HR_OK && r.num_spans == 2, "%d, %d spans: %s",
              r.status, r.num_spans, r.message);
        CHECK(r.warnings == 1, "%d warnings: the first span's count, too",
              r.warnings);
        hr_job_release(&job);
        hr_wait_all(dev, HR_FOREVER);
        hr_device_stats(dev, &stats);
        CHECK(stats.bytes_in_flight == 0, "%zu bytes left",
              stats.bytes_in_flight);
        if (i + 1 == WARM)
            warm = stats;
    }
    // A payload that is lost is one that the pool has to make again, for
    // every job. (A job may be waited for a little before its memory is back:
    // then the next one takes some of its own, which happens rarely.)
    CHECK(stats.heap_allocations < warm.heap_allocations + JOBS / 2,
          "%llu, then %llu", (unsigned long long)warm.heap_allocations,
          (unsigned long long)stats.heap_allocations);
}
