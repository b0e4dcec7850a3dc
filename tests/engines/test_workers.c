// SPDX-License-Identifier: Apache-2.0
// The CPU engine's queue and its workers: the queue survives that its last task
// is cancelled, the watchdog wakes again, an item has only so much time.
// Workers without a task help, but never make one wait. Woken workers let the
// thread that woke them go on.
#include <dirent.h>
#include <sched.h>

#include "backends/cpu/cpu.h"
#include "fake_engine.h"
#include "hal/device/device.h"
#include "testing.h"

enum { W = 16, H = 16, N = 16, WORKERS = 4 };

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
        s[i] = test_sample(picture, ops, 2);
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
TEST_CASE(queue_after_a_cancel)
{
    auto_device dev = test_device("cpu", 1, 0);
    auto_batch batch = batch_of(dev);

    for (int round = 0; round < 5; round++) {
        auto_job busy = submit(dev, batch, 0, 1, hr_job_params(0));
        auto_job gone = submit(dev, batch, N, N, hr_job_params(0)), next = NULL;

        hr_job_cancel(gone);
        CHECK(hr_job_wait(gone, 5 * SECOND) != HR_PENDING, "it ends");
        next = submit(dev, batch, 2 * N, 1, hr_job_params(0));
        CHECK(hr_job_wait(next, 10 * SECOND) == HR_OK, "the next: %s",
              hr_last_error());
        CHECK(hr_job_wait(busy, 10 * SECOND) == HR_OK, "the busy one: %s",
              hr_last_error());
    }
}

// The watchdog sleeps when there are no jobs. The next one has a time limit.
TEST_CASE(watchdog_wakes)
{
    hr_device dev;
    hr_batch batch;
    hr_job job;

    // It must come to the engine within its time limit, however slow all is.
    picture = &small;
    fake_begin(.spans = FAKE_ALL(FAKE_RS), .hang_from = 2, .hang_to = 2);
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
TEST_CASE(item_time)
{
    auto_device dev = hr_device_open(
        "cpu", hr_device_params(.threads = 1, .limits = {.item_ms = 1}));
    auto_batch batch = batch_of(dev);
    auto_job job = submit(dev, batch, 0, 1, hr_job_params(0));

    CHECK(hr_job_wait(job, 10 * SECOND) == HR_ELIMIT, "%s",
          job->results[0].message);
}

// ---- No threads -------------------------------------------------------------

static int num_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;

    for (struct dirent *each; tasks && (each = readdir(tasks));)
        n += each->d_name[0] != '.';
    if (tasks)
        closedir(tasks);
    return n;
}

// A thread that was joined may be in the list for a moment.
static int num_threads_left(void)
{
    int n = num_threads();

    for (int same = 0; same < 10; same++) {
        int now;

        test_sleep(5 * TEST_MS);
        now = num_threads();
        same = now == n ? same : 0;
        n = now;
    }
    return n;
}

// Makes the first n slots; the job is done when the call returns.
static void make_here(hr_device dev, hr_batch batch, int n)
{
    auto_job job = submit(dev, batch, 0, n, hr_job_params(0));

    CHECK(job->results[n - 1].status == HR_OK, "it is made when it returns");
    CHECK(hr_job_wait(job, 0) == HR_OK, "%s", hr_last_error());
}

TEST_CASE(no_threads)
{
    int before = num_threads_left();
    hr_device none =
        hr_device_open("cpu", hr_device_params(.threads = HR_THREADS_NONE));
    hr_batch got = batch_of(none);

    CHECK(none->caps.threads == 1 && none->params.threads == HR_THREADS_NONE,
          "%d, %d", none->caps.threads, none->params.threads);
    make_here(none, got, N);
    make_here(none, got, 1);
    CHECK(num_threads() == before, "%d threads, then %d", before,
          num_threads());
    {
        auto_device one = test_device("cpu", 1, 0);
        auto_batch want = batch_of(one);
        auto_job job = submit(one, want, 0, N, hr_job_params(0));

        CHECK(hr_job_wait(job, HR_FOREVER) == HR_OK, "%s", hr_last_error());
        CHECK(!memcmp(got->params.data, want->params.data,
                      N * want->params.stride_n),
              "other pixels");
    }
    hr_batch_destroy(&got);
    hr_device_close(&none);
    CHECK(!hr_device_open("cpu", hr_device_params(.threads = -2)) &&
              hr_last_status() == HR_EINVAL,
          "-2 threads");
    CHECK(!hr_device_open("cpu", hr_device_params(.threads = HR_THREADS_NONE,
                                                  .cpu_cap = 50)) &&
              hr_last_status() == HR_EINVAL,
          "a cap");
}

