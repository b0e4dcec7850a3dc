// SPDX-License-Identifier: Apache-2.0
// A sample whose source is small and whose result is large ends early between
// the rows that it makes, too: by its job's timeout, by its own time limit, and
// when it is cancelled.
#include "scene.h"

enum { BIG = TEST_SANITIZED ? 4000 : 12000, NUM_KINDS = 4 };

static const struct kind {
    const char *name;
    bool whole, slow;  // may be made whole here; takes longer than a watchdog
    int num_ops;
    struct hr_op ops[2];
} kinds[NUM_KINDS] = {
    {"enlarged",
     true,
     true,
     1,
     {{.type = HR_OP_RESIZE, .resize = {.w = BIG, .h = BIG}}}},
    {"with margins",
     true,
     false,
     1,
     {{.type = HR_OP_CROP,
       .crop =
           {.x = -BIG / 2, .y = -BIG / 2, .w = BIG, .h = BIG, .pad = true}}}},
    {"all margin",
     true,
     false,
     1,
     {{.type = HR_OP_CROP,
       .crop = {.x = 100, .y = 100, .w = BIG, .h = BIG, .pad = true}}}},
    {"turned",
     false,
     true,
     2,
     {{.type = HR_OP_RESIZE, .resize = {.w = BIG, .h = BIG}},
      {.type = HR_OP_FLIP, .flip = {.transpose = true}}}},
};

static hr_image gray(hr_device dev, int side)
{
    hr_image image = hr_image_create(
        dev, hr_image_params(.w = side, .h = side, .c = 1, .dtype = HR_U8));

    if (!image)
        abort();
    return image;
}

static hr_job begin(hr_device dev, const struct kind *k, hr_image from,
                    hr_image to, int64_t timeout_ns)
{
    struct hr_sample s = {
        .image = from, .ops = k->ops, .num_ops = k->num_ops, .out = to};
    hr_job job = hr_submit(dev, &s, 1, NULL,
                           hr_job_params(.timeout_ns = timeout_ns,
                                         .on_error = HR_ON_ERROR_SKIP,
                                         .wait_for_room = true));

    CHECK(job, "%s: %s", k->name, hr_last_error());
    return job;
}

// One try; how long it took.
static enum hr_status end(hr_device dev, const struct kind *k, hr_image to,
                          int64_t timeout_ns, bool cancel, int64_t *took)
{
    auto_image from = gray(dev, 4);
    int64_t at = hr__now();
    auto_job job = begin(dev, k, from, to, timeout_ns);
    enum hr_status status;

    if (cancel) {
        test_sleep(5 * TEST_MS);
        hr_job_cancel(job);
    }
    hr_job_wait(job, HR_FOREVER);
    status = job->results[0].status;
    *took = hr__now() - at;
    printf(" %s after %d ms", hr_status_name(status), (int)(*took / TEST_MS));
    return status;
}

// A fast machine makes one whole in 11 ms, and on a busy one neither we nor the
// watchdog may run in that time: then once more. A timeout is to be seen soon
// five times, for one may be seen by chance. (Rows are made in less than a
// millisecond, unless they are turned.)
static void ends(hr_device dev, const struct kind *k, hr_image to,
                 int64_t timeout_ns, enum hr_status how)
{
    const bool soon = how == HR_ETIMEDOUT && k->whole;
    const int most = how == HR_OK ? 1 : 100, must = soon ? 5 : 1;
    enum hr_status status = HR_OK;
    int seen = 0;

    for (int i = 0; i < most && seen < must; i++) {
        int64_t took;

        status = end(dev, k, to, timeout_ns, how == HR_ECANCELED, &took);
        seen += status == how && !(soon && took > 15 * TEST_MS);
    }
    CHECK(seen == must, "%s: %s, %s %d times, not %d", k->name,
          hr_status_name(status), hr_status_name(how), seen, must);
}

TEST_CASE(between_rows)
{
    auto_device dev = test_device("cpu", 1, (size_t)4 << 30);
    auto_device hasty = hr_device_open(
        "cpu", hr_device_params(.threads = 1, .budget = (size_t)4 << 30,
                                .limits = {.item_ms = 1}));
    auto_image to = gray(dev, BIG);

    for (int i = 0; i < NUM_KINDS; i++) {
        const struct kind *k = &kinds[i];

        printf("\n  %-12s", k->name);
        if (k->whole)
            ends(dev, k, to, 0, HR_OK);
        if (k->slow) {
            ends(dev, k, to, 2 * TEST_MS, HR_ETIMEDOUT);
            ends(dev, k, to, 0, HR_ECANCELED);
        }
        ends(hasty, k, to, 0, HR_ELIMIT);
    }
}
