// SPDX-License-Identifier: Apache-2.0
// The VA-API engine's certificate by kinds of JPEG, the spans it is then used
// for, and devices that lie.
#include "vaapi_env.h"

// ---- Certificates ---------------------------------------------------------

TEST_CASE(certificates)
{
    static const struct {
        const char *options;
        double max;
        bool exact, close;
    } cases[] = {
        {"deviate=0", 0, true, true},
        {"deviate=1", 1, false, true},
        {"deviate=2", 2, false, true},
        {"deviate=3", 3, false, false},
    };
    unsigned why = 0;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        hr_device dev;
        struct hr_stats stats;
        const struct hr_certificate *cert;

        vaapi_new_cache();
        vaapi_driver("default,reset,%s", cases[i].options);
        // The second time it is read from disk.
        for (int again = 0; again < 2; again++) {
            dev = vaapi_open("plain");
            cert = &dev->certificate;
            for (int k = 0; k < HR_NUM_KINDS; k++) {
                struct hr_certificate_record r = vaapi_planes(cert, k);

                CHECK(
                    r.pictures > 0 && r.max <= cases[i].max &&
                        (k == HR_KIND_GRAY || r.max > 0 || !(cases[i].max > 0)),
                    "%s: %s: %d pictures, max %g", cases[i].options,
                    hr_jpeg_kind_name((enum hr_jpeg_kind)k), r.pictures, r.max);
            }
            CHECK((vaapi_scaled(cert, HR_KIND_422).pictures > 0) ==
                      cases[i].close,
                  "%s: its video processor", cases[i].options);
            CHECK((vaapi_run_kind(dev, YCC(.factors = {0x22}), 20, HR_EXACT,
                                  &why) > 0) == cases[i].exact,
                  "%s: exact", cases[i].options);
            CHECK(cases[i].exact || why & HR_WHY_CERTIFICATE, "why %#x", why);
            CHECK((vaapi_run_kind(dev, YCC(.factors = {0x22}), 20, HR_CLOSE,
                                  &why) > 0) == cases[i].close,
                  "%s: close", cases[i].options);
            hr_device_stats(dev, &stats);
            CHECK(stats.mismatches == 0 &&
                      (stats.checked > 0) == cases[i].close,
                  "%s: %d mismatches of %d", cases[i].options,
                  (int)stats.mismatches, (int)stats.checked);
            vaapi_close(&dev);
        }
    }
    vaapi_new_cache();
}

// An error in one kind costs only that kind.
TEST_CASE(one_kind)
{
    static const uint8_t factors[] = {0x22, 0x21, 0x12};
    unsigned why;

    for (int off = 2; off <= 3; off++) {
        hr_device dev;

        vaapi_new_cache();
        vaapi_driver("default,reset,deviate=%d,deviate_in=422H", off);
        dev = vaapi_open("plain");
        for (int i = 0; i < 3; i++)
            for (int tier = HR_EXACT; tier <= HR_CLOSE; tier++) {
                bool right = factors[i] != 0x21 ||
                             (tier == HR_CLOSE && off <= 2);
                int made = vaapi_run_kind(dev, YCC(.factors = {factors[i]}), 4,
                                          (enum hr_tier)tier, &why);

                CHECK(made == (right ? 4 : 0) &&
                          why == (right ? 0u : (unsigned)HR_WHY_CERTIFICATE),
                      "off by %d: factors %#x, tier %d: %d made, why %#x", off,
                      factors[i], tier, made, why);
            }
        vaapi_close(&dev);
    }
    vaapi_driver("default");
    vaapi_new_cache();
}

