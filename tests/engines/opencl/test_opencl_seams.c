// SPDX-License-Identifier: Apache-2.0
// The parts of the OpenCL engine together: kernels of both kinds, devices with
// memory of their own and without, pictures of every kind in one batch, going
// to host, pinned and device memory; the same while the driver fails now and
// then, loses the device and is late. The layer of fault_opencl.c lies between.
#include <sched.h>

#include "opencl_faults.h"

enum { N = 60, KINDS = 8, MAX_SIDE = 96, THREADS = 2 };

// One sample, and what it must come to.
struct want {
    struct hr_op ops[4];
    int num_ops, kind, w, h, c;
    enum hr_dtype dtype;
    enum hr_layout layout;
    uint8_t *right;
    size_t size;
};

static struct bytes files[KINDS];
static struct want wants[N];

static void make_files(void)
{
    static const struct jpeg_spec specs[KINDS] = {
        {.w = 90, .h = 70, .space = JCS_YCbCr, .factors = {0x22}},
        {.w = 61, .h = 83, .space = JCS_YCbCr, .factors = {0x11}},
        {.w = 77, .h = 40, .space = JCS_GRAYSCALE},
        {.w = 64, .h = 64, .space = JCS_RGB},
        {.w = 95, .h = 33, .space = JCS_YCbCr, .factors = {0x21}},
        {.w = 33, .h = 95, .space = JCS_YCbCr, .factors = {0x12}},
        {.w = 80, .h = 60, .space = JCS_YCbCr, .progressive = true},
        {.w = 200, .h = 150, .space = JCS_YCbCr, .factors = {0x22}},
    };

    for (int i = 0; i < KINDS; i++) {
        struct jpeg_spec spec = specs[i];

        spec.quality = 80;
        files[i] = test_jpeg_of(&spec, &test_seed);
    }
}

// Windows, grey, turned, padded; every type.
static void make_want(struct want *t, int i)
{
    bool gray = i % 5 == 3;
    int n = 0, w = 24 + i % 40, h = 20 + i % 33;

    t->kind = i % KINDS;
    t->c = gray ? 1 : 3;
    t->w = w;
    t->h = h;
    t->dtype = (enum hr_dtype)(i % 3);
    t->layout = (enum hr_layout)(i / 3 % 2);
    t->ops[n++] = (struct hr_op)hr_op_decode(.mode = gray ? HR_GRAY : HR_RGB);
    if (i % 4 == 1)
        t->ops[n++] = (struct hr_op)hr_op_crop(.x = 1 + i % 7, .y = 5, .w = 25,
                                               .h = 22);
    if (i % 6 == 4)
        t->ops[n++] = (struct hr_op)hr_op_crop(.x = -4, .y = 2, .w = w, .h = h,
                                               .pad = true);
    else
        t->ops[n++] = (struct hr_op)
            hr_op_resize(.w = w, .h = h,
                         .filter = (enum hr_filter)(i % HR_NUM_FILTERS),
                         .order = (enum hr_order)(1 + i / 5 % 2));
    if (i % 3 == 2)
        t->ops[n++] = (struct hr_op)hr_op_flip(.horizontal = i % 2 != 0,
                                               .vertical = true);
    t->num_ops = n;
}

static hr_image image_of(hr_device dev, const struct want *t,
                         enum hr_memory memory)
{
    return hr_image_create(
        dev, hr_image_params(.w = t->w, .h = t->h, .c = t->c, .dtype = t->dtype,
                             .layout = t->layout, .memory = memory));
}

static struct hr_sample sample_of(const struct want *t, hr_image out)
{
    return test_sample(&files[t->kind], t->ops, t->num_ops, .out = out);
}

static void make_wants(void)
{
    auto_device cpu = test_device("cpu", 1, 0);

    for (int i = 0; i < N; i++) {
        struct want *t = &wants[i];
        struct hr_sample s;
        auto_image out = NULL;
        hr_job job;

        make_want(t, i);
        out = image_of(cpu, t, HR_MEMORY_HOST);
        s = sample_of(t, out);
        job = hr_submit(cpu, &s, 1, NULL, NULL);
        if (hr_job_wait(job, HR_FOREVER))
            abort();
        hr_job_release(&job);
        t->size = out->size;
        t->right = malloc(t->size);
        memcpy(t->right, out->params.data, t->size);
    }
}

