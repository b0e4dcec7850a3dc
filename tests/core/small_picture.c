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
