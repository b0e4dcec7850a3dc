// SPDX-License-Identifier: Apache-2.0
// A job's own copies and its counts: names, tables of neighbours, files of
// every sort, the reason of a fallback, parts of a batch.
#include <sys/stat.h>

#include "fake_engine.h"
#include "testing.h"

enum { W = 30, H = 20, SIZE = W * H * 3 };

#define SECOND (1000 * TEST_MS)

static const struct hr_op ops[] = {hr_op_decode(0),
                                   hr_op_resize(.w = W, .h = H)};

static struct bytes jpeg;

static hr_image image_of(hr_device dev, enum hr_dtype dtype,
                         enum hr_memory memory)
{
    hr_image image = hr_image_create(
        dev, hr_image_params(.w = W, .h = H, .c = 3, .dtype = dtype,
                             .layout = HR_NHWC, .memory = memory));

    if (!image)
        abort();
    return image;
}

static struct hr_result result_of(hr_job job)
{
    struct hr_result r = {.status = HR_EINVAL};

    CHECK(job, "%s", hr_last_error());
    if (!job)
        return r;
    CHECK(hr_job_poll(job, 20 * SECOND) != HR_PENDING, "the job hangs");
    r = job->results[0];
    hr_job_release(&job);
    return r;
}

static struct hr_result run(hr_device dev, const struct hr_sample *s)
{
    return result_of(hr_submit(dev, s, 1, NULL, NULL));
}

// ---- Its own --------------------------------------------------------------

// Strings need live only until hr_submit() returns.
TEST_CASE(names)
{
    auto_device dev = NULL;
    auto_image out = NULL;
    char name[] = "first name";
    struct hr_sample s = {
        .data = jpeg.data, .size = 10, .ops = ops, .num_ops = 2, .name = name};
    hr_job blocker, job;
    struct hr_result r;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .gate = true);
    dev = test_device("fake", 1, 0);
    s.out = out = image_of(dev, HR_U8, HR_MEMORY_HOST);
    blocker = hr_submit(dev, &test_sample(&jpeg, ops, 2, .out = out), 1, NULL,
                        NULL);
    job = hr_submit(dev, &s, 1, NULL, NULL);
    memset(name, 'x', sizeof(name) - 1);
    fake_gate_open();
    r = result_of(job);
    CHECK(r.status && !strncmp(r.message, "first name: ", 12), "%s", r.message);
    result_of(blocker);
}

// Neighbours in a job that differ only in the values of their tables.
TEST_CASE(tables)
{
    static const struct hr_op by_std[2][3] = {
        {hr_op_decode(0), hr_op_resize(.w = W, .h = H),
         hr_op_normalize(.mean = {.5f, .5f, .5f}, .std = {.5f, .5f, .5f})},
        {hr_op_decode(0), hr_op_resize(.w = W, .h = H),
         hr_op_normalize(.mean = {.5f, .5f, .5f}, .std = {.25f, .25f, .25f})}};
    auto_device dev = test_device("cpu", 1, 0);
    hr_image out[4], alone[4];
    struct hr_sample s[4];
    hr_job job;

    for (int i = 0; i < 4; i++) {
        enum hr_dtype dtype = i < 2 ? HR_F32 : i == 2 ? HR_F16 : HR_U8;

        out[i] = image_of(dev, dtype, HR_MEMORY_HOST);
        alone[i] = image_of(dev, dtype, HR_MEMORY_HOST);
        s[i] = test_sample(&jpeg, by_std[i == 1], dtype == HR_U8 ? 2 : 3,
                           .out = alone[i]);
        CHECK(!run(dev, &s[i]).status, "alone");
        s[i].out = out[i];
    }
    job = hr_submit(dev, s, 4, NULL, NULL);
    CHECK(job && !hr_job_wait(job, HR_FOREVER), "%s", hr_last_error());
    hr_job_release(&job);
    for (int i = 0; i < 4; i++) {
        CHECK(!memcmp(out[i]->params.data, alone[i]->params.data, out[i]->size),
              "sample %d has its neighbour's table", i);
        hr_image_release(&out[i]);
        hr_image_release(&alone[i]);
    }
}

// ---- Files ----------------------------------------------------------------

