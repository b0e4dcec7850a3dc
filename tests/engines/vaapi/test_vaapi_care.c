// SPDX-License-Identifier: Apache-2.0
// The VA-API engine in the long run: a context that grows with the pictures,
// two ways to an image that stand in for each other, one picture in a thousand
// that is made again, and the mean of its certificate.
#include <math.h>

#include "vaapi_env.h"

static const struct jpeg_spec *sized(int w, int h)
{
    static struct jpeg_spec spec;

    spec = (struct jpeg_spec){
        .w = w, .h = h, .space = JCS_YCbCr, .quality = 85, .factors = {0x22}};
    return &spec;
}

// The one before is destroyed: nothing is left, and one lives at a time.
TEST_CASE(context_grows)
{
    static const int sizes[][2] = {
        {100, 90}, {1100, 64}, {64, 1700}, {2600, 80}, {100, 90}};
    hr_device dev;
    long contexts;
    unsigned why;

    vaapi_driver("default,reset");
    dev = vaapi_open("plain");
    vaapi_run_kind(dev, sized(100, 90), 1, HR_EXACT, &why);
    contexts = vaapi_counters().contexts;
    vaapi_driver("reset");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        CHECK(vaapi_run_kind(dev, sized(sizes[i][0], sizes[i][1]), 2, HR_EXACT,
                             &why) == 2,
              "%d x %d: why %#x", sizes[i][0], sizes[i][1], why);
        CHECK(vaapi_counters().contexts == contexts, "%d x %d: %ld contexts",
              sizes[i][0], sizes[i][1], vaapi_counters().contexts);
    }
    CHECK(vaapi_counters().calls[VA_DRIVER_CreateContext] >= 3,
          "%d contexts made",
          (int)vaapi_counters().calls[VA_DRIVER_CreateContext]);
    vaapi_close(&dev);
}

// The way that its driver takes fails for ever; the other one is taken.
TEST_CASE(ways_stand_in)
{
    static const struct {
        const char *driver, *fails;
        int other;
    } ways[] = {{"plain", "GetImage", VA_DRIVER_DeriveImage},
                {"i965", "DeriveImage", VA_DRIVER_GetImage},
                {"plain", "CreateImage", VA_DRIVER_DeriveImage}};

    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        struct va_driver_counters c;
        hr_device dev;
        unsigned why;
        int made;

        vaapi_driver("default,reset");
        dev = vaapi_open(ways[i].driver);
        vaapi_driver("reset,fault=%s:0x01:always", ways[i].fails);
        made = vaapi_run_kind(dev, sized(120, 80), 8, HR_EXACT, &why);
        c = vaapi_counters();
        CHECK(made == 8 && !why, "%s fails: %d made, why %#x", ways[i].fails,
              made, why);
        CHECK(c.faults > 0 && c.calls[ways[i].other] >= 8,
              "%s fails: %ld times, %ld other calls", ways[i].fails,
              (long)c.faults, (long)c.calls[ways[i].other]);
        vaapi_driver("fault=none");
        vaapi_close(&dev);
    }
}

// A picture that the driver refuses is ended, too: its context is used again.
TEST_CASE(refused_is_ended)
{
    struct va_driver_counters c;
    hr_device dev;
    unsigned why;

    vaapi_driver("default,reset");
    dev = vaapi_open("plain");
    vaapi_driver("reset,fault=RenderPicture:0x01:1");
    vaapi_run_kind(dev, sized(120, 80), 8, HR_EXACT, &why);
    c = vaapi_counters();
    CHECK(c.faults == 1 &&
              c.calls[VA_DRIVER_EndPicture] == c.calls[VA_DRIVER_BeginPicture],
          "%ld faults, %ld pictures begun, %ld ended", (long)c.faults,
          (long)c.calls[VA_DRIVER_BeginPicture],
          (long)c.calls[VA_DRIVER_EndPicture]);
    vaapi_driver("fault=none");
    vaapi_close(&dev);
}

// The first 16, then number 1,000, number 2,000.
TEST_CASE(one_in_a_thousand)
{
    enum { AT_ONCE = 64, JOBS = 2048 / AT_ONCE };
    hr_device dev;

    vaapi_driver("default,reset");
    dev = vaapi_open("plain");
    for (int i = 1; i <= JOBS; i++) {
        int pictures = i * AT_ONCE, want;
        struct hr_stats stats;
        unsigned why;

        want = 16 + (pictures > 1000) + (pictures > 2000);
        CHECK(vaapi_run_kind(dev, sized(24, 16), AT_ONCE, HR_EXACT, &why) ==
                  AT_ONCE,
              "why %#x", why);
        hr_device_stats(dev, &stats);
        CHECK((int)stats.checked == want && !stats.mismatches,
              "of %d pictures %d were made again, not %d", pictures,
              (int)stats.checked, want);
    }
    vaapi_close(&dev);
}

