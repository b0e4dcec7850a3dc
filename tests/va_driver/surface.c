// SPDX-License-Identifier: Apache-2.0
// Surfaces: memory, and whose turn it is to touch it.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "calls.h"

enum { MAX_SIDE = 16384 };  // of a surface; engines may take less

// A new layout, new memory: memory exported before is the client's alone.
VAStatus surface_reshape(struct display *d, struct surface *s, uint32_t fourcc)
{
    const struct format *f = format_of(fourcc);
    const struct options *o = &d->options;
    int align = d->person.align;
    struct layout l;
    struct memory *m;

    if (!f)
        return VA_STATUS_ERROR_INVALID_PARAMETER;
    layout_make(&l, f, (s->width + align - 1) / align * align,
                (s->height + align - 1) / align * align, (uint32_t)o->pitch,
                (uint32_t)o->offset);
    m = memory_create(&l, true);
    if (!m)
        return VA_STATUS_ERROR_ALLOCATION_FAILED;
    m->modifier = o->modifier;
    memory_unref(s->memory);
    s->memory = m;
    s->fourcc = fourcc;
    return VA_STATUS_SUCCESS;
}

void surface_free(struct surface *s)
{
    memory_unref(s->memory);
    free(s);
}

void surface_wait(struct display *d, struct surface *s)
{
    s->waiters++;
    while (s->served != s->issued)
        pthread_cond_wait(&d->change, &d->lock);
    s->waiters--;
    pthread_cond_broadcast(&d->change);
}

// ---- create, destroy --------------------------------------------------------

static uint32_t default_fourcc(const struct personality *p, uint32_t rt)
{
    const uint32_t *tables[] = {p->vpp_fourccs, p->decode_fourccs};

    for (int t = 0; t < 2; t++)
        for (int i = 0; i < MAX_FOURCCS && tables[t][i]; i++)
            if (format_of(tables[t][i])->rt == rt)
                return tables[t][i];
    return 0;
}

// Reads the attributes. Their flags are not looked at: clients leave them 0.
static VAStatus read_attribs(const struct personality *p,
                             const VASurfaceAttrib *list, unsigned n,
                             uint32_t *fourcc)
{
    for (unsigned i = 0; list && i < n; i++) {
        uint32_t value = (uint32_t)list[i].value.value.i;

        if (list[i].type == VASurfaceAttribPixelFormat) {
            *fourcc = value == YUYV ? (uint32_t)VA_FOURCC_YUY2 : value;
            if (!format_of(*fourcc) || (!lists(p->vpp_fourccs, *fourcc) &&
                                        !lists(p->decode_fourccs, *fourcc) &&
                                        !lists(p->by_sampling, *fourcc)))
                return VA_STATUS_ERROR_INVALID_PARAMETER;
        } else if (list[i].type == VASurfaceAttribMemoryType &&
                   !(value & VA_SURFACE_ATTRIB_MEM_TYPE_VA)) {
            return VA_STATUS_ERROR_UNSUPPORTED_MEMORY_TYPE;
        }
    }
    return VA_STATUS_SUCCESS;
}

static VAStatus create_one(struct display *d, uint32_t rt, uint32_t fourcc,
                           int w, int h, VASurfaceID *id)
{
    struct surface *s = calloc(1, sizeof(*s));
    VAStatus status;

    if (!s)
        return VA_STATUS_ERROR_ALLOCATION_FAILED;
    s->rt = rt;
    s->width = w;
    s->height = h;
    s->fourcc_chosen = fourcc != 0;
    status = surface_reshape(d, s,
                             fourcc ? fourcc : default_fourcc(&d->person, rt));
    if (status == VA_STATUS_SUCCESS) {
        *id = object_add(d, KIND_SURFACE, s);
        if (*id != VA_INVALID_ID)
            return VA_STATUS_SUCCESS;
        status = VA_STATUS_ERROR_ALLOCATION_FAILED;
    }
    surface_free(s);
    return status;
}

