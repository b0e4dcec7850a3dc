// SPDX-License-Identifier: Apache-2.0
// Results and sources in device memory: the same bytes as in the host's, for
// every op, type, layout and kind of file; reads and writes with a timeout; a
// device that fails, hangs or has no memory. On the scripted engine, and on
// OpenCL where it opens (HEADRACE_TEST_DEVICE names another).
#include <sys/wait.h>

#include "conformance.h"
#include "fake_engine.h"
#include "made.h"

#define SECOND INT64_C(1000000000)
static const struct hr_op to_float[] = {
    hr_op_decode(0),
    hr_op_resize(.w = 40, .h = 30),
    hr_op_normalize(.mean = {.485f, .456f, .406f},
                    .std = {.229f, .224f, .225f}),
};

// ---- Files of several kinds -----------------------------------------------

enum { BASELINE, PROGRESSIVE, CMYK, PNG, DAMAGED, FILES };

static struct bytes files[FILES];

static void make_files(void)
{
    static const struct jpeg_spec progressive = {.w = 90,
                                                 .h = 70,
                                                 .space = JCS_YCbCr,
                                                 .factors = {0x22},
                                                 .quality = 80,
                                                 .progressive = true};
    static const struct jpeg_spec cmyk = {
        .w = 61, .h = 52, .space = JCS_CMYK, .quality = 80};
    uint64_t seed = 11;

    files[BASELINE] = test_jpeg(120, 90, &seed);
    files[PROGRESSIVE] = test_jpeg_of(&progressive, &seed);
    files[CMYK] = test_jpeg_of(&cmyk, &seed);
    files[PNG] = test_png(75, 66, &seed);
    files[DAMAGED] = test_damaged(80, 60, &seed);
}

static struct hr_sample sample_of(int file, const struct hr_op *ops, int n)
{
    return test_sample(&files[file], ops, n);
}

// ---- Devices --------------------------------------------------------------

// The second is NULL where there is none.
static hr_device devices[2];

static void fake_script(const struct fake_script *script)
{
    struct fake_script s = *script;

    s.memory = true;
    fake_reset(&s);
}

static void fake_plain(void)
{
    fake_script(&(struct fake_script){.spans = FAKE_ALL(FAKE_RS)});
}

// ---- Comparing ------------------------------------------------------------

static uint8_t *image_bytes(hr_image image)
{
    uint8_t *to = malloc(image->size);
    enum hr_status status = hr_image_read(image, to, image->size, 60 * SECOND);

    CHECK(status == HR_OK, "read: %s", hr_last_error());
    return to;
}

static hr_batch make_batch(hr_device dev, enum hr_memory memory,
                           const struct hr_batch_params *like)
{
    struct hr_batch_params p = *like;
    hr_batch batch;

    p.memory = memory;
    batch = hr_batch_create(dev, &p);
    CHECK(batch, "%s", hr_last_error());
    if (!batch)
        abort();
    return batch;
}

static uint8_t *batch_bytes(hr_batch batch)
{
    uint8_t *to = calloc(1, batch->size);
    enum hr_status status = hr_batch_read(batch, 0, batch->params.n, to,
                                          batch->size, 60 * SECOND);

    CHECK(status == HR_OK, "read: %s", hr_last_error());
    return to;
}

// Compares elements only: bytes between rows are not defined.
static bool same_elements(const struct hr_batch_params *p, const uint8_t *a,
                          const uint8_t *b)
{
    size_t e = hr_dtype_size(p->dtype);
    bool planar = p->layout == HR_NCHW;
    size_t row = (size_t)p->w * e * (planar ? 1 : (size_t)p->c);

    for (int i = 0; i < p->n; i++)
        for (int c = 0; c < (planar ? p->c : 1); c++)
            for (int y = 0; y < p->h; y++) {
                size_t at = p->stride_n * (size_t)i +
                            (planar ? p->stride_c * (size_t)c : 0) +
                            p->stride_h * (size_t)y;

                if (memcmp(a + at, b + at, row) != 0)
                    return false;
            }
    return true;
}

static enum hr_status run(hr_device dev, const struct hr_sample *s, int n,
                          hr_batch batch, const struct hr_job_params *params,
                          struct hr_result *results)
{
    auto_job job = hr_submit(dev, s, n, batch, params);
    enum hr_status status;

    if (!job)
        return hr_last_status();
    status = hr_job_wait(job, 60 * SECOND);
    for (int i = 0; results && i < n; i++)
        results[i] = job->results[i];
    return status;
}

