// SPDX-License-Identifier: Apache-2.0
// Bytes in flight and many users: the budget holds and nothing waits for ever,
// callbacks may submit, many threads may submit at once.
#include "scene.h"

static struct scene scene;

static struct hr_stats stats_of(hr_device dev)
{
    struct hr_stats s;

    hr_device_stats(dev, &s);
    return s;
}

// ---- Admission ------------------------------------------------------------

TEST_CASE(over_budget)
{
    enum { MAX = 400 };
    size_t budget = 2 << 20;
    hr_job jobs[MAX];
    auto_device dev = NULL;
    int n = 0;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .gate = true);
    dev = test_device("fake", 2, budget);
    scene_init(&scene, dev, 4, SCENE_BYTES);
    while (n < MAX &&
           (jobs[n] = hr_submit(dev, scene.samples, 4, scene.out, NULL)))
        n++;
    CHECK(n > 1 && n < MAX && hr_last_status() == HR_EAGAIN, "%d jobs: %s", n,
          hr_last_error());
    CHECK(stats_of(dev).bytes_in_flight <= budget, "%zu in flight",
          stats_of(dev).bytes_in_flight);
    // Not too early either: most of the budget is in use.
    CHECK(stats_of(dev).bytes_in_flight > budget / 2, "%zu in flight",
          stats_of(dev).bytes_in_flight);
    fake_gate_open();
    for (int i = 0; i < n; i++) {
        CHECK(hr_job_wait(jobs[i], HR_FOREVER) == HR_OK, "job %d", i);
        hr_job_release(&jobs[i]);
    }
    check_idle(dev);
    jobs[0] = hr_submit(dev, scene.samples, 4, scene.out, NULL);
    CHECK(jobs[0] && hr_job_wait(jobs[0], HR_FOREVER) == HR_OK,
          "room again: %s", hr_last_error());
    hr_job_release(&jobs[0]);
    scene_finish(&scene);
}

TEST_CASE(wait_for_room)
{
    enum { JOBS = 150 };
    size_t budget = 1400 << 10;  // no sample needs a quarter (343 kB)
    struct test_done done = {0};
    auto_device dev = NULL;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .delay_ns = TEST_MS / 10);
    dev = test_device("fake", 2, budget);
    scene_init(&scene, dev, 3, SCENE_MIXED);
    for (int i = 0; i < JOBS; i++) {
        auto_job job = hr_submit(dev, scene.samples, 3, scene.out,
                                 hr_job_params(.wait_for_room = true,
                                               .on_done = test_on_done,
                                               .ctx = &done));

        CHECK(job, "job %d: %s", i, hr_last_error());
    }
    check_idle(dev);
    CHECK(atomic_load(&done.calls) == JOBS, "%d", atomic_load(&done.calls));
    CHECK(stats_of(dev).peak_bytes <= budget, "peak %zu, budget %zu",
          stats_of(dev).peak_bytes, budget);
    scene_finish(&scene);
}

// However large, one alone is let in; also as bytes of working memory.
TEST_CASE(one_huge)
{
    uint64_t seed = test_seed;
    auto_bytes jpeg = test_jpeg(300, 200, &seed);
    const char *path = test_file(&jpeg, ".jpg");
    auto_device dev = test_device("cpu", 2, 4096);
    const struct hr_op op = hr_op_decode(0);
    auto_image out = hr_image_create(
        dev, hr_image_params(.w = 300, .h = 200, .c = 3, .dtype = HR_U8));
    struct hr_sample s[] = {
        {.data = jpeg.data,
         .size = jpeg.size,
         .ops = &op,
         .num_ops = 1,
         .out = out},
        {.path = path, .ops = &op, .num_ops = 1, .out = out}};

    for (int i = 0; i < 6; i++) {
        hr_job job = hr_submit(dev, &s[i % 2], i < 4 ? 1 : 2 - i % 2, NULL,
                               hr_job_params(.wait_for_room = i % 3));

        CHECK(job && hr_job_wait(job, HR_FOREVER) == HR_OK, "%d: %s", i,
              job ? job->results[0].message : hr_last_error());
        hr_job_release(&job);
        hr_wait_all(dev, HR_FOREVER);
    }
    check_idle(dev);
}

// ---- Working bytes --------------------------------------------------------

