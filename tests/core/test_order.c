// SPDX-License-Identifier: Apache-2.0
// Order: jobs that share images and slots take turns as they were submitted,
// whatever engine is slow; random graphs equal their sequential execution.
#include "scene.h"

enum { SIDE = 16 };

// ---- Chains by the eager API ----------------------------------------------

static void chain_on(hr_device dev, const struct bytes *jpeg)
{
    const struct hr_op ops[] = {
        hr_op_decode(0), hr_op_crop(.x = 3, .y = 5, .w = 80, .h = 60),
        hr_op_resize(.w = 40, .h = 30), hr_op_flip(.horizontal = true),
        hr_op_normalize(.mean = {.5f, .5f, .5f}, .std = {.2f, .3f, .4f})};
    hr_image whole = hr_image_create(
        dev, hr_image_params(.w = 40, .h = 30, .c = 3, .dtype = HR_F32));
    struct hr_sample s = test_sample(jpeg, ops, 5, .out = whole);
    hr_image a = hr_decode(dev, jpeg->data, jpeg->size, NULL);
    hr_image b = hr_crop(dev, a, &ops[1].crop);
    hr_image c = hr_resize(dev, b, &ops[2].resize);
    hr_image d = hr_apply_op(dev, c, &ops[3]);
    hr_image e = test_apply(dev, d, &ops[4], HR_F32, HR_NCHW);
    hr_job job = hr_submit(dev, &s, 1, NULL, NULL);

    // Only the jobs hold the images in between.
    hr_image_release(&a);
    hr_image_release(&b);
    hr_image_release(&c);
    hr_image_release(&d);
    CHECK(e && hr_image_wait(e, HR_FOREVER) == HR_OK, "chain: %s",
          hr_last_error());
    CHECK(hr_job_wait(job, HR_FOREVER) == HR_OK, "whole");
    CHECK(e->size == whole->size &&
              !memcmp(e->params.data, whole->params.data, e->size),
          "the chain is not the whole on %s", dev->name);
    hr_job_release(&job);
    hr_image_release(&e);
    hr_image_release(&whole);
    check_idle(dev);
}

TEST_CASE(eager_chains)
{
    uint64_t seed = test_seed;
    auto_bytes jpeg = test_jpeg(120, 90, &seed);
    static const uint32_t spans[] = {0, FAKE_RS, FAKE_R, FAKE_S, FAKE_DRS};

    for (size_t i = 0; i < sizeof(spans) / sizeof(*spans); i++) {
        auto_device dev = NULL;

        fake_begin(.spans = FAKE_ALL(spans[i]), .delay_ns = TEST_MS);
        dev = test_device("fake", 1 + (int)i % 3, 0);
        chain_on(dev, &jpeg);
    }
}

// ---- Turns ----------------------------------------------------------------

// Readers of one image run together; the writer behind them waits.
TEST_CASE(write_after_read)
{
    uint64_t seed = test_seed;
    auto_device dev = NULL;
    hr_image x, y, out[4];
    hr_job jobs[5];
    auto_heap uint8_t *before = NULL;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .gate = true);
    dev = test_device("fake", 2, 0);
    x = test_image(dev, SIDE, SIDE, 3, &seed);
    y = test_image(dev, SIDE, SIDE, 3, &seed);
    before = test_copy(x->params.data, x->size);
    for (int i = 0; i < 4; i++) {
        out[i] = scene_blank(dev, SIDE);
        jobs[i] = scene_copy(dev, x, out[i], NULL);
    }
    jobs[4] = scene_copy(dev, y, x, NULL);  // overwrites what they read
    CHECK(test_reaches(&fake_counts.tasks, 4), "four readers at once");
    test_sleep(20 * TEST_MS);
    CHECK(atomic_load(&fake_counts.tasks) == 4, "the writer did not wait");
    CHECK(hr_image_wait(x, 0) == HR_ETIMEDOUT, "x has a writer in flight");
    CHECK(hr_image_wait(y, 0) == HR_OK, "y has none");
    CHECK(hr_image_wait(out[0], TEST_MS) == HR_ETIMEDOUT, "out 0");
    fake_gate_open();
    for (int i = 0; i < 5; i++)
        CHECK(hr_job_wait(jobs[i], HR_FOREVER) == HR_OK, "job %d", i);
    for (int i = 0; i < 4; i++)
        CHECK(!memcmp(out[i]->params.data, before, x->size),
              "reader %d saw the later write", i);
    CHECK(!memcmp(x->params.data, y->params.data, x->size), "x is y now");
    for (int i = 0; i < 4; i++)
        hr_image_release(&out[i]);
    for (int i = 0; i < 5; i++)
        hr_job_release(&jobs[i]);
    hr_image_release(&x);
    hr_image_release(&y);
}

