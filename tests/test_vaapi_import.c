// SPDX-License-Identifier: Apache-2.0
// Surfaces that the OpenCL engine reads where they lie: the software VA driver
// exports its memfds, and fault_opencl imports them over the OpenCL driver that
// is here. The same bytes as ever, none of them through the host; whatever
// fails, the next rung makes the right pixels; descriptors, objects and
// surfaces are given back, but for what a hung driver still reads.
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <headrace/trace.h>

#include "backends/vaapi/vaapi.h"
#include "conformance.h"
#include "fault_opencl.h"
#include "hal/hal.h"
#include "scene.h"
#include "vaapi_env.h"

// Of a scene's samples, one in six is progressive.
enum { N = 6, MADE = 5, MANY = 48, DEADLINE_MS = 400 };

static const char imported[] = "imported as dma-buf";
static struct fault_control ctl;
static struct scene scene;
static char label[160];

// ---- Steps -------------------------------------------------------------------

static int count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (dir && readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static struct fault_counts now(void)
{
    struct fault_counts c;

    ctl.counts(&c);
    return c;
}

static hr_device open_chain(void)
{
    hr_device dev = hr_device_open(
        "vaapi+opencl:pocl",
        hr_device_params(.threads = 2, .deadline_ns = DEADLINE_MS * TEST_MS));

    if (!dev) {
        fprintf(stderr, "%s: %s\n", label, hr_last_error());
        exit(1);
    }
    return dev;
}

// Nothing is left: neither in the drivers, nor descriptors.
static void close_chain(hr_device *dev, int fds)
{
    struct fault_counts c;

    hr_device_close(dev);
    vaapi_check_empty(label);
    // Who closes may be a thread of the last job's.
    for (int i = 0; i < 300 && ((c = now()).live || count_fds() != fds); i++)
        test_sleep(10 * TEST_MS);
    c = now();
    CHECK(!c.live && !c.imported && !c.acquired && !c.misused,
          "%s: %d objects, %d imported, %d acquired, %d misused", label, c.live,
          c.imported, c.acquired, c.misused);
    CHECK(count_fds() == fds, "%s: %d descriptors, not %d", label, count_fds(),
          fds);
}

static struct hr_engine_profile engine(hr_device dev, int i)
{
    static struct hr_profile p;

    hr_device_profile(dev, &p);
    return p.engines[i];
}

static long read_back(void)
{
    struct va_driver_counters c = vaapi_counters();

    return c.calls[VA_DRIVER_GetImage] + c.calls[VA_DRIVER_DeriveImage];
}

// One job over the scene. How many of its samples both engines made together.
static int run(int64_t most_ms)
{
    int64_t start = hr__now();
    struct watched w;
    int together = 0;

    scene_fill(&scene);
    if (!watch_submit(&w, &scene, NULL)) {
        CHECK(false, "%s: refused: %s", label, hr_last_error());
        return 0;
    }
    CHECK(watch_wait(&w) == HR_OK, "%s: %s", label, w.job->results[0].message);
    CHECK((hr__now() - start) / TEST_MS <= most_ms, "%s: took %d ms", label,
          (int)((hr__now() - start) / TEST_MS));
    for (int i = 0; i < scene.n; i++) {
        const struct hr_result *r = &w.job->results[i];

        CHECK(!r->status && scene_right(&scene, i), "%s: sample %d: %s", label,
              i, r->status ? r->message : "wrong pixels");
        together += r->num_spans == 2 &&
                    !strncmp(r->spans[0].device, "vaapi", 5) &&
                    !strncmp(r->spans[1].device, "opencl", 6);
    }
    watch_finish(&w);
    return together;
}

static void open_scene_of(int n)
{
    scene_init(&scene, open_chain(), n, SCENE_BYTES);
}

static void open_scene(void)
{
    open_scene_of(N);
}

static void close_scene(int fds)
{
    hr_device dev = scene.dev;

    scene_finish(&scene);
    close_chain(&dev, fds);
}

// ---- It is the same ------------------------------------------------------------

static void check_suite(const char *options, bool discrete)
{
    struct conformance c;
    struct hr_stats stats;
    hr_device dev;
    int fds;

    vaapi_driver("default,reset,%s", options);
    ctl.discrete(discrete);
    ctl.set(NULL, 0);
    fds = count_fds();
    dev = open_chain();
    snprintf(label, sizeof(label), "%s, %s", options,
             discrete ? "discrete" : "unified");
    CHECK(strstr(dev->description, imported) != NULL, "%s: %s", label,
          dev->description);
    vaapi_driver("reset");
    c = conformance_run(dev, HR_EXACT, test_seed);
    hr_device_stats(dev, &stats);
    CHECK(!c.different && !stats.fallbacks && !stats.lies,
          "%s: %d of %d differ, %d fell back", label, c.different, c.samples,
          (int)stats.fallbacks);
    CHECK(engine(dev, 1).bytes_imported > 0 && !engine(dev, 0).import_falls &&
              !engine(dev, 1).import_falls,
          "%s: %d falls", label, (int)engine(dev, 0).import_falls);
    printf("\n  %s: %d samples, %.0f KB imported, %ld read back ", label,
           c.samples, (double)engine(dev, 1).bytes_imported / 1e3, read_back());
    close_chain(&dev, fds);
}

static void conformance(void)
{
    static const char *const options[] = {"personality=plain",
                                          "pitch=100,offset=4096",
                                          "personality=ihd",
                                          "personality=i965"};

    for (int i = 0; i < test_loops(8); i++)
        check_suite(options[i / 2], i % 2);
    ctl.discrete(false);
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
    int fds = count_fds();

    snprintf(label, sizeof(label), "not through the host");
    vaapi_driver("default,reset");
    dev = open_chain();
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
        before = engine(dev, 1).bytes_imported;
        job = hr_submit(dev, s, PICTURES, out, NULL);
        CHECK(hr_job_wait(job, 20000 * TEST_MS) == HR_OK, "%s",
              job->results[0].message);
        CHECK(engine(dev, 1).bytes_imported - before >= 100 * 90 * PICTURES,
              "factors %#x: %d bytes imported", factors[k],
              (int)(engine(dev, 1).bytes_imported - before));
        hr_job_release(&job);
        hr_batch_destroy(&out);
        free(b.data);
    }
    CHECK(read_back() == 0, "%ld read back", read_back());
    close_chain(&dev, fds);
}

