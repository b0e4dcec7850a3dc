// SPDX-License-Identifier: Apache-2.0
// Surfaces that OpenCL's driver shares with VA-API's, while one of them fails
// or does not answer: the next rung makes the right pixels; images, contexts,
// surfaces and the display go in their order.
#include "backends/vaapi/vaapi.h"
#include "hal/job/work.h"
#include "share_env.h"

enum {
    MANY = 48,
    DEADLINE_MS = IMPORTS_DEADLINE_MS,
    SLOW_MS = TEST_SANITIZED ? 4000 : 1500
};

// ---- Failures --------------------------------------------------------------

static const enum fault_entry entries[] = {
    FAULT_clCreateFromVA_APIMediaSurfaceINTEL,
    FAULT_clEnqueueCopyImageToBuffer,
    FAULT_clEnqueueAcquireVA_APIMediaSurfacesINTEL,
    FAULT_clEnqueueReleaseVA_APIMediaSurfacesINTEL,
};

TEST_CASE(failing_calls)
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
        share_new_scene(flat ? share_linear : share_tiled, i / 32);
        imports.ctl.set(&r, 1);
        share_run_together(3);
        CHECK(share_falls(imports.scene.dev) == 1 && imports_now().hits > 0,
              "%s: %d falls, %d hits", imports.label,
              share_falls(imports.scene.dev), imports_now().hits);
        imports.ctl.set(NULL, 0);
        share_check_next(share_got);
        imports_close_scene(fds);
    }
}

static struct {
    pthread_mutex_t lock;
    char text[400];
} said = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void on_log(void *ctx, enum hr_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    pthread_mutex_lock(&said.lock);
    if (strstr(text, "surfaces are not imported"))
        snprintf(said.text, sizeof(said.text), "%s", text);
    pthread_mutex_unlock(&said.lock);
}

// A copy fails, and then the call that gives its surfaces back, which comes in
// any case: why surfaces are not shared any more is the first one's error.
TEST_CASE(first_error)
{
    const struct fault_rule rules[] = {
        {FAULT_clEnqueueCopyImageToBuffer, 1, 1, FAULT_FAIL,
         CL_OUT_OF_HOST_MEMORY},
        {FAULT_clEnqueueReleaseVA_APIMediaSurfacesINTEL, 1, 1, FAULT_FAIL,
         CL_INVALID_COMMAND_QUEUE},
    };
    int fds = imports_fds();
    hr_device dev;

    snprintf(imports.label, sizeof(imports.label), "two errors");
    share_set_up(share_tiled, FAULT_SHARES, false);
    dev = hr_device_open("vaapi+opencl:pocl",
                         hr_device_params(.threads = 2,
                                          .deadline_ns = 10000 * TEST_MS,
                                          .log = on_log));
    CHECK(dev != NULL, "%s", hr_last_error());
    if (!dev)
        return;
    scene_init(&imports.scene, dev, IMPORTS_N, SCENE_BYTES);
    imports.ctl.set(rules, 2);
    share_run_together(2);
    CHECK(imports_now().hits == 2, "%d hits", imports_now().hits);
    imports.ctl.set(NULL, 0);
    pthread_mutex_lock(&said.lock);
    CHECK(strstr(said.text, ": clEnqueueCopyImageToBuffer: "
                            "CL_OUT_OF_HOST_MEMORY") != NULL,
          "it says: %s", said.text);
    pthread_mutex_unlock(&said.lock);
    imports_close_scene(fds);
}

// While the device is opened: it opens all the same.
TEST_CASE(failing_opens)
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
        share_set_up(i % 2 ? share_linear : share_tiled,
                     FAULT_SHARES | FAULT_SHARES_NV12, false);
        imports.ctl.set(&r, 1);
        imports_open_scene(IMPORTS_N);
        share_check_top(imports.scene.dev, share_got);
        CHECK(imports_now().hits == 1, "%s: %d hits", imports.label,
              imports_now().hits);
        share_run_together(3);
        imports_close_scene(fds);
    }
}

// The media driver fails for OpenCL's: its surfaces, or their pixels.
TEST_CASE(failing_media)
{
    static const char *const faults[] = {"fault=ExportSurfaceHandle:0x06:1",
                                         "fault=ExportSurfaceHandle:0x06:2",
                                         "fault=CreateImage:0x02:always",
                                         "fault=GetImage:0x01:always"};
    int fds = imports_fds();

    for (int i = 0; i < 4; i++) {
        snprintf(imports.label, sizeof(imports.label), "%s", faults[i]);
        // (Surfaces that are not shared give images, too; linear ones can be
        // mapped instead.)
        share_new_scene(i < 2 ? share_tiled : share_linear, i % 2);
        vaapi_driver("%s", faults[i]);
        share_run_together(3);
        CHECK(vaapi_counters().faults > 0 &&
                  share_falls(imports.scene.dev) == 1,
              "%s: %ld faults, %d falls", imports.label,
              vaapi_counters().faults, share_falls(imports.scene.dev));
        vaapi_driver("fault=none");
        imports_close_scene(fds);
    }
}

