// SPDX-License-Identifier: Apache-2.0
// The smallest engine (examples/engine_minimal.c) is a whole one: it gets its
// certificate, and makes the bytes that the CPU makes in every tier.
#include "conformance.h"
#include "hal/engine/guard.h"

extern const struct hr__backend hr__backend_minimal;

TEST_CASE(conformance)
{
    auto_device dev = hr_device_open("minimal", hr_device_params(.threads = 2));

    CHECK(dev, "%s", hr_last_error());
    if (!dev)
        return;
    CHECK(dev->certificate.num_records == 1 && !strcmp(dev->name, "minimal"),
          "%d spans have a certificate", dev->certificate.num_records);
    // (It does the same in each tier: a sanitizer build looks at one.)
    for (int tier = 0; tier < test_loops(HR_FAST + 1); tier++) {
        struct conformance c = conformance_run(dev, (enum hr_tier)tier,
                                               test_seed);

        CHECK(c.by_device > c.samples * 2 / 3 && !c.different && !c.refused &&
                  !c.fallbacks,
              "tier %d: %d of %d by the device, %d refused, %d different", tier,
              c.by_device, c.samples, c.refused, c.different);
    }
}

// ---- The queue -------------------------------------------------------------

static const struct hr_op large[] = {hr_op_decode(0),
                                     hr_op_resize(.w = 4000, .h = 3000)};
static const struct hr_op little[] = {hr_op_decode(0),
                                      hr_op_resize(.w = 16, .h = 16)};

struct one {
    hr_batch out;
    hr_job job;
};

static void start(struct one *one, hr_device dev, const struct bytes *b,
                  const struct hr_op *ops)
{
    bool is_large = ops == large;
    struct hr_sample s = test_sample(b, ops, 2);

    one->out = hr_batch_create(
        dev, hr_batch_params(.n = 1, .c = 3, .h = is_large ? 3000 : 16,
                             .w = is_large ? 4000 : 16, .dtype = HR_U8));
    one->job = hr_submit(dev, &s, 1, one->out, NULL);
    CHECK(one->job, "%s", hr_last_error());
}

static enum hr_status end(struct one *one)
{
    enum hr_status status = hr_job_wait(one->job, INT64_C(60000000000));
    const struct hr_result *r = &one->job->results[0];

    CHECK(status ||
              (r->num_spans == 2 && !strcmp(r->spans[1].device, "minimal")),
          "another engine made it, why %#x", r->why);
    hr_job_release(&one->job);
    hr_batch_destroy(&one->out);
    return status;
}

// Waits until the engine has that task in its hands (NULL: any, which it says),
// and one in the queue, or none. False: it has let go of it meanwhile.
static bool reaches(struct hr__guard *g, struct hr__task **task, bool queued)
{
    bool ok = false, gone = false;

    while (!ok && !gone) {
        test_sleep(TEST_MS / 10);
        pthread_mutex_lock(&g->lock);
        *task = *task ? *task : g->in_hand;
        gone = *task && g->in_hand != *task;
        ok = *task && !gone && !g->head == !queued;
        pthread_mutex_unlock(&g->lock);
    }
    return ok;
}

// A cancelled task leaves the end of the queue; the next one is not lost.
static bool cancel_behind(hr_device dev, const struct bytes *b)
{
    struct hr__engine *e = ((struct hr__device *)dev)->engines[0];
    struct hr__guard *g = *(struct hr__guard **)e->priv;
    struct hr__task *task = NULL;
    struct one first, second, third;
    bool seen;

    start(&first, dev, b, large);
    seen = reaches(g, &task, false);
    start(&second, dev, b, little);
    seen = seen && reaches(g, &task, true);
    hr_job_cancel(second.job);
    seen = seen && reaches(g, &task, false);
    start(&third, dev, b, little);
    CHECK(!end(&third), "%s", hr_last_error());
    CHECK(end(&second) == HR_ECANCELED || !seen, "not cancelled");
    CHECK(!end(&first), "%s", hr_last_error());
    return seen;
}

TEST_CASE(cancelled)
{
    // The large picture takes long with a sanitizer and others beside it.
    auto_device dev = hr_device_open(
        "minimal",
        hr_device_params(.threads = 2, .deadline_ns = INT64_C(50000000000)));
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg(96, 64, &seed);
    int tries = 0;

    while (tries < 20 && !cancel_behind(dev, &b))
        tries++;
    CHECK(tries < 20, "it was never seen in the queue");
}

int main(int argc, char **argv)
{
    hr__registry_add(&hr__backend_minimal);
    return test_main(argc, argv);
}

// ---- Views ------------------------------------------------------------------

// Memory for the window of all views, but for no view beside it: each is made
// alone then, into the payload that it had. (A sanitizer sees one that is
// lost.)
TEST_CASE(views_without_memory)
{
    enum { VIEWS = 4, SIDE = 400 };
    const struct hr_op ops[] = {hr_op_decode(0),
                                hr_op_resize(.w = SIDE, .h = SIDE),
                                {.type = HR_OP_GAUSSIAN_BLUR,
                                 .gaussian_blur.sigma = {2, 2}}};
    uint64_t seed = test_seed, shared[2];
    auto_bytes file = test_jpeg(640, 480, &seed);

    for (int i = 0; i < 2; i++) {
        auto_device dev = hr_device_open(
            "minimal", hr_device_params(.threads = 1,
                                        .limits.item_bytes = i ? 1700000 : 0));
        auto_batch batch = hr_batch_create(
            dev, hr_batch_params(.n = VIEWS, .c = 3, .h = SIDE, .w = SIDE));
        struct hr_sample s[VIEWS];
        struct hr_stats stats;
        hr_job job;

        for (int v = 0; v < VIEWS; v++)
            s[v] = test_sample(&file, ops, 3);
        job = hr_submit(dev, s, VIEWS, batch, NULL);
        CHECK(job && hr_job_wait(job, HR_FOREVER) == HR_OK, "%s",
              hr_last_error());
        hr_job_release(&job);
        hr_device_stats(dev, &stats);
        shared[i] = stats.shared;
    }
    CHECK(shared[0] == VIEWS - 1 && shared[1] == 0, "%d, %d", (int)shared[0],
          (int)shared[1]);
}
