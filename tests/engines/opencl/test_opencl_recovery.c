// SPDX-License-Identifier: Apache-2.0
// The OpenCL engine when launches fail or hang: the CPU makes the samples, the
// device rests and comes back, or its thread is left behind.
#define _GNU_SOURCE  // usleep()

#include "opencl_env.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof(*(a))))

enum { N = 10 };

static struct hr_sample many[N];
static struct hr_op many_ops[N][4];

static __typeof__(&clEnqueueNDRangeKernel) real_launch;

// ---- Launches that fail ---------------------------------------------------

static _Atomic int failures;
static _Atomic cl_int failure;

static cl_int CL_API_CALL failing_launch(cl_command_queue q, cl_kernel k,
                                         cl_uint dim, const size_t *offset,
                                         const size_t *global,
                                         const size_t *local, cl_uint n,
                                         const cl_event *events,
                                         cl_event *event)
{
    if (atomic_fetch_sub(&failures, 1) > 0)
        return failure;
    return real_launch(q, k, dim, offset, global, local, n, events, event);
}

static void run_faulty(hr_device dev, const struct opencl_run *want, int n,
                       unsigned why, bool on_device)
{
    struct hr_batch_params p = {
        .n = n, .c = 3, .h = OPENCL_SIDE, .w = OPENCL_SIDE};
    struct opencl_run r = opencl_start(dev, many, n, &p);

    CU_ASSERT_EQUAL(hr_job_wait(r.job, 60 * INT64_C(1000000000)), HR_OK);
    for (int i = 0; i < n; i++) {
        CU_ASSERT_EQUAL(memcmp(opencl_slot(&r, i), opencl_slot(want, i),
                               opencl_stride(want)),
                        0);
        if (why)
            CU_ASSERT(r.job->results[i].why & why);
    }
    CU_ASSERT_EQUAL(opencl_count_spans(&r, n, HR_RECONSTRUCT),
                    on_device ? n : 0);
    opencl_finish(&r);
}

TEST_CASE(failing)
{
    auto_device dev = hr_device_open("opencl", NULL);
    struct hr_batch_params p = {
        .n = N, .c = 3, .h = OPENCL_SIDE, .w = OPENCL_SIDE};
    struct opencl_run want;
    struct ocl *o;

    CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
    o = opencl_private(dev);
    opencl_fill(many, many_ops, N);
    want = opencl_start(env.cpu, many, N, &p);
    hr_job_wait(want.job, HR_FOREVER);
    run_faulty(dev, &want, N, 0, true);
    real_launch = o->api.clEnqueueNDRangeKernel;
    o->api.clEnqueueNDRangeKernel = failing_launch;
    // One batch fails in each of the ways, the CPU makes it; the next is
    // the device's again.
    failure = CL_OUT_OF_HOST_MEMORY;
    failures = 1;
    run_faulty(dev, &want, N, HR_WHY_FAILED | HR_WHY_MEMORY, false);
    run_faulty(dev, &want, N, 0, true);
    failure = CL_OUT_OF_RESOURCES;
    failures = 1;
    run_faulty(dev, &want, N, HR_WHY_LOST, false);
    run_faulty(dev, &want, N, 0, true);
    // It rests after three, and comes back by itself.
    failure = CL_INVALID_KERNEL_ARGS;
    failures = 3;
    for (int i = 0; i < 3; i++)
        run_faulty(dev, &want, N, HR_WHY_FAILED, false);
    run_faulty(dev, &want, N, HR_WHY_BREAKER, false);
    usleep(1100 * 1000);
    run_faulty(dev, &want, N, 0, true);
    opencl_finish(&want);
}

// ---- Launches that hang ---------------------------------------------------

static pthread_mutex_t hang = PTHREAD_MUTEX_INITIALIZER;

static cl_int CL_API_CALL hanging_launch(cl_command_queue q, cl_kernel k,
                                         cl_uint dim, const size_t *offset,
                                         const size_t *global,
                                         const size_t *local, cl_uint n,
                                         const cl_event *events,
                                         cl_event *event)
{
    pthread_mutex_lock(&hang);
    pthread_mutex_unlock(&hang);
    return real_launch(q, k, dim, offset, global, local, n, events, event);
}

static atomic_bool left_behind;

static void on_log(void *ctx, enum hr_log_level level, const char *text)
{
    (void)ctx;
    if (level == HR_LOG_ERROR && strstr(text, "left behind"))
        left_behind = true;
}

