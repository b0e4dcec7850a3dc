// SPDX-License-Identifier: Apache-2.0
// VA-API surfaces that OpenCL's driver knows by cl_intel_va_api_media_sharing,
// as fault_opencl has it over the OpenCL driver that is here: tiled or not, the
// same bytes as ever, and none through the host. Whatever fails, or is not
// there, the next rung makes the right pixels; images, contexts, surfaces and
// the display go in their order.
#include <stdlib.h>
#include <string.h>

#include "conformance.h"
#include "hal/hal.h"
#include "import_env.h"

enum { MANY = 48, DEADLINE_MS = IMPORTS_DEADLINE_MS };

static const char shared[] = "shared with the next engine";
static const char imported[] = "imported as dma-buf";
static const char got[] = "image got from the driver";
static const char linear[] = "personality=ihd";
static const char tiled[] = "personality=ihd,modifier=1";

// ---- Steps -------------------------------------------------------------------

// A driver that shares, or as said; dma-bufs can be imported, too. It has time,
// for a busy machine is not what is tested.
static void set_up(const char *options, unsigned how, bool discrete)
{
    imports.deadline_ms = 10000;
    imports.ctl.set(NULL, 0);
    imports.ctl.discrete(discrete);
    imports.ctl.external(true);
    imports.ctl.sharing(how);
    vaapi_driver("default,reset,%s", options);
}

static void check_top(hr_device dev, const char *top)
{
    CHECK(strstr(dev->description, top) != NULL, "%s: %s", imports.label,
          dev->description);
}

static uint64_t samples_by(hr_device dev, const char *rung)
{
    struct hr_engine_profile p = imports_engine(dev, 0);

    for (int i = 0; i < HR_PROFILE_RUNGS && p.rungs[i].name; i++)
        if (strstr(p.rungs[i].name, rung))
            return p.rungs[i].samples;
    CHECK(false, "%s: no rung is '%s'", imports.label, rung);
    return 0;
}

static int falls(hr_device dev)
{
    return (int)(imports_engine(dev, 0).import_falls +
                 imports_engine(dev, 1).import_falls);
}

static void run_together(int times)
{
    for (int k = 0; k < times; k++)
        CHECK(imports_run(20000) == IMPORTS_MADE, "%s: not made together",
              imports.label);
}

// All pictures go that way now, and none is shared.
static void check_next(const char *rung)
{
    hr_device dev = imports.scene.dev;
    uint64_t had = samples_by(dev, rung), before = samples_by(dev, shared);

    run_together(2);
    CHECK(samples_by(dev, rung) - had == 2 * IMPORTS_MADE &&
              samples_by(dev, shared) == before,
          "%s: %d by %s, %d shared", imports.label,
          (int)(samples_by(dev, rung) - had), rung,
          (int)(samples_by(dev, shared) - before));
}

static void new_scene(const char *options, bool discrete)
{
    set_up(options, FAULT_SHARES, discrete);
    imports_open_scene(IMPORTS_N);
    check_top(imports.scene.dev, shared);
}

// ---- It is the same ------------------------------------------------------------

static void check_suite(const char *options, unsigned how, bool discrete)
{
    struct conformance c;
    struct hr_stats stats;
    hr_device dev;
    int fds = imports_fds();

    set_up(options, how, discrete);
    dev = imports_open();
    snprintf(imports.label, sizeof(imports.label), "%s, %s", options,
             discrete ? "discrete" : "unified");
    check_top(dev, shared);
    c = conformance_run(dev, HR_EXACT, test_seed);
    hr_device_stats(dev, &stats);
    CHECK(!c.different && !stats.fallbacks && !stats.lies && !falls(dev),
          "%s: %d of %d differ, %d fell back, %d falls", imports.label,
          c.different, c.samples, (int)stats.fallbacks, falls(dev));
    CHECK(imports_now().filled > 0 && imports_engine(dev, 1).bytes_imported > 0,
          "%s: %d planes shared", imports.label, imports_now().filled);
    printf("\n  %s: %d samples, %.0f KB imported, %d planes shared ",
           imports.label, c.samples,
           (double)imports_engine(dev, 1).bytes_imported / 1e3,
           imports_now().filled);
    imports_close(&dev, fds);
}

