// SPDX-License-Identifier: Apache-2.0
// Samples that have to wait at the OpenCL engine: in a long queue, and behind a
// driver that completes a new program. Neither is a failure of theirs, and not
// one of the device's.
#include "opencl_faults.h"

enum { JOBS = 16, MANY = 64, W = 40, H = 30, BATCH_MS = 120 };

static hr_job submit(hr_device dev, hr_batch out, const struct bytes *b, int n,
                     const struct hr_job_params *params)
{
    static const struct hr_op ops[] = {hr_op_decode(0),
                                       hr_op_resize(.w = W, .h = H)};
    struct hr_sample s[MANY];
    hr_job job;

    for (int i = 0; i < n; i++)
        s[i] = test_sample(b, ops, 2);
    job = hr_submit(dev, s, n, out, params);
    CHECK(job != NULL, "%s", hr_last_error());
    if (!job)
        abort();
    return job;
}

// How many of its samples the device made. Waits, and lets the job go.
static int made(hr_job job, unsigned *why)
{
    enum hr_status status = hr_job_wait(job, 60 * SECOND);
    int n = 0;

    CHECK(status == HR_OK, "%s", job->results[job->num_samples - 1].message);
    // (What comes next frees the memory that such a job still reads.)
    if (hr_job_poll(job, 0) == HR_PENDING)
        abort();
    for (int i = 0; i < job->num_samples; i++) {
        const struct hr_result *r = &job->results[i];

        *why |= r->why;
        for (int k = 0; k < r->num_spans; k++)
            n += !strncmp(r->spans[k].device, "opencl", 6);
    }
    hr_job_release(&job);
    return n;
}

static hr_batch make_batch(hr_device dev, int n)
{
    return hr_batch_create(dev, hr_batch_params(.n = n, .c = 3, .h = H, .w = W,
                                                .dtype = HR_U8));
}

// ---- A long queue ----------------------------------------------------------

static atomic_bool stop_letting;
static atomic_int let;

static void *let_go_on(void *arg)
{
    while (!atomic_load(&stop_letting)) {
        test_sleep(BATCH_MS * TEST_MS);
        atomic_fetch_add(&let, faults_now().hung);
        faults.ctl.release();
    }
    return arg;
}

// The one call that is made once for each batch hangs until the next time that
// something is let go: no batch takes longer than it may, but all of them do.
TEST_CASE(slow_device)
{
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg(96, 64, &seed);
    struct fault_rule slow = {FAULT_clSetEventCallback, 1, 0, FAULT_HANG, 0};
    int live = faults_settled(), n = 0, took;
    hr_batch out[JOBS];
    struct hr_stats stats;
    hr_job jobs[JOBS];
    unsigned why = 0;
    pthread_t thread;
    hr_device dev;
    int64_t begin;

    snprintf(faults.label, sizeof(faults.label), "a slow device");
    faults_calm();
    dev = faults_open(900 * TEST_MS);
    CHECK(dev != NULL, "%s", hr_last_error());
    atomic_store(&stop_letting, false);
    faults.ctl.set(&slow, 1);
    if (!dev || pthread_create(&thread, NULL, let_go_on, NULL))
        abort();
    begin = hr__now();
    for (int i = 0; i < JOBS; i++) {
        out[i] = make_batch(dev, MANY);
        jobs[i] = submit(dev, out[i], &b, MANY,
                         hr_job_params(.strict = true, .wait_for_room = true));
    }
    for (int i = 0; i < JOBS; i++)
        n += made(jobs[i], &why);
    took = (int)((hr__now() - begin) / TEST_MS);
    CHECK(n == JOBS * MANY && !why, "%d of %d on the device, why %#x", n,
          JOBS * MANY, why);
    hr_device_stats(dev, &stats);
    CHECK(!stats.abandoned, "%d given up", (int)stats.abandoned);
    atomic_store(&stop_letting, true);
    pthread_join(thread, NULL);
    faults_calm();
    faults.ctl.release();
    CHECK(atomic_load(&let) >= JOBS && took > 1000, "%d batches waited, %d ms",
          atomic_load(&let), took);
    for (int i = 0; i < JOBS; i++)
        hr_batch_destroy(&out[i]);
    hr_device_close(&dev);
    faults_check_objects(live);
}