// The driver is off by -n to n in turns, each as often: by n (n + 1) / (2 n +
// 1) on average, and less where samples end: most so in grey.
TEST_CASE(mean_is_true)
{
    for (int n = 1; n <= 3; n++) {
        double want = n * (n + 1) / (2.0 * n + 1);
        const struct hr_certificate *cert;
        hr_device dev;

        vaapi_new_cache();
        vaapi_driver("default,reset,deviate=%d", n);
        dev = vaapi_open("plain");
        cert = &dev->certificate;
        for (int k = 0; k < HR_NUM_KINDS; k++) {
            struct hr_certificate_record r = vaapi_planes(cert, k);

            CHECK(r.pictures && fabs(r.mean - want) < .25 * want,
                  "off by %d: %s: %d pictures, mean %g, not about %g", n,
                  hr_jpeg_kind_name((enum hr_jpeg_kind)k), r.pictures, r.mean,
                  want);
        }
        vaapi_close(&dev);
    }
    vaapi_driver("default");
    vaapi_new_cache();
}

// One picture of many is wrong: its kind's record says so, and the kind is not
// used. A kind that this driver does not decode has no record.
TEST_CASE(largest_of_all)
{
    for (int n = 1; n <= 3; n++) {
        const struct hr_certificate *cert;
        int kinds = 0, wrong = 0;
        hr_device dev;

        vaapi_new_cache();
        vaapi_driver("default,reset,fault=Decode:wrong:%d", n);
        dev = vaapi_open("mesa22");
        cert = &dev->certificate;
        for (int k = 0; k < HR_NUM_KINDS; k++) {
            struct hr_certificate_record r = vaapi_planes(cert, k);

            kinds += r.pictures > 1;
            wrong += r.max > 2;
        }
        CHECK(kinds > 1 && wrong == 1, "picture %d: %d of %d kinds are wrong",
              n, wrong, kinds);
        CHECK(!vaapi_planes(cert, HR_KIND_411).pictures, "the last kind");
        vaapi_close(&dev);
    }
    vaapi_driver("default");
    vaapi_new_cache();
}

// ---- Damage ----------------------------------------------------------------

struct one {
    enum hr_status status;
    int warnings;
    unsigned why;
    bool by_device;
    uint8_t pixels[30 * 40 * 3];
};

static void make(hr_device dev, const struct bytes *b, struct one *one)
{
    static const struct hr_op ops[] = {hr_op_decode(0),
                                       hr_op_resize(.w = 40, .h = 30)};
    struct hr_sample s = test_sample(b, ops, 2);
    auto_batch out = hr_batch_create(
        dev, hr_batch_params(.n = 1, .c = 3, .h = 30, .w = 40, .dtype = HR_U8));
    auto_job job = hr_submit(dev, &s, 1, out, hr_job_params(.tier = HR_EXACT));
    const struct hr_result *r = job->results;

    hr_job_wait(job, 20000 * TEST_MS);
    one->status = r->status;
    one->warnings = r->warnings;
    one->why = r->why;
    one->by_device = r->num_spans && !strncmp(r->spans[0].device, "vaapi", 5);
    memcpy(one->pixels, out->params.data, sizeof(one->pixels));
}

// Ends in the midst of its scan.
static struct bytes cut_short(void)
{
    uint64_t seed = test_seed;
    struct bytes b = test_jpeg_of(sized(100, 90), &seed);
    size_t end = b.size / 2;

    while (b.data[end - 1] == 0xff)
        end++;
    b.data[end++] = 0xff;
    b.data[end++] = 0xd9;
    b.size = end;
    return b;
}

// A driver returns the readable part of a damaged picture, the wait for it
// succeeds, and only an error list reports the damage: the user is told of it,
// and gets the CPU's picture, also when crosschecks have ended.
TEST_CASE(damage_in_a_list)
{
    hr_device cpu = test_device("cpu", 1, 0), dev;
    auto_bytes b = cut_short();
    struct hr_stats stats;
    struct one want, got;
    unsigned why;

    make(cpu, &b, &want);
    CHECK(!want.status && want.warnings > 0, "%s, %d warnings",
          hr_status_name(want.status), want.warnings);
    vaapi_driver("default,reset,damage=list");
    dev = vaapi_open("plain");
    CHECK(vaapi_run_kind(dev, sized(100, 90), 16, HR_EXACT, &why) == 16,
          "why %#x", why);
    // (More in a row than a device may fail.)
    for (int i = 0; i < 5; i++) {
        vaapi_driver("reset");
        make(dev, &b, &got);
        CHECK(vaapi_counters().failed == 1, "the driver has not decoded it");
        CHECK(!got.status && got.warnings == want.warnings &&
                  got.why == HR_WHY_DAMAGED && !got.by_device,
              "%s, %d warnings, why %#x", hr_status_name(got.status),
              got.warnings, got.why);
        CHECK(!memcmp(got.pixels, want.pixels, sizeof(got.pixels)),
              "other pixels");
    }
    CHECK(vaapi_run_kind(dev, sized(100, 90), 4, HR_EXACT, &why) == 4 && !why,
          "afterwards: why %#x", why);
    hr_device_stats(dev, &stats);
    CHECK(stats.checked == 16 && !stats.mismatches, "%d mismatches of %d",
          (int)stats.mismatches, (int)stats.checked);
    vaapi_close(&dev);
    hr_device_close(&cpu);
}

TEST_MAIN(vaapi_main)