static void conformance(void)
{
    static const char *const options[] = {
        linear, tiled, "personality=ihd,modifier=1,pitch=100,offset=4096"};

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
    struct bytes b = test_jpeg_of(&(struct jpeg_spec){.w = w,
                                                      .h = h,
                                                      .space = JCS_YCbCr,
                                                      .quality = 90,
                                                      .factors = {0x22}},
                                  &seed);
    struct hr_sample s[PICTURES];
    hr_batch out[2];

    for (int i = 0; i < PICTURES; i++)
        s[i] = (struct hr_sample){
            .data = b.data, .size = b.size, .ops = ops, .num_ops = 2};
    for (int k = 0; k < 2; k++) {
        hr_job job;

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
        hr_job_release(&job);
    }
    CHECK(!memcmp(out[0]->params.data, out[1]->params.data, out[0]->size),
          "%dx%d: pixels differ", w, h);
    CHECK(imports_engine(dev, 1).bytes_imported - before >= 3 * PICTURES,
          "%dx%d: %d bytes imported", w, h,
          (int)(imports_engine(dev, 1).bytes_imported - before));
    for (int k = 0; k < 2; k++)
        hr_batch_destroy(&out[k]);
    hr_device_close(&devices[0]);
    free(b.data);
}

static void not_through_the_host(void)
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
        set_up(tiled, FAULT_SHARES, d);
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
        CHECK(samples_by(dev, shared) >= 11 * 40, "%d shared",
              (int)samples_by(dev, shared));
        CHECK(!falls(dev), "%d falls", falls(dev));
        imports_close(&dev, fds);
    }
}

static void steady(void)
{
    struct hr_stats before, after;
    int round, fds = imports_fds();

    snprintf(imports.label, sizeof(imports.label), "steady");
    new_scene(tiled, false);
    for (round = 0; round < 40; round++) {
        hr_device_stats(imports.scene.dev, &before);
        for (int i = 0; i < 5; i++)
            imports_run(20000);
        hr_device_stats(imports.scene.dev, &after);
        if (after.heap_allocations == before.heap_allocations)
            break;
    }
    CHECK(round < 40, "%d allocations in five jobs",
          (int)(after.heap_allocations - before.heap_allocations));
    imports_close_scene(fds);
}

// Who looks at the planes between the spans has them mapped; what follows reads
// them there.
static void on_planes(void *ctx, int i, const struct hr__payload *planes)
{
    const uint8_t *data = planes->data;
    atomic_int *seen = ctx;

    (void)i;
    atomic_fetch_add(seen, data && planes->size && data[planes->size / 2] >= 0);
}

static void looked_at(void)
{
    atomic_int seen = 0;
    struct hr__device *dev;
    int fds = imports_fds();

    snprintf(imports.label, sizeof(imports.label), "looked at");
    new_scene("personality=ihd,modifier=1,pitch=100,offset=4096", false);
    dev = (struct hr__device *)imports.scene.dev;
    dev->tap_ctx = &seen;
    dev->tap = on_planes;
    run_together(5);
    CHECK(seen == 5 * IMPORTS_MADE, "%d seen", seen);
    dev->tap = NULL;
    run_together(5);
    check_top(imports.scene.dev, shared);
    CHECK(!falls(imports.scene.dev), "%d falls", falls(imports.scene.dev));
    imports_close_scene(fds);
}

// A batch that imports has its upload in a trace, and a row of its own.
static void traced(void)
{
    static char text[1 << 22];
    const struct bytes none = {.data = (uint8_t *)text};
    const char *path = test_file(&none, ".json");
    int fds = imports_fds();
    size_t size;
    FILE *file;

    for (int flat = 0; flat < 2; flat++) {
        snprintf(imports.label, sizeof(imports.label), "traced, %s",
                 flat ? "dma-bufs" : "shared");
        CHECK(!hr_trace_start(NULL), "%s", hr_last_error());
        set_up(linear, flat ? 0 : FAULT_SHARES, flat);
        imports_open_scene(IMPORTS_N);
        run_together(3);
        imports_close_scene(fds);
        hr_trace_stop();
        CHECK(!hr_trace_write(path), "%s", hr_last_error());
        if (!(file = fopen(path, "r")))
            abort();
        size = fread(text, 1, sizeof(text) - 1, file);
        fclose(file);
        text[size] = '\0';
        CHECK(strstr(text, flat ? "opencl:0 dma-buf" : "opencl:0 shared surf"),
              "%s: no row of imports", imports.label);
        CHECK(strstr(text, "\"import\"") && strstr(text, "opencl:0 upload"),
              "%s: no imports, or no upload", imports.label);
    }
}

