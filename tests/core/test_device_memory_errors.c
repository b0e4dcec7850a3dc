// SPDX-License-Identifier: Apache-2.0
// Device memory when things go wrong, on the scripted engine: the CPU makes
// what the device does not, copies fail and hang, memory runs out, processes
// fork. Every sample ends once, no call hangs, nothing is lost or leaked.
#include <poll.h>
#include <sys/wait.h>

#include "fake_engine.h"
#include "testing.h"

#define MS TEST_MS
#define SECOND (1000 * MS)
#define SPANS                     \
    {                             \
        FAKE_RS, FAKE_RS, FAKE_RS \
    }

enum { W = 30, H = 20 };

static const struct hr_op ops[] = {hr_op_decode(0),
                                   hr_op_resize(.w = W, .h = H)};

static struct bytes good, damaged;

static hr_device open_fake(const struct fake_script *script, int64_t deadline)
{
    struct fake_script s = *script;
    hr_device dev;

    s.memory = true;
    fake_reset(&s);
    dev = hr_device_open("fake", hr_device_params(.threads = 2,
                                                  .deadline_ns = deadline));
    if (!dev)
        abort();
    return dev;
}

// Nothing of the device's memory is left.
static void close_fake(hr_device *dev)
{
    hr_device_close(dev);
    for (int i = 0; i < 5000 && (atomic_load(&fake_counts.memory) ||
                                 atomic_load(&fake_counts.closes) !=
                                     atomic_load(&fake_counts.opens));
         i++)
        test_sleep(MS);
    CHECK(!atomic_load(&fake_counts.memory), "%d pieces of memory leaked",
          atomic_load(&fake_counts.memory));
}

static hr_image device_image(hr_device dev)
{
    hr_image image = hr_image_create(
        dev, hr_image_params(.w = W, .h = H, .c = 3, .dtype = HR_U8,
                             .layout = HR_NHWC, .memory = HR_MEMORY_DEVICE));

    if (!image)
        abort();
    return image;
}

static hr_job start(hr_device dev, const struct bytes *b, hr_image out,
                    const struct hr_job_params *params)
{
    struct hr_sample s = test_sample(b, ops, 2, .out = out);
    hr_job job = hr_submit(dev, &s, 1, NULL, params);

    if (!job)
        abort();
    return job;
}

static struct hr_result finish(hr_job job)
{
    struct hr_result r;

    CHECK(hr_job_poll(job, 20 * SECOND) != HR_PENDING, "the job hangs");
    r = job->results[0];
    hr_job_release(&job);
    return r;
}

static void expected(uint8_t to[W * H * 3])
{
    auto_device cpu = test_device("cpu", 1, 0);
    auto_image out = hr_image_create(
        cpu, hr_image_params(.w = W, .h = H, .c = 3, .dtype = HR_U8,
                             .layout = HR_NHWC));
    struct hr_result r = finish(start(cpu, &good, out, NULL));

    CHECK(!r.status, "%s", r.message);
    memcpy(to, out->params.data, W * H * 3);
}

static bool reads_as(hr_image image, const uint8_t *bytes)
{
    uint8_t mine[W * H * 3];

    memset(mine, 0x5c, sizeof(mine));
    return hr_image_read(image, mine, sizeof(mine), 20 * SECOND) == HR_OK &&
           !memcmp(mine, bytes, sizeof(mine));
}

// ---- The CPU makes it -----------------------------------------------------

