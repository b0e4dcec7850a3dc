// SPDX-License-Identifier: Apache-2.0
// Pictures of their own sizes: each goes to an image of its own, over memory of
// the slot. A batch of them may be larger than any budget, so it is made in
// parts: as many samples as have their pictures in the slot's share of it, and
// at least one.
#include <limits.h>
#include <string.h>

#include "hal/engine/base.h"
#include "loader.h"

enum { ALIGN = 64 };

// ---- Sizes -----------------------------------------------------------------

static enum hr_status look(const struct hr__slot *slot, int j,
                           struct hr_info *info)
{
    const struct hr__loader *l = slot->loader;
    const struct hr_encoded *from = &slot->samples[j].from;
    hr_device dev = l->params.device;
    const struct hr_limits *limits = dev ? &dev->params.limits : NULL;
    char path[PATH_MAX];

    if (from->w) {
        *info = (struct hr_info){.width = from->w, .height = from->h};
        return HR_OK;
    }
    if (from->data)
        return hr_probe(from->data, from->size, limits, info);
    if (from->path)
        return hr_probe_path(from->path, limits, info);
    return hr_probe_path(hr_source_path(l->params.source, slot->indices[j],
                                        path, sizeof(path)),
                         limits, info);
}

// Pixels come without orientation and decode.
static void measure(struct hr__slot *slot, int j)
{
    const struct hr__loader *l = slot->loader;
    struct hr__loader_sample *sample = &slot->samples[j];
    int skip = sample->from.w > 0;
    struct hr_info info;

    sample->w = sample->h = 0;
    if (sample->status || look(slot, j, &info))
        return;
    if (hr_ops_output_size(l->views->ops + skip, l->views->num_ops - skip,
                           info.width, info.height, info.orientation,
                           &sample->w, &sample->h) < 0)
        sample->w = sample->h = 0;
}

// A sample whose size is not known gets one pixel: it will fail, with the
// reason.
static struct hr_image_params form(const struct hr__slot *slot, int j)
{
    const struct hr__loader *l = slot->loader;
    const struct hr__loader_sample *sample = &slot->samples[j];

    return (struct hr_image_params){
        .w = sample->w ? sample->w : 1,
        .h = sample->w ? sample->h : 1,
        .c = l->pub.c,
        .dtype = l->params.dtype,
        .layout = l->params.layout,
        .memory = l->params.memory,
    };
}

// (A side is at most HR_MAX_SIDE: this does not overflow.)
static size_t size_of(const struct hr__slot *slot, int j)
{
    struct hr_image_params p = form(slot, j);
    size_t size = hr_dtype_size(p.dtype) * (size_t)p.c * (size_t)p.w *
                  (size_t)p.h;

    return (size + ALIGN - 1) / ALIGN * ALIGN;
}

// ---- Parts -----------------------------------------------------------------

void hr__slot_next_part(struct hr__slot *slot)
{
    const struct hr__loader *l = slot->loader;

    slot->begin = slot->end;
    for (slot->need = 0; slot->end < slot->all; slot->end++) {
        size_t size = size_of(slot, slot->end);

        if (slot->end > slot->begin && size > l->batch_size - slot->need)
            break;
        slot->need += size;
        if (slot->need > l->batch_size) {
            slot->end++;
            break;
        }
    }
    slot->broken = HR_OK;
    slot->pub.n = slot->end - slot->begin;
    slot->pub.failed = 0;
    slot->pub.last = slot->is_last && slot->end == slot->all;
    slot->pub.through = slot->end == slot->all;
    slot->pub.classes = slot->classes + slot->begin;
    slot->pub.indices = slot->indices + slot->begin;
    slot->pub.keys = slot->keys + slot->begin;
    slot->pub.results = slot->results + slot->begin;
    slot->pub.images = slot->shown + slot->begin;
}

void hr__slot_measure(struct hr__slot *slot)
{
    struct hr__loader *l = slot->loader;

    for (int j = 0; j < slot->all; j++)
        measure(slot, j);
    pthread_mutex_lock(&l->lock);
    slot->end = 0;
    hr__slot_next_part(slot);
    pthread_mutex_unlock(&l->lock);
}

// Only one batch at a time may exceed its share: the next one to deliver, while
// the consumer has none.
bool hr__slot_may_begin(const struct hr__slot *slot)
{
    const struct hr__loader *l = slot->loader;

    return slot->need <= l->batch_size || (slot->seq == l->base && !l->held);
}

// ---- Images ----------------------------------------------------------------

static void count_memory(struct hr__slot *slot, size_t size)
{
    struct hr__loader *l = slot->loader;

    pthread_mutex_lock(&l->lock);
    l->stats.batch_bytes += size - slot->capacity;
    slot->capacity = size;
    pthread_mutex_unlock(&l->lock);
}

// Reserves the whole share at once: pages that are never touched take no
// memory.
static bool reserve(struct hr__slot *slot)
{
    size_t share = slot->loader->batch_size;
    size_t size = slot->need > share ? slot->need : share;

    if (slot->need <= slot->capacity)
        return true;
    hr__free(slot->memory);
    count_memory(slot, 0);
    // (Without a limit a share may be more than there is.)
    if (!(slot->memory = hr__alloc(NULL, size)) && size > slot->need)
        slot->memory = hr__alloc(NULL, size = slot->need);
    if (!slot->memory)
        return hr__fail(HR_ENOMEM, "no memory for %zu bytes of pictures", size),
               false;
    count_memory(slot, size);
    return true;
}

bool hr__slot_make_outs(struct hr__slot *slot)
{
    struct hr__loader *l = slot->loader;
    unsigned char *at = NULL;

    if (l->params.memory == HR_MEMORY_HOST) {
        if (!reserve(slot))
            return false;
        at = slot->memory;
    }
    for (int j = slot->begin; j < slot->end; j++) {
        struct hr_image_params params = form(slot, j);

        params.data = at;
        slot->outs[j] = hr_image_create(l->params.device, &params);
        if (!slot->outs[j])
            return false;
        slot->shown[j] = slot->samples[j].w ? slot->outs[j] : NULL;
        at += at ? size_of(slot, j) : 0;
    }
    return true;
}

void hr__slot_drop_outs(struct hr__slot *slot, bool all)
{
    const struct hr__loader *l = slot->loader;

    if (!slot->outs)
        return;
    for (int j = 0; j < l->pub.batch * l->num_views; j++)
        hr_image_release(&slot->outs[j]);
    for (int j = 0; slot->shown && j < l->pub.batch; j++)
        slot->shown[j] = NULL;
    if (!all && slot->capacity <= l->batch_size)
        return;
    hr__free(slot->memory);
    slot->memory = NULL;
    count_memory(slot, 0);
}
