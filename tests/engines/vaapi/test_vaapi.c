// SPDX-License-Identifier: Apache-2.0
// The VA-API engine through the stock libva, on the software driver
// (tests/va_driver): pixels, plans, and which thread waits for which.
#include "conformance.h"
#include "vaapi_env.h"

// pictures: of a job of the suite, that it decodes.
static const struct {
    const char *name;
    int pictures;
} personalities[] = {{"plain", 13}, {"ihd", 13},      {"i965", 13},
                     {"mesa22", 5}, {"mesa_main", 5}, {"nvidia", 3}};
enum { PERSONALITIES = sizeof(personalities) / sizeof(*personalities) };

// ---- Pixels ---------------------------------------------------------------

// Every picture of the suite takes a planned route, and none differs. The
// device must make all that it decodes: with a wrong description or wrong
// pixels the CPU would make them.
static void check_suite(hr_device dev, const char *name, int pictures)
{
    for (int tier = TEST_SANITIZED; tier < 2; tier++) {
        struct conformance c = conformance_run(dev, (enum hr_tier)tier,
                                               test_seed);
        struct hr_stats stats;

        CHECK(c.different == 0, "%s: %d of %d differ", name, c.different,
              c.samples);
        CHECK(c.by_device == c.jobs * pictures && !c.refused,
              "%s: %d by the device, not %d; %d refused for its certificate",
              name, c.by_device, c.jobs * pictures, c.refused);
        hr_device_stats(dev, &stats);
        CHECK(stats.fallbacks == 0 && stats.mismatches == 0,
              "%s: %d fell back on the way, %d mismatches", name,
              (int)stats.fallbacks, (int)stats.mismatches);
        printf("\n  %s: %d samples, %d by the device ", name, c.samples,
               c.by_device);
    }
}

TEST_CASE(conformance)
{
    // A sanitizer build does fewer.
    for (int i = 0; i < test_loops(PERSONALITIES); i++) {
        hr_device dev;

        vaapi_driver("default,reset");
        dev = vaapi_open(personalities[i].name);
        check_suite(dev, personalities[i].name, personalities[i].pictures);
        CHECK(vaapi_counters().decoded > 0, "the driver decoded nothing");
        vaapi_close(&dev);
    }
}

// How samples come back: each way, odd pitches, offsets. With few surfaces some
// are copied, for they are missing for decoding.
// So large that the engine behind has one picture still when the next is
// decoded: planes are not only lent but copied, too.
TEST_CASE(rungs)
{
    static const char *const drivers[] = {"i965", "plain"};
    static const uint8_t factors[] = {0x22, 0x21, 0x11, 0x12, 0x41};
    unsigned why = 0;

    for (int i = 0; i < 8; i++) {
        bool odd = i / 2 % 2, few = i / 4;
        hr_device dev;

        vaapi_driver("default,reset,personality=%s,pitch=%d,offset=%d",
                     drivers[i % 2], odd ? 100 : 64, odd ? 4096 : 0);
        dev = vaapi_open_with(hr_device_params(.depth = few));
        CHECK(dev &&
                  strstr(dev->description, i % 2 ? "image got from the driver"
                                                 : "surface mapped"),
              "%s: %s", drivers[i % 2],
              dev ? dev->description : hr_last_error());
        for (size_t k = 0; dev && k < sizeof(factors); k++)
            CHECK(vaapi_run_sized(dev, YCC(.factors = {factors[k]}), 320, 240,
                                  10, HR_EXACT, &why) == 10,
                  "%s: factors %#x: why %#x", drivers[i % 2], factors[k], why);
        vaapi_close(&dev);
    }
}

// ---- What is passed on, and why -------------------------------------------

