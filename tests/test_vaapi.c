// SPDX-License-Identifier: Apache-2.0
// The VA-API engine through the stock libva, on the software driver
// (tests/va_driver): pixels, plans, and who waits for whom.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conformance.h"
#include "vaapi_env.h"

static const char *const personalities[] = {"plain", "ihd", "i965", "mesa22",
                                            "nvidia"};
enum { PERSONALITIES = sizeof(personalities) / sizeof(*personalities) };

// ---- Pixels ---------------------------------------------------------------

// Every picture of the suite takes a planned route, and none differs.
static void check_suite(hr_device dev, const char *name)
{
    for (int tier = TEST_SANITIZED; tier < 2; tier++) {
        struct conformance c = conformance_run(dev, (enum hr_tier)tier,
                                               test_seed);
        struct hr_stats stats;

        CHECK(c.different == 0, "%s: %d of %d differ", name, c.different,
              c.samples);
        CHECK(c.by_device > 0, "%s: none by the device", name);
        hr_device_stats(dev, &stats);
        CHECK(stats.fallbacks == 0 && stats.lies == 0,
              "%s: %d fell back on the way, %d lies", name,
              (int)stats.fallbacks, (int)stats.lies);
        printf("\n  %s: %d samples, %d by the device ", name, c.samples,
               c.by_device);
    }
}

static void conformance(void)
{
    // A sanitizer build does fewer.
    for (int i = 0; i < test_loops(PERSONALITIES); i++) {
        hr_device dev;

        vaapi_driver("default,reset");
        dev = vaapi_open(personalities[i]);
        check_suite(dev, personalities[i]);
        CHECK(vaapi_counters().decoded > 0, "the driver decoded nothing");
        vaapi_close(&dev);
    }
}

// How samples come back: each way, odd pitches, offsets.
static void rungs(void)
{
    static const char *const ways[] = {"derive", "get", "copy"};
    static const uint8_t factors[] = {0x22, 0x21, 0x11, 0x12, 0x41};
    unsigned why = 0;

    for (int i = 0; i < 3; i++)
        for (int odd = 0; odd < 2; odd++) {
            hr_device dev;

            setenv("HEADRACE_VAAPI_READ", ways[i], 1);
            vaapi_driver("default,reset,pitch=%d,offset=%d", odd ? 100 : 64,
                         odd ? 4096 : 0);
            dev = vaapi_open("plain");
            for (size_t k = 0; k < sizeof(factors); k++)
                CHECK(vaapi_run_kind(dev, YCC(.factors = {factors[k]}), 20,
                                     HR_EXACT, &why) == 20,
                      "%s: factors %#x: why %#x", ways[i], factors[k], why);
            vaapi_close(&dev);
        }
    unsetenv("HEADRACE_VAAPI_READ");
}

// ---- What is passed on, and why -------------------------------------------

static void reasons(void)
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
        {{.space = JCS_YCbCr, .factors = {0x41}}, "mesa22", HR_WHY_CHROMA},
        {{.w = 63, .space = JCS_YCbCr, .factors = {0x22}},
         "mesa22",
         HR_WHY_SIZE},
        {{.w = 4097, .space = JCS_YCbCr, .factors = {0x22}},
         "i965",
         HR_WHY_SIZE},
    };
    const struct hr_op op = hr_op_decode(0);

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct jpeg_spec spec = cases[i].spec;
        uint64_t seed = test_seed;
        struct bytes b;
        hr_device dev;
        unsigned why = 0;

        spec.w = spec.w ? spec.w : 80;
        spec.h = 72;
        spec.quality = 85;
        b = test_jpeg_of(&spec, &seed);
        vaapi_driver("default,reset");
        dev = vaapi_open(cases[i].personality);
        why = hr_device_check(dev, &(struct hr_sample){.data = b.data,
                                                       .size = b.size,
                                                       .ops = &op,
                                                       .num_ops = 1});
        CHECK(cases[i].why ? (why & cases[i].why) != 0 : why == 0,
              "case %d: why %#x, not %#x", (int)i, why, cases[i].why);
        vaapi_close(&dev);
        free(b.data);
    }
}

// ---- Time -----------------------------------------------------------------

enum { DEPTH = 8, LATENCY = 20, ENOUGH = 9 * DEPTH * 100 / LATENCY };

