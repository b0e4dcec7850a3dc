// SPDX-License-Identifier: Apache-2.0
// Samples of one job that read the same bytes: each comes out as it does alone,
// whatever the file is, with the same result; and the file is decoded once,
// where that pays.
#include "corpus_list.h"
#include "testing.h"

enum { VIEWS = 7, SIDE = 40, SOURCES = 24, MOST = 400 };

static hr_device dev, readable;
static bool other;  // dev is not the CPU
static int shared_before;

// One picture, its views in a row: random crops, one of them turned as EXIF
// says, one of grey values; views that reach beyond the picture, and views
// outside it.
struct views {
    struct hr_op ops[VIEWS][4];
    struct hr_sample samples[VIEWS];
    hr_image out[VIEWS];
};

static struct hr_op crop_of(uint64_t *seed, double least, double most)
{
    return hr_op_random_resized_crop(.w = SIDE, .h = SIDE,
                                     .scale = {least, most},
                                     .filter = random_below(seed, 2)
                                                   ? HR_BICUBIC
                                                   : HR_BILINEAR);
}

static void set_ops(struct views *v, int i, uint64_t *seed)
{
    struct hr_op *ops = v->ops[i];
    int n = 0;

    ops[n++] = hr_op_decode(.mode = i == 5 ? HR_GRAY : HR_RGB,
                            .apply_orientation = i == 4);
    if (i == 3) {
        ops[n++] = hr_op_crop(.x = -9, .y = 5, .w = 30, .h = 3000, .pad = true);
        ops[n++] = hr_op_resize(.w = SIDE, .h = SIDE);
    } else if (i == 6) {
        ops[n++] = hr_op_crop(.x = -400, .y = -400, .w = SIDE, .h = SIDE,
                              .pad = true);
    } else {
        ops[n++] = i % 2 ? crop_of(seed, .05, .4) : crop_of(seed, .4, 1);
        ops[n++] = hr_op_random_flip(.horizontal = .5);
        if (i == 2)
            ops[n++] = (struct hr_op){.type = HR_OP_ADJUST_CONTRAST,
                                      .adjust_contrast = {.factor = 1.5F}};
    }
    v->samples[i].ops = ops;
    v->samples[i].num_ops = n;
}

static void make_views(struct views *v, const struct bytes *file,
                       uint64_t number, hr_device device)
{
    uint64_t seed = test_seed + number;

    memset(v, 0, sizeof(*v));
    for (int i = 0; i < VIEWS; i++) {
        struct hr_sample *s = &v->samples[i];

        set_ops(v, i, &seed);
        s->data = file->data;
        s->size = file->size;
        s->random = (struct hr_random){.seed = number, .index = (uint64_t)i};
        s->name = "it";
        s->out = v->out[i] = hr_image_create(
            device, hr_image_params(.w = SIDE, .h = SIDE, .c = i == 5 ? 1 : 3));
        CU_ASSERT_PTR_NOT_NULL_FATAL(s->out);
    }
}

static void drop_views(struct views *v)
{
    for (int i = 0; i < VIEWS; i++)
        hr_image_release(&v->out[i]);
}

static hr_job run(hr_device device, const struct hr_sample *samples, int n)
{
    hr_job job = hr_submit(device, samples, n, NULL,
                           hr_job_params(.on_error = HR_ON_ERROR_ZERO));

    CHECK(job, "%s", hr_last_error());
    hr_job_wait(job, HR_FOREVER);
    return job;
}

// How many samples were made of another's pixels since the last call.
static int shared_now(void)
{
    struct hr_stats stats;
    int n;

    hr_device_stats(dev, &stats);
    n = (int)stats.shared - shared_before;
    shared_before = (int)stats.shared;
    return n;
}

static bool same_result(const struct hr_result *a, const struct hr_result *b)
{
    // (Whose number a message begins with the name says.)
    return a->status == b->status && a->warnings == b->warnings &&
           a->offset == b->offset && a->width == b->width &&
           a->height == b->height && a->orientation == b->orientation &&
           (other || a->num_spans == b->num_spans) &&
           !strcmp(a->message, b->message) &&
           (!a->status || a->stage == b->stage);
}

// All at once, and one by one on a device whose pixels are right. Returns how
// many were shared.
static int compare(const struct bytes *file, uint64_t number, const char *name)
{
    struct views together, alone;
    hr_job all, one;

    make_views(&together, file, number, dev);
    make_views(&alone, file, number, readable);
    all = run(dev, together.samples, VIEWS);
    for (int i = 0; i < VIEWS; i++) {
        const struct hr_result *a = &all->results[i], *b;

        one = run(readable, &alone.samples[i], 1);
        b = &one->results[0];
        CHECK(same_result(a, b), "%s, view %d: %d, '%s'; alone %d, '%s'", name,
              i, a->status, a->message, b->status, b->message);
        CHECK(!memcmp(together.out[i]->params.data, alone.out[i]->params.data,
                      alone.out[i]->size),
              "%s, view %d: pixels", name, i);
        hr_job_release(&one);
    }
    hr_job_release(&all);
    drop_views(&together);
    drop_views(&alone);
    return shared_now();
}