// Three batches are at the device, which ends one after the other: each in the
// time that it has, the last one later than that after it was sent.
TEST_CASE(batches_in_turn)
{
    const int64_t each = 500 * TEST_MS, deadline = 1200 * TEST_MS;
    struct fault_rule late = {FAULT_clSetEventCallback, 1, 0, FAULT_LATE, 0};
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg(96, 64, &seed);
    int live = faults_settled(), n = 0;
    hr_batch out[OCL_BATCHES];
    hr_job jobs[OCL_BATCHES];
    struct hr_stats stats;
    unsigned why = 0;
    hr_device dev;

    snprintf(faults.label, sizeof(faults.label), "batches in turn");
    faults_calm();
    dev = faults_open(deadline);
    CHECK(dev != NULL, "%s", hr_last_error());
    if (!dev)
        return;
    faults.ctl.set(&late, 1);
    for (int i = 0; i < OCL_BATCHES; i++) {
        out[i] = make_batch(dev, OCL_LIST);
        jobs[i] = submit(dev, out[i], &b, OCL_LIST,
                         hr_job_params(.strict = true, .wait_for_room = true));
        // One batch each.
        for (int k = 0; k < 6000 && faults_now().hung <= i; k++)
            test_sleep(TEST_MS / 10);
    }
    CHECK(faults_now().hung == OCL_BATCHES, "%d wait", faults_now().hung);
    for (int i = 0; i < OCL_BATCHES; i++) {
        test_sleep(each);
        faults.ctl.release_one();
    }
    faults_calm();
    faults.ctl.release();
    for (int i = 0; i < OCL_BATCHES; i++)
        n += made(jobs[i], &why);
    CHECK(n == OCL_BATCHES * OCL_LIST && !why, "%d on the device, why %#x", n,
          why);
    hr_device_stats(dev, &stats);
    CHECK(!stats.abandoned, "%d given up", (int)stats.abandoned);
    for (int i = 0; i < OCL_BATCHES; i++)
        hr_batch_destroy(&out[i]);
    hr_device_close(&dev);
    faults_check_objects(live);
}

// ---- Given up on the way ---------------------------------------------------

// No batch is at the device, and the next one takes the first.
static void wait_for_all(struct ocl *o)
{
    bool all = false;

    for (int i = 0; i < 60000 && !all; i++) {
        if (i)
            test_sleep(TEST_MS);
        all = true;
        pthread_mutex_lock(&o->guard.lock);
        for (int k = 0; k < OCL_BATCHES; k++)
            all &= o->batch[k].state == OCL_FREE;
        pthread_mutex_unlock(&o->guard.lock);
    }
    CHECK(all, "a batch does not come back");
}

static void wait_for_hung(void)
{
    for (int i = 0; i < 60000 && !faults_now().hung; i++)
        test_sleep(TEST_MS);
    CHECK(faults_now().hung == 1, "%d calls wait", faults_now().hung);
}

static void wait_for_queue(struct ocl *o, int n)
{
    int queued = 0;

    for (int i = 0; i < 60000 && queued < n; i++) {
        if (i)
            test_sleep(TEST_MS);
        queued = 0;
        pthread_mutex_lock(&o->guard.lock);
        for (const struct hr__task *t = o->guard.head; t; t = t->next)
            queued++;
        pthread_mutex_unlock(&o->guard.lock);
    }
    CHECK(queued == n, "%d of %d in the queue", queued, n);
}

