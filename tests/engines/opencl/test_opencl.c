// SPDX-License-Identifier: Apache-2.0
// The OpenCL engine on whatever device is here (PoCL will do): the same bytes
// as the CPU for every kind of picture, type and geometry, and by every variant
// of the kernels; launches per batch, and no allocations in a steady state.
#include "conformance.h"
#include "hal/trust/trust.h"
#include "made.h"
#include "opencl_env.h"

// ---- The same bytes -------------------------------------------------------

// All files to 20 x 30 by ops of which the CPU must do what is behind the first
// step: the device's span ends with `last`, and the reason is given.
static void leaves_rest(const struct hr_op *ops, int num_ops, int c,
                        enum hr_memory memory, enum hr_stage last, unsigned why)
{
    struct hr_sample s[OPENCL_FILES];
    struct hr_batch_params params = {
        .n = env.num_files, .c = c, .h = 30, .w = 20, .memory = memory};
    struct opencl_run a, b;
    int ended = 0;

    for (int i = 0; i < env.num_files; i++)
        s[i] = (struct hr_sample){.path = env.files[i],
                                  .ops = ops,
                                  .num_ops = num_ops};
    b = opencl_start(env.ocl, s, env.num_files, &params);
    params.memory = HR_MEMORY_HOST;
    a = opencl_start(env.cpu, s, env.num_files, &params);
    CU_ASSERT_EQUAL(opencl_differences(&a, &b, env.num_files, "rest"), 0);
    for (int i = 0; i < env.num_files; i++) {
        const struct hr_result *r = &b.job->results[i];

        for (int k = 0; k < r->num_spans - 1; k++)
            ended += !strncmp(r->spans[k].device, "opencl", 6) &&
                     r->spans[k].span.last == last && r->why & why &&
                     !strcmp(r->spans[k + 1].device, "cpu");
    }
    CHECK(ended > 20, "%d end with %s, of the first: %x", ended,
          hr_stage_name(last), b.job->results[0].why);
    opencl_finish(&a);
    opencl_finish(&b);
}

TEST_CASE(steps_and_codes)
{
    const struct hr_op twice[] = {hr_op_decode(0),
                                  hr_op_resize(.w = 70, .h = 55),
                                  hr_op_resize(.w = 20, .h = 30)};
    const struct hr_op turned[] = {hr_op_decode(0),
                                   hr_op_resize(.w = 70, .h = 55),
                                   hr_op_flip(.transpose = true),
                                   hr_op_resize(.w = 20, .h = 30),
                                   OPENCL_NORMALIZE};
    const struct hr_op codes[] = {hr_op_decode(0),
                                  hr_op_resize(.w = 20, .h = 30),
                                  {.type = HR_OP_ADJUST_CONTRAST,
                                   .adjust_contrast = {.factor = 1.5}},
                                  OPENCL_NORMALIZE};
    const struct hr_op between[] = {hr_op_decode(.mode = HR_GRAY),
                                    hr_op_resize(.w = 41, .h = 52),
                                    {.type = HR_OP_EQUALIZE},
                                    hr_op_resize(.w = 20, .h = 30)};
    struct ocl *o = opencl_private(env.ocl);
    bool augment = o->augment;

    leaves_rest(twice, 3, 3, HR_MEMORY_HOST, HR_COLOR, HR_WHY_GEOMETRY);
    leaves_rest(turned, 5, 3, HR_MEMORY_PINNED, HR_COLOR, HR_WHY_GEOMETRY);
    o->augment = false;  // (a GPU does codes)
    leaves_rest(codes, 4, 3, HR_MEMORY_PINNED, HR_RESAMPLE, HR_WHY_AUGMENT);
    o->augment = augment;
    leaves_rest(between, 4, 1, HR_MEMORY_HOST, HR_COLOR, HR_WHY_GEOMETRY);
}