// ---- Files of all kinds -----------------------------------------------------

static struct bytes file_of(int i, uint64_t *seed)
{
    struct jpeg_spec spec = {.w = 60 + random_below(seed, 200),
                             .h = 60 + random_below(seed, 200),
                             .space = JCS_YCbCr,
                             .quality = 40 + random_below(seed, 55)};

    switch (i % 8) {
    case 0:
        return test_png(spec.w, spec.h, seed);
    case 1:
        return test_damaged(spec.w, spec.h, seed);
    case 2:
        return test_warned(spec.w, spec.h, seed);
    case 3:
        spec.progressive = true;
        break;
    case 4:
        spec.restart = 3;
        break;
    case 5:
        spec.space = JCS_GRAYSCALE;
        break;
    default:
        spec.factors[0] = i % 8 == 6 ? 0x22 : 0x21;
        spec.factors[1] = spec.factors[2] = 0x11;
    }
    return test_jpeg_of(&spec, seed);
}

static int compare_generated(int from, int end)
{
    uint64_t seed = test_seed;
    int shared = 0;

    for (int i = from; i < end; i++) {
        auto_bytes file = file_of(i, &seed);
        char name[40];

        snprintf(name, sizeof(name), "file %d", i);
        if (i >= SOURCES / 2)  // anywhere behind the header, mostly
            file.data[file.size / 2 +
                      (size_t)random_below(&seed, (int)file.size / 2)] ^= 0x5a;
        shared += compare(&file, (uint64_t)i, name);
    }
    return shared;
}

TEST_CASE(generated)
{
    int n = test_loops(SOURCES), shared = compare_generated(0, n);

    // (Grey values are a decode of their own.)
    CHECK(shared >= n / 8 * (VIEWS - 2), "%d shared of %d files", shared, n);
}

static void compare_folder(const char *below, int step)
{
    struct corpus_folder folder;

    if (!corpus_folder_open(&folder, below)) {
        test_not_run("no corpus");
        return;
    }
    for (uint64_t i = 0; corpus_folder_next(&folder, step); i++) {
        auto_bytes file = {0};

        if (!read_file(folder.path, &file))
            continue;
        if (file.size && file.size < 400000)
            compare(&file, i, folder.name);
    }
    corpus_folder_close(&folder);
}

TEST_CASE(kinds)
{
    int step = test_races_only() ? 12 : 1;

    compare_folder("kinds", step);
    compare_folder("bad", step);
}

// ---- How often it is decoded ------------------------------------------------

// A job in which the views of a picture stand together, or those of one kind.
static void count_decodes(bool by_views)
{
    static struct views all[8];
    static struct hr_sample samples[8 * VIEWS];
    uint64_t seed = test_seed;
    struct bytes files[8];
    hr_job job;

    for (int i = 0; i < 8; i++) {
        files[i] = test_jpeg(150, 120, &seed);
        make_views(&all[i], &files[i], (uint64_t)i, dev);
        for (int k = 0; k < VIEWS; k++)
            samples[by_views ? k * 8 + i : i * VIEWS + k] = all[i].samples[k];
    }
    job = run(dev, samples, 8 * VIEWS);
    CHECK(shared_now() == 8 * (VIEWS - 2), "all but one, and the grey one");
    for (int i = 0; i < 8 * VIEWS; i++)
        CHECK(job->results[i].status == HR_OK, "%s", job->results[i].message);
    hr_job_release(&job);
    for (int i = 0; i < 8; i++) {
        drop_views(&all[i]);
        free(files[i].data);
    }
}

TEST_CASE(decoded_once)
{
    count_decodes(false);
    count_decodes(true);
}

// n crops of the picture, of which the i-th begins at x[i], y[i].
static int shared_crops(const struct bytes *file, int side, const int *x,
                        const int *y, int n, hr_cache cache)
{
    struct hr_op ops[4][2];
    struct hr_sample s[4];
    auto_batch batch = hr_batch_create(
        dev, hr_batch_params(.n = n, .c = 3, .h = side, .w = side));
    auto_job job = NULL;

    for (int i = 0; i < n; i++) {
        ops[i][0] = hr_op_decode(0);
        ops[i][1] = hr_op_crop(.x = x[i], .y = y[i], .w = side, .h = side);
        s[i] = test_sample(file, ops[i], 2, .cache = cache);
    }
    job = hr_submit(dev, s, n, batch, NULL);
    CHECK(job && hr_job_wait(job, HR_FOREVER) == HR_OK, "%s", hr_last_error());
    return shared_now();
}