// The job's first n tasks in the batch that the driver thread has are overdue;
// how many others it has. *views: its pictures that another one of it decodes.
static int make_overdue(struct ocl *o, hr_job job, int n, int *views)
{
    const struct ocl_batch *batch;
    int others = 0;

    *views = 0;
    pthread_mutex_lock(&o->guard.lock);
    batch = ocl_batch_find(o, OCL_BUSY);
    for (int i = 0; batch && i < batch->num_items; i++) {
        struct hr__work *w = hr__work_of(batch->items[i].task);

        *views += batch->items[i].lead > 0;
        if (&w->job->pub == job && n-- > 0)
            atomic_store(&w->latest, 1);
        else
            others++;
    }
    pthread_mutex_unlock(&o->guard.lock);
    return others;
}

static struct {
    struct ocl *o;
    struct bytes small, large;
    hr_batch out[3];  // of the jobs
    hr_job jobs[3];
} meanwhile;

enum { GIVEN_UP = 16 };

static void begin_job(hr_device dev, int i)
{
    const struct bytes *b = i == 1 ? &meanwhile.large : &meanwhile.small;

    meanwhile.jobs[i] = submit(dev, meanwhile.out[i], b, i == 1 ? GIVEN_UP : 1,
                               NULL);
}

static void end_job(int i, int by_device, unsigned reason)
{
    unsigned why = 0;
    int n = made(meanwhile.jobs[i], &why);

    CHECK(n == by_device && why == reason, "job %d: %d made, why %#x", i, n,
          why);
}

// The work groups of one small picture. Twice, for the buffers.
static size_t groups_of_one(hr_device dev)
{
    for (int i = 0; i < 2; i++) {
        wait_for_all(meanwhile.o);
        faults_calm();
        begin_job(dev, 2);
        end_job(2, 1, 0);
    }
    wait_for_all(meanwhile.o);
    CHECK(faults_now().groups > 0 && !faults_now().calls[FAULT_clCreateBuffer],
          "%zu groups, %d buffers", faults_now().groups,
          faults_now().calls[FAULT_clCreateBuffer]);
    return faults_now().groups;
}

// Behind a picture that is held many large ones and a small one gather for one
// batch, and it is held in its turn, before they are packed.
static void gather(hr_device dev)
{
    const struct fault_rule hold[] = {
        {FAULT_clEnqueueNDRangeKernel, 1, 1, FAULT_HANG, 0},
        {FAULT_clCreateBuffer, 1, 1, FAULT_HANG, 0},
    };

    faults.ctl.set(hold, 2);
    begin_job(dev, 0);
    wait_for_hung();
    begin_job(dev, 1);
    begin_job(dev, 2);
    wait_for_queue(meanwhile.o, GIVEN_UP + 1);
    faults.ctl.release_one();
    end_job(0, 1, 0);
    wait_for_hung();
}

static hr_device begin_meanwhile(const char *label, int w, int h,
                                 uint64_t *seed)
{
    hr_device dev;

    snprintf(faults.label, sizeof(faults.label), "%s", label);
    faults_calm();
    dev = faults_open(FAULTS_PATIENCE);
    CHECK(dev != NULL, "%s", hr_last_error());
    if (!dev)
        abort();
    meanwhile.o = opencl_private(dev);
    meanwhile.small = test_jpeg(96, 64, seed);
    meanwhile.large = test_jpeg(w, h, seed);
    for (int i = 0; i < 3; i++)
        meanwhile.out[i] = make_batch(dev, i == 1 ? GIVEN_UP : 1);
    return dev;
}

static void end_meanwhile(hr_device *dev, int live)
{
    for (int i = 0; i < 3; i++)
        hr_batch_destroy(&meanwhile.out[i]);
    hr_device_close(dev);
    faults_check_objects(live);
    free(meanwhile.small.data);
    free(meanwhile.large.data);
}

