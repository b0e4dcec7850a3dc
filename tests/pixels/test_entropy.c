// SPDX-License-Identifier: Apache-2.0
// Span entropy..entropy through the HAL: the host packs coefficients, a toy
// engine reads nothing else and makes the picture with coef_reference.c; the
// CPU alone makes the same bytes. Damaged files and files that cannot be packed
// come out as on the CPU, with the reason.
#include "coef_files.h"
#include "coef_reference.h"
#include "tools/samples/scene.h"
#include "testing.h"

// ---- The toy engine: reconstruct..store of crops, u8, NHWC ----------------

static int wrong_payloads;
static const char *wrong_text;
static bool buffers_fail;

static enum hr_status toy_open(struct hr__engine *e, const char *which)
{
    (void)which;
    e->caps.threads = 0;
    return HR_OK;
}

static void toy_close(struct hr__engine *e)
{
    (void)e;
}

static void toy_offer(struct hr__engine *e, const struct hr__picture *pic,
                      struct hr__offer *out)
{
    (void)e;
    *out = (struct hr__offer){.spans = HR_SPAN_BIT(HR_RECONSTRUCT, HR_STORE)};
    if (pic->info.process == HR_PROCESS_PROGRESSIVE)
        out->why = HR_WHY_PROGRESSIVE;
}

static void toy_run(struct hr__task *task)
{
    struct hr__outcome out = {.offset = -1, .stage = HR_RECONSTRUCT};
    const struct hr__dst *dst = &task->pic->dst;
    const struct hr__coefficients *c = task->in->data;
    const char *wrong;

    if (hr__task_claim(task)) {
        wrong = coef_reference_check(c, task->in->size);
        if (!wrong && ((int)c->w != dst->w || (int)c->h != dst->h))
            wrong = "not the window";
        if (wrong || !coef_reference_window(c, dst->c, dst->data)) {
            wrong_payloads++;
            wrong_text = wrong ? wrong : "a block is missing";
        }
    }
    hr__task_done(task, &out);
}

static void toy_submit(struct hr__engine *e, struct hr__task *list)
{
    (void)e;
    for (struct hr__task *next; list; list = next) {
        next = list->next;
        toy_run(list);
    }
}

static void *toy_alloc(struct hr__engine *e, size_t size)
{
    return buffers_fail ? NULL : hr__alloc(e->device, size);
}

static void toy_free(struct hr__engine *e, void *data, size_t size)
{
    (void)e;
    (void)size;
    hr__free(data);
}

static const struct hr__backend toy = {
    .name = "toy",
    .open = toy_open,
    .close = toy_close,
    .offer = toy_offer,
    .submit = toy_submit,
    .buffer_alloc = toy_alloc,
    .buffer_free = toy_free,
    .trusted = true,  // it claims no span, and makes windows of u8 only
};

// ---- One picture on both devices ------------------------------------------

static hr_device devices[2];  // toy, cpu

struct made {
    struct hr_result result;
    uint8_t *pixels;  // of the destination, also if it failed; free()
};

static struct made make(hr_device dev, const struct samples_bytes *jpeg,
                        struct hr_crop crop, enum hr_mode mode, bool strict)
{
    const struct hr_op ops[] = {hr_op_decode(.mode = mode),
                                {.type = HR_OP_CROP, .crop = crop}};
    struct hr_sample s = test_sample(jpeg, ops, 2);
    int c = mode == HR_GRAY ? 1 : 3;
    auto_batch batch = hr_batch_create(
        dev, hr_batch_params(.n = 1, .c = c, .h = crop.h, .w = crop.w,
                             .dtype = HR_U8, .layout = HR_NHWC));
    struct made m = {.pixels = malloc((size_t)(crop.w * crop.h * c))};
    auto_job job = NULL;