// Success, and other pixels: the sample has the CPU's, the device is left.
TEST_CASE(lies)
{
    static const char *const faults[] = {"wrong", "zero", "stale"};
    unsigned why = 0;

    for (int i = 0; i < 3; i++) {
        hr_device dev;
        struct hr_stats stats;

        vaapi_driver("default,reset");
        dev = vaapi_open("plain");
        // (What a new surface holds is 0: a stale one must have been used.)
        vaapi_run_kind(
            dev, KIND(.space = JCS_YCbCr, .factors = {0x22}, .quality = 30), 8,
            HR_EXACT, &why);
        vaapi_driver("fault=Decode:%s:2-5", faults[i]);
        CHECK(vaapi_run_kind(dev, YCC(.factors = {0x22}), 6, HR_EXACT, &why) <
                  6,
              "%s", faults[i]);
        CHECK(why & HR_WHY_MISMATCH, "%s: why %#x", faults[i], why);
        CHECK(vaapi_run_kind(dev, YCC(.factors = {0x22}), 4, HR_EXACT, &why) ==
                  0,
              "%s: still used", faults[i]);
        CHECK(why & HR_WHY_MISMATCH, "%s: why %#x", faults[i], why);
        hr_device_stats(dev, &stats);
        // (Once one is caught, the next are not the device's any more.)
        CHECK(stats.mismatches >= 1 && stats.checked >= 8 + stats.mismatches,
              "%s: %d mismatches of %d", faults[i], (int)stats.mismatches,
              (int)stats.checked);
        vaapi_close(&dev);
    }
}

// No other engine may make the picture instead: the sample fails, and says why.
TEST_CASE(strict_lies)
{
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg_of(YCC(.factors = {0x22}), &seed);
    const struct hr_op op = hr_op_decode(0);
    const struct hr_sample s = test_sample(&b, &op, 1);

    for (int lying = 0; lying < 2; lying++) {
        const struct hr_result *r;
        enum hr_status want = lying ? HR_EDEVICE : HR_OK;
        hr_device dev;
        hr_batch out;
        hr_job job;

        vaapi_driver("default,reset");
        dev = vaapi_open("plain");
        vaapi_driver(lying ? "fault=Decode:wrong:always" : "fault=none");
        out = hr_batch_create(dev, hr_batch_params(.n = 1, .c = 3, .h = 90,
                                                   .w = 100));
        job = hr_submit(dev, &s, 1, out, hr_job_params(.strict = true));
        CHECK(hr_job_wait(job, 20000 * TEST_MS) == want, "%s",
              job->results[0].message);
        r = &job->results[0];
        CHECK(r->status == want && !lying == !(r->why & HR_WHY_MISMATCH),
              "%s, why %#x", hr_status_name(r->status), r->why);
        hr_job_release(&job);
        hr_batch_destroy(&out);
        vaapi_close(&dev);
    }
}

enum { COPIES = 20, COPY_W = 100, COPY_H = 90, COPY = 3 * COPY_W * COPY_H };

// So many copies of one file, decoded.
static hr_batch decoded(hr_device dev, const struct bytes *b)
{
    const struct hr_op op = hr_op_decode(0);
    hr_batch out =
        hr_batch_create(dev, hr_batch_params(.n = COPIES, .c = 3, .h = COPY_H,
                                             .w = COPY_W, .dtype = HR_U8));
    struct hr_sample s[COPIES];
    auto_job job = NULL;

    for (int i = 0; i < COPIES; i++)
        s[i] = test_sample(b, &op, 1);
    job = hr_submit(dev, s, COPIES, out, hr_job_params(.tier = HR_CLOSE));
    CHECK(hr_job_wait(job, 20000 * TEST_MS) == HR_OK, "%s",
          job->results[0].message);
    return out;
}

// The first ones are made a second time by the CPU, the others are not; the
// allowed deviation of a device is in all of them.
TEST_CASE(checked_or_not)
{
    uint64_t seed = test_seed;
    struct bytes b = test_jpeg_of(YCC(.factors = {0x22}), &seed);
    hr_device dev, cpu = test_device("cpu", 1, 0);
    hr_batch right, got;
    struct hr_stats stats;
    int other = 0;

    vaapi_new_cache();
    vaapi_driver("default,reset,deviate=2");
    dev = vaapi_open("plain");
    right = decoded(cpu, &b);
    got = decoded(dev, &b);
    hr_device_stats(dev, &stats);
    CHECK(stats.checked == 16 && !stats.mismatches, "%d checked, %d mismatches",
          (int)stats.checked, (int)stats.mismatches);
    for (int i = 0; i < COPIES; i++)
        other += memcmp((uint8_t *)got->params.data + i * COPY,
                        got->params.data, COPY) != 0;
    CHECK(!other, "one file gives %d other pictures", other);
    CHECK(memcmp(right->params.data, got->params.data, COPY) != 0,
          "the device's picture is the CPU's");
    hr_batch_destroy(&right);
    hr_batch_destroy(&got);
    vaapi_close(&dev);
    hr_device_close(&cpu);
    free(b.data);
    vaapi_driver("default");
    vaapi_new_cache();
}