// A display that was lost is another one afterwards, which OpenCL's context
// does not know; the old one stays open until that is closed.
TEST_CASE(lost_display)
{
    int fds = imports_fds();

    for (int i = 0; i < 2; i++) {
        snprintf(imports.label, sizeof(imports.label), "lost, %s",
                 i ? "linear" : "tiled");
        share_new_scene(i ? share_linear : share_tiled, false);
        share_run_together(2);
        vaapi_driver("fault=BeginPicture:0x22:1");
        imports_run(20000);
        share_run_together(3);
        CHECK(vaapi_counters().displays == 2, "%s: %ld displays", imports.label,
              vaapi_counters().displays);
        CHECK(share_falls(imports.scene.dev) == 1, "%s: %d falls",
              imports.label, share_falls(imports.scene.dev));
        share_check_next(share_got);
        imports_close_scene(fds);
    }
}

// A display that OpenCL's driver does not have need not stay, and no way past
// the host has failed.
TEST_CASE(lost_alone)
{
    int fds = imports_fds();

    snprintf(imports.label, sizeof(imports.label), "lost, not shared");
    share_set_up(share_linear, 0, false);
    imports_open_scene(IMPORTS_N);
    share_check_top(imports.scene.dev, share_got);
    share_run_together(2);
    vaapi_driver("fault=BeginPicture:0x22:1");
    imports_run(20000);
    share_run_together(3);
    CHECK(vaapi_counters().displays == 1, "%s: %ld displays", imports.label,
          vaapi_counters().displays);
    CHECK(!share_falls(imports.scene.dev), "%s: %d falls", imports.label,
          share_falls(imports.scene.dev));
    imports_close_scene(fds);
}

// OpenCL's context is lost, and the next one knows the display again.
TEST_CASE(lost_context)
{
    struct fault_rule r = {.entry = FAULT_clFlush,
                           .first = 1,
                           .last = 1,
                           .action = FAULT_FAIL,
                           .code = CL_DEVICE_NOT_AVAILABLE};
    int fds = imports_fds(), before;

    snprintf(imports.label, sizeof(imports.label), "lost context");
    share_new_scene(share_tiled, false);
    share_run_together(2);
    imports.ctl.set(&r, 1);
    imports_run(20000);
    imports.ctl.set(NULL, 0);
    share_run_together(2);
    before = imports_now().filled;
    share_run_together(1);
    CHECK(imports_now().filled > before, "%s: not shared again", imports.label);
    CHECK(!share_falls(imports.scene.dev), "%s: %d falls", imports.label,
          share_falls(imports.scene.dev));
    imports_close_scene(fds);
}

// ---- A driver that is slow -------------------------------------------------

// The guard looks at the clock after the HAL does.
static void wait_until_left(void)
{
    struct va *va = va_of(((struct hr__device *)imports.scene.dev)->engines[0]);
    bool left = false;

    for (int i = 0; i < 2000 && !left; i++) {
        left = va->guard.dead;
        if (!left)
            test_sleep(10 * TEST_MS);
    }
    CHECK(left, "%s: not left alone", imports.label);
}

// A call that was only slow leaves the display as it is: OpenCL's driver knows
// it, and goes on reading its surfaces. One that comes back with an error costs
// that.
TEST_CASE(slow_call)
{
    int fds = imports_fds();

    for (int error = 0; error < 2; error++) {
        uint64_t shared;
        int made = 0;

        snprintf(imports.label, sizeof(imports.label), "slow, %s",
                 error ? "and then an error" : "that was all");
        share_set_up(share_tiled, FAULT_SHARES, false);
        imports.deadline_ms = SLOW_MS;
        imports_open_scene(IMPORTS_N);
        vaapi_driver("fault=EndPicture:%s:1", error ? "hang" : "wait");
        imports_run(20000);
        wait_until_left();
        vaapi_driver("release");
        // A busy machine may be late for so short a deadline.
        for (int i = 0; i < 100 && made < IMPORTS_MADE; i++) {
            made = imports_run(20000);
            if (made < IMPORTS_MADE)
                test_sleep(100 * TEST_MS);
        }
        CHECK(made == IMPORTS_MADE, "%s: %d made", imports.label, made);
        CHECK(vaapi_counters().displays == 1 + error &&
                  share_falls(imports.scene.dev) == error,
              "%s: %ld displays, %d falls", imports.label,
              vaapi_counters().displays, share_falls(imports.scene.dev));
        shared = share_samples_by(imports.scene.dev, share_shared);
        share_run_together(1);
        CHECK((share_samples_by(imports.scene.dev, share_shared) > shared) ==
                  !error,
              "%s: shared or not", imports.label);
        imports_close_scene(fds);
    }
}

