// SPDX-License-Identifier: Apache-2.0
// The OpenCL engine over a driver that hangs in a call, or never calls back:
// the CPU makes what it holds, closing is bounded, and when it goes on after
// all it meets only memory of its own. HEADRACE_TEST_LONG=1: every call, and
// hangs while opening.
#include "opencl_faults.h"

enum { N = FAULTS_SAMPLES, MAX_HUNG = 512 };

struct hung {
    hr_device dev;
    char label[160];
    pthread_t thread;
    int64_t begin, took;
    atomic_bool left;  // the engine has said that it gave the driver up
};
static struct hung hung[MAX_HUNG];
static int num_hung;

static void on_log(void *ctx, enum hr_log_level level, const char *text)
{
    struct hung *h = ctx;

    if (level == HR_LOG_ERROR && strstr(text, "left behind"))
        atomic_store(&h->left, true);
}

static void *close_hung(void *arg)
{
    struct hung *h = arg;

    h->begin = hr__now();
    hr_device_close(&h->dev);
    // Its last job may hold it for a moment longer.
    while (!atomic_load(&h->left) && hr__now() - h->begin < 8 * SECOND)
        test_sleep(5 * TEST_MS);
    h->took = hr__now() - h->begin;
    return NULL;
}

static struct hung *open_hung(int64_t deadline, enum scene_source source)
{
    struct hung *h = &hung[num_hung];

    if (num_hung == MAX_HUNG)
        abort();
    faults_calm();
    h->dev = hr_device_open(
        "opencl", hr_device_params(.threads = 2, .deadline_ns = deadline,
                                   .log = on_log, .log_ctx = h));
    CHECK(h->dev, "open: %s", hr_last_error());
    if (h->dev)
        scene_init(&faults.scene, h->dev, N, source);
    return h->dev ? h : NULL;
}

// On a thread: each takes two seconds.
static void close_later(struct hung *h)
{
    scene_finish(&faults.scene);
    num_hung++;
    if (pthread_create(&h->thread, NULL, close_hung, h))
        abort();
}

// Two jobs over a driver that hangs.
static void work_hung(struct hung *h, const struct fault_rule *r)
{
    snprintf(faults.label, sizeof(faults.label), "%s, call %d, hangs (%d)",
             faults_names[r->entry], r->first, r->action);
    snprintf(h->label, sizeof(h->label), "%s", faults.label);
    faults.ctl.set(r, 1);
    faults_run(3 * SECOND);
    faults_run(3 * SECOND);
    if (!faults_hit(r->entry)) {
        scene_finish(&faults.scene);
        hr_device_close(&h->dev);
        return;
    }
    close_later(h);
}

// All closed in time; and when the driver goes on after all, nothing breaks.
static void end_hung(void)
{
    int64_t longest = 0;
    int live;

    for (int i = 0; i < num_hung; i++) {
        pthread_join(hung[i].thread, NULL);
        longest = hung[i].took > longest ? hung[i].took : longest;
        CHECK(hung[i].took < 4 * SECOND, "%s: closing took %.1f s",
              hung[i].label, (double)hung[i].took / 1e9);
    }
    faults_calm();
    faults.ctl.release();
    test_sleep(300 * TEST_MS);
    live = faults_now().live;
    hung[num_hung = 0].dev = faults_open_scene(0, SCENE_MIXED);
    snprintf(faults.label, sizeof(faults.label), "after the hangs");
    CHECK(faults_run(5 * SECOND) > 0, "the device made nothing");
    faults_close(&hung[0].dev, live);
    memset(hung, 0, sizeof(hung));
    printf("\n  %d cases so far; closed in %.1f s at most ", faults.cases,
           (double)longest / 1e9);
}

static void hang_entry(int entry, int calls, enum fault_action action)
{
    for (int call = 1; call <= (faults.all ? calls : 1); call++) {
        struct fault_rule r = faults_rule(entry,
                                          faults.all ? call : (calls + 1) / 2,
                                          false, action, 0);
        struct hung *h = open_hung(100 * TEST_MS, SCENE_MIXED);

        if (h)
            work_hung(h, &r);
    }
}

