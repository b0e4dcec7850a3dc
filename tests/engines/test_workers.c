// SPDX-License-Identifier: Apache-2.0
// The CPU engine's queue, and who looks at it: it survives that its last task is
// cancelled, the watchdog wakes again, an item has only so much time.
#include <stdlib.h>

#include "fake_engine.h"
#include "testing.h"

enum { W = 16, H = 16, N = 16 };

#define SECOND (1000 * TEST_MS)

static const struct hr_op ops[] = {hr_op_decode(0),
                                   hr_op_resize(.w = W, .h = H)};

static struct bytes large, small;
static struct bytes *picture = &large;

static hr_job submit(hr_device dev, hr_batch batch, int first, int n,
                     const struct hr_job_params *params)
{
    struct hr_sample s[N];
    struct hr_job_params p = *params;
    hr_job job;

    for (int i = 0; i < n; i++)
        s[i] = (struct hr_sample){.data = picture->data,
                                  .size = picture->size,
                                  .ops = ops,
                                  .num_ops = 2};
    p.first_slot = first;
    job = hr_submit(dev, s, n, batch, &p);
    CHECK(job, "%s", hr_last_error());
    return job;
}

static hr_batch batch_of(hr_device dev)
{
    return hr_batch_create(dev,
                           hr_batch_params(.n = 3 * N, .c = 3, .h = H, .w = W));
}

// One worker is busy, the only job in the queue is cancelled, another comes.
static void queue_after_a_cancel(void)
{
    hr_device dev = test_device("cpu", 1, 0);
    hr_batch batch = batch_of(dev);

    for (int round = 0; round < 5; round++) {
        hr_job busy = submit(dev, batch, 0, 1, hr_job_params(0));
        hr_job gone = submit(dev, batch, N, N, hr_job_params(0)), next;

        hr_job_cancel(gone);
        CHECK(hr_job_wait(gone, 5 * SECOND) != HR_PENDING, "it ends");
        next = submit(dev, batch, 2 * N, 1, hr_job_params(0));
        CHECK(hr_job_wait(next, 10 * SECOND) == HR_OK, "the next: %s",
              hr_last_error());
        CHECK(hr_job_wait(busy, 10 * SECOND) == HR_OK, "the busy one: %s",
              hr_last_error());
        hr_job_release(&busy);
        hr_job_release(&gone);
        hr_job_release(&next);
    }
    hr_batch_destroy(&batch);
    hr_device_close(&dev);
}

// The watchdog sleeps when there are no jobs. The next one has a time limit.
static void watchdog_wakes(void)
{
    hr_device dev;
    hr_batch batch;
    hr_job job;

    // It must come to the engine within its time limit, however slow all is.
    picture = &small;
    fake_reset(&(struct fake_script){
        .spans = FAKE_ALL(FAKE_RS), .hang_from = 2, .hang_to = 2});
    dev = hr_device_open("fake", hr_device_params(.threads = 1));
    batch = batch_of(dev);
    job = submit(dev, batch, 0, 1, hr_job_params(.timeout_ns = 60 * SECOND));
    CHECK(hr_job_wait(job, HR_FOREVER) == HR_OK, "%s", hr_last_error());
    hr_job_release(&job);
    test_sleep(100 * TEST_MS);
    job = submit(dev, batch, 0, 1, hr_job_params(.timeout_ns = SECOND / 2));
    // Its end is the hung engine's; but it is known by then.
    CHECK(test_reaches(&fake_counts.hanging, 1), "it hangs");
    test_sleep(SECOND);
    fake_wake();
    CHECK(hr_job_wait(job, 10 * SECOND) == HR_ETIMEDOUT &&
              job->results[0].status == HR_ETIMEDOUT,
          "%s", hr_last_error());
    hr_job_release(&job);
    hr_batch_destroy(&batch);
    hr_device_close(&dev);
    picture = &large;
}

// However it is spent: an item that takes longer than it may ends.
static void item_time(void)
{
    hr_device dev = hr_device_open(
        "cpu", hr_device_params(.threads = 1, .limits = {.item_ms = 1}));
    hr_batch batch = batch_of(dev);
    hr_job job = submit(dev, batch, 0, 1, hr_job_params(0));

    CHECK(hr_job_wait(job, 10 * SECOND) == HR_ELIMIT, "%s",
          job->results[0].message);
    hr_job_release(&job);
    hr_batch_destroy(&batch);
    hr_device_close(&dev);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        TEST_CASE(queue_after_a_cancel),
        TEST_CASE(watchdog_wakes),
        TEST_CASE(item_time),
    };
    uint64_t seed;

    test_begin();
    seed = test_seed;
    large = test_jpeg(1500, 1000, &seed);
    small = test_jpeg(40, 30, &seed);
    return test_main("workers", cases, sizeof(cases) / sizeof(*cases), argc,
                     argv);
}