static void *release_later(void *ns)
{
    test_sleep(*(int64_t *)ns);
    imports.ctl.release();
    return NULL;
}

// A device whose driver completes its program until it is let go. (Not while it
// is tested, which would take long enough on some machines.)
static hr_device open_completing(void)
{
    struct fault_rule r = {.entry = FAULT_clGetProgramInfo,
                           .first = 1,
                           .last = 1,
                           .action = FAULT_HANG};
    hr_device dev;

    share_set_up(share_tiled, FAULT_SHARES, false);
    imports.deadline_ms = SLOW_MS;
    vaapi_new_cache();
    setenv("HEADRACE_CERTIFICATE", "off", 1);
    dev = imports_open();
    unsetenv("HEADRACE_CERTIFICATE");
    imports.ctl.set(&r, 1);
    for (int i = 0; i < 6000 && !imports_now().hung; i++)
        test_sleep(10 * TEST_MS);
    CHECK(imports_now().hung, "it does not keep its program");
    return dev;
}

// OpenCL's driver completes its program, and meanwhile holds all the surfaces
// that there are. Samples that only both engines may make, together, wait for
// that in either queue.
TEST_CASE(completing)
{
    static const struct hr_op ops[] = {hr_op_decode(0),
                                       hr_op_resize(.w = 40, .h = 30)};
    int64_t later = 3 * SLOW_MS * TEST_MS;
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg_of(YCC(.factors = {0x22}), &seed);
    int fds = imports_fds(), together = 0;
    struct hr_sample s[MANY];
    pthread_t thread;
    hr_device dev;
    hr_batch out;
    hr_job job;

    snprintf(imports.label, sizeof(imports.label), "completing");
    dev = open_completing();
    out = hr_batch_create(dev,
                          hr_batch_params(.n = MANY, .c = 3, .h = 30, .w = 40));
    for (int i = 0; i < MANY; i++)
        s[i] = test_sample(&b, ops, 2);
    job = hr_submit(dev, s, MANY, out, hr_job_params(.strict = true));
    if (pthread_create(&thread, NULL, release_later, &later))
        abort();
    CHECK(hr_job_wait(job, 60000 * TEST_MS) == HR_OK, "%s", "a sample failed");
    for (int i = 0; i < MANY; i++) {
        CHECK(!job->results[i].status, "%s", job->results[i].message);
        together += job->results[i].num_spans == 2;
    }
    CHECK(together == MANY, "%d of %d by both engines", together, MANY);
    pthread_join(thread, NULL);
    hr_job_release(&job);
    hr_batch_destroy(&out);
    imports.ctl.set(NULL, 0);
    imports_close(&dev, fds);
}

// ---- A driver that does not answer -----------------------------------------

// Batches do not come back, and neither do their surfaces, until they do.
TEST_CASE(late_batches)
{
    int fds = imports_fds();

    struct fault_rule r = {.entry = FAULT_clSetEventCallback,
                           .first = 1,
                           .action = FAULT_LATE};

    for (int ever = 0; ever < 2; ever++) {
        snprintf(imports.label, sizeof(imports.label),
                 ever ? "late batches" : "late batch");
        share_set_up(share_tiled, FAULT_SHARES, false);
        imports.deadline_ms = DEADLINE_MS;
        imports_open_scene(ever ? MANY : IMPORTS_N);
        // (One of two is that of the picture that the CPU has decoded.)
        r.last = ever ? 0 : 2;
        imports_check_late(&r, DEADLINE_MS);
        imports_run(20000);
        imports_close_scene(fds);
    }
}

TEST_CASE(hangs)
{
    test_hung(4);
    for (int i = 0; i < 4; i++) {
        struct fault_rule r = {.entry = entries[i],
                               .first = 1,
                               .last = 1,
                               .action = i % 2 ? FAULT_HANG_AFTER : FAULT_HANG};
        hr_device dev;
        int64_t start;

        snprintf(imports.label, sizeof(imports.label), "entry %d hangs", i);
        share_set_up(share_tiled, FAULT_SHARES, false);
        imports.deadline_ms = DEADLINE_MS;
        imports_open_scene(IMPORTS_N);
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

int main(int argc, char **argv)
{
    if (!imports_init(HR_FAULT_LIBRARY))
        return TEST_NOT_RUN;
    return test_main(argc, argv);
}
