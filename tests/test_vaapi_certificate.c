// SPDX-License-Identifier: Apache-2.0
// What the VA-API engine is found to do, and what it is then used for: its
// certificate by kinds of JPEG, its video processor, and devices that lie.
#include <stdlib.h>
#include <string.h>

#include "vaapi_env.h"

// ---- The video processor --------------------------------------------------

// One picture to u8 in that tier; its last pixels free(). *last: the last
// stage of the first span, if the device made it.
static uint8_t *fast_pixels(hr_device dev, const struct bytes *b, bool flip,
                            bool half, enum hr_tier tier, size_t *size,
                            int *last)
{
    struct hr_op ops[4] = {hr_op_decode(0),
                           hr_op_crop(.x = 16, .y = 8, .w = 64, .h = 48)};
    int n = 2, w = half ? 32 : 64, h = half ? 24 : 48;
    struct hr_sample s;
    hr_image out;
    hr_job job;
    uint8_t *copy;

    if (half)
        ops[n++] = (struct hr_op)hr_op_resize(.w = w, .h = h);
    if (flip)
        ops[n++] = (struct hr_op)hr_op_flip(.horizontal = true);
    out = hr_image_create(dev, hr_image_params(.w = w, .h = h, .c = 3,
                                               .dtype = HR_U8));
    s = (struct hr_sample){
        .data = b->data, .size = b->size, .ops = ops, .num_ops = n, .out = out};
    job = hr_submit(dev, &s, 1, NULL, hr_job_params(.tier = tier));
    CHECK(hr_job_wait(job, 20000 * TEST_MS) == HR_OK, "%s",
          job->results[0].message);
    *last = strncmp(job->results[0].spans[0].device, "vaapi", 5)
                ? -1
                : (int)job->results[0].spans[0].span.last;
    *size = out->size;
    copy = test_copy(out->params.data, out->size);
    hr_job_release(&job);
    hr_image_release(&out);
    return copy;
}

static double mean_difference(const uint8_t *a, const uint8_t *b, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += abs(a[i] - b[i]);
    return sum / (double)n;
}

static void check_processor(const char *options, bool there)
{
    uint64_t seed = test_seed;
    struct bytes b = test_jpeg_of(YCC(.factors = {0x22}), &seed);
    hr_device dev, cpu = test_device("cpu", 1, 0);
    size_t size;
    int last;

    vaapi_driver("default,reset,%s", options);
    dev = vaapi_open_with(NULL);
    CHECK(dev != NULL, "%s", hr_last_error());
    for (int i = 0; i < 4; i++) {
        bool flip = i % 2, half = i / 2;
        uint8_t *want = fast_pixels(cpu, &b, flip, half, HR_EXACT, &size,
                                    &last);
        uint8_t *other = fast_pixels(cpu, &b, !flip, half, HR_EXACT, &size,
                                     &last);
        uint8_t *got = fast_pixels(dev, &b, flip, half, HR_FAST, &size, &last);
        double right = mean_difference(got, want, size);
        double wrong = mean_difference(got, other, size);

        CHECK(last == (there ? HR_RESAMPLE : HR_RECONSTRUCT),
              "%s: ends with %d", options, last);
        CHECK(there ? right * 3 < wrong : !(right > 0),
              "%s: %.2f levels off, %.2f mirrored", options, right, wrong);
        free(got);
        // In the other tiers it is not asked.
        got = fast_pixels(dev, &b, flip, half, HR_CLOSE, &size, &last);
        CHECK(last == HR_RECONSTRUCT && !memcmp(got, want, size), "%s: close",
              options);
        free(got);
        free(want);
        free(other);
    }
    vaapi_close(&dev);
    hr_device_close(&cpu);
    free(b.data);
}

static void video_processor(void)
{
    check_processor("personality=plain", true);
    check_processor("personality=ihd", true);
    check_processor("personality=i965", false);
    check_processor("personality=mesa22", false);
    check_processor("personality=nvidia", false);
    // Its probe finds out: limited range, and none at all.
    check_processor("personality=ihd,limited=1", false);
    check_processor("personality=ihd,no_vpp=1", false);
}

// ---- Certificates ---------------------------------------------------------

