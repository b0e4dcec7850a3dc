// SPDX-License-Identifier: Apache-2.0
#include "scene.h"

#include <poll.h>
#include <sys/eventfd.h>

enum { PATTERN = 0x5a };

// Made once per program.
static struct bytes files[SCENE_FILES];
static const char *paths[SCENE_FILES];
static int file_w[SCENE_FILES], file_h[SCENE_FILES];

static void make_files(void)
{
    static const struct jpeg_spec specs[SCENE_FILES] = {
        {.w = 120,
         .h = 80,
         .space = JCS_YCbCr,
         .factors = {0x22},
         .quality = 85},
        {.w = 97,
         .h = 131,
         .space = JCS_YCbCr,
         .factors = {0x11},
         .quality = 75},
        {.w = 64,
         .h = 64,
         .space = JCS_YCbCr,
         .factors = {0x21},
         .quality = 90,
         .progressive = true},
        {.w = 75, .h = 50, .space = JCS_GRAYSCALE, .quality = 85},
    };
    uint64_t seed = 1;

    if (paths[0])
        return;
    for (int i = 0; i < SCENE_FILES; i++) {
        files[i] = test_jpeg_of(&specs[i], &seed);
        paths[i] = test_file(&files[i], ".jpg");
        file_w[i] = specs[i].w;
        file_h[i] = specs[i].h;
    }
}

static int fill_ops(struct hr_op *ops, int i, bool encoded, bool codes, int w,
                    int h)
{
    const struct hr_op some[] = {
        {.type = HR_OP_ADJUST_CONTRAST, .adjust_contrast = {1.6}},
        {.type = HR_OP_ADJUST_HUE, .adjust_hue = {.21}},
        {.type = HR_OP_EQUALIZE},
        {.type = HR_OP_ADJUST_SHARPNESS, .adjust_sharpness = {1.7}},
        {.type = HR_OP_GAUSSIAN_BLUR, .gaussian_blur = {{1.1, .7}}}};
    int n = 0;

    if (encoded)
        ops[n++] = hr_op_decode(0);
    if (i % 3 != 2)
        ops[n++] = hr_op_crop(.x = i % 7, .y = i % 5, .w = w - 7 - i % 4,
                              .h = h - 6);
    ops[n++] = hr_op_resize(.w = SCENE_W, .h = SCENE_H,
                            .filter = (enum hr_filter)(i % HR_NUM_FILTERS));
    if (i % 2)
        ops[n++] = hr_op_flip(.horizontal = true);
    for (int k = 0; codes && k < 1 + i % 2; k++)
        ops[n++] = some[(i + k) % 5];
    ops[n++] = hr_op_normalize(.mean = {.485f, .456f, .406f},
                               .std = {.229f, .224f, .225f});
    if (codes)
        ops[n++] = (struct hr_op){
            .type = HR_OP_ERASE,
            .erase = {.x = i, .y = 2, .w = 9, .h = 30, .noise = i % 3}};
    return n;
}

static void fill_sample(struct scene *s, int i, enum scene_source source)
{
    struct hr_sample *to = &s->samples[i];
    int f = i % SCENE_FILES, w = file_w[f], h = file_h[f];
    uint64_t seed = (uint64_t)i + 7;

    s->codes = source == SCENE_CODES;
    if (source >= SCENE_MIXED)
        source = (enum scene_source)(i % 3);
    *to = (struct hr_sample){.ops = s->ops[i]};
    if (source == SCENE_BYTES) {
        to->data = files[f].data;
        to->size = files[f].size;
    } else if (source == SCENE_PATH) {
        to->path = paths[f];
    } else {
        to->image = test_image(s->dev, w, h, 3, &seed);
    }
    to->num_ops = fill_ops(s->ops[i], i, source != SCENE_IMAGE, s->codes, w, h);
}

static hr_batch make_batch(hr_device dev, int n)
{
    hr_batch b = hr_batch_create(
        dev, hr_batch_params(.n = n, .c = 3, .h = SCENE_H, .w = SCENE_W));

    if (!b)
        abort();
    return b;
}

// The result of sample i of every scene; it depends only on whether the sample
// is an image and has codes. Made once per program, for it takes more than most
// jobs do.
static uint8_t *known[SCENE_MAX][2][2];

static uint8_t **known_of(const struct scene *s, int i)
{
    return &known[i][s->codes][s->samples[i].image != NULL];
}