static void steady(void)
{
    struct hr_stats before, after;
    int round, fds = count_fds();

    snprintf(label, sizeof(label), "steady");
    vaapi_driver("default,reset");
    open_scene();
    for (round = 0; round < 40; round++) {
        hr_device_stats(scene.dev, &before);
        for (int i = 0; i < 5; i++)
            run(5000);
        hr_device_stats(scene.dev, &after);
        if (after.heap_allocations == before.heap_allocations)
            break;
    }
    CHECK(round < 40, "%d allocations in five jobs",
          (int)(after.heap_allocations - before.heap_allocations));
    close_scene(fds);
}

// ---- The rungs below -------------------------------------------------------------

// What stands in the description, and nothing comes by import.
static void check_below(const char *options, const char *wish, bool external)
{
    int fds = count_fds();

    if (wish)
        setenv("HEADRACE_VAAPI_READ", wish, 1);
    ctl.external(external);
    vaapi_driver("default,reset,%s", options);
    snprintf(label, sizeof(label), "%s, %s", options, wish ? wish : "no wish");
    open_scene();
    CHECK(!strstr(scene.dev->description, imported), "%s: %s", label,
          scene.dev->description);
    // (Mesa's decoder does not take pictures as small as those.)
    CHECK(run(5000) == MADE || strstr(options, "mesa"), "%s: not made together",
          label);
    CHECK(!engine(scene.dev, 1).bytes_imported, "%s: imported", label);
    close_scene(fds);
    ctl.external(true);
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
    ctl.discrete(discrete);
    ctl.set(NULL, 0);
    vaapi_driver("default,reset");
    open_scene_of(n);
    CHECK(strstr(scene.dev->description, imported) != NULL, "%s: %s", label,
          scene.dev->description);
}

static void new_scene(bool discrete)
{
    new_scene_of(N, discrete);
}

