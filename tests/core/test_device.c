// SPDX-License-Identifier: Apache-2.0
// Devices: names, defaults, environment, lists, life and death.
#include "scene.h"

TEST_CASE(names)
{
    static const char *const bad[] = {"",     "nothing", "cpu:1", "cp",
                                      "cpux", ":",       "cpu0"};
    hr_device dev;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        dev = hr_device_open(bad[i], NULL);
        CHECK(!dev && hr_last_status() == HR_ENODEVICE && hr_last_error()[0],
              "'%s': %s", bad[i], hr_last_error());
        hr_device_close(&dev);
    }
    dev = hr_device_open("cpu:", NULL);
    CHECK(dev, "cpu: %s", hr_last_error());
    hr_device_close(&dev);
    CHECK(!dev, "not NULL");
}

TEST_CASE(facts)
{
    auto_device dev = hr_device_open(
        "cpu", &(struct hr_device_params){
                   .threads = 3, .cpu_mask = HR_CPU_C, .limits = {.side = 77}});

    CHECK(!strcmp(dev->name, "cpu") && !strcmp(dev->backend, "cpu") &&
              strstr(dev->description, "3 threads") &&
              strstr(dev->description, "c kernels"),
          "%s", dev->description);
    CHECK(dev->caps.threads == 3 && dev->params.threads == 3, "threads");
    CHECK(dev->params.budget == 256 << 20, "budget");
    CHECK(dev->params.deadline_ns == 10000 * TEST_MS, "deadline");
    CHECK(dev->params.limits.side == 77 &&
              dev->params.limits.pixels == 100000000 &&
              dev->params.limits.scans == 100 &&
              dev->params.limits.item_bytes == (size_t)512 << 20,
          "limits");
    CHECK(dev->caps.exact && dev->caps.host_memory, "caps");
    for (int t = 0; t <= HR_FAST; t++)
        CHECK(dev->caps.spans[t] & HR_SPAN_BIT(HR_ENTROPY, HR_STORE), "%d", t);
    hr_device_close(&dev);
    dev = hr_device_open("cpu", NULL);
    CHECK(dev->params.threads >= 1, "%d threads", dev->params.threads);
}