TEST_CASE(job_hangs)
{
    struct fault_counts c[2];
    hr_device dev;

    for (int d = 0; d < 2; d++) {
        int live = faults_now().live;

        faults.ctl.discrete(d);
        dev = faults_open_scene(0, SCENE_MIXED);
        faults_count(&c[d]);
        faults_close(&dev, live);
    }
    for (int entry = 0; entry < FAULT_ENTRIES; entry++)
        for (int d = 0; d < 2; d++) {
            if (!c[d].calls[entry] || (!faults.all && d && c[0].calls[entry]))
                continue;
            faults.ctl.discrete(d);
            hang_entry(entry, c[d].calls[entry], FAULT_HANG);
            if (faults.all || entry % 2)
                hang_entry(entry, c[d].calls[entry], FAULT_HANG_AFTER);
        }
    faults.ctl.discrete(false);
    end_hung();
}

// The driver hangs in the last launch of a batch with codes, in what precedes
// it, or after it.
TEST_CASE(codes_hangs)
{
    static const int entries[] = {FAULT_clSetKernelArg,
                                  FAULT_clEnqueueNDRangeKernel};
    struct fault_counts c;
    int live = faults_now().live;
    hr_device dev;

    setenv("HEADRACE_OPENCL_AUGMENT", "device", 1);
    dev = faults_open_scene(0, SCENE_CODES);
    CHECK(faults_run(60 * SECOND) > 0 && !(faults.why & HR_WHY_AUGMENT),
          "why %#x", faults.why);
    faults_count(&c);
    faults_close(&dev, live);
    for (int i = 0; i < 2 * COUNT(entries); i++) {
        int entry = entries[i / 2];
        struct fault_rule r = faults_rule(entry, c.calls[entry], false,
                                          i % 2 ? FAULT_HANG_AFTER : FAULT_HANG,
                                          0);
        struct hung *h = open_hung(100 * TEST_MS, SCENE_CODES);

        if (h)
            work_hung(h, &r);
    }
    unsetenv("HEADRACE_OPENCL_AUGMENT");
    end_hung();
}

// Callbacks that come late, or never: once, and for every batch.
TEST_CASE(lost_callbacks)
{
    for (int i = 0; i < 4; i++) {
        struct fault_rule r = faults_rule(FAULT_clSetEventCallback, 1, i % 2,
                                          i / 2 ? FAULT_SILENT : FAULT_LATE, 0);
        struct hung *h = open_hung(100 * TEST_MS, SCENE_MIXED);

        if (h)
            work_hung(h, &r);
    }
    end_hung();
}

// It hangs when it is opened again, or when a new program is completed.
TEST_CASE(reopen_hangs)
{
    static const int entries[] = {FAULT_clCreateContext, FAULT_clReleaseContext,
                                  FAULT_clBuildProgram, FAULT_clFinish,
                                  FAULT_clEnqueueMapBuffer};
    struct fault_rule r;
    struct hung *h;

    for (int i = 0; i < COUNT(entries); i++) {
        if (!(h = open_hung(300 * TEST_MS, SCENE_IMAGE)))
            continue;
        faults_set(FAULT_clEnqueueNDRangeKernel, 1, false, CL_OUT_OF_RESOURCES);
        faults_run(5 * SECOND);
        r = faults_rule(entries[i], 1, false, FAULT_HANG, 0);
        work_hung(h, &r);
    }
    end_hung();
}

// Keeping a new program is the one thing done after the open that may take
// long: the samples do not wait for it, and closing does so for 15 s.
TEST_CASE(completion_hangs)
{
    struct fault_rule r = faults_rule(FAULT_clGetProgramInfo, 1, false,
                                      FAULT_HANG, 0);
    int64_t begin;
    int live = faults_now().live;
    hr_device dev;

    faults_new_cache();
    faults.ctl.set(&r, 1);
    dev = faults_open(100 * TEST_MS);
    faults_cache("cache");
    if (!dev) {
        // It was to be tried before it is used, and that could not wait.
        CHECK(strstr(hr_last_error(), "answer"), "open: %s", hr_last_error());
        faults_hit(r.entry);
        faults.ctl.release();
        faults_check_objects(live);
        return;
    }
    while (!faults_now().hung)
        test_sleep(TEST_MS);
    scene_init(&faults.scene, dev, N, SCENE_MIXED);
    snprintf(faults.label, sizeof(faults.label),
             "a new program that is never complete");
    for (int i = 0; i < 3; i++)
        faults_run(3 * SECOND);
    faults_hit(r.entry);
    if (!faults.all) {
        faults.ctl.release();
        faults_close(&dev, live);
        return;
    }
    scene_finish(&faults.scene);
    begin = hr__now();
    hr_device_close(&dev);
    CHECK(hr__now() - begin < 20 * SECOND, "closing took %.1f s",
          (double)(hr__now() - begin) / 1e9);
    faults.ctl.release();
}

