// SPDX-License-Identifier: Apache-2.0
// The OpenCL engine's patience with its driver: it waits as long as the user
// says, including 0 and the largest number, whatever else the process does; and
// longer for a driver that works. Its files on disk do not make it wait either,
// and it knows how much memory the device has.
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "opencl_faults.h"

// Machines are busy; the old patience was 300 s.
enum { SLACK = 2 };

// ---- A busy process ---------------------------------------------------------

static atomic_bool ends;

static void *burn(void *arg)
{
    while (!atomic_load_explicit(&ends, memory_order_relaxed))
        ;
    return arg;
}

static pthread_t start_burning(void)
{
    pthread_t thread;

    atomic_store(&ends, false);
    if (pthread_create(&thread, NULL, burn, NULL))
        abort();
    return thread;
}

static void stop_burning(pthread_t thread)
{
    atomic_store(&ends, true);
    pthread_join(thread, NULL);
}

// ---- Drivers that hang ------------------------------------------------------

TEST_CASE(open_hangs)
{
    static const int entries[] = {FAULT_clBuildProgram, FAULT_clCreateContext};
    pthread_t burner = start_burning();

    for (int i = 0; i < COUNT(entries); i++) {
        // (The compiler is not waited for, so it shall not run when this ends.)
        struct fault_rule r = faults_rule(entries[i], 1, false, FAULT_HANG,
                                          CL_OUT_OF_HOST_MEMORY);
        int64_t begin = hr__now(), took;
        hr_device dev;

        faults_new_cache();
        faults.ctl.set(&r, 1);
        dev = faults_open(SECOND);
        took = hr__now() - begin;
        CHECK(!dev && hr_last_status() == HR_EDEVICE &&
                  strstr(hr_last_error(), "did not answer"),
              "%s: %s", faults_names[entries[i]], hr_last_error());
        CHECK(faults_hit(r.entry), "%s: not called", faults_names[entries[i]]);
        CHECK(took >= SECOND && took < (1 + SLACK) * SECOND,
              "%s: the open took %.1f s", faults_names[entries[i]],
              (double)took / 1e9);
        hr_device_close(&dev);
        faults_calm();
        faults.ctl.release();
    }
    stop_burning(burner);
    faults_cache("cache");
}

static atomic_int left;

static void on_closed(void *ctx, bool left_behind)
{
    (void)ctx;
    atomic_store(&left, left_behind ? 2 : 1);
}

// While it hands out its program, to be kept.
TEST_CASE(close_hangs)
{
    pthread_t burner;
    int64_t begin, took;
    hr_device dev;

    atomic_store(&left, 0);
    faults_calm();
    // Drivers that were let go on compile after all, which is work.
    faults_settled();
    dev = hr_device_open("opencl",
                         hr_device_params(.threads = 2, .deadline_ns = SECOND,
                                          .on_closed = on_closed));
    CHECK(dev != NULL, "%s", hr_last_error());
    if (!dev)
        return;
    faults_hang_program(dev);
    burner = start_burning();
    begin = hr__now();
    hr_device_close(&dev);
    while (!atomic_load(&left) && hr__now() - begin < 300 * SECOND)
        test_sleep(10 * TEST_MS);
    took = hr__now() - begin;
    CHECK(atomic_load(&left) == 2, "it is not left behind");
    CHECK(took < (1 + SLACK) * SECOND, "closing took %.1f s",
          (double)took / 1e9);
    stop_burning(burner);
    faults_calm();
    faults.ctl.release();
}

// ---- Drivers that work ------------------------------------------------------

// It compiles for longer than its deadline: on our thread, or on its own.
TEST_CASE(compiles)
{
    static const enum fault_action how[] = {FAULT_WORK, FAULT_WORK_APART};

    for (int i = 0; i < 2; i++) {
        struct fault_rule r = faults_rule(FAULT_clBuildProgram, 1, false,
                                          how[i], 2500);
        int64_t begin = hr__now();
        auto_device dev = NULL;

        faults_new_cache();
        faults.ctl.set(&r, 1);
        dev = faults_open(SECOND);
        CHECK(dev != NULL, "%d: %s", i, hr_last_error());
        CHECK(faults_hit(r.entry), "not called");
        CHECK(hr__now() - begin >= 5 * SECOND / 2, "it has not worked");
        faults_calm();
    }
    faults_cache("cache");
}

// ---- Any deadline -----------------------------------------------------------