TEST_CASE(files)
{
    auto_device dev = hr_device_open(
        "cpu",
        hr_device_params(.threads = 1, .limits = {.file_bytes = jpeg.size}));
    auto_image out = image_of(dev, HR_U8, HR_MEMORY_HOST);
    auto_bytes longer = {.data = calloc(1, jpeg.size + 1),
                         .size = jpeg.size + 1};
    struct hr_sample s = {
        .path = test_file(&jpeg, ".jpg"), .ops = ops, .num_ops = 2, .out = out};
    char fifo[64];
    struct hr_result r = run(dev, &s);

    CHECK(r.status == HR_OK, "%s", r.message);
    memcpy(longer.data, jpeg.data, jpeg.size);
    s.path = test_file(&longer, ".jpg");
    r = run(dev, &s);
    CHECK(r.status == HR_ELIMIT, "one byte over the limit: %s", r.message);
    CHECK(strstr(r.message, "the limit is"), "before it is read: %s",
          r.message);
    // This pipe will never have a writer.
    snprintf(fifo, sizeof(fifo), "fifo-%ld", (long)getpid());
    CHECK(!mkfifo(fifo, 0600), "mkfifo");
    s.path = fifo;
    r = run(dev, &s);
    CHECK(r.status == HR_EIO, "%s", r.message);
    unlink(fifo);
}

// Of a picture that is longer than what is read of it at first: is all known
// that is known of the same bytes in memory?
static void long_file(hr_device dev, const struct bytes *b, const char *what)
{
    auto_image from_file = image_of(dev, HR_U8, HR_MEMORY_HOST);
    auto_image from_data = image_of(dev, HR_U8, HR_MEMORY_HOST);
    const struct hr_op fit[] = {hr_op_decode(0), hr_op_resize(.w = W, .h = H)};
    struct hr_sample s = {.ops = fit, .num_ops = 2};
    struct hr_result file, data;
    int before = atomic_load(&fake_counts.complete), of_data;

    CHECK(b->size > 3 << 16, "%s: only %zu bytes", what, b->size);
    s.data = b->data;
    s.size = b->size;
    s.out = from_data;
    data = run(dev, &s);
    of_data = atomic_load(&fake_counts.complete) - before;
    s.data = NULL;
    s.path = test_file(b, ".jpg");
    s.out = from_file;
    file = run(dev, &s);
    CHECK(atomic_load(&fake_counts.complete) - before == 2 * of_data,
          "%s: has it an end?", what);
    CHECK(file.status == data.status && file.offset == data.offset &&
              file.width == data.width && file.why == data.why,
          "%s: %s and %s", what, file.message, data.message);
    CHECK(!memcmp(from_file->params.data, from_data->params.data,
                  from_data->size),
          "%s: another picture", what);
}

TEST_CASE(long_files)
{
    struct jpeg_spec spec = {
        .w = 700, .h = 700, .space = JCS_YCbCr, .quality = 95};
    uint64_t seed = test_seed;
    struct bytes b;
    auto_device dev = NULL;

    fake_reset_spans(FAKE_DRS);
    dev = test_device("fake", 1, 0);
    for (int i = 0; i < 4; i++) {
        spec.progressive = i == 1;
        spec.separate = i == 2;
        b = i < 3 ? test_jpeg_of(&spec, &seed) : test_png(700, 700, &seed);
        long_file(dev, &b, "whole");
        if (i == 0)
            CHECK(atomic_load(&fake_counts.complete) == 2, "the end is there");
        b.size = b.size * 9 / 10;
        long_file(dev, &b, "cut short");
        free(b.data);
    }
}

// The memory that a picture will need is known before it is decoded.
TEST_CASE(memory_limit)
{
    static const struct hr_op wide[] = {hr_op_decode(0),
                                        hr_op_resize(.w = 60000, .h = 1,
                                                     .filter = HR_LANCZOS)};
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg_of(jpeg_ycc(.w = 900, .h = 700, .factors = {0x22},
                                         .quality = 50, .progressive = true),
                                &seed);
    auto_device dev = hr_device_open(
        "cpu",
        hr_device_params(.threads = 1, .limits = {.item_bytes = 1 << 20}));
    auto_image out = image_of(dev, HR_U8, HR_MEMORY_HOST);
    struct hr_result r = run(dev, &test_sample(&b, ops, 2, .out = out));

    CHECK(r.status == HR_ELIMIT && strstr(r.message, "needs "), "%s",
          r.message);
    hr_image_release(&out);
    // The limit also covers memory that the estimate left out, such as the
    // weights of a very long row.
    out = hr_image_create(dev, hr_image_params(.w = 60000, .h = 1, .c = 3,
                                               .dtype = HR_U8));
    r = run(dev, &test_sample(&jpeg, wide, 2, .out = out));
    CHECK(r.status == HR_ELIMIT && strstr(r.message, "memory for one"), "%s",
          r.message);
}

static const struct hr_op top[] = {hr_op_decode(0), hr_op_crop(.w = W, .h = 8),
                                   hr_op_resize(.w = W, .h = H)};