static void check_rate(const char *personality)
{
    enum { N = 256, ROUNDS = 8 };
    struct va_driver_counters c;
    int64_t start, took, best = INT64_MAX;
    uint64_t seed = test_seed;
    struct bytes b = test_jpeg_of(YCC(.factors = {0x22}), &seed);
    const struct hr_op ops[] = {hr_op_decode(0),
                                hr_op_resize(.w = 16, .h = 16)};
    struct hr_sample s[N];
    hr_device dev;
    double rate = 0;

    vaapi_driver("default,reset");
    dev = vaapi_open(personality);
    hr_device_close(&dev);
    vaapi_driver("reset,latency=%d", LATENCY);
    dev = vaapi_open(personality);
    for (int i = 0; i < N; i++)
        s[i] = (struct hr_sample){
            .data = b.data, .size = b.size, .ops = ops, .num_ops = 2};
    // A busy machine gets some more tries.
    for (int round = 0; round < ROUNDS && rate < ENOUGH; round++) {
        hr_batch out = hr_batch_create(dev, hr_batch_params(.n = N, .c = 3,
                                                            .h = 16, .w = 16));
        hr_job job;

        start = hr__now();
        job = hr_submit(dev, s, N, out, NULL);
        took = hr__now() - start;
        CHECK(took < 10 * TEST_MS || TEST_SANITIZED, "submit took %d us",
              (int)(took / 1000));
        CHECK(hr_job_wait(job, HR_FOREVER) == HR_OK, "%s",
              job->results[0].message);
        took = hr__now() - start;
        best = took < best ? took : best;
        rate = N / ((double)best / 1e9);
        hr_job_release(&job);
        hr_batch_destroy(&out);
    }
    c = vaapi_counters();
    printf("\n  %s: %.0f pictures/s of %.0f, %ld in flight ", personality, rate,
           DEPTH * 1000. / LATENCY, c.max_in_flight);
    CHECK(c.max_in_flight == DEPTH, "%ld in flight", c.max_in_flight);
    CHECK(rate >= ENOUGH || TEST_SANITIZED, "%.0f/s", rate);
    vaapi_close(&dev);
    free(b.data);
}

// Drivers that may be called by two threads, and one that may not.
static void in_flight(void)
{
    check_rate("ihd");
    check_rate("plain");
}

// ---- Names and displays ---------------------------------------------------

static void names(void)
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

static void foreign_display(void)
{
    void *va = dlopen("libva.so.2", RTLD_NOW),
         *drm = dlopen("libva-drm.so.2", RTLD_NOW);
    void *(*get)(int) = drm ? (void *(*)(int))dlsym(drm, "vaGetDisplayDRM")
                            : NULL;
    int (*init)(void *, int *, int *) =
        va ? (int (*)(void *, int *, int *))dlsym(va, "vaInitialize") : NULL;
    int (*end)(void *) = va ? (int (*)(void *))dlsym(va, "vaTerminate") : NULL;
    int fd = memfd_create("node", MFD_CLOEXEC), major, minor;
    atomic_int down = 0;
    void *display;
    hr_device dev;
    unsigned why = 0;

    if (!get || !init || !end) {
        test_not_run("no libva-drm");
        return;
    }
    vaapi_driver("default,reset");
    display = get(fd);
    CHECK(!vaapi_open_with(hr_device_params(.va_display = display)),
          "not initialised, and opens");
    CHECK(display && !init(display, &major, &minor), "vaInitialize");
    dev = vaapi_open_with(hr_device_params(.va_display = display, .depth = 3,
                                           .on_closed = closed,
                                           .closed_ctx = &down));
    CHECK(dev && !strcmp(dev->name, "vaapi"), "%s", hr_last_error());
    vaapi_driver("reset");
    CHECK(vaapi_run_kind(dev, YCC(.factors = {0x22}), 30, HR_EXACT, &why) == 30,
          "why %#x", why);
    CHECK(vaapi_counters().max_in_flight == 3, "%ld in flight",
          vaapi_counters().max_in_flight);
    CHECK(!atomic_load(&down), "down before it is closed");
    hr_device_close(&dev);
    CHECK(test_reaches(&down, 1) && atomic_load(&down) == 1, "not down");
    CHECK(vaapi_counters().displays == 1, "the display is gone");
    end(display);
    close(fd);
    vaapi_check_empty("a caller's display");
}

// With OpenCL behind it: three engines, the same pixels.
static void with_opencl(void)
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

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        TEST_CASE(conformance), TEST_CASE(rungs), TEST_CASE(reasons),
        TEST_CASE(in_flight),   TEST_CASE(names), TEST_CASE(foreign_display),
        TEST_CASE(with_opencl),
    };

    if (!vaapi_init())
        return TEST_NOT_RUN;
    return test_main("vaapi", cases, sizeof(cases) / sizeof(*cases), argc,
                     argv);
}
