// SPDX-License-Identifier: Apache-2.0
// What the device packs for caches: byte for byte what the CPU packs, or not
// there; whatever happens to samples, devices and caches meanwhile.
// HEADRACE_TEST_LONG=1: the corpus, too.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/opencl/keep.h"
#include "corpus_list.h"
#include "hal/cache/store.h"
#include "opencl_env.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof(*(a))))
#define KEEP "HEADRACE_OPENCL_KEEP"

// The first FEW of the files: photos, and kinds that not every engine takes.
enum { SIDE = OPENCL_SIDE, FEW = 48, PART = 200 };

static hr_device open_device(const char *rate)
{
    hr_device dev;

    if (rate)
        setenv(KEEP, rate, 1);
    dev = hr_device_open(env.ocl->name,
                         hr_device_params(.deadline_ns = OPENCL_PATIENCE,
                                          .entropy = HR_WHERE_DEVICE));
    unsetenv(KEEP);
    return dev;
}

// Until nothing is on its way to a cache.
static void settle(hr_device dev)
{
    struct ocl *o = opencl_private(dev);
    bool idle = false;

    for (int64_t begin = hr__now();
         !idle && hr__now() - begin < OPENCL_PATIENCE;) {
        pthread_mutex_lock(&o->guard.lock);
        idle = ocl_keep_idle(o);
        pthread_mutex_unlock(&o->guard.lock);
        if (!idle)
            test_sleep(TEST_MS);
    }
    CU_ASSERT(idle);
}

