// SPDX-License-Identifier: Apache-2.0
// The VA-API engine over a driver that fails: the software driver's calls fail
// one by one, with every code that libva's headers name, once, later and for
// ever, while the device opens and while it works; pictures end in errors, come
// late, never, or as other pixels. Every sample ends once, with the right
// pixels, nothing is left in the driver, and close returns in time.
// HEADRACE_TEST_LONG=1: every call with every code.
#include "scene.h"
#include "vaapi_env.h"

// One of a scene's samples is progressive.
enum { N = 6, MADE = 5, DEADLINE_MS = 400 };

static const char *const calls[] = {
#define X(name) #name,
    VA_DRIVER_CALLS(X)
#undef X
};

// Calls whose failure at close is the driver's own: it could not be told.
static const struct code {
    unsigned code;
    const char *name;
} codes[] = {
    {0x01, "OPERATION_FAILED"},
    {0x02, "ALLOCATION_FAILED"},
    {0x03, "INVALID_DISPLAY"},
    {0x04, "INVALID_CONFIG"},
    {0x05, "INVALID_CONTEXT"},
    {0x06, "INVALID_SURFACE"},
    {0x07, "INVALID_BUFFER"},
    {0x08, "INVALID_IMAGE"},
    {0x0a, "ATTR_NOT_SUPPORTED"},
    {0x0b, "MAX_NUM_EXCEEDED"},
    {0x0c, "UNSUPPORTED_PROFILE"},
    {0x0d, "UNSUPPORTED_ENTRYPOINT"},
    {0x0e, "UNSUPPORTED_RT_FORMAT"},
    {0x0f, "UNSUPPORTED_BUFFERTYPE"},
    {0x10, "SURFACE_BUSY"},
    {0x12, "INVALID_PARAMETER"},
    {0x13, "RESOLUTION_NOT_SUPPORTED"},
    {0x14, "UNIMPLEMENTED"},
    {0x16, "INVALID_IMAGE_FORMAT"},
    {0x17, "DECODING_ERROR"},
    {0x19, "INVALID_VALUE"},
    {0x22, "HW_BUSY"},
    {0x24, "UNSUPPORTED_MEMORY_TYPE"},
    {0x26, "TIMEDOUT"},
    {0xffffffff, "UNKNOWN"},
};
enum { CODES = sizeof(codes) / sizeof(*codes) };

static struct {
    struct scene scene;
    bool all;
    int64_t slack;  // ns that the machine may be late
    bool hit[VA_DRIVER_NUM_CALLS], open_hung[VA_DRIVER_NUM_CALLS];
    int cases;             // in which a fault was met
    int tried, all_tries;  // of the lists of calls and codes
    unsigned why;
    long left;  // objects that faults have kept so far
    char label[160];
} f;

// ---- One job under a fault ------------------------------------------------

// True if the time since start is at most ms, plus the time that other
// processes have taken of the machine.
static bool in_time(int64_t start, int64_t ms)
{
    return hr__now() - start <= ms * TEST_MS + f.slack;
}

// How many of its samples the device made.
static int run(int64_t most_ms)
{
    struct watched w;
    int64_t start = hr__now();
    int by_device = 0;

    scene_fill(&f.scene);
    if (!watch_submit(&w, &f.scene, hr_job_params(.tier = HR_EXACT))) {
        CHECK(false, "%s: refused: %s", f.label, hr_last_error());
        return 0;
    }
    CHECK(watch_wait(&w) == HR_OK, "%s: %s", f.label,
          w.job->results[0].message);
    CHECK(in_time(start, most_ms), "%s: took %d ms", f.label,
          (int)((hr__now() - start) / TEST_MS));
    f.why = 0;
    for (int i = 0; i < N; i++) {
        const struct hr_result *r = &w.job->results[i];

        CHECK(!r->status && scene_right(&f.scene, i), "%s: sample %d: %s",
              f.label, i, r->status ? r->message : "wrong pixels");
        f.why |= r->why;
        by_device += r->num_spans && !strncmp(r->spans[0].device, "vaapi", 5);
    }
    watch_finish(&w);
    return by_device;
}

static bool was_hit(int call)
{
    if (!vaapi_counters().faults)
        return false;
    f.hit[call] = true;
    f.cases++;
    return true;
}

static atomic_int closed;

static void on_closed(void *ctx, bool left_behind)
{
    (void)ctx;
    (void)left_behind;
    atomic_store(&closed, 1);
}