// One job of them all to such memory; how many are right. Whatever is called
// right must be; without a script all are.
static int run(hr_device dev, enum hr_memory memory, bool calm)
{
    static _Thread_local uint8_t mine[MAX_SIDE * MAX_SIDE * 3 * 4];
    struct hr_sample samples[N];
    hr_image out[N] = {0};
    int n = 0, good = 0, which[N];
    hr_job job;

    for (int i = 0; i < N; i++) {
        if (!(out[n] = image_of(dev, &wants[i], memory)))
            continue;
        which[n] = i;
        samples[n] = sample_of(&wants[i], out[n]);
        n++;
    }
    if (!n)
        return 0;
    job = hr_submit(dev, samples, n, NULL,
                    hr_job_params(.wait_for_room = true,
                                  .on_error = HR_ON_ERROR_ZERO));
    if (hr_job_wait(job, 2 * FAULTS_PATIENCE) == HR_ETIMEDOUT)
        abort();
    for (int i = 0; i < n; i++) {
        const struct want *t = &wants[which[i]];
        enum hr_status status = job->results[i].status;
        bool same;

        if (!status)
            status = hr_image_read(out[i], mine, t->size, 30 * SECOND);
        same = !status && !memcmp(mine, t->right, t->size);
        if (!status && !same)
            fprintf(stderr, "\n%s: memory %d: sample %d is wrong, why %#x\n",
                    faults.label, memory, which[i], job->results[i].why);
        if (calm && (status || job->results[i].fallbacks))
            fprintf(stderr, "\n%s: memory %d: sample %d: why %#x: %s\n",
                    faults.label, memory, which[i], job->results[i].why,
                    job->results[i].message);
        good += same;
        if (!status && !same)
            good = -1000;
    }
    hr_job_release(&job);
    for (int i = 0; i < n; i++)
        hr_image_release(&out[i]);
    return good;
}

static hr_device open_variant(bool discrete, bool gpu, int64_t deadline)
{
    hr_device dev;

    faults_calm();
    faults.ctl.discrete(discrete);
    setenv("HEADRACE_OPENCL_VARIANT", gpu ? "gpu" : "staged", 1);
    dev = faults_open(deadline);
    unsetenv("HEADRACE_OPENCL_VARIANT");
    if (!dev) {
        fprintf(stderr, "open: %s\n", hr_last_error());
        abort();
    }
    snprintf(faults.label, sizeof(faults.label), "%s, %s memory",
             gpu ? "gpu" : "staged", discrete ? "own" : "shared");
    return dev;
}

static void close_device(hr_device *dev, int live)
{
    hr_device_close(dev);
    for (int i = 0; i < 20 && faults.may_leak; i++) {
        if (faults_now().live <= live)
            break;
        test_sleep(100 * TEST_MS);
    }
    faults_check_objects(live);
}

// ---- While all is well ----------------------------------------------------

TEST_CASE(mixed)
{
    for (int v = 0; v < 4; v++) {
        int live = faults_settled();
        hr_device dev = open_variant(v % 2, v / 2, FAULTS_PATIENCE);

        for (int m = 0; m < 9; m++) {
            struct ocl *o = opencl_private(dev);
            uint64_t launches = o->launches, batches = o->batches;

            CHECK(run(dev, (enum hr_memory)(m % 3), true) == N, "%s",
                  faults.label);
            CHECK(o->launches - launches <= 6 * (o->batches - batches),
                  "%s: %d launches in %d batches", faults.label,
                  (int)(o->launches - launches), (int)(o->batches - batches));
        }
        close_device(&dev, live);
    }
}

// Payloads that the device fetches from their source are counted and timed, as
// packed ones are.
TEST_CASE(counted)
{
    enum { ROUNDS = 6 };
    uint64_t up[ROUNDS], runs = 0, before, tasks, bytes = 0;
    int live = faults_settled();
    struct ocl *o;
    hr_device dev;

    for (int i = 0; i < N; i++)
        bytes += wants[i].size;
    hr_profile_times(true);
    dev = open_variant(true, false, FAULTS_PATIENCE);
    o = opencl_private(dev);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t transfers = o->transfers, batches = o->batches;

        before = o->guard.ref.e->meter.bytes_up;
        CHECK(run(dev, HR_MEMORY_PINNED, true) == N, "%s", faults.label);
        up[i] = o->guard.ref.e->meter.bytes_up - before;
        runs = o->transfers - transfers - 2 * (o->batches - batches);
    }
    before = o->guard.ref.e->meter.bytes_down;
    tasks = o->guard.ref.e->meter.tasks;
    CHECK(run(dev, HR_MEMORY_DEVICE, true) == N, "%s", faults.label);
    CHECK(o->guard.ref.e->meter.bytes_down - before == bytes,
          "%llu of %llu bytes",
          (unsigned long long)(o->guard.ref.e->meter.bytes_down - before),
          (unsigned long long)bytes);
    CHECK(o->guard.ref.e->meter.tasks - tasks <= N,
          "copies are no spans of samples");
    CHECK(runs > 0, "nothing was fetched from where it was made");
    // (Weights are sent once.)
    CHECK(up[ROUNDS - 1] > up[1] / 10 * 9, "%llu bytes, then %llu",
          (unsigned long long)up[1], (unsigned long long)up[ROUNDS - 1]);
    close_device(&dev, live);
    hr_profile_times(false);
}