VAStatus call_CreateSurfaces2(VADriverContextP ctx, unsigned rt, unsigned w,
                              unsigned h, VASurfaceID *ids, unsigned n,
                              VASurfaceAttrib *list, unsigned num_list)
{
    struct display *d = display_of(ctx);
    uint32_t fourcc = 0;
    unsigned made = 0;
    VAStatus status;

    if (!ids || !n || !w || !h)
        return VA_STATUS_ERROR_INVALID_PARAMETER;
    if (!(rt & (d->person.decode_rt | d->person.vpp_rt)) || (rt & (rt - 1)))
        return VA_STATUS_ERROR_UNSUPPORTED_RT_FORMAT;
    if (w > MAX_SIDE || h > MAX_SIDE)
        return VA_STATUS_ERROR_RESOLUTION_NOT_SUPPORTED;
    status = read_attribs(&d->person, list, num_list, &fourcc);
    if (status != VA_STATUS_SUCCESS)
        return status;
    if (!fourcc && !default_fourcc(&d->person, rt))
        return VA_STATUS_ERROR_UNSUPPORTED_RT_FORMAT;
    pthread_mutex_lock(&d->lock);
    while (made < n && status == VA_STATUS_SUCCESS) {
        status = create_one(d, rt, fourcc, (int)w, (int)h, &ids[made]);
        made += status == VA_STATUS_SUCCESS;
    }
    while (status != VA_STATUS_SUCCESS && made > 0) {
        surface_free(object_take(d, KIND_SURFACE, ids[--made]));
        ids[made] = VA_INVALID_ID;
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}

VAStatus call_CreateSurfaces(VADriverContextP ctx, int w, int h, int rt, int n,
                             VASurfaceID *ids)
{
    if (w < 1 || h < 1 || n < 1)
        return VA_STATUS_ERROR_INVALID_PARAMETER;
    return call_CreateSurfaces2(ctx, (unsigned)rt, (unsigned)w, (unsigned)h,
                                ids, (unsigned)n, NULL, 0);
}

VAStatus call_DestroySurfaces(VADriverContextP ctx, VASurfaceID *ids, int n)
{
    struct display *d = display_of(ctx);
    VAStatus status = VA_STATUS_SUCCESS;

    if (!ids || n < 1)
        return VA_STATUS_ERROR_INVALID_PARAMETER;
    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < n; i++)
        if (!object_get(d, KIND_SURFACE, ids[i]))
            status = VA_STATUS_ERROR_INVALID_SURFACE;
    for (int i = 0; i < n && status == VA_STATUS_SUCCESS; i++) {
        struct surface *s = object_take(d, KIND_SURFACE, ids[i]);

        if (!s)  // named twice
            continue;
        while (s->served != s->issued || s->waiters)
            pthread_cond_wait(&d->change, &d->lock);
        surface_free(s);
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}

// ---- attributes -------------------------------------------------------------

static VASurfaceAttrib attrib(VASurfaceAttribType type, bool settable,
                              int32_t value)
{
    VASurfaceAttrib a = {.type = type, .flags = VA_SURFACE_ATTRIB_GETTABLE};

    a.flags |= settable ? VA_SURFACE_ATTRIB_SETTABLE : 0;
    a.value.type = VAGenericValueTypeInteger;
    a.value.value.i = value;
    return a;
}

static unsigned list_attribs(const struct display *d, const struct config *c,
                             VASurfaceAttrib *list)
{
    const struct personality *p = &d->person;
    bool vpp = c->entrypoint == VAEntrypointVideoProc;
    const uint32_t *fourccs = vpp ? p->vpp_fourccs : p->decode_fourccs;
    int least = vpp ? p->vpp_min_size : p->min_size;
    int memory = VA_SURFACE_ATTRIB_MEM_TYPE_VA;
    unsigned n = 0;

    if (!(p->flags & PERSON_NO_EXPORT))
        memory |= VA_SURFACE_ATTRIB_MEM_TYPE_DRM_PRIME_2;
    for (int i = 0; i < MAX_FOURCCS && fourccs[i]; i++)
        if (format_of(fourccs[i])->rt & c->rt)
            list[n++] = attrib(VASurfaceAttribPixelFormat, true,
                               (int32_t)fourccs[i]);
    list[n++] = attrib(VASurfaceAttribMinWidth, false, least);
    list[n++] = attrib(VASurfaceAttribMinHeight, false, least);
    list[n++] = attrib(VASurfaceAttribMaxWidth, false, p->max_size);
    list[n++] = attrib(VASurfaceAttribMaxHeight, false, p->max_size);
    list[n++] = attrib(VASurfaceAttribMemoryType, true, memory);
    return n;
}

VAStatus call_QuerySurfaceAttributes(VADriverContextP ctx, VAConfigID id,
                                     VASurfaceAttrib *to, unsigned *num)
{
    struct display *d = display_of(ctx);
    VASurfaceAttrib list[MAX_FOURCCS + 8];
    struct config *c;
    unsigned n, capacity = num ? *num : 0;

    if (!num)
        return VA_STATUS_ERROR_INVALID_PARAMETER;
    pthread_mutex_lock(&d->lock);
    c = object_get(d, KIND_CONFIG, id);
    n = c ? list_attribs(d, c, list) : 0;
    pthread_mutex_unlock(&d->lock);
    if (!c)
        return VA_STATUS_ERROR_INVALID_CONFIG;
    *num = n;
    if (!to)
        return VA_STATUS_SUCCESS;
    if (capacity < n)
        return VA_STATUS_ERROR_MAX_NUM_EXCEEDED;
    memcpy(to, list, n * sizeof(*list));
    return VA_STATUS_SUCCESS;
}

// ---- waiting ----------------------------------------------------------------

static struct timespec after(uint64_t ns)
{
    uint64_t t = now_ns() + ns;

    return (struct timespec){(time_t)(t / 1000000000), (long)(t % 1000000000)};
}

static VAStatus sync_surface(struct display *d, VASurfaceID id,
                             uint64_t timeout)
{
    // A year is for ever, and adds up.
    struct timespec end = after(
        timeout < UINT64_C(1) << 54 ? timeout : UINT64_C(1) << 54);
    struct surface *s;
    VAStatus status;
    int rc = 0;

    pthread_mutex_lock(&d->lock);
    s = object_get(d, KIND_SURFACE, id);
    if (!s) {
        pthread_mutex_unlock(&d->lock);
        return VA_STATUS_ERROR_INVALID_SURFACE;
    }
    s->waiters++;
    while (s->served != s->issued && rc != ETIMEDOUT &&
           !((d->person.flags & PERSON_NO_SYNC) && s->decoding))
        rc = pthread_cond_timedwait(&d->change, &d->lock, &end);
    s->waiters--;
    pthread_cond_broadcast(&d->change);
    status = s->served == s->issued ? s->error : VA_STATUS_SUCCESS;
    if (rc == ETIMEDOUT && s->served != s->issued)
        status = VA_STATUS_ERROR_TIMEDOUT;
    if (status == VA_STATUS_ERROR_DECODING_ERROR &&
        d->options.damage == DAMAGE_LIST)
        status = VA_STATUS_SUCCESS;
    pthread_mutex_unlock(&d->lock);
    return status;
}

VAStatus call_SyncSurface(VADriverContextP ctx, VASurfaceID id)
{
    return sync_surface(display_of(ctx), id, VA_TIMEOUT_INFINITE);
}

VAStatus call_SyncSurface2(VADriverContextP ctx, VASurfaceID id, uint64_t ns)
{
    return sync_surface(display_of(ctx), id, ns);
}

VAStatus call_QuerySurfaceStatus(VADriverContextP ctx, VASurfaceID id,
                                 VASurfaceStatus *to)
{
    struct display *d = display_of(ctx);
    struct surface *s;

    if (d->person.flags & PERSON_NO_STATUS)
        return VA_STATUS_ERROR_UNIMPLEMENTED;
    pthread_mutex_lock(&d->lock);
    s = object_get(d, KIND_SURFACE, id);
    if (s && to && !((d->person.flags & PERSON_MUTE_STATUS) && s->decoding))
        *to = s->served == s->issued ? VASurfaceReady : VASurfaceRendering;
    pthread_mutex_unlock(&d->lock);
    return s ? VA_STATUS_SUCCESS : VA_STATUS_ERROR_INVALID_SURFACE;
}

// The list is the surface's, until its next picture.
VAStatus call_QuerySurfaceError(VADriverContextP ctx, VASurfaceID id,
                                VAStatus status, void **info)
{
    struct display *d = display_of(ctx);
    struct surface *s;
    VAStatus rc = VA_STATUS_ERROR_UNIMPLEMENTED;

    pthread_mutex_lock(&d->lock);
    s = object_get(d, KIND_SURFACE, id);
    if (s && info && status == VA_STATUS_ERROR_DECODING_ERROR &&
        s->served == s->issued) {
        s->errors[0].status = s->error == status ? 1 : -1;
        s->errors[0].end_mb = 0xffffffff;
        s->errors[0].decode_error_type = VADecodeMBError;
        s->errors[1].status = -1;
        *info = s->errors;
        rc = VA_STATUS_SUCCESS;
    }
    pthread_mutex_unlock(&d->lock);
    return s ? rc : VA_STATUS_ERROR_INVALID_SURFACE;
}