// Pixels for the CPU are downloaded wherever the tensor is.
TEST_CASE(large_first_step)
{
    const struct hr_op ops[] = {hr_op_decode(0), hr_op_crop(.w = 8, .h = 8),
                                hr_op_resize(.w = 300, .h = 300),
                                hr_op_resize(.w = 20, .h = 30)};
    struct ocl *o = opencl_private(env.ocl);
    size_t most = o->buffer_bytes;
    struct hr_sample s = {.path = env.files[0], .ops = ops, .num_ops = 4};
    struct hr_batch_params params = {
        .n = 1, .c = 3, .h = 30, .w = 20, .memory = HR_MEMORY_DEVICE};

    for (int small = 0; small < 2; small++) {
        struct opencl_run run;
        const struct hr_result *r;

        if (small)
            o->buffer_bytes = 3 * 300 * 300 - 1;
        run = opencl_start(env.ocl, &s, 1, &params);
        r = &run.job->results[0];
        CU_ASSERT_EQUAL(hr_job_wait(run.job, OPENCL_PATIENCE), HR_OK);
        CHECK(!r->fallbacks && !(r->why & HR_WHY_SIZE) == !small &&
                  (r->num_spans == 1) == small,
              "%d spans, %d fallbacks, why %x", r->num_spans, r->fallbacks,
              r->why);
        opencl_finish(&run);
    }
    o->buffer_bytes = most;
}

// Recipes, another list of codes for each picture: as many as possible the
// device makes to the end, by as many launches whatever the lists are.
static void recipe(const char *text, enum hr_dtype dtype, enum hr_layout layout,
                   enum hr_memory memory)
{
    struct hr_op ops[HR_MAX_OPS];
    int num_ops;
    struct hr_sample s[OPENCL_FILES];
    struct hr_batch_params params = {.n = env.num_files,
                                     .c = 3,
                                     .h = 44,
                                     .w = 52,
                                     .dtype = dtype,
                                     .layout = layout,
                                     .memory = memory};
    struct ocl *o = opencl_private(env.ocl);
    uint64_t batches = o->batches, launches = o->launches;
    struct opencl_run a, b;
    int whole = 0, took = 0;

    CU_ASSERT_EQUAL_FATAL(hr_ops_parse(text, ops, &num_ops), HR_OK);
    for (int i = 0; i < env.num_files; i++)
        s[i] = (struct hr_sample){.path = env.files[i],
                                  .ops = ops,
                                  .num_ops = num_ops,
                                  .random = {.seed = test_seed,
                                             .index = (uint64_t)i}};
    b = opencl_start(env.ocl, s, env.num_files, &params);
    params.memory = HR_MEMORY_HOST;
    a = opencl_start(env.cpu, s, env.num_files, &params);
    CU_ASSERT_EQUAL(opencl_differences(&a, &b, env.num_files, "recipe"), 0);
    for (int i = 0; i < env.num_files; i++) {
        const struct hr_result *r = &b.job->results[i];

        took += made_by(r, env.ocl->name, HR_RECONSTRUCT, HR_RESAMPLE);
        whole += made_by(r, env.ocl->name, HR_RECONSTRUCT, HR_STORE);
    }
    // (Without doubles some warps are the CPU's.)
    CHECK(took > 20 && (whole == took || !o->facts.doubles),
          "%d of %d to the end", whole, took);
    CHECK(o->launches - launches <= 9 * (o->batches - batches),
          "%d launches in %d batches", (int)(o->launches - launches),
          (int)(o->batches - batches));
    opencl_finish(&a);
    opencl_finish(&b);
}

// One picture, made by these ops: why it is not the device's to the end, 0 if
// it is.
static unsigned why_not(const char *text, int side)
{
    struct hr_op ops[HR_MAX_OPS];
    struct hr_sample s = {.path = env.files[0], .ops = ops};
    const struct hr_result *r;
    struct opencl_run run;
    unsigned why;

    CU_ASSERT_EQUAL_FATAL(hr_ops_parse(text, ops, &s.num_ops), HR_OK);
    run = opencl_start(env.ocl, &s, 1,
                       hr_batch_params(.n = 1, .c = 3, .h = side, .w = side));
    CU_ASSERT_EQUAL(hr_job_wait(run.job, HR_FOREVER), HR_OK);
    r = &run.job->results[0];
    CHECK(!r->fallbacks, "%s: it was tried", text);
    why = made_by(r, env.ocl->name, HR_RECONSTRUCT, HR_STORE) ? 0 : r->why;
    opencl_finish(&run);
    return why;
}

