// SPDX-License-Identifier: Apache-2.0
// hr_device_check(): "can it?" with the arguments of "do it".
#include <string.h>

#include "hal/hal.h"

static bool facts(struct hr__device *dev, const struct hr_sample *s,
                  struct hr__picture *pic)
{
    const struct hr_limits *limits = &dev->pub.params.limits;
    // The engines look at the facts; that there are bytes is all they need.
    static const uint8_t some;
    char text[128];

    memset(pic, 0, sizeof(*pic));
    pic->limits = limits;
    pic->channels = 3;
    if (s->image) {
        pic->image = s->image;
        pic->width = s->image->params.w;
        pic->height = s->image->params.h;
        pic->channels = s->image->params.c;
    } else {
        if (s->path ? hr_probe_path(s->path, limits, &pic->info)
                    : hr_probe(s->data, s->size, limits, &pic->info))
            return false;
        pic->data = s->data ? s->data : &some;
        pic->size = s->size;
        pic->width = pic->info.width;
        pic->height = pic->info.height;
        if (s->num_ops > 0 && s->ops[0].decode.mode == HR_GRAY)
            pic->channels = 1;
    }
    return !hr__geometry_build(&pic->geo, s->ops, s->num_ops, pic->width,
                               pic->height, pic->info.orientation, text);
}

unsigned hr_device_check(hr_device handle, const struct hr_sample *sample)
{
    struct hr__device *dev = hr__device_get(handle);
    struct hr__offer offer = {0};
    struct hr__picture pic;
    char text[128];

    if (!dev)
        return HR_WHY_FAILED;
    if (!sample ||
        hr__ops_check(sample->ops, sample->num_ops, !sample->image, text) ||
        !facts(dev, sample, &pic))
        offer.why = HR_WHY_FORMAT;
    else
        dev->engines[0]->backend->offer(dev->engines[0], &pic, &offer);
    hr__device_unref(dev);
    return offer.spans ? 0 : offer.why ? offer.why : HR_WHY_SPAN;
}
