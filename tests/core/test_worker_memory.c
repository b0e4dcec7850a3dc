// SPDX-License-Identifier: Apache-2.0
// A worker's memory beside the tensors: all heap memory of the process,
// libjpeg's and libpng's too, counted at malloc itself while batches of photos
// of 500 x 375 are made. docs/performance.md states the bound.
#include "malloc_counts.h"

#define MIB ((long)1 << 20)

// MiB per worker, also of one that has 16 pictures in its lanes, each with what
// has been packed of it.
enum { MOST = 8 };
// The device's, not a worker's: a job's memory, which the second job needs anew
// where the worker has not given back the first one's yet.
#define JOB (MIB / 2)

// ---- Batches ----------------------------------------------------------------

enum { N = 32, SIDE = 224 };

static const struct hr_op ops[] = {
    HR_OP_DECODE(.mode = HR_RGB),
    HR_OP_CROP(.x = 20, .y = 10, .w = 460, .h = 350),
    HR_OP_RESIZE(.w = SIDE, .h = SIDE),
    HR_OP_FLIP(.horizontal = true),
    HR_OP_NORMALIZE(),
};
// With codes of stage augment, in place and apart: each lane holds a picture
// that waits for them.
static const struct hr_op codes[] = {
    HR_OP_DECODE(.mode = HR_RGB),
    HR_OP_RESIZE(.w = SIDE, .h = SIDE),
    {.type = HR_OP_ADJUST_CONTRAST, .adjust_contrast = {1.3}},
    {.type = HR_OP_ADJUST_SHARPNESS, .adjust_sharpness = {.4}},
    HR_OP_NORMALIZE(),
};
static const struct hr_op *list = ops;  // of five
static bool views;  // all samples are of one source, which is decoded once

// Waits until a closed device's last thread has given its memory back, lest it
// lower the next count.
static void settle(long before)
{
    for (int i = 0;
         i < 2000 && atomic_load(&malloc_counts.live) > before + MIB / 4; i++)
        test_sleep(TEST_MS);
}

// Bytes of the heap at the highest, less what was there before; the device's
// memory for samples on their way is in it.
static long needs(const struct bytes files[N], int threads, size_t cache_bytes)
{
    auto_heap float *to = malloc(sizeof(*to) * N * 3 * SIDE * SIDE);
    long before = atomic_load(&malloc_counts.live), most;
    hr_cache cache = cache_bytes ? hr_cache_create(cache_bytes) : NULL;
    hr_device dev = hr_device_open("cpu", hr_device_params(.threads = threads,
                                                           .cache = cache));
    hr_batch out = hr_batch_create(
        dev, hr_batch_params(.n = N, .c = 3, .h = SIDE, .w = SIDE, .data = to));
    struct hr_sample s[N];
    int wrong = 0;

    for (int i = 0; i < N; i++)
        s[i] = test_sample(&files[views ? 0 : i], list, 5);
    atomic_store(&malloc_counts.peak, before);
    for (int i = 0; i < test_loops(2); i++) {
        auto_job job = hr_submit(dev, s, N, out,
                                 hr_job_params(.wait_for_room = true));

        wrong += !job || hr_job_wait(job, HR_FOREVER) != HR_OK;
    }
    CHECK(!wrong, "%d jobs failed", wrong);
    hr_batch_destroy(&out);
    hr_device_close(&dev);
    hr_cache_release(&cache);
    most = atomic_load(&malloc_counts.peak) - before;
    settle(before);
    return most;
}

// Each sample has its own bytes, but for views.
static void one_kind(const char *name, const struct jpeg_spec *spec)
{
    struct bytes files[N];
    uint64_t seed = test_seed;

    for (int i = 0; i < N; i++) {
        seed = test_seed;
        files[i] = test_jpeg_of(spec, &seed);
    }

    for (int threads = 1; threads <= 4; threads += 3) {
        long plain = needs(files, threads, 0);
        // (A cache that is too small for it: the picture is packed each time.)
        long packing = needs(files, threads, 1);

        printf("  %s, %d threads: %.2f MiB a worker, %.2f when it packs\n",
               name, threads, (double)plain / MIB / threads,
               (double)packing / MIB / threads);
        CHECK(!MALLOC_COUNTS ||
                  (plain > 0 && plain <= threads * MOST * MIB + JOB),
              "%s: %ld bytes for %d workers", name, plain, threads);
        CHECK(!MALLOC_COUNTS ||
                  (packing > 0 && packing <= threads * MOST * MIB + JOB),
              "%s, packing: %ld bytes for %d workers", name, packing, threads);
    }
    for (int i = 0; i < N; i++)
        free(files[i].data);
}

TEST_CASE(photos)
{
    static const char *const lanes[] = {"never", "always", ""};

    if (!MALLOC_COUNTS)
        test_not_run("malloc is the sanitizer's");
    // (What a trial says depends on the machine; it takes memory, too.)
    for (int i = 0; i < 3; i++) {
        printf("  lanes %s\n", *lanes[i] ? lanes[i] : "as a trial says");
        setenv("HEADRACE_LANES", lanes[i], 1);
        one_kind("4:4:4", jpeg_ycc(.w = 500, .h = 375, .quality = 90));
        one_kind("4:2:0", jpeg_ycc(.w = 500, .h = 375, .factors = {0x22},
                                   .quality = 90));
        list = codes;
        one_kind("4:4:4, with codes",
                 jpeg_ycc(.w = 500, .h = 375, .quality = 90));
        list = ops;
    }
    unsetenv("HEADRACE_LANES");
    views = true;
    one_kind("views", jpeg_ycc(.w = 500, .h = 375, .quality = 90));
    list = codes;  // of the whole picture
    one_kind("large views", jpeg_ycc(.w = 1150, .h = 900, .quality = 90));
    list = ops;
    views = false;
    one_kind("progressive",
             jpeg_ycc(.w = 500, .h = 375, .quality = 90, .progressive = true));
}