struct delivery_watch {
    struct ocl_delivery *delivery;
    atomic_bool stop;
    int left;  // seen: a batch had ended, and some of its pictures not
};

static void *watch_delivery(void *arg)
{
    struct delivery_watch *w = arg;

    while (!atomic_load(&w->stop)) {
        pthread_mutex_lock(&w->delivery->lock);
        w->left += !w->delivery->batch && w->delivery->left;
        pthread_mutex_unlock(&w->delivery->lock);
        sched_yield();
    }
    return NULL;
}

static uint64_t helpers_ended(hr_device dev)
{
    struct ocl_delivery *d = &opencl_private(dev)->delivery;
    uint64_t n;

    pthread_mutex_lock(&d->lock);
    n = d->helped;
    pthread_mutex_unlock(&d->lock);
    return n;
}

// Where the device has its own memory, more than one thread copies tensors to
// host memory; a batch ends when all of them have.
TEST_CASE(helped)
{
    int64_t end = hr__now() + FAULTS_PATIENCE / 4;
    int live = faults_settled(), runs = 0, most = test_loops(120);
    hr_device dev = open_variant(false, true, FAULTS_PATIENCE);
    struct delivery_watch watch = {.stop = false};
    pthread_t thread;

    CHECK(opencl_private(dev)->delivery.helpers == 0, "%s", faults.label);
    close_device(&dev, live);
    dev = open_variant(true, true, FAULTS_PATIENCE);
    watch.delivery = &opencl_private(dev)->delivery;
    CHECK(watch.delivery->helpers == THREADS / 2, "%s: %d", faults.label,
          watch.delivery->helpers);
    if (pthread_create(&thread, NULL, watch_delivery, &watch))
        abort();
    // A helper that sleeps comes too late for many a batch this small.
    for (; runs < most || (!helpers_ended(dev) && hr__now() < end); runs++)
        CHECK(run(dev, HR_MEMORY_HOST, true) == N, "%s", faults.label);
    atomic_store(&watch.stop, true);
    pthread_join(thread, NULL);
    CHECK(helpers_ended(dev) > 0, "%s: none in %d runs", faults.label, runs);
    CHECK(watch.left == 0, "%s: a batch ended too early", faults.label);
    close_device(&dev, live);
}

// ---- While it is not ------------------------------------------------------

struct runner {
    hr_device dev;
    pthread_t thread;
    int good, runs;
    atomic_bool *stop;
};

static void *keep_running(void *arg)
{
    struct runner *r = arg;

    while (!atomic_load(r->stop)) {
        int good = run(r->dev, (enum hr_memory)(r->runs++ % 3), false);

        r->good += good;
    }
    return NULL;
}

// How many faults came to pass; some calls are rare, and a device that was
// lost may be opening for all of a few rounds: then there are more of them.
static int trouble(hr_device dev, uint64_t *seed, int *rounds)
{
    static const struct {
        int entry;
        enum fault_action action;
        cl_int code;
    } faulty[] = {
        {FAULT_clEnqueueNDRangeKernel, FAULT_FAIL, CL_OUT_OF_RESOURCES},
        {FAULT_clEnqueueWriteBuffer, FAULT_FAIL, CL_OUT_OF_RESOURCES},
        {FAULT_clEnqueueReadBuffer, FAULT_FAIL, CL_OUT_OF_HOST_MEMORY},
        {FAULT_clCreateBuffer, FAULT_FAIL, CL_MEM_OBJECT_ALLOCATION_FAILURE},
        {FAULT_clSetEventCallback, FAULT_EVENT, CL_OUT_OF_RESOURCES},
        {FAULT_clSetEventCallback, FAULT_LATE, 0},
        {FAULT_clSetEventCallback, FAULT_FAIL, CL_OUT_OF_HOST_MEMORY},
        {FAULT_clEnqueueMapBuffer, FAULT_FAIL, CL_MAP_FAILURE},
    };
    int64_t end = hr__now() + FAULTS_PATIENCE / 4;
    struct ocl *o = opencl_private(dev);
    static int kind;
    int hits = 0, i = 0;

    for (; i < *rounds || (!hits && hr__now() < end); i++) {
        int k = kind++ % COUNT(faulty);
        struct fault_rule r = faults_rule(faulty[k].entry,
                                          1 + random_below(seed, 4), false,
                                          faulty[k].action, faulty[k].code);

        faults.ctl.set(&r, 1);
        // Until it has come to pass, and what follows from it begins.
        for (int ms = 0; ms < 100 && !faults_now().hits; ms++)
            test_sleep(TEST_MS);
        test_sleep(random_below(seed, 30) * TEST_MS);
        hits += faults_now().hits > 0;
        faults_calm();
        if (faulty[k].action == FAULT_LATE)
            faults.ctl.release();
        // It shall be used, not rest.
        pthread_mutex_lock(&o->guard.lock);
        hr__guard_worked(&o->guard);
        o->guard.late_calls = 0;
        o->guard.out = false;
        pthread_mutex_unlock(&o->guard.lock);
    }
    *rounds = i;
    return hits;
}