// Codes that the device cannot do are known before it is given the picture:
// those in doubles that it has not, and those with which an item would have too
// many rounds.
static void codes_refused(void)
{
    static const char nearest[] = "decode,resize=60x60,rotate=30:nearest";
    static const char bilinear[] = "decode,resize=60x60,rotate=30:bilinear";
    static const char blur[] = "decode,resize=900x900,gaussian_blur=60,"
                               "resize=60x60";
    struct ocl *o = opencl_private(env.ocl);
    bool doubles = o->facts.doubles;

    CU_ASSERT_EQUAL(why_not(nearest, 60), 0);
    CU_ASSERT(!doubles || !why_not(bilinear, 60));
    o->facts.doubles = false;
    CU_ASSERT_EQUAL(why_not(nearest, 60), 0);
    CU_ASSERT_EQUAL(why_not(bilinear, 60) & ~HR_WHY_AUGMENT, HR_WHY_FP64);
    o->facts.doubles = doubles;
    CU_ASSERT(why_not("decode,resize=900x900,box_blur=200", 900) & HR_WHY_SIZE);
    CU_ASSERT(why_not(blur, 60) & HR_WHY_GEOMETRY);
}

// As many launches for one picture as for 256, with lists of codes of all
// lengths; in the form for host processors, from the host's coefficients:
// index, reconstruct, color, resample, store, augment.
static void launches_of_codes(void)
{
    enum { SIDE = 40, CODES = 4 };
    static const int sizes[] = {1, 7, 64, 256};
    static struct hr_sample s[256];
    static struct hr_op ops[256][3 + CODES];
    struct ocl *o = opencl_private(env.ocl);

    for (int i = 0; i < 256; i++) {
        int n = 2;

        ops[i][0] = hr_op_decode(0);
        ops[i][1] = hr_op_resize(.w = SIDE, .h = SIDE);
        for (int k = 0; k <= i % CODES; k++)
            ops[i][n++] = k % 2 ? (struct hr_op){.type = HR_OP_EQUALIZE}
                                : (struct hr_op){.type = HR_OP_ADJUST_HUE,
                                                 .adjust_hue = {.1 + .01 * k}};
        s[i] = (struct hr_sample){.path = env.files[i % 8],
                                  .ops = ops[i],
                                  .num_ops = n};
    }
    for (int k = 0; k < COUNT(sizes); k++) {
        uint64_t launches = o->launches, batches = o->batches;
        struct opencl_run run = opencl_start(
            env.ocl, s, sizes[k],
            hr_batch_params(.n = sizes[k], .c = 3, .h = SIDE, .w = SIDE));

        CU_ASSERT_EQUAL(hr_job_wait(run.job, HR_FOREVER), HR_OK);
        launches = o->launches - launches;
        batches = o->batches - batches;
        CHECK(launches <= 6 * batches && launches >= batches,
              "%d pictures: %d launches, %d batches", sizes[k], (int)launches,
              (int)batches);
        opencl_finish(&run);
    }
}

TEST_CASE(recipes)
{
    hr_device usual = env.ocl;

    setenv("HEADRACE_OPENCL_AUGMENT", "device", 1);
    env.ocl = hr_device_open("opencl",
                             hr_device_params(.deadline_ns = OPENCL_PATIENCE));
    unsetenv("HEADRACE_OPENCL_AUGMENT");
    CU_ASSERT_PTR_NOT_NULL_FATAL(env.ocl);
    codes_refused();
    launches_of_codes();
    CU_ASSERT(hr__record_exact(hr__certificate_record(
        &env.ocl->certificate, HR_SPAN_BIT(HR_AUGMENT, HR_STORE), 0)));
    recipe(
        "decode,random_resized_crop=52x44,color_jitter=0.4:0.4:0.4:0.2,"
        "random_grayscale=0.3,random_gaussian_blur=0.5,random_solarize=99:0.3,"
        "normalize=imagenet",
        HR_F32, HR_NCHW, HR_MEMORY_HOST);
    recipe("decode,random_resized_crop=52x44,random_hflip,trivial_augment_wide,"
           "normalize=imagenet",
           HR_F16, HR_NCHW, HR_MEMORY_HOST);
    recipe("decode,random_resized_crop=52x44,rand_augment=2:9:bicubic:3,4,5,"
           "adjust_sharpness=1.5",
           HR_U8, HR_NHWC, HR_MEMORY_PINNED);
    hr_device_close(&env.ocl);
    env.ocl = usual;
}

