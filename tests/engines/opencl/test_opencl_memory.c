// SPDX-License-Identifier: Apache-2.0
// Device memory in the OpenCL engine, between a layer that fails calls and the
// driver: the bytes that cross the bus and the number of launches, no
// allocations in a steady state, on devices with memory of their own and
// without; calls that fail or hang, devices that are lost.
#include "allowed.h"
#include "opencl_faults.h"

enum { W = 64, H = 48, N = 48, SIZE = W * H * 3 };

static const struct hr_op ops[] = {hr_op_decode(0),
                                   hr_op_resize(.w = W, .h = H)};
static struct bytes jpeg;
static uint8_t right[SIZE];

static hr_device open_device(bool discrete, int64_t deadline)
{
    hr_device dev;

    faults_calm();
    faults.ctl.discrete(discrete);
    if (!(dev = faults_open(deadline)))
        abort();
    return dev;
}

static void close_device(hr_device *dev, int live)
{
    int64_t begin = hr__now();

    hr_device_close(dev);
    CHECK(hr__now() - begin < test_allowed(3 * SECOND),
          "%s: closing took %.1f s", faults.label,
          (double)(hr__now() - begin) / 1e9);
    faults_check_objects(live);
}

static hr_image image_on(hr_device dev)
{
    return hr_image_create(
        dev, hr_image_params(.w = W, .h = H, .c = 3, .dtype = HR_U8,
                             .layout = HR_NHWC, .memory = HR_MEMORY_DEVICE));
}

static struct hr_sample sample_to(hr_image out)
{
    return test_sample(&jpeg, ops, 2, .out = out);
}

static enum hr_status run(hr_device dev, const struct hr_sample *s, int n,
                          hr_batch batch, struct hr_result *first)
{
    auto_job job = hr_submit(dev, s, n, batch,
                             hr_job_params(.wait_for_room = true));
    enum hr_status status = hr_job_poll(job, 2 * FAULTS_PATIENCE);

    if (first)
        *first = job->results[0];
    return status;
}

static bool holds(hr_image image)
{
    uint8_t mine[SIZE];

    return hr_image_read(image, mine, SIZE, FAULTS_PATIENCE) == HR_OK &&
           !memcmp(mine, right, SIZE);
}

// ---- What it costs --------------------------------------------------------

// Five jobs that allocate nothing; how many there were before them.
static bool run_steadily(hr_device dev, const struct hr_sample *s,
                         hr_batch batch, uint64_t *launches, uint64_t *batches)
{
    struct hr_stats before, after;
    bool steady = false;

    // How many buffers are in use at once is chance, so the warm-up has no
    // fixed length.
    for (int i = 0; i < 20 && !steady; i++) {
        *launches = atomic_load(&opencl_private(dev)->launches);
        *batches = atomic_load(&opencl_private(dev)->batches);
        faults_calm();
        hr_device_stats(dev, &before);
        for (int k = 0; k < 5; k++)
            CHECK(run(dev, s, N, batch, NULL) == HR_OK, "%s", hr_last_error());
        hr_device_stats(dev, &after);
        steady = after.heap_allocations == before.heap_allocations;
    }
    return steady;
}

static void count_calls(bool discrete, bool images)
{
    int live = faults_settled();
    hr_device dev = open_device(discrete, FAULTS_PATIENCE);
    struct hr_sample s[N];
    hr_image out[N] = {0};
    hr_batch batch =
        images
            ? NULL
            : hr_batch_create(dev, hr_batch_params(.n = N, .c = 3, .h = H,
                                                   .w = W, .dtype = HR_F32,
                                                   .memory = HR_MEMORY_DEVICE));
    uint64_t launches = 0, batches = 0;
    struct fault_counts c;
    bool steady = false;

    CHECK(batch || images, "%s", hr_last_error());
    for (int i = 0; i < N; i++) {
        if (images)
            out[i] = image_on(dev);
        s[i] = sample_to(out[i]);
    }
    steady = run_steadily(dev, s, batch, &launches, &batches);
    c = faults_now();
    launches = atomic_load(&opencl_private(dev)->launches) - launches;
    batches = atomic_load(&opencl_private(dev)->batches) - batches;
    CHECK(batches >= 5 && batches <= 6 && launches <= 6 * batches,
          "%llu launches in %llu batches of %d, into %s",
          (unsigned long long)launches, (unsigned long long)batches, N,
          images ? "images" : "a batch");
    CHECK(c.calls[FAULT_clEnqueueReadBuffer] == 0, "%d downloads",
          c.calls[FAULT_clEnqueueReadBuffer]);
    CHECK(steady, "it allocates");
    for (int i = 0; images && i < N; i++) {
        CHECK(holds(out[i]), "image %d", i);
        hr_image_release(&out[i]);
    }
    hr_batch_destroy(&batch);
    close_device(&dev, live);
}