// True if the device accepts the sample with that batch.
static bool is_taken(hr_device dev, const struct hr_sample *s, hr_batch batch)
{
    auto_job job = hr_submit(dev, s, 1, batch, NULL);
    bool taken = job;

    CHECK(taken || hr_last_status() == HR_EINVAL, "%s", hr_last_error());
    return taken;
}

// A device without threads could not wait for an image of another device.
TEST_CASE(no_threads_own_images)
{
    auto_device other = test_device("cpu", 1, 0);
    auto_device none =
        hr_device_open("cpu", hr_device_params(.threads = HR_THREADS_NONE));
    const struct hr_image_params *form = hr_image_params(.c = 3, .w = W, .h = H,
                                                         .dtype = HR_U8);
    auto_batch its = batch_of(other), own = batch_of(none);
    auto_image image = hr_image_create(other, form);
    struct hr_sample file = test_sample(&small, ops, 2);
    struct hr_sample pixels = {.image = image, .ops = &ops[1], .num_ops = 1};

    CHECK(is_taken(none, &file, own) && is_taken(none, &file, its), "a file");
    CHECK(is_taken(other, &file, own) && is_taken(other, &pixels, own),
          "another device with threads");
    CHECK(!is_taken(none, &pixels, own), "an image of another device");
}

static void *submit_some(void *dev)
{
    auto_batch batch = batch_of(dev);

    for (int round = 0; round < test_loops(200); round++) {
        auto_job job = submit(dev, batch, 0, 1 + round % 3, hr_job_params(0));

        CHECK(hr_job_wait(job, HR_FOREVER) == HR_OK, "%s", hr_last_error());
    }
    return NULL;
}

// Whichever of them is at work makes the pictures of the others, too.
TEST_CASE(no_threads_but_many_that_submit)
{
    auto_device dev =
        hr_device_open("cpu", hr_device_params(.threads = HR_THREADS_NONE));
    pthread_t threads[WORKERS];

    picture = &small;
    for (int i = 0; i < WORKERS; i++)
        CU_ASSERT_FATAL(
            !pthread_create(&threads[i], NULL, submit_some, (void *)dev));
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    picture = &large;
}

TEST_CASE(no_threads_on_the_cpu_alone)
{
    hr_device dev;

    fake_begin(.spans = FAKE_ALL(FAKE_RS));
    dev = hr_device_open("fake", hr_device_params(.threads = HR_THREADS_NONE));
    CHECK(!dev && hr_last_status() == HR_EINVAL, "%s", hr_last_error());
}

// ---- How many of them work --------------------------------------------------

// Processor time of each worker so far.
static void used(hr_device dev, int64_t ns[WORKERS])
{
    struct cpu_engine *c = cpu_engine(hr__host((struct hr__device *)dev));

    for (int i = 0; i < WORKERS; i++) {
        clockid_t clock;

        ns[i] = pthread_getcpuclockid(c->workers[i].thread, &clock)
                    ? -1
                    : test_clock(clock);
    }
}

// Makes pictures until each of the first n workers has worked for 2 ms.
static bool all_work(hr_device dev, hr_batch batch, int n, int64_t ns[WORKERS])
{
    int64_t begun[WORKERS];
    int busy = 0;

    used(dev, begun);
    for (int round = 0; round < 500 && busy < n; round++) {
        hr_job job = submit(dev, batch, 0, N, hr_job_params(0));

        CHECK(hr_job_wait(job, 60 * SECOND) == HR_OK, "%s", hr_last_error());
        hr_job_release(&job);
        used(dev, ns);
        for (busy = 0; busy < n && ns[busy] - begun[busy] > 2 * TEST_MS;)
            busy++;
    }
    for (int i = 0; i < WORKERS; i++)
        ns[i] -= begun[i];
    return busy == n;
}

