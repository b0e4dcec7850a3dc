// SPDX-License-Identifier: Apache-2.0
// The VA-API engine over a driver that is slow: a call takes longer than the
// device may, and comes back after all. Until then the CPU does the work, once;
// then the device does it again, with the display that it has if nothing fails.
// Faults are let go by the test, so that no clock decides but the deadline.
#include "backends/vaapi/vaapi.h"
#include "scene.h"
#include "vaapi_env.h"

enum { N = 6, DEADLINE_MS = TEST_SANITIZED ? 1500 : 400 };

static struct {
    struct scene scene;
    int made;  // of its samples, by the device: one is progressive
    int depth;
    atomic_int left, back, behind, down;
    char label[120];
    unsigned why;
} t;

// ---- The device ------------------------------------------------------------

static void on_log(void *ctx, enum hr_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    atomic_fetch_add(&t.left, strstr(text, "does not answer, nothing") != NULL);
    atomic_fetch_add(&t.back, strstr(text, "answers again") != NULL);
    atomic_fetch_add(&t.behind, strstr(text, "left behind") != NULL);
}

// 1: down, 2: left behind.
static void on_closed(void *ctx, bool left_behind)
{
    (void)ctx;
    atomic_store(&t.down, left_behind ? 2 : 1);
}

static void open_scene(const char *personality, void *display)
{
    struct hr_device_params p = {.threads = 1,
                                 .deadline_ns = DEADLINE_MS * TEST_MS,
                                 .depth = t.depth,
                                 .va_display = display,
                                 .log = on_log,
                                 .on_closed = on_closed};
    hr_device dev = NULL;

    vaapi_driver("default,reset,personality=%s", personality);
    // A busy machine may be late for so short a deadline.
    for (int i = 0; i < 4 && !dev; i++)
        dev = vaapi_open_with(&p);
    if (!dev) {
        fprintf(stderr, "%s: %s\n", t.label, hr_last_error());
        exit(1);
    }
    scene_init(&t.scene, dev, N, SCENE_BYTES);
    t.made = strcmp(personality, "mesa22") ? N - 1 : N - 2;
    vaapi_driver("reset");
    t.left = t.back = t.behind = t.down = 0;
}

// Closes the device and returns its end: 1 or 2, see on_closed().
static int close_device(void)
{
    hr_device dev = t.scene.dev;
    int64_t start = hr__now();

    scene_finish(&t.scene);
    atomic_store(&t.down, 0);
    hr_device_close(&dev);
    // The last job may hold it for a moment.
    CHECK(test_reaches(&t.down, 1), "%s: not closed", t.label);
    CHECK((hr__now() - start) / TEST_MS <= DEADLINE_MS + 1000,
          "%s: close took %d ms", t.label,
          (int)((hr__now() - start) / TEST_MS));
    return atomic_load(&t.down);
}

static void close_scene(void)
{
    CHECK(close_device() == 1 && !t.behind, "%s: left behind", t.label);
    vaapi_check_empty(t.label);
}

// ---- Steps of a case -------------------------------------------------------

// One job; how many of its samples the device made. All are right.
static int run(void)
{
    struct watched w;
    int by_device = 0;

    scene_fill(&t.scene);
    if (!watch_submit(&w, &t.scene, hr_job_params(.tier = HR_EXACT))) {
        CHECK(false, "%s: refused: %s", t.label, hr_last_error());
        return 0;
    }
    CHECK(watch_wait(&w) == HR_OK, "%s: %s", t.label,
          w.job->results[0].message);
    t.why = 0;
    for (int i = 0; i < N; i++) {
        const struct hr_result *r = &w.job->results[i];

        CHECK(!r->status && scene_right(&t.scene, i), "%s: sample %d: %s",
              t.label, i, r->status ? r->message : "wrong pixels");
        t.why |= r->why;
        by_device += r->num_spans && !strncmp(r->spans[0].device, "vaapi", 5);
    }
    watch_finish(&w);
    return by_device;
}