TEST_CASE(costs)
{
    for (int i = 0; i < 4; i++)
        count_calls(i % 2, i / 2);
    faults.ctl.discrete(false);
}

// From op to op no pixel comes to the host.
TEST_CASE(eager_stays)
{
    int live = faults_settled();
    hr_device dev = open_device(true, FAULTS_PATIENCE);
    hr_image a = test_decode_to(dev, jpeg.data, jpeg.size, HR_MEMORY_DEVICE);
    hr_image b = hr_resize(dev, a, &ops[1].resize), c;
    struct fault_counts counts;

    CHECK(b && holds(b), "%s", hr_last_error());
    faults_calm();
    c = hr_apply_op(dev, b, &hr_op_flip(.horizontal = true));
    hr_image_release(&b);
    b = hr_apply_op(dev, c, &hr_op_flip(.horizontal = true));
    CHECK(hr_image_wait(b, FAULTS_PATIENCE) == HR_OK, "%s", hr_last_error());
    counts = faults_now();
    CHECK(!counts.calls[FAULT_clEnqueueReadBuffer], "%d reads",
          counts.calls[FAULT_clEnqueueReadBuffer]);
    CHECK(holds(b), "flipped twice");
    hr_image_release(&a);
    hr_image_release(&b);
    hr_image_release(&c);
    close_device(&dev, live);
    faults.ctl.discrete(false);
}

// ---- What fails -----------------------------------------------------------

// Whatever fails, it ends, in time, and nothing wrong is called right.
static void under_script(hr_device dev, int *failed)
{
    int64_t begin = hr__now();
    hr_image a = image_on(dev), b = NULL;
    struct hr_sample s = sample_to(a);
    struct hr_result r = {0};
    uint8_t mine[SIZE];
    enum hr_status status = HR_EDEVICE;

    if (a && !run(dev, &s, 1, NULL, &r)) {
        b = hr_apply_op(dev, a, &hr_op_flip(0));
        status = hr_image_read(a, mine, SIZE, FAULTS_PATIENCE);
        CHECK(status || !memcmp(mine, right, SIZE), "%s: wrong pixels",
              faults.label);
    }
    *failed += status != HR_OK;
    CHECK(!a || !r.status || r.message[0], "%s: no reason", faults.label);
    hr_image_release(&a);
    hr_image_release(&b);
    CHECK(hr_wait_all(dev, FAULTS_PATIENCE) == HR_OK, "%s: in flight",
          faults.label);
    CHECK(hr__now() - begin < test_allowed(8 * SECOND), "%s: it took %.1f s",
          faults.label, (double)(hr__now() - begin) / 1e9);
}

TEST_CASE(failures)
{
    static const int entries[] = {
        FAULT_clCreateBuffer,      FAULT_clEnqueueWriteBuffer,
        FAULT_clEnqueueReadBuffer, FAULT_clEnqueueNDRangeKernel,
        FAULT_clSetEventCallback,  FAULT_clFlush,
        FAULT_clReleaseMemObject,  FAULT_clSetKernelArg,
        FAULT_clEnqueueMapBuffer,  FAULT_clEnqueueUnmapMemObject};

    for (int discrete = 0; discrete < 2; discrete++) {
        int live = faults_settled(), failed = 0, cases = 0;
        // A command that a driver was never told to begin is given up by then.
        hr_device dev = open_device(discrete, 2 * SECOND);

        under_script(dev, &failed);
        CHECK(!failed, "without a script: %s", hr_last_error());
        for (size_t e = 0; e < sizeof(entries) / sizeof(*entries); e++)
            for (int k = 0; k < 8; k++) {
                int n = faults_num_codes(entries[e]);

                faults_set(entries[e], 1 + k % 3, k / 3 == 1,
                           faults_codes[entries[e]][k % n]);
                under_script(dev, &failed);
                cases += faults_hit(entries[e]);
                faults_calm();
                // The breaker may rest; the CPU and copies go on.
                under_script(dev, &failed);
            }
        printf("%d cases, %d runs failed ", cases, failed);
        CHECK(cases > 20 && failed, "%d cases", cases);
        failed = 0;
        under_script(dev, &failed);
        CHECK(!failed, "it does not recover: %s", hr_last_error());
        // Objects that cannot be waited for are left behind.
        faults.may_leak = true;
        close_device(&dev, live);
    }
    faults.ctl.discrete(false);
}

