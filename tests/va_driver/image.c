// SPDX-License-Identifier: Apache-2.0
// Images and buffers, which clients map.
#include <stdlib.h>
#include <string.h>

#include "calls.h"

enum { MAX_BUFFER = 256 << 20 };

uint32_t said_fourcc(const struct display *d, uint32_t fourcc)
{
    bool fake = d->person.flags & PERSON_FAKE_YUYV;

    return fake && fourcc == VA_FOURCC_YUY2 ? (uint32_t)YUYV : fourcc;
}

// ---- buffers ----------------------------------------------------------------

void buffer_free(struct buffer *b)
{
    if (b->memory)
        memory_unref(b->memory);
    else
        free(b->bytes);
    free(b);
}

VAStatus call_CreateBuffer(VADriverContextP ctx, VAContextID context,
                           VABufferType type, unsigned size, unsigned n,
                           void *data, VABufferID *id)
{
    struct display *d = display_of(ctx);
    struct buffer *b = NULL;
    VAStatus status = VA_STATUS_SUCCESS;

    if (!id)
        return VA_STATUS_ERROR_INVALID_PARAMETER;
    *id = VA_INVALID_ID;
    if (type < 0 || type >= VABufferTypeMax)
        return VA_STATUS_ERROR_UNSUPPORTED_BUFFERTYPE;
    if (!size || !n || (uint64_t)size * n > MAX_BUFFER)
        return VA_STATUS_ERROR_ALLOCATION_FAILED;
    pthread_mutex_lock(&d->lock);
    if (!object_get(d, KIND_CONTEXT, context)) {
        status = VA_STATUS_ERROR_INVALID_CONTEXT;
        goto out;
    }
    status = VA_STATUS_ERROR_ALLOCATION_FAILED;
    b = calloc(1, sizeof(*b));
    if (!b || !(b->bytes = calloc(n, size)))
        goto out;
    b->type = type;
    b->size = size;
    b->elements = n;
    b->surface = VA_INVALID_ID;
    if (data)
        memcpy(b->bytes, data, (size_t)size * n);
    *id = object_add(d, KIND_BUFFER, b);
    if (*id != VA_INVALID_ID)
        status = VA_STATUS_SUCCESS;
out:
    if (status != VA_STATUS_SUCCESS && b)
        buffer_free(b);
    pthread_mutex_unlock(&d->lock);
    return status;
}

VAStatus call_BufferSetNumElements(VADriverContextP ctx, VABufferID id,
                                   unsigned n)
{
    struct display *d = display_of(ctx);
    VAStatus status = VA_STATUS_SUCCESS;
    struct buffer *b;

    pthread_mutex_lock(&d->lock);
    b = object_get(d, KIND_BUFFER, id);
    if (!b)
        status = VA_STATUS_ERROR_INVALID_BUFFER;
    else if (b->memory || !n || n > b->elements)
        status = VA_STATUS_ERROR_INVALID_PARAMETER;
    else
        b->elements = n;
    pthread_mutex_unlock(&d->lock);
    return status;
}

VAStatus call_MapBuffer(VADriverContextP ctx, VABufferID id, void **to)
{
    struct display *d = display_of(ctx);
    struct surface *s;
    struct buffer *b;

    if (!to)
        return VA_STATUS_ERROR_INVALID_PARAMETER;
    pthread_mutex_lock(&d->lock);
    b = object_get(d, KIND_BUFFER, id);
    if (b) {
        b->maps++;
        *to = b->bytes;
        s = object_peek(d, KIND_SURFACE, b->surface);
        if (s)
            surface_wait(d, s);
    }
    pthread_mutex_unlock(&d->lock);
    return b ? VA_STATUS_SUCCESS : VA_STATUS_ERROR_INVALID_BUFFER;
}

VAStatus call_UnmapBuffer(VADriverContextP ctx, VABufferID id)
{
    struct display *d = display_of(ctx);
    VAStatus status = VA_STATUS_SUCCESS;
    struct buffer *b;

    pthread_mutex_lock(&d->lock);
    b = object_get(d, KIND_BUFFER, id);
    if (!b)
        status = VA_STATUS_ERROR_INVALID_BUFFER;
    else if (b->maps > 0)
        b->maps--;
    else
        status = VA_STATUS_ERROR_OPERATION_FAILED;
    pthread_mutex_unlock(&d->lock);
    return status;
}

VAStatus call_DestroyBuffer(VADriverContextP ctx, VABufferID id)
{
    struct display *d = display_of(ctx);
    struct buffer *b;

    pthread_mutex_lock(&d->lock);
    b = object_take(d, KIND_BUFFER, id);
    if (b)
        buffer_free(b);
    pthread_mutex_unlock(&d->lock);
    return b ? VA_STATUS_SUCCESS : VA_STATUS_ERROR_INVALID_BUFFER;
}

// ---- images -----------------------------------------------------------------

