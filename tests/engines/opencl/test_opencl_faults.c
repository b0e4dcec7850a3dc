// SPDX-License-Identifier: Apache-2.0
// The OpenCL engine over a driver that fails: fault_opencl.c is loaded instead
// of libOpenCL and fails every entry point with every code that its reference
// page names, once and for ever, while the device works, opens, opens again.
// Every sample ends once with the CPU's pixels, the device recovers, nothing
// is left in the driver. HEADRACE_TEST_LONG=1: every call with every code.
#include "opencl_faults.h"

#define N FAULTS_SAMPLES
#define ALWAYS CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY

// ---- Failures while it works ----------------------------------------------

// A job under the fault, and one without: that is the device's again. Two
// batches at most: three failures would be one too many.
static void one_failure(int entry, int call, bool ever, cl_int code)
{
    faults_set(entry, call, ever, code);
    faults_run(5 * SECOND);
    CHECK(faults_hit(entry) || call > 1, "%s: not called", faults.label);
    faults_calm();
    CHECK(faults_run(5 * SECOND) > 0, "%s: the device did not recover: %#x",
          faults.label, faults.why);
}

static void fail_entry(int entry, int calls)
{
    int n = faults_num_codes(entry);

    // Every code, then every call.
    for (int i = 0; i < n; i++)
        for (int ever = 0; ever < 2; ever++)
            one_failure(entry, 1 + i % calls, ever, faults_codes[entry][i]);
    for (int call = 1; call <= calls;
         call += faults.all || calls < 6 ? 1 : calls / 5)
        for (int i = 0; i < (faults.all ? n : 1); i++)
            one_failure(entry, call, call % 2,
                        faults_codes[entry][faults.all ? i : call % n]);
}

// Without codes; and with some, which the device does, too.
static void every_failure(bool discrete, enum scene_source source)
{
    int live = faults_now().live;
    struct fault_counts c;
    hr_device dev;

    faults.ctl.discrete(discrete);
    dev = faults_open_scene(0, source);
    faults_count(&c);
    CHECK(!(faults.why & HR_WHY_AUGMENT), "its codes are the CPU's");
    for (int entry = 0; entry < FAULT_ENTRIES; entry++)
        if (c.calls[entry])
            fail_entry(entry, c.calls[entry]);
    faults_close(&dev, live);
    // From some call on, nothing works any more.
    live = faults_now().live;
    dev = faults_open_scene(0, source);
    for (int call = 1; call <= c.calls[FAULT_ANY];
         call += faults.all ? 1 : c.calls[FAULT_ANY] / 20 + 1)
        one_failure(FAULT_ANY, call, true, CL_OUT_OF_RESOURCES);
    faults_close(&dev, live);
}

TEST_CASE(job_failures)
{
    for (int discrete = 0; discrete < 2; discrete++)
        every_failure(discrete, SCENE_MIXED);
    printf("\n  %d cases so far ", faults.cases);
}

TEST_CASE(codes_failures)
{
    setenv("HEADRACE_OPENCL_AUGMENT", "device", 1);
    for (int discrete = 0; discrete < (faults.all ? 2 : 1); discrete++)
        every_failure(discrete, SCENE_CODES);
    unsetenv("HEADRACE_OPENCL_AUGMENT");
    faults.ctl.discrete(false);
    printf("\n  %d cases so far ", faults.cases);
}

// A failed launch names its reason, and the CPU makes the batch.
TEST_CASE(meanings)
{
    static const struct {
        cl_int code;
        unsigned why;
    } known[] = {{CL_OUT_OF_HOST_MEMORY, HR_WHY_FAILED | HR_WHY_MEMORY},
                 {CL_OUT_OF_RESOURCES, HR_WHY_LOST},
                 {CL_INVALID_KERNEL_ARGS, HR_WHY_FAILED}};
    int live = faults_now().live;
    hr_device dev = faults_open_scene(0, SCENE_IMAGE);

    for (int i = 0; i < COUNT(known); i++) {
        faults_set(FAULT_clEnqueueNDRangeKernel, 1, false, known[i].code);
        CHECK(!faults_run(5 * SECOND) && faults.why & known[i].why,
              "%s: why %#x", faults.label, faults.why);
        faults_calm();
        CHECK(faults_run(5 * SECOND) > 0, "%s: did not recover: %#x",
              faults.label, faults.why);
    }
    faults_close(&dev, live);
}

