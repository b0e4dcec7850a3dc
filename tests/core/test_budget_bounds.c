// SPDX-License-Identifier: Apache-2.0
// The edges of the budget: a sample that waits for room does so in its job's
// time, and all memory of a sample is counted, whatever it is made from.
#include <sys/wait.h>

#include "scene.h"

static struct scene scene;

static size_t peak_of(hr_device dev)
{
    struct hr_stats s;

    hr_device_stats(dev, &s);
    return s.peak_bytes;
}

// ---- Room in time ---------------------------------------------------------

struct behind {
    pthread_t thread;
    atomic_int done;
};

static void *submit_behind(void *arg)
{
    struct behind *b = arg;
    auto_job job = hr_submit(scene.dev, scene.samples, 2, scene.out,
                             hr_job_params(.wait_for_room = true));

    atomic_store(&b->done, job ? 1 : 2);
    return NULL;
}

// The time that a submitter waits for room is part of the job's time, and a
// submitter that gives up does not stop those behind it.
TEST_CASE(room_in_time)
{
    struct behind behind = {.done = 0};
    hr_job first, job;
    int64_t begin;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .gate = true);
    scene_init(&scene, test_device("fake", 1, 4096), 2, SCENE_BYTES);
    first = hr_submit(scene.dev, scene.samples, 2, scene.out, NULL);
    CHECK(first, "%s", hr_last_error());
    begin = hr__now();
    job = hr_submit(scene.dev, scene.samples, 2, scene.out,
                    hr_job_params(.wait_for_room = true,
                                  .timeout_ns = 50 * TEST_MS));
    begin = hr__now() - begin;
    CHECK(!job && hr_last_status() == HR_ETIMEDOUT, "%s",
          hr_status_name(hr_last_status()));
    CHECK(begin >= 50 * TEST_MS, "after %d ms", (int)(begin / TEST_MS));
    hr_job_release(&job);
    pthread_create(&behind.thread, NULL, submit_behind, &behind);
    job = hr_submit(scene.dev, scene.samples, 2, scene.out,
                    hr_job_params(.wait_for_room = true,
                                  .timeout_ns = 100 * TEST_MS));
    hr_job_release(&job);
    fake_gate_open();
    pthread_join(behind.thread, NULL);
    CHECK(atomic_load(&behind.done) == 1, "the later caller has no job");
    CHECK(hr_job_wait(first, HR_FOREVER) == HR_OK, "the first");
    hr_job_release(&first);
    check_idle(scene.dev);
    hr_device_close(&scene.dev);
    scene_finish(&scene);
}

// ---- Pictures between steps ------------------------------------------------

enum { BIG = TEST_SANITIZED ? 2000 : 9000, THREADS = 8, SAMPLES = 16 };

struct memory {
    long before, peak;  // resident, kB
    size_t counted;     // hr_stats.peak_bytes
    int failed;
};

// Two resizes of a small image through a large one, many at a time.
static void use_memory(struct memory *m)
{
    auto_device dev = test_device("cpu", THREADS, (size_t)64 << 20);
    auto_image from = hr_image_create(
        dev, hr_image_params(.w = 64, .h = 64, .c = 3, .dtype = HR_U8,
                             .layout = HR_NHWC));
    const struct hr_op ops[] = {hr_op_resize(.w = BIG, .h = BIG),
                                hr_op_resize(.w = 8, .h = 8)};
    auto_batch batch = hr_batch_create(
        dev, hr_batch_params(.n = SAMPLES, .c = 3, .h = 8, .w = 8));
    struct hr_sample s[SAMPLES];
    auto_job job = NULL;

    for (int i = 0; i < SAMPLES; i++)
        s[i] = (struct hr_sample){.image = from, .ops = ops, .num_ops = 2};
    m->before = test_proc("/proc/self/status", "VmRSS:");
    job = hr_submit(dev, s, SAMPLES, batch, NULL);
    m->failed = !job || hr_job_wait(job, HR_FOREVER) != HR_OK;
    m->peak = test_proc("/proc/self/status", "VmHWM:");
    m->counted = peak_of(dev);
}

// In a process of its own, which has no other peak.
static bool measured(struct memory *m)
{
    int fds[2], status = 0;
    pid_t child;
    bool ok;

    if (pipe(fds))
        return false;
    if ((child = fork()) == 0) {
        use_memory(m);
        _exit(write(fds[1], m, sizeof(*m)) != sizeof(*m));
    }
    close(fds[1]);
    ok = child > 0 && read(fds[0], m, sizeof(*m)) == sizeof(*m);
    close(fds[0]);
    return waitpid(child, &status, 0) == child && ok && status == 0;
}

TEST_CASE(images_are_counted)
{
    enum { MIB = 1 << 20, ONE = BIG * BIG * 3 / MIB + 1 };
    struct memory m = {0};

    // (Sanitizers do not stand a child that starts threads.)
    if (TEST_SANITIZED)
        use_memory(&m);
    else
        CHECK(measured(&m), "no child");
    printf("\n  %ld MiB at most, %zu counted, one sample is %d ", m.peak / 1024,
           m.counted / MIB, ONE);
    CHECK(!m.failed, "the job failed");
    CHECK(m.counted >= (size_t)BIG * BIG * 3, "%zu bytes counted", m.counted);
    // (A sanitizer keeps what was freed.)
    CHECK(TEST_SANITIZED || m.peak / 1024 <= 64 + 60 + ONE, "%ld MiB, of %ld",
          m.peak / 1024, m.before / 1024);
}