TEST_CASE(hanging)
{
    hr_device dev = hr_device_open(
        "opencl", hr_device_params(.deadline_ns = 300000000, .log = on_log));
    struct hr_batch_params p = {
        .n = N, .c = 3, .h = OPENCL_SIDE, .w = OPENCL_SIDE};
    struct opencl_run want;
    struct ocl *o;
    int64_t begin;

    CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
    o = opencl_private(dev);
    opencl_fill(many, many_ops, N);
    want = opencl_start(env.cpu, many, N, &p);
    hr_job_wait(want.job, HR_FOREVER);
    real_launch = o->api.clEnqueueNDRangeKernel;
    o->api.clEnqueueNDRangeKernel = hanging_launch;
    pthread_mutex_lock(&hang);
    begin = hr__now();
    run_faulty(dev, &want, N, HR_WHY_TIMEOUT, false);
    CU_ASSERT(opencl_ms_since(begin) < 3000);
    // The thread is lost, and nothing is offered any more.
    usleep(200 * 1000);
    run_faulty(dev, &want, N, HR_WHY_LOST, false);
    opencl_finish(&want);
    begin = hr__now();
    hr_device_close(&dev);
    // The last job may still hold it for a moment.
    while (!left_behind && opencl_ms_since(begin) < 4000)
        usleep(10 * 1000);
    CU_ASSERT_TRUE(left_behind);
    printf("\n  closed in %.0f ms with a hung driver; ",
           opencl_ms_since(begin));
    // It comes back to memory that is its own.
    pthread_mutex_unlock(&hang);
    usleep(300 * 1000);
}

// ---- Rest -----------------------------------------------------------------

TEST_CASE(breaker)
{
    struct hr__breaker b = {0};
    const int64_t s = 1000000000;
    int let_in = 0;

    for (int i = 0; i < 2; i++)
        hr__breaker_note(&b, false, 0);
    CU_ASSERT_EQUAL(hr__breaker_ask(&b, OCL_BATCH, 0), 0);
    hr__breaker_note(&b, false, 0);
    CU_ASSERT_EQUAL(hr__breaker_ask(&b, OCL_BATCH, s - 1), HR_WHY_BREAKER);
    for (int i = 0; i < 1000; i++)
        let_in += !hr__breaker_ask(&b, OCL_BATCH, s);
    CU_ASSERT_EQUAL(let_in, OCL_BATCH);
    hr__breaker_note(&b, false, s);
    CU_ASSERT_EQUAL(hr__breaker_ask(&b, OCL_BATCH, 3 * s - 1), HR_WHY_BREAKER);
    CU_ASSERT_EQUAL(hr__breaker_ask(&b, OCL_BATCH, 3 * s), 0);
    for (int i = 0; i < 20; i++)
        hr__breaker_note(&b, false, 3 * s);
    CU_ASSERT_EQUAL(b.rest, 60 * s);
    hr__breaker_note(&b, true, 3 * s);
    CU_ASSERT_EQUAL(hr__breaker_ask(&b, OCL_BATCH, 3 * s), 0);
    CU_ASSERT_EQUAL(b.strikes, 0);
}

// ---- Memory of our own that cannot be had -----------------------------------

// One job into host memory, whose nth allocation fails, and perhaps all after
// it: a sample is right, or says so. True: all are right.
static bool run_starved(hr_device dev, const struct opencl_run *want, int nth,
                        bool for_ever)
{
    struct hr_batch_params p = {
        .n = N, .c = 3, .h = OPENCL_SIDE, .w = OPENCL_SIDE};
    struct opencl_run r = {.batch = hr_batch_create(dev, &p)};
    int right = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(r.batch);
    hr__test_fail_alloc(nth, for_ever);
    r.job = hr_submit(dev, many, N, r.batch,
                      hr_job_params(.on_error = HR_ON_ERROR_ZERO));
    if (r.job)
        hr_job_wait(r.job, HR_FOREVER);
    else
        CU_ASSERT_EQUAL(hr_last_status(), HR_ENOMEM);
    hr__test_fail_alloc(0, false);
    for (int i = 0; r.job && i < N; i++) {
        enum hr_status s = r.job->results[i].status;
        bool same = !memcmp(opencl_slot(&r, i), opencl_slot(want, i),
                            opencl_stride(want));

        CHECK(s == HR_ENOMEM || (s == HR_OK && same),
              "allocation %d%s, sample %d: %s, %s", nth,
              for_ever ? " and on" : "", i, hr_status_name(s),
              same ? "right" : "wrong");
        right += s == HR_OK;
    }
    opencl_finish(&r);
    return right == N;
}

TEST_CASE(starved)
{
    struct hr_batch_params p = {
        .n = N, .c = 3, .h = OPENCL_SIDE, .w = OPENCL_SIDE};
    int starved = 0, most = test_loops(60);
    struct opencl_run want;

    opencl_fill(many, many_ops, N);
    want = opencl_start(env.cpu, many, N, &p);
    hr_job_wait(want.job, HR_FOREVER);
    for (int nth = 1; nth <= most; nth++) {
        // A device whose pools and buffers are still to be made.
        auto_device dev = hr_device_open(
            "opencl",
            hr_device_params(.threads = 2, .deadline_ns = OPENCL_PATIENCE));

        CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
        starved += !run_starved(dev, &want, nth, nth % 3 == 0);
        CHECK(run_starved(dev, &want, 1 << 30, false),
              "does not recover from allocation %d", nth);
    }
    CHECK(starved > 0, "no allocation was missed");
    printf("\n  %d of %d jobs lacked memory ", starved, most);
    opencl_finish(&want);
}

int main(int argc, char **argv)
{
    return opencl_main(argc, argv);
}
