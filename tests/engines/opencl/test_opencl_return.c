// SPDX-License-Identifier: Apache-2.0
// The OpenCL engine over a driver that is slow: a call takes longer than the
// device may, and comes back after all. Until then the CPU does the work, once;
// then the device does it again, with the context and the memory that it has if
// nothing fails. Calls are let go by the test, so that no clock decides but the
// deadline.
#include "opencl_faults.h"

enum { DEADLINE_MS = TEST_SANITIZED ? 3000 : 500 };

static struct {
    atomic_int left, back;
    hr_device dev;
    int made;  // samples of a job, by the device
} t;

static void on_log(void *ctx, enum hr_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    atomic_fetch_add(&t.left, strstr(text, "does not answer, nothing") != NULL);
    atomic_fetch_add(&t.back, strstr(text, "answers again") != NULL);
}

// ---- Steps of a case -------------------------------------------------------

// Until the device makes all of it: a busy machine may be late for so short a
// deadline, or the device rests.
static void check_works(void)
{
    int made = 0;

    for (int i = 0; i < 100 && made < t.made; i++) {
        made = faults_run(30 * SECOND);
        if (made < t.made)
            test_sleep(100 * TEST_MS);
    }
    CHECK(made == t.made, "%s: %d made, not %d, why %#x", faults.label, made,
          t.made, faults.why);
    CHECK(t.left == t.back, "%s: left %d times, back %d times", faults.label,
          (int)t.left, (int)t.back);
}

static void open_scene(void)
{
    faults_calm();
    t.dev = hr_device_open(
        "opencl", hr_device_params(.threads = 2, .log = on_log,
                                   .deadline_ns = DEADLINE_MS * TEST_MS));
    if (!t.dev) {
        fprintf(stderr, "open: %s\n", hr_last_error());
        abort();
    }
    scene_init(&faults.scene, t.dev, FAULTS_SAMPLES, SCENE_MIXED);
    t.made = 0;
    for (int i = 0; i < 5; i++) {
        int made = faults_run(30 * SECOND);

        t.made = made > t.made ? made : t.made;
    }
    CHECK(t.made > 0, "the device makes nothing");
    check_works();
    faults_calm();
    t.left = t.back = 0;
}

// A job over that call, after which the device is left alone.
static void slow_job(int entry, enum fault_action action)
{
    struct fault_rule r = faults_rule(entry, 1, false, action, 0);
    int left = atomic_load(&t.left);

    faults.ctl.set(&r, 1);
    faults_run(30 * SECOND);
    CHECK(test_reaches(&t.left, left + 1), "%s: no report that it is left",
          faults.label);
    CHECK(faults_hit(entry), "%s: no such call", faults.label);
    CHECK(faults_run(30 * SECOND) == 0 && faults.why & HR_WHY_LOST,
          "%s: why %#x", faults.label, faults.why);
}

// If it does not come back there is nothing more to see: the test ends.
static void let_go(void)
{
    int back = atomic_load(&t.back);

    faults_calm();
    faults.ctl.release();
    if (test_reaches(&t.back, back + 1))
        return;
    fprintf(stderr, "%s: it does not come back\n", faults.label);
    exit(1);
}

// As if the late calls were long ago.
static void forgive(void)
{
    struct ocl *o = ocl_of(((struct hr__device *)t.dev)->engines[0]);

    pthread_mutex_lock(&o->guard.lock);
    o->guard.late_calls = 0;
    o->guard.out = false;
    pthread_mutex_unlock(&o->guard.lock);
}

static void check_opened(int times)
{
    CHECK(faults_now().calls[FAULT_clCreateContext] == times, "%s: %d contexts",
          faults.label, faults_now().calls[FAULT_clCreateContext]);
}

// ---- Slow, and that was all ------------------------------------------------

TEST_CASE(slow_calls)
{
    static const int entries[] = {
        FAULT_clSetKernelArg, FAULT_clEnqueueNDRangeKernel, FAULT_clFlush,
        FAULT_clSetEventCallback, FAULT_clReleaseEvent,
        // For discrete devices only:
        FAULT_clEnqueueWriteBuffer, FAULT_clEnqueueReadBuffer};
    int live = faults_settled();

    for (int d = 0; d < 2; d++) {
        faults.ctl.discrete(d);
        open_scene();
        for (int i = 0; i < (d ? 7 : 5); i++) {
            bool after = (i + d) % 2;

            snprintf(faults.label, sizeof(faults.label), "%s is slow, %s, %s",
                     faults_names[entries[i]], after ? "after" : "before",
                     d ? "discrete" : "unified");
            slow_job(entries[i], after ? FAULT_HANG_AFTER : FAULT_HANG);
            let_go();
            forgive();
            check_works();
            check_opened(0);
        }
        faults_close(&t.dev, live);
    }
    faults.ctl.discrete(false);
}