// A filter that is thousands of rows high keeps so many.
TEST_CASE(high_filters_are_counted)
{
    enum { SIDE = 3000, H = 3 };
    uint64_t seed = test_seed;
    auto_bytes jpeg = test_jpeg(SIDE, SIDE, &seed);

    for (int encoded = 0; encoded < 2; encoded++) {
        auto_device dev = test_device("cpu", 1, (size_t)64 << 20);
        auto_image from = scene_blank(dev, SIDE);
        auto_batch to = hr_batch_create(dev, hr_batch_params(.n = 1, .c = 3,
                                                             .h = H, .w = SIDE,
                                                             .dtype = HR_U8));
        const struct hr_op ops[] = {hr_op_decode(0),
                                    hr_op_resize(.w = SIDE, .h = H)};
        struct hr_sample s = {.ops = ops + !encoded, .num_ops = 1 + encoded};
        auto_job job = NULL;

        s.image = encoded ? NULL : from;
        s.data = encoded ? jpeg.data : NULL;
        s.size = encoded ? jpeg.size : 0;
        job = hr_submit(dev, &s, 1, to, NULL);
        CHECK(job && hr_job_wait(job, HR_FOREVER) == HR_OK, "%s",
              hr_last_error());
        // (Twice 1,000 rows, less the rows that every sample may have.)
        CHECK(peak_of(dev) > (size_t)1850 * SIDE * 3 + s.size,
              "%zu bytes counted", peak_of(dev));
    }
}

// ---- Files ------------------------------------------------------------------

static const struct hr_op decode = {.type = HR_OP_DECODE};

static hr_job submit_file(hr_device dev, const char *path, hr_image out)
{
    struct hr_sample s = {
        .path = path, .ops = &decode, .num_ops = 1, .out = out};
    hr_job job = hr_submit(dev, &s, 1, NULL, NULL);

    CHECK(job, "%s", hr_last_error());
    return job;
}

// A file that is no picture is refused after its head.
TEST_CASE(no_picture)
{
    uint8_t zero[1] = {0};
    const struct bytes none = {.data = zero, .size = 1};
    const char *path = test_file(&none, ".jpg");
    auto_device dev = test_device("cpu", 1, (size_t)1 << 30);
    auto_image out = scene_blank(dev, 8);
    auto_job job = NULL;

    CHECK(!truncate(path, 250000000), "truncate");
    job = submit_file(dev, path, out);
    CHECK(hr_job_wait(job, HR_FOREVER) == HR_EFORMAT, "%s",
          job->results[0].message);
    CHECK(strstr(job->results[0].message, ".jpg: header") &&
              job->results[0].offset == 0,
          "%s", job->results[0].message);
    CHECK(peak_of(dev) < 1 << 20, "%zu bytes taken", peak_of(dev));
}

// A JPEG that never comes to its first frame: n bytes of markers.
static struct bytes only_markers(size_t n)
{
    struct bytes b = {.data = calloc(1, n), .size = n};
    uint8_t *p = b.data;

    p[0] = 0xff;
    p[1] = 0xd8;
    for (size_t at = 2; at + 65537 <= n; at += 65537) {
        p[at] = 0xff;
        p[at + 1] = 0xef;
        p[at + 2] = p[at + 3] = 0xff;
    }
    return b;
}

TEST_CASE(long_headers_are_counted)
{
    auto_bytes b = only_markers((size_t)8 << 20);
    const char *path = test_file(&b, ".jpg");
    auto_device dev = test_device("cpu", 1, 0);
    auto_image out = scene_blank(dev, 8);
    hr_job job = submit_file(dev, path, out);

    CHECK(hr_job_wait(job, HR_FOREVER) < 0, "a picture without a frame");
    CHECK(peak_of(dev) >= b.size, "%zu bytes counted of %zu, %s", peak_of(dev),
          b.size, job->results[0].message);
    hr_job_release(&job);
    check_idle(dev);
}

// While a sample waits for bytes its file grows: it asks anew.
TEST_CASE(grown_file)
{
    uint64_t seed = test_seed;
    auto_bytes jpeg = test_jpeg(64, 64, &seed);
    const char *path = test_file(&jpeg, ".jpg");
    size_t more = (size_t)8 << 20;
    struct hr_sample s[2];
    auto_batch batch = NULL;
    auto_device dev = NULL;
    hr_job job;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .gate = true);
    dev = test_device("fake", 1, 4096);
    batch = hr_batch_create(dev,
                            hr_batch_params(.n = 2, .c = 3, .h = 64, .w = 64));
    for (int i = 0; i < 2; i++)
        s[i] = (struct hr_sample){.path = path, .ops = &decode, .num_ops = 1};
    job = hr_submit(dev, s, 2, batch, NULL);
    CHECK(test_reaches(&fake_counts.tasks, 1), "the first is not at its gate");
    test_sleep(100 * TEST_MS);
    CHECK(atomic_load(&fake_counts.tasks) == 1, "the second did not wait");
    CHECK(peak_of(dev) < more, "%zu bytes before", peak_of(dev));
    CHECK(!truncate(path, (off_t)(jpeg.size + more)), "truncate");
    fake_gate_open();
    CHECK(job && hr_job_wait(job, HR_FOREVER) == HR_OK, "%s",
          job->results[1].message);
    CHECK(peak_of(dev) >= more, "%zu bytes counted", peak_of(dev));
    hr_job_release(&job);
    check_idle(dev);
}
