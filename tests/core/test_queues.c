// SPDX-License-Identifier: Apache-2.0
// Long queues: no stack grows with them, a turn costs the same however many
// wait, and nothing of the user's runs inside the call that begins a job.
#include "scene.h"

enum { SIDE = 16, BYTES = SIDE * SIDE * 3, QUEUE = 10000, SMALL = 256 << 10 };
enum { BUDGET = 64 << 20 };  // of some 10,000 writers

// (A sanitizer's frames are larger.)
static size_t small_stack(void)
{
    return TEST_SANITIZED ? (size_t)8 * SMALL : SMALL;
}

static void on_small_stack(void *(*run)(void *arg), void *arg)
{
    pthread_attr_t attr;
    pthread_t thread;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, small_stack());
    CHECK(!pthread_create(&thread, &attr, run, arg), "no thread");
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
}

static hr_image in_memory(hr_device dev, enum hr_memory memory)
{
    hr_image image = hr_image_create(
        dev, hr_image_params(.w = SIDE, .h = SIDE, .c = 3, .dtype = HR_U8,
                             .layout = HR_NHWC, .memory = memory));

    if (!image)
        abort();
    return image;
}

// ---- Writers behind a slow one --------------------------------------------

struct counter {
    atomic_int calls, failed, elsewhere;
};

static void count(void *ctx, const struct hr_job_t *job)
{
    struct counter *c = ctx;

    atomic_fetch_add(&c->failed, hr_job_poll(job, 0) != HR_OK);
    atomic_fetch_add(&c->elsewhere, !hr__on_library_thread());
    atomic_fetch_add(&c->calls, 1);
}

static void *open_gate(void *arg)
{
    struct hr_stats stats;

    // Till no more of them find room.
    do {
        test_sleep(TEST_MS);
        hr_device_stats(arg, &stats);
    } while (stats.peak_bytes < 3 * BUDGET / 4 - 2 * SMALL);
    fake_gate_open();
    return arg;
}

static hr_job begin_read(hr_image image, void *to,
                         const struct hr_job_params *params)
{
    return hr_transfer_begin(
        hr_transfer_params(.image = image, .to = to, .size = BYTES), params);
}

// n writers queue behind a sample that waits at the gate, as many as the budget
// has room for; the others come when those are through.
static void queue_writers(hr_device dev, hr_image image, int n)
{
    struct counter c = {0};
    auto_image from = scene_blank(dev, SIDE);
    hr_job slow = scene_copy(dev, from, image, NULL), job;
    uint8_t a[BYTES], b[BYTES], got[BYTES];
    pthread_t opener;

    memset(a, 1, BYTES);
    memset(b, 2, BYTES);
    if (pthread_create(&opener, NULL, open_gate, (void *)dev))
        abort();
    for (int i = 0; i < n; i++) {
        job = hr_transfer_begin(
            hr_transfer_params(.image = image, .from = i + 1 < n ? a : b,
                               .size = BYTES),
            hr_job_params(.on_done = count, .ctx = &c, .wait_for_room = true));
        if (!job)
            CHECK(job, "writer %d: %s", i, hr_last_error());
        hr_job_release(&job);
    }
    pthread_join(opener, NULL);
    CHECK(hr_wait_all(dev, HR_FOREVER) == HR_OK, "%s", hr_last_error());
    CHECK(atomic_load(&c.calls) == n && atomic_load(&c.failed) == 0 &&
              atomic_load(&c.elsewhere) == 0,
          "%d of %d called, %d failed, %d on a thread of the user's",
          atomic_load(&c.calls), n, atomic_load(&c.failed),
          atomic_load(&c.elsewhere));
    CHECK(hr_image_read(image, got, BYTES, HR_FOREVER) == HR_OK &&
              !memcmp(got, b, BYTES),
          "the last one's bytes stay");
    CHECK(hr_job_wait(slow, HR_FOREVER) == HR_OK, "the slow one");
    hr_job_release(&slow);
}

TEST_CASE(many_writers)
{
    auto_device dev = NULL;
    auto_image image = NULL;
    struct hr_stats stats;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .gate = true);
    dev = test_device("fake", 2, BUDGET);
    image = scene_blank(dev, SIDE);
    queue_writers(dev, image, 10 * QUEUE);
    hr_device_stats(dev, &stats);
    CHECK(stats.peak_bytes <= BUDGET, "%zu bytes of %d", stats.peak_bytes,
          (int)BUDGET);
}

