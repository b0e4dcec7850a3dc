// SPDX-License-Identifier: Apache-2.0
// Entropy coding on the device: the settings that select it, that all pictures
// are the CPU's, and that the host decodes files with any oddity, before the
// device or after it, with the host's status, message and pixels.
#include "kernels/entropy_plan.h"
#include "made.h"
#include "opencl_env.h"

#define ALL HR_SPAN_BIT(HR_ENTROPY, HR_STORE)
#define VARIABLE "HEADRACE_OPENCL_ENTROPY"

enum { SIDE = OPENCL_SIDE };

static hr_device open_with(enum hr_where where)
{
    return hr_device_open(env.ocl->name,
                          hr_device_params(.deadline_ns = OPENCL_PATIENCE,
                                           .entropy = where));
}

static hr_device open_device(void)
{
    hr_device dev = open_with(HR_WHERE_DEVICE);

    CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
    return dev;
}

// ---- Selection --------------------------------------------------------------

static bool decodes(const char *variable, enum hr_where where)
{
    auto_device dev = NULL;
    bool all;

    if (variable)
        setenv(VARIABLE, variable, 1);
    dev = open_with(where);
    unsetenv(VARIABLE);
    CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
    all = dev->caps.spans[HR_EXACT] & ALL;
    CU_ASSERT_EQUAL(strstr(dev->description, ", entropy") != NULL, all);
    CU_ASSERT_EQUAL(strstr(opencl_private(dev)->key, "HR__ENTROPY") != NULL,
                    all);
    CU_ASSERT(dev->caps.exact);
    return all;
}

TEST_CASE(knob)
{
    CU_ASSERT(!decodes(NULL, HR_WHERE_DEFAULT));
    CU_ASSERT(decodes(NULL, HR_WHERE_DEVICE));
    CU_ASSERT(decodes("device", HR_WHERE_DEFAULT));
    CU_ASSERT(!decodes("host", HR_WHERE_DEFAULT));
    CU_ASSERT(!decodes("", HR_WHERE_DEFAULT));
    // Parameters come first.
    CU_ASSERT(!decodes("device", HR_WHERE_HOST));
    CU_ASSERT(decodes("host", HR_WHERE_DEVICE));
    setenv(VARIABLE, "gpu", 1);
    CU_ASSERT_PTR_NULL(open_with(HR_WHERE_DEFAULT));
    unsetenv(VARIABLE);
    CU_ASSERT_EQUAL(hr_last_status(), HR_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(hr_last_error(), "'gpu'"));
    CU_ASSERT_PTR_NULL(open_with((enum hr_where)3));
    CU_ASSERT_EQUAL(hr_last_status(), HR_EINVAL);
}

// ---- The same ---------------------------------------------------------------

// True if the results are equal, besides bytes and status.
static bool alike(const struct hr_result *a, const struct hr_result *b)
{
    return a->status == b->status && a->warnings == b->warnings &&
           (!a->status || a->stage == b->stage) && a->offset == b->offset &&
           !strcmp(a->message, b->message);
}

// Runs the samples on the CPU and on dev, and compares. Returns how many the
// device made from their first bit on; *fallbacks: how many it left later.
static int compare(hr_device dev, struct hr_sample *s, int n,
                   const struct hr_batch_params *params, const char *what,
                   int *fallbacks)
{
    OWN(opencl_finish)
    struct opencl_run a = opencl_start(env.cpu, s, n, params);
    OWN(opencl_finish) struct opencl_run b = opencl_start(dev, s, n, params);
    int all = 0;

    CHECK(!opencl_differences(&a, &b, n, what), "%s", what);
    *fallbacks = 0;
    for (int i = 0; i < n; i++) {
        const struct hr_result *x = &a.job->results[i];
        const struct hr_result *y = &b.job->results[i];

        CHECK(alike(x, y), "%s, %d: %s, %d warnings; %s, %d warnings", what, i,
              x->message, x->warnings, y->message, y->warnings);
        CHECK(!y->fallbacks || y->why & (HR_WHY_DAMAGED | HR_WHY_SERIAL),
              "%s, %d: %x", what, i, y->why);
        *fallbacks += y->fallbacks;
    }
    all = opencl_count_spans(&b, n, HR_ENTROPY);
    return all;
}

