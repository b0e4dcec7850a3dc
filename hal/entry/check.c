// SPDX-License-Identifier: Apache-2.0
// hr_device_check(): "can it?" with the arguments of "do it".
#include <string.h>

#include "hal/entry/entry.h"

// How the header's faults read as reasons.
static unsigned why_of(enum hr_status status)
{
    switch (status) {
    case HR_OK:
        return 0;
    case HR_EFORMAT:
        return HR_WHY_FORMAT;
    case HR_ELIMIT:
        return HR_WHY_SIZE;
    case HR_EUNSUPPORTED:
        return HR_WHY_PRECISION | HR_WHY_LOSSLESS;
    case HR_ENOMEM:
        return HR_WHY_MEMORY;
    default:
        return HR_WHY_DAMAGED;
    }
}

static unsigned probe(struct hr__device *dev, const struct hr_sample *s,
                      struct hr__picture *pic)
{
    const struct hr_limits *limits = &dev->pub.params.limits;
    // The engines look at the facts; that there are bytes is all they need.
    static const uint8_t some;
    unsigned why = why_of(s->path
                              ? hr_probe_path(s->path, limits, &pic->info)
                              : hr_probe(s->data, s->size, limits, &pic->info));

    pic->data = s->data ? s->data : &some;
    pic->size = s->size;
    pic->width = pic->info.width;
    pic->height = pic->info.height;
    pic->mode = s->ops[0].decode.mode;
    pic->channels = pic->mode == HR_GRAY ? 1 : 3;
    return why;
}

// Fills *pic; 0, or why no engine would take the sample.
static unsigned facts(struct hr__device *dev, const struct hr_sample *s,
                      struct hr__picture *pic)
{
    char text[128];
    unsigned why = 0;

    memset(pic, 0, sizeof(*pic));
    if (!s || !!s->data + !!s->path + !!s->image != 1)
        return HR_WHY_FORMAT;
    if (hr__ops_check(s->ops, s->num_ops, s->image ? s->image->params.c : 0,
                      text))
        return HR_WHY_GEOMETRY;
    pic->limits = &dev->pub.params.limits;
    if (s->image) {
        pic->image = s->image;
        pic->width = s->image->params.w;
        pic->height = s->image->params.h;
        pic->channels = s->image->params.c;
    } else {
        why = probe(dev, s, pic);
    }
    if (!why && hr__geometry_draw(&pic->geo, s->ops, s->num_ops, &s->random,
                                  hr_device_reference(&dev->pub), pic->width,
                                  pic->height, pic->info.orientation, text))
        why = HR_WHY_GEOMETRY;
    return why;
}

unsigned hr_device_check(hr_device handle, const struct hr_sample *sample)
{
    struct hr__device *dev = hr__device_get(handle);
    struct hr__offer offer = {0};
    struct hr__picture pic;

    if (!dev)
        return HR_WHY_FAILED;
    offer.why = facts(dev, sample, &pic);
    if (!offer.why)
        hr__device_offer(dev, 0, &pic, &offer);
    hr__device_unref(dev);
    return offer.spans ? 0 : offer.why ? offer.why : HR_WHY_SPAN;
}