TEST_CASE(falls_back)
{
    uint8_t right[W * H * 3];
    // Before the work, after it (the memory was written), and in pieces.
    static const struct fake_script scripts[] = {
        {.spans = SPANS, .fail_from = 1, .fail_why = HR_WHY_LOST},
        {.spans = SPANS,
         .fail_from = 1,
         .fail_late = true,
         .wrong = true,
         .fail_why = HR_WHY_LOST},
        {.spans = SPANS,
         .fail_from = 1,
         .copy_bytes = 100,
         .fail_why = HR_WHY_LOST},
        {.spans = SPANS,
         .fail_from = 1,
         .where = FAKE_INSIDE,
         .fail_why = HR_WHY_LOST},
    };

    expected(right);
    for (int i = 0; i < 4; i++) {
        hr_device dev = open_fake(&scripts[i], 0);
        hr_image a = device_image(dev), b;
        struct hr_result r = finish(start(dev, &good, a, NULL));
        unsigned both = HR_WHY_LOST | HR_WHY_PLACE;

        CHECK(r.status == HR_OK && r.fallbacks == 1 && (r.why & both) == both &&
                  !strcmp(r.spans[0].device, "cpu"),
              "%d: why %#x, %s", i, r.why, r.message);
        CHECK(reads_as(a, right), "%d: other pixels", i);
        // A source in device memory comes to the CPU, the result goes back.
        b = hr_apply_op(dev, a, &hr_op_flip(.horizontal = true));
        hr_image_release(&a);
        a = hr_apply_op(dev, b, &hr_op_flip(.horizontal = true));
        CHECK(reads_as(a, right), "%d: flipped twice", i);
        CHECK(atomic_load(&fake_counts.copies_up) >= 3 &&
                  atomic_load(&fake_counts.copies_down) >= 4,
              "%d: %d up, %d down", i, atomic_load(&fake_counts.copies_up),
              atomic_load(&fake_counts.copies_down));
        hr_image_release(&a);
        hr_image_release(&b);
        close_fake(&dev);
    }
}

// An engine that begins on the device and one that ends there.
TEST_CASE(cuts)
{
    static const uint32_t spans[] = {FAKE_D, FAKE_R, FAKE_S, FAKE_RS, FAKE_DRS};
    uint8_t right[W * H * 3];

    expected(right);
    for (int i = 0; i < 5; i++) {
        uint32_t s = spans[i];
        hr_device dev = open_fake(&(struct fake_script){.spans = FAKE_ALL(s)},
                                  0);
        hr_image a = device_image(dev), b, c;

        finish(start(dev, &good, a, NULL));
        b = hr_apply_op(dev, a, &hr_op_flip(.vertical = true));
        c = hr_apply_op(dev, b, &hr_op_flip(.vertical = true));
        CHECK(reads_as(a, right) && reads_as(c, right), "cut %d", i);
        hr_image_release(&a);
        hr_image_release(&b);
        hr_image_release(&c);
        close_fake(&dev);
    }
}

// ---- Clearing -------------------------------------------------------------

TEST_CASE(clears)
{
    static const uint8_t zero[W * H * 3];
    uint8_t right[W * H * 3];

    expected(right);
    for (int policy = HR_ON_ERROR_FAIL; policy <= HR_ON_ERROR_SKIP; policy++) {
        bool skip = policy == HR_ON_ERROR_SKIP;
        hr_device dev = open_fake(&(struct fake_script){.spans = SPANS}, 0);
        hr_batch batch = hr_batch_create(
            dev,
            hr_batch_params(.n = 1, .c = 3, .h = H, .w = W, .dtype = HR_U8,
                            .layout = HR_NHWC, .memory = HR_MEMORY_DEVICE));
        const struct hr_job_params params = {
            .on_error = (enum hr_on_error)policy};
        struct hr_sample s = test_sample(&good, ops, 2);
        uint8_t mine[W * H * 3];

        CHECK(batch, "%s", hr_last_error());
        CHECK(!hr_batch_read(batch, 0, 1, mine, sizeof(mine), SECOND) &&
                  !memcmp(mine, zero, sizeof(mine)),
              "a new batch is zero");
        finish(hr_submit(dev, &s, 1, batch, &params));
        s.data = damaged.data;
        s.size = damaged.size;
        CHECK(finish(hr_submit(dev, &s, 1, batch, &params)).status ==
                  HR_ETRUNCATED,
              "policy %d", policy);
        CHECK(!hr_batch_read(batch, 0, 1, mine, sizeof(mine), SECOND), "%s",
              hr_last_error());
        CHECK(!memcmp(mine, skip ? right : zero, sizeof(mine)), "policy %d: %s",
              policy, skip ? "kept" : "cleared");
        hr_batch_destroy(&batch);
        close_fake(&dev);
    }
}