// How a command may end: clGetEventInfo leaves it to the driver.
static const cl_int event_codes[] = {
    ALWAYS,
    CL_MEM_OBJECT_ALLOCATION_FAILURE,
    CL_DEVICE_NOT_AVAILABLE,
    CL_PROFILING_INFO_NOT_AVAILABLE,
    CL_MAP_FAILURE,
    CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
    CL_INVALID_COMMAND_QUEUE,
    -9999};  // what one vendor says of an illegal address

TEST_CASE(event_failures)
{
    int live = faults_now().live;
    hr_device dev;

    faults.ctl.discrete(false);
    dev = faults_open_scene(0, SCENE_MIXED);
    for (int i = 0; i < 2 * COUNT(event_codes); i++) {
        struct fault_rule r = faults_rule(FAULT_clSetEventCallback, 1, i % 2,
                                          FAULT_EVENT, event_codes[i / 2]);

        snprintf(faults.label, sizeof(faults.label), "an event ends with %d",
                 r.code);
        faults.ctl.set(&r, 1);
        faults_run(5 * SECOND);
        faults_hit(FAULT_ANY);
        faults_calm();
        CHECK(faults_run(5 * SECOND) > 0, "%s: the device did not recover: %#x",
              faults.label, faults.why);
    }
    faults_close(&dev, live);
    printf("\n  %d cases so far ", faults.cases);
}

// One map fails while buffers are made: its buffers are released, and the next
// job has its own. Then the same for memory of the caller's.
TEST_CASE(map_failures)
{
    for (int i = 0; i < 12; i++) {
        int live = faults_now().live;
        hr_device dev;
        hr_batch pinned;

        faults.ctl.discrete(i % 2);
        dev = faults_open_scene(0, SCENE_BYTES);
        faults_set(FAULT_clEnqueueMapBuffer, 1 + i / 2, false, CL_MAP_FAILURE);
        faults_run(5 * SECOND);
        CHECK(faults_hit(FAULT_clEnqueueMapBuffer) || i > 1, "%s: not called",
              faults.label);
        faults_calm();
        CHECK(faults_run(5 * SECOND) > 0, "%s: did not recover: %#x",
              faults.label, faults.why);
        faults_set(FAULT_clEnqueueMapBuffer, 1, false, CL_MAP_FAILURE);
        pinned = hr_batch_create(dev,
                                 hr_batch_params(.n = 2, .c = 3, .h = 8, .w = 8,
                                                 .memory = HR_MEMORY_PINNED));
        CHECK(faults_hit(FAULT_clEnqueueMapBuffer), "%s: no map", faults.label);
        faults_calm();
        hr_batch_destroy(&pinned);
        faults_close(&dev, live);
    }
    faults.ctl.discrete(false);
    printf("\n  %d cases so far ", faults.cases);
}

// A driver that does not report times does no harm.
TEST_CASE(times_failures)
{
    int live = faults_now().live, entry = FAULT_clGetEventProfilingInfo;
    hr_device dev;

    faults.ctl.discrete(false);
    hr_profile_times(true);
    dev = faults_open_scene(0, SCENE_MIXED);
    for (int i = 0; i < faults_num_codes(entry); i++) {
        faults_set(entry, 1, true, faults_codes[entry][i]);
        // Times are read when a batch is back, or its memory is used again.
        for (int k = 0; k < 2; k++)
            CHECK(faults_run(5 * SECOND) > 0, "%s: the device made nothing",
                  faults.label);
        test_sleep(20 * TEST_MS);
        CHECK(faults_hit(entry), "%s: not called", faults.label);
        faults_calm();
    }
    faults_close(&dev, live);
    hr_profile_times(false);
}

// The context is lost; then opening it again fails. Images make one batch, so
// that this is the next job's.
static void reopen_once(int entry, int call, bool ever, cl_int code)
{
    faults_set(FAULT_clEnqueueNDRangeKernel, 1, false, CL_OUT_OF_RESOURCES);
    faults_run(5 * SECOND);
    one_failure(entry, call, ever, code);
}