// The driver takes long over the buffers of a batch, and most of its samples
// are given up meanwhile. The upload has stale bytes at their places: no kernel
// reads them, and the remaining sample is made.
TEST_CASE(given_up_meanwhile)
{
    uint64_t seed = test_seed;
    int live = faults_settled(), views;
    struct hr_stats stats;
    hr_device dev;
    size_t groups;

    dev = begin_meanwhile("given up meanwhile", 600, 400, &seed);
    groups = groups_of_one(dev);
    gather(dev);
    CHECK(make_overdue(meanwhile.o, meanwhile.jobs[1], GIVEN_UP, &views) == 1,
          "not one batch");
    CHECK(!views, "%d views", views);
    end_job(1, 0, HR_WHY_TIMEOUT);
    faults_calm();  // counts from here on
    faults.ctl.release();
    end_job(2, 1, 0);
    wait_for_all(meanwhile.o);
    CHECK(faults_now().groups == groups, "%zu groups for one picture, not %zu",
          faults_now().groups, groups);
    CHECK(!memcmp(meanwhile.out[0]->params.data, meanwhile.out[2]->params.data,
                  meanwhile.out[0]->size),
          "other pixels");
    hr_device_stats(dev, &stats);
    CHECK(stats.abandoned == GIVEN_UP, "%d given up", (int)stats.abandoned);
    end_meanwhile(&dev, live);
}

static void wait_for_abandoned(hr_device dev, int n)
{
    struct hr_stats stats = {0};

    for (int i = 0; i < 60000 && (int)stats.abandoned < n; i++) {
        if (i)
            test_sleep(TEST_MS);
        hr_device_stats(dev, &stats);
    }
    CHECK((int)stats.abandoned == n, "%d given up", (int)stats.abandoned);
}

// The one that shall decode a file for all its views is given up meanwhile:
// nothing has written the pixels that the others resample, so the CPU makes
// them, too.
TEST_CASE(views_lose_their_first)
{
    uint64_t seed = test_seed;
    int live = faults_settled(), views;
    auto_device cpu = test_device("cpu", 1, 0);
    hr_batch right = make_batch(cpu, GIVEN_UP);
    hr_device dev;
    unsigned why = 0;

    setenv("HEADRACE_OPENCL_ENTROPY", "device", 1);
    dev = begin_meanwhile("views lose their first", 1800, 1200, &seed);
    unsetenv("HEADRACE_OPENCL_ENTROPY");
    groups_of_one(dev);
    gather(dev);
    CHECK(make_overdue(meanwhile.o, meanwhile.jobs[1], 1, &views) == GIVEN_UP,
          "not one batch");
    CHECK(views == GIVEN_UP - 1, "%d views", views);
    wait_for_abandoned(dev, 1);
    faults_calm();
    faults.ctl.release();
    end_job(1, 0, HR_WHY_TIMEOUT);
    end_job(2, 1, 0);
    wait_for_all(meanwhile.o);
    made(submit(cpu, right, &meanwhile.large, GIVEN_UP, NULL), &why);
    CHECK(!memcmp(meanwhile.out[1]->params.data, right->params.data,
                  right->size),
          "other pixels");
    hr_batch_destroy(&right);
    end_meanwhile(&dev, live);
}

// ---- A new program ---------------------------------------------------------

// A device whose driver completes its program, and does not come to an end
// before it is let go. NULL: the case is over.
static hr_device open_completing(int64_t deadline)
{
    hr_device dev;

    faults_calm();
    dev = faults_open(deadline);
    CHECK(dev != NULL, "%s", hr_last_error());
    if (dev)
        faults_hang_program(dev);
    return dev;
}

static void *release_later(void *ns)
{
    test_sleep(*(int64_t *)ns);
    faults.ctl.release();
    return NULL;
}

static void end_completing(hr_device *dev, int live)
{
    faults.ctl.release();
    faults_calm();
    hr_device_close(dev);
    faults_check_objects(live);
}