// ---- Results in device memory ---------------------------------------------

enum { IN_MEMORY = 6 };

// A job into device memory, and what is there then.
static void to_memory(hr_device dev, const struct bytes *b, uint8_t *to,
                      size_t size, unsigned *why, int *by_device)
{
    const struct hr_op ops[] = {hr_op_decode(0),
                                hr_op_resize(.w = 40, .h = 30)};
    bool host = !strcmp(dev->backend, "cpu");
    auto_batch out = hr_batch_create(
        dev,
        hr_batch_params(.n = IN_MEMORY, .c = 3, .h = 30, .w = 40,
                        .dtype = HR_U8,
                        .memory = host ? HR_MEMORY_HOST : HR_MEMORY_DEVICE));
    struct hr_sample s[IN_MEMORY];
    hr_job job;

    *why = 0;
    *by_device = 0;
    for (int i = 0; i < IN_MEMORY; i++)
        s[i] = test_sample(b, ops, 2);
    CHECK(out && (host || !out->params.data), "not in device memory: %s",
          hr_last_error());
    job = hr_submit(dev, s, IN_MEMORY, out, hr_job_params(.tier = HR_EXACT));
    CHECK(hr_job_wait(job, 20000 * TEST_MS) == HR_OK, "%s",
          job->results[0].message);
    for (int i = 0; i < IN_MEMORY; i++) {
        const struct hr_result *r = &job->results[i];

        *why |= r->why;
        *by_device += !strncmp(r->spans[0].device, "vaapi", 5) &&
                      !strncmp(r->spans[r->num_spans - 1].device, "opencl", 6);
    }
    hr_job_release(&job);
    CHECK(!hr_batch_read(out, 0, IN_MEMORY, to, size, 20000 * TEST_MS), "%s",
          hr_last_error());
}

// Pictures that OpenCL has stored in its own memory are checked, too.
TEST_CASE(in_device_memory)
{
    enum { SIZE = IN_MEMORY * 3 * 30 * 40 };
    static uint8_t want[SIZE], got[SIZE];
    uint64_t seed = test_seed;
    struct bytes b = test_jpeg_of(YCC(.factors = {0x22}), &seed);
    hr_device dev, cpu = test_device("cpu", 1, 0);
    struct hr_stats stats;
    int by_device;
    unsigned why;

    vaapi_driver("default,reset");
    if (!(dev = hr_device_open("vaapi+opencl:pocl", NULL))) {
        test_not_run(hr_last_error());
        hr_device_close(&cpu);
        free(b.data);
        return;
    }
    to_memory(cpu, &b, want, SIZE, &why, &by_device);
    to_memory(dev, &b, got, SIZE, &why, &by_device);
    CHECK(by_device == IN_MEMORY && !memcmp(want, got, SIZE),
          "%d by the device", by_device);
    CHECK(!why, "why %#x", why);
    hr_device_stats(dev, &stats);
    CHECK(stats.checked == IN_MEMORY && !stats.mismatches,
          "%d checked, %d mismatches", (int)stats.checked,
          (int)stats.mismatches);
    vaapi_driver("fault=Decode:wrong:2-4");
    to_memory(dev, &b, got, SIZE, &why, &by_device);
    CHECK(why & HR_WHY_MISMATCH && !memcmp(want, got, SIZE), "why %#x", why);
    hr_device_stats(dev, &stats);
    CHECK(stats.mismatches >= 1, "not found out");
    vaapi_close(&dev);
    hr_device_close(&cpu);
    free(b.data);
}

TEST_MAIN(vaapi_main)
