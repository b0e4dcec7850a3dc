// SPDX-License-Identifier: Apache-2.0
// VA-API surfaces that OpenCL's driver knows by cl_intel_va_api_media_sharing,
// as fault_opencl has it over the OpenCL driver that is here: tiled or not, the
// same bytes as ever, and none through the host. Where it is not there, the
// next rung makes the right pixels.
#include "conformance.h"
#include "hal/job/work.h"
#include "share_env.h"

// ---- It is the same --------------------------------------------------------

static void check_suite(const char *options, unsigned how, bool discrete)
{
    struct conformance c;
    struct hr_stats stats;
    hr_device dev;
    int fds = imports_fds();

    share_set_up(options, how, discrete);
    dev = imports_open();
    snprintf(imports.label, sizeof(imports.label), "%s, %s", options,
             discrete ? "discrete" : "unified");
    share_check_top(dev, share_shared);
    c = conformance_run(dev, HR_EXACT, test_seed);
    hr_device_stats(dev, &stats);
    CHECK(!c.different && !stats.fallbacks && !stats.mismatches &&
              !share_falls(dev),
          "%s: %d of %d differ, %d fell back, %d falls", imports.label,
          c.different, c.samples, (int)stats.fallbacks, share_falls(dev));
    CHECK(imports_now().filled > 0 && imports_engine(dev, 1).bytes_imported > 0,
          "%s: %d planes shared", imports.label, imports_now().filled);
    printf("\n  %s: %d samples, %.0f KB imported, %d planes shared ",
           imports.label, c.samples,
           (double)imports_engine(dev, 1).bytes_imported / 1e3,
           imports_now().filled);
    imports_close(&dev, fds);
}

TEST_CASE(conformance)
{
    static const char *const options[] = {
        share_linear, share_tiled,
        "personality=ihd,modifier=1,pitch=100,offset=4096"};

    for (int i = 0; i < test_loops(6); i++)
        check_suite(options[i / 2],
                    FAULT_SHARES | (i % 3 ? 0 : FAULT_SHARES_NV12), i % 2);
}

// Whole pictures, and windows of them: of a chroma sample, too.
static void check_size(hr_device dev, int w, int h, const struct hr_op *crop)
{
    enum { PICTURES = 40 };
    const struct hr_op ops[] = {hr_op_decode(0),
                                crop ? *crop : hr_op_resize(.w = 40, .h = 30)};
    uint64_t seed = test_seed, before = imports_engine(dev, 1).bytes_imported;
    hr_device devices[] = {test_device("cpu", 1, 0), dev};
    auto_bytes b = test_jpeg_of(
        jpeg_ycc(.w = w, .h = h, .quality = 90, .factors = {0x22}), &seed);
    struct hr_sample s[PICTURES];
    hr_batch out[2];

    for (int i = 0; i < PICTURES; i++)
        s[i] = test_sample(&b, ops, 2);
    for (int k = 0; k < 2; k++) {
        auto_job job = NULL;

        out[k] = hr_batch_create(
            devices[k], hr_batch_params(.n = PICTURES, .c = 3,
                                        .h = crop ? crop->crop.h : 30,
                                        .w = crop ? crop->crop.w : 40));
        job = hr_submit(devices[k], s, PICTURES, out[k], NULL);
        CHECK(hr_job_wait(job, 20000 * TEST_MS) == HR_OK, "%dx%d: %s", w, h,
              job->results[0].message);
        for (int i = 0; k && i < PICTURES; i++)
            CHECK(!strncmp(job->results[i].spans[0].device, "vaapi", 5),
                  "%dx%d: picture %d: why %#x", w, h, i, job->results[i].why);
    }
    CHECK(!memcmp(out[0]->params.data, out[1]->params.data, out[0]->size),
          "%dx%d: pixels differ", w, h);
    CHECK(imports_engine(dev, 1).bytes_imported - before >= 3 * PICTURES,
          "%dx%d: %d bytes imported", w, h,
          (int)(imports_engine(dev, 1).bytes_imported - before));
    for (int k = 0; k < 2; k++)
        hr_batch_destroy(&out[k]);
    hr_device_close(&devices[0]);
}

TEST_CASE(not_through_the_host)
{
    static const int sizes[][2] = {{100, 90}, {1, 1},   {2, 2},    {17, 3},
                                   {3, 33},   {65, 16}, {640, 480}};
    const struct hr_op crops[] = {hr_op_crop(.x = 7, .y = 5, .w = 1, .h = 1),
                                  hr_op_crop(.x = 99, .y = 89, .w = 1, .h = 1),
                                  hr_op_crop(.x = 13, .y = 20, .w = 50, .h = 2),
                                  hr_op_crop(.x = 30, .y = 1, .w = 3, .h = 80)};
    hr_device dev;
    int fds = imports_fds();
    long before;

    snprintf(imports.label, sizeof(imports.label), "not through the host");
    for (int d = 0; d < 2; d++) {
        share_set_up(share_tiled, FAULT_SHARES, d);
        dev = imports_open();
        // The certificate has made pictures of other kinds, too.
        before = imports_read_back() - imports_now().filled;
        for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
            check_size(dev, sizes[i][0], sizes[i][1], NULL);
        for (size_t i = 0; i < sizeof(crops) / sizeof(*crops); i++)
            check_size(dev, 100, 90, &crops[i]);
        CHECK(imports_read_back() - imports_now().filled == before,
              "%ld read back, %d of them shared", imports_read_back(),
              imports_now().filled);
        CHECK(share_samples_by(dev, share_shared) >= 11 * 40, "%d shared",
              (int)share_samples_by(dev, share_shared));
        CHECK(!share_falls(dev), "%d falls", share_falls(dev));
        imports_close(&dev, fds);
    }
}