static VAImageFormat image_format(uint32_t fourcc)
{
    const struct format *f = format_of(fourcc);
    VAImageFormat to = {.fourcc = fourcc, .byte_order = VA_LSB_FIRST};

    for (int i = 0; i < f->num_planes; i++)
        to.bits_per_pixel += (uint32_t)(f->planes[i].bytes * 8 >>
                                        f->planes[i].xs >> f->planes[i].ys);
    if (f->rgb && f->num_planes == 1) {
        to.depth = 32;
        to.red_mask = 0xffu << 8 * f->components[0].offset;
        to.green_mask = 0xffu << 8 * f->components[1].offset;
        to.blue_mask = 0xffu << 8 * f->components[2].offset;
        to.alpha_mask = 0xffu << 8 * f->components[3].offset;
        if (fourcc == VA_FOURCC_RGBX || fourcc == VA_FOURCC_BGRX) {
            to.depth = 24;
            to.alpha_mask = 0;
        }
    }
    return to;
}

VAStatus call_QueryImageFormats(VADriverContextP ctx, VAImageFormat *to, int *n)
{
    struct display *d = display_of(ctx);
    const uint32_t *list = d->person.image_fourccs;

    if (!to || !n)
        return VA_STATUS_ERROR_INVALID_PARAMETER;
    for (*n = 0; *n < MAX_FOURCCS && list[*n]; ++*n)
        to[*n] = image_format(list[*n]);
    return VA_STATUS_SUCCESS;
}

// An image of the memory, with a buffer of its own. Takes the reference.
static VAStatus image_add(struct display *d, struct memory *m, int w, int h,
                          VASurfaceID surface, VAImage *to)
{
    const struct layout *l = &m->layout;
    struct image *image = calloc(1, sizeof(*image));
    struct buffer *b = calloc(1, sizeof(*b));

    if (!image || !b)
        goto error;
    image->memory = m;
    image->va = (VAImage){.format = image_format(l->format->fourcc),
                          .width = (uint16_t)w,
                          .height = (uint16_t)h,
                          .data_size = (uint32_t)l->size,
                          .num_planes = (uint32_t)l->format->num_planes};
    memcpy(image->va.pitches, l->pitch, sizeof(l->pitch));
    memcpy(image->va.offsets, l->offset, sizeof(l->offset));
    *b = (struct buffer){VAImageBufferType, (unsigned)l->size, 1, m->bytes,
                         memory_ref(m),     surface,           0};
    image->va.buf = object_add(d, KIND_BUFFER, b);
    image->va.image_id = object_add(d, KIND_IMAGE, image);
    if (image->va.buf != VA_INVALID_ID && image->va.image_id != VA_INVALID_ID) {
        *to = image->va;
        return VA_STATUS_SUCCESS;
    }
    if (image->va.buf != VA_INVALID_ID)
        object_take(d, KIND_BUFFER, image->va.buf);
    memory_unref(m);
error:
    memory_unref(m);
    free(image);
    free(b);
    return VA_STATUS_ERROR_ALLOCATION_FAILED;
}

VAStatus call_CreateImage(VADriverContextP ctx, VAImageFormat *format, int w,
                          int h, VAImage *to)
{
    struct display *d = display_of(ctx);
    const struct format *f;
    struct layout l;
    struct memory *m;
    VAStatus status;
    int wide, high;

    if (!format || !to)
        return VA_STATUS_ERROR_INVALID_PARAMETER;
    to->image_id = to->buf = VA_INVALID_ID;
    f = format_of(format->fourcc == YUYV ? (uint32_t)VA_FOURCC_YUY2
                                         : format->fourcc);
    if (!f || !lists(d->person.image_fourccs, f->fourcc))
        return VA_STATUS_ERROR_INVALID_IMAGE_FORMAT;
    if (w < 1 || h < 1 || w > 65535 || h > 65535)
        return VA_STATUS_ERROR_INVALID_PARAMETER;
    // Room for whole chroma samples, or as surfaces are.
    wide = d->person.flags & PERSON_LIKE_DERIVED ? d->person.align : 4;
    high = d->person.flags & PERSON_LIKE_DERIVED ? d->person.align : 2;
    layout_make(&l, f, (w + wide - 1) / wide * wide,
                (h + high - 1) / high * high, (uint32_t)d->options.pitch, 0);
    m = memory_create(&l, false);
    if (!m)
        return VA_STATUS_ERROR_ALLOCATION_FAILED;
    pthread_mutex_lock(&d->lock);
    status = image_add(d, m, w, h, VA_INVALID_ID, to);
    pthread_mutex_unlock(&d->lock);
    return status;
}

VAStatus call_DeriveImage(VADriverContextP ctx, VASurfaceID id, VAImage *to)
{
    struct display *d = display_of(ctx);
    VAStatus status = VA_STATUS_ERROR_INVALID_SURFACE;
    struct surface *s;

    if (!to)
        return VA_STATUS_ERROR_INVALID_PARAMETER;
    to->image_id = to->buf = VA_INVALID_ID;
    pthread_mutex_lock(&d->lock);
    s = object_get(d, KIND_SURFACE, id);
    // Its layout may be the last picture's doing.
    if (s && (d->person.flags & (PERSON_RESHAPE | PERSON_444)))
        surface_wait(d, s);
    if (s && s->memory->modifier)
        status = VA_STATUS_ERROR_OPERATION_FAILED;
    else if (s)
        status = image_add(d, memory_ref(s->memory), s->width, s->height, id,
                           to);
    if (status == VA_STATUS_SUCCESS)
        to->format.fourcc = said_fourcc(d, to->format.fourcc);
    pthread_mutex_unlock(&d->lock);
    return status;
}

