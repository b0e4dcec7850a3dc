// SPDX-License-Identifier: Apache-2.0
// A VA driver in software: loading and unloading, profiles, configurations.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

struct display *display_of(VADriverContextP ctx)
{
    return ctx->pDriverData;
}

// ---- configurations ---------------------------------------------------------

static bool is_jpeg(VAProfile p)
{
    return p == VAProfileJPEGBaseline;
}

static bool has_vpp(const struct display *d)
{
    return !(d->person.flags & PERSON_NO_VPP);
}

VAStatus call_QueryConfigProfiles(VADriverContextP ctx, VAProfile *list, int *n)
{
    struct display *d = display_of(ctx);

    *n = 0;
    if (has_vpp(d))
        list[(*n)++] = VAProfileNone;
    list[(*n)++] = VAProfileJPEGBaseline;
    return VA_STATUS_SUCCESS;
}

VAStatus call_QueryConfigEntrypoints(VADriverContextP ctx, VAProfile profile,
                                     VAEntrypoint *list, int *n)
{
    struct display *d = display_of(ctx);

    *n = 0;
    if (is_jpeg(profile))
        list[(*n)++] = VAEntrypointVLD;
    else if (profile == VAProfileNone && has_vpp(d))
        list[(*n)++] = VAEntrypointVideoProc;
    return *n ? VA_STATUS_SUCCESS : VA_STATUS_ERROR_UNSUPPORTED_PROFILE;
}

static VAStatus check_pair(const struct display *d, VAProfile profile,
                           VAEntrypoint entrypoint)
{
    bool none = profile == VAProfileNone && has_vpp(d);

    if (!is_jpeg(profile) && !none)
        return VA_STATUS_ERROR_UNSUPPORTED_PROFILE;
    if (entrypoint != (none ? VAEntrypointVideoProc : VAEntrypointVLD))
        return VA_STATUS_ERROR_UNSUPPORTED_ENTRYPOINT;
    return VA_STATUS_SUCCESS;
}

static uint32_t attribute(const struct display *d, VAEntrypoint entrypoint,
                          VAConfigAttribType type)
{
    const struct personality *p = &d->person;
    bool vld = entrypoint == VAEntrypointVLD;

    switch (type) {
    case VAConfigAttribRTFormat:
        return vld ? p->decode_rt : p->vpp_rt;
    case VAConfigAttribMaxPictureWidth:
    case VAConfigAttribMaxPictureHeight:
        if (vld && !(p->flags & PERSON_NO_LIMITS))
            return (uint32_t)p->max_size;
        return VA_ATTRIB_NOT_SUPPORTED;
    case VAConfigAttribDecSliceMode:
        return vld ? VA_DEC_SLICE_MODE_NORMAL : VA_ATTRIB_NOT_SUPPORTED;
    default:
        return VA_ATTRIB_NOT_SUPPORTED;
    }
}

VAStatus call_GetConfigAttributes(VADriverContextP ctx, VAProfile profile,
                                  VAEntrypoint entrypoint, VAConfigAttrib *list,
                                  int n)
{
    struct display *d = display_of(ctx);
    VAStatus status = check_pair(d, profile, entrypoint);

    for (int i = 0; i < n && status == VA_STATUS_SUCCESS; i++)
        list[i].value = attribute(d, entrypoint, list[i].type);
    return status;
}

// RT formats may be fewer than there are, other values must be the driver's.
static VAStatus check_attribs(const struct display *d, VAEntrypoint entrypoint,
                              const VAConfigAttrib *list, int n, uint32_t *rt)
{
    *rt = attribute(d, entrypoint, VAConfigAttribRTFormat);
    for (int i = 0; i < n; i++) {
        uint32_t have = attribute(d, entrypoint, list[i].type);

        if (list[i].type == VAConfigAttribRTFormat) {
            if (!(list[i].value & have))
                return VA_STATUS_ERROR_UNSUPPORTED_RT_FORMAT;
            *rt = list[i].value & have;
        } else if (have == VA_ATTRIB_NOT_SUPPORTED || list[i].value != have) {
            return VA_STATUS_ERROR_INVALID_VALUE;
        }
    }
    return VA_STATUS_SUCCESS;
}

VAStatus call_CreateConfig(VADriverContextP ctx, VAProfile profile,
                           VAEntrypoint entrypoint, VAConfigAttrib *list, int n,
                           VAConfigID *id)
{
    struct display *d = display_of(ctx);
    VAStatus status = check_pair(d, profile, entrypoint);
    struct config *c;
    uint32_t rt;

    *id = VA_INVALID_ID;
    if (status == VA_STATUS_SUCCESS)
        status = check_attribs(d, entrypoint, list, list ? n : 0, &rt);
    if (status != VA_STATUS_SUCCESS)
        return status;
    c = calloc(1, sizeof(*c));
    if (!c)
        return VA_STATUS_ERROR_ALLOCATION_FAILED;
    *c = (struct config){profile, entrypoint, rt};
    pthread_mutex_lock(&d->lock);
    *id = object_add(d, KIND_CONFIG, c);
    pthread_mutex_unlock(&d->lock);
    if (*id != VA_INVALID_ID)
        return VA_STATUS_SUCCESS;
    free(c);
    return VA_STATUS_ERROR_ALLOCATION_FAILED;
}

