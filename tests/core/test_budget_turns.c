// SPDX-License-Identifier: Apache-2.0
// The order of admission when the budget is used up: jobs leave a quarter to
// samples at work, a small job does not pass a large one, and the list of
// waiters survives that its last one is cancelled.
#include "fake_engine.h"
#include "testing.h"

enum { SIDE = 16, BUDGET = 1 << 20 };

static const struct hr_op ops[] = {hr_op_decode(0),
                                   hr_op_resize(.w = SIDE, .h = SIDE)};

static size_t in_flight(hr_device dev)
{
    struct hr_stats s;

    hr_device_stats(dev, &s);
    return s.bytes_in_flight;
}

static hr_device gated(size_t budget)
{
    fake_begin(.spans = FAKE_ALL(FAKE_RS), .gate = true);
    return test_device("fake", 2, budget);
}

// An end, and room again.
static void ends_well(hr_job *job, const char *which)
{
    CHECK(*job && hr_job_wait(*job, 60000 * TEST_MS) == HR_OK, "%s: %s", which,
          hr_last_error());
    hr_job_release(job);
}

static hr_batch batch_of(hr_device dev, int n)
{
    hr_batch batch = hr_batch_create(
        dev, hr_batch_params(.n = n, .c = 3, .h = SIDE, .w = SIDE));

    CHECK(batch, "%s", hr_last_error());
    return batch;
}

// ---- Shares ---------------------------------------------------------------

// All write one slot: those behind the first hold what jobs hold, and nothing
// of theirs is at work.
TEST_CASE(jobs_leave_a_quarter)
{
    enum { MAX = 9000, ROOM = 4 * BUDGET };
    static hr_job jobs[MAX];
    uint64_t seed = test_seed;
    auto_bytes jpeg = test_jpeg(SIDE, SIDE, &seed);
    auto_device dev = gated(ROOM);
    auto_batch batch = batch_of(dev, 1);
    struct hr_sample s = test_sample(&jpeg, ops, 2);
    size_t second, third, one;
    int n = 3;

    jobs[0] = hr_submit(dev, &s, 1, batch, NULL);
    CHECK(test_reaches(&fake_counts.begun, 1), "the first is at work");
    jobs[1] = hr_submit(dev, &s, 1, batch, NULL);
    second = in_flight(dev);
    jobs[2] = hr_submit(dev, &s, 1, batch, NULL);
    third = in_flight(dev);
    one = third - second;
    while (n < MAX && (jobs[n] = hr_submit(dev, &s, 1, batch, NULL)))
        n++;
    CHECK(n < MAX && hr_last_status() == HR_EAGAIN, "%s", hr_last_error());
    CHECK((size_t)n * one <= ROOM - ROOM / 4, "%d jobs of %zu bytes", n, one);
    CHECK(in_flight(dev) + one > ROOM - ROOM / 4, "only %d jobs of %zu", n,
          one);
    fake_gate_open();
    for (int i = 0; i < n; i++)
        ends_well(&jobs[i], "one of many");
}

// The bytes of a payload between two engines are reserved with the sample, not
// when the payload exists: the budget holds, but for a few bytes behind each
// payload.
TEST_CASE(payloads_are_expected)
{
    enum { N = 12, LARGE = 400 };
    uint64_t seed = test_seed;
    size_t one = LARGE * LARGE * 3, budget = 8 * one;
    auto_bytes jpeg = test_jpeg(LARGE, LARGE, &seed);
    struct hr_sample s[N];
    struct hr_stats stats;
    auto_device dev = NULL;
    auto_batch batch = NULL;
    hr_job job;
    int live = -1;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .gate = true, .own_buffers = true);
    dev = test_device("fake", 4, budget);
    batch = batch_of(dev, N);
    for (int i = 0; i < N; i++)
        s[i] = test_sample(&jpeg, ops, 2);
    job = hr_submit(dev, s, N, batch, NULL);
    while (live < 2 || live != atomic_load(&fake_counts.buffers)) {
        live = atomic_load(&fake_counts.buffers);
        test_sleep(100 * TEST_MS);
    }
    fake_gate_open();
    ends_well(&job, "all");
    hr_device_stats(dev, &stats);
    CHECK(stats.peak_bytes <= budget + N * 128, "peak %zu, the budget is %zu",
          stats.peak_bytes, budget);
}

// ---- Turns ----------------------------------------------------------------

