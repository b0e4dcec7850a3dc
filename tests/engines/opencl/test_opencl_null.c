// SPDX-License-Identifier: Apache-2.0
// The null device, which bench_host.py measures the host with: that it is one.
// The engine believes it, from files and from pixels, to all kinds of memory;
// nothing is left to the CPU; and what it counts is so. And how the engine
// makes batches when a device falls behind, and what memory they take.
#include <dlfcn.h>

#include "null_opencl.h"
#include "opencl_private.h"
#include "testing.h"

enum { N = 130, SIDE = 40, ROUNDS = 3, MANY = 600 };

static struct {
    void (*counts)(struct null_counts *out);
    void (*refuse)(const char *kernel);
    void (*hold)(bool on);
    struct bytes picture;
    struct bytes own[MANY];  // copies of it, sources of their own
} env;

static struct null_counts counts_now(void)
{
    struct null_counts c;

    env.counts(&c);
    return c;
}

// A busy machine with a sanitizer may stop for longer than the default
// deadline.
#define LONG_DEADLINE .deadline_ns = 600000 * TEST_MS

static hr_device open_null(enum hr_where entropy)
{
    hr_device dev = hr_device_open(
        "opencl",
        hr_device_params(.entropy = entropy, .strict = true, LONG_DEADLINE));

    CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
    return dev;
}