TEST_CASE(reasons)
{
    static const struct {
        struct jpeg_spec spec;
        const char *personality;
        unsigned why;
    } cases[] = {
        {{.space = JCS_YCbCr, .factors = {0x22}}, "plain", 0},
        {{.space = JCS_RGB}, "plain", 0},
        {{.space = JCS_GRAYSCALE}, "plain", 0},
        {{.space = JCS_GRAYSCALE}, "nvidia", 0},
        {{.space = JCS_YCbCr, .factors = {0x21}, .restart = 2}, "plain", 0},
        {{.space = JCS_YCbCr, .progressive = true}, "plain", HR_WHY_PROGRESSIVE},
        {{.space = JCS_YCbCr, .separate = true}, "plain", HR_WHY_MULTISCAN},
        {{.space = JCS_CMYK}, "plain", HR_WHY_COLOR},
        {{.space = JCS_YCCK}, "plain", HR_WHY_COLOR},
        {{.space = JCS_YCbCr, .factors = {0x22, 0x12, 0x12}},
         "plain",
         HR_WHY_CHROMA},
        {{.space = JCS_YCbCr, .factors = {0x21}}, "nvidia", HR_WHY_CHROMA},
        {{.space = JCS_YCbCr, .factors = {0x21}}, "mesa22", 0},
        {{.space = JCS_YCbCr, .factors = {0x41}}, "mesa22", HR_WHY_CHROMA},
        {{.w = 63, .space = JCS_YCbCr, .factors = {0x22}},
         "mesa22",
         HR_WHY_SIZE},
        {{.w = 4097, .space = JCS_YCbCr, .factors = {0x22}},
         "i965",
         HR_WHY_SIZE},
        {{.h = 63, .space = JCS_YCbCr, .factors = {0x22}},
         "mesa22",
         HR_WHY_SIZE},
        {{.h = 4097, .space = JCS_YCbCr, .factors = {0x22}},
         "i965",
         HR_WHY_SIZE},
    };
    const struct hr_op op = hr_op_decode(0);

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct jpeg_spec spec = cases[i].spec;
        uint64_t seed = test_seed;
        auto_bytes b = {0};
        hr_device dev;
        unsigned why = 0;

        spec.w = spec.w ? spec.w : 80;
        spec.h = spec.h ? spec.h : 72;
        spec.quality = 85;
        b = test_jpeg_of(&spec, &seed);
        vaapi_driver("default,reset");
        dev = vaapi_open(cases[i].personality);
        why = test_offered(dev, &test_sample(&b, &op, 1));
        CHECK(cases[i].why ? (why & cases[i].why) != 0 : why == 0,
              "case %d: why %#x, not %#x", (int)i, why, cases[i].why);
        vaapi_close(&dev);
    }
}

// ---- In flight --------------------------------------------------------------

// The driver gets the next pictures while it has some, up to DEPTH. (A busy
// machine may need several jobs until all of them were there at a time.)
static void check_depth(const char *personality)
{
    enum { DEPTH = 8, LATENCY = 50, PICTURES = 32, JOBS = 100 };
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg_of(YCC(.factors = {0x22}), &seed);
    const struct hr_op ops[] = {hr_op_decode(0),
                                hr_op_resize(.w = 16, .h = 16)};
    struct hr_sample s[PICTURES];
    hr_device dev;

    vaapi_driver("default,reset");
    dev = vaapi_open(personality);
    hr_device_close(&dev);
    vaapi_driver("reset,latency=%d", LATENCY);
    dev = vaapi_open(personality);
    for (int i = 0; i < PICTURES; i++)
        s[i] = test_sample(&b, ops, 2);
    for (int i = 0; i < JOBS && vaapi_counters().max_in_flight < DEPTH; i++) {
        auto_batch out = hr_batch_create(
            dev, hr_batch_params(.n = PICTURES, .c = 3, .h = 16, .w = 16));
        auto_job job = hr_submit(dev, s, PICTURES, out, NULL);

        CHECK(hr_job_wait(job, HR_FOREVER) == HR_OK, "%s",
              job->results[0].message);
    }
    CHECK(vaapi_counters().max_in_flight == DEPTH, "%s: %ld in flight",
          personality, vaapi_counters().max_in_flight);
    vaapi_close(&dev);
}

// Drivers that may be called by two threads, and one that may not.
TEST_CASE(in_flight)
{
    check_depth("ihd");
    check_depth("plain");
}

// ---- Names and displays ---------------------------------------------------

