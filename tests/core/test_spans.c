// SPDX-License-Identifier: Apache-2.0
// hr_job_params.spans: a job may hold engines to some of their spans, and the
// CPU does the rest, to the same bytes.
#include "fake_engine.h"
#include "testing.h"

enum { SIDE = 24 };

static const struct hr_op ops[] = {
    {.type = HR_OP_DECODE},
    {.type = HR_OP_RESIZE, .resize = {.w = SIDE, .h = SIDE}},
    {.type = HR_OP_NORMALIZE, .normalize = {.std = {.5f, .25f, .125f}}},
};

// Makes the picture and compares it with what is at want, if there is that.
static uint32_t made(hr_device dev, const struct bytes *jpeg, uint32_t spans,
                     bool strict, enum hr_status status, float *want)
{
    struct hr_sample s = test_sample(jpeg, ops, 3);
    auto_batch out = hr_batch_create(
        dev, hr_batch_params(.n = 1, .c = 3, .h = SIDE, .w = SIDE));
    auto_job job = hr_submit(dev, &s, 1, out,
                             hr_job_params(.spans = spans, .strict = strict));
    uint32_t by_fake = 0;

    CU_ASSERT_EQUAL(hr_job_wait(job, HR_FOREVER), status);
    for (int i = 0; i < job->results[0].num_spans; i++) {
        const struct hr_span_result *r = &job->results[0].spans[i];

        if (!strcmp(r->device, "fake:0"))
            by_fake |= HR_SPAN_BIT(r->span.first, r->span.last);
    }
    if (want && !status)
        CHECK(!memcmp(want, out->params.data, out->size),
              "spans %x make other bytes", spans);
    return by_fake;
}

TEST_CASE(held_to_some)
{
    uint64_t seed = test_seed;
    auto_bytes jpeg = test_jpeg(61, 47, &seed);
    struct hr_sample s = test_sample(&jpeg, ops, 3);
    auto_device cpu = test_device("cpu", 1, 0), dev = NULL;
    auto_batch want = hr_batch_create(
        cpu, hr_batch_params(.n = 1, .c = 3, .h = SIDE, .w = SIDE));
    hr_job job = hr_submit(cpu, &s, 1, want, hr_job_params(.spans = FAKE_S));
    float *data = want->params.data;

    // The CPU is not held to anything.
    CU_ASSERT_EQUAL(hr_job_wait(job, HR_FOREVER), HR_OK);
    hr_job_release(&job);

    fake_reset_spans(FAKE_D | FAKE_DR | FAKE_DRS | FAKE_R | FAKE_RS | FAKE_S);
    dev = test_device("fake", 1, 0);
    CU_ASSERT_EQUAL(made(dev, &jpeg, 0, false, HR_OK, data), FAKE_DRS);
    CU_ASSERT_EQUAL(made(dev, &jpeg, FAKE_D, false, HR_OK, data), FAKE_D);
    CU_ASSERT_EQUAL(made(dev, &jpeg, FAKE_R, false, HR_OK, data), FAKE_R);
    CU_ASSERT_EQUAL(made(dev, &jpeg, FAKE_RS, true, HR_OK, data), FAKE_RS);
    CU_ASSERT_EQUAL(made(dev, &jpeg, FAKE_S, false, HR_OK, data), FAKE_S);
    CU_ASSERT_EQUAL(made(dev, &jpeg, FAKE_D | FAKE_S, false, HR_OK, data),
                    FAKE_D | FAKE_S);
    // An engine must not run a span that it does not offer.
    CU_ASSERT_EQUAL(made(dev, &jpeg, HR_SPAN_BIT(HR_COLOR, HR_COLOR), false,
                         HR_OK, data),
                    0);
    CU_ASSERT_EQUAL(made(dev, &jpeg, HR_SPAN_BIT(HR_COLOR, HR_COLOR), true,
                         HR_EUNSUPPORTED, data),
                    0);
}