struct waiter {
    hr_device dev;
    hr_batch batch;
    struct hr_sample sample;
    int n;
    hr_job job;
    atomic_int in;
    pthread_t thread;
};

static void *submit_waiting(void *arg)
{
    struct waiter *w = arg;
    struct hr_sample s[64];

    for (int i = 0; i < w->n; i++)
        s[i] = w->sample;
    w->job = hr_submit(w->dev, s, w->n, w->batch,
                       hr_job_params(.wait_for_room = true));
    atomic_store(&w->in, 1);
    return NULL;
}

// Waits until n submitters wait in turn. (A turn begins with the next one.)
static bool stand_in_turn(hr_device handle, int n)
{
    struct hr__device *dev = (struct hr__device *)handle;

    for (int tries = 0; tries < 30000; tries++) {
        void **turn;
        int found = 0;

        pthread_mutex_lock(&dev->lock);
        for (turn = (void **)dev->submitters; turn; turn = *turn)
            found++;
        pthread_mutex_unlock(&dev->lock);
        if (found >= n)
            return true;
        test_sleep(TEST_MS);
    }
    return false;
}

// (What they hold is mostly encoded bytes: as much as is asked for, whatever
// stands behind the picture.)
TEST_CASE(small_ones_wait_too)
{
    uint64_t seed = test_seed;
    auto_bytes jpeg = test_jpeg(SIDE, SIDE, &seed);
    size_t half = BUDGET / 2;
    auto_heap uint8_t *large = calloc(1, half);
    auto_device dev = gated(BUDGET);
    auto_batch batch = batch_of(dev, 1);
    struct waiter w[2];
    struct hr_sample s = {.ops = ops, .num_ops = 2};
    hr_job first, refused;

    memcpy(large, jpeg.data, jpeg.size);
    s.data = large;
    s.size = half;
    first = hr_submit(dev, &s, 1, batch, NULL);
    CHECK(first && test_reaches(&fake_counts.begun, 1), "%s", hr_last_error());
    w[0] = (struct waiter){.dev = dev, .batch = batch, .sample = s, .n = 1};
    s.data = jpeg.data;
    s.size = jpeg.size;
    w[1] = w[0];
    w[1].sample = s;
    pthread_create(&w[0].thread, NULL, submit_waiting, &w[0]);
    CHECK(stand_in_turn(dev, 1), "there is room for it");
    pthread_create(&w[1].thread, NULL, submit_waiting, &w[1]);
    CHECK(stand_in_turn(dev, 2), "a small one passed a large one");
    CHECK(!atomic_load(&w[0].in), "there is no room for it");
    CHECK(!atomic_load(&w[1].in), "a small one passed a large one");
    refused = hr_submit(dev, &s, 1, batch, NULL);
    CHECK(!refused && hr_last_status() == HR_EAGAIN, "so did one in a hurry");
    hr_job_release(&refused);
    fake_gate_open();
    ends_well(&first, "the first");
    for (int i = 0; i < 2; i++) {
        pthread_join(w[i].thread, NULL);
        ends_well(&w[i].job, i ? "the small one" : "the large one");
    }
}

// The last sample on the list of waiters is cancelled; the next one to wait
// must be on the list nevertheless.
TEST_CASE(list_of_waiters)
{
    uint64_t seed = test_seed;
    auto_bytes jpeg = test_jpeg(800, 600, &seed);
    const char *path = test_file(&jpeg, ".jpg");
    auto_device dev = gated(3 << 20);
    auto_batch batch = batch_of(dev, 3);
    struct hr_sample s = {.path = path, .ops = ops, .num_ops = 2};
    hr_job a, b, c;

    a = hr_submit(dev, &s, 1, batch, NULL);
    CHECK(a && test_reaches(&fake_counts.begun, 1), "a holds its bytes");
    b = hr_submit(dev, &s, 1, batch, hr_job_params(.first_slot = 1));
    CHECK(hr_job_poll(b, 50 * TEST_MS) == HR_PENDING, "b waits");
    hr_job_cancel(b);
    CHECK(hr_job_wait(b, 60000 * TEST_MS) == HR_ECANCELED, "b");
    hr_job_release(&b);
    c = hr_submit(dev, &s, 1, batch, hr_job_params(.first_slot = 2));
    CHECK(hr_job_poll(c, 50 * TEST_MS) == HR_PENDING, "c waits");
    fake_gate_open();
    ends_well(&a, "a");
    ends_well(&c, "c");
}