TEST_CASE(names)
{
    static const struct {
        const char *name;
        enum hr_status status;
    } bad[] = {
        {"vaapi:/nowhere/at/all", HR_EDEVICE},
        {"vaapi:/dev/null+nonsense", HR_ENODEVICE},
        {"cpu+vaapi", HR_EINVAL},
        {"vaapi+", HR_ENODEVICE},
    };
    hr_device dev;

    vaapi_driver("default,reset");
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        CHECK(!hr_device_open(bad[i].name, NULL), "%s opens", bad[i].name);
        CHECK(hr_last_status() == bad[i].status, "%s: %s", bad[i].name,
              hr_last_error());
    }
    for (int i = 0; i < 2; i++) {
        const char *variable = i ? "HEADRACE_CERTIFICATE"
                                 : "HEADRACE_VAAPI_READ";

        setenv(variable, "bogus", 1);
        CHECK(!hr_device_open("vaapi:/dev/null+cpu", NULL) &&
                  hr_last_status() == HR_EINVAL &&
                  strstr(hr_last_error(), variable),
              "%s: %s", variable, hr_last_error());
        unsetenv(variable);
    }
    dev = hr_device_open("vaapi:/dev/null+cpu", NULL);
    CHECK(dev && !strcmp(dev->name, "vaapi:/dev/null"), "%s",
          dev ? dev->name : hr_last_error());
    hr_device_close(&dev);
    vaapi_driver("fault=Init:1:always");
    CHECK(!hr_device_open("vaapi", NULL) && hr_last_status() == HR_EDEVICE,
          "%s", hr_last_error());
    vaapi_driver("default");
    vaapi_check_empty("names");
}

// The caller's own display, which stays the caller's.
static void closed(void *ctx, bool left_behind)
{
    atomic_store((atomic_int *)ctx, left_behind ? 2 : 1);
}

TEST_CASE(foreign_display)
{
    struct vaapi_own own;
    atomic_int down = 0;
    hr_device dev;
    unsigned why = 0;

    vaapi_driver("default,reset");
    if (!vaapi_own_open(&own))
        return;
    CHECK(!vaapi_open_with(hr_device_params(.va_display = own.display)),
          "not initialised, and opens");
    vaapi_own_init(&own);
    dev = vaapi_open_with(hr_device_params(.va_display = own.display,
                                           .depth = 3, .on_closed = closed,
                                           .closed_ctx = &down));
    CHECK(dev && !strcmp(dev->name, "vaapi"), "%s", hr_last_error());
    vaapi_driver("reset");
    // On a busy machine one may end before the third begins.
    for (int i = 0; i < 10 && vaapi_counters().max_in_flight < 3; i++)
        CHECK(vaapi_run_kind(dev, YCC(.factors = {0x22}), 30, HR_EXACT, &why) ==
                  30,
              "why %#x", why);
    CHECK(vaapi_counters().max_in_flight == 3, "%ld in flight",
          vaapi_counters().max_in_flight);
    CHECK(!atomic_load(&down), "down before it is closed");
    hr_device_close(&dev);
    CHECK(test_reaches(&down, 1) && atomic_load(&down) == 1, "not down");
    CHECK(vaapi_counters().displays == 1, "the display is gone");
    vaapi_own_close(&own);
    vaapi_check_empty("a caller's display");
}

// With OpenCL behind it: three engines, the same pixels.
TEST_CASE(with_opencl)
{
    hr_device dev;
    unsigned why = 0;

    vaapi_driver("default,reset");
    dev = hr_device_open("vaapi+opencl:pocl", NULL);
    if (!dev) {
        test_no_device();
        return;
    }
    CHECK(strstr(dev->name, "+opencl:") != NULL, "%s", dev->name);
    CHECK(vaapi_run_kind(dev, YCC(.factors = {0x22}), 20, HR_EXACT, &why) == 20,
          "why %#x", why);
    vaapi_run_kind(dev, YCC(.progressive = true), 4, HR_EXACT, &why);
    vaapi_close(&dev);
}

TEST_MAIN(vaapi_main)