// A strict job cannot go on elsewhere, so it waits, for up to twice the
// deadline; a busy machine has that time for four small pictures.
TEST_CASE(strict_waits)
{
    int64_t later = 4000 * TEST_MS;
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg(96, 64, &seed);
    int live = faults_settled();
    hr_device dev = open_completing(2000 * TEST_MS);
    unsigned why = 0;
    pthread_t thread;
    hr_batch out;

    snprintf(faults.label, sizeof(faults.label), "strict");
    if (!dev || pthread_create(&thread, NULL, release_later, &later))
        abort();
    out = make_batch(dev, 4);
    CHECK(made(submit(dev, out, &b, 4, hr_job_params(.strict = true)), &why) ==
                  4 &&
              !why,
          "why %#x", why);
    pthread_join(thread, NULL);
    hr_batch_destroy(&out);
    end_completing(&dev, live);
}

// A job with a time limit does not wait for the driver.
TEST_CASE(timed_leaves)
{
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg(96, 64, &seed);
    int live = faults_settled();
    hr_device dev = open_completing(0);
    unsigned why = 0;
    hr_batch out;

    snprintf(faults.label, sizeof(faults.label), "with a time limit");
    if (!dev)
        abort();
    out = make_batch(dev, 4);
    CHECK(made(submit(dev, out, &b, 4, hr_job_params(.timeout_ns = 4 * SECOND)),
               &why) == 0 &&
              why == HR_WHY_TIMEOUT,
          "why %#x", why);
    hr_batch_destroy(&out);
    end_completing(&dev, live);
}

// However many have given it up meanwhile, afterwards the device is used.
TEST_CASE(no_strikes)
{
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg(96, 64, &seed);
    int live = faults_settled();
    // In that time a busy machine must be able to make the last job.
    hr_device dev = open_completing(2000 * TEST_MS);
    unsigned why = 0;
    hr_batch out;

    snprintf(faults.label, sizeof(faults.label), "no strikes");
    if (!dev)
        abort();
    out = make_batch(dev, 4);
    for (int i = 0; i < 5; i++)
        CHECK(made(submit(dev, out, &b, 4, NULL), &why) == 0, "job %d", i);
    CHECK(!(why & HR_WHY_BREAKER), "why %#x", why);
    faults.ctl.release();
    faults_calm();
    why = 0;
    CHECK(made(submit(dev, out, &b, 4, hr_job_params(.strict = true)), &why) ==
                  4 &&
              !why,
          "why %#x", why);
    hr_batch_destroy(&out);
    end_completing(&dev, live);
}

// ---- The log ---------------------------------------------------------------

static struct {
    _Atomic(struct ocl *) o;
    atomic_int lines, held;
} said;

static void on_log(void *ctx, enum hr_log_level level, const char *text)
{
    struct ocl *o = atomic_load(&said.o);

    (void)ctx;
    (void)level;
    if (!o || !strstr(text, "a batch failed"))
        return;
    atomic_fetch_add(&said.lines, 1);
    atomic_fetch_add(&said.held, test_is_held(&o->guard.ref.lock) +
                                     test_is_held(&o->guard.lock));
}

// The user's function is called without a lock.
TEST_CASE(log_without_locks)
{
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg(96, 64, &seed);
    int live = faults_settled();
    unsigned why = 0;
    hr_device dev;
    hr_batch out;

    faults_calm();
    dev = hr_device_open("opencl",
                         hr_device_params(.threads = 2, .log = on_log));
    CHECK(dev != NULL, "%s", hr_last_error());
    if (!dev)
        abort();
    atomic_store(&said.o, ocl_of(((struct hr__device *)dev)->engines[0]));
    out = make_batch(dev, 4);
    faults_set(FAULT_clEnqueueNDRangeKernel, 1, false, CL_OUT_OF_HOST_MEMORY);
    CHECK(made(submit(dev, out, &b, 4, NULL), &why) == 0 && why & HR_WHY_MEMORY,
          "why %#x", why);
    CHECK(atomic_load(&said.lines) > 0 && !atomic_load(&said.held),
          "%d locks held in %d lines", atomic_load(&said.held),
          atomic_load(&said.lines));
    atomic_store(&said.o, NULL);
    faults_calm();
    hr_batch_destroy(&out);
    hr_device_close(&dev);
    faults_check_objects(live);
}

