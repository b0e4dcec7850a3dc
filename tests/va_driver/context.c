// SPDX-License-Identifier: Apache-2.0
// Contexts, and the pictures that clients put together in them.
#include <stdlib.h>
#include <string.h>

#include "calls.h"

void picture_free(struct picture *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->num_scans; i++)
        free(p->scans[i].bytes);
    free(p);
}

// 0 is for any size: video processors are opened so.
static bool takes(const struct display *d, const struct config *c, int side)
{
    bool vld = c->entrypoint == VAEntrypointVLD;

    return side <= d->person.max_size &&
           (!side || !vld || side >= d->person.min_size);
}

VAStatus call_CreateContext(VADriverContextP ctx, VAConfigID config, int w,
                            int h, int flags, VASurfaceID *targets, int n,
                            VAContextID *id)
{
    struct display *d = display_of(ctx);
    struct config *from;
    struct context *c = NULL;
    VAStatus status = VA_STATUS_SUCCESS;

    if (!id || n < 0 || (n > 0 && !targets) || w < 0 || h < 0)
        return VA_STATUS_ERROR_INVALID_PARAMETER;
    *id = VA_INVALID_ID;
    pthread_mutex_lock(&d->lock);
    from = object_get(d, KIND_CONFIG, config);
    if (!from)
        status = VA_STATUS_ERROR_INVALID_CONFIG;
    else if (!takes(d, from, w) || !takes(d, from, h))
        status = VA_STATUS_ERROR_RESOLUTION_NOT_SUPPORTED;
    else if (n > d->person.max_targets)
        status = VA_STATUS_ERROR_MAX_NUM_EXCEEDED;
    for (int i = 0; i < n && status == VA_STATUS_SUCCESS; i++)
        if (!object_get(d, KIND_SURFACE, targets[i]))
            status = VA_STATUS_ERROR_INVALID_SURFACE;
    if (status == VA_STATUS_SUCCESS) {
        c = calloc(1, sizeof(*c));
        status = VA_STATUS_ERROR_ALLOCATION_FAILED;
    }
    if (c) {
        c->config = *from;
        c->width = w;
        c->height = h;
        c->flags = flags;
        *id = object_add(d, KIND_CONTEXT, c);
        status = *id == VA_INVALID_ID ? status : VA_STATUS_SUCCESS;
    }
    if (status != VA_STATUS_SUCCESS)
        free(c);
    pthread_mutex_unlock(&d->lock);
    return status;
}

// Under the lock: gives up a picture that was begun, waits for the others.
void context_free(struct display *d, struct context *c)
{
    while (c->pending > 0)
        pthread_cond_wait(&d->change, &d->lock);
    picture_free(c->open);
    free(c);
}

VAStatus call_DestroyContext(VADriverContextP ctx, VAContextID id)
{
    struct display *d = display_of(ctx);
    struct context *c;

    pthread_mutex_lock(&d->lock);
    c = object_take(d, KIND_CONTEXT, id);
    if (c)
        context_free(d, c);
    pthread_mutex_unlock(&d->lock);
    return c ? VA_STATUS_SUCCESS : VA_STATUS_ERROR_INVALID_CONTEXT;
}

// ---- Begin, Render, End -----------------------------------------------------

// Enters one of the three under the lock. Two threads in them at once, or a
// thread that goes on with another's picture, break libva's rule.
static struct context *enter(struct display *d, VAContextID id)
{
    struct context *c;

    pthread_mutex_lock(&d->lock);
    c = object_get(d, KIND_CONTEXT, id);
    if (c && c->open && !pthread_equal(c->owner, pthread_self()))
        count(&counters.thread_violations, 1);
    return c;
}

VAStatus call_BeginPicture(VADriverContextP ctx, VAContextID id,
                           VASurfaceID target)
{
    struct display *d = display_of(ctx);
    struct context *c = enter(d, id);
    struct surface *s = object_get(d, KIND_SURFACE, target);
    VAStatus status = VA_STATUS_SUCCESS;

    if (!c)
        status = VA_STATUS_ERROR_INVALID_CONTEXT;
    else if (!s)
        status = VA_STATUS_ERROR_INVALID_SURFACE;
    else if (c->open)
        status = VA_STATUS_ERROR_OPERATION_FAILED;
    else if (!(c->open = calloc(1, sizeof(*c->open))))
        status = VA_STATUS_ERROR_ALLOCATION_FAILED;
    if (status == VA_STATUS_SUCCESS) {
        c->owner = pthread_self();
        c->open->context = c;
        c->open->entrypoint = c->config.entrypoint;
        c->open->target = s;
        c->open->target_id = target;
        if (!(d->person.flags & PERSON_KEEP_TABLES)) {
            memset(&c->iq, 0, sizeof(c->iq));
            memset(&c->huffman, 0, sizeof(c->huffman));
        }
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}

VAStatus call_RenderPicture(VADriverContextP ctx, VAContextID id,
                            VABufferID *ids, int n)
{
    struct display *d = display_of(ctx);
    struct context *c = enter(d, id);
    VAStatus status = VA_STATUS_SUCCESS;

    if (!c)
        status = VA_STATUS_ERROR_INVALID_CONTEXT;
    else if (!c->open)
        status = VA_STATUS_ERROR_OPERATION_FAILED;
    else if (!ids || n < 1)
        status = VA_STATUS_ERROR_INVALID_PARAMETER;
    for (int i = 0; i < n && status == VA_STATUS_SUCCESS; i++) {
        struct buffer *b = object_get(d, KIND_BUFFER, ids[i]);

        if (!b)
            status = VA_STATUS_ERROR_INVALID_BUFFER;
        else if (c->config.entrypoint == VAEntrypointVideoProc)
            status = render_pipeline(d, c, b);
        else
            status = render_jpeg(d, c, b);
    }
    if (c && c->open && status != VA_STATUS_SUCCESS)
        c->open->status = status;
    pthread_mutex_unlock(&d->lock);
    return status;
}

// A picture that lacks something is refused here, and gone.
VAStatus call_EndPicture(VADriverContextP ctx, VAContextID id)
{
    struct display *d = display_of(ctx);
    struct context *c = enter(d, id);
    struct picture *p = c ? c->open : NULL;
    VAStatus status;

    if (!p) {
        pthread_mutex_unlock(&d->lock);
        return c ? VA_STATUS_ERROR_OPERATION_FAILED
                 : VA_STATUS_ERROR_INVALID_CONTEXT;
    }
    c->open = NULL;
    status = p->status;
    if (object_peek(d, KIND_SURFACE, p->target_id) != p->target)
        status = VA_STATUS_ERROR_INVALID_SURFACE;
    else if (status == VA_STATUS_SUCCESS && p->entrypoint == VAEntrypointVLD)
        status = jpeg_check(d, p);
    else if (status == VA_STATUS_SUCCESS && !p->num_regions)
        status = VA_STATUS_ERROR_INVALID_BUFFER;
    if (status == VA_STATUS_SUCCESS) {
        if (p->entrypoint == VAEntrypointVLD)
            log_picture(p);
        status = queue_add(d, p);
    }
    if (status != VA_STATUS_SUCCESS)
        picture_free(p);
    pthread_mutex_unlock(&d->lock);
    return status;
}