// Each sample alone nearly fills the budget, or is over it.
TEST_CASE(tiny_budgets)
{
    static const size_t budgets[] = {1, 100 << 10, 700 << 10, 3 << 20};
    static const uint32_t spans[] = {0, FAKE_RS, FAKE_R | FAKE_S, FAKE_DRS,
                                     FAKE_D | FAKE_S};

    for (int threads = 1; threads <= 4; threads++)
        for (int k = 0; k < 20; k++) {
            auto_device dev = NULL;
            hr_job jobs[4];

            // A sanitizer build does each of them with one number of threads.
            if (test_loops(20) < 20 && (k + k / 4) % 4 != threads - 1)
                continue;
            fake_begin(.spans = FAKE_ALL(spans[k % 5]), .batch = k % 3,
                       .takes_every_2nd = k % 2, .fail_from = k % 7,
                       .fail_to = 9);
            dev = test_device("fake", threads, budgets[k / 5]);
            scene_init(&scene, dev, 12, SCENE_MIXED);
            for (int j = 0; j < 4; j++) {
                jobs[j] = hr_submit(dev, scene.samples, 12, scene.out,
                                    hr_job_params(.wait_for_room = true));
                CHECK(jobs[j], "%s", hr_last_error());
            }
            for (int j = 0; j < 4; j++)
                CHECK(hr_job_wait(jobs[j], HR_FOREVER) == HR_OK,
                      "%d threads, case %d: %s", threads, k,
                      jobs[j]->results[0].message);
            for (int j = 0; j < 4; j++) {
                scene_check_results(&scene, jobs[j], HR_ON_ERROR_FAIL);
                hr_job_release(&jobs[j]);
            }
            check_idle(dev);
            scene_finish(&scene);
        }
}

// Payloads between two engines count: when an engine stalls, the host's
// decoding stops at the budget, and not at the end of memory.
TEST_CASE(between_engines)
{
    enum { N = TEST_SANITIZED ? 24 : 64, SIDE = 400 };
    uint64_t seed = test_seed;
    size_t one = SIDE * SIDE * 3, budget = 8 * one;
    auto_bytes jpeg = test_jpeg(SIDE, SIDE, &seed);
    const char *path = test_file(&jpeg, ".jpg");
    const struct hr_op ops[] = {hr_op_decode(0),
                                hr_op_resize(.w = 16, .h = 16)};
    struct hr_sample s[N];
    int live = -1;
    auto_device dev = NULL;
    auto_batch batch = NULL;
    hr_job job;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .gate = true, .own_buffers = true);
    dev = test_device("fake", 2, budget);
    batch = hr_batch_create(dev,
                            hr_batch_params(.n = N, .c = 3, .h = 16, .w = 16));
    for (int i = 0; i < N; i++)
        s[i] = (struct hr_sample){.path = path, .ops = ops, .num_ops = 2};
    job = hr_submit(dev, s, N, batch, NULL);
    CHECK(job, "%s", hr_last_error());
    CHECK(test_reaches(&fake_counts.buffers, 2), "room for one only");
    while (live != atomic_load(&fake_counts.buffers)) {
        live = atomic_load(&fake_counts.buffers);
        test_sleep(100 * TEST_MS);
    }
    CHECK(live <= 8 + 2, "%d payloads live, the budget is for 8", live);
    CHECK(stats_of(dev).bytes_in_flight >= (size_t)live * one, "%zu counted",
          stats_of(dev).bytes_in_flight);
    fake_gate_open();
    CHECK(hr_job_wait(job, HR_FOREVER) == HR_OK, "%s", hr_last_error());
    hr_job_release(&job);
    check_idle(dev);
}

// No sample takes more than a quarter: the peak stays below the budget.
TEST_CASE(peak)
{
    enum { N = TEST_SANITIZED ? 10 : 24 };  // with a lot over for four threads
    uint64_t seed = test_seed;
    size_t budget = 8 << 20;
    auto_bytes jpeg = test_jpeg(1200, 900, &seed);
    const char *path = test_file(&jpeg, ".jpg");
    const struct hr_op ops[] = {hr_op_decode(0),
                                hr_op_resize(.w = 64, .h = 64)};
    auto_device dev = test_device("cpu", 4, budget);
    auto_batch batch = hr_batch_create(dev, hr_batch_params(.n = N, .c = 3,
                                                            .h = 64, .w = 64));
    struct hr_sample s[N];

    for (int i = 0; i < N; i++)
        s[i] = (struct hr_sample){.path = path, .ops = ops, .num_ops = 2};
    for (int round = 0; round < test_loops(6); round++) {
        auto_job job = hr_submit(dev, s, N, batch,
                                 hr_job_params(.wait_for_room = true));

        CHECK(job, "%s", hr_last_error());
    }
    check_idle(dev);
    CHECK(stats_of(dev).peak_bytes <= budget, "peak %zu",
          stats_of(dev).peak_bytes);
    // And it was of use: several samples at work at once.
    CHECK(stats_of(dev).peak_bytes > 2 * jpeg.size, "peak %zu",
          stats_of(dev).peak_bytes);
}

// ---- Callbacks that submit ------------------------------------------------

struct relay {
    struct scene *s;
    atomic_int calls, refused;
    int left;  // only callbacks touch it, one at a time
    atomic_int over;
};