// An engine that decodes to the end, by its own word: not by the certificate's.
static bool decodes(hr_device dev)
{
    const struct hr__device *d = (const struct hr__device *)dev;
    uint32_t span = HR_SPAN_BIT(HR_RECONSTRUCT, HR_STORE);

    return d->engines[0]->caps.spans[HR_EXACT] & span;
}

// ---- Batches: types, layouts, strides, several jobs -----------------------

// All files into device memory, by two jobs, and into host memory by the CPU.
static void compare_batch(hr_device dev, const struct hr_batch_params *like)
{
    const struct hr_job_params zero = {.on_error = HR_ON_ERROR_ZERO};
    struct hr_sample s[FILES];
    auto_device cpu = test_device("cpu", 1, 0);
    auto_batch ours = make_batch(dev, HR_MEMORY_DEVICE, like);
    auto_batch theirs = make_batch(cpu, HR_MEMORY_HOST, like);
    struct hr_result r[FILES];
    auto_heap uint8_t *a = NULL, *b = NULL;
    enum hr_status status;
    hr_job job;

    CHECK(!ours->params.data && ours->native.memory && ours->native.api,
          "%s: not in device memory", dev->name);
    CHECK(ours->params.memory == HR_MEMORY_DEVICE, "memory");
    for (int i = 0; i < FILES; i++)
        s[i] = sample_of(i, to_float, like->dtype == HR_U8 ? 2 : 3);
    job = hr_submit(dev, s, 2, ours, &zero);
    status = run(dev, s + 2, FILES - 2, ours,
                 hr_job_params(.first_slot = 2, .on_error = HR_ON_ERROR_ZERO),
                 r + 2);
    CHECK(status == HR_OK && hr_job_wait(job, 60 * SECOND) == HR_OK, "%s",
          hr_last_error());
    for (int i = 0; i < 2; i++)
        r[i] = job->results[i];
    hr_job_release(&job);
    status = run(cpu, s, FILES, theirs, &zero, NULL);
    CHECK(status == HR_OK, "%s", hr_last_error());
    a = batch_bytes(ours);
    b = batch_bytes(theirs);
    CHECK(same_elements(&ours->params, a, b), "%s: %s %s, strides %zu %zu",
          dev->name, hr_dtype_name(like->dtype), like->layout ? "nhwc" : "nchw",
          like->stride_c, like->stride_h);
    // (The scripted engine begins at resample.)
    for (int i = 0; i < DAMAGED; i++)
        CHECK(made_by(&r[i], dev->name, HR_RESAMPLE, HR_STORE) &&
                  !r[i].fallbacks && !(r[i].why & HR_WHY_CERTIFICATE),
              "%s: file %d is not its work: %#x", dev->name, i, r[i].why);
    CHECK(dev == devices[0] || !decodes(dev) ||
              made_by(&r[BASELINE], dev->name, HR_RECONSTRUCT, HR_STORE),
          "%s: another engine decoded: %#x", dev->name, r[BASELINE].why);
    for (int i = 0; i < FILES; i++)
        CHECK((i == DAMAGED) == (r[i].status != HR_OK), "%d: %s", i,
              r[i].message);
}

TEST_CASE(batches)
{
    for (int d = 0; d < COUNT(devices); d++)
        for (int k = 0; devices[d] && k < 12; k++) {
            enum hr_dtype dtype = (enum hr_dtype)(k % 3);
            size_t e = hr_dtype_size(dtype);
            struct hr_batch_params p = {.n = FILES,
                                        .c = 3,
                                        .h = 30,
                                        .w = 40,
                                        .dtype = dtype,
                                        .layout = (enum hr_layout)(k / 3 % 2)};

            if (k >= 6) {
                p.stride_h = (40 * 3 + 7) * e;
                p.stride_n = 30 * 3 * p.stride_h + 100 * e;
            }
            if (k >= 9 && p.layout == HR_NCHW) {  // row by row
                p.stride_c = 42 * e;
                p.stride_h = 3 * 42 * e;
            }
            compare_batch(devices[d], &p);
        }
}