TEST_CASE(any_deadline)
{
    static const int64_t ns[] = {INT64_MIN, INT64_MAX / 9 * 8 + 8, INT64_MAX};

    for (int i = 0; i < COUNT(ns); i++) {
        auto_device dev = faults_open_scene(ns[i], SCENE_MIXED);
        struct hr_stats stats;

        snprintf(faults.label, sizeof(faults.label), "deadline %lld",
                 (long long)ns[i]);
        CHECK(faults_run(60 * SECOND) > 0 && !faults.why,
              "%s: not the device's, why %#x", faults.label, faults.why);
        hr_device_stats(dev, &stats);
        CHECK(!stats.abandoned, "%s: given up", faults.label);
        scene_finish(&faults.scene);
    }
}

// ---- What is kept -----------------------------------------------------------

static atomic_int lines;

static void count_lines(void *ctx, enum hr_log_level level, const char *text)
{
    (void)ctx;
    if (level == HR_LOG_WARN && strstr(text, "program is not read"))
        atomic_fetch_add(&lines, 1);
}

// The files of the cache that is in use, each by a pipe.
static int make_pipes(void)
{
    char folder[300], path[600];
    const struct dirent *entry;
    int n = 0;
    DIR *dir;

    snprintf(folder, sizeof(folder), "%s/headrace", getenv("XDG_CACHE_HOME"));
    if (!(dir = opendir(folder)))
        return 0;
    while ((entry = readdir(dir))) {
        if (!strstr(entry->d_name, ".bin"))
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        n += !unlink(path) && !mkfifo(path, 0600);
    }
    closedir(dir);
    return n;
}

TEST_CASE(pipe_for_program)
{
    int64_t begin;
    hr_device dev;

    faults_calm();
    faults_new_cache();
    dev = faults_open(0);
    CHECK(dev != NULL, "%s", hr_last_error());
    hr_device_close(&dev);
    CHECK(make_pipes() == 1, "no program was kept");
    begin = hr__now();
    dev = hr_device_open("opencl",
                         hr_device_params(.threads = 2, .log = count_lines));
    CHECK(dev != NULL, "%s", hr_last_error());
    CHECK(hr__now() - begin < 30 * SECOND, "the open took %.1f s",
          (double)(hr__now() - begin) / 1e9);
    CHECK(atomic_load(&lines) == 1, "%d lines say so", atomic_load(&lines));
    hr_device_close(&dev);
    faults_cache("cache");
}

// ---- Device memory ----------------------------------------------------------

static size_t bytes_of(hr_device dev)
{
    struct hr_stats stats;

    hr_device_stats(dev, &stats);
    CHECK(stats.peak_device_bytes >= stats.device_bytes, "the peak");
    return stats.device_bytes;
}

// The driver thread releases free memory, some time after it is free.
static bool comes_to(hr_device dev, size_t bytes)
{
    for (int i = 0; i < 5000 && bytes_of(dev) != bytes; i++)
        test_sleep(TEST_MS);
    return bytes_of(dev) == bytes;
}

TEST_CASE(bytes_held)
{
    enum { SIDE = 2048 };
    const size_t one = (size_t)3 * SIDE * SIDE;
    auto_device dev = faults_open_scene(0, SCENE_MIXED);
    size_t start;
    hr_image image;
    hr_batch batch;
    hr_device cpu = hr_device_open("cpu", NULL);

    // Its buffers grow with the first jobs, and stay.
    for (int i = 0; i < 3; i++)
        faults_run(60 * SECOND);
    start = bytes_of(dev);
    CHECK(start > 0, "a device that has worked has no memory");
    image = hr_image_create(dev, hr_image_params(.w = SIDE, .h = SIDE, .c = 3,
                                                 .dtype = HR_U8,
                                                 .memory = HR_MEMORY_DEVICE));
    CHECK(image != NULL, "%s", hr_last_error());
    CHECK(bytes_of(dev) >= start + one, "an image: %zu", bytes_of(dev) - start);
    batch = hr_batch_create(dev, hr_batch_params(.n = 2, .c = 3, .h = SIDE,
                                                 .w = SIDE, .dtype = HR_U8,
                                                 .memory = HR_MEMORY_PINNED));
    CHECK(batch != NULL, "%s", hr_last_error());
    CHECK(bytes_of(dev) >= start + 3 * one, "a batch: %zu",
          bytes_of(dev) - start);
    hr_image_release(&image);
    hr_batch_destroy(&batch);
    CHECK(comes_to(dev, start), "%zu at first, %zu at the end", start,
          bytes_of(dev));
    CHECK(bytes_of(cpu) == 0, "the CPU has device memory");
    hr_device_close(&cpu);
    scene_finish(&faults.scene);
}

FAULTS_MAIN