TEST_CASE(some_work)
{
    auto_device dev = test_device("cpu", WORKERS, 0);
    auto_batch batch = batch_of(dev);
    int64_t ns[WORKERS];
    int before = 0;

    CHECK(!hr__device_use_threads(dev, 1, &before) && before == WORKERS,
          "%d before", before);
    for (int n = 1; n <= WORKERS; n++) {
        CHECK(!hr__device_use_threads(dev, n, &before) &&
                  before == (n == 1 ? 1 : n - 1),
              "%d before", before);
        CHECK(all_work(dev, batch, n, ns), "of %d one does not work", n);
        // (One that goes to sleep looks once more whether it shall.)
        for (int i = n; i < WORKERS; i++)
            CHECK(ns[i] >= 0 && ns[i] < TEST_MS, "of %d number %d works", n, i);
    }
    CHECK(!hr__device_use_threads(dev, 2, NULL) &&
              !hr__device_use_threads(dev, 0, &before) && before == 2,
          "asking changes nothing: %d", before);
    CHECK(!hr__device_use_threads(dev, 99, NULL) &&
              !hr__device_use_threads(dev, 0, &before) && before == WORKERS,
          "no more than there are: %d", before);
    CHECK(hr__device_use_threads(dev, -1, &before) == HR_EINVAL &&
              before == WORKERS,
          "less than none");
}

static int policy_of(pthread_t thread)
{
    struct sched_param param;
    int policy;

    return pthread_getschedparam(thread, &policy, &param) ? -1 : policy;
}

// Workers take no core from a thread that wakes them.
TEST_CASE(wait_for_their_turn)
{
    auto_device dev = test_device("cpu", WORKERS, 0);
    struct cpu_engine *c = cpu_engine(hr__host((struct hr__device *)dev));

    for (int i = 0; i < WORKERS; i++)
        CHECK(policy_of(c->workers[i].thread) == SCHED_BATCH,
              "worker %d has policy %d", i, policy_of(c->workers[i].thread));
    CU_ASSERT_EQUAL(sched_getscheduler(0), SCHED_OTHER);
}

static void *until_unlocked(void *lock)
{
    pthread_mutex_lock(lock);
    pthread_mutex_unlock(lock);
    return NULL;
}

// A policy that the program has chosen stays.
TEST_CASE(policy_stays)
{
    static const int policies[][2] = {{SCHED_OTHER, SCHED_BATCH},
                                      {SCHED_IDLE, SCHED_IDLE}};
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const struct sched_param none = {0};

    for (int k = 0; k < 2; k++) {
        pthread_t thread;

        pthread_mutex_lock(&lock);
        CU_ASSERT_FATAL(!pthread_create(&thread, NULL, until_unlocked, &lock));
        CU_ASSERT(!pthread_setschedparam(thread, policies[k][0], &none));
        hr__thread_gives_way(thread);
        CHECK(policy_of(thread) == policies[k][1], "%d became %d",
              policies[k][0], policy_of(thread));
        pthread_mutex_unlock(&lock);
        pthread_join(thread, NULL);
    }
}

static atomic_bool enough;

static void *change(void *dev)
{
    uint64_t at = test_seed;

    while (!atomic_load(&enough)) {
        at = at * UINT64_C(6364136223846793005) + 1442695040888963407u;
        hr__device_use_threads(dev, 1 + (int)(at >> 60) % WORKERS, NULL);
        if (at >> 40 & 1)
            sched_yield();
    }
    return NULL;
}

static void wait_for_idle(hr_device dev, int n)
{
    struct cpu_engine *c = cpu_engine(hr__host((struct hr__device *)dev));
    int idle;

    do {
        sched_yield();
        pthread_mutex_lock(&c->lock);
        idle = c->idle;
        pthread_mutex_unlock(&c->lock);
    } while (idle < n);
}

// One picture, while from now on so many threads work.
static void one_at(hr_device dev, hr_batch batch, int threads, int round)
{
    auto_job job = submit(dev, batch, 0, 1, hr_job_params(0));

    hr__device_use_threads(dev, threads, NULL);
    CHECK(hr_job_wait(job, 20 * SECOND) == HR_OK, "round %d: %s", round,
          hr_last_error());
}

