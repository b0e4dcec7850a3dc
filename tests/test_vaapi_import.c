// SPDX-License-Identifier: Apache-2.0
// Surfaces that the OpenCL engine reads where they lie: the software VA driver
// exports its memfds, and fault_opencl imports them over the OpenCL driver that
// is here. The same bytes as ever, none of them through the host; whatever
// fails, the next rung makes the right pixels; descriptors, objects and
// surfaces are given back, but for what a hung driver still reads.
#include <stdlib.h>
#include <string.h>

#include "conformance.h"
#include "import_env.h"

enum { MANY = 48, DEADLINE_MS = IMPORTS_DEADLINE_MS };

static const char imported[] = "imported as dma-buf";

// ---- It is the same ------------------------------------------------------------

static void check_suite(const char *options, bool discrete)
{
    struct conformance c;
    struct hr_stats stats;
    hr_device dev;
    int fds;

    vaapi_driver("default,reset,%s", options);
    imports.ctl.discrete(discrete);
    imports.ctl.set(NULL, 0);
    fds = imports_fds();
    dev = imports_open();
    snprintf(imports.label, sizeof(imports.label), "%s, %s", options,
             discrete ? "discrete" : "unified");
    CHECK(strstr(dev->description, imported) != NULL, "%s: %s", imports.label,
          dev->description);
    vaapi_driver("reset");
    c = conformance_run(dev, HR_EXACT, test_seed);
    hr_device_stats(dev, &stats);
    CHECK(!c.different && !stats.fallbacks && !stats.mismatches,
          "%s: %d of %d differ, %d fell back", imports.label, c.different,
          c.samples, (int)stats.fallbacks);
    CHECK(imports_engine(dev, 1).bytes_imported > 0 &&
              !imports_engine(dev, 0).import_falls &&
              !imports_engine(dev, 1).import_falls,
          "%s: %d falls", imports.label,
          (int)imports_engine(dev, 0).import_falls);
    printf("\n  %s: %d samples, %.0f KB imported, %ld read back ",
           imports.label, c.samples,
           (double)imports_engine(dev, 1).bytes_imported / 1e3,
           imports_read_back());
    imports_close(&dev, fds);
}

static void conformance(void)
{
    static const char *const options[] = {"personality=plain",
                                          "pitch=100,offset=4096",
                                          "personality=ihd",
                                          "personality=i965"};

    for (int i = 0; i < test_loops(8); i++)
        check_suite(options[i / 2], i % 2);
    imports.ctl.discrete(false);
}

// No picture of a job passes through the host, and no surface is missing for
// that: there are more pictures than surfaces.
static void not_through_the_host(void)
{
    static const uint8_t factors[] = {0x22, 0x21, 0x11, 0x12, 0x41};
    const struct hr_op ops[] = {hr_op_decode(0),
                                hr_op_resize(.w = 40, .h = 30)};
    uint64_t seed = test_seed, before;
    hr_device dev;
    int fds = imports_fds();

    snprintf(imports.label, sizeof(imports.label), "not through the host");
    vaapi_driver("default,reset");
    dev = imports_open();
    vaapi_driver("reset");
    for (size_t k = 0; k < sizeof(factors); k++) {
        enum { PICTURES = 100 };
        struct hr_sample s[PICTURES];
        struct bytes b =
            test_jpeg_of(&(struct jpeg_spec){.w = 100,
                                             .h = 90,
                                             .space = JCS_YCbCr,
                                             .quality = 90,
                                             .factors = {factors[k]}},
                         &seed);
        hr_batch out = hr_batch_create(
            dev, hr_batch_params(.n = PICTURES, .c = 3, .h = 30, .w = 40));
        hr_job job;

        for (int i = 0; i < PICTURES; i++)
            s[i] = (struct hr_sample){
                .data = b.data, .size = b.size, .ops = ops, .num_ops = 2};
        before = imports_engine(dev, 1).bytes_imported;
        job = hr_submit(dev, s, PICTURES, out, NULL);
        CHECK(hr_job_wait(job, 20000 * TEST_MS) == HR_OK, "%s",
              job->results[0].message);
        CHECK(imports_engine(dev, 1).bytes_imported - before >=
                  100 * 90 * PICTURES,
              "factors %#x: %d bytes imported", factors[k],
              (int)(imports_engine(dev, 1).bytes_imported - before));
        hr_job_release(&job);
        hr_batch_destroy(&out);
        free(b.data);
    }
    CHECK(imports_read_back() == 0, "%ld read back", imports_read_back());
    imports_close(&dev, fds);
}