TEST_CASE(reopen_failures)
{
    int live = faults_now().live;
    struct fault_counts c;
    hr_device dev;

    faults.ctl.discrete(false);
    dev = faults_open_scene(0, SCENE_IMAGE);
    faults_set(FAULT_clEnqueueNDRangeKernel, 1, false, CL_OUT_OF_RESOURCES);
    faults_run(5 * SECOND);
    faults_calm();
    faults_run(SECOND);
    c = faults_now();
    for (int entry = 0; entry < FAULT_ENTRIES; entry++)
        for (int i = 0; c.calls[entry] && i < faults_num_codes(entry); i++)
            for (int ever = 0; ever < 2; ever++)
                reopen_once(entry, 1 + i % c.calls[entry], ever,
                            faults_codes[entry][i]);
    faults_close(&dev, live);
    printf("\n  %d cases so far ", faults.cases);
}

// ---- Failures while it opens ----------------------------------------------

// It opens and works, or says why not.
static void open_under_script(int entry, int live)
{
    hr_device dev = faults_open(0);

    if (!dev) {
        CHECK(hr_last_status() == HR_EDEVICE ||
                  hr_last_status() == HR_ENODEVICE,
              "%s: %s", faults.label, hr_status_name(hr_last_status()));
        CHECK(strlen(hr_last_error()) > 10, "%s: '%s'", faults.label,
              hr_last_error());
        faults_check_objects(live);
        faults_hit(entry);
        return;
    }
    scene_init(&faults.scene, dev, N, SCENE_MIXED);
    faults_run(5 * SECOND);
    faults_close(&dev, live);
    faults_hit(entry);  // a new program is kept when it closes
}

static void open_once(int entry, int call, bool ever, cl_int code)
{
    faults_set(entry, call, ever, code);
    open_under_script(entry, faults_now().live);
    faults_calm();
}

TEST_CASE(open_failures)
{
    struct fault_counts c;
    int live = faults_now().live;
    hr_device dev;

    faults_calm();
    dev = faults_open(0);
    hr_device_close(&dev);
    c = faults_now();
    for (int entry = 0; entry < FAULT_ENTRIES; entry++)
        for (int i = 0; c.calls[entry] && i < faults_num_codes(entry); i++)
            for (int ever = 0; ever < 2; ever++)
                open_once(entry, 1 + i % c.calls[entry], ever,
                          faults_codes[entry][i]);
    for (int call = 1; faults.all && call < c.calls[FAULT_ANY]; call++)
        open_once(FAULT_ANY, call, call % 2, CL_OUT_OF_RESOURCES);
    dev = faults_open_scene(0, SCENE_MIXED);
    CHECK(faults_run(SECOND) > 0, "the device made nothing");
    faults_close(&dev, live);
    printf("\n  %d cases so far ", faults.cases);
}

// A file written to disk under a fault does not outlive it.
static void open_after_fault(void)
{
    int live = faults_now().live;
    hr_device dev = faults_open_scene(0, SCENE_MIXED);

    CHECK(faults_run(5 * SECOND) > 0, "after %s: the device made nothing: %#x",
          faults.label, faults.why);
    faults_close(&dev, live);
}

// A driver that refuses the sources, and then also to say why.
static void refuse_sources(void)
{
    struct fault_rule r[] = {faults_rule(FAULT_clBuildProgram, 1, true,
                                         FAULT_FAIL, CL_BUILD_PROGRAM_FAILURE),
                             faults_rule(FAULT_clGetProgramBuildInfo, 1, false,
                                         FAULT_FAIL, 0)};
    int log = FAULT_clGetProgramBuildInfo;

    for (int i = 0; i < faults_num_codes(log); i++)
        for (int call = 1; call <= 2; call++) {
            r[1] = faults_rule(log, call, call == 1, FAULT_FAIL,
                               faults_codes[log][i]);
            snprintf(faults.label, sizeof(faults.label),
                     "build log, call %d, code %d", call, faults_codes[log][i]);
            faults_new_cache();
            faults.ctl.set(r, 2);
            open_under_script(log, faults_now().live);
        }
}

TEST_CASE(first_open_failures)
{
    static const int entries[] = {FAULT_clCreateProgramWithSource,
                                  FAULT_clBuildProgram, FAULT_clGetProgramInfo,
                                  FAULT_clCreateKernel,
                                  FAULT_clEnqueueNDRangeKernel};

    for (int k = 0; k < COUNT(entries); k++)
        for (int i = 0; i < faults_num_codes(entries[k]); i++) {
            // The eighth launch is one of the launches after the open.
            int call = k == 4 ? 6 + 2 * (i % 3) : k == 2 ? 1 + i % 2 : 1;

            if (!faults.all && k >= 3 && i % 3)
                continue;
            faults_new_cache();
            open_once(entries[k], call, i % 2, faults_codes[entries[k]][i]);
            open_after_fault();
        }
    refuse_sources();
    faults_cache("cache");
    printf("\n  %d cases so far ", faults.cases);
}