static hr_device try_open(void)
{
    return vaapi_open_with(
        hr_device_params(.threads = 1, .deadline_ns = DEADLINE_MS * TEST_MS,
                         .on_closed = on_closed));
}

// Nothing fails now; but a busy machine may be late for so short a deadline.
static void open_scene(void)
{
    hr_device dev = NULL;

    for (int i = 0; i < 4 && !dev; i++)
        dev = try_open();
    if (!dev) {
        fprintf(stderr, "%s: %s\n", f.label, hr_last_error());
        exit(1);
    }
    scene_init(&f.scene, dev, N, SCENE_BYTES);
}

static long left_now(void)
{
    struct va_driver_counters c = vaapi_counters();

    return c.displays + c.configs + c.contexts + c.surfaces + c.buffers +
           c.images + c.in_flight + c.left;
}

// No more objects than before but one for each call that failed or hung. A
// closing thread may be on its way, for long on a busy machine: until nothing
// changes any more.
static void settle(void)
{
    long most = vaapi_counters().faults, a, b = left_now();

    for (int i = 0; i < 2000; i++) {
        a = b;
        test_sleep(15 * TEST_MS);
        b = left_now();
        if (a == b && b - f.left <= most)
            break;
    }
    CHECK(b - f.left <= most, "%s: %ld objects left by %ld calls that failed",
          f.label, b - f.left, most);
    f.left = b;
    vaapi_forget_left();
}

// Closes in time and checks that all objects are gone. may_leave: objects may
// stay whose destroying call failed or hung.
static void close_scene(bool may_leave)
{
    int64_t start = hr__now(), took;
    hr_device dev = f.scene.dev;

    scene_finish(&f.scene);
    f.scene.dev = NULL;
    atomic_store(&closed, 0);
    hr_device_close(&dev);
    // The last job may hold it for a moment: the script waits for both.
    CHECK(test_reaches(&closed, 1), "%s: not closed", f.label);
    took = (hr__now() - start) / TEST_MS;
    CHECK(in_time(start, DEADLINE_MS + 1000), "%s: close took %d ms", f.label,
          (int)took);
    vaapi_driver("release");
    if (may_leave)
        settle();
    else
        vaapi_check_empty(f.label);
}

// Calls that destroy an object; if one fails its object stays.
static bool takes_away(int call)
{
    return call == VA_DRIVER_Terminate || call == VA_DRIVER_DestroyConfig ||
           call == VA_DRIVER_DestroySurfaces ||
           call == VA_DRIVER_DestroyContext ||
           call == VA_DRIVER_DestroyBuffer || call == VA_DRIVER_DestroyImage;
}

// Counts it, and whether it is run here.
static bool is_tried(bool here)
{
    f.all_tries++;
    f.tried += here;
    return here;
}

// ---- While it works -------------------------------------------------------

static void new_device(const char *personality, bool may_leave)
{
    if (f.scene.dev)
        close_scene(may_leave);
    vaapi_driver("default,reset,personality=%s", personality);
    open_scene();
}

static void one_case(int call, const struct code *code, const char *when,
                     const char *personality)
{
    int recovered;

    snprintf(f.label, sizeof(f.label), "%s, %s, %s, %s", personality,
             calls[call], code->name, when);
    vaapi_driver("reset,fault=%s:%#x:%s", calls[call], code->code, when);
    run(5000);
    was_hit(call);
    vaapi_driver("fault=none");
    recovered = run(5000);
    // It may rest, after three in a row; and what it could not take away is
    // still there.
    if (takes_away(call) || !recovered)
        new_device(personality, takes_away(call));
}

// The calls that a job makes, and opening again after a loss.
static bool is_used(int call, const struct va_driver_counters *c)
{
    return c->calls[call] || call == VA_DRIVER_Decode ||
           call == VA_DRIVER_CreateSurfaces || call == VA_DRIVER_CreateImage ||
           call == VA_DRIVER_CreateContext;
}

TEST_CASE(work_failures)
{
    static const char *const whens[] = {"1", "always", "2", "3+"};
    static const char *const personalities[] = {"ihd", "plain", "i965"};
    struct va_driver_counters c;

    // The others only show which calls there are, where not all are failed.
    for (int p = 0; p < 3; p++) {
        new_device(personalities[p], false);
        vaapi_driver("reset");
        run(5000);
        c = vaapi_counters();
        for (int call = 0; call < VA_DRIVER_NUM_CALLS; call++)
            for (int i = 0; i < CODES && is_used(call, &c); i++)
                for (int k = 0; k < (p ? 2 : 4); k++)
                    if (is_tried(f.all || (!p && (i + call + k) % 11 == 0)))
                        one_case(call, &codes[i], whens[k], personalities[p]);
    }
    close_scene(false);
    printf("\n  %d cases so far ", f.cases);
}