static void submit_next(void *ctx, const struct hr_job_t *job)
{
    struct relay *r = ctx;
    auto_job next = NULL;

    (void)job;
    atomic_fetch_add(&r->calls, 1);
    if (r->left-- <= 0) {
        atomic_store(&r->over, 1);
        return;
    }
    // Asking to wait in a callback must not hang it.
    next = hr_submit(r->s->dev, r->s->samples, r->s->n, r->s->out,
                     hr_job_params(.on_done = submit_next, .ctx = r,
                                   .wait_for_room = r->left % 2));
    if (!next) {
        atomic_fetch_add(&r->refused, 1);
        atomic_store(&r->over, 1);
    }
}

TEST_CASE(submit_from_callback)
{
    static const uint32_t spans[] = {0, FAKE_RS};

    for (int k = 0; k < 4; k++) {
        struct relay r = {.s = &scene, .left = 60};
        hr_job job;
        auto_device dev = NULL;

        fake_begin(.spans = FAKE_ALL(spans[k % 2]),
                   .where = k / 2 ? FAKE_INSIDE : FAKE_THREAD);
        // Room for one job at a time.
        dev = test_device("fake", 1, 40 << 10);
        scene_init(&scene, dev, 3, SCENE_BYTES);
        job = hr_submit(dev, scene.samples, 3, scene.out,
                        hr_job_params(.on_done = submit_next, .ctx = &r));
        hr_job_release(&job);
        CHECK(test_reaches(&r.over, 1), "the relay stopped");
        check_idle(dev);
        CHECK(atomic_load(&r.calls) == 61 && atomic_load(&r.refused) == 0,
              "%d calls, %d refused", atomic_load(&r.calls),
              atomic_load(&r.refused));
        scene_finish(&scene);
    }
}

// ---- Many threads ---------------------------------------------------------

enum { USERS = 6 };

struct user {
    pthread_t thread;
    const struct scene *s;
    uint64_t seed;
    int loops, wrong, lost, refused, canceled;
};

static bool right(const struct scene *s, hr_batch out, hr_job job)
{
    size_t size = out->params.stride_n;

    for (int i = 0; i < s->n; i++)
        if (job->results[i].status == HR_OK &&
            memcmp((uint8_t *)out->params.data + size * (size_t)i,
                   s->expected + size * (size_t)i, size))
            return false;
    return true;
}

static void one_of_a_user(struct user *u, hr_batch out)
{
    struct test_done done = {0};
    int what = random_below(&u->seed, 5);
    auto_job job = hr_submit(u->s->dev, u->s->samples, u->s->n, out,
                             hr_job_params(.on_done = test_on_done,
                                           .ctx = &done,
                                           .wait_for_room = what != 4));
    enum hr_status status;

    if (!job) {
        u->refused++;
        u->wrong += what != 4 || hr_last_status() != HR_EAGAIN;
        return;
    }
    if (what == 0)
        hr_job_cancel(job);
    if (what == 1)
        hr_job_poll(job, random_below(&u->seed, 100000));
    status = hr_job_wait(job, HR_FOREVER);
    u->canceled += status == HR_ECANCELED;
    u->wrong += status != HR_OK && !(what == 0 && status == HR_ECANCELED);
    u->wrong += !right(u->s, out, job);
    u->lost += atomic_load(&done.calls) != 1;
}

static void *use(void *arg)
{
    struct user *u = arg;
    auto_batch out = hr_batch_create(
        u->s->dev,
        hr_batch_params(.n = u->s->n, .c = 3, .h = SCENE_H, .w = SCENE_W));

    for (int i = 0; i < u->loops; i++)
        one_of_a_user(u, out);
    return NULL;
}

TEST_CASE(many_threads)
{
    static const uint32_t spans[] = {0, FAKE_RS, FAKE_DR};

    for (int k = 0; k < 6; k++) {
        struct user users[USERS];
        auto_device dev = NULL;
        int canceled = 0, refused = 0;

        fake_begin(.spans = FAKE_ALL(spans[k % 3]), .takes_every_2nd = k % 2,
                   .own_buffers = k % 2, .fail_from = 20, .fail_to = 40,
                   .where = k == 5 ? FAKE_INSIDE : FAKE_THREAD);
        dev = test_device("fake", 3, k % 2 ? 200 << 10 : 0);
        scene_init(&scene, dev, 6, SCENE_MIXED);
        for (int i = 0; i < USERS; i++) {
            users[i] = (struct user){.s = &scene,
                                     .seed = test_seed + (uint64_t)i,
                                     .loops = test_loops(60)};
            pthread_create(&users[i].thread, NULL, use, &users[i]);
        }
        for (int i = 0; i < USERS; i++) {
            pthread_join(users[i].thread, NULL);
            CHECK(users[i].wrong == 0 && users[i].lost == 0,
                  "case %d, user %d: %d wrong, %d lost", k, i, users[i].wrong,
                  users[i].lost);
            canceled += users[i].canceled;
            refused += users[i].refused;
        }
        check_idle(dev);
        printf("\n  case %d: %d cancelled, %d refused ", k, canceled, refused);
        scene_finish(&scene);
    }
}
