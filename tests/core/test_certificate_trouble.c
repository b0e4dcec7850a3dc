// SPDX-License-Identifier: Apache-2.0
// A device that fails while it is tested, hangs, is slow or short of memory:
// it does not open or is not used, and what may do better is not kept.
#include "allowed.h"
#include "certificate_env.h"
#include "cpu_fallback/jpeg/specimen.h"
#include "hal/trust/trust.h"

TEST_CASE(failing)
{
    hr_device dev;
    char path[1024];

    certificate_forget();
    fake_begin(.spans = FAKE_ALL(FAKE_RS), .tested = true, .fail_from = 3,
               .fail_to = 3);
    CHECK(certificate_open(&dev, NULL) > 0, "not tested");
    CHECK(dev && certificate_of(dev, FAKE_RS)->failed, "failed");
    CHECK(dev->caps.spans[HR_FAST] == 0 && !dev->caps.exact, "offered");
    CHECK(certificate_by_fake(dev, HR_CLOSE, SCENE_BYTES) == 0, "used");
    hr_device_close(&dev);
    CHECK(certificate_file(path) == 0, "kept, though it may do better");
    certificate_right(NULL);
    CHECK(certificate_probes() > 0, "tested anew");
}

// A device is not blamed for files that it says it cannot divide.
TEST_CASE(serial)
{
    auto_device dev = NULL;

    certificate_forget();
    fake_begin(.spans = FAKE_ALL(FAKE_DRS), .tested = true, .fail_from = 3,
               .fail_to = 3, .fail_status = HR_EDEVICE,
               .fail_why = HR_WHY_SERIAL);
    CHECK(certificate_open(&dev, NULL) > 0, "not tested");
    CHECK(dev && !certificate_of(dev, FAKE_DRS)->failed, "failed");
    CHECK(dev->caps.exact && dev->caps.spans[HR_EXACT] & FAKE_DRS,
          "not offered");
}

TEST_CASE(hanging)
{
    for (int claimed = 0; claimed < 2; claimed++) {
        int64_t start = hr__now();
        hr_device dev;
        char path[1024];

        certificate_forget();
        fake_begin(.spans = FAKE_ALL(FAKE_RS), .tested = true, .hang_from = 5,
                   .hang_to = 5, .hang_claimed = claimed);
        // Memory that is claimed cannot be taken away: the clock of the job
        // ends that.
        hr__test_probe_limits(TEST_MS, (1000 * TEST_MS), 0);
        certificate_open(&dev, hr_device_params(.deadline_ns = 200 * TEST_MS));
        CHECK(!dev && hr_last_status() == HR_EDEVICE, "status %d",
              hr_last_status());
        CHECK(strstr(hr_last_error(), "fake") &&
                  strstr(hr_last_error(), "its test ended early"),
              "%s", hr_last_error());
        hr__test_probe_limits(0, 0, 0);
        CHECK(hr__now() - start < test_allowed(8000 * TEST_MS), "%d ms",
              (int)((hr__now() - start) / TEST_MS));
        CHECK(certificate_file(path) == 0, "kept");
        fake_wake();
        CHECK(test_reaches(&fake_counts.closes, 1), "never closed");
    }
}

// The deadline of a span is for work, when no driver compiles any more.
TEST_CASE(short_deadline)
{
    // Many, for the watchdog of a busy machine looks seldom.
    enum { PICTURES = 48 };
    static struct scene scene;
    struct watched w;
    unsigned why = 0;
    auto_device dev = NULL;

    certificate_forget();
    fake_begin(.spans = FAKE_ALL(FAKE_RS), .tested = true,
               .delay_ns = 4 * TEST_MS);
    certificate_open(&dev, hr_device_params(.deadline_ns = TEST_MS));
    CHECK(dev && dev->caps.exact, "%s", hr_last_error());
    // Then it counts.
    scene_init(&scene, dev, PICTURES, SCENE_BYTES);
    watch_submit(&w, &scene, NULL);
    CHECK(watch_wait(&w) == HR_OK, "%s", w.job->results[0].message);
    for (int i = 0; i < PICTURES; i++)
        why |= w.job->results[i].why;
    CHECK(why & HR_WHY_TIMEOUT, "why %#x", why);
    watch_finish(&w);
    scene_finish(&scene);
}

// A machine that is busy is slow at every picture: as long as they come, the
// clock starts again with each job.
TEST_CASE(slow)
{
    auto_device dev = NULL;
    int some = certificate_files, tasks = 0;

    // All of it takes three times as long as a job may, and a job a seventh of
    // that. A machine that is too busy for this gets longer clocks.
    certificate_files = cpu_specimen_count();
    for (int64_t ms = TEST_MS; !dev && ms <= 16 * TEST_MS; ms *= 2) {
        certificate_forget();
        fake_begin(.spans = FAKE_ALL(FAKE_RS), .tested = true,
                   .delay_ns = 8 * ms);
        hr__test_probe_limits(TEST_MS, 100 * ms, 0);
        tasks = certificate_open(&dev,
                                 hr_device_params(.deadline_ns = 500 * ms));
    }
    hr__test_probe_limits(0, 0, 0);
    certificate_files = some;
    CHECK(dev && dev->caps.exact, "%s", hr_last_error());
    CHECK(tasks > 200, "%d tasks", tasks);
}

// It opens, too, if it is never through; but spans that were not compared are
// not used, and the next open tries again.
TEST_CASE(too_slow)
{
    hr_device dev;
    char path[1024];

    certificate_forget();
    fake_begin(.spans = FAKE_ALL(FAKE_D | FAKE_RS), .tested = true,
               .delay_ns = TEST_MS);
    hr__test_probe_limits(0, 0, 20 * TEST_MS);
    CHECK(certificate_open(&dev, NULL) > 0, "not tested");
    hr__test_probe_limits(0, 0, 0);
    CHECK(dev && !dev->caps.exact, "%s", hr_last_error());
    for (int t = 0; dev && t <= HR_FAST; t++) {
        CHECK(dev->caps.spans[t] == 0, "tier %d", t);
        CHECK(certificate_by_fake(dev, (enum hr_tier)t, SCENE_MIXED) == 0,
              "used");
    }
    CHECK(dev && dev->certificate.records[0].pictures == 0, "compared");
    hr_device_close(&dev);
    CHECK(certificate_file(path) == 0, "kept, though it may do better");
    certificate_right(NULL);
    CHECK(certificate_probes() > 0, "tested anew");
}

TEST_CASE(no_memory)
{
    int opened = 0;

    for (int n = 1; n < 100000 && opened < 3;
         n += n < 60 ? 1 : 1 + n / (4 * test_loops(8))) {
        hr_device dev;

        certificate_forget();
        certificate_right(NULL);
        hr__test_fail_alloc(n, n % 3 == 0);
        dev = hr_device_open("fake", NULL);
        hr__test_fail_alloc(0, false);
        CHECK(dev || hr_last_status() == HR_ENOMEM, "%d: %s", n,
              hr_last_error());
        // A span that was short of memory must not be called wrong for good.
        opened += dev && dev->caps.exact;
        hr_device_close(&dev);
    }
    CHECK(opened == 3, "never enough memory");
}

TEST_MAIN(certificate_main)