// ---- While it opens -------------------------------------------------------

// A busy machine may be late for so short a deadline before the driver fails.
static hr_device open_failing(const char *fault, int call, bool *hit)
{
    hr_device dev = NULL;

    *hit = false;
    for (int i = 0; i < 4 && !dev && !*hit; i++) {
        vaapi_new_cache();
        vaapi_driver("default,reset,personality=ihd,fault=%s", fault);
        dev = try_open();
        *hit = was_hit(call);
    }
    return dev;
}

TEST_CASE(open_failures)
{
    for (int call = 0; call < VA_DRIVER_NUM_CALLS; call++)
        for (int i = 0; i < CODES; i++) {
            static const char *const whens[] = {"1", "always", "2"};
            const char *when = whens[i % 3];
            char fault[80];
            hr_device dev;
            bool ok;

            // (With a sanitizer each call has two codes or three.)
            if (!is_tried(f.all || (i + call) % (TEST_SANITIZED ? 11 : 5) == 0))
                continue;
            snprintf(f.label, sizeof(f.label), "open: %s, %s, %s", calls[call],
                     codes[i].name, when);
            snprintf(fault, sizeof(fault), "%s:%#x:%s", calls[call],
                     codes[i].code, when);
            dev = open_failing(fault, call, &ok);
            if (!dev) {
                CHECK(ok && strlen(hr_last_error()) > 10, "%s: '%s'", f.label,
                      hr_last_error());
            } else {
                scene_init(&f.scene, dev, N, SCENE_BYTES);
                run(5000);
                close_scene(takes_away(call));
            }
            vaapi_driver("default");
            if (takes_away(call))
                settle();
            else
                vaapi_check_empty(f.label);
        }
    vaapi_new_cache();
    printf("\n  %d cases so far ", f.cases);
}

// ---- Hangs and late pictures ----------------------------------------------

// Given up with a reason; or only the test of the device hung, and it works.
static void open_over_hang(int call, int nth)
{
    int64_t begin;
    hr_device dev;

    snprintf(f.label, sizeof(f.label), "open: %s %d hangs", calls[call], nth);
    vaapi_new_cache();
    vaapi_driver("default,reset,personality=ihd,fault=%s:hang:%d", calls[call],
                 nth);
    begin = hr__now();
    dev = try_open();
    CHECK(in_time(begin, 15000), "%s: took %d ms", f.label,
          (int)((hr__now() - begin) / TEST_MS));
    if (dev) {
        scene_init(&f.scene, dev, N, SCENE_BYTES);
        run(2 * DEADLINE_MS + 2000);
        close_scene(true);
    } else {
        CHECK(hr_last_status() == HR_EDEVICE && strlen(hr_last_error()) > 10,
              "%s: %s: '%s'", f.label, hr_status_name(hr_last_status()),
              hr_last_error());
    }
    f.open_hung[call] |= was_hit(call);
    vaapi_driver("release");
    settle();
}

TEST_CASE(open_hangs)
{
    for (int call = 0; call < VA_DRIVER_NUM_CALLS; call++)
        for (int nth = 1; nth <= 2; nth++)
            if (is_tried(f.all || (nth == 1 && call % 4 == 0)))
                open_over_hang(call, nth);
    vaapi_new_cache();
    printf("\n  %d cases so far ", f.cases);
}

static void hang_while_working(int call, const char *when, const char *person)
{
    snprintf(f.label, sizeof(f.label), "%s hangs, %s", calls[call], person);
    vaapi_driver("default,reset,personality=%s", person);
    open_scene();
    vaapi_driver("fault=%s:hang:%s", calls[call], when);
    run(2 * DEADLINE_MS + 2000);
    run(2 * DEADLINE_MS + 2000);
    close_scene(takes_away(call));
    was_hit(call);
    // The hung call is released; the rest of it ends in its own time.
    vaapi_driver("release");
    test_sleep(30 * TEST_MS);
}