static void run(hr_device dev, enum hr_memory memory)
{
    const struct hr_op ops[] = {hr_op_decode(0),
                                hr_op_resize(.w = SIDE, .h = SIDE)};
    auto_batch batch =
        hr_batch_create(dev, hr_batch_params(.n = N, .c = 3, .h = SIDE,
                                             .w = SIDE, .memory = memory));
    struct hr_sample s[N];
    auto_job job = NULL;

    CU_ASSERT_PTR_NOT_NULL_FATAL(batch);
    for (int i = 0; i < N; i++)
        s[i] = test_sample(&env.own[i], ops, 2);
    job = hr_submit(dev, s, N, batch, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    CU_ASSERT_EQUAL(hr_job_wait(job, HR_FOREVER), HR_OK);
    for (int i = 0; i < N; i++)
        CHECK(!job->results[i].fallbacks, "%d: %x", i, job->results[i].why);
}

TEST_CASE(runs)
{
    for (int entropy = 0; entropy < 2; entropy++) {
        auto_device dev = open_null(entropy ? HR_WHERE_DEVICE : HR_WHERE_HOST);
        struct null_counts a = counts_now(), b;

        for (int i = 0; i < 3 * ROUNDS; i++)
            run(dev, (enum hr_memory)(i % 3));
        b = counts_now();
        CHECK(b.batches - a.batches >= 3 * ROUNDS, "%d batches",
              (int)(b.batches - a.batches));
        CHECK(b.launches - a.launches >= 4 * (b.batches - a.batches),
              "%d launches", (int)(b.launches - a.launches));
        CHECK(b.up_bytes - a.up_bytes > 9 * N * 100, "%d bytes up",
              (int)(b.up_bytes - a.up_bytes));
        // Two thirds of the tensors come back.
        CHECK(b.down_bytes - a.down_bytes >=
                  2 * ROUNDS * N * 3 * SIDE * SIDE * sizeof(float),
              "%d bytes down", (int)(b.down_bytes - a.down_bytes));
        CU_ASSERT(b.plan_ns > a.plan_ns && b.pack_ns > a.pack_ns &&
                  b.enqueue_ns > a.enqueue_ns && b.callback_ns > a.callback_ns);
    }
}

// ---- A device that falls behind ---------------------------------------------

// Batches that the device is not done with, as many as the engine sends.
struct held {
    hr_batch batches[OCL_BATCHES];
    hr_job jobs[OCL_BATCHES];
};

static int in_state(struct ocl *o, enum ocl_batch_state state)
{
    int n = 0;

    pthread_mutex_lock(&o->guard.lock);
    for (int i = 0; i < OCL_BATCHES; i++)
        n += o->batch[i].state == state;
    pthread_mutex_unlock(&o->guard.lock);
    return n;
}

static int in_queue(struct ocl *o)
{
    int n = 0;

    pthread_mutex_lock(&o->guard.lock);
    for (const struct hr__task *t = o->guard.head; t; t = t->next)
        n++;
    pthread_mutex_unlock(&o->guard.lock);
    return n;
}

// Until let_go(), all that comes waits in the queue. (The first batch of that
// size makes the engine's buffers as large as a full one wants them.)
static struct held hold(hr_device dev)
{
    const struct hr_op ops[] = {hr_op_decode(0),
                                hr_op_resize(.w = SIDE, .h = SIDE)};
    struct hr_sample s[OCL_BATCH_LEAST];
    struct ocl *o = opencl_private(dev);
    struct held held;

    for (int i = 0; i < COUNT(s); i++)
        s[i] = test_sample(&env.own[i], ops, 2);
    // A batch keeps memory a moment longer than its job.
    while (in_state(o, OCL_FREE) < OCL_BATCHES)
        test_sleep(TEST_MS);
    env.hold(true);
    for (int i = 0; i < OCL_BATCHES; i++) {
        held.batches[i] = hr_batch_create(
            dev, hr_batch_params(.n = COUNT(s), .c = 3, .h = SIDE, .w = SIDE));
        held.jobs[i] = hr_submit(dev, s, COUNT(s), held.batches[i], NULL);
        CU_ASSERT_PTR_NOT_NULL_FATAL(held.jobs[i]);
        while (in_state(o, OCL_SENT) <= i)
            test_sleep(TEST_MS);
    }
    return held;
}

static void let_go(struct held *held)
{
    env.hold(false);
    for (int i = 0; i < OCL_BATCHES; i++) {
        CU_ASSERT_EQUAL(hr_job_wait(held->jobs[i], HR_FOREVER), HR_OK);
        hr_job_release(&held->jobs[i]);
        hr_batch_destroy(&held->batches[i]);
    }
}

// On a device that is held: all of the job waits in the queue.
static hr_job submit_late(hr_device dev, const struct hr_sample *s, int n,
                          hr_batch batch)
{
    hr_job job = hr_submit(dev, s, n, batch, NULL);

    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    while (in_queue(opencl_private(dev)) < n)
        test_sleep(TEST_MS);
    return job;
}

// ---- Launches ---------------------------------------------------------------

enum { LARGEST = 256, LISTS = 5 };

#define SMALL "decode,resize=40x40"
static const char *const lists[LISTS] = {
    SMALL, SMALL ",adjust_contrast=1.5",
    SMALL ",adjust_hue=0.1,equalize,gaussian_blur=1",
    SMALL ",erase=2,3,5,9:1,2,3",
    SMALL ",posterize=4,adjust_sharpness=2,autocontrast,erase=2,3,5,9:1,2,3"};
#undef SMALL

// A job of n pictures of two kinds, those of the other one views of one source,
// with all lists. Returns how many launches it takes, as one batch.
static int count_launches(hr_device dev, const struct bytes *other, int n)
{
    static struct hr_op ops[LISTS][HR_MAX_OPS];
    static struct hr_sample s[LARGEST];
    struct held held = hold(dev);
    struct null_counts a = counts_now(), b;
    auto_batch batch = hr_batch_create(
        dev, hr_batch_params(.n = n, .c = 3, .h = SIDE, .w = SIDE));
    auto_job job = NULL;
    int num[LISTS];

    for (int i = 0; i < LISTS; i++)
        CU_ASSERT_EQUAL_FATAL(hr_ops_parse(lists[i], ops[i], &num[i]), HR_OK);
    for (int i = 0; i < n; i++) {
        int list = LISTS - 1 - i % LISTS;

        s[i] = test_sample(i % 2 ? other : &env.own[i], ops[list], num[list]);
    }
    job = submit_late(dev, s, n, batch);
    let_go(&held);
    CU_ASSERT_EQUAL(hr_job_wait(job, HR_FOREVER), HR_OK);
    for (int i = 0; i < n; i++)
        CHECK(job->results[i].num_spans == 1 && !job->results[i].fallbacks,
              "%d: %x", i, job->results[i].why);
    b = counts_now();
    return (int)(b.launches - a.launches);
}

// From files to painted tensors a batch takes as many launches, whatever the
// lists of codes are and however many pictures there are. one: of a picture
// with codes that is painted on.
static void check_launches(const char *variant, int one, int most)
{
    static const int sizes[] = {1, 10, 64, LARGEST};
    uint64_t seed = 2;
    const struct jpeg_spec spec = {
        .w = 64, .h = 48, .space = JCS_YCbCr, .factors = {0x11}, .quality = 80};
    auto_bytes other = test_jpeg_of(&spec, &seed);
    hr_device dev;

    setenv("HEADRACE_OPENCL_VARIANT", variant, 1);
    dev = open_null(HR_WHERE_DEVICE);
    for (int k = 0; k < COUNT(sizes); k++) {
        int launches = count_launches(dev, &other, sizes[k]);

        CHECK(launches == (sizes[k] == 1 ? one : most), "%s, %d: %d", variant,
              sizes[k], launches);
    }
    hr_device_close(&dev);
}

TEST_CASE(launches)
{
    check_launches("staged", 11, 11);
    check_launches("gpu", 12, 13);
}

// ---- Batches ----------------------------------------------------------------

static hr_job submit_plain(hr_device dev, int n, hr_batch batch, bool views)
{
    static const struct hr_op ops[] = {hr_op_decode(0),
                                       hr_op_resize(.w = SIDE, .h = SIDE)};
    static struct hr_sample s[MANY];

    for (int i = 0; i < n; i++)
        s[i] = test_sample(&env.own[views ? 0 : i], ops, 2);
    return submit_late(dev, s, n, batch);
}

// Returns how many batches there were; *heap: and allocations.
static int run_late(hr_device dev, int n, hr_batch batch, int *heap)
{
    struct held held = hold(dev);
    struct ocl *o = opencl_private(dev);
    uint64_t before = atomic_load(&o->batches);
    struct hr_stats a, b;
    auto_job job = NULL;

    hr_device_stats(dev, &a);
    job = submit_plain(dev, n, batch, false);
    let_go(&held);
    CU_ASSERT_EQUAL(hr_job_wait(job, HR_FOREVER), HR_OK);
    for (int i = 0; i < n; i++)
        CHECK(!job->results[i].why && job->results[i].num_spans == 1, "%d: %x",
              i, job->results[i].why);
    hr_device_stats(dev, &b);
    *heap = (int)(b.heap_allocations - a.heap_allocations);
    return (int)(atomic_load(&o->batches) - before);
}

static size_t on_device(const struct ocl *o)
{
    size_t bytes = o->planes.size;

    for (int i = 0; i < OCL_BATCHES; i++)
        bytes += o->batch[i].in.size + o->batch[i].out.size;
    return bytes;
}

static hr_device open_budget(size_t budget, int most)
{
    hr_device dev = hr_device_open(
        "opencl", hr_device_params(.entropy = HR_WHERE_DEVICE, .strict = true,
                                   .budget = budget, LONG_DEADLINE));
    const struct ocl *o;

    CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
    o = opencl_private(dev);
    CHECK(o->most == most, "%d, not %d", o->most, most);
    CHECK(o->batch[2].up.size >= (size_t)most * 100000 &&
              o->batch[2].in.size >= (size_t)most * 100000,
          "%d reserved", (int)o->batch[2].up.size);
    CHECK(6 * o->buffer_bytes + o->work_bytes <= (size_t)most * (10 << 20),
          "%zu, %zu", o->buffer_bytes, o->work_bytes);
    return dev;
}

// (A budget lets in three batches; the device is held with some of it.)
static void check_batches(size_t budget, int most)
{
    const int n = 2 * most;
    auto_device dev = open_budget(budget, most);
    auto_batch batch = hr_batch_create(
        dev, hr_batch_params(.n = n, .c = 3, .h = SIDE, .w = SIDE));
    size_t bytes = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(batch);
    for (int i = 0; i < ROUNDS; i++) {
        int heap, batches = run_late(dev, n, batch, &heap);
        struct hr_stats now;

        hr_device_stats(dev, &now);
        CHECK(batches == 2, "%d batches, most %d", batches, most);
        CHECK(!i || (!heap && now.device_bytes == bytes),
              "%d allocations, %zu bytes, not %zu", heap, now.device_bytes,
              bytes);
        bytes = now.device_bytes;
    }
    CHECK(on_device(opencl_private(dev)) <= (size_t)most * (10 << 20),
          "%zu bytes for %d", on_device(opencl_private(dev)), most);
}

TEST_CASE(batches)
{
    hr_device dev = open_budget((size_t)4 << 20, 16);

    hr_device_close(&dev);
    check_batches(0, 256);
    check_batches((size_t)100 << 20, 100);
}

// ---- Files that are copied ahead --------------------------------------------

static int holders(struct ocl *o)
{
    int n = 0;

    pthread_mutex_lock(&o->pinned.lock);
    for (int i = 0; i < OCL_CHUNKS; i++)
        n += o->pinned.chunks[i].holders;
    pthread_mutex_unlock(&o->pinned.lock);
    return n;
}

// The memory of the last batch is released a moment after its job has ended.
static void check_let_go(struct ocl *o, int left)
{
    int64_t begin = hr__now();

    while (holders(o) != left && hr__now() - begin < 20000 * TEST_MS)
        test_sleep(TEST_MS);
    // (Without waiting as long again.)
    CU_ASSERT_EQUAL_FATAL(holders(o), left);
}

// How many of the tasks in the queue had their file copied.
static int copied_ahead(struct ocl *o)
{
    int n = 0;

    pthread_mutex_lock(&o->guard.lock);
    for (const struct hr__task *t = o->guard.head; t; t = t->next)
        n += t->ahead && ocl_pinned_has(&o->pinned, t->ahead->data);
    pthread_mutex_unlock(&o->guard.lock);
    return n;
}

static void check_ahead(hr_device dev, hr_batch batch, bool room, bool cancel,
                        bool views)
{
    struct held held = hold(dev);
    auto_job job = submit_plain(dev, MANY, batch, views);
    int n = copied_ahead(opencl_private(dev));

    CHECK(n == (views ? 1 : room ? MANY : 0), "%d were copied ahead", n);
    if (cancel)
        hr_job_cancel(job);
    let_go(&held);
    CU_ASSERT_EQUAL(hr_job_wait(job, HR_FOREVER),
                    cancel ? HR_ECANCELED : HR_OK);
    for (int i = 0; i < MANY && !cancel; i++)
        CHECK(!job->results[i].why && job->results[i].num_spans == 1, "%d: %x",
              i, job->results[i].why);
}

// A scan whose restart markers are out of order is not decoded, and keeps no
// memory; its views get the same reason.
static void run_odd(hr_device dev, hr_batch batch)
{
    const struct jpeg_spec spec = {
        .w = 64, .h = 48, .space = JCS_YCbCr, .factors = {0x22}, .restart = 2};
    const struct hr_op ops[] = {hr_op_decode(0),
                                hr_op_resize(.w = SIDE, .h = SIDE)};
    uint64_t seed = 1;
    auto_bytes odd = test_jpeg_of(&spec, &seed);
    size_t at = odd.size - 3;
    struct hr_sample s[3];
    auto_job job = NULL;

    while (odd.data[at] != 0xff || (odd.data[at + 1] & 0xf8) != 0xd0)
        at--;
    odd.data[at + 1] ^= 1;
    for (int i = 0; i < COUNT(s); i++)
        s[i] = test_sample(&odd, ops, 2);
    job = hr_submit(dev, s, COUNT(s), batch, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    hr_job_wait(job, HR_FOREVER);
    for (int i = 0; i < COUNT(s); i++)
        CHECK(job->results[i].status == HR_EDEVICE &&
                  job->results[i].why == HR_WHY_DAMAGED,
              "%d: status %d, why %x", i, job->results[i].status,
              job->results[i].why);
}

enum { TAKEN = 64 * OCL_CHUNKS };

// All pinned memory that there is, in large and in small pieces.
static int take_all(struct ocl_pinned *p, void **all, int most)
{
    int n = 0;

    for (size_t size = OCL_CHUNK_BYTES / 2; size >= 512; size /= 2)
        while (n < most && (all[n] = ocl_pinned_alloc(p, size)))
            n++;
    return n;
}

// The thread that prepares a file for the device copies it to pinned memory,
// and the driver thread only enqueues the transfer; without room the driver
// thread copies, too. No end of a task keeps the memory.
TEST_CASE(files_ahead)
{
    static void *all[TAKEN];
    auto_device dev = open_budget(0, 256);
    struct ocl *o = opencl_private(dev);
    auto_batch batch = hr_batch_create(
        dev, hr_batch_params(.n = MANY, .c = 3, .h = SIDE, .w = SIDE));
    int taken = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(batch);
    // The first batch finds that memory is wanted.
    run(dev, HR_MEMORY_HOST);
    check_ahead(dev, batch, true, false, false);
    check_let_go(o, 0);
    check_ahead(dev, batch, true, true, false);
    check_let_go(o, 0);
    // Only the first view of a source is copied.
    check_ahead(dev, batch, true, false, true);
    check_let_go(o, 0);
    run_odd(dev, batch);
    check_let_go(o, 0);
    // Other users hold all of it.
    for (int round = 0; round <= OCL_CHUNKS; round++) {
        taken += take_all(&o->pinned, all + taken, TAKEN - taken);
        run(dev, HR_MEMORY_HOST);
    }
    CHECK(taken >= OCL_CHUNKS && taken < TAKEN, "%d pieces", taken);
    check_ahead(dev, batch, false, false, false);
    check_let_go(o, taken);
    while (taken)
        CU_ASSERT(ocl_pinned_free(&o->pinned, all[--taken]));
    check_ahead(dev, batch, true, false, false);
    check_let_go(o, 0);
}

// ---- Where entropy coding is decoded ---------------------------------------

// A GPU with memory of its own decodes entropy coding, unless a variable or a
// parameter says otherwise. A driver without all kernels opens without stage
// entropy, unless it was asked for.
TEST_CASE(entropy)
{
    const uint32_t all = HR_SPAN_BIT(HR_ENTROPY, HR_STORE);
    hr_device dev;

    CU_ASSERT_PTR_NOT_NULL_FATAL(
        dev = hr_device_open("opencl", hr_device_params(LONG_DEADLINE)));
    CU_ASSERT(dev->caps.spans[HR_EXACT] & all);
    run(dev, HR_MEMORY_HOST);
    hr_device_close(&dev);
    env.refuse("hr_entropy_dc");
    CU_ASSERT_PTR_NOT_NULL_FATAL(
        dev = hr_device_open("opencl", hr_device_params(LONG_DEADLINE)));
    CU_ASSERT(!(dev->caps.spans[HR_EXACT] & all));
    run(dev, HR_MEMORY_HOST);
    hr_device_close(&dev);
    CU_ASSERT_PTR_NULL(
        hr_device_open("opencl", hr_device_params(.entropy = HR_WHERE_DEVICE)));
    env.refuse(NULL);
}

// ---- Room -------------------------------------------------------------------

static struct bytes large_picture(void)
{
    const struct jpeg_spec spec = {.w = 1200,
                                   .h = 900,
                                   .space = JCS_YCbCr,
                                   .factors = {0x11},
                                   .quality = 50};
    uint64_t seed = 1;

    return test_jpeg_of(&spec, &seed);
}

// How many of the sizes of the device's memory, from nothing to plenty, have
// the picture made from its bytes to the end. Whatever there is, it is known
// before: no batch finds that a picture is too large.
static int count_whole(hr_device dev, const struct bytes *large,
                       const char *text)
{
    struct ocl *o = opencl_private(dev);
    size_t plenty = o->work_bytes;
    auto_batch batch = hr_batch_create(
        dev, hr_batch_params(.n = 1, .c = 3, .h = SIDE, .w = SIDE));
    struct hr_op ops[HR_MAX_OPS];
    int num_ops, whole = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(batch);
    CU_ASSERT_EQUAL_FATAL(hr_ops_parse(text, ops, &num_ops), HR_OK);
    for (size_t room = 1 << 20; room < 48 << 20; room += 1 << 20) {
        struct hr_sample s = test_sample(large, ops, num_ops);
        const struct hr_result *r;
        auto_job job = NULL;

        o->work_bytes = room;
        job = hr_submit(dev, &s, 1, batch, NULL);
        CU_ASSERT_PTR_NOT_NULL_FATAL(job);
        CU_ASSERT_EQUAL(hr_job_wait(job, HR_FOREVER), HR_OK);
        r = &job->results[0];
        CHECK(!r->fallbacks, "%s: %zu bytes: %x", text, room, r->why);
        whole += r->num_spans == 1 && !strcmp(r->spans[0].device, dev->name);
    }
    o->work_bytes = plenty;
    return whole;
}

TEST_CASE(room)
{
    auto_device dev = hr_device_open(
        "opencl", hr_device_params(.entropy = HR_WHERE_DEVICE, LONG_DEADLINE));
    auto_bytes large = large_picture();
    int plain, codes;

    CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
    plain = count_whole(dev, &large, "decode,resize=40x40");
    codes = count_whole(dev, &large,
                        "decode,resize=1300x1000,rotate=30,"
                        "affine:matrix=4,0,0,0,4,0:w=40:h=40");
    CHECK(plain > codes && codes > 10, "%d, %d", plain, codes);
}

// ---- Views ------------------------------------------------------------------

// A job of these crops, 40 x 40 each, of the files. Returns how many samples
// were made of others' pixels; *whole: by the device alone; *up: bytes.
static int shared_of(hr_device dev, const struct bytes *files, int num_files,
                     const char *const crops[], int n, int *whole, uint64_t *up)
{
    struct null_counts a = counts_now(), b;
    struct hr_stats before, after;
    auto_batch batch = hr_batch_create(
        dev, hr_batch_params(.n = n, .c = 3, .h = SIDE, .w = SIDE));
    struct hr_op ops[8][HR_MAX_OPS];
    struct hr_sample s[8];
    auto_job job = NULL;

    for (int i = 0; i < n; i++) {
        int num_ops;

        CU_ASSERT_EQUAL_FATAL(hr_ops_parse(crops[i], ops[i], &num_ops), HR_OK);
        s[i] = test_sample(&files[i % num_files], ops[i], num_ops);
    }
    hr_device_stats(dev, &before);
    job = hr_submit(dev, s, n, batch, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    CU_ASSERT_EQUAL(hr_job_wait(job, HR_FOREVER), HR_OK);
    hr_device_stats(dev, &after);
    *whole = 0;
    for (int i = 0; i < n; i++) {
        const struct hr_result *r = &job->results[i];

        CHECK(!r->fallbacks, "%d: %x", i, r->why);
        *whole += r->num_spans == 1 && !strcmp(r->spans[0].device, dev->name);
    }
    b = counts_now();
    *up = b.up_bytes - a.up_bytes;
    return (int)(after.shared - before.shared);
}

#define CROP(x, y) "decode,crop=" #x "," #y ",40,40"
static const char *const crops[] = {
    CROP(0, 0),
    CROP(1160, 860),
    CROP(7, 3) ",transpose",
    CROP(600, 1),
    CROP(500, 700) ",transpose",
    CROP(0, 99),
    "decode,crop=30,20,60,40,resize=40x40:bilinear:vertical",
};
#undef CROP
enum { CROPS = sizeof(crops) / sizeof(crops[0]) };

// Samples of one source, turned ones, too, upload and decode it once. Where the
// device has not the room for what all of them show, each decodes for itself,
// and none is left to the CPU.
TEST_CASE(views)
{
    auto_device dev = hr_device_open(
        "opencl", hr_device_params(.entropy = HR_WHERE_DEVICE, LONG_DEADLINE));
    auto_bytes large = large_picture(), again = large_picture();
    const struct bytes files[2] = {large, again};
    int whole, alone = 0, together = 0, shared;
    uint64_t one, two, up;
    struct ocl *o;
    size_t plenty;

    CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
    shared = shared_of(dev, files, 1, crops, 1, &whole, &one);
    CHECK(!shared && whole == 1, "%d, %d", shared, whole);
    shared = shared_of(dev, files, 1, crops, CROPS, &whole, &up);
    CHECK(shared == CROPS - 1 && whole == CROPS, "%d, %d", shared, whole);
    CHECK(up < one + large.size / 4, "%d bytes, one view %d", (int)up,
          (int)one);
    shared = shared_of(dev, files, 2, crops, CROPS, &whole, &two);
    CHECK(shared == CROPS - 2 && whole == CROPS, "%d, %d", shared, whole);
    CHECK(two > up + large.size / 2, "%d bytes", (int)two);
    o = opencl_private(dev);
    plenty = o->work_bytes;
    for (o->work_bytes = 1 << 20; o->work_bytes < 48 << 20;
         o->work_bytes += 1 << 20) {
        shared = shared_of(dev, files, 1, crops, 2, &whole, &up);
        CHECK(!shared || whole == 2, "%d, %d", shared, whole);
        alone += !shared && whole == 2;
        together += shared;
    }
    o->work_bytes = plenty;
    CHECK(alone > 3 && together > 3, "%d alone, %d together", alone, together);
}

// Each has axes of its own, of some 300 KB, and a batch has not the room for
// those of all.
TEST_CASE(views_with_large_axes)
{
    enum { TALL = 9000, VIEWS = 8 };
    auto_device dev = hr_device_open(
        "opencl", hr_device_params(.entropy = HR_WHERE_DEVICE, LONG_DEADLINE));
    auto_batch batch = hr_batch_create(dev, hr_batch_params(.n = VIEWS, .c = 3,
                                                            .h = TALL, .w = 4,
                                                            .dtype = HR_U8));
    struct hr_op ops[VIEWS][3];
    struct hr_sample s[VIEWS];
    auto_job job = NULL;
    struct ocl *o;

    CU_ASSERT_FATAL(dev && batch);
    o = opencl_private(dev);
    o->buffer_bytes = 1 << 20;
    for (int i = 0; i < VIEWS; i++) {
        ops[i][0] = hr_op_decode(0);
        ops[i][1] = hr_op_crop(.w = 20, .h = 40 - i);
        ops[i][2] = hr_op_resize(.w = 4, .h = TALL, .filter = HR_LANCZOS);
        s[i] = test_sample(&env.picture, ops[i], 3);
    }
    job = hr_submit(dev, s, VIEWS, batch, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    CU_ASSERT_EQUAL(hr_job_wait(job, HR_FOREVER), HR_OK);
    for (int i = 0; i < VIEWS; i++)
        CHECK(!job->results[i].why && job->results[i].num_spans == 1, "%d: %x",
              i, job->results[i].why);
}

int main(int argc, char **argv)
{
    void *library = dlopen(HR_NULL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    void *entry = library ? dlsym(library, "null_counts") : NULL;
    void *refuse = library ? dlsym(library, "null_refuse") : NULL;
    void *hold = library ? dlsym(library, "null_hold") : NULL;
    uint64_t seed = 1;
    const struct jpeg_spec spec = {
        .w = 64, .h = 48, .space = JCS_YCbCr, .factors = {0x22}, .quality = 80};
    int code;

    if (!entry || !refuse || !hold) {
        fprintf(stderr, "no %s\n", HR_NULL_LIBRARY);
        return 1;
    }
    memcpy(&env.counts, &entry, sizeof(entry));
    memcpy(&env.refuse, &refuse, sizeof(refuse));
    memcpy(&env.hold, &hold, sizeof(hold));
    setenv("HEADRACE_OPENCL_LIBRARY", HR_NULL_LIBRARY, 1);
    setenv("HEADRACE_CERTIFICATE", "off", 1);
    setenv("HEADRACE_OPENCL_VARIANT", "gpu", 1);
    setenv("XDG_CACHE_HOME", test_folder(), 1);
    env.picture = test_jpeg_of(&spec, &seed);
    for (int i = 0; i < MANY; i++) {
        env.own[i] = (struct bytes){malloc(env.picture.size), env.picture.size};
        memcpy(env.own[i].data, env.picture.data, env.picture.size);
    }
    code = test_main(argc, argv);
    for (int i = 0; i < MANY; i++)
        free(env.own[i].data);
    free(env.picture.data);
    return code;
}