// Reads what b has made, wherever that lies. *whole: how many the device has
// stored there itself.
static int read_differences(struct opencl_run *a, struct opencl_run *b,
                            int *whole)
{
    size_t size = opencl_stride(a);
    auto_heap uint8_t *got = malloc(size);
    int bad = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(got);
    hr_job_wait(a->job, HR_FOREVER);
    hr_job_wait(b->job, HR_FOREVER);
    for (int i = 0; i < env.num_files; i++) {
        const struct hr_result *r = &b->job->results[i];

        bad += hr_batch_read(b->batch, i, 1, got, size, HR_FOREVER) ||
               memcmp(got, opencl_slot(a, i), size) != 0;
        *whole += made_by(r, env.ocl->name, HR_RECONSTRUCT, HR_STORE) &&
                  !(r->why & HR_WHY_PLACE);
    }
    return bad;
}

// Rectangles that cover each other or leave the tensor, constant, of a block or
// of noise: the device paints them on what it stores, wherever that lies, by
// one launch more.
static void erase_in(struct hr_batch_params params, enum hr_memory memory)
{
    static float block[3 * 9 * 14];
    const struct hr_op ops[] = {
        hr_op_decode(0),
        hr_op_resize(.w = 20, .h = 30),
        {.type = HR_OP_ERASE, .erase = {2, 3, 9, 7, {1.25f, -2, 300}, NULL, 0}},
        {.type = HR_OP_ERASE, .erase = {8, 5, 14, 9, {0}, block, 0}},
        {.type = HR_OP_ERASE, .erase = {0, 28, 40, 40, {0}, NULL, 7}},
        {.type = HR_OP_RANDOM_ERASING,
         .random_erasing = {.p = .5, .value = {9, 8, 7}}}};
    struct hr_sample s[OPENCL_FILES];
    struct ocl *o = opencl_private(env.ocl);
    uint64_t batches = o->batches, launches = o->launches;
    struct opencl_run a, b;
    int whole = 0, bad;

    for (int i = 0; i < 3 * 9 * 14; i++)
        block[i] = (float)i / 7 - 20;
    for (int i = 0; i < env.num_files; i++)
        s[i] = (struct hr_sample){.path = env.files[i],
                                  .ops = ops,
                                  .num_ops = COUNT(ops),
                                  .random = {.index = (uint64_t)i}};
    a = opencl_start(env.cpu, s, env.num_files, &params);
    params.memory = memory;
    b = opencl_start(env.ocl, s, env.num_files, &params);
    bad = read_differences(&a, &b, &whole);
    CHECK(!bad && whole > 20, "%d differ, %d are the device's", bad, whole);
    CHECK(o->launches - launches <= 8 * (o->batches - batches),
          "%d launches in %d batches", (int)(o->launches - launches),
          (int)(o->batches - batches));
    opencl_finish(&a);
    opencl_finish(&b);
}

TEST_CASE(erased)
{
    for (int i = 0; i < 6; i++)
        erase_in((struct hr_batch_params){.n = env.num_files,
                                          .c = 3,
                                          .h = 30,
                                          .w = 20,
                                          .dtype = (enum hr_dtype)(i % 3),
                                          .layout = (enum hr_layout)(i / 3)},
                 (enum hr_memory)((i + i / 3) % 3));
}

TEST_CASE(reasons)
{
    static const struct {
        const char *folder, *part;
        unsigned why;
    } known[] = {
        {"/kinds/", "progressive", HR_WHY_PROGRESSIVE},
        {"/kinds/", "arithmetic", HR_WHY_ARITHMETIC},
        {"/kinds/", "cmyk", HR_WHY_COLOR},
        {"/kinds/", ".png", HR_WHY_FORMAT},
        {"/bad/", "truncated-scan", HR_WHY_DAMAGED},
    };
    const struct hr_op ops[] = {hr_op_decode(0),
                                hr_op_resize(.w = 20, .h = 20)};

    for (int k = 0; k < COUNT(known); k++) {
        int seen = 0;

        for (int i = 0; i < env.num_files; i++) {
            struct hr_sample s = {.path = env.files[i],
                                  .ops = ops,
                                  .num_ops = 2};
            struct opencl_run r;

            if (!strstr(env.files[i], known[k].folder) ||
                !strstr(env.files[i], known[k].part))
                continue;
            r = opencl_start(env.ocl, &s, 1,
                             hr_batch_params(.n = 1, .c = 3, .h = 20, .w = 20));
            hr_job_wait(r.job, HR_FOREVER);
            CU_ASSERT(r.job->results[0].why & known[k].why);
            // It was not even tried.
            CU_ASSERT_EQUAL(r.job->results[0].fallbacks, 0);
            // A file that is no JPEG has no chroma that could be laid out
            // wrongly.
            CU_ASSERT(known[k].why != HR_WHY_FORMAT ||
                      r.job->results[0].why == HR_WHY_FORMAT);
            opencl_finish(&r);
            seen++;
        }
        CU_ASSERT(seen > 0);
    }
}