// A worker that goes to sleep may just have been told of a task.
TEST_CASE(nothing_is_lost)
{
    auto_device dev = test_device("cpu", WORKERS, 0);
    auto_batch batch = batch_of(dev);
    pthread_t thread;

    picture = &small;
    atomic_store(&enough, false);
    CHECK(!pthread_create(&thread, NULL, change, (void *)dev), "no thread");
    for (int round = 0; round < test_loops(2000); round++) {
        auto_job job = submit(dev, batch, 0, 1 + round % 5, hr_job_params(0));

        CHECK(hr_job_wait(job, 20 * SECOND) == HR_OK, "round %d: %s", round,
              hr_last_error());
    }
    atomic_store(&enough, true);
    pthread_join(thread, NULL);
    // All are idle; the one that is told of the task goes to sleep; then some
    // sleep, and the one that does not is told.
    for (int round = 0; round < test_loops(300); round++) {
        hr__device_use_threads(dev, WORKERS, NULL);
        wait_for_idle(dev, WORKERS);
        one_at(dev, batch, 1, round);
        one_at(dev, batch, 0, round);
    }
    picture = &large;
    hr__device_use_threads(dev, 1, NULL);  // and it closes with those asleep
}

// ---- Workers that help ------------------------------------------------------

// A large picture, alone, by so many threads: its pixels.
static hr_image alone(hr_device dev, const struct bytes *file)
{
    static const struct hr_op decode = hr_op_decode(0);
    hr_image image = hr_image_create(dev, hr_image_params(.c = 3, .w = 1600,
                                                          .h = 1000));
    struct hr_sample s = test_sample(file, &decode, 1, .out = image);
    auto_job job = hr_submit(dev, &s, 1, NULL, NULL);

    CHECK(job && hr_job_wait(job, HR_FOREVER) == HR_OK, "%s", hr_last_error());
    return image;
}

// How often a thread was lent for the only picture so far; times are on.
static int64_t lent(hr_device dev)
{
    struct hr_profile profile;

    hr_device_profile(dev, &profile);
    return (int64_t)profile.engines[0].parts[HR_PART_ENTROPY].times - 1;
}

static struct cpu_helpers *helpers_of(hr_device dev)
{
    return &cpu_engine(((struct hr__device *)dev)->engines[0])->helpers;
}

// Calls for help as the engine does, and goes on when a helper has come: an
// idle worker wakes only when the system schedules it.
static struct {
    void (*call)(struct cpu_helpers *h, struct cpu_help *help, int n);
    void (*run)(struct cpu_help *h, bool (*leave)(void *ctx), void *ctx);
    atomic_int came;
} called;

static void come(struct cpu_help *h, bool (*leave)(void *ctx), void *ctx)
{
    called.came++;
    called.run(h, leave, ctx);
}

static void call_and_wait(struct cpu_helpers *h, struct cpu_help *help, int n)
{
    if (help->run != come) {
        called.run = help->run;
        help->run = come;
    }
    called.call(h, help, n);
    test_reaches(&called.came, 1);
}

static hr_device two_that_help(void)
{
    hr_device dev = hr_device_open("cpu", hr_device_params(.threads = 2));
    struct cpu_helpers *h = helpers_of(dev);

    called.came = 0;
    called.call = h->call;
    h->call = call_and_wait;
    while (h->idle(h) < 2)
        sched_yield();
    return dev;
}

TEST_CASE(large_alone)
{
    static const int restarts[] = {0, 100, 38};
    uint64_t seed = test_seed;

    hr_profile_times(true);
    for (size_t i = 0; i < sizeof(restarts) / sizeof(*restarts); i++) {
        struct jpeg_spec spec = {.w = 1600,
                                 .h = 1000,
                                 .space = JCS_YCbCr,
                                 .factors = {0x22, 0x11, 0x11},
                                 .quality = 80,
                                 .restart = restarts[i]};
        auto_bytes file = test_jpeg_of(&spec, &seed);
        auto_device one = hr_device_open("cpu", hr_device_params(.threads = 1));
        auto_device two = two_that_help();
        auto_image want = alone(one, &file), got = alone(two, &file);

        CHECK(!memcmp(got->params.data, want->params.data, want->size),
              "restart %d: the picture differs", restarts[i]);
        CHECK(lent(two) > 0, "no thread was lent");
        CHECK(lent(one) == 0, "a single thread was lent");
    }
    hr_profile_times(false);
}