VAStatus call_DestroyConfig(VADriverContextP ctx, VAConfigID id)
{
    struct display *d = display_of(ctx);
    struct config *c;

    pthread_mutex_lock(&d->lock);
    c = object_take(d, KIND_CONFIG, id);
    pthread_mutex_unlock(&d->lock);
    free(c);
    return c ? VA_STATUS_SUCCESS : VA_STATUS_ERROR_INVALID_CONFIG;
}

VAStatus call_QueryConfigAttributes(VADriverContextP ctx, VAConfigID id,
                                    VAProfile *profile,
                                    VAEntrypoint *entrypoint,
                                    VAConfigAttrib *list, int *n)
{
    static const VAConfigAttribType types[] = {VAConfigAttribRTFormat,
                                               VAConfigAttribMaxPictureWidth,
                                               VAConfigAttribMaxPictureHeight,
                                               VAConfigAttribDecSliceMode};
    struct display *d = display_of(ctx);
    struct config *c;

    pthread_mutex_lock(&d->lock);
    c = object_get(d, KIND_CONFIG, id);
    *n = 0;
    for (size_t i = 0; c && i < sizeof(types) / sizeof(*types); i++) {
        uint32_t value = attribute(d, c->entrypoint, types[i]);

        if (types[i] == VAConfigAttribRTFormat)
            value = c->rt;
        if (value != VA_ATTRIB_NOT_SUPPORTED)
            list[(*n)++] = (VAConfigAttrib){types[i], value};
    }
    if (c) {
        *profile = c->profile;
        *entrypoint = c->entrypoint;
    }
    pthread_mutex_unlock(&d->lock);
    return c ? VA_STATUS_SUCCESS : VA_STATUS_ERROR_INVALID_CONFIG;
}

// ---- loading and unloading --------------------------------------------------

static void display_free(struct display *d)
{
    heaps_finish(d);
    pthread_cond_destroy(&d->change);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

static struct display *display_create(void)
{
    struct display *d = calloc(1, sizeof(*d));
    pthread_condattr_t attr;

    if (!d)
        return NULL;
    options_get(&d->options);
    d->person = *d->options.person;
    d->person.flags &= ~d->options.clear;
    d->person.flags |= d->options.set;
    pthread_mutex_init(&d->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&d->change, &attr);
    pthread_condattr_destroy(&attr);
    return d;
}

// Frees what the client left, and counts it.
static void sweep(struct display *d)
{
    uint32_t id;
    void *object;

    while ((object = object_any(d, KIND_CONTEXT, &id))) {
        object_take(d, KIND_CONTEXT, id);
        context_free(d, object);
        count(&counters.left, 1);
    }
    while (object_any(d, KIND_IMAGE, &id)) {
        image_destroy(d, id);
        count(&counters.left, 1);
    }
    while ((object = object_any(d, KIND_BUFFER, &id))) {
        buffer_free(object_take(d, KIND_BUFFER, id));
        count(&counters.left, 1);
    }
    while ((object = object_any(d, KIND_SURFACE, &id))) {
        surface_free(object_take(d, KIND_SURFACE, id));
        count(&counters.left, 1);
    }
    while ((object = object_any(d, KIND_CONFIG, &id))) {
        free(object_take(d, KIND_CONFIG, id));
        count(&counters.left, 1);
    }
}

VAStatus call_Terminate(VADriverContextP ctx)
{
    struct display *d = display_of(ctx);

    queue_finish(d);
    pthread_mutex_lock(&d->lock);
    sweep(d);
    pthread_mutex_unlock(&d->lock);
    ctx->pDriverData = NULL;
    log_end();
    count(&counters.displays, -1);
    display_free(d);
    return VA_STATUS_SUCCESS;
}

__attribute__((visibility("default"))) VAStatus __vaDriverInit_1_0(
    VADriverContextP ctx);

VAStatus __vaDriverInit_1_0(VADriverContextP ctx)
{
    struct display *d = display_create();
    VAStatus status = d ? fault_enter(VA_DRIVER_Init)
                        : VA_STATUS_ERROR_ALLOCATION_FAILED;

    if (status != VA_STATUS_SUCCESS) {
        if (d)
            display_free(d);
        return status;
    }
    ctx->pDriverData = d;
    ctx->version_major = VA_MAJOR_VERSION;
    ctx->version_minor = 0;
    ctx->max_profiles = 2;
    ctx->max_entrypoints = 1;
    ctx->max_attributes = 8;
    ctx->max_image_formats = MAX_FOURCCS;
    ctx->max_subpic_formats = 1;
    ctx->max_display_attributes = 0;
    ctx->str_vendor = d->options.person->vendor;
    calls_init(ctx, &d->person);
    count(&counters.displays, 1);
    return VA_STATUS_SUCCESS;
}