// A file without an end is cut short somewhere: found in any window.
TEST_CASE(cut_short)
{
    static const struct hr_op outside[] = {
        hr_op_decode(0),
        hr_op_crop(.x = -50, .y = -50, .w = W, .h = H, .pad = true)};
    uint64_t seed = test_seed;
    auto_bytes b = test_damaged(200, 400, &seed);
    auto_device dev = test_device("cpu", 1, 0);
    auto_image out = image_of(dev, HR_U8, HR_MEMORY_HOST);
    struct hr_result r = run(dev, &test_sample(&b, top, 3, .out = out));

    CHECK(r.status == HR_ETRUNCATED, "%s", r.message);
    r = run(dev, &test_sample(&b, outside, 2, .out = out));
    CHECK(r.status == HR_ETRUNCATED, "nothing of it is wanted: %s", r.message);
}

// True if the sample is refused; it must then be refused in every window.
static bool refused(hr_device dev, struct hr_sample s)
{
    static const struct hr_op outside[] = {
        hr_op_decode(0),
        hr_op_crop(.x = -50, .y = -50, .w = W, .h = H, .pad = true)};
    struct hr_result whole, window;

    s.ops = ops;
    s.num_ops = 2;
    whole = run(dev, &s);
    for (int i = 0; i < 2; i++) {
        s.ops = i ? outside : top;
        s.num_ops = i ? 2 : 3;
        window = run(dev, &s);
        CHECK(whole.status == window.status &&
                  !strcmp(whole.message, window.message),
              "%s, %s in window %d", hr_status_name(whole.status),
              hr_status_name(window.status), i);
    }
    return whole.status != HR_OK;
}

// With any marker in the scan, far below the window. How many are refused.
static int refused_markers(hr_device dev, hr_image out, int restart)
{
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg_of(jpeg_ycc(.w = 64, .h = 200, .factors = {0x22},
                                         .restart = restart),
                                &seed);
    struct hr_sample s = {.data = b.data, .size = b.size, .out = out};
    uint8_t *at = b.data + b.size * 3 / 4, before[2];
    int n = 0;

    while (at[-1] == 0xff || at[0] == 0xff || at[1] == 0xff)
        at++;
    memcpy(before, at, 2);
    for (int marker = 0; marker < 256; marker++) {
        at[0] = 0xff;
        at[1] = (uint8_t)marker;
        n += refused(dev, s);
    }
    memcpy(at, before, 2);
    CHECK(!refused(dev, s), "mended");
    return n;
}

// A PNG with a byte changed anywhere in its lower half.
static int refused_bytes(hr_device dev, hr_image out)
{
    uint64_t seed = test_seed;
    auto_bytes b = test_png(64, 200, &seed);
    struct hr_sample s = {.data = b.data, .size = b.size, .out = out};
    int n = 0;

    for (size_t i = b.size / 2; i < b.size; i += b.size / 128) {
        b.data[i] ^= 0x55;
        n += refused(dev, s);
        b.data[i] ^= 0x55;
    }
    CHECK(!refused(dev, s), "mended");
    return n;
}

TEST_CASE(damaged_below)
{
    auto_device dev = test_device("cpu", 1, 0);
    auto_image out = image_of(dev, HR_U8, HR_MEMORY_HOST);
    int plain = refused_markers(dev, out, 0);
    int restarts = refused_markers(dev, out, 1), png = refused_bytes(dev, out);

    CHECK(plain > 200 && plain < 250, "%d refused", plain);
    CHECK(restarts > 30 && restarts < 250, "%d refused", restarts);
    CHECK(png > 50, "%d refused", png);
}

// A refused job holds nothing; waiting for all is waiting for the last.
TEST_CASE(ends)
{
    hr_job jobs[6];
    struct hr_sample s = test_sample(&jpeg, ops, 2);
    hr_device dev;
    hr_image out;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .delay_ns = 20 * TEST_MS);
    dev = test_device("fake", 1, 0);
    out = image_of(dev, HR_U8, HR_MEMORY_HOST);
    CHECK(!hr_submit(dev, &s, 1, NULL, NULL), "no destination");
    CHECK(!hr_batch_create(dev, hr_batch_params(.n = 5, .c = 1, .h = 1, .w = 1,
                                                .dtype = HR_U8,
                                                .stride_n = SIZE_MAX / 4 + 1)),
          "four times that is nothing");
    s.out = out;
    for (int i = 0; i < 6; i++)
        jobs[i] = hr_submit(dev, &s, 1, NULL, NULL);
    CHECK(hr_wait_all(dev, 20 * SECOND) == HR_OK, "%s", hr_last_error());
    for (int i = 0; i < 6; i++) {
        CHECK(hr_job_poll(jobs[i], 0) == HR_OK, "job %d is still at work", i);
        result_of(jobs[i]);
    }
    hr_image_release(&out);
    hr_device_close(&dev);
    CHECK(test_reaches(&fake_counts.closes, 1), "the device is still held");
}

// ---- Counted --------------------------------------------------------------

