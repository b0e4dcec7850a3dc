// SPDX-License-Identifier: Apache-2.0
// Steady state: after a warm-up a job takes nothing from the heap, counted at
// malloc itself, so that libjpeg, libpng and libc are seen, too.
#include "malloc_counts.h"
#include "scene.h"

// ---- Jobs that repeat -----------------------------------------------------

enum { N = 8, W = 96, H = 96 };

static void one_job(hr_device dev, const struct hr_sample *s, hr_batch out)
{
    hr_job job = hr_submit(dev, s, N, out,
                           hr_job_params(.wait_for_room = true));

    CHECK(job && hr_job_wait(job, HR_FOREVER) == HR_OK, "%s",
          job ? job->results[0].message : hr_last_error());
    hr_job_release(&job);
    hr_wait_all(dev, HR_FOREVER);
}

// Allocations of 20 jobs.
// (CUnit allocates for each assertion, so none may run while we count.)
static long interval(hr_device dev, const struct hr_sample *s, hr_batch out,
                     int *wrong)
{
    long before = atomic_load(&malloc_counts.calls);

    for (int i = 0; i < test_loops(20); i++) {
        hr_job job = hr_submit(dev, s, N, out,
                               hr_job_params(.wait_for_room = true));

        *wrong += !job || hr_job_wait(job, HR_FOREVER) != HR_OK;
        hr_job_release(&job);
        hr_wait_all(dev, HR_FOREVER);
    }
    return atomic_load(&malloc_counts.calls) - before;
}

// The number of threads at the same buffer at once is chance, so the warm-up
// has no fixed length: it ends after three intervals in a row without an
// allocation. (After one, where allocations are not counted.)
static long steady(hr_device dev, const struct hr_sample *s, hr_batch out,
                   int *wrong)
{
    int clean = 0, enough = MALLOC_COUNTS ? 3 : 1;
    long n = 0;

    for (int i = 0; i < 25 && clean < enough; i++) {
        n = interval(dev, s, out, wrong);
        clean = n ? 0 : clean + 1;
    }
    return clean < enough ? n + 1 : 0;
}

// Two samples are views of the same bytes, the others have their own.
static void make_samples(struct hr_sample s[N], const struct hr_sample *one,
                         void *copies[N])
{
    for (int i = 0; i < N; i++) {
        s[i] = *one;
        copies[i] = one->data && i > 1 ? malloc(one->size) : NULL;
        if (copies[i])
            s[i].data = memcpy(copies[i], one->data, one->size);
    }
}

// cache: NULL, or the one that has the picture after the first job.
static void scenario(const char *name, int threads, const struct hr_sample *one,
                     hr_cache cache)
{
    auto_device dev = hr_device_open("cpu", hr_device_params(.threads = threads,
                                                             .strict = true,
                                                             .cache = cache));
    auto_batch out = hr_batch_create(
        dev, hr_batch_params(.n = N, .c = 3, .h = H, .w = W, .dtype = HR_F16));
    struct hr_stats before, after;
    struct hr_sample s[N];
    void *copies[N];
    int wrong = 0;
    long n;

    make_samples(s, one, copies);
    one_job(dev, s, out);
    hr_device_stats(dev, &before);
    n = steady(dev, s, out, &wrong);
    hr_device_stats(dev, &after);
    CHECK(wrong == 0, "%s: %d jobs failed", name, wrong);
    CHECK(n == 0 || !MALLOC_COUNTS,
          "%s, %d threads: %ld allocations in %d jobs", name, threads, n,
          test_loops(20));
    // The library's own count agrees that there were some at the start only.
    CHECK(after.heap_allocations >= before.heap_allocations &&
              before.heap_allocations > 0,
          "the library's count");
    for (int i = 0; i < N; i++)
        free(copies[i]);
}

static void cached(const char *name, const struct hr_sample *s)
{
    for (int threads = 1; threads <= 3; threads += 2) {
        auto_cache cache = hr_cache_create((size_t)16 << 20);
        struct hr_cache_stats stats;

        scenario(name, threads, s, cache);
        hr_cache_stats(cache, &stats);
        CHECK(stats.hits > N && stats.kept == 1, "%s: %d hits, %d kept", name,
              (int)stats.hits, (int)stats.kept);
    }
}

TEST_CASE(no_allocations)
{
    static const struct hr_op ops[] = {
        {.type = HR_OP_DECODE},
        {.type = HR_OP_CROP, .crop = {.x = 10, .y = 7, .w = 300, .h = 200}},
        {.type = HR_OP_RESIZE, .resize = {.w = W, .h = H}},
        {.type = HR_OP_FLIP, .flip = {.horizontal = true}},
        {.type = HR_OP_NORMALIZE},
    };
    static const struct hr_op codes[] = {
        {.type = HR_OP_DECODE},
        {.type = HR_OP_RESIZE, .resize = {.w = W, .h = H}},
        {.type = HR_OP_ADJUST_CONTRAST, .adjust_contrast = {1.3}},
        {.type = HR_OP_GAUSSIAN_BLUR, .gaussian_blur = {{9, 9}}},
        {.type = HR_OP_NORMALIZE},
    };
    uint64_t seed = test_seed;
    struct bytes files[] = {
        test_jpeg(400, 300, &seed),
        test_jpeg_of(jpeg_ycc(.w = 400, .h = 300, .factors = {0x22},
                              .quality = 80, .progressive = true),
                     &seed),
        test_png(400, 300, &seed)};
    static const char *const names[] = {"baseline", "progressive", "PNG"};

    if (!MALLOC_COUNTS)
        test_not_run("malloc is the sanitizer's");
    else
        CHECK(atomic_load(&malloc_counts.calls) > 0, "malloc is not counted");
    for (int i = 0; i < 3; i++) {
        struct hr_sample s = test_sample(&files[i], ops, 5);

        scenario(names[i], 1, &s, NULL);
        scenario(names[i], 3, &s, NULL);
        s.ops = codes;
        scenario(names[i], 2, &s, NULL);
        s.ops = ops;
        if (i < 2)  // PNG is not kept
            cached(names[i], &s);
        s.data = NULL;
        s.size = 0;
        s.path = test_file(&files[i], i == 2 ? ".png" : ".jpg");
        scenario(names[i], 2, &s, NULL);
        free(files[i].data);
    }
}