// ---- Copies that fail -----------------------------------------------------

TEST_CASE(failing_copies)
{
    hr_device dev = open_fake(&(struct fake_script){.spans = SPANS,
                                                    .fail_from = 1,
                                                    .copy_fail_from = 1},
                              0);
    hr_image a = device_image(dev), b;
    struct test_done done = {0};
    uint8_t mine[W * H * 3];
    struct hr_result r;

    r = finish(start(dev, &good, a,
                     hr_job_params(.on_done = test_on_done, .ctx = &done)));
    CHECK(r.status == HR_EDEVICE && r.stage == HR_STORE && r.message[0] &&
              !r.num_spans && atomic_load(&done.calls) == 1,
          "%s", r.message);
    CHECK(hr_image_wait(a, 0) == HR_EDEVICE, "the image knows");
    CHECK(hr_image_read(a, mine, sizeof(mine), SECOND) == HR_EINPUT, "read");
    b = hr_apply_op(dev, a, &hr_op_flip(0));
    CHECK(hr_image_wait(b, SECOND) == HR_EINPUT, "what is made of it");
    CHECK(hr_image_write(a, mine, sizeof(mine), SECOND) == HR_EDEVICE, "write");
    hr_image_release(&a);
    hr_image_release(&b);
    close_fake(&dev);

    // One of several, in the middle of a picture; its neighbours are well.
    dev = open_fake(&(struct fake_script){.spans = SPANS,
                                          .copy_fail_from = 2,
                                          .copy_fail_to = 2,
                                          .copy_bytes = 1000},
                    0);
    a = device_image(dev);
    finish(start(dev, &good, a, NULL));
    CHECK(hr_image_read(a, mine, sizeof(mine), SECOND) == HR_EDEVICE,
          "%zu bytes in pieces of 1000", sizeof(mine));
    expected(mine);
    CHECK(reads_as(a, mine), "again");
    hr_image_release(&a);
    close_fake(&dev);
}

// ---- Devices that hang ----------------------------------------------------

TEST_CASE(hung_reads)
{
    hr_device dev = open_fake(&(struct fake_script){.spans = SPANS,
                                                    .copy_hang_from = 1,
                                                    .copy_hang_to = 1},
                              60 * SECOND);
    hr_image a = device_image(dev);
    uint8_t *mine = malloc(W * H * 3), right[W * H * 3];
    int64_t begin;

    expected(right);
    finish(start(dev, &good, a, NULL));
    begin = hr__now();
    CHECK(hr_image_read(a, mine, W * H * 3, 50 * MS) == HR_ETIMEDOUT, "%s",
          hr_last_error());
    CHECK(hr__now() - begin < 20 * SECOND, "it took %.1f s",
          (double)(hr__now() - begin) / 1e9);
    free(mine);  // the device may not have it any more
    fake_wake();
    CHECK(reads_as(a, right), "when it is back");
    hr_image_release(&a);
    close_fake(&dev);

    // Reads wait for the writer, and for ever on a device with a deadline.
    dev = open_fake(&(struct fake_script){.spans = SPANS, .gate = true}, 0);
    a = device_image(dev);
    hr_job job = start(dev, &good, a, NULL);
    mine = malloc(W * H * 3);
    CHECK(hr_image_read(a, mine, W * H * 3, 0) == HR_ETIMEDOUT &&
              hr_image_read(a, mine, W * H * 3, 40 * MS) == HR_ETIMEDOUT &&
              hr_image_write(a, mine, W * H * 3, 40 * MS) == HR_ETIMEDOUT,
          "%s", hr_last_error());
    free(mine);
    fake_gate_open();
    finish(job);
    hr_image_release(&a);
    close_fake(&dev);

    dev = open_fake(&(struct fake_script){.spans = SPANS, .copy_hang_from = 1},
                    60 * MS);
    a = device_image(dev);
    CHECK(hr_image_read(a, right, sizeof(right), HR_FOREVER) == HR_ETIMEDOUT,
          "%s", hr_last_error());
    hr_image_release(&a);
    fake_wake();
    close_fake(&dev);
}