// The device is lost and opened again: its memory is gone, and reads say so;
// new memory works. Its limits stay, which offers read meanwhile.
TEST_CASE(lost)
{
    int live = faults_settled();
    hr_device dev = open_device(true, FAULTS_PATIENCE);
    hr_image a = image_on(dev), b;
    struct hr_sample s = sample_to(a);
    size_t limit = --opencl_private(dev)->work_bytes;
    uint8_t mine[SIZE];

    CHECK(run(dev, &s, 1, NULL, NULL) == HR_OK && holds(a), "before");
    faults_set(FAULT_clEnqueueNDRangeKernel, 1, false, CL_OUT_OF_RESOURCES);
    under_script(dev, &(int){0});
    faults_calm();
    b = image_on(dev);
    CHECK(b, "after: %s", hr_last_error());
    if (hr_image_read(a, mine, SIZE, FAULTS_PATIENCE))
        CHECK(strstr(hr_last_error(), "lost"), "%s", hr_last_error());
    else
        CHECK(!memcmp(mine, right, SIZE), "not lost, and not as it was");
    s = sample_to(b);
    CHECK(run(dev, &s, 1, NULL, NULL) == HR_OK && holds(b), "%s",
          hr_last_error());
    CHECK(opencl_private(dev)->work_bytes == limit, "a limit was written");
    hr_image_release(&a);
    hr_image_release(&b);
    faults.may_leak = true;
    close_device(&dev, live);
    faults.ctl.discrete(false);
}

// A driver that does not come back: no call of the user's waits for it.
TEST_CASE(hangs)
{
    static const int entries[] = {FAULT_clEnqueueWriteBuffer,
                                  FAULT_clEnqueueNDRangeKernel,
                                  FAULT_clCreateBuffer};

    for (size_t e = 0; e < sizeof(entries) / sizeof(*entries); e++) {
        hr_device dev = open_device(false, SECOND / 4);
        hr_image a = image_on(dev), b;
        struct hr_sample s = sample_to(a);
        struct fault_rule rule = faults_rule(entries[e], 1, true, FAULT_HANG,
                                             0);
        uint8_t mine[SIZE] = {0};
        int64_t begin = hr__now();

        CHECK(a, "%s", hr_last_error());
        faults.ctl.set(&rule, 1);
        run(dev, &s, 1, NULL, NULL);
        hr_image_write(a, mine, SIZE, SECOND / 2);
        hr_image_read(a, mine, SIZE, SECOND / 2);
        b = hr_image_create(dev, hr_image_params(.w = 3000, .h = 3000, .c = 3,
                                                 .dtype = HR_U8,
                                                 .memory = HR_MEMORY_DEVICE));
        CHECK(!b || entries[e] != FAULT_clCreateBuffer, "made by a hung one");
        hr_image_release(&a);
        hr_image_release(&b);
        CHECK(hr__now() - begin < test_allowed(4 * SECOND),
              "%s: it took %.1f s", faults_names[entries[e]],
              (double)(hr__now() - begin) / 1e9);
        hr_device_close(&dev);
        CHECK(hr__now() - begin < test_allowed(8 * SECOND),
              "%s: closed after %.1f s", faults_names[entries[e]],
              (double)(hr__now() - begin) / 1e9);
        faults_calm();
        faults.ctl.release();
    }
}

// A buffer beyond the usual maximum grows to the size asked for.
TEST_CASE(grows_enough)
{
    auto_device dev = open_device(false, FAULTS_PATIENCE);
    struct ocl *o = opencl_private(dev);
    size_t sizes[] = {1, o->buffer_bytes - 1, o->buffer_bytes + 5000};

    for (int i = 0; i < 3; i++) {
        struct ocl_fault fault = {0};
        struct ocl_buffer b = {0};

        CHECK(ocl_buffer_grow(o, &b, sizes[i], false, &fault) &&
                  b.size >= sizes[i],
              "%zu bytes of %zu: %s", b.size, sizes[i], fault.text);
        ocl_buffer_drop(o, &b);
    }
}

// Makes the right result of all of them.
static void make_right(void)
{
    auto_device cpu = test_device("cpu", 1, 0);
    auto_image out = image_on(cpu);
    struct hr_sample s = sample_to(out);

    if (run(cpu, &s, 1, NULL, NULL))
        abort();
    memcpy(right, out->params.data, SIZE);
}

int main(int argc, char **argv)
{
    uint64_t seed = 5;
    int failed;

    jpeg = test_jpeg(96, 72, &seed);
    make_right();
    failed = faults_main(HR_FAULT_LIBRARY, argc, argv);
    free(jpeg.data);
    return failed;
}