// Device memory is what it was.
TEST_CASE(memory_stays)
{
    static const struct hr_op ops[] = {hr_op_decode(0),
                                       hr_op_resize(.w = 40, .h = 30)};
    const struct hr_batch_params p = {
        .n = 1, .c = 3, .h = 30, .w = 40, .memory = HR_MEMORY_DEVICE};
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg(96, 64, &seed);
    struct hr_sample s = test_sample(&b, ops, 2);
    int live = faults_settled();
    uint8_t *had, *has;
    hr_batch out;
    hr_job job;

    snprintf(faults.label, sizeof(faults.label), "memory");
    open_scene();
    out = hr_batch_create(t.dev, &p);
    job = hr_submit(t.dev, &s, 1, out, NULL);
    CHECK(job && hr_job_wait(job, 30 * SECOND) == HR_OK, "%s", hr_last_error());
    hr_job_release(&job);
    had = calloc(2, out->size);
    has = had + out->size;
    CHECK(!hr_batch_read(out, 0, 1, had, out->size, 30 * SECOND), "%s",
          hr_last_error());
    slow_job(FAULT_clFlush, FAULT_HANG);
    // Data in device memory only cannot be fetched, and the read does not wait.
    CHECK(hr_batch_read(out, 0, 1, has, out->size, 30 * SECOND) == HR_EDEVICE &&
              strstr(hr_last_error(), "does not answer any more"),
          "%s", hr_last_error());
    let_go();
    check_works();
    CHECK(!hr_batch_read(out, 0, 1, has, out->size, 30 * SECOND) &&
              !memcmp(had, has, out->size),
          "%s", hr_last_error());
    check_opened(0);
    hr_batch_destroy(&out);
    faults_close(&t.dev, live);
    free(had);
}

static bool is_stuck(void)
{
    struct ocl *o = opencl_private(t.dev);
    bool stuck = false;

    pthread_mutex_lock(&o->guard.lock);
    for (int i = 0; i < OCL_BATCHES; i++)
        stuck |= o->batch[i].state == OCL_SENT && o->batch[i].stuck;
    pthread_mutex_unlock(&o->guard.lock);
    return stuck;
}

// Rows with gaps between them are left to the host; they are the same.
static void check_gaps(const struct hr_sample *s, const uint8_t *had)
{
    enum { ROW = 40 * sizeof(float), STRIDE = ROW + 64 };
    const struct hr_batch_params p = {.n = 1,
                                      .c = 3,
                                      .h = 30,
                                      .w = 40,
                                      .memory = HR_MEMORY_PINNED,
                                      .stride_h = STRIDE};
    auto_batch out = hr_batch_create(t.dev, &p);
    auto_job job = hr_submit(t.dev, s, 1, out, NULL);
    const uint8_t *has = out->params.data;

    CHECK(job && hr_job_wait(job, 30 * SECOND) == HR_OK, "%s", hr_last_error());
    for (int y = 0; y < 90; y++)
        CHECK(!memcmp(had + ROW * y, has + STRIDE * y, ROW), "row %d", y);
}

// The device itself writes tensors in pinned memory. While it still may,
// because its end is unknown, no other engine writes there; and the memory
// stays, even if its batch does not.
TEST_CASE(pinned_tensors)
{
    static const struct hr_op ops[] = {hr_op_decode(0),
                                       hr_op_resize(.w = 40, .h = 30)};
    const struct hr_batch_params p = {
        .n = 1, .c = 3, .h = 30, .w = 40, .memory = HR_MEMORY_PINNED};
    struct fault_rule late = {FAULT_clSetEventCallback, 1, 1, FAULT_LATE, 0};
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg(96, 64, &seed);
    struct hr_sample s = test_sample(&b, ops, 2);
    uint8_t had[3 * 30 * 40 * sizeof(float)];
    int live = faults_settled();

    snprintf(faults.label, sizeof(faults.label), "pinned tensors");
    faults.ctl.discrete(true);
    for (int gone = 0; gone < 2; gone++) {
        struct hr__memory *m;
        hr_batch out;
        hr_job job;

        open_scene();
        out = hr_batch_create(t.dev, &p);
        CU_ASSERT_PTR_NOT_NULL_FATAL(out);
        m = ((struct hr__batch *)out)->device;
        job = hr_submit(t.dev, &s, 1, out, NULL);
        CHECK(job && hr_job_wait(job, 30 * SECOND) == HR_OK, "%s",
              hr_last_error());
        CU_ASSERT_EQUAL(opencl_private(t.dev)->batch[0].num_late, 0);
        hr_job_release(&job);
        memcpy(had, out->params.data, sizeof(had));
        check_gaps(&s, had);

        faults.ctl.set(&late, 1);
        job = hr_submit(t.dev, &s, 1, out, NULL);
        CHECK(job && hr_job_wait(job, 30 * SECOND) &&
                  job->results[0].status == HR_ETIMEDOUT,
              "%s", hr_last_error());
        CHECK(job && strstr(job->results[0].message, "may still write there"),
              "%s", job ? job->results[0].message : "");
        hr_job_release(&job);
        CU_ASSERT_EQUAL(atomic_load(&m->late), 1);
        // Also when the engine, too, has given up the batch, and the task ends.
        for (int i = 0; i < 3000 && !is_stuck(); i++)
            test_sleep(10 * TEST_MS);
        CU_ASSERT(is_stuck());
        test_sleep(50 * TEST_MS);
        CU_ASSERT_EQUAL(atomic_load(&m->late), 1);
        // Other memory is written by the CPU alone.
        CHECK(faults_run(30 * SECOND) >= 0, "%s", faults.label);
        if (gone)
            hr_batch_destroy(&out);
        faults_calm();
        faults.ctl.release();
        for (int i = 0; !gone && i < 3000 && atomic_load(&m->late); i++)
            test_sleep(10 * TEST_MS);
        check_works();
        if (!gone) {
            CU_ASSERT_EQUAL(atomic_load(&m->late), 0);
            memset(out->params.data, 0, sizeof(had));
            job = hr_submit(t.dev, &s, 1, out, NULL);
            CHECK(job && hr_job_wait(job, 30 * SECOND) == HR_OK, "%s",
                  hr_last_error());
            hr_job_release(&job);
            CU_ASSERT(!memcmp(had, out->params.data, sizeof(had)));
            hr_batch_destroy(&out);
        }
        faults_close(&t.dev, live);
    }
    faults.ctl.discrete(false);
}

// ---- There was more to it --------------------------------------------------

FAULTS_MAIN