// A job over that fault, after which the device is left alone.
static void slow_job(const char *fault)
{
    int left = atomic_load(&t.left);

    vaapi_driver("fault=%s", fault);
    run();
    // (Surfaces are given back when the job may have ended.)
    CHECK(test_reaches(&t.left, left + 1), "%s: no report that it is left",
          t.label);
    CHECK(vaapi_counters().faults > 0, "%s: no such call", t.label);
    CHECK(run() == 0 && t.why & HR_WHY_LOST, "%s: why %#x", t.label, t.why);
}

static void let_go(void)
{
    int back = atomic_load(&t.back);

    vaapi_driver("release");
    CHECK(test_reaches(&t.back, back + 1), "%s: it does not come back",
          t.label);
}

// The device makes all of it, after a rest if it has earned one.
static void check_works(void)
{
    int made = run();

    for (int i = 0; i < 100 && made < t.made; i++) {
        test_sleep(100 * TEST_MS);
        made = run();
    }
    CHECK(made == t.made, "%s: %d made, why %#x", t.label, made, t.why);
    CHECK(t.left == t.back, "%s: left %d times, back %d times", t.label,
          (int)t.left, (int)t.back);
}

static void check_opened(int times)
{
    CHECK(vaapi_counters().calls[VA_DRIVER_Init] == times &&
              vaapi_counters().displays == 1,
          "%s: opened %ld times, %ld displays", t.label,
          vaapi_counters().calls[VA_DRIVER_Init], vaapi_counters().displays);
}

// ---- Slow, and that was all ------------------------------------------------

static void slow_case(const char *personality, const char *call)
{
    char fault[48];

    snprintf(t.label, sizeof(t.label), "%s, %s is slow", personality, call);
    snprintf(fault, sizeof(fault), "%s:wait:1", call);
    open_scene(personality, NULL);
    slow_job(fault);
    let_go();
    check_works();
    check_opened(0);
    close_scene();
}

TEST_CASE(slow_calls)
{
    static const char *const sites[] = {
        "CreateSurfaces",    "CreateContext", "CreateBuffer",  "BeginPicture",
        "RenderPicture",     "EndPicture",    "DestroyBuffer", "SyncSurface2",
        "QuerySurfaceError", "CreateImage",   "GetImage",      "MapBuffer",
        "UnmapBuffer",
    };

    enum { SITES = sizeof(sites) / sizeof(*sites) };

    // (The test of a device makes what is then there, and is kept.)
    open_scene("ihd", NULL);
    close_scene();
    for (int i = 0; i < test_loops(SITES); i++)
        slow_case("ihd", sites[(test_seed + (unsigned)i) % SITES]);
    // One call at a time: the other thread waits outside, and is late, too.
    slow_case("i965", "SyncSurface");
    slow_case("i965", "EndPicture");
    slow_case("plain", "MapBuffer");
    slow_case("mesa22", "GetImage");
}

// Each thread in a call of its own.
TEST_CASE(both_slow)
{
    snprintf(t.label, sizeof(t.label), "both are slow");
    open_scene("ihd", NULL);
    vaapi_driver("fault=SyncSurface2:wait:1");
    slow_job("EndPicture:wait:2");
    CHECK(vaapi_counters().hanging == 2, "%ld hang", vaapi_counters().hanging);
    let_go();
    check_works();
    check_opened(0);
    close_scene();
}

// ---- There was more to it --------------------------------------------------

TEST_CASE(errors)
{
    static const char *const faults[] = {"BeginPicture:hang:1",
                                         "SyncSurface2:hang:1",
                                         "GetImage:hang:1"};

    for (int i = 0; i < 3; i++) {
        snprintf(t.label, sizeof(t.label), "an error: %s", faults[i]);
        open_scene("ihd", NULL);
        slow_job(faults[i]);
        let_go();
        check_works();
        check_opened(1);
        close_scene();
    }
}