static void steady(void)
{
    int fds = imports_fds();

    snprintf(imports.label, sizeof(imports.label), "steady");
    vaapi_driver("default,reset");
    imports_open_scene(IMPORTS_N);
    imports_check_steady();
    imports_close_scene(fds);
}

// ---- The rungs below -------------------------------------------------------------

// What stands in the description, and nothing comes by import.
static void check_below(const char *options, const char *wish, bool external)
{
    int fds = imports_fds();

    if (wish)
        setenv("HEADRACE_VAAPI_READ", wish, 1);
    imports.ctl.external(external);
    vaapi_driver("default,reset,%s", options);
    snprintf(imports.label, sizeof(imports.label), "%s, %s", options,
             wish ? wish : "no wish");
    imports_open_scene(IMPORTS_N);
    CHECK(!strstr(imports.scene.dev->description, imported), "%s: %s",
          imports.label, imports.scene.dev->description);
    // (Mesa's decoder does not take pictures as small as those.)
    CHECK(imports_run(20000) == IMPORTS_MADE || strstr(options, "mesa"),
          "%s: not made together", imports.label);
    CHECK(!imports_engine(imports.scene.dev, 1).bytes_imported, "%s: imported",
          imports.label);
    imports_close_scene(fds);
    imports.ctl.external(true);
    unsetenv("HEADRACE_VAAPI_READ");
}

static void below(void)
{
    check_below("modifier=1", NULL, true);
    check_below("modifier=1", "import", true);
    check_below("no_export=1", "import", true);
    check_below("personality=mesa22", "import", true);
    check_below("personality=plain", "get", true);
    check_below("personality=plain", "derive", true);
    check_below("personality=plain", "import", false);
}

// ---- Failures --------------------------------------------------------------------

static void new_scene_of(int n, bool discrete)
{
    imports.ctl.discrete(discrete);
    imports.ctl.set(NULL, 0);
    vaapi_driver("default,reset");
    imports_open_scene(n);
    CHECK(strstr(imports.scene.dev->description, imported) != NULL, "%s: %s",
          imports.label, imports.scene.dev->description);
}

static void new_scene(bool discrete)
{
    new_scene_of(IMPORTS_N, discrete);
}

static void failing_export(void)
{
    static const unsigned codes[] = {0x01, 0x02, 0x06, 0x12, 0x14, 0x24};
    static const char *const when[] = {"1", "2", "always"};
    int fds = imports_fds();

    for (int i = 0; i < 18; i++) {
        snprintf(imports.label, sizeof(imports.label),
                 "vaExportSurfaceHandle, code %#x, %s", codes[i / 3],
                 when[i % 3]);
        new_scene(false);
        vaapi_driver("fault=ExportSurfaceHandle:%#x:%s", codes[i / 3],
                     when[i % 3]);
        for (int k = 0; k < 3; k++)
            CHECK(imports_run(20000) == IMPORTS_MADE, "%s: not made together",
                  imports.label);
        CHECK((imports_engine(imports.scene.dev, 0).import_falls > 0) ==
                  (vaapi_counters().faults > 0),
              "%s: %d falls, %ld faults", imports.label,
              (int)imports_engine(imports.scene.dev, 0).import_falls,
              vaapi_counters().faults);
        vaapi_driver("fault=none");
        imports_close_scene(fds);
    }
}

static const enum fault_entry entries[] = {
    FAULT_clCreateBufferWithProperties,
    FAULT_clEnqueueCopyBufferRect,
    FAULT_clEnqueueAcquireExternalMemObjectsKHR,
    FAULT_clEnqueueReleaseExternalMemObjectsKHR,
};

