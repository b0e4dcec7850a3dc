// SPDX-License-Identifier: Apache-2.0
// Device and pinned memory from birth to end: invalid calls, memory that runs
// out at each allocation, images that outlive their device's handle, fork. On
// the scripted engine, and on OpenCL where it opens (HEADRACE_TEST_DEVICE names
// another).
#include <sys/wait.h>

#include "tools/common/tools.h"
#include "tools/run/run.h"
#include "fake_engine.h"
#include "testing.h"

#define SECOND (1000 * TEST_MS)

enum { W = 30, H = 20, SIZE = W * H * 3 };

static const struct hr_op ops[] = {hr_op_decode(0),
                                   hr_op_resize(.w = W, .h = H)};
static const struct hr_image_params like = {.w = W,
                                            .h = H,
                                            .c = 3,
                                            .dtype = HR_U8,
                                            .layout = HR_NHWC,
                                            .memory = HR_MEMORY_DEVICE};
static struct bytes jpeg;
static bool real;

static hr_device open_device(bool is_real)
{
    static const struct fake_script script = {.spans = FAKE_ALL(FAKE_RS),
                                              .memory = true};

    if (!is_real)
        fake_reset(&script);
    return test_device(is_real ? test_device_name() : "fake", 2, 0);
}

static hr_image make(hr_device dev, enum hr_memory memory)
{
    struct hr_image_params p = like;
    hr_image image;

    p.memory = memory;
    if (!(image = hr_image_create(dev, &p)))
        abort();
    return image;
}

static enum hr_status fill(hr_device dev, hr_image out)
{
    struct hr_sample s = test_sample(&jpeg, ops, 2, .out = out);
    auto_job job = hr_submit(dev, &s, 1, NULL, NULL);
    enum hr_status status = job ? hr_job_wait(job, 60 * SECOND)
                                : hr_last_status();

    return status;
}

static void expected(uint8_t to[SIZE])
{
    auto_device cpu = test_device("cpu", 1, 0);
    auto_image out = make(cpu, HR_MEMORY_DEVICE);

    // On a device without memory of its own this is host memory.
    CHECK(out->params.memory == HR_MEMORY_HOST && out->params.data &&
              !out->native.api,
          "the CPU's device memory");
    CHECK(fill(cpu, out) == HR_OK, "%s", hr_last_error());
    memcpy(to, out->params.data, SIZE);
}

static bool holds(hr_image image, const uint8_t *bytes)
{
    uint8_t mine[SIZE];

    return hr_image_read(image, mine, SIZE, 60 * SECOND) == HR_OK &&
           !memcmp(mine, bytes, SIZE);
}

// ---- What is refused ------------------------------------------------------

static void refuse(hr_device dev)
{
    auto_device other = test_device("cpu", 1, 0);
    auto_image a = make(dev, HR_MEMORY_DEVICE);
    auto_batch batch = hr_batch_create(
        dev, hr_batch_params(.n = 3, .c = 3, .h = H, .w = W, .dtype = HR_U8,
                             .memory = HR_MEMORY_DEVICE));
    struct hr_image_params p = like;
    uint8_t mine[3 * SIZE];

#define REFUSED(call, code)                                    \
    CHECK(call == code && hr_last_error()[0], "%s: %s", #call, \
          hr_status_name(hr_last_status()))
    p.data = mine;
    CHECK(!hr_image_create(dev, &p) && hr_last_status() == HR_EINVAL,
          "the caller's memory is the host's");
    p.data = NULL;
    p.memory = (enum hr_memory)3;
    CHECK(!hr_image_create(dev, &p) && hr_last_status() == HR_EINVAL, "3");
    REFUSED(hr_image_read(a, mine, SIZE - 1, SECOND), HR_EINVAL);
    REFUSED(hr_image_read(a, NULL, SIZE, SECOND), HR_EINVAL);
    REFUSED(hr_image_read(NULL, mine, SIZE, SECOND), HR_EINVAL);
    REFUSED(hr_image_write(a, mine, 0, SECOND), HR_EINVAL);
    REFUSED(hr_batch_read(batch, 0, 4, mine, sizeof(mine), SECOND), HR_EINVAL);
    REFUSED(hr_batch_read(batch, 3, 1, mine, sizeof(mine), SECOND), HR_EINVAL);
    REFUSED(hr_batch_read(batch, -1, 1, mine, sizeof(mine), SECOND), HR_EINVAL);
    REFUSED(hr_batch_read(batch, 0, 0, mine, sizeof(mine), SECOND), HR_EINVAL);
    REFUSED(hr_batch_read(batch, 1, 2, mine, SIZE, SECOND), HR_EINVAL);
#undef REFUSED
    // An image of another device must be read to the host and written there.
    CHECK(!hr_apply_op(other, a, &hr_op_flip(0)) &&
              hr_last_status() == HR_EINVAL,
          "other");
    CHECK(!hr_move(other, a, HR_MEMORY_HOST) && hr_last_status() == HR_EINVAL,
          "other");
}

