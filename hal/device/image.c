// SPDX-License-Identifier: Apache-2.0
// Images and batches: pixels with a queue of turns.
#include <stdio.h>
#include <string.h>

#include "hal/device/device.h"

// Lays out an image, or one picture of a batch: fills strides that are 0,
// checks the others. *size = bytes to the last element's end.
static bool image_layout(struct hr_image_params *p, size_t *size)
{
    size_t elem = hr_dtype_size(p->dtype), row, used;
    bool planar = p->layout == HR_NCHW;

    if (p->w < 1 || p->h < 1 || (p->c != 1 && p->c != 3) ||
        p->w > HR_MAX_SIDE || p->h > HR_MAX_SIDE ||
        (unsigned)p->dtype > HR_U8 || (unsigned)p->layout > HR_NHWC)
        return false;
    if (!planar)
        p->stride_c = 0;  // there is none, whatever the caller says
    row = (size_t)p->w * elem * (planar ? 1 : (size_t)p->c);
    if (!p->stride_h)
        p->stride_h = row;
    used = p->stride_h * (size_t)(p->h - 1) + row;
    if (planar && !p->stride_c)
        p->stride_c = p->stride_h * (size_t)p->h;
    if (p->stride_h < row || p->stride_h % elem ||
        p->stride_h > SIZE_MAX / 4 / HR_MAX_SIDE || (uintptr_t)p->data % elem)
        return false;
    if (!planar)
        return *size = used, true;
    // Planes may lie in any order that does not overlap: also row by row.
    if (p->stride_c % elem || p->stride_c > SIZE_MAX / 8 ||
        (p->c > 1 && p->stride_c < used &&
         (p->stride_c < row || p->stride_c * (size_t)p->c > p->stride_h)))
        return false;
    *size = used + p->stride_c * (size_t)(p->c - 1);
    return true;
}

// An image or a batch, all zero, that refers to its device. NULL: hr__fail()
// says why.
static void *object_of(struct hr__device *dev, size_t size)
{
    void *object = hr__alloc(dev, size);

    if (!object)
        return hr__fail(HR_ENOMEM, "out of memory"), NULL;
    atomic_fetch_add(&dev->refs, 1);
    return memset(object, 0, size);
}

static void free_object(void *object, void *heap, struct hr__memory *made,
                        struct hr__device *dev)
{
    hr__free(heap);
    if (made)
        made->owner->backend->memory_free(made->owner, made);
    hr__free(object);
    hr__device_unref(dev);
}

// The device's first engine that has memory of its own; NULL: none has.
static struct hr__engine *memory_owner(const struct hr__device *dev)
{
    for (int i = 0; i < dev->num_engines; i++)
        if (dev->engines[i]->backend->memory_alloc)
            return dev->engines[i];
    return NULL;
}

// The memory that params ask for, if it is not the caller's: *heap or *made,
// and *data of it.
static enum hr_status get_memory(struct hr__device *dev, enum hr_memory *kind,
                                 size_t size, bool clear, bool own_object,
                                 void **data, void **heap,
                                 struct hr__memory **made)
{
    struct hr__engine *e = *kind ? memory_owner(dev) : NULL;

    if (*data)
        return HR_OK;
    if (e) {
        *made = e->backend->memory_alloc(e, *kind, size, clear, own_object,
                                         hr__deadline(
                                             dev->pub.params.deadline_ns));
        if (!*made)
            return hr_last_status();
        return *data = (*made)->host, HR_OK;
    }
    *kind = HR_MEMORY_HOST;
    if (!(*heap = hr__alloc_clear(dev, size, data)))
        return hr__fail(HR_ENOMEM, "out of memory");
    return HR_OK;
}

static bool memory_valid(enum hr_memory memory, const void *data)
{
    return (unsigned)memory <= HR_MEMORY_DEVICE && !(memory && data);
}

// The reason is in hr_last_error(); says of what. Returns NULL.
static void *fail_of(const char *what, int w, int h, int c)
{
    char text[192];

    snprintf(text, sizeof(text), "%s", hr_last_error());
    hr__fail(hr_last_status(), "%s of %dx%dx%d: %s", what, w, h, c, text);
    return NULL;
}

hr_image hr__image_make(struct hr__device *dev,
                        const struct hr_image_params *params, bool clear)
{
    struct hr__image *image = NULL;
    struct hr_image_params p;
    size_t size;

    if (!params)
        return hr__fail(HR_EINVAL, "image: no params"), NULL;
    p = *params;
    if (!memory_valid(p.memory, p.data) || !image_layout(&p, &size))
        return hr__fail(HR_EINVAL,
                        "image of %dx%dx%d: size, type, memory or strides", p.w,
                        p.h, p.c),
               NULL;
    image = object_of(dev, sizeof(*image));
    if (!image || get_memory(dev, &p.memory, size, clear, false, &p.data,
                             &image->memory, &image->device)) {
        if (image)
            free_object(image, NULL, NULL, dev);
        return fail_of("image", p.w, p.h, p.c);
    }
    image->pub.params = p;
    image->pub.size = size;
    if (hr__on_device(image->device))
        image->pub.native = image->device->native;
    image->dev = dev;
    atomic_init(&image->refs, 1);
    hr__cond_init(&image->idle);
    return &image->pub;
}