    CU_ASSERT_FATAL(batch && m.pixels);
    job = hr_submit(dev, &s, 1, batch,
                    hr_job_params(.strict = strict,
                                  .on_error = HR_ON_ERROR_ZERO));
    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    hr_job_wait(job, HR_FOREVER);
    m.result = job->results[0];
    memcpy(m.pixels, batch->params.data, (size_t)(crop.w * crop.h * c));
    return m;
}

// The toy's result; the pixels and the status are the CPU's.
static struct hr_result both(const struct samples_bytes *jpeg,
                             struct hr_crop crop, enum hr_mode mode)
{
    struct made a = make(devices[0], jpeg, crop, mode, false);
    struct made b = make(devices[1], jpeg, crop, mode, false);
    size_t size = (size_t)(crop.w * crop.h * (mode == HR_GRAY ? 1 : 3));

    if (a.result.status != b.result.status ||
        a.result.warnings != b.result.warnings ||
        memcmp(a.pixels, b.pixels, size)) {
        CU_FAIL("not as on the CPU");
        printf("\n  crop %d,%d %dx%d: %s, %d warnings (%s); cpu: %s, %d (%s)",
               crop.x, crop.y, crop.w, crop.h, hr_status_name(a.result.status),
               a.result.warnings, a.result.message,
               hr_status_name(b.result.status), b.result.warnings,
               b.result.message);
    }
    free(a.pixels);
    free(b.pixels);
    return a.result;
}

static bool in_two_spans(const struct hr_result *r)
{
    return r->num_spans == 2 && r->spans[0].span.last == HR_ENTROPY &&
           !strcmp(r->spans[0].device, "cpu") &&
           r->spans[1].span.first == HR_RECONSTRUCT &&
           !strcmp(r->spans[1].device, "toy");
}

static bool on_the_cpu(const struct hr_result *r)
{
    return r->num_spans == 1 && r->spans[0].span.first == HR_ENTROPY &&
           r->spans[0].span.last == HR_STORE &&
           !strcmp(r->spans[0].device, "cpu");
}

static struct samples_bytes encode(const struct samples_jpeg *params, int w,
                                   int h)
{
    struct samples_bytes bytes = {0};
    struct samples_picture p;

    CU_ASSERT_FATAL(samples_scene_make(
        &p, w, h, coef_pick(0, SAMPLES_THEMES - 1), coef_random()));
    CU_ASSERT_FATAL(samples_jpeg_encode(params, &p, &bytes));
    samples_picture_finish(&p);
    return bytes;
}

static struct hr_crop random_crop(int w, int h)
{
    struct hr_crop c = {.w = coef_pick(1, w), .h = coef_pick(1, h)};

    c.x = coef_pick(0, w - c.w);
    c.y = coef_pick(0, h - c.h);
    return c;
}

// ---- Cases ----------------------------------------------------------------

TEST_CASE(plain)
{
    static const struct samples_jpeg params[] = {
        {.quality = 95},    {.sampling = 0x22},      {.sampling = 0x21},
        {.sampling = 0x12}, {.color = SAMPLES_GRAY}, {.color = SAMPLES_RGB},
    };

    coef_seed(test_seed);
    for (int i = 0; i < 60; i++) {
        int w = coef_pick(1, 200), h = coef_pick(1, 200);
        struct samples_bytes jpeg = encode(&params[i % 6], w, h);
        struct hr_result r = both(&jpeg, random_crop(w, h),
                                  i % 4 == 3 ? HR_GRAY : HR_RGB);

        CU_ASSERT_EQUAL(r.status, HR_OK);
        CU_ASSERT(in_two_spans(&r));
        CU_ASSERT(r.why == 0 && r.fallbacks == 0);
        samples_bytes_finish(&jpeg);
    }
}