// The last submitted write is what stays, also in the slot of a batch.
TEST_CASE(write_after_write)
{
    uint64_t seed = test_seed;
    auto_device dev = NULL;
    hr_image in[6];
    hr_job jobs[6];
    auto_batch batch = NULL;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .takes_every_2nd = true,
               .delay_ns = 3 * TEST_MS);
    dev = test_device("fake", 3, 0);
    batch = hr_batch_create(dev, hr_batch_params(.n = 2, .c = 3, .h = SIDE,
                                                 .w = SIDE, .dtype = HR_U8,
                                                 .layout = HR_NHWC));
    for (int i = 0; i < 6; i++) {
        const struct hr_op op = hr_op_crop(.w = SIDE, .h = SIDE);
        struct hr_sample s = {.ops = &op, .num_ops = 1};

        // Odd widths stay on the fast CPU: they would overtake.
        in[i] = test_image(dev, SIDE + i % 2, SIDE, 3, &seed);
        s.image = in[i];
        jobs[i] = hr_submit(dev, &s, 1, batch, hr_job_params(.first_slot = 1));
    }
    for (int i = 0; i < 6; i++)
        CHECK(hr_job_wait(jobs[i], HR_FOREVER) == HR_OK, "job %d", i);
    for (int y = 0; y < SIDE; y++)
        CHECK(!memcmp((uint8_t *)batch->params.data + batch->params.stride_n +
                          batch->params.stride_h * (size_t)y,
                      (uint8_t *)in[5]->params.data +
                          in[5]->params.stride_h * (size_t)y,
                      SIDE * 3),
              "row %d is not of the last job", y);
    for (int i = 0; i < 6; i++) {
        hr_job_release(&jobs[i]);
        hr_image_release(&in[i]);
    }
}

// Two samples of one job with one destination, and a sample that reads what
// its neighbour writes.
TEST_CASE(within_one_job)
{
    uint64_t seed = test_seed;
    auto_device dev = test_device("cpu", 3, 0);
    auto_image a = test_image(dev, SIDE, SIDE, 3, &seed);
    auto_image b = test_image(dev, SIDE, SIDE, 3, &seed);
    auto_image x = scene_blank(dev, SIDE), y = scene_blank(dev, SIDE);

    for (int round = 0; round < test_loops(200); round++) {
        struct hr_sample s[] = {{.image = a, .out = x},
                                {.image = b, .out = x},
                                {.image = x, .out = y},
                                {.image = a, .out = x}};
        auto_job job = hr_submit(dev, s, 4, NULL, NULL);

        CHECK(job && hr_job_wait(job, HR_FOREVER) == HR_OK, "%s",
              hr_last_error());
        CHECK(!memcmp(y->params.data, b->params.data, y->size), "y is b");
        CHECK(!memcmp(x->params.data, a->params.data, x->size), "x is a");
    }
}

// ---- Memory of the caller's -----------------------------------------------

static hr_image own_image(hr_device dev)
{
    void *mem = calloc(SIDE * SIDE, 3);

    return hr_image_create(
        dev, hr_image_params(.w = SIDE, .h = SIDE, .c = 3, .dtype = HR_U8,
                             .layout = HR_NHWC, .data = mem,
                             .free_fn = test_count_free, .free_ctx = mem));
}