// ---- The breaker ----------------------------------------------------------

static void strike(int n)
{
    for (int i = 0; i < n; i++) {
        faults_set(FAULT_clEnqueueNDRangeKernel, 1, true,
                   CL_INVALID_KERNEL_ARGS);
        CHECK(faults_run(SECOND) == 0, "%s: made on the device", faults.label);
        CHECK(faults.why & HR_WHY_FAILED, "strike %d: why %#x", i, faults.why);
    }
    faults_calm();
}

static void check_resting(void)
{
    CHECK(faults_run(SECOND) == 0 && (faults.why & HR_WHY_BREAKER),
          "it does not rest: why %#x", faults.why);
    CHECK(faults_now().calls[FAULT_ANY] == 0, "%d calls at rest",
          faults_now().calls[FAULT_ANY]);
}

TEST_CASE(breaker)
{
    int live = faults_now().live;
    hr_device dev = faults_open_scene(0, SCENE_IMAGE);

    strike(2);
    CHECK(faults_run(SECOND) > 0, "two strikes are not three");
    strike(3);
    check_resting();
    test_sleep(1050 * TEST_MS);
    CHECK(faults_run(SECOND) > 0, "no probation");
    CHECK(faults_run(SECOND) > 0, "no recovery");
    strike(3);
    check_resting();
    test_sleep(1050 * TEST_MS);
    // Failed on probation: twice as long.
    strike(1);
    test_sleep(1050 * TEST_MS);
    check_resting();
    test_sleep(1000 * TEST_MS);
    CHECK(faults_run(SECOND) > 0, "no second probation");
    faults_close(&dev, live);
    faults.cases += 3;
}

// A failure on the device, after all calls went well, is a strike, too.
TEST_CASE(late_strikes)
{
    struct fault_rule r = faults_rule(FAULT_clSetEventCallback, 1, true,
                                      FAULT_EVENT, CL_INVALID_KERNEL_ARGS);
    int live = faults_now().live;
    hr_device dev = faults_open_scene(0, SCENE_IMAGE);

    for (int i = 0; i < 3; i++) {
        faults.ctl.set(&r, 1);
        CHECK(faults_run(SECOND) == 0 && faults.why & HR_WHY_FAILED,
              "strike %d: why %#x", i, faults.why);
    }
    faults_calm();
    check_resting();
    faults_close(&dev, live);
    faults.cases++;
}

// In the form for GPUs the engine polls instead of waiting for callbacks; and a
// poll may fail.
TEST_CASE(asked)
{
    struct fault_rule late = faults_rule(FAULT_clSetEventCallback, 1, true,
                                         FAULT_LATE, 0);
    int live = faults_now().live;
    hr_device dev;

    setenv("HEADRACE_OPENCL_VARIANT", "gpu", 1);
    dev = faults_open_scene(0, SCENE_IMAGE);
    unsetenv("HEADRACE_OPENCL_VARIANT");
    faults.ctl.set(&late, 1);
    CHECK(faults_run(SECOND) > 0, "the engine did not ask: why %#x",
          faults.why);
    for (int i = 0; i < faults_num_codes(FAULT_clGetEventInfo) && i < 2; i++) {
        faults_set(FAULT_clGetEventInfo, 1, false,
                   faults_codes[FAULT_clGetEventInfo][i]);
        CHECK(faults_run(SECOND) == 0 && faults.why & HR_WHY_FAILED,
              "no answer: why %#x", faults.why);
        CHECK(faults_hit(FAULT_clGetEventInfo), "%s: not called", faults.label);
    }
    faults_calm();
    CHECK(faults_run(SECOND) > 0, "not used again: why %#x", faults.why);
    faults_close(&dev, live);
    faults.cases++;
}

// Every entry point the engine has must have been failed.
TEST_CASE(complete)
{
    for (int entry = 0; entry < FAULT_ENTRIES; entry++) {
        CHECK(faults_num_codes(entry) > 0, "%s: no codes in the table",
              faults_names[entry]);
        CHECK(faults.hits[entry] > 0, "%s was never failed",
              faults_names[entry]);
    }
    printf("\n  %d cases ", faults.cases);
}

FAULTS_MAIN
