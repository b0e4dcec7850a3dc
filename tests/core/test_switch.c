// SPDX-License-Identifier: Apache-2.0
// Several devices in one process: host memory goes with all of them and takes
// turns across them, and the default device may change at any time.
#include "scene.h"

enum { SIDE = 16, BYTES = SIDE * SIDE * 3 };

// ---- Which memory goes where ----------------------------------------------

static hr_image own_image(hr_device dev, uint8_t *data)
{
    hr_image image = hr_image_create(
        dev, hr_image_params(.w = SIDE, .h = SIDE, .c = 3, .dtype = HR_U8,
                             .layout = HR_NHWC, .data = data));

    if (!image)
        abort();
    return image;
}

// From an image of one device, on another, to a batch of a third; and the
// devices that only made memory need not be open any more.
TEST_CASE(host_memory_goes_anywhere)
{
    uint64_t seed = test_seed;
    uint8_t mine[BYTES], moved[BYTES];
    hr_device a = test_device("cpu", 1, 0), b = test_device("cpu", 1, 0), on;
    hr_image from = test_image(a, SIDE, SIDE, 3, &seed), over;
    hr_image middle = own_image(b, mine);
    hr_batch batch =
        hr_batch_create(b, hr_batch_params(.n = 2, .c = 3, .h = SIDE, .w = SIDE,
                                           .dtype = HR_U8, .layout = HR_NHWC));
    struct hr_sample s = {.image = middle};
    hr_job first, job;

    hr_device_close(&a);
    hr_device_close(&b);
    fake_begin(.spans = FAKE_ALL(FAKE_RS), .delay_ns = 20 * TEST_MS);
    on = test_device("fake", 1, 0);
    first = scene_copy(on, from, middle, NULL);
    job = hr_submit(on, &s, 1, batch, hr_job_params(.first_slot = 1));
    over = hr_move(on, middle, HR_MEMORY_DEVICE);
    CHECK(first && job && over, "%s", hr_last_error());
    CHECK(hr_job_wait(job, HR_FOREVER) == HR_OK, "%s", hr_last_error());
    CHECK(!memcmp((uint8_t *)batch->params.data + batch->params.stride_n,
                  from->params.data, BYTES) &&
              !memcmp(mine, from->params.data, BYTES),
          "pixels");
    CHECK(job->device == on, "the job's device");
    CHECK(hr_image_read(over, moved, BYTES, HR_FOREVER) == HR_OK &&
              !memcmp(moved, mine, BYTES),
          "moved");
    hr_job_release(&first);
    hr_job_release(&job);
    hr_image_release(&from);
    hr_image_release(&middle);
    hr_image_release(&over);
    hr_batch_destroy(&batch);
    hr_device_close(&on);
}

