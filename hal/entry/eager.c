// SPDX-License-Identifier: Apache-2.0
// One op at a time: a job of one sample whose destination is a new image.
#include "hal/entry/entry.h"

static hr_image run(hr_device dev, const struct hr_sample *sample,
                    const struct hr_image_params *params)
{
    // Written whole, or cleared because that failed.
    hr_image out = hr__image_make((struct hr__device *)dev, params, false);
    struct hr_sample s = *sample;
    hr_job job;

    if (!out)
        return NULL;
    s.out = out;
    job = hr_submit(dev, &s, 1, NULL, hr_job_params(.wait_for_room = true));
    if (!job) {
        hr_image_release(&out);
        return NULL;
    }
    hr_job_release(&job);
    return out;
}

hr_image hr_decode(hr_device handle, const void *data, size_t size,
                   const struct hr_decode *params)
{
    return hr_decode_to(handle, data, size, params, HR_MEMORY_HOST);
}

hr_image hr_decode_to(hr_device handle, const void *data, size_t size,
                      const struct hr_decode *params, enum hr_memory memory)
{
    // Held throughout: another thread may change the default device.
    struct hr__device *dev = hr__device_get(handle);
    hr_image out = NULL;
    struct hr_op op = {.type = HR_OP_DECODE};
    struct hr_sample s = {.data = data, .size = size, .ops = &op, .num_ops = 1};
    struct hr_info info;
    int w, h;

    if (params)
        op.decode = *params;
    if (dev && !hr_probe(data, size, &dev->pub.params.limits, &info) &&
        !hr_ops_output_size(&op, 1, info.width, info.height, info.orientation,
                            &w, &h))
        out = run(&dev->pub, &s,
                  hr_image_params(.w = w, .h = h,
                                  .c = op.decode.mode == HR_GRAY ? 1 : 3,
                                  .dtype = HR_U8, .layout = HR_NHWC,
                                  .memory = memory));
    hr__device_unref(dev);
    return out;
}

// From an image by one op to a new one of the same channels, beside it.
static hr_image step(hr_device handle, hr_image src, const struct hr_op *op,
                     enum hr_dtype dtype, enum hr_layout layout)
{
    struct hr__device *dev;
    hr_image out;
    struct hr_sample s = {.image = src, .ops = op, .num_ops = 1};
    int w, h;

    if (!src) {
        hr__fail(HR_EINVAL, "no image");
        return NULL;
    }
    if (hr_ops_output_size(op, 1, src->params.w, src->params.h, 1, &w, &h))
        return NULL;
    if (!(dev = hr__device_get(handle)))
        return NULL;
    out = run(&dev->pub, &s,
              hr_image_params(.w = w, .h = h, .c = src->params.c,
                              .dtype = dtype, .layout = layout,
                              .memory = src->params.memory));
    hr__device_unref(dev);
    return out;
}

hr_image hr_crop(hr_device dev, hr_image src, const struct hr_crop *params)
{
    struct hr_op op = {.type = HR_OP_CROP};

    if (params)
        op.crop = *params;
    return step(dev, src, &op, HR_U8, HR_NHWC);
}

hr_image hr_resize(hr_device dev, hr_image src, const struct hr_resize *params)
{
    struct hr_op op = {.type = HR_OP_RESIZE};

    if (params)
        op.resize = *params;
    return step(dev, src, &op, HR_U8, HR_NHWC);
}

hr_image hr_fit(hr_device dev, hr_image src, const struct hr_fit *params)
{
    struct hr_op op = {.type = HR_OP_FIT};

    if (params)
        op.fit = *params;
    return step(dev, src, &op, HR_U8, HR_NHWC);
}

hr_image hr_flip(hr_device dev, hr_image src, const struct hr_flip *params)
{
    struct hr_op op = {.type = HR_OP_FLIP};

    if (params)
        op.flip = *params;
    return step(dev, src, &op, HR_U8, HR_NHWC);
}

hr_image hr_normalize(hr_device dev, hr_image src,
                      const struct hr_normalize *params, enum hr_dtype dtype,
                      enum hr_layout layout)
{
    struct hr_op op = {.type = HR_OP_NORMALIZE};

    if (params)
        op.normalize = *params;
    return step(dev, src, &op, dtype, layout);
}