static void certificates(void)
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
            for (int k = 0; k < HR_NUM_KINDS; k++)
                CHECK(cert->kinds[k].pictures > 0 &&
                          cert->kinds[k].max <= cases[i].max &&
                          (k == HR_KIND_GRAY || cert->kinds[k].max > 0 ||
                           !(cases[i].max > 0)),
                      "%s: %s: %d pictures, max %g", cases[i].options,
                      hr_jpeg_kind_name((enum hr_jpeg_kind)k),
                      cert->kinds[k].pictures, cert->kinds[k].max);
            CHECK((vaapi_run_kind(dev, YCC(.factors = {0x22}), 20, HR_EXACT,
                                  &why) > 0) == cases[i].exact,
                  "%s: exact", cases[i].options);
            CHECK(cases[i].exact || why & HR_WHY_CERTIFICATE, "why %#x", why);
            CHECK((vaapi_run_kind(dev, YCC(.factors = {0x22}), 20, HR_CLOSE,
                                  &why) > 0) == cases[i].close,
                  "%s: close", cases[i].options);
            hr_device_stats(dev, &stats);
            CHECK(stats.lies == 0 && (stats.checked > 0) == cases[i].close,
                  "%s: %d lies of %d", cases[i].options, (int)stats.lies,
                  (int)stats.checked);
            vaapi_close(&dev);
        }
    }
    vaapi_new_cache();
}

// Success, and other pixels: the sample has the CPU's, the device is left.
static void lies(void)
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
        CHECK(why & HR_WHY_LIED, "%s: why %#x", faults[i], why);
        CHECK(vaapi_run_kind(dev, YCC(.factors = {0x22}), 4, HR_EXACT, &why) ==
                  0,
              "%s: still used", faults[i]);
        CHECK(why & HR_WHY_LIED, "%s: why %#x", faults[i], why);
        hr_device_stats(dev, &stats);
        CHECK(stats.lies >= 1 && stats.checked >= 14, "%s: %d lies of %d",
              faults[i], (int)stats.lies, (int)stats.checked);
        vaapi_close(&dev);
    }
}

// ---- What the video processor makes ---------------------------------------

// It is measured, and told; kept on disk like the rest.
static void scaled(void)
{
    double psnr = 0;

    vaapi_new_cache();
    vaapi_driver("default,reset");
    for (int again = 0; again < 2; again++) {
        hr_device dev = vaapi_open("ihd");
        const struct hr_certificate *cert = &dev->certificate;
        const struct hr_span_certificate *c = &cert->spans[1];

        CHECK(cert->num_spans == 2 && c->span.last == HR_RESAMPLE, "%d spans",
              cert->num_spans);
        CHECK(c->pictures >= 10 && !c->failed && c->max > 0 && c->mean > 0 &&
                  c->psnr > 15 && c->psnr < 60,
              "%d pictures, max %g, mean %g, %g dB", c->pictures, c->max,
              c->mean, c->psnr);
        CHECK(!again || !(c->psnr < psnr || c->psnr > psnr), "%g dB, was %g",
              c->psnr, psnr);
        psnr = c->psnr;
        printf("\n  %d pictures, max %g, mean %g, %.1f dB ", c->pictures,
               c->max, c->mean, c->psnr);
        vaapi_close(&dev);
    }
}

// Right when it is opened, and not when it is tested: not used.
static void scaled_wrongly(void)
{
    static const char *const faults[] = {"wrong", "zero"};
    struct bytes b;
    uint64_t seed = test_seed;
    size_t size;
    int last;

    b = test_jpeg_of(YCC(.factors = {0x22}), &seed);
    for (int i = 0; i < 2; i++) {
        hr_device dev;

        vaapi_new_cache();
        vaapi_driver("default,reset,fault=Process:%s:4+", faults[i]);
        dev = vaapi_open("ihd");
        CHECK(dev->certificate.num_spans == 2 &&
                  dev->certificate.spans[1].failed,
              "%s: %d spans, mean %g", faults[i], dev->certificate.num_spans,
              dev->certificate.spans[1].mean);
        CHECK(!(dev->caps.spans[HR_FAST] &
                HR__SPAN_BIT(HR_ENTROPY, HR_RESAMPLE)),
              "%s: offered", faults[i]);
        free(fast_pixels(dev, &b, false, true, HR_FAST, &size, &last));
        CHECK(last == HR_RECONSTRUCT, "%s: ends with %d", faults[i], last);
        vaapi_close(&dev);
    }
    free(b.data);
    vaapi_new_cache();
}

