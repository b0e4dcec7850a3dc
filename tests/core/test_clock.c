// SPDX-License-Identifier: Apache-2.0
// The clock of a span runs from when its engine takes it up: a queue of any
// length is no hang, a hang in front of a queue is one, and the time limit of a
// job counts from its submission all the same. A span whose engine is working
// is waited for.
#include <signal.h>
#include <sys/wait.h>

#include "allowed.h"
#include "scene.h"

// A task that sleeps for DELAY_MS may be late by half a second, as it happens
// on a busy machine; with a sanitizer by two.
enum {
    N = 16,
    TIMES = TEST_SANITIZED ? 4 : 1,
    DELAY_MS = 90 * TIMES,
    DEADLINE_MS = 600 * TIMES
};

static hr_device open_fake(const struct fake_script *script)
{
    hr_device dev;

    fake_reset(script);
    dev = hr_device_open(
        "fake",
        hr_device_params(.threads = 2, .deadline_ns = DEADLINE_MS * TEST_MS));
    CHECK(dev != NULL, "%s", hr_last_error());
    return dev;
}

static uint64_t abandoned(hr_device dev)
{
    struct hr_stats stats;

    hr_device_stats(dev, &stats);
    return stats.abandoned;
}

// One after the other, more than twice as long as one of them may take.
static struct fake_script slow_script(void)
{
    return (struct fake_script){.spans = {FAKE_DRS, FAKE_DRS, FAKE_DRS},
                                .delay_ns = DELAY_MS * TEST_MS};
}

TEST_CASE(long_queue)
{
    struct fake_script script = slow_script();
    auto_device dev = open_fake(&script);
    struct scene scenes[2];
    struct watched w[2];

    // The second job waits for the first one.
    for (int k = 0; k < 2; k++) {
        scene_init(&scenes[k], dev, N, SCENE_BYTES);
        scene_fill(&scenes[k]);
    }
    for (int k = 0; k < 2; k++)
        CHECK(watch_submit(&w[k], &scenes[k], hr_job_params(.strict = true)),
              "%s", hr_last_error());
    for (int k = 0; k < 2; k++) {
        CHECK(watch_wait(&w[k]) == HR_OK, "job %d: %s", k,
              w[k].job->results[N - 1].message);
        CHECK(scene_check_results(&scenes[k], w[k].job, HR_ON_ERROR_ZERO) == N,
              "job %d", k);
        watch_finish(&w[k]);
    }
    CHECK(abandoned(dev) == 0, "%d given up", (int)abandoned(dev));
    for (int k = 0; k < 2; k++)
        scene_finish(&scenes[k]);
}

// A copy waits behind spans in the same queue.
TEST_CASE(copies)
{
    struct fake_script script = slow_script();
    uint8_t bytes[40 * 30 * 3] = {1}, same[sizeof(bytes)] = {0};
    OWN(scene_finish) struct scene scene = {0};
    struct watched w;
    auto_device dev = NULL;
    auto_image image = NULL;

    script.memory = true;
    dev = open_fake(&script);
    image = hr_image_create(dev, hr_image_params(.w = 40, .h = 30, .c = 3,
                                                 .dtype = HR_U8,
                                                 .memory = HR_MEMORY_DEVICE));
    scene_init(&scene, dev, N, SCENE_BYTES);
    scene_fill(&scene);
    CHECK(watch_submit(&w, &scene, hr_job_params(.strict = true)), "%s",
          hr_last_error());
    // (All of them are in the queue when the first has begun.)
    test_reaches(&fake_counts.begun, 1);
    CHECK(image && !hr_image_write(image, bytes, sizeof(bytes), HR_FOREVER) &&
              !hr_image_read(image, same, sizeof(same), HR_FOREVER) &&
              !memcmp(bytes, same, sizeof(same)),
          "%s", hr_last_error());
    CHECK(watch_wait(&w) == HR_OK, "%s", w.job->results[N - 1].message);
    watch_finish(&w);
    CHECK(abandoned(dev) == 0, "%d given up", (int)abandoned(dev));
}

// The user's own limit is one of the queue, too.
TEST_CASE(time_limit)
{
    struct fake_script script = slow_script();
    auto_device dev = open_fake(&script);
    int64_t begin, took;
    OWN(scene_finish) struct scene scene = {0};
    struct watched w;
    int late = 0;

    scene_init(&scene, dev, N, SCENE_BYTES);
    scene_fill(&scene);
    begin = hr__now();
    CHECK(watch_submit(&w, &scene, hr_job_params(.timeout_ns = 150 * TEST_MS)),
          "%s", hr_last_error());
    watch_wait(&w);
    took = hr__now() - begin;
    for (int i = 0; i < N; i++)
        late += w.job->results[i].status == HR_ETIMEDOUT;
    CHECK(late >= N / 2, "%d of %d are late", late, N);
    CHECK(took < test_allowed((N - 4) * DELAY_MS * TEST_MS), "it took %d ms",
          (int)(took / TEST_MS));
    watch_finish(&w);
}