// Painting on a tensor in device memory works, too.
TEST_CASE(painted)
{
    const struct hr_op ops[] = {
        to_float[0],
        to_float[1],
        to_float[2],
        {.type = HR_OP_ERASE, .erase = {.w = 20, .h = 10, .value = {1, 2, 3}}},
    };
    const struct hr_batch_params p = {.n = 1, .c = 3, .h = 30, .w = 40};

    for (int d = 0; d < COUNT(devices) && devices[d]; d++) {
        struct hr_sample s = sample_of(BASELINE, ops, COUNT(ops));
        auto_device cpu = test_device("cpu", 1, 0);
        auto_batch ours = make_batch(devices[d], HR_MEMORY_DEVICE, &p);
        auto_batch theirs = make_batch(cpu, HR_MEMORY_HOST, &p);
        auto_heap uint8_t *a = NULL, *b = NULL;

        CHECK(run(devices[d], &s, 1, ours, NULL, NULL) == HR_OK &&
                  run(cpu, &s, 1, theirs, NULL, NULL) == HR_OK,
              "%s", hr_last_error());
        a = batch_bytes(ours);
        b = batch_bytes(theirs);
        CHECK(same_elements(&ours->params, a, b), "%s", devices[d]->name);
    }
}

// ---- Images, one op after the other ---------------------------------------

static void chain_on(hr_device dev, int file)
{
    static const struct hr_op ops[] = {
        hr_op_decode(0), hr_op_resize(.w = 50, .h = 41),
        hr_op_crop(.x = 4, .y = 3, .w = 40, .h = 30),
        hr_op_flip(.horizontal = true),
        hr_op_normalize(.mean = {.5f, .4f, .3f}, .std = {.2f, .3f, .4f})};
    struct hr_sample s = sample_of(file, ops, 5);
    hr_image i[5], planned, ready;
    uint8_t *a, *b;

    i[0] = test_decode_to(dev, files[file].data, files[file].size,
                          HR_MEMORY_DEVICE);
    i[1] = hr_resize(dev, i[0], &ops[1].resize);
    i[2] = hr_crop(dev, i[1], &ops[2].crop);
    i[3] = hr_apply_op(dev, i[2], &ops[3]);
    i[4] = test_apply(dev, i[3], &ops[4], HR_F32, HR_NCHW);
    CHECK(i[4], "%s", hr_last_error());
    if (!i[4])
        abort();
    for (int k = 0; k < 5; k++)
        CHECK(i[k]->params.memory == HR_MEMORY_DEVICE && !i[k]->params.data &&
                  i[k]->native.memory && i[k]->native.offset % 4096 == 0,
              "image %d is not on the device", k);
    planned = hr_image_create(
        dev, &(struct hr_image_params){.w = 40, .h = 30, .c = 3});
    s.out = planned;
    CHECK(run(dev, &s, 1, NULL, NULL, NULL) == HR_OK, "%s", hr_last_error());
    a = image_bytes(i[4]);
    b = image_bytes(planned);
    // With several steps between, the planned chain rounds as often.
    CHECK(!memcmp(a, b, planned->size), "%s: file %d", dev->name, file);
    ready = hr_move(dev, i[4], HR_MEMORY_HOST);
    CHECK(ready && hr_image_wait(ready, 60 * SECOND) == HR_OK &&
              ready->params.data &&
              !memcmp(ready->params.data, b, planned->size),
          "moved to the host");
    free(a);
    free(b);
    for (int k = 0; k < 5; k++)
        hr_image_release(&i[k]);
    hr_image_release(&planned);
    hr_image_release(&ready);
}

TEST_CASE(chains)
{
    for (int d = 0; d < COUNT(devices); d++)
        for (int f = 0; devices[d] && f < DAMAGED; f++)
            chain_on(devices[d], f);
}

// The suite, with sources and results in device memory.
TEST_CASE(conformance)
{
    for (int d = 0; d < COUNT(devices); d++) {
        struct conformance c;

        if (!devices[d])
            continue;
        c = conformance_run_in(devices[d], HR_EXACT, HR_MEMORY_DEVICE,
                               test_seed);
        CHECK(c.by_device > c.samples / 3 && c.different == 0, "%d of %d",
              c.by_device, c.samples);
        if (decodes(devices[d]))
            conformance_is_own_work(devices[d], &c, "device memory");
        printf("\n  %s: %d samples, %d by the device, reconstruct..store %d ",
               devices[d]->name, c.samples, c.by_device, c.decoded);
    }
}

int main(int argc, char **argv)
{
    int result;

    make_files();
    fake_plain();
    devices[0] = test_device("fake", 2, 0);
    devices[1] = hr_device_open(test_device_name(), NULL);
    if (!devices[1]) {
        if (!test_is_absent())
            return 1;
        test_not_run(hr_last_error());
    }
    result = test_main(argc, argv);
    for (int i = 0; i < COUNT(devices); i++)
        hr_device_close(&devices[i]);
    for (int i = 0; i < FILES; i++)
        free(files[i].data);
    return result;
}