// The same samples on a device of their own, images copied there.
static void make_known(const struct scene *s)
{
    auto_device ref = test_reference();
    auto_batch out = make_batch(ref, s->n);
    struct hr_sample copy[SCENE_MAX];
    hr_job job;

    memcpy(copy, s->samples, sizeof(copy));
    for (int i = 0; i < s->n; i++) {
        hr_image from = copy[i].image;
        struct hr_image_params p;

        if (!from)
            continue;
        p = from->params;
        p.free_fn = NULL;
        copy[i].image = hr_image_create(ref, &p);
    }
    job = hr_submit(ref, copy, s->n, out, NULL);
    CHECK(job && hr_job_wait(job, HR_FOREVER) == HR_OK, "reference: %s",
          job ? job->results[0].message : hr_last_error());
    for (int i = 0; i < s->n; i++) {
        size_t size = out->params.stride_n;

        if (!*known_of(s, i))
            *known_of(s, i) =
                test_copy((uint8_t *)out->params.data + size * (size_t)i, size);
    }
    hr_job_release(&job);
    for (int i = 0; i < s->n; i++)
        if (s->samples[i].image)
            hr_image_release(&copy[i].image);
}

static void make_expected(struct scene *s)
{
    size_t size = s->out->params.stride_n;
    bool all = true;

    for (int i = 0; i < s->n; i++)
        all = all && *known_of(s, i);
    if (!all)
        make_known(s);
    s->expected = malloc(size * (size_t)s->n);
    if (!s->expected)
        abort();
    for (int i = 0; i < s->n; i++)
        memcpy(s->expected + size * (size_t)i, *known_of(s, i), size);
}

void scene_init(struct scene *s, hr_device dev, int n, enum scene_source source)
{
    make_files();
    memset(s, 0, sizeof(*s));
    s->dev = dev;
    s->n = n;
    for (int i = 0; i < n; i++)
        fill_sample(s, i, source);
    s->out = make_batch(dev, n);
    scene_fill(s);
    make_expected(s);
}

void scene_finish(struct scene *s)
{
    for (int i = 0; i < s->n; i++)
        hr_image_release(&s->samples[i].image);
    hr_batch_destroy(&s->out);
    free(s->expected);
    *s = (struct scene){0};  // a case without one may close its device, too
}

static size_t slot_size(const struct scene *s)
{
    return s->out->params.stride_n;
}

static uint8_t *slot(const struct scene *s, int i)
{
    return (uint8_t *)s->out->params.data + slot_size(s) * (size_t)i;
}

bool scene_right(const struct scene *s, int i)
{
    return !memcmp(slot(s, i), s->expected + slot_size(s) * (size_t)i,
                   slot_size(s));
}

static bool filled(const struct scene *s, int i, uint8_t with)
{
    for (size_t k = 0; k < slot_size(s); k++)
        if (slot(s, i)[k] != with)
            return false;
    return true;
}

bool scene_zero(const struct scene *s, int i)
{
    return filled(s, i, 0);
}

bool scene_kept(const struct scene *s, int i)
{
    return filled(s, i, PATTERN);
}

void scene_fill(struct scene *s)
{
    memset(s->out->params.data, PATTERN, s->out->size);
}

// ---- One job --------------------------------------------------------------

bool watch_submit(struct watched *w, struct scene *s,
                  const struct hr_job_params *params)
{
    struct hr_job_params p = params ? *params : (struct hr_job_params){0};

    memset(w, 0, sizeof(*w));
    w->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    p.on_done = test_on_done;
    p.ctx = &w->done;
    p.event_fd = w->event_fd;
    w->job = hr_submit(s->dev, s->samples, s->n, s->out, &p);
    if (w->job)
        return true;
    close(w->event_fd);
    return false;
}

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1 && (p.revents & POLLIN);
}

enum hr_status watch_wait(struct watched *w)
{
    // Asked for before the end or after it, as it comes.
    int fd = w->job->num_samples % 2 ? hr_job_fd(w->job) : -1;
    enum hr_status status = hr_job_wait(w->job, HR_FOREVER);
    uint64_t count = 0;

    CHECK(atomic_load(&w->done.calls) == 1, "%d callbacks before wait said so",
          atomic_load(&w->done.calls));
    CHECK(read(w->event_fd, &count, sizeof(count)) == sizeof(count) &&
              count == 1,
          "eventfd has %llu", (unsigned long long)count);
    CHECK(status != HR_PENDING && hr_job_poll(w->job, 0) == status,
          "poll after wait");
    CHECK((enum hr_status)atomic_load(&w->done.status) == status,
          "the callback polled %d, wait says %d", atomic_load(&w->done.status),
          status);
    if (fd < 0)
        fd = hr_job_fd(w->job);
    CHECK(readable(fd), "the job's fd is not readable");
    CHECK(hr_wait_all(w->job->device, HR_FOREVER) == HR_OK, "wait_all");
    CHECK(atomic_load(&w->done.calls) == 1, "called %d times",
          atomic_load(&w->done.calls));
    CHECK(read(w->event_fd, &count, sizeof(count)) < 0, "rung twice");
    return status;
}