TEST_CASE(engines_memory_stays)
{
    auto_device other = NULL, cpu = test_device("cpu", 1, 0);
    hr_image host = scene_blank(cpu, SIDE), image;
    struct hr_sample s = {.image = host};

    fake_begin(.spans = FAKE_ALL(0), .memory = true);
    other = test_device("fake", 1, 0);
    for (int m = HR_MEMORY_PINNED; m <= HR_MEMORY_DEVICE; m++) {
        auto_batch batch = hr_batch_create(
            other, hr_batch_params(.n = 1, .c = 3, .h = SIDE, .w = SIDE,
                                   .memory = (enum hr_memory)m));

        image = hr_image_create(
            other,
            hr_image_params(.w = SIDE, .h = SIDE, .c = 3, .dtype = HR_U8,
                            .layout = HR_NHWC, .memory = (enum hr_memory)m));
        CHECK(batch && image, "%s", hr_last_error());
#define REFUSED(call)                                             \
    CHECK(!(call) && hr_last_status() == HR_EINVAL &&             \
              strstr(hr_last_error(), "another device (fake:0)"), \
          "%s: %s", #call, hr_last_error())
        REFUSED(hr_submit(cpu, &s, 1, batch, NULL));
        REFUSED(hr_apply_op(cpu, image, &hr_op_flip(0)));
        REFUSED(hr_move(cpu, image, HR_MEMORY_HOST));
        REFUSED(hr_submit(cpu, &(struct hr_sample){.image = host, .out = image},
                          1, NULL, NULL));
#undef REFUSED
        hr_image_release(&image);
    }
    hr_image_release(&host);
}

// NULL means the batch's device, if there is a batch.
TEST_CASE(batch_of_an_old_default)
{
    hr_batch batch;
    hr_image image;
    hr_job job;

    CHECK(!hr_set_image_backend("cpu"), "%s", hr_last_error());
    batch = hr_batch_create(NULL, hr_batch_params(.n = 1, .c = 3, .h = SIDE,
                                                  .w = SIDE));
    image = scene_blank(NULL, SIDE);
    fake_reset_spans(FAKE_RS);
    CHECK(!hr_set_image_backend("fake"), "%s", hr_last_error());
    job = hr_submit(NULL, &(struct hr_sample){.image = image}, 1, batch, NULL);
    CHECK(job && !strcmp(job->device->name, "cpu") &&
              hr_job_wait(job, HR_FOREVER) == HR_OK,
          "%s", hr_last_error());
    hr_job_release(&job);
    job = hr_submit(hr_device_open("fake", NULL),
                    &(struct hr_sample){.image = image}, 1, batch, NULL);
    CHECK(job && !strcmp(job->device->name, "fake:0") &&
              hr_job_wait(job, HR_FOREVER) == HR_OK,
          "%s", hr_last_error());
    if (job) {
        auto_device dev = job->device;

        hr_job_release(&job);
    }
    hr_batch_destroy(&batch);
    hr_image_release(&image);
    CHECK(!hr_set_image_backend("cpu"), "%s", hr_last_error());
}

// ---- Turns across devices -------------------------------------------------

enum { IMAGES = 5, STEPS = 60, DEVICES = 3 };

struct step {
    int from, to, on;
    bool flip;
};

static void draw(struct step *steps, uint64_t *seed)
{
    for (int i = 0; i < STEPS; i++) {
        steps[i].from = random_below(seed, IMAGES);
        steps[i].to = (steps[i].from + 1 + random_below(seed, IMAGES - 1)) %
                      IMAGES;
        steps[i].on = random_below(seed, DEVICES);
        steps[i].flip = random_below(seed, 2);
    }
}

// All in flight at once, each on its device; or one after the other on one.
static void run_steps(hr_device devs[DEVICES], const struct step *steps,
                      bool alone, uint64_t seed, uint8_t *result)
{
    const struct hr_op flip = hr_op_flip(.transpose = true);
    hr_image images[IMAGES];
    hr_job jobs[STEPS];

    for (int i = 0; i < IMAGES; i++)
        images[i] = test_image(devs[alone ? 0 : i % DEVICES], SIDE, SIDE, 3,
                               &seed);
    for (int i = 0; i < STEPS; i++) {
        jobs[i] = scene_copy(devs[alone ? 0 : steps[i].on],
                             images[steps[i].from], images[steps[i].to],
                             steps[i].flip ? &flip : NULL);
        if (alone)
            hr_job_wait(jobs[i], HR_FOREVER);
    }
    for (int i = 0; i < IMAGES; i++) {
        CHECK(hr_image_read(images[i], result + i * BYTES, BYTES, HR_FOREVER) ==
                  HR_OK,
              "image %d: %s", i, hr_last_error());
        hr_image_release(&images[i]);
    }
    for (int i = 0; i < STEPS; i++) {
        CHECK(hr_job_wait(jobs[i], HR_FOREVER) == HR_OK, "step %d", i);
        hr_job_release(&jobs[i]);
    }
}

TEST_CASE(turns_across_devices)
{
    uint64_t seed = test_seed;
    uint8_t right[IMAGES * BYTES], got[IMAGES * BYTES];
    struct step steps[STEPS];
    hr_device devs[DEVICES] = {test_device("cpu", 1, 0),
                               test_device("cpu", 2, 0)};

    fake_reset_spans(FAKE_RS);
    devs[2] = test_device("fake", 1, 0);
    for (int round = 0; round < test_loops(60); round++) {
        uint64_t pictures = next_random(&seed);

        draw(steps, &seed);
        run_steps(devs, steps, true, pictures, right);
        run_steps(devs, steps, false, pictures, got);
        CHECK(!memcmp(right, got, sizeof(got)), "round %d differs", round);
    }
    for (int i = 0; i < DEVICES; i++) {
        check_idle(devs[i]);
        hr_device_close(&devs[i]);
    }
}

// ---- Switches under load --------------------------------------------------

enum { USERS = 4, PER_JOB = 3 };

struct user {
    pthread_t thread;
    hr_image from;
    const uint8_t *right;  // from, flipped
    int rounds, failed, wrong;
};

static atomic_bool over;

static bool is_right(const struct user *u, const void *pixels)
{
    return !memcmp(pixels, u->right, BYTES);
}

static void use_batch(struct user *u, hr_batch batch)
{
    const struct hr_op flip = hr_op_flip(.horizontal = true);
    struct hr_sample s[PER_JOB];
    hr_job job;

    for (int i = 0; i < PER_JOB; i++)
        s[i] = (struct hr_sample){.image = u->from, .ops = &flip, .num_ops = 1};
    job = hr_submit(NULL, s, PER_JOB, batch,
                    hr_job_params(.wait_for_room = true));
    u->failed += !job || hr_job_wait(job, HR_FOREVER) != HR_OK;
    hr_job_release(&job);
    for (size_t i = 0; i < PER_JOB; i++)
        u->wrong += !is_right(u, (uint8_t *)batch->params.data +
                                     i * batch->params.stride_n);
}

static hr_batch new_batch(void *data)
{
    return hr_batch_create(
        NULL, hr_batch_params(.n = PER_JOB, .c = 3, .h = SIDE, .w = SIDE,
                              .dtype = HR_U8, .layout = HR_NHWC, .data = data));
}

// Each call may meet another default device.
static void use_images(struct user *u)
{
    auto_image a = hr_apply_op(NULL, u->from, &hr_op_flip(.transpose = true));
    auto_image b = hr_apply_op(NULL, a, &hr_op_flip(.transpose = true));
    auto_image c = hr_apply_op(NULL, b, &hr_op_flip(.horizontal = true));
    uint8_t got[BYTES];

    u->failed += !c || hr_image_read(c, got, BYTES, HR_FOREVER) != HR_OK;
    u->wrong += !is_right(u, got);
}

static void *use(void *arg)
{
    struct user *u = arg;
    uint8_t mine[PER_JOB * BYTES];
    auto_batch kept = new_batch(NULL), own = new_batch(mine);

    while (!atomic_load(&over)) {
        hr_batch fresh = new_batch(NULL);

        use_batch(u, kept);
        use_batch(u, own);
        use_batch(u, fresh);
        use_images(u);
        hr_batch_destroy(&fresh);
        u->rounds++;
    }
    return NULL;
}

// (Opening a device that is no CPU takes a while: seldom.)
static int switch_often(int n, bool real)
{
    int failed = 0;

    for (int i = 0; i < n; i++)
        failed += hr_set_image_backend(i % 50 == 7 && real ? test_device_name()
                                                           : "cpu") != HR_OK;
    return failed;
}

TEST_CASE(switches_under_load)
{
    uint64_t seed = test_seed;
    struct user users[USERS];
    int n = test_loops(1000), failed;
    bool real = !hr_set_image_backend(test_device_name());
    uint8_t *right = malloc(BYTES);
    hr_image from;

    if (!real)
        test_no_device();
    from = test_image(NULL, SIDE, SIDE, 3, &seed);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            memcpy(right + 3 * (y * SIDE + x),
                   (uint8_t *)from->params.data + 3 * (y * SIDE + SIDE - 1 - x),
                   3);
    atomic_store(&over, false);
    for (int i = 0; i < USERS; i++) {
        users[i] = (struct user){.from = from, .right = right};
        pthread_create(&users[i].thread, NULL, use, &users[i]);
    }
    failed = switch_often(n, real);
    atomic_store(&over, true);
    for (int i = 0; i < USERS; i++) {
        pthread_join(users[i].thread, NULL);
        CHECK(!users[i].failed && !users[i].wrong,
              "user %d: %d rounds, %d failed, %d wrong", i, users[i].rounds,
              users[i].failed, users[i].wrong);
        printf("\n  user %d: %d rounds ", i, users[i].rounds);
    }
    CHECK(failed == 0, "%d of %d switches: %s", failed, n, hr_last_error());
    hr_image_release(&from);
    free(right);
    CHECK(!hr_set_image_backend("cpu"), "%s", hr_last_error());
}