// CPU time that the thread has taken which checks and keeps, us.
static double keeper_time(hr_device dev)
{
    const struct ocl_keeps *keeps = opencl_private(dev)->keeps;
    struct timespec t;
    clockid_t clock;

    if (!keeps->started || pthread_getcpuclockid(keeps->keeper, &clock) ||
        clock_gettime(clock, &t))
        return 0;
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static int refs_of(hr_cache cache)
{
    return atomic_load(&((struct hr__cache *)cache)->refs);
}

// Nobody else holds it, now that the device is closed: its last job may hold
// that for a moment longer.
static void check_free(hr_cache cache)
{
    int64_t begin = hr__now();

    while (refs_of(cache) > 1 && hr__now() - begin < OPENCL_PATIENCE)
        test_sleep(TEST_MS);
    CU_ASSERT_EQUAL(refs_of(cache), 1);
}

static struct hr_cache_stats stats_of(hr_cache cache)
{
    struct hr_cache_stats stats;

    hr_cache_stats(cache, &stats);
    return stats;
}

// ---- Pictures in memory -----------------------------------------------------

struct files {
    int n;
    struct bytes bytes[OPENCL_FILES];
    struct hr_sample samples[OPENCL_FILES];
    struct hr_op ops[OPENCL_FILES][4];
};

static const char *name_of(int i)
{
    return env.files[i % env.num_files];
}

// More than there are: those again, each time as another picture.
static void read_again(struct bytes *b, int i)
{
    const int32_t end[2] = {0, i};  // after the end of the image

    b->data = realloc(b->data, b->size + sizeof(end));
    CU_ASSERT_PTR_NOT_NULL_FATAL(b->data);
    memcpy(b->data + b->size, end, sizeof(end));
    b->size += sizeof(end);
}

static void read_files(struct files *f, int n, hr_cache cache)
{
    struct hr_sample by_path[OPENCL_FILES];

    opencl_fill(by_path, f->ops, OPENCL_FILES);
    f->n = n;
    for (int i = 0; i < n; i++) {
        CU_ASSERT_FATAL(read_file(name_of(i), &f->bytes[i]));
        if (i >= env.num_files)
            read_again(&f->bytes[i], i);
        f->samples[i] = (struct hr_sample){.data = f->bytes[i].data,
                                           .size = f->bytes[i].size,
                                           .ops = f->ops[i],
                                           .num_ops = 4,
                                           .cache = cache};
        // (Not all are large enough for the windows of photos.)
        f->ops[i][1] = hr_op_crop(.x = i % 5, .y = i % 3, .w = 20 + i % 40,
                                  .h = 16 + i % 30, .pad = true);
    }
}

static void free_files(struct files *f)
{
    for (int i = 0; i < f->n; i++)
        free(f->bytes[i].data);
}

static struct hr_batch_params shape(int n)
{
    return *hr_batch_params(.n = n, .c = 3, .h = SIDE, .w = SIDE,
                            .dtype = HR_U8);
}

// The same on dev and on the CPU without a cache; how many the device made from
// their first bit on.
static int compare(hr_device dev, const struct files *f, const char *what)
{
    const struct hr_batch_params params = shape(f->n);
    struct hr_sample plain[OPENCL_FILES];
    struct opencl_run a, b;
    int all;

    memcpy(plain, f->samples, sizeof(plain));
    for (int i = 0; i < f->n; i++)
        plain[i].cache = NULL;
    a = opencl_start(env.cpu, plain, f->n, &params);
    b = opencl_start(dev, f->samples, f->n, &params);
    CHECK(!opencl_differences(&a, &b, f->n, what), "%s", what);
    all = opencl_count_spans(&b, f->n, HR_ENTROPY);
    opencl_finish(&a);
    opencl_finish(&b);
    return all;
}

// Every picture that can be kept is, with the bytes of hr_pack(); nothing else
// is. must: that all are there. Returns how many.
static int check_bytes(hr_cache cache, const struct files *f, bool must)
{
    int there = 0;

    for (int i = 0; i < f->n; i++) {
        struct hr__cache_entry *entry;
        struct hr__cache_key key;
        size_t size = 0;
        void *packed = NULL;
        bool ok = hr_pack(f->bytes[i].data, f->bytes[i].size, NULL, &packed,
                          &size) == HR_OK;

        hr__cache_key_data((struct hr__cache *)cache, &key, f->bytes[i].data,
                           f->bytes[i].size);
        entry = hr__cache_find((struct hr__cache *)cache, &key);
        CHECK(!entry || (ok && entry->size == size &&
                         !memcmp(entry->data, packed, size)),
              "%s: %zu bytes, not the %zu of the CPU", name_of(i),
              entry ? entry->size : 0, size);
        CHECK(!must || !entry == !ok, "%s: %s", name_of(i),
              entry ? "is there" : "is not there");
        there += entry != NULL;
        hr__cache_drop(entry);
        hr_packed_free(packed);
    }
    return there;
}

// ---- The same bytes ---------------------------------------------------------

static bool is_jpeg(const char *path)
{
    const char *end = strrchr(path, '.');

    return end && (!strcasecmp(end, ".jpg") || !strcasecmp(end, ".jpeg"));
}

// Files of any size that the windows fit, padded or not; n: of them.
static int check_files(int n, double *keeper_us)
{
    static struct files f;
    hr_device dev = open_device("100000");
    hr_cache cache = hr_cache_create((size_t)256 << 20);
    struct hr_cache_stats stats;
    struct hr_stats of_device;
    int made;

    CU_ASSERT_FATAL(dev && cache);
    read_files(&f, n, cache);
    made = compare(dev, &f, "first");
    settle(dev);
    stats = stats_of(cache);
    CHECK((int)stats.by_device <= made && stats.by_device <= stats.kept,
          "%d kept by the device, %d in all, it made %d", (int)stats.by_device,
          (int)stats.kept, made);
    CU_ASSERT_EQUAL(check_bytes(cache, &f, true), (int)stats.pictures);
    // From now on nobody decodes.
    CHECK(!compare(dev, &f, "second"), "a scan was decoded");
    CHECK(!compare(env.cpu, &f, "on the CPU"), "made by the device?");
    CU_ASSERT_EQUAL(stats_of(cache).hits, 2 * stats.pictures);
    CU_ASSERT_EQUAL(stats_of(cache).by_device, stats.by_device);
    hr_set_cache(cache);
    hr_device_stats(dev, &of_device);
    hr_set_cache(NULL);
    *keeper_us += keeper_time(dev);
    CU_ASSERT_EQUAL(of_device.cache_by_device, stats.by_device);
    hr_device_close(&dev);
    check_free(cache);
    hr_cache_release(&cache);
    free_files(&f);
    return (int)stats.by_device;
}

static void same_bytes(void)
{
    double us = 0;
    int by_device = check_files(env.num_files, &us);

    CHECK(by_device > 40, "%d packed by the device", by_device);
}

// As many photos as go to the device at a time: of each one what it has packed.
static void many(void)
{
    const int all = env.num_files;
    double us = 0;
    int n = 0, by_device;

    while (n < all && strstr(env.files[n], "/photos/"))
        n++;
    env.num_files = n;
    by_device = check_files(OCL_BATCH, &us);
    CHECK(by_device == OCL_BATCH, "%d of %d packed by the device", by_device,
          OCL_BATCH);
    env.num_files = all;
}

// The same of the corpus, in parts.
static void corpus(void)
{
    struct corpus_entry e;
    bool more = true;
    int all = 0, by_device = 0;
    double us = 0;

    if (!getenv("HEADRACE_TEST_LONG")) {
        test_not_run("the corpus: HEADRACE_TEST_LONG is not set");
        return;
    }
    if (!corpus_open())
        return;
    for (int i = 0; i < env.num_files; i++)
        free(env.files[i]);
    while (more) {
        for (env.num_files = 0; env.num_files < PART && more;)
            if ((more = corpus_next(&e)) && is_jpeg(e.path))
                env.files[env.num_files++] = strdup(e.path);
        all += env.num_files;
        by_device += env.num_files ? check_files(env.num_files, &us) : 0;
        for (int i = 0; i < env.num_files; i++)
            free(env.files[i]);
    }
    env.num_files = 0;
    corpus_close();
    CHECK(by_device > all / 2, "%d of %d packed by the device", by_device, all);
    printf("\n  %d files, %d packed by the device, %.1f us of the keeper each ",
           all, by_device, us / by_device);
}

// Files by their names; later epochs allocate nothing.
static void epochs(void)
{
    static struct hr_op ops[FEW][4];
    struct hr_sample s[FEW];
    const struct hr_batch_params params = shape(FEW);
    hr_device dev = open_device(NULL);
    hr_cache cache = hr_cache_create((size_t)64 << 20);
    hr_batch batch = hr_batch_create(dev, &params);
    enum { EPOCHS = 6, MOST = 30 };
    uint64_t heap[MOST];
    int from_bits[MOST], e = 0;

    CU_ASSERT_FATAL(dev && cache && batch);
    opencl_fill(s, ops, FEW);
    for (int i = 0; i < FEW; i++)
        s[i].cache = cache;
    test_sleep(110 * TEST_MS);  // files just made are not kept
    // (Where others have the processor more batches may be on their way at a
    // time than were before.)
    for (; e < EPOCHS || (e < MOST && heap[e - 1] != heap[e - 3]); e++) {
        struct opencl_run run = {.batch = batch};
        struct hr_stats stats;

        run.job = hr_submit(dev, s, FEW, batch, NULL);
        CU_ASSERT(run.job && !hr_job_wait(run.job, HR_FOREVER));
        from_bits[e] = opencl_count_spans(&run, FEW, HR_ENTROPY);
        hr_job_release(&run.job);
        settle(dev);
        hr_device_stats(dev, &stats);
        heap[e] = stats.heap_allocations;
    }
    CU_ASSERT(from_bits[0] > 0 && !from_bits[1]);
    CU_ASSERT_EQUAL(stats_of(cache).by_device, stats_of(cache).pictures);
    // (Of each photo there are several samples.)
    CHECK((int)stats_of(cache).hits >= (e - 1) * FEW &&
              stats_of(cache).misses <= FEW,
          "%d hits", (int)stats_of(cache).hits);
    CHECK(heap[e - 1] == heap[e - 3], "%d allocations with a warm cache",
          (int)(heap[e - 1] - heap[e - 3]));
    hr_batch_destroy(&batch);
    hr_device_close(&dev);
    hr_cache_release(&cache);
}

// ---- Not all of them --------------------------------------------------------

static void rates(void)
{
    static struct files f;
    hr_cache cache = hr_cache_create((size_t)64 << 20);
    hr_device dev;
    int made;

    CU_ASSERT_PTR_NOT_NULL_FATAL(cache);
    CU_ASSERT_PTR_NULL(open_device("many"));
    CU_ASSERT_EQUAL(hr_last_status(), HR_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(hr_last_error(), "'many'"));
    CU_ASSERT_PTR_NULL(open_device("-1"));
    // Nothing may cross the bus: the host packs.
    CU_ASSERT_PTR_NOT_NULL_FATAL(dev = open_device("0"));
    read_files(&f, FEW, cache);
    CU_ASSERT_EQUAL(compare(dev, &f, "by the host"), 0);
    CU_ASSERT_EQUAL(stats_of(cache).by_device, 0);
    CU_ASSERT(check_bytes(cache, &f, true) > FEW / 2);
    hr_device_close(&dev);
    hr_cache_release(&cache);
    // A little: some are kept, all are made by the device.
    cache = hr_cache_create((size_t)64 << 20);
    CU_ASSERT_PTR_NOT_NULL_FATAL(dev = open_device("1"));
    opencl_private(dev)->keeps->rate = 1000;
    for (int i = 0; i < FEW; i++)
        f.samples[i].cache = cache;
    made = compare(dev, &f, "with a limit");
    settle(dev);
    CHECK(stats_of(cache).by_device > 0 &&
              (int)stats_of(cache).by_device < made,
          "%d kept of %d", (int)stats_of(cache).by_device, made);
    check_bytes(cache, &f, false);
    hr_device_close(&dev);
    check_free(cache);
    hr_cache_release(&cache);
    free_files(&f);
}

// A cache that holds a few, one that holds none, and one picture many times.
static void evictions(void)
{
    static struct files f;
    hr_device dev = open_device(NULL);
    hr_cache few = hr_cache_create(100000), none = hr_cache_create(1000);
    hr_cache one = hr_cache_create(1 << 20);
    const size_t most = 100000;

    CU_ASSERT_FATAL(dev && few && none && one);
    read_files(&f, FEW, few);
    // A busy machine keeps some of them only in a later round.
    for (int i = 0; i < 20 && !stats_of(few).evictions; i++) {
        compare(dev, &f, "few");
        settle(dev);
    }
    CHECK(stats_of(few).evictions > 0 && stats_of(few).bytes <= most,
          "%d made room, %zu bytes", (int)stats_of(few).evictions,
          stats_of(few).bytes);
    CU_ASSERT_EQUAL(check_bytes(few, &f, false), (int)stats_of(few).pictures);
    for (int i = 0; i < FEW; i++)
        f.samples[i].cache = none;
    compare(dev, &f, "none");
    settle(dev);
    CU_ASSERT_EQUAL(stats_of(none).kept, 0);
    for (int i = 0; i < FEW; i++) {
        f.samples[i].data = f.bytes[0].data;
        f.samples[i].size = f.bytes[0].size;
        f.samples[i].cache = one;
    }
    compare(dev, &f, "one");
    settle(dev);
    CU_ASSERT_EQUAL(stats_of(one).pictures, 1);
    CU_ASSERT_EQUAL(stats_of(one).kept, 1);
    hr_device_close(&dev);
    check_free(few);
    check_free(none);
    check_free(one);
    hr_cache_release(&few);
    hr_cache_release(&none);
    hr_cache_release(&one);
    free_files(&f);
}

// ---- What is odd ------------------------------------------------------------

static void damage(void)
{
    static struct files f;
    hr_device dev = open_device(NULL);
    hr_cache cache = hr_cache_create((size_t)64 << 20);
    uint64_t seed = test_seed;

    CU_ASSERT_FATAL(dev && cache);
    read_files(&f, FEW, cache);
    for (int i = 0; i < FEW; i++) {
        struct bytes *b = &f.bytes[i];
        size_t at = b->size - 3 - next_random(&seed) % (b->size / 2);

        b->data[at] ^= (uint8_t)(1 + next_random(&seed) % 255);
        if (i % 3 == 0)
            b->data[b->size - 12] = 0xff;
    }
    compare(dev, &f, "damaged");
    settle(dev);
    CHECK(stats_of(cache).kept < FEW, "all are kept");
    check_bytes(cache, &f, true);
    hr_device_close(&dev);
    check_free(cache);
    hr_cache_release(&cache);
    free_files(&f);
}

// ---- Ends -------------------------------------------------------------------

// What a job has left on its way arrives, also if its device is closed at once,
// or the job is cancelled; and the cache may be gone by then.
static void closing(void)
{
    static struct files f;
    const struct hr_batch_params params = shape(FEW);

    for (int how = 0; how < 3; how++) {
        hr_device dev = open_device(NULL);
        hr_cache cache = hr_cache_create((size_t)64 << 20);
        struct opencl_run run;
        int64_t begin;
        bool slow;

        CU_ASSERT_FATAL(dev && cache);
        read_files(&f, FEW, cache);
        run = opencl_start(dev, f.samples, FEW, &params);
        if (how == 1)
            hr_job_cancel(run.job);
        CU_ASSERT(!hr_job_wait(run.job, HR_FOREVER) || how == 1);
        opencl_finish(&run);
        if (how == 2)
            hr_cache_release(&cache);
        begin = hr__now();
        hr_device_close(&dev);
        if (cache)
            check_free(cache);
        // (It waits 1.5 s.)
        slow = hr__now() - begin > 1000 * TEST_MS;
        if (how == 0 && !slow)
            CU_ASSERT(stats_of(cache).by_device > FEW / 4);
        if (how < 2)
            check_bytes(cache, &f, how == 0 && !slow);
        hr_cache_release(&cache);
        free_files(&f);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        TEST_CASE(same_bytes), TEST_CASE(many),      TEST_CASE(epochs),
        TEST_CASE(rates),      TEST_CASE(evictions), TEST_CASE(damage),
        TEST_CASE(closing),    TEST_CASE(corpus),
    };

    return opencl_main("opencl_keep", cases, COUNT(cases), argc, argv);
}