void watch_finish(struct watched *w)
{
    hr_job_release(&w->job);
    close(w->event_fd);
}

// Spans cover first .. STORE in order; each by an engine of the device.
static bool covered(const struct hr_result *r, bool image)
{
    int next = image ? HR_RESAMPLE : HR_ENTROPY;

    for (int i = 0; i < r->num_spans; i++) {
        const struct hr_span_result *s = &r->spans[i];

        // (no picture here has ops of stage augment)
        if (next == HR_AUGMENT)
            next = HR_STORE;
        if ((int)s->span.first != next || s->span.last < s->span.first ||
            (strcmp(s->device, "cpu") && strcmp(s->device, "fake:0")))
            return false;
        next = s->span.last + 1;
    }
    return next == HR_NUM_STAGES;
}

int scene_check_results(const struct scene *s, hr_job job,
                        enum hr_on_error on_error)
{
    int ok = 0;

    for (int i = 0; i < s->n; i++) {
        const struct hr_result *r = &job->results[i];

        if (r->status == HR_OK) {
            CHECK(covered(r, s->samples[i].image), "sample %d: %d spans", i,
                  r->num_spans);
            CHECK(scene_right(s, i), "sample %d is not what it must be", i);
            CHECK(r->width > 0 && r->height > 0 && !r->message[0],
                  "sample %d: facts", i);
            ok++;
            continue;
        }
        CHECK(r->status < 0 && r->num_spans == 0 && r->message[0],
              "sample %d: status %d, %d spans, '%s'", i, r->status,
              r->num_spans, r->message);
        CHECK(on_error == HR_ON_ERROR_SKIP ? true : scene_zero(s, i),
              "sample %d failed, its slot is not clear", i);
    }
    return ok;
}

hr_image scene_blank(hr_device dev, int side)
{
    hr_image image = hr_image_create(
        dev, hr_image_params(.w = side, .h = side, .c = 3, .dtype = HR_U8,
                             .layout = HR_NHWC));

    if (!image)
        abort();
    return image;
}

hr_job scene_copy(hr_device dev, hr_image from, hr_image to,
                  const struct hr_op *op)
{
    struct hr_sample s = {
        .image = from, .ops = op, .num_ops = op ? 1 : 0, .out = to};
    hr_job job = hr_submit(dev, &s, 1, NULL,
                           hr_job_params(.wait_for_room = true));

    CHECK(job, "submit: %s", hr_last_error());
    return job;
}

void check_idle(hr_device dev)
{
    struct hr_stats stats;

    CHECK(hr_wait_all(dev, HR_FOREVER) == HR_OK, "wait_all");
    hr_device_stats(dev, &stats);
    CHECK(stats.bytes_in_flight == 0, "%zu bytes in flight",
          stats.bytes_in_flight);
}

// ---- A worker that is busy -------------------------------------------------

static atomic_int held, missed;
static atomic_bool let_go;

// (What is the user's must not wait on a worker; this plays a slow one.)
static void hold(void *ctx)
{
    (void)ctx;
    // The worker was so fast that the last reference was ours.
    if (!hr__on_library_thread()) {
        atomic_fetch_add(&missed, 1);
        return;
    }
    atomic_fetch_add(&held, 1);
    while (!atomic_load(&let_go))
        test_sleep(TEST_MS);
}

// The worker gives back the last reference to the source.
static hr_job hold_worker(hr_device dev, hr_image to)
{
    static uint8_t pixels[8 * 8 * 3];
    auto_image from =
        hr_image_create(dev, hr_image_params(.w = 8, .h = 8, .c = 3,
                                             .dtype = HR_U8, .layout = HR_NHWC,
                                             .data = pixels, .free_fn = hold));
    struct hr_sample s = {.image = from, .out = to};
    hr_job job = hr_submit(dev, &s, 1, NULL, NULL);

    CHECK(job, "%s", hr_last_error());
    return job;
}

hr_job scene_hold_worker(hr_device dev, hr_image to)
{
    hr_job job;

    atomic_store(&held, 0);
    atomic_store(&let_go, false);
    for (;;) {
        atomic_store(&missed, 0);
        job = hold_worker(dev, to);
        while (!atomic_load(&held) && !atomic_load(&missed))
            test_sleep(TEST_MS);
        if (atomic_load(&held))
            return job;
        hr_job_release(&job);
    }
}

void scene_let_go(void)
{
    atomic_store(&let_go, true);
}