VAStatus image_destroy(struct display *d, VAImageID id)
{
    struct image *image = object_take(d, KIND_IMAGE, id);
    struct buffer *b;

    if (!image)
        return VA_STATUS_ERROR_INVALID_IMAGE;
    b = object_take(d, KIND_BUFFER, image->va.buf);
    if (b)
        buffer_free(b);
    memory_unref(image->memory);
    free(image);
    return VA_STATUS_SUCCESS;
}

VAStatus call_DestroyImage(VADriverContextP ctx, VAImageID id)
{
    struct display *d = display_of(ctx);
    VAStatus status;

    pthread_mutex_lock(&d->lock);
    status = image_destroy(d, id);
    pthread_mutex_unlock(&d->lock);
    return status;
}

// ---- between surfaces and images --------------------------------------------

// Some drivers convert little or nothing.
static bool converts(const struct personality *p, uint32_t from, uint32_t to)
{
    if (from == to)
        return true;
    if ((p->flags & PERSON_CONVERT_420) &&
        format_of(from)->rt == VA_RT_FORMAT_YUV420 &&
        format_of(to)->rt == VA_RT_FORMAT_YUV420)
        return true;
    if (p->flags & PERSON_NO_CONVERT)
        return false;
    if (p->flags & PERSON_CONVERT_NV12)
        return from == VA_FOURCC_NV12 &&
               (to == VA_FOURCC_I420 || to == VA_FOURCC_YV12);
    return true;
}

static bool inside(int x, int y, unsigned w, unsigned h, int width, int height)
{
    return x >= 0 && y >= 0 && w > 0 && h > 0 && x <= width && y <= height &&
           w <= (unsigned)(width - x) && h <= (unsigned)(height - y);
}

// A copy and its direction. The pixels are touched without the lock.
struct transfer {
    struct memory *surface, *image;
    uint32_t surface_fourcc, image_fourcc;
    int width, height, image_width, image_height;
};

// Both, with nothing under way on the surface.
static VAStatus transfer_begin(struct display *d, VASurfaceID sid,
                               VAImageID iid, struct transfer *t)
{
    VAStatus status = VA_STATUS_ERROR_INVALID_SURFACE;
    struct surface *s;
    struct image *image;

    pthread_mutex_lock(&d->lock);
    s = object_get(d, KIND_SURFACE, sid);
    if (s) {
        surface_wait(d, s);
        status = VA_STATUS_ERROR_INVALID_IMAGE;
    }
    image = s ? object_get(d, KIND_IMAGE, iid) : NULL;
    if (image) {
        *t = (struct transfer){memory_ref(s->memory),
                               memory_ref(image->memory),
                               s->fourcc,
                               image->memory->layout.format->fourcc,
                               s->width,
                               s->height,
                               image->va.width,
                               image->va.height};
        status = VA_STATUS_SUCCESS;
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}

static void transfer_end(struct transfer *t)
{
    memory_unref(t->surface);
    memory_unref(t->image);
}

VAStatus call_GetImage(VADriverContextP ctx, VASurfaceID sid, int x, int y,
                       unsigned w, unsigned h, VAImageID iid)
{
    struct display *d = display_of(ctx);
    struct transfer t;
    VAStatus status = transfer_begin(d, sid, iid, &t);

    if (status != VA_STATUS_SUCCESS)
        return status;
    if (!inside(x, y, w, h, t.width, t.height) || w > (unsigned)t.image_width ||
        h > (unsigned)t.image_height)
        status = VA_STATUS_ERROR_INVALID_PARAMETER;
    else if (!converts(&d->person, t.surface_fourcc, t.image_fourcc) ||
             !memory_copy(t.image, 0, 0, t.surface, x, y, (int)w, (int)h))
        status = VA_STATUS_ERROR_OPERATION_FAILED;
    transfer_end(&t);
    return status;
}

VAStatus call_PutImage(VADriverContextP ctx, VASurfaceID sid, VAImageID iid,
                       int x, int y, unsigned w, unsigned h, int to_x, int to_y,
                       unsigned to_w, unsigned to_h)
{
    struct display *d = display_of(ctx);
    struct transfer t;
    VAStatus status = transfer_begin(d, sid, iid, &t);

    if (status != VA_STATUS_SUCCESS)
        return status;
    if (!inside(x, y, w, h, t.image_width, t.image_height) ||
        !inside(to_x, to_y, to_w, to_h, t.width, t.height) || w != to_w ||
        h != to_h)
        status = VA_STATUS_ERROR_INVALID_PARAMETER;
    else if (!converts(&d->person, t.image_fourcc, t.surface_fourcc) ||
             !memory_copy(t.surface, to_x, to_y, t.image, x, y, (int)w, (int)h))
        status = VA_STATUS_ERROR_OPERATION_FAILED;
    transfer_end(&t);
    return status;
}