TEST_CASE(refused)
{
    for (int d = 0; d <= real; d++) {
        auto_device dev = open_device(d);

        refuse(dev);
    }
}

// Larger than any device's memory; the device goes on.
TEST_CASE(too_large)
{
    auto_device dev = NULL;
    hr_batch batch;
    auto_image a = NULL;

    if (!real) {
        test_not_run("no device has memory that is too small");
        return;
    }
    dev = open_device(true);
    batch = hr_batch_create(dev, hr_batch_params(.n = 1 << 20, .c = 3,
                                                 .h = 6000, .w = 6000,
                                                 .memory = HR_MEMORY_DEVICE));
    CHECK(!batch && hr_last_status() == HR_ELIMIT, "%s", hr_last_error());
    a = make(dev, HR_MEMORY_DEVICE);
    CHECK(fill(dev, a) == HR_OK, "%s", hr_last_error());
}

// ---- Pinned, and from one to the other ------------------------------------

TEST_CASE(pinned)
{
    uint8_t right[SIZE], zero[SIZE] = {0};

    expected(right);
    for (int d = 0; d <= real; d++) {
        auto_device dev = open_device(d);
        auto_image a = make(dev, HR_MEMORY_PINNED), b = NULL, c = NULL,
                   e = NULL;

        CHECK(a->params.data && a->params.memory == HR_MEMORY_PINNED &&
                  (uintptr_t)a->params.data % 64 == 0 &&
                  !memcmp(a->params.data, zero, SIZE),
              "%s: pinned memory is the host's, aligned and zero", dev->name);
        CHECK(fill(dev, a) == HR_OK && !memcmp(a->params.data, right, SIZE),
              "%s: filled", dev->name);
        CHECK(holds(a, right), "%s: read", dev->name);
        b = hr_move(dev, a, HR_MEMORY_DEVICE);
        c = hr_move(dev, b, HR_MEMORY_HOST);
        e = hr_move(dev, b, HR_MEMORY_DEVICE);
        CHECK(b && !b->params.data && holds(b, right), "to the device");
        CHECK(c && !hr_image_wait(c, 60 * SECOND) && c->params.data &&
                  !memcmp(c->params.data, right, SIZE),
              "and to the host");
        CHECK(e == b, "it is there already");
    }
}

// ---- Ends -----------------------------------------------------------------

// An image is enough to keep its device alive.
TEST_CASE(outlives)
{
    uint8_t right[SIZE];

    expected(right);
    for (int d = 0; d <= real; d++) {
        hr_device dev = open_device(d);
        hr_image a = make(dev, HR_MEMORY_DEVICE), b;

        CHECK(fill(dev, a) == HR_OK, "%s", hr_last_error());
        b = hr_apply_op(dev, a, &hr_op_flip(0));
        hr_device_close(&dev);
        CHECK(holds(a, right), "read after close: %s", hr_last_error());
        hr_image_release(&a);
        // The last reference, perhaps still being made.
        hr_image_release(&b);
    }
}

TEST_CASE(forks)
{
    for (int d = 0; d <= real; d++) {
        auto_device dev = open_device(d);
        auto_image a = make(dev, HR_MEMORY_DEVICE);
        uint8_t mine[SIZE];
        int status = -1;
        pid_t child;

        fflush(stdout);
        if (!(child = fork())) {
            bool ok = hr_image_read(a, mine, SIZE, SECOND) == HR_EFORK &&
                      hr_image_write(a, mine, SIZE, SECOND) == HR_EFORK;

            alarm(20);
            hr_image_release(&a);
            hr_device_close(&dev);
            _exit(!ok);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child &&
                  WIFEXITED(status) && !WEXITSTATUS(status),
              "%d in the child: %#x", d, (unsigned)status);
        memset(mine, 7, SIZE);
        CHECK(hr_image_write(a, mine, SIZE, 60 * SECOND) == HR_OK &&
                  holds(a, mine),
              "the parent: %s", hr_last_error());
    }
}

// ---- Memory that runs out -------------------------------------------------