// The CPU makes pictures that the device has no room for.
TEST_CASE(too_large)
{
    const struct hr_op ops[] = {hr_op_decode(0),
                                hr_op_resize(.w = 20, .h = 20)};
    struct hr_sample s = {.path = env.files[0], .ops = ops, .num_ops = 2};
    struct ocl *o = opencl_private(env.ocl);
    size_t room = o->work_bytes;

    for (int k = 0; k < 2; k++) {
        struct opencl_run r;

        o->work_bytes = k ? room : 1;
        r = opencl_start(env.ocl, &s, 1,
                         hr_batch_params(.n = 1, .c = 3, .h = 20, .w = 20));
        hr_job_wait(r.job, HR_FOREVER);
        CU_ASSERT_EQUAL(r.job->results[0].status, HR_OK);
        CU_ASSERT_EQUAL(!(r.job->results[0].why & HR_WHY_SIZE), k);
        // The device has not come to know of it, only to refuse it then.
        CU_ASSERT_EQUAL(r.job->results[0].fallbacks, 0);
        opencl_finish(&r);
    }
}

// ---- Pixels, batches, jobs ------------------------------------------------

enum { MOST = 256 };
static struct hr_sample many[MOST];
static struct hr_op many_ops[MOST][4];

// As many launches for a batch of 16 pictures as for one of 64 (256 are several
// batches), and no more for one of 1.
TEST_CASE(batches)
{
    static const int sizes[] = {1, 16, 256};
    uint64_t most[COUNT(sizes)];
    struct hr_profile before, after;

    opencl_fill(many, many_ops, MOST);
    for (int k = 0; k < COUNT(sizes); k++) {
        struct hr_batch_params p = {
            .n = sizes[k], .c = 3, .h = OPENCL_SIDE, .w = OPENCL_SIDE};
        struct ocl *o = opencl_private(env.ocl);
        struct opencl_run a = opencl_start(env.cpu, many, sizes[k], &p);
        struct opencl_run b = opencl_start(env.ocl, many, sizes[k], &p);
        uint64_t launches, batches, transfers;

        // From here on the device has their weights.
        CU_ASSERT_EQUAL(opencl_differences(&a, &b, sizes[k], "first"), 0);
        opencl_finish(&b);
        launches = o->launches;
        batches = o->batches;
        transfers = o->transfers;
        hr_device_profile(env.ocl, &before);
        b = opencl_start(env.ocl, many, sizes[k], &p);
        CU_ASSERT_EQUAL(opencl_differences(&a, &b, sizes[k], "batch"), 0);
        CU_ASSERT_EQUAL(opencl_count_spans(&b, sizes[k], HR_RECONSTRUCT),
                        sizes[k]);
        launches = o->launches - launches;
        batches = o->batches - batches;
        hr_device_profile(env.ocl, &after);
        CU_ASSERT_EQUAL(after.engines[0].launches - before.engines[0].launches,
                        launches);
        CU_ASSERT(batches > 0 && launches > 0 && launches <= 6 * batches);
        most[k] = (launches + batches - 1) / (batches ? batches : 1);
        CU_ASSERT_EQUAL(o->transfers - transfers, 2 * batches);
        CU_ASSERT(batches <= (uint64_t)(sizes[k] + 63) / 64 + 2);
        printf("\n  %d samples: %d batches, %d launches; ", sizes[k],
               (int)batches, (int)launches);
        opencl_finish(&a);
        opencl_finish(&b);
    }
    CU_ASSERT(most[0] <= most[1] && most[1] == most[2]);
}