// ---- The rungs below -------------------------------------------------------------

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
    set_up(r->options, r->how, false);
    imports_open_scene(IMPORTS_N);
    check_top(imports.scene.dev, r->top);
    run_together(3);
    CHECK(falls(imports.scene.dev) == r->falls, "%s: %d falls", imports.label,
          falls(imports.scene.dev));
    CHECK((imports_now().filled > 0) == r->here, "%s: %d planes shared",
          imports.label, imports_now().filled);
    imports_close_scene(fds);
    unsetenv("HEADRACE_VAAPI_READ");
}

static void below(void)
{
    const unsigned on = FAULT_SHARES;
    const struct rung rungs[] = {
        {linear, NULL, shared, on, 0, true},
        {linear, "share", shared, on, 0, true},
        {tiled, "share", shared, on | FAULT_SHARES_NV12, 0, true},
        {linear, "import", imported, on, 0, false},
        {linear, "get", got, on, 0, false},
        {linear, "copy", "image got and copied", on, 0, false},
        // Another device, no such context, no such format: one rung down.
        {linear, NULL, imported, 0, 0, false},
        {linear, NULL, imported, on | FAULT_SHARES_ELSEWHERE, 0, false},
        {tiled, NULL, got, on | FAULT_SHARES_ELSEWHERE, 0, false},
        {linear, NULL, imported, on | FAULT_SHARES_REFUSES, 1, false},
        {tiled, NULL, got, on | FAULT_SHARES_REFUSES, 1, false},
        {linear, NULL, imported, on | FAULT_SHARES_OTHERS, 0, false},
        {tiled, "share", got, on | FAULT_SHARES_OTHERS, 0, false},
        // Two drivers in one display, and nobody knows whether that is safe.
        {"personality=plain", NULL, imported, on, 0, false},
        {"personality=plain", "share", got, on, 0, false},
    };

    for (size_t i = 0; i < sizeof(rungs) / sizeof(*rungs); i++)
        check_rung_of(&rungs[i]);
}

// ---- Failures --------------------------------------------------------------------

static const enum fault_entry entries[] = {
    FAULT_clCreateFromVA_APIMediaSurfaceINTEL,
    FAULT_clEnqueueCopyImageToBuffer,
    FAULT_clEnqueueAcquireVA_APIMediaSurfacesINTEL,
    FAULT_clEnqueueReleaseVA_APIMediaSurfacesINTEL,
};

static void failing_calls(void)
{
    static const cl_int codes[] = {-1099, -1100, CL_OUT_OF_HOST_MEMORY,
                                   CL_OUT_OF_RESOURCES};
    int fds = imports_fds();

    for (int i = 0; i < 4 * 4 * 2 * 2; i++) {
        struct fault_rule r = {.entry = entries[i % 4],
                               .first = 1 + i / 4 % 2,
                               .action = FAULT_FAIL,
                               .code = codes[i / 8 % 4]};
        bool flat = (i / 8 + i / 32) % 2;

        r.last = i / 16 % 2 ? 0 : r.first;
        snprintf(imports.label, sizeof(imports.label),
                 "entry %d, call %d, code %d, %s, %s", i % 4, r.first, r.code,
                 i / 32 ? "discrete" : "unified", flat ? "linear" : "tiled");
        new_scene(flat ? linear : tiled, i / 32);
        imports.ctl.set(&r, 1);
        run_together(3);
        CHECK(falls(imports.scene.dev) == 1 && imports_now().hits > 0,
              "%s: %d falls, %d hits", imports.label, falls(imports.scene.dev),
              imports_now().hits);
        imports.ctl.set(NULL, 0);
        check_next(flat ? imported : got);
        imports_close_scene(fds);
    }
}