TEST_CASE(hangs)
{
    static const int sites[] = {
        VA_DRIVER_CreateBuffer,
        VA_DRIVER_BeginPicture,
        VA_DRIVER_RenderPicture,
        VA_DRIVER_EndPicture,
        VA_DRIVER_SyncSurface,
        VA_DRIVER_SyncSurface2,
        VA_DRIVER_QuerySurfaceError,
        VA_DRIVER_GetImage,
        VA_DRIVER_MapBuffer,
        VA_DRIVER_UnmapBuffer,
        VA_DRIVER_DestroyBuffer,
        VA_DRIVER_CreateSurfaces,
        VA_DRIVER_DestroySurfaces,
        VA_DRIVER_DestroyContext,
        VA_DRIVER_DestroyConfig,
        VA_DRIVER_Terminate,
        VA_DRIVER_CreateImage,
        VA_DRIVER_DestroyImage,
        VA_DRIVER_Decode,
    };
    static const char *const persons[] = {"ihd", "plain", "mesa22"};
    int n = COUNT(sites);

    for (int i = 0; i < n; i++)
        for (int k = 0; k < 3; k++)
            // (Some are called only once, when the device closes.)
            if (is_tried(f.all || !k))
                hang_while_working(sites[i],
                                   i % 2 && !takes_away(sites[i]) ? "2" : "1",
                                   persons[k]);
    printf("\n  %d cases so far ", f.cases);
}

// Late is not failed, and TIMEDOUT is only "again".
TEST_CASE(late)
{
    vaapi_driver("default,reset,personality=ihd");
    snprintf(f.label, sizeof(f.label), "late");
    open_scene();
    vaapi_driver("reset,fault=Decode:sleep100:1");
    CHECK(run(5000) == MADE, "late: why %#x", f.why);
    vaapi_driver("reset,fault=SyncSurface2:0x26:1-5");
    CHECK(run(5000) == MADE, "TIMEDOUT five times: why %#x", f.why);
    vaapi_driver("reset,fault=SyncSurface2:0x14:always");
    CHECK(run(5000) == MADE, "no vaSyncSurface2: why %#x", f.why);
    f.cases += 3;
    vaapi_driver("fault=none");
    close_scene(false);
}

// Later ones: the first sixteen are checked anyway.
TEST_CASE(pixels)
{
    static const char *const what[] = {"stale", "zero", "wrong"};
    static const char *const when[] = {"1", "2", "3", "always"};

    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 4; k++) {
            snprintf(f.label, sizeof(f.label), "%s, %s", what[i], when[k]);
            vaapi_driver("default,reset,personality=plain");
            open_scene();
            vaapi_driver("reset,fault=Decode:%s:%s", what[i], when[k]);
            run(5000);
            was_hit(VA_DRIVER_Decode);
            vaapi_driver("fault=none");
            run(5000);
            close_scene(false);
        }
    printf("\n  %d cases ", f.cases);
}

// Memory and threads of our own, one after the other, while it opens and works.
TEST_CASE(allocations)
{
    int opened = 0, tries = f.all ? 200 : 80;

    for (int nth = 1; nth <= tries; nth++) {
        hr_device dev;

        snprintf(f.label, sizeof(f.label), "allocation %d", nth);
        vaapi_driver("default,reset,personality=ihd");
        hr__test_fail_alloc(nth, false);
        dev = try_open();
        hr__test_fail_alloc(0, false);
        if (dev) {
            opened++;
            scene_init(&f.scene, dev, N, SCENE_BYTES);
            run(5000);
            close_scene(false);
        } else {
            CHECK(hr_last_status() == HR_ENOMEM || strlen(hr_last_error()) > 10,
                  "%s: '%s'", f.label, hr_last_error());
            vaapi_check_empty(f.label);
        }
    }
    CHECK(opened > 0, "never opened");
    printf("\n  opened %d of %d times ", opened, tries);
}

// One job while one allocation fails. Each sample is right, or says so.
static void run_short(int nth)
{
    struct watched w;

    scene_fill(&f.scene);
    hr__test_fail_alloc(nth, false);
    if (!watch_submit(&w, &f.scene, hr_job_params(.tier = HR_EXACT))) {
        hr__test_fail_alloc(0, false);
        CHECK(hr_last_status() == HR_ENOMEM, "%s: %s", f.label,
              hr_last_error());
        return;
    }
    hr_job_wait(w.job, HR_FOREVER);
    hr__test_fail_alloc(0, false);
    watch_wait(&w);
    for (int i = 0; i < N; i++) {
        const struct hr_result *r = &w.job->results[i];

        CHECK(r->status ? r->status == HR_ENOMEM && r->message[0]
                        : scene_right(&f.scene, i),
              "%s: sample %d: %s", f.label, i,
              r->status ? r->message : "wrong pixels");
    }
    watch_finish(&w);
}