static int compare_files(hr_device dev, const struct hr_op *ops, int num_ops,
                         const struct hr_batch_params *params, const char *what)
{
    struct hr_sample s[OPENCL_FILES];
    int fallbacks, all;

    for (int i = 0; i < env.num_files; i++)
        s[i] = (struct hr_sample){.path = env.files[i],
                                  .ops = ops,
                                  .num_ops = num_ops};
    all = compare(dev, s, env.num_files, params, what, &fallbacks);
    CHECK(all > 20, "%s: %d of %d made by the device", what, all,
          env.num_files);
    return all;
}

static void every_file(hr_device dev)
{
    const struct hr_op plain[] = {hr_op_decode(0),
                                  hr_op_resize(.w = 61, .h = 47),
                                  OPENCL_NORMALIZE};
    const struct hr_op cropped[] = {hr_op_decode(.apply_orientation = true),
                                    hr_op_crop(.x = -7, .y = 3, .w = SIDE,
                                               .h = SIDE, .pad = true)};
    const struct hr_op gray[] = {
        hr_op_decode(.mode = HR_GRAY), hr_op_resize(.short_side = 64),
        hr_op_crop(.center = true, .w = 33, .h = 50, .pad = true)};
    const struct hr_op turned[] = {
        hr_op_decode(0), hr_op_flip(.transpose = true),
        hr_op_resize(.w = 52, .h = 71, .filter = HR_BICUBIC)};
    int n = env.num_files, made[4];

    made[0] = compare_files(dev, plain, 3,
                            hr_batch_params(.n = n, .c = 3, .h = 47, .w = 61),
                            "plain");
    made[1] = compare_files(dev, cropped, 2,
                            hr_batch_params(.n = n, .c = 3, .h = SIDE,
                                            .w = SIDE, .dtype = HR_U8,
                                            .layout = HR_NHWC),
                            "cropped");
    made[2] = compare_files(dev, gray, 3,
                            hr_batch_params(.n = n, .c = 1, .h = 50, .w = 33,
                                            .dtype = HR_F16),
                            "gray");
    made[3] = compare_files(dev, turned, 3,
                            hr_batch_params(.n = n, .c = 3, .h = 71, .w = 52,
                                            .dtype = HR_U8),
                            "turned");
    printf("\n  of %d made by the device: %d, %d, %d, %d; ", n, made[0],
           made[1], made[2], made[3]);
}

TEST_CASE(same)
{
    auto_device dev = open_device();

    every_file(dev);
}

TEST_CASE(same_gpu)
{
    auto_device dev = NULL;

    setenv("HEADRACE_OPENCL_VARIANT", "gpu", 1);
    dev = open_device();
    unsetenv("HEADRACE_OPENCL_VARIANT");
    CU_ASSERT_EQUAL(opencl_private(dev)->variant, OCL_GPU);
    every_file(dev);
}

// The host decodes the entropy coding that cannot be divided, even for a strict
// device, and no other stage.
TEST_CASE(serial)
{
    const struct hr_op ops[] = {hr_op_decode(0),
                                hr_op_resize(.w = SIDE, .h = SIDE)};
    auto_device dev = hr_device_open(
        "opencl:pocl",
        hr_device_params(.deadline_ns = OPENCL_PATIENCE,
                         .entropy = HR_WHERE_DEVICE, .strict = true));
    int i = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
    while (i < env.num_files && !strstr(env.files[i], "harsh-444.jpg"))
        i++;
    CU_ASSERT_FATAL(i < env.num_files);

    struct hr_sample s = {.path = env.files[i], .ops = ops, .num_ops = 2};
    struct hr_batch_params params = {.n = 1, .c = 3, .h = SIDE, .w = SIDE};
    struct opencl_run a = opencl_start(env.cpu, &s, 1, &params);
    struct opencl_run b = opencl_start(dev, &s, 1, &params);
    const struct hr_result *r = &b.job->results[0];

    CHECK(!opencl_differences(&a, &b, 1, "serial"), "%s", r->message);
    CHECK(!r->status && r->why & HR_WHY_SERIAL && r->fallbacks == 1,
          "why %#x, %d fallbacks: %s", r->why, r->fallbacks, r->message);
    CU_ASSERT(made_by(r, "cpu", HR_ENTROPY, HR_ENTROPY));
    CU_ASSERT(made_by(r, dev->name, HR_RECONSTRUCT, HR_STORE));
    opencl_finish(&a);
    opencl_finish(&b);
}