// ---- The process ends ------------------------------------------------------

static void *release_later(void *arg)
{
    test_sleep(200 * TEST_MS);
    faults.ctl.release();
    return arg;
}

// In exit(), where the driver's library ends its static objects.
static void say_where(void)
{
    printf("at its end: %s\n",
           faults_now().hung ? "in the driver" : "out of the driver");
    fflush(stdout);
}

// A program ends while the driver compiles what is to be kept. released: the
// driver comes back; else it is given up.
static void end_in_driver(bool released)
{
    hr_device dev = NULL;
    pthread_t thread;

    faults_new_cache();
    atexit(say_where);
    if (!(dev = faults_open(0)))
        abort();
    faults_hang_program(dev);
    if (released && pthread_create(&thread, NULL, release_later, NULL))
        abort();
    exit(0);
}

// Checks what that program says.
static void run_to_end(const char *how, const char *says)
{
    int64_t begin = hr__now();
    char line[256], path[256];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    bool said = false;
    FILE *f;
    int rc;

    path[n > 0 ? n : 0] = '\0';
    setenv("TEST_ENDS", how, 1);
    setenv("TEST_ITSELF", path, 1);
    f = popen("\"$TEST_ITSELF\" process_ends", "r");
    unsetenv("TEST_ENDS");
    if (!f)
        abort();
    while (fgets(line, sizeof(line), f))
        said |= strstr(line, says) != NULL;
    rc = pclose(f);
    CHECK(!rc && said, "%s: status %#x, it does not say \"%s\"", how, rc, says);
    CHECK(hr__now() - begin < 60 * SECOND, "%s: it took %.1f s", how,
          (double)(hr__now() - begin) / 1e9);
}

TEST_CASE(process_ends)
{
    const char *how = getenv("TEST_ENDS");

    if (how)
        end_in_driver(!strcmp(how, "released"));
    run_to_end("released", "out of the driver");
    run_to_end("hangs", "in the driver");
}

// ---- Opening and listing ---------------------------------------------------

// Opening and listing give a driver up, too: after the default deadline, and
// after 10 s.
static void *open_for_ever(void *arg)
{
    struct hung *h = arg;

    h->begin = hr__now();
    h->dev = hr_device_open("opencl", NULL);
    h->took = hr__now() - h->begin;
    CHECK(!h->dev && hr_last_status() == HR_EDEVICE &&
              strstr(hr_last_error(), "did not answer"),
          "%s: %s", h->label, hr_last_error());
    return NULL;
}

static void list_for_ever(void)
{
    struct fault_rule r = faults_rule(FAULT_clGetPlatformIDs, 1, false,
                                      FAULT_HANG, 0);
    struct hr_device_info infos[8];
    int64_t begin = hr__now();
    bool said = false;
    int n;

    faults.ctl.set(&r, 1);
    n = hr_device_list(infos, COUNT(infos));
    for (int i = 0; i < n && i < COUNT(infos); i++)
        said |= !infos[i].available && strstr(infos[i].reason, "answer");
    CHECK(said, "a driver that hangs is listed");
    CHECK(hr__now() - begin < 13 * SECOND, "listing took %.1f s",
          (double)(hr__now() - begin) / 1e9);
    faults_hit(r.entry);
}

TEST_CASE(open_hangs)
{
    static const int entries[] = {FAULT_clGetPlatformIDs, FAULT_clGetDeviceInfo,
                                  FAULT_clCreateContext, FAULT_clBuildProgram,
                                  FAULT_clFinish};

    if (!faults.all)
        return test_not_run("hangs while opening and listing: "
                            "HEADRACE_TEST_LONG=1");
    for (int i = 0; i < COUNT(entries); i++) {
        struct fault_rule r = faults_rule(entries[i], 1, false, FAULT_HANG, 0);
        struct hung *h = &hung[i];

        snprintf(h->label, sizeof(h->label), "%s hangs",
                 faults_names[entries[i]]);
        faults.ctl.set(&r, 1);
        if (pthread_create(&h->thread, NULL, open_for_ever, h))
            abort();
        while (faults_now().hung <= i)
            test_sleep(TEST_MS);
        faults_hit(entries[i]);
    }
    list_for_ever();
    for (int i = 0; i < COUNT(entries); i++) {
        pthread_join(hung[i].thread, NULL);
        CHECK(hung[i].took < 15 * SECOND, "%s: opening took %.1f s",
              hung[i].label, (double)hung[i].took / 1e9);
    }
    end_hung();
}

FAULTS_MAIN