// While the device is opened: it opens all the same.
static void failing_opens(void)
{
    static const enum fault_entry opens[] = {
        FAULT_clCreateContext, FAULT_clGetDeviceIDsFromVA_APIMediaAdapterINTEL,
        FAULT_clGetSupportedVA_APIMediaSurfaceFormatsINTEL};
    int fds = imports_fds();

    for (int i = 0; i < 6; i++) {
        struct fault_rule r = {.entry = opens[i / 2],
                               .first = 1,
                               .last = 1,
                               .action = FAULT_FAIL,
                               .code = CL_INVALID_VALUE};

        snprintf(imports.label, sizeof(imports.label), "entry %d, %s", i / 2,
                 i % 2 ? "linear" : "tiled");
        set_up(i % 2 ? linear : tiled, FAULT_SHARES | FAULT_SHARES_NV12, false);
        imports.ctl.set(&r, 1);
        imports_open_scene(IMPORTS_N);
        check_top(imports.scene.dev, i % 2 ? imported : got);
        CHECK(imports_now().hits == 1, "%s: %d hits", imports.label,
              imports_now().hits);
        run_together(3);
        imports_close_scene(fds);
    }
}

// The media driver fails for OpenCL's: its surfaces, or their pixels.
static void failing_media(void)
{
    static const char *const faults[] = {"fault=ExportSurfaceHandle:0x06:1",
                                         "fault=ExportSurfaceHandle:0x06:2",
                                         "fault=CreateImage:0x02:1",
                                         "fault=GetImage:0x01:2"};
    int fds = imports_fds();

    for (int i = 0; i < 4; i++) {
        snprintf(imports.label, sizeof(imports.label), "%s", faults[i]);
        // (Linear ones nobody else gets images of.)
        new_scene(i < 2 ? tiled : linear, i % 2);
        vaapi_driver("%s", faults[i]);
        run_together(3);
        CHECK(vaapi_counters().faults == 1 && falls(imports.scene.dev) == 1,
              "%s: %ld faults, %d falls", imports.label,
              vaapi_counters().faults, falls(imports.scene.dev));
        vaapi_driver("fault=none");
        imports_close_scene(fds);
    }
}

// A display that was lost is another one afterwards, which OpenCL's context
// does not know; the old one stays open until that is closed.
static void lost_display(void)
{
    int fds = imports_fds();

    for (int i = 0; i < 2; i++) {
        snprintf(imports.label, sizeof(imports.label), "lost, %s",
                 i ? "linear" : "tiled");
        new_scene(i ? linear : tiled, false);
        run_together(2);
        vaapi_driver("fault=BeginPicture:0x22:1");
        imports_run(20000);
        run_together(3);
        CHECK(vaapi_counters().displays == 2, "%s: %ld displays", imports.label,
              vaapi_counters().displays);
        CHECK(falls(imports.scene.dev) == 1, "%s: %d falls", imports.label,
              falls(imports.scene.dev));
        check_next(i ? imported : got);
        imports_close_scene(fds);
    }
}

// A display that OpenCL's driver does not have need not stay, and no way past
// the host has failed.
static void lost_alone(void)
{
    int fds = imports_fds();

    snprintf(imports.label, sizeof(imports.label), "lost, not shared");
    set_up(linear, 0, false);
    imports_open_scene(IMPORTS_N);
    check_top(imports.scene.dev, imported);
    run_together(2);
    vaapi_driver("fault=BeginPicture:0x22:1");
    imports_run(20000);
    run_together(3);
    CHECK(vaapi_counters().displays == 1, "%s: %ld displays", imports.label,
          vaapi_counters().displays);
    CHECK(!falls(imports.scene.dev), "%s: %d falls", imports.label,
          falls(imports.scene.dev));
    imports_close_scene(fds);
}

// OpenCL's context is lost, and the next one knows the display again.
static void lost_context(void)
{
    struct fault_rule r = {.entry = FAULT_clFlush,
                           .first = 1,
                           .last = 1,
                           .action = FAULT_FAIL,
                           .code = CL_DEVICE_NOT_AVAILABLE};
    int fds = imports_fds(), before;

    snprintf(imports.label, sizeof(imports.label), "lost context");
    new_scene(tiled, false);
    run_together(2);
    imports.ctl.set(&r, 1);
    imports_run(20000);
    imports.ctl.set(NULL, 0);
    run_together(2);
    before = imports_now().filled;
    run_together(1);
    CHECK(imports_now().filled > before, "%s: not shared again", imports.label);
    CHECK(!falls(imports.scene.dev), "%s: %d falls", imports.label,
          falls(imports.scene.dev));
    imports_close_scene(fds);
}