// Writes the image, and takes about a second for it.
static hr_job write_slowly(hr_device dev, hr_image image)
{
    const int side = TEST_SANITIZED ? 1500 : 6000;
    const struct hr_op ops[] = {hr_op_resize(.w = side, .h = side),
                                hr_op_resize(.w = side - 100, .h = side),
                                hr_op_resize(.w = side, .h = side),
                                hr_op_resize(.w = SIDE, .h = SIDE)};
    auto_image from = scene_blank(dev, SIDE);
    struct hr_sample s = {.image = from, .ops = ops, .num_ops = 4, .out = image};
    hr_job job = hr_submit(dev, &s, 1, NULL, NULL);

    CHECK(job, "%s", hr_last_error());
    return job;
}

// The engine ends each copy before its copy() returns, and that one makes the
// next one ready.
TEST_CASE(many_writers_of_device_memory)
{
    uint8_t a[BYTES] = {0};
    struct counter c = {0};
    int n = test_loops(QUEUE);
    hr_job slow, job;
    auto_device dev = NULL;
    auto_image image = NULL;

    fake_begin(.where = FAKE_INSIDE, .spans = FAKE_ALL(0), .memory = true);
    dev = test_device("fake", 2, (size_t)4 << 30);
    image = in_memory(dev, HR_MEMORY_DEVICE);
    slow = write_slowly(dev, image);
    for (int i = 0; i < n; i++) {
        job = hr_transfer_begin(hr_transfer_params(.image = image, .from = a,
                                                   .size = BYTES),
                                hr_job_params(.on_done = count, .ctx = &c));
        hr_job_release(&job);
    }
    printf("\n  %d of %d waited ", n - atomic_load(&c.calls), n);
    CHECK(hr_wait_all(dev, HR_FOREVER) == HR_OK, "%s", hr_last_error());
    CHECK(slow && hr_job_poll(slow, 0) == HR_OK, "the slow one");
    CHECK(atomic_load(&c.calls) == n && !atomic_load(&c.failed),
          "%d called, %d failed", atomic_load(&c.calls),
          atomic_load(&c.failed));
    hr_job_release(&slow);
}

// ---- Each begins the next -------------------------------------------------

struct chain {
    hr_image image;
    uint8_t to[BYTES];
    int left;  // only callbacks touch it, one at a time
    atomic_int over, elsewhere;
};

static void read_next(void *ctx, const struct hr_job_t *job)
{
    struct chain *c = ctx;
    auto_job next = NULL;

    (void)job;
    if (!hr__on_library_thread())
        atomic_store(&c->elsewhere, 1);
    if (c->left-- == 0) {
        atomic_store(&c->over, 1);
        return;
    }
    next = begin_read(c->image, c->to,
                      hr_job_params(.on_done = read_next, .ctx = c));
}

static void *begin_chain(void *arg)
{
    read_next(arg, NULL);
    return NULL;
}

TEST_CASE(reader_after_reader)
{
    auto_device dev = test_device("cpu", 1, 0);
    struct chain c = {.image = scene_blank(dev, SIDE),
                      .left = test_loops(QUEUE)};

    on_small_stack(begin_chain, &c);
    CHECK(test_reaches(&c.over, 1), "the chain stopped");
    hr_wait_all(dev, HR_FOREVER);
    hr_image_release(&c.image);
}

// ---- Whose thread ---------------------------------------------------------

struct locked {
    pthread_mutex_t lock;
    atomic_int calls, free, on_library;
};

static void take_lock(void *ctx, const struct hr_job_t *job)
{
    struct locked *l = ctx;

    (void)job;
    atomic_fetch_add(&l->on_library, hr__on_library_thread());
    if (!pthread_mutex_trylock(&l->lock)) {
        pthread_mutex_unlock(&l->lock);
        atomic_fetch_add(&l->free, 1);
    }
    atomic_fetch_add(&l->calls, 1);
}