TEST_CASE(freed_once)
{
    auto_device dev = NULL;
    hr_image in, out;
    hr_job jobs[8];
    int n = 8;

    atomic_store(&test_freed, 0);
    fake_begin(.spans = FAKE_ALL(FAKE_RS), .gate = true);
    dev = test_device("fake", 2, 0);
    in = own_image(dev);
    out = own_image(dev);
    hr__image_retain(in);
    for (int i = 0; i < n; i++)
        jobs[i] = scene_copy(dev, in, out, NULL);
    hr_image_release(&in);
    hr_image_release(&out);
    for (int i = 0; i < n; i += 2)
        hr_job_release(&jobs[i]);
    CHECK(atomic_load(&test_freed) == 0, "freed in flight");
    in = (hr_image)((const struct hr__job *)jobs[1])->works[0].sample.image;
    fake_gate_open();
    hr_wait_all(dev, HR_FOREVER);
    CHECK(test_reaches(&test_freed, 1), "out was not freed");
    CHECK(atomic_load(&test_freed) == 1, "in has one reference left");
    hr_image_release(&in);
    CHECK(atomic_load(&test_freed) == 2, "freed %d", atomic_load(&test_freed));
    for (int i = 1; i < n; i += 2)
        hr_job_release(&jobs[i]);
}

// ---- Random graphs --------------------------------------------------------

enum { IMAGES = 6, STEPS = 40 };

struct step {
    int from, to, op;
};

static const struct hr_op step_ops[] = {
    {.type = HR_OP_FLIP, .flip = {.horizontal = true}},
    {.type = HR_OP_FLIP, .flip = {.transpose = true}},
    {.type = HR_OP_RESIZE,
     .resize =
         {.w = SIDE, .h = SIDE, .filter = HR_BICUBIC, .box = {1, 2, 15, 13}}},
    {.type = HR_OP_CROP,
     .crop = {.x = -1, .y = 2, .w = SIDE, .h = SIDE, .pad = true}},
};

static void plan_steps(struct step *steps, uint64_t *seed)
{
    for (int i = 0; i < STEPS; i++) {
        steps[i].from = random_below(seed, IMAGES);
        steps[i].to = (steps[i].from + 1 + random_below(seed, IMAGES - 1)) %
                      IMAGES;
        steps[i].op = random_below(seed, 4);
    }
}

// Runs the steps; one after the other, or all in flight at once.
static uint8_t *run_steps(hr_device dev, const struct step *steps,
                          uint64_t seed, bool sequential)
{
    hr_image images[IMAGES];
    hr_job jobs[STEPS];
    uint8_t *result = malloc((size_t)IMAGES * SIDE * SIDE * 3);

    for (int i = 0; i < IMAGES; i++)
        images[i] = test_image(dev, SIDE, SIDE, 3, &seed);
    for (int i = 0; i < STEPS; i++) {
        jobs[i] = scene_copy(dev, images[steps[i].from], images[steps[i].to],
                             &step_ops[steps[i].op]);
        if (sequential)
            hr_job_wait(jobs[i], HR_FOREVER);
    }
    for (int i = 0; i < IMAGES; i++) {
        CHECK(hr_image_wait(images[i], HR_FOREVER) == HR_OK, "image %d", i);
        memcpy(result + (size_t)i * SIDE * SIDE * 3, images[i]->params.data,
               SIDE * SIDE * 3);
    }
    for (int i = STEPS - 1; i >= 0; i--) {
        CHECK(hr_job_wait(jobs[i], HR_FOREVER) == HR_OK, "step %d", i);
        hr_job_release(&jobs[i]);
    }
    for (int i = 0; i < IMAGES; i++)
        hr_image_release(&images[i]);
    return result;
}

TEST_CASE(random_graphs)
{
    uint64_t seed = test_seed;
    auto_device ref = test_device("cpu", 1, 0), dev = NULL;
    struct step steps[STEPS];

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .takes_every_2nd = false);
    dev = test_device("fake", 2, 0);
    for (int round = 0; round < test_loops(60); round++) {
        hr_device on = round % 2 ? dev : ref;
        uint64_t pictures = next_random(&seed);
        auto_heap uint8_t *a = NULL, *b = NULL;

        plan_steps(steps, &seed);
        a = run_steps(ref, steps, pictures, true);
        b = run_steps(on, steps, pictures, false);
        CHECK(!memcmp(a, b, (size_t)IMAGES * SIDE * SIDE * 3),
              "round %d on %s differs from its sequential run", round,
              on->name);
    }
    check_idle(dev);
    check_idle(ref);
}