// Every sound photo, and nothing of it by the host.
TEST_CASE(photos)
{
    enum { N = 150 };
    static struct hr_op ops[N][4];
    struct hr_sample s[N];
    auto_device dev = open_device();
    struct ocl *o = opencl_private(dev);
    uint64_t launches = atomic_load(&o->launches);
    uint64_t batches = atomic_load(&o->batches);
    int fallbacks;

    opencl_fill(s, ops, N);
    CU_ASSERT_EQUAL(compare(dev, s, N,
                            hr_batch_params(.n = N, .c = 3, .h = SIDE,
                                            .w = SIDE),
                            "photos", &fallbacks),
                    N);
    CU_ASSERT_EQUAL(fallbacks, 0);
    launches = atomic_load(&o->launches) - launches;
    batches = atomic_load(&o->batches) - batches;
    CHECK(batches > 0 && launches == 9 * batches, "%d launches, %d batches",
          (int)launches, (int)batches);
}

// The decoders of a large picture go on in launches of their own, as on a GPU:
// an item of hr_entropy_check would have too many rounds.
TEST_CASE(large)
{
    const struct hr_op ops[] = {hr_op_decode(0),
                                hr_op_resize(.w = SIDE, .h = SIDE)};
    uint64_t seed = test_seed;
    struct bytes jpeg =
        test_jpeg_of(jpeg_ycc(.w = 1400, .h = 1000, .quality = 60), &seed);
    struct hr_sample s = {
        .data = jpeg.data, .size = jpeg.size, .ops = ops, .num_ops = 2};
    auto_device dev = open_device();
    struct ocl *o = opencl_private(dev);
    uint64_t launches = atomic_load(&o->launches);
    int fallbacks;

    CHECK(jpeg.size > HR__MARKS_ALONE * HR__MARK_BITS / 8, "%zu bytes",
          jpeg.size);
    CU_ASSERT_EQUAL(compare(dev, &s, 1,
                            hr_batch_params(.n = 1, .c = 3, .h = SIDE,
                                            .w = SIDE),
                            "large", &fallbacks),
                    1);
    CU_ASSERT_EQUAL(fallbacks, 0);
    CU_ASSERT_EQUAL(atomic_load(&o->launches) - launches, 11);
    free(jpeg.data);
}

// ---- What is odd ------------------------------------------------------------

enum { N = 64 };

// Pictures in memory, all of one size.
struct pictures {
    struct bytes bytes[N];
    struct hr_sample samples[N];
    struct hr_op ops[3];
};

static void make_pictures(struct pictures *p, uint64_t *seed)
{
    static const uint8_t factors[] = {0x11, 0x22, 0x21, 0x12};

    p->ops[0] = hr_op_decode(0);
    p->ops[1] = hr_op_crop(.x = 20, .y = 10, .w = 70, .h = 60);
    p->ops[2] = hr_op_resize(.w = 40, .h = 40);
    for (int i = 0; i < N; i++) {
        struct jpeg_spec spec = {.w = 120,
                                 .h = 100,
                                 .space = i % 5 ? JCS_YCbCr : JCS_GRAYSCALE,
                                 .factors = {factors[i % 4]},
                                 .optimize = i % 3 == 0,
                                 .mixed = i % 8 == 6,
                                 .restart = i % 7 ? 0 : 1 + i % 11,
                                 .quality = 30 + i};

        p->bytes[i] = test_jpeg_of(&spec, seed);
    }
}

static void use_pictures(struct pictures *p)
{
    for (int i = 0; i < N; i++)
        p->samples[i] = test_sample(&p->bytes[i], p->ops, 3);
}

static void free_pictures(struct pictures *p)
{
    for (int i = 0; i < N; i++)
        free(p->bytes[i].data);
}

static size_t find(const struct bytes *b, uint8_t marker)
{
    for (size_t at = 2; at + 4 <= b->size;
         at += 2 + (size_t)(b->data[at + 2] << 8 | b->data[at + 3]))
        if (b->data[at + 1] == marker)
            return at;
    abort();
}

// Where the scan's data begin.
static size_t scan_of(const struct bytes *b)
{
    size_t at = find(b, 0xda);

    return at + 2 + (size_t)(b->data[at + 2] << 8 | b->data[at + 3]);
}