// The caller holds a lock of its own in the call; the callback takes it.
TEST_CASE(callbacks_are_elsewhere)
{
    auto_device dev = test_device("cpu", 1, 0);
    auto_image image = scene_blank(dev, SIDE);
    auto_batch batch = hr_batch_create(
        dev, hr_batch_params(.n = 2, .c = 3, .h = SIDE, .w = SIDE,
                             .dtype = HR_U8, .layout = HR_NHWC));
    struct locked l = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct hr_job_params p = {.on_done = take_lock, .ctx = &l};
    uint8_t bytes[2 * BYTES] = {0};
    const struct hr_transfer_params what[] = {
        {.image = image, .to = bytes, .size = BYTES},
        {.image = image, .from = bytes, .size = BYTES},
        {.batch = batch, .n = 2, .to = bytes, .size = 2 * BYTES},
    };

    for (int i = 0; i < 3; i++) {
        auto_job job = NULL;
        int before = atomic_load(&l.calls);

        pthread_mutex_lock(&l.lock);
        job = hr_transfer_begin(&what[i], &p);
        CHECK(job, "%d: %s", i, hr_last_error());
        // (A worker may have called back by now; it found the lock taken.)
        CHECK(atomic_load(&l.on_library) == atomic_load(&l.calls),
              "%d: called back on the caller's thread", i);
        pthread_mutex_unlock(&l.lock);
        CHECK(hr_job_wait(job, HR_FOREVER) == HR_OK, "%d", i);
        CHECK(atomic_load(&l.calls) == before + 1, "%d calls", i);
    }
}

struct blocker {
    atomic_int in, out;
    atomic_bool free;
};

static void block(void *ctx, const struct hr_job_t *job)
{
    struct blocker *b = ctx;

    (void)job;
    atomic_fetch_add(&b->in, 1);
    while (!atomic_load(&b->free))
        test_sleep(TEST_MS);
    atomic_fetch_add(&b->out, 1);
}

// One callback does not come back for long. Others wait behind it, and nothing
// else does: neither pictures, nor deadlines, nor the end of cancelled jobs.
TEST_CASE(slow_callback)
{
    auto_device dev = NULL;
    auto_image a = NULL, b = NULL, c = NULL;
    struct blocker blocker = {0};
    struct hr_job_params calls = {.on_done = block, .ctx = &blocker};
    struct hr_job_params timed = {.timeout_ns = 50 * TEST_MS};
    auto_job first = NULL, second = NULL, third = NULL, slow = NULL,
             hung = NULL;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .gate = true);
    dev = test_device("fake", 1, 0);
    a = scene_blank(dev, SIDE);
    b = scene_blank(dev, SIDE);
    c = scene_blank(dev, SIDE);
    first = begin_read(a, (uint8_t[BYTES]){0}, &calls);
    CHECK(first && test_reaches(&blocker.in, 1), "not called");
    CHECK(hr_job_poll(first, 0) == HR_PENDING, "done before its callback");
    second = begin_read(a, (uint8_t[BYTES]){0}, &calls);
    third = begin_read(a, (uint8_t[BYTES]){0}, NULL);
    CHECK(hr_job_wait(third, 60000 * TEST_MS) == HR_OK,
          "the third, without a callback");
    slow = scene_copy(dev, b, c, NULL);
    hung = begin_read(c, (uint8_t[BYTES]){0}, &timed);
    CHECK(hr_job_wait(hung, 60000 * TEST_MS) == HR_ETIMEDOUT, "its clock");
    CHECK(hr_job_poll(hung, 0) == HR_ETIMEDOUT, "it has ended by that");
    CHECK(hr_job_poll(second, 0) == HR_PENDING && atomic_load(&blocker.in) == 1,
          "callbacks come one after the other");
    atomic_store(&blocker.free, true);
    CHECK(hr_job_wait(second, HR_FOREVER) == HR_OK, "%s", hr_last_error());
    CHECK(atomic_load(&blocker.out) == 2 && hr_job_poll(first, 0) == HR_OK,
          "both were called");
    fake_gate_open();
    CHECK(hr_job_wait(slow, HR_FOREVER) == HR_OK, "%s", hr_last_error());
}