// When there are many axes all begin anew, in memory of their own: the device
// may still read the old ones.
TEST_CASE(axes_anew)
{
    enum { N = 64, ROUNDS = 6 };
    struct hr_batch_params p = {
        .n = N, .c = 3, .h = OPENCL_SIDE, .w = OPENCL_SIDE};
    struct ocl *o = opencl_private(env.ocl);
    struct opencl_run a, b;
    cl_mem before;
    int other = 0;

    opencl_fill(many, many_ops, N);
    a = opencl_start(env.cpu, many, N, &p);
    for (int i = 0; i < ROUNDS; i++) {
        b = opencl_start(env.ocl, many + i % 2, N - i % 2, &p);
        CU_ASSERT_EQUAL(hr_job_wait(b.job, HR_FOREVER), HR_OK);
        opencl_finish(&b);
        // (Nothing is planned now.)
        before = o->axes.mem.mem;
        if (i % 3 == 1)
            o->axes.num = OCL_AXES;
        b = opencl_start(env.ocl, many, N, &p);
        CU_ASSERT_EQUAL(opencl_differences(&a, &b, N, "anew"), 0);
        CU_ASSERT_EQUAL(opencl_count_spans(&b, N, HR_RECONSTRUCT), N);
        opencl_finish(&b);
        CU_ASSERT(o->axes.num > 0 && o->axes.num <= 2 * N + OCL_AXES / 2);
        CU_ASSERT_EQUAL(o->axes.sent, o->axes.used);
        other += o->axes.mem.mem != before;
    }
    printf("\n  %d buffers; ", other);
    opencl_finish(&a);
}

// The output is larger than the memory of one batch, the input is not.
TEST_CASE(large_results)
{
    enum { N = 8, SIDE = 1000 };
    static uint8_t pixels[3 * 20 * 20];
    const struct hr_op op = hr_op_resize(.w = SIDE, .h = SIDE);
    struct hr_batch_params p = {.n = N, .c = 3, .h = SIDE, .w = SIDE};
    struct ocl *o = opencl_private(env.ocl);
    uint64_t batches = o->batches;
    struct opencl_run r[2];

    for (size_t i = 0; i < sizeof(pixels); i++)
        pixels[i] = (uint8_t)(i * i % 251);
    CU_ASSERT((size_t)N * 3 * SIDE * SIDE * sizeof(float) > o->buffer_bytes);
    for (int k = 0; k < 2; k++) {
        hr_device dev = k ? env.ocl : env.cpu;
        auto_image im = hr_image_create(
            dev, hr_image_params(.w = 20, .h = 20, .c = 3, .dtype = HR_U8,
                                 .data = pixels));
        struct hr_sample s[N];

        for (int i = 0; i < N; i++)
            s[i] = (struct hr_sample){.image = im, .ops = &op, .num_ops = 1};
        r[k] = opencl_start(dev, s, N, &p);
    }
    CU_ASSERT_EQUAL(opencl_differences(&r[0], &r[1], N, "large"), 0);
    CU_ASSERT_EQUAL(opencl_count_spans(&r[1], N, HR_RESAMPLE), N);
    CU_ASSERT(o->batches - batches >= 2);
    opencl_finish(&r[0]);
    opencl_finish(&r[1]);
}

TEST_CASE(no_allocations)
{
    // Few enough that what the core keeps of files and records is enough.
    enum { N = 24 };
    struct hr_stats before, after;
    auto_batch batch = hr_batch_create(
        env.ocl,
        hr_batch_params(.n = N, .c = 3, .h = OPENCL_SIDE, .w = OPENCL_SIDE));

    opencl_fill(many, many_ops, MOST);
    for (int i = 0; i < 12; i++) {
        hr_job job = hr_submit(env.ocl, many, N, batch, NULL);

        CU_ASSERT_EQUAL(hr_job_wait(job, HR_FOREVER), HR_OK);
        hr_job_release(&job);
        if (i == 7)
            hr_device_stats(env.ocl, &before);
    }
    hr_device_stats(env.ocl, &after);
    CU_ASSERT_EQUAL(after.heap_allocations, before.heap_allocations);
}
// ---- Memory of our own that cannot be had -----------------------------------

enum { STARVED = 10 };