static void hurt(struct bytes *b, int how, uint64_t *seed)
{
    size_t from = scan_of(b), n = b->size - from - 2;
    size_t at = from + next_random(seed) % n;

    if (how == 0) {
        b->data[at] ^= (uint8_t)(1 << next_random(seed) % 8);
    } else if (how == 1) {
        b->data[at] = 0xff;
    } else if (how == 2) {
        memmove(b->data + at, b->data + at + 1, b->size - at - 1);
        b->size--;
    } else {  // half of the data, then the end
        memmove(b->data + from + n / 2, b->data + b->size - 2, 2);
        b->size = from + n / 2 + 2;
    }
}

// Every second picture is damaged; its neighbours in the batch are not the
// worse for it, and neither are later jobs.
TEST_CASE(damage)
{
    const struct hr_batch_params params = {
        .n = N, .c = 3, .h = 40, .w = 40, .dtype = HR_U8};
    auto_device dev = open_device();
    uint64_t seed = test_seed;
    int left = 0;

    for (int round = 0; round < test_loops(12); round++) {
        struct pictures p;
        int fallbacks, all;

        make_pictures(&p, &seed);
        for (int i = 1; i < N; i += 2)
            hurt(&p.bytes[i], round % 4, &seed);
        use_pictures(&p);
        all = compare(dev, p.samples, N, &params, "damage", &fallbacks);
        // (Some of the best quality are never in step.)
        CHECK(all >= N / 2 - N / 16, "%d of %d", all, N);
        left += fallbacks;
        free_pictures(&p);
    }
    CHECK(left >= 10, "the device saw %d faults", left);
    printf("\n  the device saw %d faults; ", left);
}

// Headers that libjpeg-turbo refuses, warns of or reads in its own way: the
// device is not asked.
static void odd_header(struct bytes *b, int i)
{
    uint8_t *dht = b->data + find(b, 0xc4), *sos = b->data + find(b, 0xda);
    uint8_t *app = b->data + find(b, 0xe0);

    switch (i) {
    case 0:  // JFIF 2
        app[9] = 2;
        break;
    case 1:  // a code of ones
        memset(dht + 5, 0, 16);
        dht[5] = 2;
        dht[5 + 15] = 10;
        break;
    case 2:  // a DC of 16 bits
        dht[5 + 16 + 11] = 16;
        break;
    case 3:  // a spectrum that is none
        sos[2 + 2 + 1 + 2 * sos[4] + 1] = 62;
        break;
    case 4:  // the order of the components
        sos[5] ^= sos[7];
        sos[7] ^= sos[5];
        sos[5] ^= sos[7];
        break;
    case 5:  // a table that is not there
        sos[6] = 0x22;
        break;
    case 6:  // no JFIF, but an Adobe transform that is none
        memcpy(app, "\xff\xee\0\20Adobe\0d\0\0\0\0\2", 16);
        break;
    default:  // a fill byte too many in the data's place
        sos[3]--;
    }
}

TEST_CASE(headers)
{
    const struct hr_batch_params params = {
        .n = N, .c = 3, .h = 40, .w = 40, .dtype = HR_U8};
    auto_device dev = open_device();
    uint64_t seed = test_seed;
    struct opencl_run run;
    struct pictures p;
    int fallbacks, by_host, serial = 0;

    make_pictures(&p, &seed);
    for (int i = 1; i < 9; i++) {
        free(p.bytes[i].data);
        p.bytes[i] = test_jpeg(120, 100, &seed);
        odd_header(&p.bytes[i], i - 1);
    }
    use_pictures(&p);
    run = opencl_start(dev, p.samples, N, &params);
    hr_job_wait(run.job, HR_FOREVER);
    for (int i = 0; i < N; i++) {
        unsigned why = run.job->results[i].why;

        // (Some of the best quality are never in step.)
        serial += why == HR_WHY_SERIAL;
        CHECK((i >= 1 && i < 9) ==
                  ((why && why != HR_WHY_SERIAL) || run.job->results[i].status),
              "%d: %x", i, why);
    }
    CHECK(serial <= N / 8, "%d", serial);
    CU_ASSERT_EQUAL(compare(dev, p.samples, N, &params, "headers", &fallbacks),
                    N - 8 - serial);
    // Compare the host's entropy coding, which is no better at some of them.
    CU_ASSERT_EQUAL(compare(env.ocl, p.samples, N, &params, "host", &by_host),
                    0);
    CU_ASSERT_EQUAL(fallbacks, by_host + serial);
    opencl_finish(&run);
    free_pictures(&p);
}