static void failing_export(void)
{
    static const unsigned codes[] = {0x01, 0x02, 0x06, 0x12, 0x14, 0x24};
    static const char *const when[] = {"1", "2", "always"};
    int fds = count_fds();

    for (int i = 0; i < 18; i++) {
        snprintf(label, sizeof(label), "vaExportSurfaceHandle, code %#x, %s",
                 codes[i / 3], when[i % 3]);
        new_scene(false);
        vaapi_driver("fault=ExportSurfaceHandle:%#x:%s", codes[i / 3],
                     when[i % 3]);
        for (int k = 0; k < 3; k++)
            CHECK(run(5000) == MADE, "%s: not made together", label);
        CHECK((engine(scene.dev, 0).import_falls > 0) ==
                  (vaapi_counters().faults > 0),
              "%s: %d falls, %ld faults", label,
              (int)engine(scene.dev, 0).import_falls, vaapi_counters().faults);
        vaapi_driver("fault=none");
        close_scene(fds);
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
    int fds = count_fds();

    for (int i = 0; i < 4 * 4 * 2 * 2; i++) {
        struct fault_rule r = {.entry = entries[i % 4],
                               .first = 1 + i / 4 % 2,
                               .action = FAULT_FAIL,
                               .code = codes[i / 8 % 4]};

        r.last = i / 16 % 2 ? 0 : r.first;
        snprintf(label, sizeof(label), "entry %d, call %d, code %d, %s", i % 4,
                 r.first, r.code, i / 32 ? "discrete" : "unified");
        new_scene(i / 32);
        ctl.set(&r, 1);
        for (int k = 0; k < 3; k++)
            CHECK(run(5000) == MADE, "%s: not made together", label);
        CHECK(engine(scene.dev, 1).import_falls == (now().hits > 0) &&
                  now().hits > 0,
              "%s: %d falls, %d hits", label,
              (int)engine(scene.dev, 1).import_falls, now().hits);
        ctl.set(NULL, 0);
        CHECK(run(5000) == MADE, "%s: not made together afterwards", label);
        close_scene(fds);
    }
    ctl.discrete(false);
}

// ---- A driver that does not answer -------------------------------------------------

// Surfaces that are not to be written, while no job is under way.
static int count_held(void)
{
    struct va *va = va_of(((struct hr__device *)scene.dev)->engines[0]);
    int n;

    pthread_mutex_lock(&va->lock);
    n = va_count_slots(va, VA_LENT) + va_count_slots(va, VA_HELD);
    pthread_mutex_unlock(&va->lock);
    return n;
}

// Surfaces that it may still read are not written again, and the rest goes on.
static void hangs(void)
{
    for (int i = 0; i < 4; i++) {
        struct fault_rule r = {.entry = entries[i],
                               .first = 1,
                               .last = 1,
                               .action = i % 2 ? FAULT_HANG_AFTER : FAULT_HANG};
        hr_device dev;
        int64_t start;

        snprintf(label, sizeof(label), "entry %d hangs", i);
        new_scene(false);
        ctl.set(&r, 1);
        for (int k = 0; k < 3; k++)
            run(3 * DEADLINE_MS + 2000);
        CHECK(now().hung == 1, "%s: %d hang", label, now().hung);
        // (The first one is importing, and nothing reads yet.)
        CHECK(count_held() == 0 ? i == 0 : i > 0, "%s: %d held", label,
              count_held());
        dev = scene.dev;
        scene_finish(&scene);
        start = hr__now();
        hr_device_close(&dev);
        CHECK((hr__now() - start) / TEST_MS <= DEADLINE_MS + 3000,
              "%s: close took %d ms", label,
              (int)((hr__now() - start) / TEST_MS));
        ctl.set(NULL, 0);
        ctl.release();
        // What was left behind goes, or stays, in its own time.
        test_sleep(100 * TEST_MS);
        CHECK(!now().misused, "%s: %d misused", label, now().misused);
        vaapi_forget_left();
    }
}

// Batches do not come back: their surfaces are held, and if those are all that
// there are, other engines make the pictures. When they come back after all,
// so do the surfaces.
static void late_batches(void)
{
    int fds = count_fds(), held;

    struct fault_rule r = {.entry = FAULT_clSetEventCallback,
                           .first = 1,
                           .action = FAULT_LATE};

    for (int ever = 0; ever < 2; ever++) {
        snprintf(label, sizeof(label), ever ? "late batches" : "late batch");
        new_scene_of(ever ? MANY : N, false);
        // (One of two is that of the picture that the CPU has decoded.)
        r.last = ever ? 0 : 2;
        ctl.set(&r, 1);
        for (int k = 0; k < 5; k++)
            run(5 * DEADLINE_MS + 4000);
        held = count_held();
        CHECK(held >= 1 && (ever || held <= MADE), "%s: %d held", label, held);
        printf("\n  %s: %d surfaces held ", label, held);
        ctl.set(NULL, 0);
        ctl.release();
        test_sleep(50 * TEST_MS);
        CHECK(count_held() == 0, "%s: %d still held", label, count_held());
        run(5000);
        close_scene(fds);
    }
}

// ---- The program ---------------------------------------------------------------------

static bool init(void)
{
    void *library = dlopen(HR_FAULT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    void *entry = library ? dlsym(library, "fault_control") : NULL;
    void (*control)(struct fault_control *);

    if (!vaapi_init())
        return false;
    if (!entry) {
        test_not_run(dlerror());
        return false;
    }
    memcpy(&control, &entry, sizeof(control));
    control(&ctl);
    ctl.external(true);
    setenv("HEADRACE_OPENCL_LIBRARY", HR_FAULT_LIBRARY, 1);
    setenv("POCL_CACHE_DIR", getenv("XDG_CACHE_HOME"), 1);
    return true;
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        TEST_CASE(conformance),    TEST_CASE(not_through_the_host),
        TEST_CASE(steady),         TEST_CASE(below),
        TEST_CASE(failing_export), TEST_CASE(failing_import),
        TEST_CASE(late_batches),   TEST_CASE(hangs),
    };
    hr_device dev;

    if (!init())
        return TEST_NOT_RUN;
    // Once before anything is counted: drivers open files of their own.
    if (!(dev = hr_device_open("vaapi+opencl:pocl", NULL))) {
        printf("not run: %s\n", hr_last_error());
        return TEST_NOT_RUN;
    }
    hr_device_close(&dev);
    return test_main("vaapi import", cases,
                     (int)(sizeof(cases) / sizeof(*cases)), argc, argv);
}