// False: something said that it failed, as it should.
static bool scenario(hr_device dev, const uint8_t *right)
{
    struct hr_image_params p = like;
    auto_batch batch = hr_batch_create(
        dev, hr_batch_params(.n = 2, .c = 3, .h = H, .w = W, .dtype = HR_U8,
                             .layout = HR_NHWC, .memory = HR_MEMORY_DEVICE));
    auto_image a = NULL, b = NULL, c = NULL;
    uint8_t mine[SIZE];
    bool ok;

    p.memory = HR_MEMORY_PINNED;
    a = hr_image_create(dev, &p);
    b = test_decode_to(dev, jpeg.data, jpeg.size, HR_MEMORY_DEVICE);
    c = b ? hr_resize(dev, b, &ops[1].resize) : NULL;
    ok = batch && a && c;
    ok = ok && hr_image_read(c, mine, SIZE, 60 * SECOND) == HR_OK;
    CHECK(!ok || !memcmp(mine, right, SIZE), "wrong pixels");
    ok = ok && !hr_image_write(c, mine, SIZE, 60 * SECOND) &&
         !hr_batch_read(batch, 0, 1, mine, SIZE, 60 * SECOND);
    CHECK(ok || hr_last_error()[0], "no reason");
    return ok;
}

TEST_CASE(runs_out)
{
    uint8_t right[SIZE];

    expected(right);
    for (int d = 0; d <= real; d++)
        for (int ever = 0; ever < 2; ever++) {
            auto_device dev = open_device(d);
            int failed = 0, well = 0;

            // Far enough when it goes well some times in a row.
            for (int k = 1; k < 200 && well < 8; k++) {
                bool ok;

                hr__test_fail_alloc(k, ever);
                ok = scenario(dev, right);
                hr__test_fail_alloc(0, false);
                well = ok ? well + 1 : 0;
                failed += !ok;
                CHECK(hr_wait_all(dev, 60 * SECOND) == HR_OK, "in flight");
            }
            CHECK(failed > 3 && scenario(dev, right), "%d failed", failed);
        }
}

TEST_CASE(no_memory)
{
    auto_device dev = NULL;

    fake_begin(.memory = true, .memory_fails = true);
    dev = test_device("fake", 1, 0);
    CHECK(!hr_image_create(dev, &like) && hr_last_status() == HR_ENOMEM &&
              strstr(hr_last_error(), "has no memory"),
          "%s", hr_last_error());
    CHECK(!test_decode_to(dev, jpeg.data, jpeg.size, HR_MEMORY_DEVICE) &&
              hr_last_status() == HR_ENOMEM,
          "%s", hr_last_error());
    hr_device_close(&dev);
    // For what comes next.
    dev = open_device(false);
}

// ---- headrace run --memory ------------------------------------------------

// The array that the command makes of the picture; free(). NULL: it failed.
static uint8_t *by_command(const char *device, const char *memory, size_t *size)
{
    const struct bytes none = {(uint8_t *)"", 1};
    const char *in = test_file(&jpeg, ".jpg"), *out = test_file(&none, ".npy");
    char *argv[] = {"headrace run", (char *)in,     "--backend",
                    (char *)device, "--memory",     (char *)memory,
                    "--out",        (char *)out,    "--quiet",
                    "--ops",        "resize=40x30", NULL};
    char json[160];
    uint8_t *data = NULL;
    FILE *f;

    snprintf(json, sizeof(json), "%.*s.json", (int)strlen(out) - 4, out);
    if (!cmd_run(11, argv) && (f = fopen(out, "rb"))) {
        data = malloc(1 << 16);
        *size = data ? fread(data, 1, 1 << 16, f) : 0;
        fclose(f);
    }
    unlink(json);
    return data;
}

TEST_CASE(command)
{
    size_t size = 0, same = 0;
    uint8_t *want = by_command("cpu", "host", &size), *got;

    CHECK(want && size > 30 * 40 * 3 * 4, "%zu bytes", size);
    for (int d = 0; d <= real; d++)
        for (int k = 0; k < 3; k++) {
            const char *const memories[] = {"host", "pinned", "device"};

            got = by_command(d ? test_device_name() : "fake", memories[k],
                             &same);
            CHECK(got && same == size && !memcmp(got, want, size), "%s on %d",
                  memories[k], d);
            free(got);
        }
    free(want);
    got = by_command("cpu", "elsewhere", &same);
    CHECK(!got, "an unknown word");
    free(got);
}

int main(int argc, char **argv)
{
    uint64_t seed = 5;
    hr_device dev = hr_device_open(test_device_name(), NULL);
    int failed;

    real = dev;
    if (!real) {
        if (!test_is_absent())
            return 1;
        test_not_run(hr_last_error());
    }
    hr_device_close(&dev);
    jpeg = test_jpeg(64, 48, &seed);
    failed = test_main(argc, argv);
    free(jpeg.data);
    return failed;
}
