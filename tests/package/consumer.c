// SPDX-License-Identifier: Apache-2.0
// Links against an installed headrace and makes one tensor from pixels, to
// see that headers, library and their dependencies fit together.
#include <stdio.h>
#include <string.h>

#include <headrace/headrace.h>

#define FAIL(what)                                                    \
    do {                                                              \
        fprintf(stderr, "consumer: %s: %s\n", what, hr_last_error()); \
        return 1;                                                     \
    } while (0)

int main(void)
{
    char version[32];
    snprintf(version, sizeof(version), "%d.%d.%d", HR_VERSION_MAJOR,
             HR_VERSION_MINOR, HR_VERSION_PATCH);
    if (strcmp(version, hr_version()) != 0)
        FAIL("header and library differ in version");
    if (hr_set_image_backend("cpu") != HR_OK)
        FAIL("hr_set_image_backend");

    unsigned char pixels[4 * 4 * 3];
    memset(pixels, 255, sizeof(pixels));
    hr_image image = hr_image_create(
        NULL, hr_image_params(.w = 4, .h = 4, .c = 3, .layout = HR_NHWC,
                              .dtype = HR_U8, .data = pixels));
    hr_batch out = hr_batch_create(NULL, hr_batch_params(.n = 1, .c = 3, .h = 2,
                                                         .w = 2));
    if (!image || !out)
        FAIL("hr_image_create or hr_batch_create");

    const struct hr_op ops[] = {
        hr_op_resize(.w = 2, .h = 2),
        hr_op_normalize(.mean = {0.5f, 0.5f, 0.5f}, .std = {0.5f, 0.5f, 0.5f}),
    };
    struct hr_sample sample = {.image = image, .ops = ops, .num_ops = 2};
    hr_job job = hr_submit(NULL, &sample, 1, out, NULL);
    if (!job)
        FAIL("hr_submit");
    if (hr_job_wait(job, HR_FOREVER) != HR_OK)
        FAIL(job->results[0].message);

    const float *tensor = out->params.data;
    for (int i = 0; i < 3 * 2 * 2; i++)
        if (tensor[i] != 1.0f)
            FAIL("white did not become 1.0");
    hr_job_release(&job);
    hr_batch_destroy(&out);
    hr_image_release(&image);
    printf("headrace %s: white is 1.0\n", version);
    return 0;
}