// A reader whose image has failed ends like every other.
TEST_CASE(failed_input)
{
    auto_device dev = test_device("cpu", 1, 0);
    auto_image image = scene_blank(dev, SIDE);
    const struct hr_op op = hr_op_decode(0);
    struct hr_sample s = {.data = "no picture",
                          .size = 10,
                          .ops = &op,
                          .num_ops = 1,
                          .out = image};
    struct locked l = {.lock = PTHREAD_MUTEX_INITIALIZER};
    hr_job job = hr_submit(dev, &s, 1, NULL, NULL);
    uint8_t bytes[BYTES];

    CHECK(job && hr_job_wait(job, HR_FOREVER) == HR_EFORMAT, "made");
    hr_job_release(&job);
    job = begin_read(image, bytes,
                     hr_job_params(.on_done = take_lock, .ctx = &l));
    CHECK(job && hr_job_wait(job, HR_FOREVER) == HR_EINPUT, "read");
    CHECK(job->results[0].stage == HR_STORE, "stage %d", job->results[0].stage);
    CHECK(atomic_load(&l.on_library) == 1, "on the caller's thread");
    hr_job_release(&job);
    CHECK(hr_image_read(image, bytes, BYTES, HR_FOREVER) == HR_EINPUT, "sync");
}

// ---- Fire and forget ------------------------------------------------------

static atomic_int forgotten;

// Gives up the caller's reference, the only one that it has.
static void forget(void *ctx, const struct hr_job_t *job)
{
    hr_job mine = job;

    (void)ctx;
    hr_job_release(&mine);
    atomic_fetch_add(&forgotten, 1);
}

// The call that begins the job still needs it when the engine ends it at once:
// without a pool a sanitizer sees what is used after its end.
TEST_CASE(forgotten_jobs)
{
    uint8_t bytes[BYTES];
    auto_image image = NULL;
    auto_device dev = NULL;
    int n = test_loops(2000);

    fake_begin(.where = FAKE_INSIDE, .memory = true);
    dev = test_device("fake", 2, 1);
    image = in_memory(dev, HR_MEMORY_DEVICE);
    atomic_store(&forgotten, 0);
    CHECK(hr_trace_start(NULL) == HR_OK, "%s", hr_last_error());
    for (int i = 0; i < n; i++)
        CHECK(begin_read(image, bytes,
                         hr_job_params(.on_done = forget,
                                       .wait_for_room = true)),
              "%s", hr_last_error());
    CHECK(hr_wait_all(dev, HR_FOREVER) == HR_OK, "%s", hr_last_error());
    hr_trace_stop();
    CHECK(atomic_load(&forgotten) == n, "%d", atomic_load(&forgotten));
}

// ---- Many readers ---------------------------------------------------------

// Nanoseconds of work per reader of one image, n of them in one job that waits
// for the image's writer.
static double readers(int n)
{
    hr_device dev = test_device("cpu", 1, (size_t)4 << 30);
    hr_image image = scene_blank(dev, SIDE), from = scene_blank(dev, SIDE),
             other = scene_blank(dev, 8);
    hr_batch batch = hr_batch_create(
        dev, hr_batch_params(.n = n, .c = 3, .h = 1, .w = 1, .dtype = HR_U8));
    const struct hr_op crop = hr_op_crop(.w = 1, .h = 1);
    struct hr_sample *s = calloc((size_t)n, sizeof(*s));
    hr_job busy = scene_hold_worker(dev, other);
    hr_job before = scene_copy(dev, from, image, NULL), job;
    int64_t begin;

    for (int i = 0; i < n; i++)
        s[i] = (struct hr_sample){.image = image, .ops = &crop, .num_ops = 1};
    job = hr_submit(dev, s, n, batch, NULL);
    CHECK(job, "%s", hr_last_error());
    CHECK(hr_job_poll(before, 0) == HR_PENDING, "they wait");
    begin = test_clock(CLOCK_PROCESS_CPUTIME_ID);
    scene_let_go();
    CHECK(hr_job_wait(job, HR_FOREVER) == HR_OK, "%s", hr_last_error());
    begin = test_clock(CLOCK_PROCESS_CPUTIME_ID) - begin;
    hr_job_release(&job);
    hr_job_release(&before);
    hr_job_release(&busy);
    hr_batch_destroy(&batch);
    hr_image_release(&image);
    hr_image_release(&from);
    hr_image_release(&other);
    hr_device_close(&dev);
    free(s);
    return (double)begin / n;
}

TEST_CASE(many_readers)
{
    int n = test_loops(80000);
    double few = readers(n / 16), many = readers(n);

    printf("\n  %.1f us a reader of %d, %.1f of %d ", few / 1000, n / 16,
           many / 1000, n);
    // (229 and 10 us when each end looked at all of them.)
    CHECK(many < 4 * few || many < 12000, "%.1f and %.1f us", few / 1000,
          many / 1000);
}
