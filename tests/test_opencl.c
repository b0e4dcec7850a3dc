// SPDX-License-Identifier: Apache-2.0
// The OpenCL engine on whatever device is here (PoCL will do): opening and
// choosing, the cache of programs, the same bytes as the CPU for every kind of
// picture, launches per batch, and what happens when the driver fails or
// hangs. Without a device it says so and ends with 77; one that is here but
// does not open is a failure.
#define _GNU_SOURCE  // nftw(), usleep()
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CUnit/Basic.h>
#include <jansson.h>

#include "../tools/tools.h"
#include "backends/opencl/opencl.h"
#include "hal/hal.h"

#define SEED "31"
#define COUNT(a) ((int)(sizeof(a) / sizeof(*(a))))

enum { MAX_FILES = 400, SIDE = 96 };

static struct {
    char root[64];
    char *files[MAX_FILES];
    int num_files;
    hr_device cpu, ocl;
} t;

static struct ocl *private_of(hr_device dev)
{
    return ocl_of(((struct hr__device *)(uintptr_t)dev)->engines[0]);
}

static double ms_since(int64_t start)
{
    return (double)(hr__now() - start) / 1e6;
}

// ---- Opening --------------------------------------------------------------

static void test_names(void)
{
    static const char *const good[] = {"opencl", "opencl:0"};
    hr_device dev;

    for (int i = 0; i < COUNT(good); i++) {
        CU_ASSERT_PTR_NOT_NULL(dev = hr_device_open(good[i], NULL));
        if (dev)
            CU_ASSERT_EQUAL(strncmp(dev->name, "opencl:", 7), 0);
        hr_device_close(&dev);
    }
    // By the first word of what the driver calls it.
    char name[64] = "opencl:";
    const char *driver = private_of(t.ocl)->facts.name;
    snprintf(name + 7, sizeof(name) - 7, "%.*s", (int)strcspn(driver, " "),
             driver);
    CU_ASSERT_PTR_NOT_NULL(dev = hr_device_open(name, NULL));
    hr_device_close(&dev);
}

static void test_wrong_names(void)
{
    static const char *const bad[] = {"opencl:no-such", "opencl:99",
                                      "opencl:0x", "opencl:-1"};

    for (int i = 0; i < COUNT(bad); i++) {
        CU_ASSERT_PTR_NULL(hr_device_open(bad[i], NULL));
        CU_ASSERT_EQUAL(hr_last_status(), HR_ENODEVICE);
        CU_ASSERT_PTR_NOT_NULL(strstr(hr_last_error(), "there are: 0 = "));
        CU_ASSERT_PTR_NOT_NULL(strstr(hr_last_error(), bad[i]));
    }
}

static void test_variable(void)
{
    hr_device dev;

    setenv("HEADRACE_OPENCL_DEVICE", "no-such", 1);
    CU_ASSERT_PTR_NULL(dev = hr_device_open("opencl", NULL));
    CU_ASSERT_PTR_NOT_NULL(dev = hr_device_open("opencl:0", NULL));
    hr_device_close(&dev);
    setenv("HEADRACE_OPENCL_DEVICE", "0", 1);
    CU_ASSERT_PTR_NOT_NULL(dev = hr_device_open("opencl", NULL));
    hr_device_close(&dev);
    unsetenv("HEADRACE_OPENCL_DEVICE");
}

static void test_no_library(void)
{
    struct hr_device_info infos[8];
    bool listed = false;
    int n;

    setenv("HEADRACE_OPENCL_LIBRARY", "/nonexistent/libOpenCL.so.1", 1);
    CU_ASSERT_PTR_NULL(hr_device_open("opencl", NULL));
    CU_ASSERT_EQUAL(hr_last_status(), HR_ENODEVICE);
    CU_ASSERT_PTR_NOT_NULL(strstr(hr_last_error(), "no OpenCL loader"));
    n = hr_device_list(infos, COUNT(infos));
    for (int i = 0; i < n && i < COUNT(infos); i++)
        listed |= !strcmp(infos[i].name, "opencl") && !infos[i].available &&
                  strstr(infos[i].reason, "no OpenCL loader");
    CU_ASSERT_TRUE(listed);
    // A library that is not OpenCL.
    setenv("HEADRACE_OPENCL_LIBRARY", "libm.so.6", 1);
    CU_ASSERT_PTR_NULL(hr_device_open("opencl", NULL));
    CU_ASSERT_PTR_NOT_NULL(strstr(hr_last_error(), "has no clGetPlatformIDs"));
    unsetenv("HEADRACE_OPENCL_LIBRARY");
}