// The same while it works for the first time, until there is none to fail.
TEST_CASE(work_allocations)
{
    int nth = 1, in_a_row = 0;

    for (; nth < 200 && in_a_row < 2; nth++) {
        int64_t before;

        snprintf(f.label, sizeof(f.label), "allocation %d of a job", nth);
        vaapi_driver("default,reset,personality=ihd");
        open_scene();
        before = hr__test_allocs();
        run_short(nth);
        in_a_row = hr__test_allocs() - before < nth ? in_a_row + 1 : 0;
        // It may rest, if it was short of memory for several samples.
        CHECK(run(5000) == MADE || f.why & HR_WHY_BREAKER,
              "%s: it does not recover: %#x", f.label, f.why);
        close_scene(false);
    }
    CHECK(nth > 10 && nth < 200, "%d allocations in a job", nth);
    printf("\n  %d allocations ", nth - 1 - in_a_row);
}

// When every surface and buffer is there, a job allocates nothing.
TEST_CASE(steady)
{
    struct hr_stats before, after;
    int round;

    vaapi_driver("default,reset,personality=ihd");
    snprintf(f.label, sizeof(f.label), "steady");
    open_scene();
    for (round = 0; round < 40; round++) {
        hr_device_stats(f.scene.dev, &before);
        for (int i = 0; i < 5; i++)
            run(5000);
        hr_device_stats(f.scene.dev, &after);
        if (after.heap_allocations == before.heap_allocations)
            break;
    }
    CHECK(round < 40, "%d allocations in five jobs",
          (int)(after.heap_allocations - before.heap_allocations));
    printf("\n  %d allocations in five jobs ",
           (int)(after.heap_allocations - before.heap_allocations));
    close_scene(false);
}

TEST_CASE(complete)
{
    // The calls that the engine makes; each has been failed.
    static const int used[] = {
        VA_DRIVER_QueryConfigEntrypoints,
        VA_DRIVER_GetConfigAttributes,
        VA_DRIVER_CreateConfig,
        VA_DRIVER_CreateSurfaces,
        VA_DRIVER_CreateContext,
        VA_DRIVER_CreateBuffer,
        VA_DRIVER_MapBuffer,
        VA_DRIVER_UnmapBuffer,
        VA_DRIVER_DestroyBuffer,
        VA_DRIVER_BeginPicture,
        VA_DRIVER_RenderPicture,
        VA_DRIVER_EndPicture,
        VA_DRIVER_SyncSurface2,
        VA_DRIVER_QuerySurfaceError,
        VA_DRIVER_QuerySurfaceAttributes,
        VA_DRIVER_QueryImageFormats,
        VA_DRIVER_CreateImage,
        VA_DRIVER_GetImage,
        VA_DRIVER_Decode,
    };
    // While it opens, each of them has hung, and these.
    static const int hung[] = {
        VA_DRIVER_Init,           VA_DRIVER_Terminate,
        VA_DRIVER_DestroyContext, VA_DRIVER_DestroySurfaces,
        VA_DRIVER_DestroyImage,   VA_DRIVER_SyncSurface,
        VA_DRIVER_PutImage,       VA_DRIVER_Process,
    };

    for (size_t i = 0; i < sizeof(used) / sizeof(*used); i++)
        CHECK((f.hit[used[i]] && f.open_hung[used[i]]) || !f.all,
              "%s was never failed, or never hung", calls[used[i]]);
    for (size_t i = 0; i < sizeof(hung) / sizeof(*hung); i++)
        CHECK(f.open_hung[hung[i]] || !f.all, "%s never hung", calls[hung[i]]);
    CHECK(!f.all || f.cases >= 2000, "%d cases", f.cases);
    printf("\n  %d cases ", f.cases);
    test_fewer(f.tried, f.all_tries,
               "ways to fail a call, all with ./dev test --long");
}

int main(int argc, char **argv)
{
    if (!vaapi_init())
        return TEST_NOT_RUN;
    f.all = getenv("HEADRACE_TEST_LONG") != NULL;
    // Beside other programs only what never ends is a fault; `./dev test
    // --long` has the machine to itself.
    f.slack = f.all ? 0 : 60000 * TEST_MS;
    return test_main(argc, argv);
}