// The memory that help takes is reserved: a picture that may begin has room.
TEST_CASE(memory_is_counted)
{
    static const struct hr_op decode = hr_op_decode(0);
    uint64_t seed = test_seed;
    struct jpeg_spec spec = {.w = 1600,
                             .h = 1000,
                             .space = JCS_YCbCr,
                             .factors = {0x22, 0x11, 0x11},
                             .quality = 80};
    auto_bytes file = test_jpeg_of(&spec, &seed);
    int made = 0, refused = 0;

    for (size_t limit = 400000; limit < 5000000; limit += 300000) {
        auto_device dev = hr_device_open(
            "cpu",
            hr_device_params(.threads = 2, .limits = {.item_bytes = limit}));
        auto_image image =
            hr_image_create(dev, hr_image_params(.c = 3, .w = 1600, .h = 1000));
        struct hr_sample s = test_sample(&file, &decode, 1, .out = image);
        auto_job job = hr_submit(dev, &s, 1, NULL, NULL);
        enum hr_status status = hr_job_wait(job, HR_FOREVER);

        made += status == HR_OK;
        refused += status == HR_ELIMIT;
        CHECK(status == HR_OK || strstr(job->results[0].message, "needs"),
              "limit %zu: %s", limit, job->results[0].message);
    }
    CHECK(made > 3 && refused > 3, "%d made, %d refused", made, refused);
}

struct endless {
    struct cpu_help help;  // first
    atomic_bool inside, go, done;
};

static void help_until_told(struct cpu_help *h, bool (*leave)(void *ctx),
                            void *ctx)
{
    struct endless *e = (struct endless *)h;

    e->inside = true;
    while (!leave(ctx) && !e->go)
        sched_yield();
    test_sleep(20 * TEST_MS);
    e->done = true;
}

// The only worker helps, and a task comes.
TEST_CASE(tasks_come_first)
{
    struct endless e = {.help.run = help_until_told};
    hr_device dev = test_device("cpu", 1, 0);
    hr_batch batch = batch_of(dev);
    struct cpu_helpers *h = helpers_of(dev);
    hr_job job;

    h->call(h, &e.help, 1);
    while (!e.inside)
        sched_yield();
    CHECK(h->idle(h) == 0, "the only worker is lent");
    picture = &small;
    job = submit(dev, batch, 0, 1, hr_job_params(0));
    CHECK(hr_job_wait(job, 20 * SECOND) == HR_OK, "the task waits");
    CHECK(e.done && !e.go, "it left before it was told");
    e.go = true;
    h->end(h, &e.help);
    hr_job_release(&job);
    hr_batch_destroy(&batch);
    hr_device_close(&dev);
    picture = &large;
}

// No helper is inside when the picture is freed.
TEST_CASE(end_waits)
{
    struct endless e = {.help.run = help_until_told};
    auto_device dev = test_device("cpu", 1, 0);
    struct cpu_helpers *h = helpers_of(dev);

    h->call(h, &e.help, 1);
    while (!e.inside)
        sched_yield();
    e.go = true;
    h->end(h, &e.help);
    CHECK(e.done, "it was still at it");
}

struct nothing {
    struct cpu_help help;  // first
    atomic_int visits;
};

static void find_nothing(struct cpu_help *h, bool (*leave)(void *ctx),
                         void *ctx)
{
    (void)leave;
    (void)ctx;
    ((struct nothing *)h)->visits++;
}

// Five are called, the first finds nothing: the others need not look. They come
// when they are called again.
TEST_CASE(nothing_to_do)
{
    struct nothing e = {.help.run = find_nothing};
    auto_device dev = test_device("cpu", 1, 0);
    struct cpu_helpers *h = helpers_of(dev);

    for (int calls = 1; calls <= 3; calls++) {
        h->call(h, &e.help, 5);
        while (e.visits < calls || !h->idle(h))
            sched_yield();
        CHECK(e.visits == calls, "%d visits, %d calls", e.visits, calls);
    }
    h->end(h, &e.help);
}

int main(int argc, char **argv)
{
    uint64_t seed;

    test_begin();
    seed = test_seed;
    // (Sanitizers take much longer for each pixel.)
    large = test_jpeg(TEST_SANITIZED ? 500 : 1500, TEST_SANITIZED ? 400 : 1000,
                      &seed);
    small = test_jpeg(40, 30, &seed);
    return test_main(argc, argv);
}