// The child is told, and does not hang.
static void test_fork(void)
{
    int status = -1;
    pid_t child;

    fflush(stdout);
    if (!(child = fork())) {
        alarm(20);
        _exit(!hr_device_open("opencl", NULL) && hr_last_status() == HR_EFORK &&
                      strstr(hr_last_error(), "fork")
                  ? 0
                  : 1);
    }
    CU_ASSERT(child > 0 && waitpid(child, &status, 0) == child);
    CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// ---- The cache ------------------------------------------------------------

static bool find_cache(char *path, size_t size)
{
    char dir[128];
    struct dirent *entry;
    int found = 0;
    DIR *d;

    snprintf(dir, sizeof(dir), "%s/cache/headrace", t.root);
    if (!(d = opendir(dir)))
        return false;
    while ((entry = readdir(d)))
        if (strstr(entry->d_name, ".bin")) {
            snprintf(path, size, "%s/%s", dir, entry->d_name);
            found++;
        }
    closedir(d);
    return found == 1;
}

// Opens, and says whether the program came from the cache.
static int open_cached(double *ms)
{
    int64_t start = hr__now();
    hr_device dev = hr_device_open("opencl", NULL);
    int cached;

    if (!dev)
        return -1;
    if (ms)
        *ms = ms_since(start);
    cached = private_of(dev)->program_cached;
    hr_device_close(&dev);
    return cached;
}

static void test_cache(void)
{
    char path[512];
    double warm = 0, best = 1e9;
    FILE *f;

    CU_ASSERT_FATAL(find_cache(path, sizeof(path)));
    for (int i = 0; i < 5; i++) {
        CU_ASSERT_EQUAL(open_cached(&warm), 1);
        best = warm < best ? warm : best;
    }
    printf("\n  open with a warm cache: %.1f ms; ", best);
    // Cut short, one bit wrong, empty: each is built again and replaced.
    CU_ASSERT_EQUAL(truncate(path, 1000), 0);
    CU_ASSERT_EQUAL(open_cached(NULL), 0);
    CU_ASSERT_EQUAL(open_cached(NULL), 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(f = fopen(path, "r+b"));
    fseek(f, 5000, SEEK_SET);
    int c = fgetc(f);
    fseek(f, 5000, SEEK_SET);
    fputc(c ^ 1, f);
    fclose(f);
    CU_ASSERT_EQUAL(open_cached(NULL), 0);
    CU_ASSERT_EQUAL(open_cached(NULL), 1);
    CU_ASSERT_EQUAL(truncate(path, 0), 0);
    CU_ASSERT_EQUAL(open_cached(NULL), 0);
    CU_ASSERT_TRUE(find_cache(path, sizeof(path)));
}

// No folder that can be written: it works, without a cache.
static void test_cache_folder(void)
{
    char cache[128];

    snprintf(cache, sizeof(cache), "%s/cache", t.root);
    setenv("XDG_CACHE_HOME", "/proc/self", 1);
    CU_ASSERT_EQUAL(open_cached(NULL), 0);
    setenv("XDG_CACHE_HOME", "/dev/null", 1);
    CU_ASSERT_EQUAL(open_cached(NULL), 0);
    setenv("XDG_CACHE_HOME", cache, 1);
    CU_ASSERT_EQUAL(open_cached(NULL), 1);
}

// ---- The same bytes -------------------------------------------------------

struct run {
    hr_batch batch;
    hr_job job;
};

static struct run start(hr_device dev, const struct hr_sample *samples, int n,
                        const struct hr_batch_params *params)
{
    struct run r;

    r.batch = hr_batch_create(dev, params);
    CU_ASSERT_PTR_NOT_NULL_FATAL(r.batch);
    r.job = hr_submit(dev, samples, n, r.batch,
                      hr_job_params(.on_error = HR_ON_ERROR_ZERO,
                                    .wait_for_room = true));
    CU_ASSERT_PTR_NOT_NULL_FATAL(r.job);
    return r;
}

static void finish(struct run *r)
{
    hr_job_release(&r->job);
    hr_batch_destroy(&r->batch);
}

static size_t stride_of(const struct run *r)
{
    return r->batch->params.stride_n;
}

static const void *slot_of(const struct run *r, int i)
{
    return (const uint8_t *)r->batch->params.data + stride_of(r) * (size_t)i;
}

// How many samples differ in status or bytes.
static int differences(struct run *a, struct run *b, int n, const char *what)
{
    int bad = 0;

    CU_ASSERT_EQUAL(hr_job_wait(a->job, 120 * INT64_C(1000000000)), HR_OK);
    CU_ASSERT_EQUAL(hr_job_wait(b->job, 120 * INT64_C(1000000000)), HR_OK);
    for (int i = 0; i < n; i++) {
        const struct hr_result *x = &a->job->results[i];
        const struct hr_result *y = &b->job->results[i];

        if (x->status == y->status &&
            !memcmp(slot_of(a, i), slot_of(b, i), stride_of(a)))
            continue;
        if (++bad < 5)
            printf("\n  %s: sample %d %s: %s, %s %s", what, i,
                   i < t.num_files ? t.files[i] : "", hr_status_name(x->status),
                   hr_status_name(y->status), y->message);
    }
    return bad;
}

static int count_spans(const struct run *r, int n, enum hr_stage first)
{
    int count = 0;

    for (int i = 0; i < n; i++)
        for (int k = 0; k < r->job->results[i].num_spans; k++) {
            const struct hr_span_result *s = &r->job->results[i].spans[k];

            count += s->span.first == first && !strncmp(s->device, "opencl", 6);
        }
    return count;
}

// The compiler takes longer than a sample may: that is not held against the
// device, neither by its test nor by the first job.
static void test_short_deadline(void)
{
    enum { N = 10 };
    static const struct hr_op ops[] = {hr_op_decode(0),
                                       hr_op_resize(.w = SIDE, .h = SIDE)};
    char cache[128], fresh[160];
    struct hr_sample samples[N];
    hr_device dev;
    struct run r;

    snprintf(cache, sizeof(cache), "%s/cache", t.root);
    snprintf(fresh, sizeof(fresh), "%s/fresh", t.root);
    mkdir(fresh, 0700);
    setenv("XDG_CACHE_HOME", fresh, 1);
    setenv("POCL_CACHE_DIR", fresh, 1);
    dev = hr_device_open("opencl", hr_device_params(.deadline_ns = 400000000));
    setenv("XDG_CACHE_HOME", cache, 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
    CU_ASSERT_TRUE(dev->caps.exact && dev->certificate.tested);
    for (int i = 0; i < N; i++)
        samples[i] =
            (struct hr_sample){.path = t.files[i], .ops = ops, .num_ops = 2};
    r = start(dev, samples, N,
              hr_batch_params(.n = N, .c = 3, .h = SIDE, .w = SIDE));
    CU_ASSERT_EQUAL(hr_job_wait(r.job, 60 * INT64_C(1000000000)), HR_OK);
    CU_ASSERT_EQUAL(count_spans(&r, N, HR_RECONSTRUCT), N);
    finish(&r);
    hr_device_close(&dev);
}

// All files by one op list on both devices.
static void compare_files(const struct hr_op *ops, int num_ops, int w, int h,
                          int c, enum hr_dtype dtype, enum hr_layout layout,
                          const char *what)
{
    struct hr_sample samples[MAX_FILES];
    struct hr_batch_params params = {.n = t.num_files,
                                     .c = c,
                                     .h = h,
                                     .w = w,
                                     .dtype = dtype,
                                     .layout = layout};
    struct run a, b;

    for (int i = 0; i < t.num_files; i++)
        samples[i] = (struct hr_sample){.path = t.files[i],
                                        .ops = ops,
                                        .num_ops = num_ops};
    a = start(t.cpu, samples, t.num_files, &params);
    b = start(t.ocl, samples, t.num_files, &params);
    CU_ASSERT_EQUAL(differences(&a, &b, t.num_files, what), 0);
    CU_ASSERT(count_spans(&b, t.num_files, HR_RECONSTRUCT) > 20);
    CU_ASSERT(count_spans(&b, t.num_files, HR_RESAMPLE) > 20);
    finish(&a);
    finish(&b);
}

#define NORMALIZE \
    hr_op_normalize(.mean = {.485f, .456f, .406f}, .std = {.229f, .224f, .225f})

static void test_types(void)
{
    const struct hr_op ops[] = {hr_op_decode(0), hr_op_resize(.w = 61, .h = 47),
                                NORMALIZE};

    for (int dtype = HR_F32; dtype <= HR_U8; dtype++)
        for (int layout = HR_NCHW; layout <= HR_NHWC; layout++)
            compare_files(ops, dtype == HR_U8 ? 2 : 3, 61, 47, 3,
                          (enum hr_dtype)dtype, (enum hr_layout)layout,
                          hr_dtype_name((enum hr_dtype)dtype));
}

static void test_filters(void)
{
    for (int f = 0; f < HR_NUM_FILTERS; f++) {
        const struct hr_op ops[] = {
            hr_op_decode(0),
            hr_op_resize(.w = 40, .h = 130, .filter = (enum hr_filter)f),
            hr_op_flip(.horizontal = (f & 1) != 0, .vertical = f > 3)};

        compare_files(ops, 3, 40, 130, 3, HR_U8, HR_NHWC, "filter");
    }
}

// Crops and paddings of every size of picture; grey; orientation.
static void test_geometries(void)
{
    const struct hr_op padded[] = {hr_op_decode(.apply_orientation = true),
                                   hr_op_crop(.x = -7, .y = 3, .w = SIDE,
                                              .h = SIDE, .pad = true)};
    const struct hr_op gray[] = {
        hr_op_decode(.mode = HR_GRAY), hr_op_resize(.short_side = 64),
        hr_op_crop(.center = true, .w = 33, .h = 50, .pad = true),
        hr_op_normalize(.mean = {.5f}, .std = {.25f})};
    const struct hr_op turned[] = {
        hr_op_decode(0), hr_op_resize(.w = 70, .h = 55),
        hr_op_flip(.transpose = true, .horizontal = true), NORMALIZE};
    // Turned, then resized: the vertical pass of the file comes first.
    const struct hr_op turned_first[] = {
        hr_op_decode(0), hr_op_flip(.transpose = true),
        hr_op_resize(.w = 52, .h = 71, .filter = HR_BICUBIC), NORMALIZE};
    const struct hr_op twice[] = {hr_op_decode(0),
                                  hr_op_resize(.w = 70, .h = 55),
                                  hr_op_resize(.w = 20, .h = 30)};
    struct hr_sample s[MAX_FILES];
    struct run a, b;

    compare_files(padded, 2, SIDE, SIDE, 3, HR_F32, HR_NCHW, "padded");
    compare_files(gray, 4, 33, 50, 1, HR_F32, HR_NCHW, "gray");
    compare_files(turned, 4, 55, 70, 3, HR_F16, HR_NHWC, "turned");
    compare_files(turned_first, 4, 52, 71, 3, HR_F32, HR_NCHW, "v_first");
    // Two steps are the CPU's, and the reason is given.
    for (int i = 0; i < t.num_files; i++)
        s[i] =
            (struct hr_sample){.path = t.files[i], .ops = twice, .num_ops = 3};
    a = start(t.cpu, s, t.num_files,
              hr_batch_params(.n = t.num_files, .c = 3, .h = 30, .w = 20));
    b = start(t.ocl, s, t.num_files,
              hr_batch_params(.n = t.num_files, .c = 3, .h = 30, .w = 20));
    CU_ASSERT_EQUAL(differences(&a, &b, t.num_files, "twice"), 0);
    CU_ASSERT(b.job->results[0].why & HR_WHY_GEOMETRY);
    finish(&a);
    finish(&b);
}

static void test_reasons(void)
{
    static const struct {
        const char *part;
        unsigned why;
    } known[] = {
        {"progressive", HR_WHY_PROGRESSIVE},
        {"arithmetic", HR_WHY_ARITHMETIC},
        {"cmyk", HR_WHY_COLOR},
        {".png", HR_WHY_FORMAT},
    };
    const struct hr_op ops[] = {hr_op_decode(0),
                                hr_op_resize(.w = 20, .h = 20)};

    for (int k = 0; k < COUNT(known); k++) {
        int seen = 0;

        for (int i = 0; i < t.num_files; i++) {
            struct hr_sample s = {.path = t.files[i], .ops = ops, .num_ops = 2};
            struct run r;

            if (!strstr(t.files[i], "/kinds/") ||
                !strstr(t.files[i], known[k].part))
                continue;
            r = start(t.ocl, &s, 1,
                      hr_batch_params(.n = 1, .c = 3, .h = 20, .w = 20));
            hr_job_wait(r.job, HR_FOREVER);
            CU_ASSERT(r.job->results[0].why & known[k].why);
            // What is no JPEG has no chroma that could be laid out wrongly.
            CU_ASSERT(known[k].why != HR_WHY_FORMAT ||
                      r.job->results[0].why == HR_WHY_FORMAT);
            finish(&r);
            seen++;
        }
        CU_ASSERT(seen > 0);
    }
}

// ---- Pixels, batches, jobs ------------------------------------------------

static void test_images(void)
{
    const struct hr_op ops[] = {hr_op_crop(.x = 5, .y = 7, .w = 80, .h = 61),
                                hr_op_resize(.w = 50, .h = 70,
                                             .filter = HR_BICUBIC),
                                hr_op_flip(.horizontal = true), NORMALIZE};
    uint8_t pixels[3 * 97 * 101 + 64];
    struct run r[2];

    srand(31);
    for (size_t i = 0; i < sizeof(pixels); i++)
        pixels[i] = (uint8_t)rand();
    for (int layout = HR_NCHW; layout <= HR_NHWC; layout++) {
        for (int k = 0; k < 2; k++) {
            hr_device dev = k ? t.ocl : t.cpu;
            hr_image im = hr_image_create(
                dev, hr_image_params(.w = 97, .h = 101, .c = 3, .dtype = HR_U8,
                                     .layout = (enum hr_layout)layout,
                                     .data = pixels));
            struct hr_sample s = {.image = im, .ops = ops, .num_ops = 4};

            r[k] = start(dev, &s, 1,
                         hr_batch_params(.n = 1, .c = 3, .h = 70, .w = 50));
            hr_image_release(&im);
        }
        CU_ASSERT_EQUAL(differences(&r[0], &r[1], 1, "image"), 0);
        CU_ASSERT_EQUAL(count_spans(&r[1], 1, HR_RESAMPLE), 1);
        finish(&r[0]);
        finish(&r[1]);
    }
}

static int num_photos(void)
{
    int n = 0;

    while (n < t.num_files && strstr(t.files[n], "/photos/"))
        n++;
    return n;
}

// n samples over the photos, each with a crop of its own.
static void fill_samples(struct hr_sample *s, struct hr_op (*ops)[4], int n)
{
    for (int i = 0; i < n; i++) {
        ops[i][0] = hr_op_decode(0);
        ops[i][1] = hr_op_crop(.x = i % 50, .y = i % 31, .w = 100 + i % 90,
                               .h = 90 + i % 70);
        ops[i][2] = hr_op_resize(.w = SIDE, .h = SIDE);
        ops[i][3] = NORMALIZE;
        s[i] = (struct hr_sample){.path = t.files[i % num_photos()],
                                  .ops = ops[i],
                                  .num_ops = 4};
    }
}

enum { MOST = 256 };
static struct hr_sample many[MOST];
static struct hr_op many_ops[MOST][4];

static void test_batches(void)
{
    static const int sizes[] = {1, 16, 256};

    fill_samples(many, many_ops, MOST);
    for (int k = 0; k < COUNT(sizes); k++) {
        struct hr_batch_params p = {.n = sizes[k], .c = 3, .h = SIDE, .w = SIDE};
        struct ocl *o = private_of(t.ocl);
        uint64_t launches = o->launches, batches = o->batches;
        uint64_t transfers = o->transfers;
        struct run a = start(t.cpu, many, sizes[k], &p);
        struct run b = start(t.ocl, many, sizes[k], &p);

        CU_ASSERT_EQUAL(differences(&a, &b, sizes[k], "batch"), 0);
        CU_ASSERT_EQUAL(count_spans(&b, sizes[k], HR_RECONSTRUCT), sizes[k]);
        launches = o->launches - launches;
        batches = o->batches - batches;
        CU_ASSERT(launches <= 6 * batches);
        CU_ASSERT_EQUAL(o->transfers - transfers, 2 * batches);
        CU_ASSERT(batches <= (uint64_t)(sizes[k] + 63) / 64 + 2);
        printf("\n  %d samples: %d batches, %d launches; ", sizes[k],
               (int)batches, (int)launches);
        finish(&a);
        finish(&b);
    }
}

// ---- Variants of the kernels ----------------------------------------------

static hr_device open_variant(const char *name)
{
    hr_device dev;

    setenv("HEADRACE_OPENCL_VARIANT", name, 1);
    dev = hr_device_open("opencl", NULL);
    unsetenv("HEADRACE_OPENCL_VARIANT");
    return dev;
}

// Whatever the kernels are, the bytes are the same.
static void test_variants(void)
{
    static const char *const names[] = {"staged", "fused"};
    hr_device usual = t.ocl;

    for (int i = 0; i < COUNT(names); i++) {
        CU_ASSERT_PTR_NOT_NULL_FATAL(t.ocl = open_variant(names[i]));
        CU_ASSERT_PTR_NOT_NULL(strstr(t.ocl->description, names[i]));
        CU_ASSERT_TRUE(t.ocl->caps.exact && t.ocl->certificate.tested);
        test_types();
        test_geometries();
        test_batches();
        hr_device_close(&t.ocl);
    }
    t.ocl = usual;
    CU_ASSERT_PTR_NULL(open_variant("fastest"));
    CU_ASSERT_EQUAL(hr_last_status(), HR_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(hr_last_error(), "'fastest'"));
}

// The faster one is found once, and then known from disk.
static void test_timed(void)
{
    enum ocl_variant timed = OCL_UNKNOWN;

    for (int i = 0; i < 3; i++) {
        hr_device dev = open_variant("timed");
        struct ocl *o;

        CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
        o = private_of(dev);
        CU_ASSERT_EQUAL(o->timed_now, i == 0);
        CU_ASSERT(o->timed == OCL_STAGED || o->timed == OCL_FUSED);
        CU_ASSERT(i == 0 || (o->program_cached && o->timed == timed));
        CU_ASSERT_EQUAL(o->plan.fuse, o->timed == OCL_FUSED);
        CU_ASSERT_PTR_NOT_NULL(
            strstr(dev->description, ocl_variant_name(o->timed)));
        timed = o->timed;
        hr_device_close(&dev);
    }
    printf("\n  here it is %s; ", ocl_variant_name(timed));
}

static void test_two_jobs(void)
{
    struct hr_batch_params p = {.n = 100, .c = 3, .h = SIDE, .w = SIDE};
    struct run a[2], b[2];

    fill_samples(many, many_ops, MOST);
    for (int k = 0; k < 2; k++) {
        a[k] = start(t.ocl, many + 100 * k, 100, &p);
        b[k] = start(t.cpu, many + 100 * k, 100, &p);
    }
    for (int k = 0; k < 2; k++) {
        CU_ASSERT_EQUAL(differences(&b[k], &a[k], 100, "two jobs"), 0);
        finish(&a[k]);
        finish(&b[k]);
    }
}

// Caller's memory with gaps: rows are copied one by one, gaps stay.
static void test_strides(void)
{
    static uint8_t memory[2][2 * 3 * 50 * 256];
    struct run r[2];

    fill_samples(many, many_ops, 2);
    for (int i = 0; i < 2; i++)
        many_ops[i][2] = hr_op_resize(.w = 40, .h = 50);
    for (int k = 0; k < 2; k++) {
        memset(memory[k], 0xa5, sizeof(memory[k]));
        r[k] = start(k ? t.ocl : t.cpu, many, 2,
                     hr_batch_params(.n = 2, .c = 3, .h = 50, .w = 40,
                                     .data = memory[k], .stride_h = 256,
                                     .stride_c = 256 * 50,
                                     .stride_n = 3 * 256 * 50));
        CU_ASSERT_EQUAL(hr_job_wait(r[k].job, HR_FOREVER), HR_OK);
        finish(&r[k]);
    }
    CU_ASSERT_EQUAL(memcmp(memory[0], memory[1], sizeof(memory[0])), 0);
}

static void test_no_allocations(void)
{
    // Few enough that what the core keeps of files and records is enough.
    enum { N = 24 };
    struct hr_stats before, after;
    hr_batch batch = hr_batch_create(
        t.ocl, hr_batch_params(.n = N, .c = 3, .h = SIDE, .w = SIDE));

    fill_samples(many, many_ops, MOST);
    for (int i = 0; i < 12; i++) {
        hr_job job = hr_submit(t.ocl, many, N, batch, NULL);

        CU_ASSERT_EQUAL(hr_job_wait(job, HR_FOREVER), HR_OK);
        hr_job_release(&job);
        if (i == 7)
            hr_device_stats(t.ocl, &before);
    }
    hr_device_stats(t.ocl, &after);
    CU_ASSERT_EQUAL(after.heap_allocations, before.heap_allocations);
    hr_batch_destroy(&batch);
}

// ---- Drivers that fail ----------------------------------------------------

static _Atomic int failures;
static _Atomic cl_int failure;
static __typeof__(&clEnqueueNDRangeKernel) real_launch;

static cl_int CL_API_CALL failing_launch(cl_command_queue q, cl_kernel k,
                                         cl_uint dim, const size_t *offset,
                                         const size_t *global,
                                         const size_t *local, cl_uint n,
                                         const cl_event *events,
                                         cl_event *event)
{
    if (atomic_fetch_sub(&failures, 1) > 0)
        return failure;
    return real_launch(q, k, dim, offset, global, local, n, events, event);
}

static void run_faulty(hr_device dev, const struct run *want, int n,
                       unsigned why, bool on_device)
{
    struct hr_batch_params p = {.n = n, .c = 3, .h = SIDE, .w = SIDE};
    struct run r = start(dev, many, n, &p);

    CU_ASSERT_EQUAL(hr_job_wait(r.job, 60 * INT64_C(1000000000)), HR_OK);
    for (int i = 0; i < n; i++) {
        CU_ASSERT_EQUAL(
            memcmp(slot_of(&r, i), slot_of(want, i), stride_of(want)), 0);
        if (why)
            CU_ASSERT(r.job->results[i].why & why);
    }
    CU_ASSERT_EQUAL(count_spans(&r, n, HR_RECONSTRUCT), on_device ? n : 0);
    finish(&r);
}

static void test_failures(void)
{
    enum { N = 10 };
    hr_device dev = hr_device_open("opencl", NULL);
    struct hr_batch_params p = {.n = N, .c = 3, .h = SIDE, .w = SIDE};
    struct run want;
    struct ocl *o;

    CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
    o = private_of(dev);
    fill_samples(many, many_ops, N);
    want = start(t.cpu, many, N, &p);
    hr_job_wait(want.job, HR_FOREVER);
    run_faulty(dev, &want, N, 0, true);
    real_launch = o->api.clEnqueueNDRangeKernel;
    o->api.clEnqueueNDRangeKernel = failing_launch;
    // One batch fails in each of the ways, the CPU makes it; the next is
    // the device's again.
    failure = CL_OUT_OF_HOST_MEMORY;
    failures = 1;
    run_faulty(dev, &want, N, HR_WHY_FAILED | HR_WHY_MEMORY, false);
    run_faulty(dev, &want, N, 0, true);
    failure = CL_OUT_OF_RESOURCES;
    failures = 1;
    run_faulty(dev, &want, N, HR_WHY_LOST, false);
    run_faulty(dev, &want, N, 0, true);
    // It rests after three, and comes back by itself.
    failure = CL_INVALID_KERNEL_ARGS;
    failures = 3;
    for (int i = 0; i < 3; i++)
        run_faulty(dev, &want, N, HR_WHY_FAILED, false);
    run_faulty(dev, &want, N, HR_WHY_BREAKER, false);
    usleep(1100 * 1000);
    run_faulty(dev, &want, N, 0, true);
    finish(&want);
    hr_device_close(&dev);
}

static pthread_mutex_t hang = PTHREAD_MUTEX_INITIALIZER;

static cl_int CL_API_CALL hanging_launch(cl_command_queue q, cl_kernel k,
                                         cl_uint dim, const size_t *offset,
                                         const size_t *global,
                                         const size_t *local, cl_uint n,
                                         const cl_event *events,
                                         cl_event *event)
{
    pthread_mutex_lock(&hang);
    pthread_mutex_unlock(&hang);
    return real_launch(q, k, dim, offset, global, local, n, events, event);
}

static atomic_bool left_behind;

static void on_log(void *ctx, enum hr_log_level level, const char *text)
{
    (void)ctx;
    if (level == HR_LOG_ERROR && strstr(text, "left behind"))
        left_behind = true;
}

static void test_hang(void)
{
    enum { N = 10 };
    hr_device dev = hr_device_open(
        "opencl", hr_device_params(.deadline_ns = 300000000, .log = on_log));
    struct hr_batch_params p = {.n = N, .c = 3, .h = SIDE, .w = SIDE};
    struct run want;
    struct ocl *o;
    int64_t begin;

    CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
    o = private_of(dev);
    fill_samples(many, many_ops, N);
    want = start(t.cpu, many, N, &p);
    hr_job_wait(want.job, HR_FOREVER);
    real_launch = o->api.clEnqueueNDRangeKernel;
    o->api.clEnqueueNDRangeKernel = hanging_launch;
    pthread_mutex_lock(&hang);
    begin = hr__now();
    run_faulty(dev, &want, N, HR_WHY_TIMEOUT, false);
    CU_ASSERT(ms_since(begin) < 3000);
    // The thread is lost, and nothing is offered any more.
    usleep(200 * 1000);
    run_faulty(dev, &want, N, HR_WHY_LOST, false);
    finish(&want);
    begin = hr__now();
    hr_device_close(&dev);
    // The last job may still hold it for a moment.
    while (!left_behind && ms_since(begin) < 4000)
        usleep(10 * 1000);
    CU_ASSERT_TRUE(left_behind);
    printf("\n  closed in %.0f ms with a hung driver; ", ms_since(begin));
    // It comes back to memory that is its own.
    pthread_mutex_unlock(&hang);
    usleep(300 * 1000);
}

static void test_breaker(void)
{
    struct hr__breaker b = {0};
    const int64_t s = 1000000000;
    int let_in = 0;

    for (int i = 0; i < 2; i++)
        hr__breaker_note(&b, false, 0);
    CU_ASSERT_EQUAL(hr__breaker_ask(&b, OCL_BATCH, 0), 0);
    hr__breaker_note(&b, false, 0);
    CU_ASSERT_EQUAL(hr__breaker_ask(&b, OCL_BATCH, s - 1), HR_WHY_BREAKER);
    for (int i = 0; i < 1000; i++)
        let_in += !hr__breaker_ask(&b, OCL_BATCH, s);
    CU_ASSERT_EQUAL(let_in, OCL_BATCH);
    hr__breaker_note(&b, false, s);
    CU_ASSERT_EQUAL(hr__breaker_ask(&b, OCL_BATCH, 3 * s - 1), HR_WHY_BREAKER);
    CU_ASSERT_EQUAL(hr__breaker_ask(&b, OCL_BATCH, 3 * s), 0);
    for (int i = 0; i < 20; i++)
        hr__breaker_note(&b, false, 3 * s);
    CU_ASSERT_EQUAL(b.rest, 60 * s);
    hr__breaker_note(&b, true, 3 * s);
    CU_ASSERT_EQUAL(hr__breaker_ask(&b, OCL_BATCH, 3 * s), 0);
    CU_ASSERT_EQUAL(b.strikes, 0);
}

// ---- The suite ------------------------------------------------------------

static bool list_samples(const char *dir)
{
    char path[256];
    json_error_t error;
    json_t *list, *entry;
    size_t i;

    snprintf(path, sizeof(path), "%s/samples.json", dir);
    if (!(list = json_load_file(path, 0, &error)))
        return false;
    for (int photos = 1; photos >= 0; photos--)
        json_array_foreach(list, i, entry)
        {
            const char *name = json_string_value(
                json_object_get(entry, "path"));

            if (t.num_files == MAX_FILES ||
                (strncmp(name, "photos/", 7) == 0) != photos ||
                json_is_true(json_object_get(entry, "limit")))
                continue;
            snprintf(path, sizeof(path), "%s/%s", dir, name);
            t.files[t.num_files++] = strdup(path);
        }
    json_decref(list);
    return t.num_files > 100;
}

static bool set_up_folders(void)
{
    const char *tmp = getenv("TMPDIR");
    char path[128];
    int n = snprintf(t.root, sizeof(t.root), "%s/headrace-opencl-XXXXXX",
                     tmp && *tmp ? tmp : "/tmp");

    if (n >= (int)sizeof(t.root) || !mkdtemp(t.root))
        return false;
    snprintf(path, sizeof(path), "%s/cache", t.root);
    setenv("XDG_CACHE_HOME", path, 1);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/pocl", t.root);
    setenv("POCL_CACHE_DIR", path, 1);
    return !mkdir(path, 0700);
}

static int suite_init(void)
{
    char dir[128];
    const char *args[] = {"headrace samples", dir, "--seed", SEED,
                          "--count",          "8", NULL};

    snprintf(dir, sizeof(dir), "%s/samples", t.root);
    if (cmd_samples(6, (char **)(uintptr_t)args) != TOOLS_OK ||
        !list_samples(dir))
        return 1;
    t.cpu = hr_device_open("cpu", NULL);
    return !t.cpu;
}

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *place)
{
    (void)st;
    (void)type;
    (void)place;
    return remove(path);
}

static int suite_finish(void)
{
    hr_device_close(&t.ocl);
    hr_device_close(&t.cpu);
    for (int i = 0; i < t.num_files; i++)
        free(t.files[i]);
    return 0;
}

static const struct {
    const char *name;
    void (*run)(void);
} tests[] = {
    {"breaker", test_breaker},
    {"no library", test_no_library},
    {"names", test_names},
    {"wrong names", test_wrong_names},
    {"variable", test_variable},
    {"fork", test_fork},
    {"cache", test_cache},
    {"cache folder", test_cache_folder},
    {"short deadline", test_short_deadline},
    {"types", test_types},
    {"filters", test_filters},
    {"geometries", test_geometries},
    {"reasons", test_reasons},
    {"images", test_images},
    {"batches", test_batches},
    {"variants", test_variants},
    {"timed", test_timed},
    {"two jobs", test_two_jobs},
    {"strides", test_strides},
    {"no allocations", test_no_allocations},
    {"failures", test_failures},
    {"hang", test_hang},
};

int main(void)
{
    int64_t begin = hr__now();
    unsigned failed;
    CU_pSuite suite;

    printf("seed: %s\n", SEED);
    if (!set_up_folders())
        return 1;
    if (!(t.ocl = hr_device_open("opencl", NULL))) {
        bool absent = hr_last_status() == HR_ENODEVICE;

        printf("%s: %s\n", absent ? "not run" : "FAILED", hr_last_error());
        nftw(t.root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        return absent ? 77 : 1;
    }
    printf("%s: %s\nfirst open: %.0f ms\n", t.ocl->name, t.ocl->description,
           ms_since(begin));
    if (CU_initialize_registry() != CUE_SUCCESS)
        return 1;
    CU_basic_set_mode(CU_BRM_VERBOSE);
    suite = CU_add_suite("opencl", suite_init, suite_finish);
    for (int i = 0; suite && i < COUNT(tests); i++)
        CU_add_test(suite, tests[i].name, tests[i].run);
    CU_basic_run_tests();
    failed = CU_get_number_of_failures() + CU_get_number_of_suites_failed();
    CU_cleanup_registry();
    nftw(t.root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return failed || !suite ? 1 : 0;
}