// Nothing comes from the engine any more: all that waits goes on elsewhere,
// and not one deadline after the other.
TEST_CASE(hang_in_front)
{
    struct fake_script script = slow_script();
    auto_device dev = NULL;
    int64_t begin, took;
    struct scene scene;
    struct watched w;

    script.delay_ns = 0;
    script.hang_from = script.hang_to = 4;
    dev = open_fake(&script);
    scene_init(&scene, dev, N, SCENE_BYTES);
    scene_fill(&scene);
    begin = hr__now();
    CHECK(watch_submit(&w, &scene, NULL), "%s", hr_last_error());
    CHECK(watch_wait(&w) == HR_OK, "%s", w.job->results[N - 1].message);
    took = hr__now() - begin;
    CHECK(scene_check_results(&scene, w.job, HR_ON_ERROR_ZERO) == N, "results");
    CHECK(abandoned(dev) == N - 3, "%d given up", (int)abandoned(dev));
    CHECK(took >= DEADLINE_MS * TEST_MS &&
              took < test_allowed(10 * DEADLINE_MS * TEST_MS),
          "it took %d ms", (int)(took / TEST_MS));
    watch_finish(&w);
    scene_finish(&scene);
    fake_wake();
}

// ---- Patience --------------------------------------------------------------

static atomic_bool burns, ends;

static void *burn(void *arg)
{
    while (!atomic_load(&ends))
        if (!atomic_load(&burns))
            test_sleep(TEST_MS);
    return arg;
}

// A driver's thread: started on one of the library's.
static void *start_burning(void *arg)
{
    if (pthread_create(arg, NULL, burn, NULL))
        abort();
    while (!atomic_load(&ends))
        test_sleep(TEST_MS);
    return NULL;
}

// True if the answer becomes this one. (A sanitizer has a thread that looks
// like a driver's and works now and then; a busy machine gives little time.)
static bool comes_to(struct hr__patience *p, bool patient)
{
    bool is = !patient;

    for (int i = 0; i < 100 && is != patient; i++) {
        test_sleep(100 * TEST_MS);
        is = hr__wait_longer(p);
    }
    return is == patient;
}

// A sleeping process that the calling thread started is waited for.
static void *start_process(void *arg)
{
    pthread_t self = pthread_self();
    struct hr__patience p = {.most = INT64_MAX, .caller = &self};
    pid_t pid = fork();

    if (!pid) {
        pause();
        _exit(0);
    }
    hr__wait_longer(&p);
    test_sleep(100 * TEST_MS);
    if (access("/proc/thread-self/children", R_OK))
        test_not_run("no /proc/*/children here");
    else
        CHECK(hr__wait_longer(&p), "a linker");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    CHECK(comes_to(&p, false), "no linker any more");
    return arg;
}

// Checks for patience with the caller's thread busy or idle, twice.
static void look_twice(const pthread_t *caller, bool burning, const char *what)
{
    struct hr__patience p = {.most = hr__now() + 60000 * TEST_MS,
                             .caller = caller};

    atomic_store(&burns, true);
    CHECK(hr__wait_longer(&p) && p.deadline > hr__now(), "%s: at first", what);
    CHECK(comes_to(&p, burning), "%s: it burns", what);
    // It has had no time to speak of between these two.
    p = (struct hr__patience){.most = p.most, .caller = caller};
    hr__wait_longer(&p);
    if (burning)
        CHECK(hr__wait_longer(&p), "%s: it gets no time", what);
    atomic_store(&burns, false);
    CHECK(comes_to(&p, false), "%s: it sleeps", what);
}

// Time is given to a driver that works: on our thread or on its own. Not to one
// that sleeps, whatever the program's threads and other ones of ours do.
TEST_CASE(patience)
{
    struct hr__patience p = {.most = hr__now()};
    pthread_t user, ours, starter, drivers = 0;

    CHECK(!hr__wait_longer(&p), "at the end");
    p = (struct hr__patience){.most = INT64_MAX, .used = INT64_C(60000000000)};
    CHECK(!hr__wait_longer(&p), "after a minute of work");
    atomic_store(&ends, false);
    if (pthread_create(&user, NULL, burn, NULL))
        abort();
    look_twice(NULL, false, "a thread of the program");
    atomic_store(&ends, true);
    pthread_join(user, NULL);
    atomic_store(&ends, false);
    if (!hr__thread_start(&ours, burn, NULL))
        abort();
    look_twice(NULL, false, "another thread of the library");
    look_twice(&ours, true, "the thread that calls");
    atomic_store(&ends, true);
    pthread_join(ours, NULL);
    atomic_store(&ends, false);
    if (!hr__thread_start(&starter, start_burning, &drivers))
        abort();
    look_twice(NULL, true, "a thread of the driver's");
    atomic_store(&ends, true);
    pthread_join(starter, NULL);
    pthread_join(drivers, NULL);
    if (!hr__thread_start(&starter, start_process, NULL))
        abort();
    pthread_join(starter, NULL);
}