static bool is_code(struct hr__code from, bool dc)
{
    struct hr__code to;

    return hr__entropy_code(&to, (const uint8_t *)&from, dc);
}

// Codes that are none.
TEST_CASE(codes)
{
    CU_ASSERT(is_code((struct hr__code){.counts = {1, 1}}, true));
    CU_ASSERT(!is_code((struct hr__code){.counts = {3}}, true));
    CU_ASSERT(!is_code((struct hr__code){.counts = {2, 1}}, true));
    // All ones.
    CU_ASSERT(!is_code((struct hr__code){.counts = {2}}, false));
    CU_ASSERT(
        !is_code((struct hr__code){.counts = {[8] = 255, [9] = 200}}, false));
    // A DC of 16 bits.
    CU_ASSERT(
        is_code((struct hr__code){.counts = {1}, .symbols = {16}}, false));
    CU_ASSERT(is_code((struct hr__code){.counts = {1}, .symbols = {15}}, true));
    CU_ASSERT(
        !is_code((struct hr__code){.counts = {1}, .symbols = {16}}, true));
}

// Nothing of the picture is wanted; more blocks than a group adds up, and just
// many.
TEST_CASE(out_of_scope)
{
    const struct hr_op beside[] = {hr_op_decode(0),
                                   hr_op_crop(.x = 500, .y = 2, .w = 9, .h = 9,
                                              .pad = true)};
    const struct hr_op part[] = {hr_op_decode(0), hr_op_crop(.x = 900, .y = 900,
                                                             .w = 9, .h = 9)};
    const struct jpeg_spec large = {
        .w = 8000, .h = 4808, .space = JCS_GRAYSCALE, .quality = 5};
    const struct hr_batch_params params = {.n = 3, .c = 3, .h = 9, .w = 9};
    struct jpeg_spec many = large;
    auto_device dev = open_device();
    uint64_t seed = test_seed;
    struct bytes b[3];
    struct hr_sample s[3];
    struct opencl_run run;
    int fallbacks;

    many.w = 2000;
    many.h = 1930;
    b[0] = test_jpeg(100, 90, &seed);
    b[1] = test_jpeg_of(&large, &seed);
    b[2] = test_jpeg_of(&many, &seed);
    for (int i = 0; i < 3; i++)
        s[i] = test_sample(&b[i], i ? part : beside, 2);
    CU_ASSERT_EQUAL(compare(dev, s, 3, &params, "scope", &fallbacks), 1);
    CU_ASSERT_EQUAL(fallbacks, 0);
    run = opencl_start(dev, s, 3, &params);
    hr_job_wait(run.job, HR_FOREVER);
    CU_ASSERT_EQUAL(run.job->results[0].why, 0);
    CU_ASSERT_EQUAL(run.job->results[1].why, HR_WHY_SIZE);
    CU_ASSERT_EQUAL(run.job->results[2].why, 0);
    opencl_finish(&run);
    for (int i = 0; i < 3; i++)
        free(b[i].data);
}

// Whatever the bytes are, and whatever they were when the header was read:
// nothing is read behind the file, or written behind what was planned (memory
// of exactly those sizes, for AddressSanitizer). True: it got as far as that.
static bool plan_and_pack(struct ocl_plan *plan, const struct bytes *b,
                          const struct hr_info *info)
{
    struct hr__picture pic = {
        .data = b->data, .size = b->size, .info = *info, .channels = 3};
    struct ocl_file file;
    struct ocl_item item = {.file = &file};
    auto_heap uint8_t *to = NULL;

    if (!ocl_plan_begin(plan, 1) ||
        !ocl_plan_entropy(plan, 0, &pic, (struct hr__rect){0, 0, 1, 1}, &item))
        return false;
    if (!(to = malloc(item.in_bytes)))
        abort();
    ocl_describe_entropy(&item, ocl_plan_picture(plan, 0), 0, to);
    return true;
}