TEST_CASE(refused)
{
    static const struct {
        struct hr_device_params params;
        const char *why;
    } cases[] = {
        {{.threads = -4}, "-4 threads"},
        {{.depth = -1}, "depth of -1"},
        {{.reference = HR_NUM_REFERENCES}, "unknown reference"},
        {{.entropy = HR_WHERE_DEVICE + 1}, "unknown place"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        auto_device dev = hr_device_open("cpu", &cases[i].params);

        CHECK(!dev && hr_last_status() == HR_EINVAL &&
                  strstr(hr_last_error(), cases[i].why),
              "%s: %s", cases[i].why, hr_last_error());
    }
}

// A limit of the device's is kept by its jobs.
TEST_CASE(limits)
{
    uint64_t seed = test_seed;
    auto_bytes jpeg = test_jpeg(100, 50, &seed);
    auto_device dev = hr_device_open(
        "cpu",
        &(struct hr_device_params){.threads = 1, .limits = {.side = 77}});
    const struct hr_op op = hr_op_decode(0);
    auto_image out = hr_image_create(
        dev, hr_image_params(.w = 100, .h = 50, .c = 3, .dtype = HR_U8));
    struct hr_sample s = test_sample(&jpeg, &op, 1, .out = out);
    auto_job job = hr_submit(dev, &s, 1, NULL, NULL);

    CHECK(hr_job_wait(job, HR_FOREVER) == HR_ELIMIT &&
              strstr(job->results[0].message, "77"),
          "%s", job->results[0].message);
    CHECK(!hr_decode(dev, jpeg.data, jpeg.size, NULL) &&
              hr_last_status() == HR_ELIMIT,
          "eager: %s", hr_last_error());
}

// One more reference, of a device or of the default one.
static void retained(void)
{
    hr_device dev = hr_device_open("cpu", NULL), more = hr_device_retain(dev);
    auto_device by_default = hr_device_retain(NULL);

    CHECK(dev && more == dev, "another device");
    hr_device_close(&dev);
    CHECK(!strcmp(more->name, "cpu"), "it has gone");
    hr_device_close(&more);
    CHECK(by_default && !strcmp(by_default->name, hr_get_image_backend()),
          "not the default");
}

TEST_CASE(the_default)
{
    hr_batch a, b;
    hr_job job;

    fake_reset_spans(FAKE_RS);
    unsetenv("HEADRACE_BACKEND");
    setenv("HEADRACE_BACKEND", "cpu", 1);
    CHECK(hr_set_image_backend(NULL) == HR_OK &&
              !strcmp(hr_get_image_backend(), "cpu"),
          "%s", hr_last_error());
    a = hr_batch_create(NULL, hr_batch_params(.n = 1, .c = 1, .h = 1, .w = 1));
    CHECK(hr_set_image_backend("nothing") == HR_ENODEVICE &&
              !strcmp(hr_get_image_backend(), "cpu"),
          "an error changed it");
    CHECK(hr_set_image_backend("fake") == HR_OK &&
              !strcmp(hr_get_image_backend(), "fake:0"),
          "%s", hr_last_error());
    b = hr_batch_create(NULL, hr_batch_params(.n = 1, .c = 1, .h = 1, .w = 1));
    CHECK(a && b, "batches");
    retained();
    // The sample belongs to another device now, and goes on there.
    job = hr_submit(NULL,
                    &(struct hr_sample){.data = "x",
                                        .size = 1,
                                        .ops = &hr_op_decode(0),
                                        .num_ops = 1},
                    1, a, NULL);
    CHECK(job && !strcmp(job->device->name, "cpu") &&
              hr_job_wait(job, HR_FOREVER) != HR_OK,
          "the old default's batch: %s", hr_last_error());
    hr_job_release(&job);
    setenv("HEADRACE_BACKEND", "nothing", 1);
    CHECK(hr_set_image_backend("auto") == HR_ENODEVICE, "variable");
    unsetenv("HEADRACE_BACKEND");
    CHECK(hr_set_image_backend("auto") == HR_OK, "auto");
    CHECK(hr_set_image_backend("cpu") == HR_OK, "cpu");
    hr_batch_destroy(&a);
    hr_batch_destroy(&b);
    CHECK(test_reaches(&fake_counts.closes, atomic_load(&fake_counts.opens)),
          "the old default is not closed");
}

TEST_CASE(list)
{
    struct hr_device_info infos[32];
    int n, cpu = 0, fake = 0;

    fake_reset_spans(FAKE_RS);
    memset(infos, 0xff, sizeof(infos));
    n = hr_device_list(infos, 32);
    CHECK(n >= 2 && n <= 32, "%d", n);
    CHECK(hr_device_list(NULL, 0) == n, "only counted");
    for (int i = 0; i < n && i < 32; i++) {
        CHECK(infos[i].name[0] && infos[i].backend[0], "line %d", i);
        CHECK(infos[i].available == !infos[i].reason[0], "%s: '%s'",
              infos[i].name, infos[i].reason);
        cpu += !strcmp(infos[i].name, "cpu") && infos[i].available;
        fake += !strcmp(infos[i].name, "fake") && infos[i].available;
    }
    CHECK(cpu == 1 && fake == 1, "cpu %d, fake %d", cpu, fake);
    CHECK(!strcmp(infos[n - 1].name, "cpu"), "the CPU is the last");
    infos[1].name[0] = '#';
    hr_device_list(infos, 1);
    CHECK(infos[1].name[0] == '#', "wrote beyond max");
}

static void *open_close(void *arg)
{
    (void)arg;
    for (int i = 0; i < test_loops(20); i++) {
        auto_device dev = hr_device_open(
            i % 2 ? "cpu" : "fake", &(struct hr_device_params){.threads = 2});
    }
    return NULL;
}

TEST_CASE(many_devices)
{
    pthread_t threads[4];

    fake_reset_spans(FAKE_RS);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, open_close, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK(atomic_load(&fake_counts.opens) == atomic_load(&fake_counts.closes),
          "%d opened", atomic_load(&fake_counts.opens));
}

static void count_close(void *ctx, bool left_behind)
{
    atomic_fetch_add((atomic_int *)ctx, left_behind ? 100 : 1);
}

// The owner of memory lent to a device is told when it is free again: when the
// last user of the device is gone.
TEST_CASE(told_of_the_end)
{
    struct hr_device_params params = {.threads = 1, .on_closed = count_close};
    atomic_int told = 0;
    hr_image image;
    hr_device dev;

    params.closed_ctx = &told;
    fake_begin(.open_fails = true);
    CHECK(!hr_device_open("fake", &params), "opened");
    CHECK(!atomic_load(&told), "told of a device that did not open");
    fake_reset_spans(FAKE_RS);
    dev = hr_device_open("fake", &params);
    image = hr_image_create(dev, hr_image_params(.w = 2, .h = 2, .c = 3));
    CHECK(dev && image, "%s", hr_last_error());
    hr_device_close(&dev);
    CHECK(!atomic_load(&told), "an image still has it");
    hr_image_release(&image);
    CHECK(test_reaches(&told, 1) && atomic_load(&told) == 1, "told %d times",
          atomic_load(&told));
}