// 89 x 95, two chroma samples in each direction; free().
static struct bytes smooth_picture(hr_device cpu)
{
    struct hr__engine *e = ((struct hr__device *)cpu)->engines[0];
    struct bytes b = {.data = malloc(64 << 10)};

    if (!b.data || !e->backend->specimen(e, HR__SPECIMENS_LARGE + 2, b.data,
                                         64 << 10, &b.size))
        abort();
    return b;
}

// Right all the time, until it is used.
static void scaled_lies(void)
{
    static const char *const faults[] = {"Process:wrong", "Process:zero",
                                         "Process:stale", "Decode:wrong"};
    struct bytes b[2];
    hr_device cpu = test_device("cpu", 1, 0);
    uint64_t seed = test_seed;
    size_t size;
    int last;

    // Noise, and a picture like those that people take.
    b[0] = test_jpeg_of(&(struct jpeg_spec){.w = 89,
                                            .h = 95,
                                            .quality = 90,
                                            .space = JCS_YCbCr,
                                            .factors = {0x22}},
                        &seed);
    b[1] = smooth_picture(cpu);
    for (int i = 0; i < 4; i++) {
        uint8_t *want = fast_pixels(cpu, &b[1], false, true, HR_EXACT, &size,
                                    &last);
        uint8_t *got;
        struct hr_stats stats;
        hr_device dev;

        vaapi_driver("default,reset");
        dev = vaapi_open("ihd");
        // (In every slot: a stale surface must have been used.)
        for (int k = 0; k < 3; k++)
            free(fast_pixels(dev, &b[0], false, true, HR_FAST, &size, &last));
        CHECK(last == HR_RESAMPLE, "ends with %d", last);
        vaapi_driver("fault=%s:always", faults[i]);
        got = fast_pixels(dev, &b[1], false, true, HR_FAST, &size, &last);
        CHECK(last < 0 && !memcmp(got, want, size), "%s: not found out",
              faults[i]);
        hr_device_stats(dev, &stats);
        CHECK(stats.lies == 1 && stats.checked == 4, "%s: %d lies of %d",
              faults[i], (int)stats.lies, (int)stats.checked);
        free(got);
        free(want);
        vaapi_close(&dev);
    }
    for (int k = 0; k < 2; k++)
        free(b[k].data);
    hr_device_close(&cpu);
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
    hr_batch out = hr_batch_create(
        dev,
        hr_batch_params(.n = IN_MEMORY, .c = 3, .h = 30, .w = 40,
                        .dtype = HR_U8,
                        .memory = host ? HR_MEMORY_HOST : HR_MEMORY_DEVICE));
    struct hr_sample s[IN_MEMORY];
    hr_job job;

    *why = 0;
    *by_device = 0;
    for (int i = 0; i < IN_MEMORY; i++)
        s[i] = (struct hr_sample){
            .data = b->data, .size = b->size, .ops = ops, .num_ops = 2};
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
    hr_batch_destroy(&out);
}

// What OpenCL has stored in its own memory is looked at, too.
static void in_device_memory(void)
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
    CHECK(stats.checked == IN_MEMORY && !stats.lies, "%d checked, %d lies",
          (int)stats.checked, (int)stats.lies);
    vaapi_driver("fault=Decode:wrong:2-4");
    to_memory(dev, &b, got, SIZE, &why, &by_device);
    CHECK(why & HR_WHY_LIED && !memcmp(want, got, SIZE), "why %#x", why);
    hr_device_stats(dev, &stats);
    CHECK(stats.lies >= 1, "not found out");
    vaapi_close(&dev);
    hr_device_close(&cpu);
    free(b.data);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        TEST_CASE(video_processor),
        TEST_CASE(certificates),
        TEST_CASE(lies),
        TEST_CASE(scaled),
        TEST_CASE(scaled_wrongly),
        TEST_CASE(scaled_lies),
        TEST_CASE(in_device_memory),
    };

    if (!vaapi_init())
        return TEST_NOT_RUN;
    return test_main("vaapi certificate", cases, sizeof(cases) / sizeof(*cases),
                     argc, argv);
}