TEST_CASE(counts)
{
    struct hr_sample s = test_sample(&jpeg, ops, 2);
    struct hr_stats stats;
    struct hr_result r;
    auto_device dev = NULL;
    auto_image out = NULL;
    hr_job job;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .fail_from = 1, .fail_to = 1,
               .fail_status = HR_EDEVICE);
    dev = test_device("fake", 1, 0);
    s.out = out = image_of(dev, HR_U8, HR_MEMORY_HOST);
    r = run(dev, &s);
    CHECK(!r.status && r.fallbacks == 1 && r.why & HR_WHY_FAILED,
          "a failure without a reason has one: %#x, %s", r.why, r.message);
    hr_image_release(&out);
    hr_device_close(&dev);

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .gate = true);
    dev = test_device("fake", 1, 0);
    s.out = out = image_of(dev, HR_U8, HR_MEMORY_HOST);
    job = hr_submit(dev, &s, 1, NULL, NULL);
    CHECK(test_reaches(&fake_counts.begun, 1), "begun");
    hr_job_cancel(job);
    fake_gate_open();
    CHECK(result_of(job).status == HR_ECANCELED, "cancelled");
    CHECK(hr_wait_all(dev, 20 * SECOND) == HR_OK, "%s", hr_last_error());
    hr_device_stats(dev, &stats);
    CHECK(stats.samples == 1 && stats.canceled == 1 && !stats.failed,
          "%llu cancelled, %llu failed", (unsigned long long)stats.canceled,
          (unsigned long long)stats.failed);
}

// ---- Parts of a batch -----------------------------------------------------

// Three slots with three pictures, read two by two and one by one, in pieces
// and while the job is still at work: a read has its turn behind the writer.
static void parts_of(enum hr_memory memory)
{
    static const int quality[] = {30, 60, 90};
    uint8_t mine[3 * SIZE], two[2 * SIZE];
    struct hr_sample s[3];
    struct bytes b[3];
    hr_device dev;
    hr_batch batch;
    hr_job job, read;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .gate = true, .memory = true,
               .copy_bytes = 700);
    dev = test_device("fake", 1, 0);
    batch = hr_batch_create(
        dev, hr_batch_params(.n = 3, .c = 3, .h = H, .w = W, .dtype = HR_U8,
                             .layout = HR_NHWC, .memory = memory));
    CHECK(batch, "%s", hr_last_error());
    for (int i = 0; i < 3; i++) {
        uint64_t seed = test_seed + (uint64_t)i;

        b[i] = test_jpeg_of(jpeg_ycc(.w = 60, .h = 50, .factors = {0x22},
                                     .quality = quality[i]),
                            &seed);
        s[i] = test_sample(&b[i], ops, 2);
    }
    memset(mine, 0x5c, sizeof(mine));
    job = hr_submit(dev, s, 3, batch, NULL);
    read = hr_transfer_begin(hr_transfer_params(.batch = batch, .n = 3,
                                                .to = mine,
                                                .size = sizeof(mine)),
                             NULL);
    CHECK(read && hr_job_poll(read, 50 * TEST_MS) == HR_PENDING,
          "read before it was written");
    fake_gate_open();
    CHECK(!result_of(read).status && !result_of(job).status, "%s",
          hr_last_error());
    CHECK(memcmp(mine, mine + SIZE, SIZE) && mine[5] != 0x5c, "they differ");
    CHECK(!hr_batch_read(batch, 1, 2, two, sizeof(two), 20 * SECOND) &&
              !memcmp(two, mine + SIZE, sizeof(two)),
          "the last two");
    // A turn is that of the slot, also where the job does not begin at 0.
    job = hr_submit(dev, s, 1, batch, hr_job_params(.first_slot = 2));
    read = hr_transfer_begin(hr_transfer_params(.batch = batch, .first = 2,
                                                .n = 1, .to = two,
                                                .size = SIZE),
                             NULL);
    CHECK(!result_of(read).status && !result_of(job).status, "%s",
          hr_last_error());
    CHECK(!memcmp(two, mine, SIZE), "read before it was written");
    job = hr_submit(dev, s + 2, 1, batch, hr_job_params(.first_slot = 2));
    result_of(job);
    CHECK(!hr_batch_read(batch, 2, 1, two, SIZE, 20 * SECOND) &&
              !memcmp(two, mine + 2 * SIZE, SIZE),
          "the last");
    hr_batch_destroy(&batch);
    hr_device_close(&dev);
    for (int i = 0; i < 3; i++)
        free(b[i].data);
}

TEST_CASE(parts)
{
    parts_of(HR_MEMORY_HOST);
    parts_of(HR_MEMORY_DEVICE);
}

int main(int argc, char **argv)
{
    uint64_t seed;

    test_begin();
    seed = test_seed;
    jpeg = test_jpeg(90, 70, &seed);
    return test_main(argc, argv);
}
