// SPDX-License-Identifier: Apache-2.0
#include "small_picture.h"

const struct hr_op small_ops[3] = {
    HR_OP_DECODE(.mode = HR_RGB),
    HR_OP_CROP(.x = 21, .y = 18, .w = 120, .h = 90),
    HR_OP_RESIZE(.w = SMALL_W, .h = SMALL_H),
};

struct hr_sample small_sample(const struct bytes *b)
{
    return test_sample(b, small_ops, 3);
}

uint8_t *small_make(hr_device dev, struct hr_sample s, struct hr_result *r)
{
    uint8_t *to = calloc(1, SMALL_BYTES);
    auto_image out =
        hr_image_create(dev, hr_image_params(.w = SMALL_W, .h = SMALL_H, .c = 3,
                                             .dtype = HR_U8, .data = to));
    auto_job job = NULL;

    s.out = out;
    job = hr_submit(dev, &s, 1, NULL, NULL);
    CU_ASSERT_FATAL(job != NULL);
    hr_job_wait(job, HR_FOREVER);
    *r = job->results[0];
    return to;
}

const struct small_kind small_kinds[SMALL_KINDS] = {
    {"4:2:0", {.space = JCS_YCbCr, .factors = {0x22}}, true},
    {"4:4:4", {.space = JCS_YCbCr}, true},
    {"4:2:2, restarts",
     {.space = JCS_YCbCr, .factors = {0x21}, .restart = 3},
     true},
    {"4:4:0", {.space = JCS_YCbCr, .factors = {0x12}}, true},
    {"grey", {.space = JCS_GRAYSCALE}, true},
    {"grey, 2x2", {.space = JCS_GRAYSCALE, .factors = {0x22}}, true},
    {"RGB", {.space = JCS_RGB}, true},
    {"progressive",
     {.space = JCS_YCbCr, .factors = {0x22}, .progressive = true},
     true},
    {"arithmetic", {.space = JCS_YCbCr, .arithmetic = true}, true},
    {"a scan each",
     {.space = JCS_YCbCr, .factors = {0x22}, .separate = true},
     true},
    {"scans missing",
     {.space = JCS_YCbCr, .progressive = true, .partial = true},
     false},
    {"CMYK", {.space = JCS_CMYK}, false},
};

struct bytes small_of_kind(size_t i, uint64_t *seed)
{
    struct jpeg_spec spec = small_kinds[i].spec;

    spec.w = 181;
    spec.h = 143;
    spec.quality = 85;
    return test_jpeg_of(&spec, seed);
}

bool small_from_cache(const struct hr_result *r)
{
    return r->num_spans > 1 && !strcmp(r->spans[0].device, "cache") &&
           r->spans[0].span.first == HR_ENTROPY &&
           r->spans[0].span.last == HR_ENTROPY &&
           r->spans[1].span.first == HR_RECONSTRUCT;
}

bool small_same(hr_device dev, const struct hr_sample *s,
                struct hr_result *result)
{
    static hr_device plain;
    struct hr_sample bare = *s;
    struct hr_result want;
    uint8_t *a, *b;
    bool ok;

    plain = test_device("cpu", 1, 0);
    bare.cache = NULL;
    a = small_make(plain, bare, &want);
    b = small_make(dev, *s, result);
    ok = want.status == result->status && !memcmp(a, b, SMALL_BYTES) &&
         want.warnings == result->warnings && want.width == result->width &&
         want.orientation == result->orientation &&
         !strcmp(want.message, result->message);
    free(a);
    free(b);
    hr_device_close(&plain);
    return ok;
}