TEST_CASE(not_for_it)
{
    static const struct samples_jpeg params[] = {
        {.order = SAMPLES_PROGRESSIVE},
        {.order = SAMPLES_SEPARATE},
        {.color = SAMPLES_CMYK},
    };
    struct samples_bytes jpeg;
    struct hr_result r;

    coef_seed(test_seed);
    for (size_t i = 0; i < sizeof(params) / sizeof(*params); i++) {
        jpeg = encode(&params[i], 90, 70);
        r = both(&jpeg, random_crop(90, 70), HR_RGB);
        CU_ASSERT(r.status == HR_OK && on_the_cpu(&r) && r.fallbacks == 0);
        CU_ASSERT_EQUAL(r.why, i == 0 ? HR_WHY_PROGRESSIVE : 0);
        samples_bytes_finish(&jpeg);
    }
    // A window that is all padding.
    jpeg = encode(&(struct samples_jpeg){.quality = 90}, 90, 70);
    r = both(&jpeg, (struct hr_crop){.x = 200, .w = 9, .h = 9, .pad = true},
             HR_RGB);
    CU_ASSERT(r.status == HR_OK && on_the_cpu(&r));
    samples_bytes_finish(&jpeg);
}

TEST_CASE(damage)
{
    int fell_back = 0, failed = 0, strict_failed = 0;

    coef_seed(test_seed);
    for (int i = 0; i < 150; i++) {
        struct samples_bytes jpeg = encode(
            &(struct samples_jpeg){.sampling = i % 2 ? 0x22 : 0x11}, 80, 60);
        struct hr_crop crop = random_crop(80, 60);
        size_t at = jpeg.size / 3 + coef_random() % (jpeg.size - jpeg.size / 3);
        struct hr_result r;
        struct made strict;

        // Every third file gets a code of ones alone, which is never valid. (A
        // file with a marker there would not be offered.)
        if (i % 3)
            jpeg.data[at] = (uint8_t)coef_random();
        else
            memcpy(jpeg.data + (at < jpeg.size - 8 ? at : jpeg.size - 8),
                   "\xff\0\xff\0\xff", 6);
        r = both(&jpeg, crop, HR_RGB);
        if (r.fallbacks) {
            CU_ASSERT(r.fallbacks == 1 && r.why == HR_WHY_DAMAGED);
            CU_ASSERT(r.status ? r.num_spans == 0 : on_the_cpu(&r));
            strict = make(devices[0], &jpeg, crop, HR_RGB, true);
            strict_failed += strict.result.status == HR_EUNSUPPORTED &&
                             strict.result.why == HR_WHY_DAMAGED;
            free(strict.pixels);
        } else {
            // (If the end marker was hit, the span was never offered.)
            CU_ASSERT(r.status || on_the_cpu(&r) ||
                      (in_two_spans(&r) && !r.warnings));
        }
        fell_back += r.fallbacks;
        failed += r.status != HR_OK;
        samples_bytes_finish(&jpeg);
    }
    printf("\n  %d of 150 fell back, %d failed as on the CPU; ", fell_back,
           failed);
    CU_ASSERT(fell_back > 10);
    CU_ASSERT_EQUAL(strict_failed, fell_back);
}

// The fewest of many times: a job's memory may return to the pool only after
// the next one was submitted.
static uint64_t allocations_of(hr_device dev, const struct samples_bytes *jpeg,
                               struct hr_crop crop)
{
    uint64_t least = UINT64_MAX, n;
    struct hr_stats before, after;

    for (int i = 0; i < 30; i++) {
        struct made m;

        hr_device_stats(dev, &before);
        m = make(dev, jpeg, crop, HR_RGB, false);
        hr_device_stats(dev, &after);
        CU_ASSERT_EQUAL(m.result.status, HR_OK);
        free(m.pixels);
        n = after.heap_allocations - before.heap_allocations;
        least = n < least ? n : least;
    }
    return least;
}

// A job and its batch cost what they cost on the CPU; the span nothing but the
// toy's buffer.
TEST_CASE(steady_state)
{
    struct samples_bytes jpeg = encode(&(struct samples_jpeg){0}, 300, 200);
    struct hr_crop all = {.w = 300, .h = 200};

    CU_ASSERT_EQUAL(allocations_of(devices[0], &jpeg, all),
                    allocations_of(devices[1], &jpeg, all) + 1);
    samples_bytes_finish(&jpeg);
}