// ---- A driver that does not answer -------------------------------------------------

static void hangs(void)
{
    for (int i = 0; i < 4; i++) {
        struct fault_rule r = {.entry = entries[i],
                               .first = 1,
                               .last = 1,
                               .action = i % 2 ? FAULT_HANG_AFTER : FAULT_HANG};
        hr_device dev;
        int64_t start;

        snprintf(imports.label, sizeof(imports.label), "entry %d hangs", i);
        set_up(tiled, FAULT_SHARES, false);
        imports.deadline_ms = DEADLINE_MS;
        imports_open_scene(IMPORTS_N);
        imports.ctl.set(&r, 1);
        for (int k = 0; k < 3; k++)
            imports_run(3 * DEADLINE_MS + 2000);
        CHECK(imports_now().hung == 1, "%s: %d hang", imports.label,
              imports_now().hung);
        // (The first one is importing, and nothing reads yet.)
        CHECK(imports_held() == 0 ? i == 0 : i > 0, "%s: %d held",
              imports.label, imports_held());
        dev = imports.scene.dev;
        scene_finish(&imports.scene);
        start = hr__now();
        hr_device_close(&dev);
        CHECK((hr__now() - start) / TEST_MS <= DEADLINE_MS + 3000,
              "%s: close took %d ms", imports.label,
              (int)((hr__now() - start) / TEST_MS));
        // It may still call the media driver: that is there.
        CHECK(vaapi_counters().displays > 0, "%s: the display is gone",
              imports.label);
        imports.ctl.set(NULL, 0);
        imports.ctl.release();
        test_sleep(100 * TEST_MS);
        CHECK(!imports_now().misused, "%s: %d misused", imports.label,
              imports_now().misused);
        vaapi_forget_left();
    }
}

// Batches do not come back, and neither do their surfaces, until they do.
static void late_batches(void)
{
    int fds = imports_fds(), held;

    struct fault_rule r = {.entry = FAULT_clSetEventCallback,
                           .first = 1,
                           .action = FAULT_LATE};

    for (int ever = 0; ever < 2; ever++) {
        snprintf(imports.label, sizeof(imports.label),
                 ever ? "late batches" : "late batch");
        set_up(tiled, FAULT_SHARES, false);
        imports.deadline_ms = DEADLINE_MS;
        imports_open_scene(ever ? MANY : IMPORTS_N);
        // (One of two is that of the picture that the CPU has decoded.)
        r.last = ever ? 0 : 2;
        imports.ctl.set(&r, 1);
        for (int k = 0; k < 5; k++)
            imports_run(5 * DEADLINE_MS + 4000);
        held = imports_held();
        CHECK(held >= 1 && (ever || held <= IMPORTS_MADE), "%s: %d held",
              imports.label, held);
        printf("\n  %s: %d surfaces held ", imports.label, held);
        imports.ctl.set(NULL, 0);
        imports.ctl.release();
        test_sleep(50 * TEST_MS);
        CHECK(imports_held() == 0, "%s: %d still held", imports.label,
              imports_held());
        imports_run(20000);
        imports_close_scene(fds);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        TEST_CASE(conformance),   TEST_CASE(not_through_the_host),
        TEST_CASE(steady),        TEST_CASE(looked_at),
        TEST_CASE(traced),        TEST_CASE(below),
        TEST_CASE(failing_calls), TEST_CASE(failing_opens),
        TEST_CASE(failing_media), TEST_CASE(lost_display),
        TEST_CASE(lost_alone),    TEST_CASE(lost_context),
        TEST_CASE(late_batches),  TEST_CASE(hangs),
    };

    if (!imports_init(HR_FAULT_LIBRARY))
        return TEST_NOT_RUN;
    return test_main("vaapi share", cases,
                     (int)(sizeof(cases) / sizeof(*cases)), argc, argv);
}