TEST_CASE(steady)
{
    int fds = imports_fds();

    snprintf(imports.label, sizeof(imports.label), "steady");
    share_new_scene(share_tiled, false);
    imports_check_steady();
    imports_close_scene(fds);
}

// A reader of the planes between the spans has them mapped; the next span reads
// them there.
static void on_planes(void *ctx, const struct hr__payload *planes)
{
    const uint8_t *data = planes->data;
    atomic_int *seen = ctx;

    atomic_fetch_add(seen, data && planes->size && data[planes->size / 2] >= 0);
}

TEST_CASE(looked_at)
{
    atomic_int seen = 0;
    struct hr__device *dev;
    int fds = imports_fds();

    snprintf(imports.label, sizeof(imports.label), "looked at");
    share_new_scene("personality=ihd,modifier=1,pitch=100,offset=4096", false);
    dev = (struct hr__device *)imports.scene.dev;
    dev->planes_ctx = &seen;
    dev->on_planes = on_planes;
    share_run_together(5);
    CHECK(seen == 5 * IMPORTS_MADE, "%d seen", seen);
    dev->on_planes = NULL;
    share_run_together(5);
    share_check_top(imports.scene.dev, share_shared);
    CHECK(!share_falls(imports.scene.dev), "%d falls",
          share_falls(imports.scene.dev));
    imports_close_scene(fds);
}

// A batch that imports has its upload in a trace, and a row of its own.
TEST_CASE(traced)
{
    static char text[1 << 22];
    const struct bytes none = {.data = (uint8_t *)text};
    const char *path = test_file(&none, ".json");
    int fds = imports_fds();
    size_t size;
    FILE *file;

    snprintf(imports.label, sizeof(imports.label), "traced");
    CHECK(!hr_trace_start(NULL), "%s", hr_last_error());
    share_new_scene(share_linear, false);
    share_run_together(3);
    imports_close_scene(fds);
    hr_trace_stop();
    CHECK(!hr_trace_write(path), "%s", hr_last_error());
    if (!(file = fopen(path, "r")))
        abort();
    size = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[size] = '\0';
    CHECK(strstr(text, "opencl:0 shared surf"), "%s", "no row of imports");
    CHECK(strstr(text, "\"import\"") && strstr(text, "opencl:0 upload"), "%s",
          "no imports, or no upload");
}

// ---- The rungs below -------------------------------------------------------

struct rung {
    const char *options, *wish, *top;
    unsigned how;
    int falls;
    bool here;  // OpenCL's driver is asked for images
};

static void check_rung_of(const struct rung *r)
{
    int fds = imports_fds();

    if (r->wish)
        setenv("HEADRACE_VAAPI_READ", r->wish, 1);
    snprintf(imports.label, sizeof(imports.label), "%s, wish %s, how %u",
             r->options, r->wish ? r->wish : "none", r->how);
    share_set_up(r->options, r->how, false);
    imports_open_scene(IMPORTS_N);
    share_check_top(imports.scene.dev, r->top);
    share_run_together(3);
    CHECK(share_falls(imports.scene.dev) == r->falls, "%s: %d falls",
          imports.label, share_falls(imports.scene.dev));
    CHECK((imports_now().filled > 0) == r->here, "%s: %d planes shared",
          imports.label, imports_now().filled);
    imports_close_scene(fds);
    unsetenv("HEADRACE_VAAPI_READ");
}

TEST_CASE(below)
{
    const unsigned on = FAULT_SHARES;
    const struct rung rungs[] = {
        {share_linear, NULL, share_shared, on, 0, true},
        {share_linear, "", share_shared, on, 0, true},
        {share_tiled, NULL, share_shared, on | FAULT_SHARES_NV12, 0, true},
        {share_linear, "host", share_got, on, 0, false},
        {share_tiled, "host", share_got, on, 0, false},
        // Another device, no such context, no such format: one rung down.
        {share_linear, NULL, share_got, 0, 0, false},
        {share_tiled, NULL, share_got, on | FAULT_SHARES_ELSEWHERE, 0, false},
        {share_linear, NULL, share_got, on | FAULT_SHARES_REFUSES, 1, false},
        {share_tiled, NULL, share_got, on | FAULT_SHARES_REFUSES, 1, false},
        {share_tiled, NULL, share_got, on | FAULT_SHARES_OTHERS, 0, false},
        // Two drivers in one display: whether that is safe is not known.
        {"personality=plain", NULL, share_got, on, 0, false},
        {"personality=i965", NULL, "surface mapped", on, 0, false},
    };

    for (size_t i = 0; i < sizeof(rungs) / sizeof(*rungs); i++)
        check_rung_of(&rungs[i]);
}

int main(int argc, char **argv)
{
    if (!imports_init(HR_FAULT_LIBRARY))
        return TEST_NOT_RUN;
    return test_main(argc, argv);
}