// A file is read from its top on, and decoded wherever a window is: two corners
// have only that in common. A picture that will be kept is packed as a whole.
TEST_CASE(where_it_pays)
{
    static const int apart[] = {0, 360}, near[] = {0, 16}, low[] = {360, 360};
    uint64_t seed = test_seed;
    auto_bytes file = test_jpeg(400, 400, &seed);
    auto_bytes large = test_jpeg(1600, 1000, &seed);
    auto_cache cache = hr_cache_create((size_t)16 << 20);

    CHECK(shared_crops(&file, 40, apart, low, 2, NULL) == 1, "in one row");
    CHECK(shared_crops(&file, 40, apart, apart, 2, NULL) == 0, "corners");
    CHECK(shared_crops(&file, 40, apart, apart, 2, cache) == 1, "kept");
    CHECK(shared_crops(&file, 40, apart, low, 2, cache) == 0, "from a cache");
    CHECK(shared_crops(&file, 200, near, near, 2, cache) == 1, "overlap");
    CHECK(shared_crops(&large, 40, near, near, 2, NULL) == 0,
          "more than a worker keeps");
}

// A cache has one entry of the picture, as if its views had come one by one.
TEST_CASE(kept)
{
    uint64_t seed = test_seed;
    auto_bytes file = test_jpeg(150, 120, &seed);
    auto_cache cache = hr_cache_create((size_t)16 << 20);
    struct hr_cache_stats stats;
    struct views v;

    for (int epoch = 0; epoch < 2; epoch++) {
        hr_job job;

        make_views(&v, &file, 1, dev);
        for (int i = 0; i < VIEWS; i++)
            v.samples[i].cache = cache;
        job = run(dev, v.samples, VIEWS);
        hr_job_release(&job);
        drop_views(&v);
        hr_cache_stats(cache, &stats);
        CHECK(stats.kept == 1, "%d kept", (int)stats.kept);
    }
    CHECK(stats.hits >= VIEWS, "%d hits", (int)stats.hits);
    shared_now();
}

TEST_CASE(cancelled)
{
    static struct views v[SOURCES];
    static struct hr_sample samples[SOURCES * VIEWS];
    uint64_t seed = test_seed;
    auto_bytes file = test_jpeg(300, 300, &seed);

    for (int k = 0; k < 4; k++) {
        hr_job job;

        for (int i = 0; i < SOURCES; i++) {
            make_views(&v[i], &file, (uint64_t)i, dev);
            memcpy(samples + i * VIEWS, v[i].samples, sizeof(v[i].samples));
        }
        job = hr_submit(dev, samples, SOURCES * VIEWS, NULL,
                        hr_job_params(.on_error = HR_ON_ERROR_ZERO));
        test_sleep(k * TEST_MS);
        hr_job_cancel(job);
        CHECK(hr_job_wait(job, HR_FOREVER) != HR_PENDING, "it ends");
        hr_job_release(&job);
        for (int i = 0; i < SOURCES; i++)
            drop_views(&v[i]);
    }
    shared_now();
}

// ---- On a device ------------------------------------------------------------

// The kernels decode entropy coding, and a batch once for all views but the one
// outside and the one that the CPU goes on with.
TEST_CASE(on_opencl)
{
    hr_device cpu = dev, device;
    int shared;

    setenv("HEADRACE_OPENCL_AUGMENT", "device", 1);
    device = hr_device_open("opencl",
                            hr_device_params(.entropy = HR_WHERE_DEVICE,
                                             .deadline_ns = 600000 * TEST_MS));
    unsetenv("HEADRACE_OPENCL_AUGMENT");
    if (!device) {
        test_no_device();
        return;
    }
    dev = device;
    other = true;
    shared_before = 0;
    shared = compare_generated(4, 8);
    CHECK(shared == 4 * 4, "%d shared", shared);
    compare_generated(0, 4);
    compare_generated(8, test_loops(SOURCES));
    compare_folder("kinds", 12);
    dev = cpu;
    other = false;
    shared_before = 0;
    shared_now();
    hr_device_close(&device);
}

int main(int argc, char **argv)
{
    int failed;

    test_begin();
    dev = test_device("cpu", 2, 0);
    readable = test_reference();
    failed = test_main(argc, argv);
    hr_device_close(&dev);
    hr_device_close(&readable);
    return failed;
}