// A span hangs while it holds its destination: no other engine may write it.
TEST_CASE(hung_spans)
{
    hr_device dev = open_fake(
        &(struct fake_script){.spans = SPANS, .hang_from = 1, .hang_to = 1},
        4 * SECOND);  // for what does not hang, and a busy machine
    hr_image a = device_image(dev);
    uint8_t right[W * H * 3];
    struct hr_result r = finish(start(dev, &good, a, NULL));

    CHECK(r.status == HR_ETIMEDOUT && r.why & HR_WHY_TIMEOUT, "%s", r.message);
    fake_wake();
    r = finish(start(dev, &good, a, NULL));
    expected(right);
    CHECK(r.status == HR_OK && reads_as(a, right), "afterwards: %s", r.message);
    hr_image_release(&a);
    close_fake(&dev);
}

// ---- Jobs of copies -------------------------------------------------------

TEST_CASE(asynchronous)
{
    hr_device dev = open_fake(&(struct fake_script){.spans = SPANS}, 0);
    hr_image a = device_image(dev);
    uint8_t one[W * H * 3], two[W * H * 3], got[3][W * H * 3];
    struct test_done done = {0};
    struct pollfd fd = {.events = POLLIN};
    struct hr_stats stats;
    hr_job job[5];

    memset(one, 1, sizeof(one));
    memset(two, 2, sizeof(two));
    // In the order of submission, whatever is waited for.
    job[0] = hr_transfer_begin(
        hr_transfer_params(.image = a, .from = one, .size = sizeof(one)), NULL);
    job[1] = hr_transfer_begin(hr_transfer_params(.image = a, .to = got[0],
                                                  .size = sizeof(one)),
                               NULL);
    job[2] = hr_transfer_begin(
        hr_transfer_params(.image = a, .from = two, .size = sizeof(two)), NULL);
    job[3] = hr_transfer_begin(
        hr_transfer_params(.image = a, .to = got[1], .size = sizeof(one)),
        hr_job_params(.on_done = test_on_done, .ctx = &done));
    job[4] = hr_transfer_begin(hr_transfer_params(.image = a, .to = got[2],
                                                  .size = sizeof(one)),
                               NULL);
    fd.fd = hr_job_fd(job[4]);
    CHECK(poll(&fd, 1, 20000) == 1, "fd");
    for (int i = 0; i < 5; i++) {
        CHECK(job[i] && hr_job_wait(job[i], 20 * SECOND) == HR_OK, "job %d", i);
        hr_job_release(&job[i]);
    }
    hr_device_stats(dev, &stats);
    CHECK(!stats.samples && !stats.jobs, "these are no samples");
    CHECK(!memcmp(got[0], one, sizeof(one)) &&
              !memcmp(got[1], two, sizeof(two)) &&
              !memcmp(got[2], two, sizeof(two)),
          "order");
    CHECK(atomic_load(&done.calls) == 1 && atomic_load(&done.status) == HR_OK &&
              atomic_load(&done.on_library),
          "on_done");
    hr_image_release(&a);
    close_fake(&dev);
}

TEST_CASE(canceled)
{
    hr_device dev =
        open_fake(&(struct fake_script){.spans = SPANS, .gate = true}, 0);
    hr_image a = device_image(dev);
    uint8_t mine[W * H * 3];
    hr_job first = start(dev, &good, a, NULL);
    hr_job job = hr_transfer_begin(
        hr_transfer_params(.image = a, .to = mine, .size = sizeof(mine)), NULL);

    hr_job_cancel(job);
    CHECK(hr_job_poll(job, 20 * SECOND) == HR_ECANCELED, "cancelled");
    hr_job_release(&job);
    fake_gate_open();
    CHECK(finish(first).status == HR_OK, "what it waited for");
    hr_image_release(&a);
    close_fake(&dev);
}

int main(int argc, char **argv)
{
    uint64_t seed = 5;
    int failed;

    good = test_jpeg(64, 48, &seed);
    damaged = test_damaged(64, 48, &seed);
    failed = test_main(argc, argv);
    free(good.data);
    free(damaged.data);
    return failed;
}
