// SPDX-License-Identifier: Apache-2.0
// fork() with busy threads: in the child old handles answer HR_EFORK at once,
// a device of its own works, and the parent does not notice.
#include <signal.h>
#include <sys/wait.h>

#include "scene.h"

static struct scene scene;

// The child's exit code: the first fault that it finds.
enum {
    FINE,
    OLD_JOB,
    OLD_IMAGE,
    OLD_BATCH,
    OLD_DEVICE,
    NEW_DEVICE,
    NEW_JOB,
    NEW_PIXELS
};

static int old_handles(hr_job job, hr_image image)
{
    struct hr_stats stats;

    if (hr_job_poll(job, 0) != HR_EFORK || hr_job_wait(job, -1) != HR_EFORK ||
        hr_job_fd(job) != -1 || hr_last_status() != HR_EFORK)
        return OLD_JOB;
    hr_job_cancel(job);
    hr_job_release(&job);
    if (hr_image_wait(image, -1) != HR_EFORK ||
        hr_resize(scene.dev, image, &(struct hr_resize){.w = 3, .h = 3}))
        return OLD_IMAGE;
    if (hr_submit(scene.dev, scene.samples, scene.n, scene.out, NULL) ||
        hr_last_status() != HR_EFORK)
        return OLD_BATCH;
    if (hr_wait_all(scene.dev, -1) != HR_EFORK ||
        hr_image_create(scene.dev, hr_image_params(.w = 1, .h = 1, .c = 3)))
        return OLD_DEVICE;
    hr_device_stats(scene.dev, &stats);
    return FINE;
}

// The default device of the child; bytes samples need nothing of the parent.
static int new_device(void)
{
    struct hr_sample s = scene.samples[0];
    auto_batch out = hr_batch_create(
        NULL, hr_batch_params(.n = 1, .c = 3, .h = SCENE_H, .w = SCENE_W));
    auto_job job = NULL;

    if (!out)
        return NEW_DEVICE;
    job = hr_submit(NULL, &s, 1, out, NULL);
    if (!job || hr_job_wait(job, HR_FOREVER))
        return NEW_JOB;
    if (memcmp(out->params.data, scene.expected, out->size))
        return NEW_PIXELS;
    return FINE;
}

static int child(hr_job job, hr_image image, bool open_one)
{
    int wrong = old_handles(job, image);

    // The sanitizers' malloc may be locked in the child for ever.
    if (TEST_SANITIZED)
        return wrong;
    if (!wrong && open_one)
        wrong = new_device();
    if (wrong)
        return wrong;
    // Giving up what was the parent's touches none of its threads.
    for (int i = 0; i < scene.n; i++)
        hr_image_release(&scene.samples[i].image);
    hr_image_release(&image);
    hr_batch_destroy(&scene.out);
    hr_device_close(&scene.dev);
    return FINE;
}

// Waits for the child for some seconds; -1 = it hangs.
static int wait_for(pid_t pid)
{
    for (int i = 0; i < 20000; i++) {
        int status;

        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFEXITED(status) ? WEXITSTATUS(status)
                                     : 128 + WTERMSIG(status);
        test_sleep(TEST_MS);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return -1;
}

static void rounds_on(const char *name, int rounds)
{
    uint64_t seed = test_seed;
    auto_device dev = test_device(name, 3, 0);
    auto_image image = test_image(dev, 40, 30, 3, &seed);

    scene_init(&scene, dev, 12, SCENE_MIXED);
    for (int i = 0; i < rounds; i++) {
        hr_job job = hr_submit(dev, scene.samples, 12, scene.out, NULL);
        pid_t pid;
        int result;

        test_sleep(random_below(&seed, 300000));
        pid = fork();
        if (pid == 0)
            _exit(child(job, image, i % 4 == 0));
        result = wait_for(pid);
        CHECK(result == FINE, "round %d on %s: the child says %d", i, name,
              result);
        CHECK(hr_job_wait(job, HR_FOREVER) == HR_OK &&
                  scene_check_results(&scene, job, HR_ON_ERROR_FAIL) == 12,
              "round %d: the parent", i);
        hr_job_release(&job);
        if (result != FINE)
            break;
    }
    check_idle(dev);
    scene_finish(&scene);
}

TEST_CASE(busy_cpu)
{
    if (TEST_SANITIZED)
        test_not_run("devices of the child, in a sanitizer build");
    rounds_on("cpu", test_loops(200));
}

TEST_CASE(busy_engine)
{
    fake_begin(.spans = FAKE_ALL(FAKE_RS), .delay_ns = TEST_MS / 5);
    rounds_on("fake", test_loops(60));
}

// The parent has given the device itself up: an image is its last user.
TEST_CASE(last_user_in_the_child)
{
    uint64_t seed = test_seed;
    hr_device dev = test_device("cpu", 2, 0);
    auto_image image = test_image(dev, 4, 4, 3, &seed);
    pid_t pid;
    int result;

    hr_device_close(&dev);
    pid = fork();
    if (pid == 0) {
        if (!TEST_SANITIZED)
            hr_image_release(&image);
        _exit(0);
    }
    result = wait_for(pid);
    CHECK(result == 0, "the child says %d", result);
}

// The default device is the parent's, then the child's own.
TEST_CASE(default_device)
{
    const char *name;
    pid_t pid;
    int result;

    setenv("HEADRACE_BACKEND", "cpu", 1);
    name = hr_get_image_backend();
    CHECK(name && !strcmp(name, "cpu"), "%s", hr_last_error());
    scene_init(&scene, NULL, 1, SCENE_BYTES);
    pid = fork();
    if (pid == 0) {
        if (TEST_SANITIZED)
            _exit(0);
        if (hr_wait_all(NULL, 0) || new_device() != FINE)
            _exit(1);
        _exit(hr_set_image_backend("cpu") == HR_OK ? 0 : 2);
    }
    result = wait_for(pid);
    CHECK(result == 0, "the child says %d", result);
    CHECK(new_device() == FINE, "the parent's");
    scene_finish(&scene);
    unsetenv("HEADRACE_BACKEND");
}

// The parent has named its device: the child has that one, not the best.
TEST_CASE(named_device)
{
    const char *name;
    pid_t pid;
    int result;

    CHECK(hr_set_image_backend("cpu") == HR_OK, "%s", hr_last_error());
    setenv("HEADRACE_BACKEND", "nosuch", 1);  // of "auto"
    pid = fork();
    if (pid == 0) {
        if (TEST_SANITIZED)
            _exit(0);
        name = hr_get_image_backend();
        _exit(name && !strcmp(name, "cpu") ? 0 : 1);
    }
    result = wait_for(pid);
    CHECK(result == 0, "the child says %d", result);
    unsetenv("HEADRACE_BACKEND");
}