// The next engine had no memory for the coefficients: the CPU made it all.
static bool left_for_memory(const struct hr_result *r)
{
    return on_the_cpu(r) && r->fallbacks == 1 && r->why == HR_WHY_MEMORY;
}

// Each allocation fails, alone or with all that follow: each sample that is
// submitted ends, well or out of memory.
TEST_CASE(no_memory)
{
    const struct hr_op decode = hr_op_decode(0);
    struct samples_bytes jpeg = encode(&(struct samples_jpeg){0}, 400, 300);
    struct hr_sample s = test_sample(&jpeg, &decode, 1);
    struct made want = make(devices[1], &jpeg,
                            (struct hr_crop){.w = 400, .h = 300}, HR_RGB,
                            false);
    int ok = 0, fell_back = 0, failed = 0;

    // Threads take turns by chance, so which one fails does, too.
    for (int i = 0; i < 400 && (ok < 4 || !failed || !fell_back); i++) {
        struct hr_device_params params = {.threads = 1};
        auto_device dev = hr_device_open("toy", &params);
        auto_batch batch = hr_batch_create(
            dev, hr_batch_params(.n = 1, .c = 3, .h = 300, .w = 400,
                                 .dtype = HR_U8, .layout = HR_NHWC));
        auto_job job = NULL;

        CU_ASSERT_FATAL(dev && batch);
        hr__test_fail_alloc(1 + i / 2 % 20, i % 2);
        job = hr_submit(dev, &s, 1, batch, NULL);
        if (job) {
            enum hr_status status = hr_job_wait(job, HR_FOREVER);
            const struct hr_result *r = &job->results[0];
            bool left = left_for_memory(r);

            CU_ASSERT(status == HR_OK || status == HR_ENOMEM);
            CU_ASSERT(status != HR_OK || left || in_two_spans(r));
            CU_ASSERT(status != HR_OK ||
                      !memcmp(batch->params.data, want.pixels, 400 * 300 * 3));
            failed += status != HR_OK;
            fell_back += left;
            ok += in_two_spans(r);
        }
        hr__test_fail_alloc(0, false);
    }
    printf("\n  %d out of memory, %d fell back; ", failed, fell_back);
    CU_ASSERT(ok >= 4 && failed > 0 && fell_back > 0);
    free(want.pixels);
    samples_bytes_finish(&jpeg);
}

TEST_CASE(no_buffer)
{
    struct samples_bytes jpeg = encode(&(struct samples_jpeg){0}, 40, 30);
    struct hr_crop all = {.w = 40, .h = 30};
    struct hr_result r;
    struct made strict;

    buffers_fail = true;
    r = both(&jpeg, all, HR_RGB);
    strict = make(devices[0], &jpeg, all, HR_RGB, true);
    buffers_fail = false;
    CU_ASSERT_EQUAL(r.status, HR_OK);
    CU_ASSERT(left_for_memory(&r));
    CU_ASSERT_EQUAL(strict.result.status, HR_ENOMEM);
    CU_ASSERT_EQUAL(strict.result.stage, HR_ENTROPY);
    CU_ASSERT_EQUAL(strict.result.why, HR_WHY_MEMORY);
    free(strict.pixels);
    // The next sample goes its way again.
    r = both(&jpeg, all, HR_RGB);
    CU_ASSERT(in_two_spans(&r) && r.fallbacks == 0);
    samples_bytes_finish(&jpeg);
}

int main(int argc, char **argv)
{
    int failed;

    hr__registry_add(&toy);
    devices[0] = test_device("toy", 1, 0);
    devices[1] = test_device("cpu", 1, 0);
    failed = test_main(argc, argv);
    hr_device_close(&devices[0]);
    hr_device_close(&devices[1]);
    if (wrong_payloads)
        printf("%d payloads were wrong: %s\n", wrong_payloads, wrong_text);
    return failed || wrong_payloads;
}