// ---- While a device is slow ------------------------------------------------

static int calls_so_far(void)
{
    struct fault_counts c = faults_now();
    int n = 0;

    for (int i = 0; i < FAULT_ENTRIES; i++)
        n += c.calls[i];
    return n;
}

// CPU time of the engine's threads, ns.
static int64_t own_time(struct ocl *o)
{
    const pthread_t threads[] = {o->guard.threads[0].id, o->guard.clock_thread};
    int64_t sum = 0;

    for (int i = 0; i < 2; i++) {
        struct timespec t = {0};
        clockid_t clock;

        if (pthread_getcpuclockid(threads[i], &clock) ||
            clock_gettime(clock, &t))
            abort();
        sum += (int64_t)t.tv_sec * SECOND + t.tv_nsec;
    }
    return sum;
}

// As many batches as there may be, and one more, which has no room until the
// first is let go.
enum { SLOW = OCL_BATCHES + 1, QUIET = 8, CALLS = 60 };

// The device has all that it may have, and answers nothing: the engine asks
// nothing, and its threads sleep. All calls together are few for each batch.
TEST_CASE(no_thread_spins)
{
    struct fault_rule late = {FAULT_clSetEventCallback, 1, 0, FAULT_LATE, 0};
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg(96, 64, &seed);
    int live = faults_settled(), n = 0, calls;
    hr_batch out[SLOW];
    hr_job jobs[SLOW];
    int64_t cpu, least = SECOND;
    int asked, fewest = SLOW * CALLS;
    unsigned why = 0;
    struct ocl *o;
    hr_device dev;

    snprintf(faults.label, sizeof(faults.label), "no thread spins");
    faults_calm();
    if (!(dev = faults_open(FAULTS_PATIENCE)))
        abort();
    o = opencl_private(dev);
    faults.ctl.set(&late, 1);
    for (int i = 0; i < SLOW; i++) {
        out[i] = make_batch(dev, OCL_LIST);
        jobs[i] = submit(dev, out[i], &b, OCL_LIST,
                         hr_job_params(.strict = true, .wait_for_room = true));
        // One batch each, and the last one waits.
        if (i < OCL_BATCHES)
            while (faults_now().hung <= i && calls_so_far() < SLOW * CALLS)
                test_sleep(TEST_MS);
        else if (calls_so_far() < SLOW * CALLS)
            wait_for_queue(o, OCL_LIST);
    }
    // (What is still being done at first is no waiting.)
    for (int i = 0; i < QUIET; i++) {
        asked = calls_so_far();
        cpu = own_time(o);
        test_sleep(20 * TEST_MS);
        cpu = own_time(o) - cpu;
        asked = calls_so_far() - asked;
        least = cpu < least ? cpu : least;
        fewest = asked < fewest ? asked : fewest;
    }
    CHECK(fewest == 0, "%d calls while nothing happens", fewest);
    CHECK(least < 2 * TEST_MS, "%d us of CPU in 20 ms of waiting",
          (int)(least / 1000));
    for (int i = 0; i < SLOW; i++) {
        while (hr_job_poll(jobs[i], 0) == HR_PENDING) {
            faults.ctl.release_one();
            test_sleep(TEST_MS);
        }
        n += made(jobs[i], &why);
    }
    calls = calls_so_far();
    CHECK(n == SLOW * OCL_LIST && !why, "%d on the device, why %#x", n, why);
    CHECK(calls <= SLOW * CALLS, "%d calls for %d batches", calls, SLOW);
    printf("\n  %d calls for each batch, %d us of CPU in 20 ms of waiting ",
           calls / SLOW, (int)(least / 1000));
    faults_calm();
    for (int i = 0; i < SLOW; i++)
        hr_batch_destroy(&out[i]);
    hr_device_close(&dev);
    faults_check_objects(live);
}

FAULTS_MAIN
