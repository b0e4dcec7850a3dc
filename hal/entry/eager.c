// SPDX-License-Identifier: Apache-2.0
// Ops at once: a job of one sample whose destination is a new image; and images
// moved to other memory.
#include "hal/entry/entry.h"

// The size of the source, and the channels of what is made of it.
static bool read_source(const struct hr_sample *s,
                        const struct hr_limits *limits, struct hr_info *info,
                        int *channels)
{
    if (s->image) {
        info->width = s->image->params.w;
        info->height = s->image->params.h;
        info->orientation = 1;
        *channels = hr_ops_channels(s->ops, s->num_ops, s->image->params.c);
        return true;
    }
    if (!s->data && !s->path)
        return hr__fail(HR_EINVAL, "no image"), false;
    *channels = hr_ops_channels(s->ops, s->num_ops, 3);
    return !(s->data ? hr_probe(s->data, s->size, limits, info)
                     : hr_probe_path(s->path, limits, info));
}

// The call makes nothing: it copies bytes.
static bool is_move(const struct hr_sample *s, const struct hr_image_params *as)
{
    return s->image && !s->num_ops && as &&
           as->dtype == s->image->params.dtype &&
           as->layout == s->image->params.layout;
}

static hr_image move(struct hr__device *dev, hr_image src,
                     enum hr_memory memory)
{
    struct hr__image *from = (struct hr__image *)src;
    struct hr_image_params p = src->params;
    hr_image out;

    if (hr__device_forked(from->dev))
        return hr__fail(HR_EFORK, "image made before fork"), NULL;
    if (from->device && from->dev != dev)
        return hr__fail(HR_EINVAL, "an image in memory of another device (%s)",
                        from->dev->pub.name),
               NULL;
    if (p.memory == memory)
        return hr__image_retain(src);
    p.memory = memory;
    p.data = NULL;
    p.free_fn = NULL;
    out = hr__image_make(dev, &p, false);
    if (out && !hr__move((struct hr__image *)out, from))
        hr_image_release(&out);
    return out;
}

static hr_image make(struct hr__device *dev, const struct hr_sample *sample,
                     const struct hr_image_params *as)
{
    struct hr_image_params to = {.dtype = HR_U8, .layout = HR_NHWC};
    struct hr_sample s = *sample;
    struct hr_info info = {0};
    hr_image out = NULL;
    hr_job job;

    if (read_source(&s, &dev->pub.params.limits, &info, &to.c) &&
        !hr_ops_output_size(s.ops, s.num_ops, info.width, info.height,
                            info.orientation, &to.w, &to.h)) {
        to.memory = s.image ? s.image->params.memory : HR_MEMORY_HOST;
        if (as) {
            to.dtype = as->dtype;
            to.layout = as->layout;
            to.memory = as->memory;
        }
        // Written whole, or cleared because that failed.
        out = hr__image_make(dev, &to, false);
    }
    if ((s.out = out)) {
        job = hr_submit(&dev->pub, &s, 1, NULL,
                        hr_job_params(.wait_for_room = true));
        if (!job)
            hr_image_release(&out);
        hr_job_release(&job);
    }
    return out;
}

hr_image hr_apply(hr_device handle, const struct hr_sample *sample,
                  const struct hr_image_params *as)
{
    // Held throughout: another thread may change the default device.
    struct hr__device *dev = hr__device_get(handle);
    hr_image out = NULL;

    if (dev)
        out = is_move(sample, as) ? move(dev, sample->image, as->memory)
                                  : make(dev, sample, as);
    hr__device_unref(dev);
    return out;
}
