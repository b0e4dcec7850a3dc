// SPDX-License-Identifier: Apache-2.0
// The second look at a media engine's pictures never makes one fail: a picture
// that the CPU cannot make again stays the device's, and counts as not checked.
#include "scene.h"

// (ThreadSanitizer takes so much longer for each pixel that fewer will do.)
enum {
    W = TEST_RACES ? 800 : 1600,
    H = TEST_RACES ? 600 : 1200,
    OUT = 32,
    N = 20
};

struct kind {
    const char *name;
    uint32_t spans;
    enum hr_memory memory;
};

// The engine makes all of it; its result lies in its own memory; and the CPU
// finishes what is brought there.
static const struct kind kinds[] = {
    {"all of it", FAKE_DRS, HR_MEMORY_HOST},
    {"in its memory", FAKE_DRS, HR_MEMORY_DEVICE},
    {"its planes", FAKE_P, HR_MEMORY_HOST},
    {"its planes, brought", FAKE_P, HR_MEMORY_DEVICE},
};
enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

// Only the last rows are wanted: the CPU decodes all rows above, which takes it
// longer than a millisecond; its work on planes takes less.
static const struct hr_op ops[] = {
    {.type = HR_OP_DECODE},
    {.type = HR_OP_CROP,
     .crop = {.x = W - OUT, .y = H - OUT, .w = OUT, .h = OUT}},
};

static hr_batch batch_of(hr_device dev, enum hr_memory memory)
{
    hr_batch batch = hr_batch_create(
        dev, hr_batch_params(.n = N, .c = 3, .h = OUT, .w = OUT, .dtype = HR_U8,
                             .layout = HR_NHWC, .memory = memory));

    if (!batch)
        abort();
    return batch;
}

static hr_job run(hr_device dev, hr_batch batch, const struct bytes *jpeg)
{
    struct hr_sample s[N];
    hr_job job;

    for (int i = 0; i < N; i++)
        s[i] = test_sample(jpeg, ops, 2);
    job = hr_submit(dev, s, N, batch, hr_job_params(.wait_for_room = true));
    if (!job)
        abort();
    hr_job_wait(job, HR_FOREVER);
    return job;
}

static void check_results(const struct kind *k, hr_job job, bool checked)
{
    int failed = 0, others = 0;

    for (int i = 0; i < N; i++) {
        const struct hr_result *r = &job->results[i];

        failed += r->status != HR_OK;
        others += r->num_spans < 1 || r->why & ~(unsigned)HR_WHY_PLACE ||
                  strcmp(r->spans[0].device, "fake:0") != 0;
    }
    CHECK(!failed && !others, "%s, %s: %d failed, %d not the device's: %s",
          k->name, checked ? "checked" : "not checked", failed, others,
          job->results[0].message);
}

static void one_kind(const struct kind *k, const struct bytes *jpeg,
                     const uint8_t *right, int item_ms)
{
    enum { ONE = OUT * OUT * 3 };
    auto_heap uint8_t *got = malloc(N * ONE);
    struct hr_stats stats;
    auto_device dev = NULL;
    hr_batch batch;
    hr_job job;
    int wrong = 0;

    fake_begin(.spans = FAKE_ALL(k->spans), .media = true, .memory = true);
    dev = hr_device_open(
        "fake", hr_device_params(.threads = 1, .limits = {.item_ms = item_ms}));
    batch = batch_of(dev, k->memory);
    job = run(dev, batch, jpeg);
    check_results(k, job, item_ms > 1);
    CHECK(!hr_batch_read(batch, 0, N, got, N * ONE, HR_FOREVER), "%s",
          hr_last_error());
    for (int i = 0; i < N; i++)
        wrong += memcmp(got + i * ONE, right, ONE) != 0;
    hr_device_stats(dev, &stats);
    CHECK(!wrong, "%s: %d wrong", k->name, wrong);
    CHECK(stats.checked == (item_ms > 1 ? 16 : 0) && !stats.mismatches &&
              !stats.failed && !stats.fallbacks,
          "%s: %d checked, %d mismatches", k->name, (int)stats.checked,
          (int)stats.mismatches);
    hr_job_release(&job);
    hr_batch_destroy(&batch);
    check_idle(dev);
}

TEST_CASE(never_fails_a_picture)
{
    uint64_t seed = test_seed;
    auto_bytes jpeg = test_jpeg(W, H, &seed);
    // (However late a busy machine lets it begin.)
    auto_device cpu = hr_device_open(
        "cpu", hr_device_params(.threads = 1, .limits = {.item_ms = 100000}));
    auto_batch right = batch_of(cpu, HR_MEMORY_HOST);
    auto_job job = run(cpu, right, &jpeg);

    CHECK(hr_job_poll(job, 0) == HR_OK, "%s", job->results[0].message);
    for (int i = 0; i < KINDS; i++) {
        one_kind(&kinds[i], &jpeg, right->params.data, 100000);
        one_kind(&kinds[i], &jpeg, right->params.data, 1);
    }
}

// The CPU's verdict on the file itself counts: a device that makes a picture of
// damage has guessed.
TEST_CASE(damage_is_the_cpus)
{
    uint64_t seed = test_seed;
    auto_bytes bad = test_damaged(120, 80, &seed);
    const struct hr_op decode = hr_op_decode(0);
    auto_image out = NULL;
    auto_device dev = NULL;
    auto_job job = NULL;

    fake_begin(.spans = FAKE_ALL(FAKE_DRS), .media = true, .never_fails = true);
    dev = test_device("fake", 1, 0);
    out = hr_image_create(dev, hr_image_params(.w = 120, .h = 80, .c = 3,
                                               .dtype = HR_U8));
    job = hr_submit(dev, &test_sample(&bad, &decode, 1, .out = out), 1, NULL,
                    NULL);
    CHECK(job && hr_job_wait(job, HR_FOREVER) == HR_ETRUNCATED, "%s",
          job->results[0].message);
}