// The caller's display cannot be opened anew; what is made on it can.
TEST_CASE(own_display)
{
    struct vaapi_own own;

    vaapi_driver("default,reset,personality=ihd");
    if (!vaapi_own_open(&own))
        return;
    vaapi_own_init(&own);
    for (int error = 0; error < 2; error++) {
        snprintf(t.label, sizeof(t.label), "own display, %s",
                 error ? "an error" : "slow");
        open_scene("ihd", own.display);
        slow_job(error ? "EndPicture:hang:1" : "EndPicture:wait:1");
        let_go();
        check_works();
        check_opened(0);
        CHECK((vaapi_counters().calls[VA_DRIVER_CreateConfig] > 0) == error,
              "%s: made anew %ld times", t.label,
              vaapi_counters().calls[VA_DRIVER_CreateConfig]);
        CHECK(close_device() == 1, "%s: left behind", t.label);
    }
    vaapi_own_close(&own);
    vaapi_check_empty(t.label);
}

// By a call that the waiter was late during; else it could never be closed.
TEST_CASE(sent_too_late)
{
    snprintf(t.label, sizeof(t.label), "sent while the waiter is late");
    open_scene("ihd", NULL);
    vaapi_driver("fault=EndPicture:sleep%d:1+", DEADLINE_MS * 7 / 10);
    slow_job("SyncSurface2:wait:1");
    CHECK(close_device() == 2, "%s: not left behind", t.label);
    vaapi_driver("release");
    vaapi_check_empty(t.label);
}

// ---- While it is closed ----------------------------------------------------

static void *release_soon(void *arg)
{
    test_sleep(50 * TEST_MS);
    vaapi_driver("release");
    return arg;
}

// In time: nothing is left.
TEST_CASE(back_in_close)
{
    static const char *const faults[] = {"EndPicture:wait:1",
                                         "SyncSurface2:wait:1",
                                         "GetImage:hang:1"};

    for (int i = 0; i < 3; i++) {
        pthread_t thread;

        snprintf(t.label, sizeof(t.label), "closed, and then %s", faults[i]);
        open_scene("ihd", NULL);
        slow_job(faults[i]);
        if (pthread_create(&thread, NULL, release_soon, NULL))
            abort();
        close_scene();
        pthread_join(thread, NULL);
    }
}

// Too late: it is left behind, and cleans up behind itself.
TEST_CASE(back_after_close)
{
    static const char *const faults[] = {"EndPicture:wait:1",
                                         "SyncSurface2:wait:1",
                                         "UnmapBuffer:wait:1"};

    for (int i = 0; i < 3; i++) {
        snprintf(t.label, sizeof(t.label), "closed before %s", faults[i]);
        open_scene("ihd", NULL);
        slow_job(faults[i]);
        CHECK(close_device() == 2 && t.behind == 1, "%s: not left behind",
              t.label);
        vaapi_driver("release");
        vaapi_check_empty(t.label);
        CHECK(!t.back, "%s: it has reported that it is back", t.label);
    }
}

static long all_calls(void)
{
    struct va_driver_counters c = vaapi_counters();
    long n = 0;

    for (int i = 0; i < VA_DRIVER_NUM_CALLS; i++)
        n += c.calls[i];
    return n;
}

// A display that is the caller's may be gone then: it is not touched.
TEST_CASE(own_after_close)
{
    static const char *const faults[] = {"DestroyBuffer:hang:5",
                                         "SyncSurface2:hang:1",
                                         "UnmapBuffer:hang:2",
                                         // The other thread waits for it.
                                         "DeriveImage:hang:1"};
    struct vaapi_own own;
    long before;

    for (int i = 0; i < 4; i++) {
        const char *personality = i < 3 ? "ihd" : "i965";

        t.depth = i < 3 ? 0 : 1;
        vaapi_driver("default,reset,personality=%s", personality);
        if (!vaapi_own_open(&own))
            return;
        vaapi_own_init(&own);
        snprintf(t.label, sizeof(t.label), "own display, closed before %s",
                 faults[i]);
        open_scene(personality, own.display);
        slow_job(faults[i]);
        CHECK(close_device() == 2, "%s: not left behind", t.label);
        before = all_calls();
        vaapi_driver("release");
        test_sleep(100 * TEST_MS);
        CHECK(all_calls() == before, "%s: %ld calls", t.label,
              all_calls() - before);
        vaapi_own_close(&own);
        vaapi_driver("reset");
        vaapi_forget_left();
    }
    t.depth = 0;
}

TEST_MAIN(vaapi_main)