static void failing_import(void)
{
    static const cl_int codes[] = {CL_INVALID_VALUE, CL_INVALID_MEM_OBJECT,
                                   CL_OUT_OF_HOST_MEMORY, CL_OUT_OF_RESOURCES};
    int fds = imports_fds();

    for (int i = 0; i < 4 * 4 * 2 * 2; i++) {
        struct fault_rule r = {.entry = entries[i % 4],
                               .first = 1 + i / 4 % 2,
                               .action = FAULT_FAIL,
                               .code = codes[i / 8 % 4]};

        r.last = i / 16 % 2 ? 0 : r.first;
        snprintf(imports.label, sizeof(imports.label),
                 "entry %d, call %d, code %d, %s", i % 4, r.first, r.code,
                 i / 32 ? "discrete" : "unified");
        new_scene(i / 32);
        imports.ctl.set(&r, 1);
        for (int k = 0; k < 3; k++)
            CHECK(imports_run(20000) == IMPORTS_MADE, "%s: not made together",
                  imports.label);
        CHECK(imports_engine(imports.scene.dev, 1).import_falls ==
                      (imports_now().hits > 0) &&
                  imports_now().hits > 0,
              "%s: %d falls, %d hits", imports.label,
              (int)imports_engine(imports.scene.dev, 1).import_falls,
              imports_now().hits);
        imports.ctl.set(NULL, 0);
        CHECK(imports_run(20000) == IMPORTS_MADE,
              "%s: not made together afterwards", imports.label);
        imports_close_scene(fds);
    }
    imports.ctl.discrete(false);
}

// ---- A driver that does not answer -------------------------------------------------

// Surfaces that it may still read are not written again, and the rest goes on.
static void hangs(void)
{
    test_hung(4);
    imports.deadline_ms = DEADLINE_MS;
    for (int i = 0; i < 4; i++) {
        struct fault_rule r = {.entry = entries[i],
                               .first = 1,
                               .last = 1,
                               .action = i % 2 ? FAULT_HANG_AFTER : FAULT_HANG};
        hr_device dev;
        int64_t start;

        snprintf(imports.label, sizeof(imports.label), "entry %d hangs", i);
        new_scene(false);
        imports.ctl.set(&r, 1);
        for (int k = 0; k < 3; k++)
            imports_run(3 * DEADLINE_MS + 2000);
        CHECK(imports_now().hung == 1, "%s: %d hang", imports.label,
              imports_now().hung);
        // (The first one is importing: only a batch before it may read.)
        CHECK(i == 0 || imports_held() > 0, "%s: none held", imports.label);
        dev = imports.scene.dev;
        scene_finish(&imports.scene);
        start = hr__now();
        hr_device_close(&dev);
        CHECK((hr__now() - start) / TEST_MS <= DEADLINE_MS + 3000,
              "%s: close took %d ms", imports.label,
              (int)((hr__now() - start) / TEST_MS));
        imports.ctl.set(NULL, 0);
        imports.ctl.release();
        // What was left behind goes, or stays, in its own time.
        test_sleep(100 * TEST_MS);
        CHECK(!imports_now().misused, "%s: %d misused", imports.label,
              imports_now().misused);
        vaapi_forget_left();
    }
}

// Batches do not come back: their surfaces are held, and if those are all that
// there are, other engines make the pictures. When they come back after all,
// so do the surfaces.
static void late_batches(void)
{
    int fds = imports_fds();

    struct fault_rule r = {.entry = FAULT_clSetEventCallback,
                           .first = 1,
                           .action = FAULT_LATE};

    imports.deadline_ms = DEADLINE_MS;
    for (int ever = 0; ever < 2; ever++) {
        snprintf(imports.label, sizeof(imports.label),
                 ever ? "late batches" : "late batch");
        new_scene_of(ever ? MANY : IMPORTS_N, false);
        // (One of two is that of the picture that the CPU has decoded.)
        r.last = ever ? 0 : 2;
        imports_check_late(&r, DEADLINE_MS);
        imports_run(20000);
        imports_close_scene(fds);
    }
}

// ---- The program ---------------------------------------------------------------------

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        TEST_CASE(conformance),    TEST_CASE(not_through_the_host),
        TEST_CASE(steady),         TEST_CASE(below),
        TEST_CASE(failing_export), TEST_CASE(failing_import),
        TEST_CASE(late_batches),   TEST_CASE(hangs),
    };

    if (!imports_init(HR_FAULT_LIBRARY))
        return TEST_NOT_RUN;
    imports.ctl.external(true);
    // But where drivers do not answer, a busy machine is not what is tested.
    imports.deadline_ms = 10000;
    return test_main("vaapi import", cases,
                     (int)(sizeof(cases) / sizeof(*cases)), argc, argv);
}