hr_image hr__image_retain(hr_image handle)
{
    if (handle)
        atomic_fetch_add(&((struct hr__image *)handle)->refs, 1);
    return handle;
}

static void unref(struct hr__image *image)
{
    if (!image || atomic_fetch_sub(&image->refs, 1) != 1)
        return;
    if (image->pub.params.free_fn)
        image->pub.params.free_fn(image->pub.params.free_ctx);
    pthread_cond_destroy(&image->idle);
    free_object(image, image->memory, image->device, image->dev);
}

void hr_image_release(hr_image *handle)
{
    if (!handle)
        return;
    // The child of a fork has no business with the parent's memory.
    if (*handle && !hr__device_forked(((struct hr__image *)*handle)->dev))
        unref((struct hr__image *)*handle);
    *handle = NULL;
}

enum hr_status hr_image_wait(hr_image handle, int64_t timeout_ns)
{
    struct hr__image *image = (struct hr__image *)handle;
    int64_t end = hr__deadline(timeout_ns);
    enum hr_status status = HR_OK;

    if (!image)
        return hr__fail(HR_EINVAL, "no image");
    if (hr__device_forked(image->dev))
        return hr__fail(HR_EFORK, "image made before fork");
    hr__graph_lock();
    while (image->track.writers)
        if (!hr__graph_wait(&image->idle, end))
            break;
    status = image->track.writers   ? HR_ETIMEDOUT
             : image->track.dropped ? image->track.dropped
                                    : image->track.status;
    hr__graph_unlock();
    if (status)
        hr__fail(status, "image of %dx%d: %s", image->pub.params.w,
                 image->pub.params.h, hr_status_text(status));
    return status;
}

// ---- Batches ----------------------------------------------------------------

static bool batch_layout(struct hr_batch_params *p, size_t *size)
{
    struct hr_image_params first = {.w = p->w,
                                    .h = p->h,
                                    .c = p->c,
                                    .dtype = p->dtype,
                                    .layout = p->layout,
                                    .stride_c = p->stride_c,
                                    .stride_h = p->stride_h,
                                    .data = p->data};
    size_t one, rest, elem = hr_dtype_size(p->dtype);

    if (p->n < 1 || !image_layout(&first, &one))
        return false;
    p->stride_c = first.stride_c;
    p->stride_h = first.stride_h;
    if (!p->stride_n)
        p->stride_n = one;
    return p->stride_n >= one && p->stride_n % elem == 0 &&
           hr__mul(&rest, p->stride_n, (size_t)p->n - 1) &&
           rest <= SIZE_MAX / 2 && (*size = rest + one, true);
}

hr_batch hr__batch_make(struct hr__device *dev,
                        const struct hr_batch_params *params)
{
    struct hr__batch *batch = NULL;
    struct hr_batch_params p;
    size_t size, slots;

    if (!params)
        return hr__fail(HR_EINVAL, "batch: no params"), NULL;
    p = *params;
    if (!memory_valid(p.memory, p.data) || !batch_layout(&p, &size))
        return hr__fail(HR_EINVAL,
                        "batch of %dx%dx%dx%d: size, type, memory or strides",
                        p.n, p.c, p.h, p.w),
               NULL;
    slots = sizeof(batch->slots[0]) * (size_t)p.n;
    batch = object_of(dev, sizeof(*batch) + slots);
    if (!batch || get_memory(dev, &p.memory, size, true, true, &p.data,
                             &batch->memory, &batch->device)) {
        if (batch)
            free_object(batch, NULL, NULL, dev);
        return fail_of("batch", p.w, p.h, p.c);
    }
    batch->pub.params = p;
    batch->pub.size = size;
    if (hr__on_device(batch->device))
        batch->pub.native = batch->device->native;
    batch->dev = dev;
    atomic_init(&batch->refs, 1);
    return &batch->pub;
}

void hr__batch_unref(struct hr__batch *batch)
{
    if (batch && atomic_fetch_sub(&batch->refs, 1) == 1)
        free_object(batch, batch->memory, batch->device, batch->dev);
}

void hr_batch_destroy(hr_batch *handle)
{
    if (!handle)
        return;
    if (*handle && !hr__device_forked(((struct hr__batch *)*handle)->dev))
        hr__batch_unref((struct hr__batch *)*handle);
    *handle = NULL;
}