// A device that was lost is opened again, which takes a busy machine long;
// results that are reported as right must be right meanwhile, too.
static int afterwards(hr_device dev, enum hr_memory memory)
{
    int64_t end = hr__now() + FAULTS_PATIENCE;
    int good = run(dev, memory, false);

    while (good >= 0 && good < N && hr__now() < end) {
        test_sleep(SECOND / 4);
        good = run(dev, memory, false);
    }
    return good;
}

TEST_CASE(troubled)
{
    uint64_t seed = test_seed;
    // Each kind of fault thrice, ten times with --long.
    int most = test_loops(getenv("HEADRACE_TEST_LONG") ? 80 : 24);

    for (int v = 0; v < 4; v++) {
        int live = faults_settled(), rounds = most, hits;
        // A driver that stays in a call for longer is left alone, and busy
        // machines open a lost device slowly.
        hr_device dev = open_variant(v % 2, v / 2, 3 * SECOND);
        struct runner runners[THREADS];
        atomic_bool stop = false;
        for (int i = 0; i < THREADS; i++) {
            runners[i] = (struct runner){.dev = dev, .stop = &stop};
            if (pthread_create(&runners[i].thread, NULL, keep_running,
                               &runners[i]))
                abort();
        }
        hits = trouble(dev, &seed, &rounds);
        atomic_store(&stop, true);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(runners[i].thread, NULL);
            CHECK(runners[i].good > 0, "%s: %d good in %d runs", faults.label,
                  runners[i].good, runners[i].runs);
            printf("\n  %s: %d of %d, %d of %d faults", faults.label,
                   runners[i].good, N * runners[i].runs, hits, rounds);
        }
        CHECK(hits > 0, "%s: no fault", faults.label);
        // A call that saw the script just before it ended may be late still.
        faults.ctl.release();
        test_sleep(100 * TEST_MS);
        for (int m = 0; m < 3; m++) {
            int good = afterwards(dev, (enum hr_memory)m);

            CHECK(good == N, "%s, afterwards: %d, memory %d: %s", faults.label,
                  good, m, hr_last_error());
        }
        faults.may_leak = true;
        close_device(&dev, live);
        faults.may_leak = false;
    }
    faults.ctl.discrete(false);
}

// ---- A new program --------------------------------------------------------

static void *release_soon(void *arg)
{
    test_sleep(4 * SECOND);
    faults.ctl.release();
    return arg;
}

// It is completed when there is nothing else to do, and some drivers take
// long: memory that is asked for meanwhile is waited for.
TEST_CASE(memory_meanwhile)
{
    uint8_t bytes[60 * 40 * 3] = {1}, same[sizeof(bytes)] = {0};
    int live = faults_settled();
    pthread_t thread;
    hr_device dev;
    hr_image image;
    hr_job job;

    // Less than the call hangs, and enough for a busy machine's others.
    dev = open_variant(false, false, 2 * SECOND);
    image = hr_image_create(dev, hr_image_params(.w = 60, .h = 40, .c = 3,
                                                 .dtype = HR_U8,
                                                 .memory = HR_MEMORY_DEVICE));
    CHECK(image != NULL, "%s", hr_last_error());
    faults_hang_program(dev);
    job = hr_transfer_begin(hr_transfer_params(.image = image, .from = bytes,
                                               .size = sizeof(bytes)),
                            NULL);
    if (pthread_create(&thread, NULL, release_soon, NULL))
        abort();
    CHECK(run(dev, HR_MEMORY_DEVICE, true) == N, "%s", hr_last_error());
    pthread_join(thread, NULL);
    CHECK(hr_job_wait(job, 30 * SECOND) == HR_OK, "%s", hr_last_error());
    hr_job_release(&job);
    CHECK(hr_image_read(image, same, sizeof(same), 30 * SECOND) == HR_OK &&
              !memcmp(same, bytes, sizeof(same)),
          "%s", hr_last_error());
    hr_image_release(&image);
    close_device(&dev, live);
}

int main(int argc, char **argv)
{
    int failed;

    test_seed = 17;
    make_files();
    make_wants();
    failed = faults_main(HR_FAULT_LIBRARY, argc, argv);
    for (int i = 0; i < N; i++)
        free(wants[i].right);
    for (int i = 0; i < KINDS; i++)
        free(files[i].data);
    return failed;
}