// One job into host memory, whose nth allocation fails, and perhaps all after
// it: a sample is right, or says so. True: all are right.
static bool run_starved(hr_device dev, const struct opencl_run *want, int nth,
                        bool for_ever)
{
    struct hr_batch_params p = {
        .n = STARVED, .c = 3, .h = OPENCL_SIDE, .w = OPENCL_SIDE};
    struct opencl_run r = {.batch = hr_batch_create(dev, &p)};
    int right = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(r.batch);
    hr__test_fail_alloc(nth, for_ever);
    r.job = hr_submit(dev, many, STARVED, r.batch,
                      hr_job_params(.on_error = HR_ON_ERROR_ZERO));
    if (r.job)
        hr_job_wait(r.job, HR_FOREVER);
    else
        CU_ASSERT_EQUAL(hr_last_status(), HR_ENOMEM);
    hr__test_fail_alloc(0, false);
    for (int i = 0; r.job && i < STARVED; i++) {
        enum hr_status s = r.job->results[i].status;
        bool same = !memcmp(opencl_slot(&r, i), opencl_slot(want, i),
                            opencl_stride(want));

        CHECK(s == HR_ENOMEM || (s == HR_OK && same),
              "allocation %d%s, sample %d: %s, %s", nth,
              for_ever ? " and on" : "", i, hr_status_name(s),
              same ? "right" : "wrong");
        right += s == HR_OK;
    }
    opencl_finish(&r);
    return right == STARVED;
}

TEST_CASE(starved)
{
    struct hr_batch_params p = {
        .n = STARVED, .c = 3, .h = OPENCL_SIDE, .w = OPENCL_SIDE};
    int starved = 0, most = test_loops(60);
    struct opencl_run want;

    opencl_fill(many, many_ops, STARVED);
    want = opencl_start(env.cpu, many, STARVED, &p);
    hr_job_wait(want.job, HR_FOREVER);
    for (int nth = 1; nth <= most; nth++) {
        // A device whose pools and buffers are still to be made.
        auto_device dev = hr_device_open(
            "opencl",
            hr_device_params(.threads = 2, .deadline_ns = OPENCL_PATIENCE));

        CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
        starved += !run_starved(dev, &want, nth, nth % 3 == 0);
        CHECK(run_starved(dev, &want, 1 << 30, false),
              "does not recover from allocation %d", nth);
    }
    CHECK(starved > 0, "no allocation was missed");
    printf("\n  %d of %d jobs lacked memory ", starved, most);
    opencl_finish(&want);
}

// ---- Variants of the kernels ----------------------------------------------

static hr_device open_variant(const char *name)
{
    hr_device dev;

    setenv("HEADRACE_OPENCL_VARIANT", name, 1);
    dev = hr_device_open("opencl",
                         hr_device_params(.deadline_ns = OPENCL_PATIENCE));
    unsetenv("HEADRACE_OPENCL_VARIANT");
    return dev;
}

// True if one of its batches was resized by the form for GPUs.
static bool resizes_in_tiles(const struct ocl *o)
{
    bool any = false;

    for (int i = 0; i < OCL_BATCHES; i++)
        any |= o->batch[i].tiles;
    return any;
}

// Whatever the kernels are, the bytes are the same.
TEST_CASE(variants)
{
    static const char *const names[] = {"staged", "gpu"};
    char key[OCL_KEY_BYTES] = "";
    hr_device usual = env.ocl;
    struct conformance conformance;

    for (int i = 0; i < COUNT(names); i++) {
        CU_ASSERT_PTR_NOT_NULL_FATAL(env.ocl = open_variant(names[i]));
        CU_ASSERT_PTR_NOT_NULL(strstr(env.ocl->description, names[i]));
        CU_ASSERT_TRUE(env.ocl->caps.exact && env.ocl->certificate.tested);
        // Each has a file of its own in the cache.
        CU_ASSERT_STRING_NOT_EQUAL(opencl_private(env.ocl)->key, key);
        snprintf(key, sizeof(key), "%s", opencl_private(env.ocl)->key);
        // With a sanitizer not again what the cases before had.
        if (test_loops(2) < 2 && strstr(usual->description, names[i])) {
            hr_device_close(&env.ocl);
            continue;
        }
        conformance = conformance_run(env.ocl, HR_EXACT, test_seed);
        conformance_is_own_work(env.ocl, &conformance, names[i]);
        batches();
        steps_and_codes();
        CU_ASSERT_EQUAL(opencl_private(env.ocl)->batch[0].gpu, i == 1);
        CU_ASSERT_EQUAL(resizes_in_tiles(opencl_private(env.ocl)), i == 1);
        hr_device_close(&env.ocl);
    }
    env.ocl = usual;
    CU_ASSERT_PTR_NULL(open_variant("fused"));
    CU_ASSERT_EQUAL(hr_last_status(), HR_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(hr_last_error(), "'fused'"));
}

TEST_MAIN(opencl_main)