TEST_CASE(hostile)
{
    struct ocl_plan plan = {.ref = &opencl_private(env.ocl)->guard.ref};
    uint64_t seed = test_seed;
    struct pictures p;
    int packed = 0, rounds = test_loops(40000);

    make_pictures(&p, &seed);
    for (int i = 0; i < rounds; i++) {
        const struct bytes *from = &p.bytes[i % N];
        size_t header = scan_of(from), size = from->size;
        auto_bytes b = {malloc(size), size};
        struct hr_info info;

        if (!b.data || hr_probe(from->data, size, NULL, &info))
            abort();
        memcpy(b.data, from->data, size);
        for (int k = (int)(next_random(&seed) % 4); k >= 0; k--)
            b.data[next_random(&seed) % (k % 2 ? size : header)] =
                (uint8_t)next_random(&seed);
        if (i % 5 == 0)
            b.data = realloc(b.data, b.size = 1 + next_random(&seed) % size);
        packed += plan_and_pack(&plan, &b, &info);
    }
    CHECK(packed > rounds / 10 && packed < rounds, "%d of %d", packed, rounds);
    printf("\n  %d of %d packed; ", packed, rounds);
    hr__free(plan.data);
    free_pictures(&p);
}

// ---- Beside other things ----------------------------------------------------

// Results that stay on the device, damaged ones among them.
TEST_CASE(device_memory)
{
    struct hr_batch_params params = {
        .n = N, .c = 3, .h = 40, .w = 40, .dtype = HR_U8};
    auto_device dev = open_device();
    uint64_t seed = test_seed;
    struct opencl_run a, b;
    struct pictures p;
    int fallbacks = 0;
    uint8_t *got;

    make_pictures(&p, &seed);
    for (int i = 0; i < N; i += 3)
        hurt(&p.bytes[i], 3, &seed);
    use_pictures(&p);
    a = opencl_start(env.cpu, p.samples, N, &params);
    params.memory = HR_MEMORY_DEVICE;
    b = opencl_start(dev, p.samples, N, &params);
    hr_job_wait(a.job, HR_FOREVER);
    hr_job_wait(b.job, HR_FOREVER);
    CU_ASSERT_PTR_NOT_NULL_FATAL(got = malloc(opencl_stride(&a)));
    for (int i = 0; i < N; i++) {
        const struct hr_result *r = &b.job->results[i];

        CHECK(alike(&a.job->results[i], r), "%d: %s", i, r->message);
        fallbacks += r->fallbacks;
        if (r->status)
            continue;
        CU_ASSERT(
            !hr_batch_read(b.batch, i, 1, got, opencl_stride(&a), HR_FOREVER));
        CHECK(!memcmp(got, opencl_slot(&a, i), opencl_stride(&a)), "%d", i);
    }
    CU_ASSERT(fallbacks > 0);
    CU_ASSERT(opencl_count_spans(&b, N, HR_ENTROPY) >= N / 2);
    free(got);
    opencl_finish(&a);
    opencl_finish(&b);
    free_pictures(&p);
}

// The host decodes and packs what a cache shall keep; the second epoch comes
// from the cache.
TEST_CASE(kept)
{
    const struct hr_batch_params params = {
        .n = N, .c = 3, .h = 40, .w = 40, .dtype = HR_U8};
    hr_cache cache = hr_cache_create((size_t)64 << 20);
    uint64_t seed = test_seed;
    struct hr_cache_stats stats;
    struct pictures p;
    auto_device dev = NULL;

    dev = open_device();
    CU_ASSERT_PTR_NOT_NULL_FATAL(cache);
    make_pictures(&p, &seed);
    use_pictures(&p);
    for (int i = 0; i < N; i++)
        p.samples[i].cache = cache;
    for (int epoch = 0; epoch < 2; epoch++) {
        OWN(opencl_finish)
        struct opencl_run run = opencl_start(dev, p.samples, N, &params);

        CU_ASSERT(!hr_job_wait(run.job, HR_FOREVER));
        CU_ASSERT_EQUAL(opencl_count_spans(&run, N, HR_ENTROPY), 0);
        CU_ASSERT_EQUAL(opencl_count_spans(&run, N, HR_RECONSTRUCT), N);
    }
    hr_cache_stats(cache, &stats);
    CHECK(stats.hits == N, "%d of %d were kept", (int)stats.hits, N);
    hr_cache_release(&cache);
    free_pictures(&p);
}

TEST_MAIN(opencl_main)
