// SPDX-License-Identifier: Apache-2.0
// The tables that libva calls. Every call goes through a thunk that counts it,
// lets a fault hit it and watches over threads.
#include "calls.h"

static void go_in(struct display *d)
{
    int others = atomic_fetch_add(&d->inside, 1);

    if (others > 0 && (d->person.flags & PERSON_SERIAL))
        count(&counters.thread_violations, 1);
}

// A fault comes first: after it the display may be gone.
#define X(name, params, args)                            \
    static VAStatus thunk_##name params                  \
    {                                                    \
        struct display *d = display_of(c);               \
        VAStatus status = fault_enter(VA_DRIVER_##name); \
                                                         \
        if (status != VA_STATUS_SUCCESS)                 \
            return status;                               \
        go_in(d);                                        \
        status = call_##name args;                       \
        if (VA_DRIVER_##name != VA_DRIVER_Terminate)     \
            atomic_fetch_sub(&d->inside, 1);             \
        return status;                                   \
    }
VTABLE_CALLS(X)
VPP_CALLS(X)
#undef X

// libva forgets the display whatever this returns, so a fault does not keep it.
static VAStatus thunk_Terminate(VADriverContextP c)
{
    VAStatus status = fault_enter(VA_DRIVER_Terminate);

    go_in(display_of(c));
    call_Terminate(c);
    return status;
}

// As CreateSurfaces: a client sees one call, whichever libva takes.
static VAStatus thunk_CreateSurfaces2(VADriverContextP c, unsigned rt,
                                      unsigned w, unsigned h, VASurfaceID *ids,
                                      unsigned n, VASurfaceAttrib *list,
                                      unsigned num_list)
{
    struct display *d = display_of(c);
    VAStatus status = fault_enter(VA_DRIVER_CreateSurfaces);

    if (status != VA_STATUS_SUCCESS)
        return status;
    go_in(d);
    status = call_CreateSurfaces2(c, rt, w, h, ids, n, list, num_list);
    atomic_fetch_sub(&d->inside, 1);
    return status;
}

// ---- what is there because libva wants it -----------------------------------

#define NOT_HERE VA_STATUS_ERROR_UNIMPLEMENTED

static VAStatus set_palette(VADriverContextP c, VAImageID id, unsigned char *p)
{
    (void)c, (void)id, (void)p;
    return NOT_HERE;
}

static VAStatus query_subpicture_formats(VADriverContextP c, VAImageFormat *f,
                                         unsigned *flags, unsigned *n)
{
    (void)c, (void)f, (void)flags;
    *n = 0;
    return VA_STATUS_SUCCESS;
}

static VAStatus create_subpicture(VADriverContextP c, VAImageID image,
                                  VASubpictureID *id)
{
    (void)c, (void)image, (void)id;
    return NOT_HERE;
}

static VAStatus destroy_subpicture(VADriverContextP c, VASubpictureID id)
{
    (void)c, (void)id;
    return NOT_HERE;
}

static VAStatus subpicture_image(VADriverContextP c, VASubpictureID id,
                                 VAImageID image)
{
    (void)c, (void)id, (void)image;
    return NOT_HERE;
}

static VAStatus subpicture_key(VADriverContextP c, VASubpictureID id,
                               unsigned low, unsigned high, unsigned mask)
{
    (void)c, (void)id, (void)low, (void)high, (void)mask;
    return NOT_HERE;
}

static VAStatus subpicture_alpha(VADriverContextP c, VASubpictureID id, float a)
{
    (void)c, (void)id, (void)a;
    return NOT_HERE;
}

static VAStatus associate(VADriverContextP c, VASubpictureID id,
                          VASurfaceID *targets, int n, short sx, short sy,
                          unsigned short sw, unsigned short sh, short dx,
                          short dy, unsigned short dw, unsigned short dh,
                          unsigned flags)
{
    (void)c, (void)id, (void)targets, (void)n, (void)sx, (void)sy, (void)sw;
    (void)sh, (void)dx, (void)dy, (void)dw, (void)dh, (void)flags;
    return NOT_HERE;
}

static VAStatus deassociate(VADriverContextP c, VASubpictureID id,
                            VASurfaceID *targets, int n)
{
    (void)c, (void)id, (void)targets, (void)n;
    return NOT_HERE;
}

static VAStatus query_display(VADriverContextP c, VADisplayAttribute *list,
                              int *n)
{
    (void)c, (void)list;
    *n = 0;
    return VA_STATUS_SUCCESS;
}

static VAStatus access_display(VADriverContextP c, VADisplayAttribute *list,
                               int n)
{
    (void)c, (void)list, (void)n;
    return NOT_HERE;
}

static VAStatus put_surface(VADriverContextP c, VASurfaceID s, void *draw,
                            short sx, short sy, unsigned short sw,
                            unsigned short sh, short dx, short dy,
                            unsigned short dw, unsigned short dh,
                            VARectangle *clip, unsigned n, unsigned flags)
{
    (void)c, (void)s, (void)draw, (void)sx, (void)sy, (void)sw, (void)sh;
    (void)dx, (void)dy, (void)dw, (void)dh, (void)clip, (void)n, (void)flags;
    return NOT_HERE;
}

// For LIBVA_TRACE.
static VAStatus buffer_info(VADriverContextP c, VABufferID id,
                            VABufferType *type, unsigned *size, unsigned *n)
{
    struct display *d = display_of(c);
    struct buffer *b;

    pthread_mutex_lock(&d->lock);
    b = object_get(d, KIND_BUFFER, id);
    if (b) {
        *type = b->type;
        *size = b->size;
        *n = b->elements;
    }
    pthread_mutex_unlock(&d->lock);
    return b ? VA_STATUS_SUCCESS : VA_STATUS_ERROR_INVALID_BUFFER;
}

void calls_init(VADriverContextP ctx, const struct personality *person)
{
    struct VADriverVTable *v = ctx->vtable;
    struct VADriverVTableVPP *vpp = ctx->vtable_vpp;

#define X(name, params, args) v->va##name = thunk_##name;
    VTABLE_CALLS(X)
#undef X
    v->vaTerminate = thunk_Terminate;
    v->vaCreateSurfaces2 = thunk_CreateSurfaces2;
    v->vaSetImagePalette = set_palette;
    v->vaQuerySubpictureFormats = query_subpicture_formats;
    v->vaCreateSubpicture = create_subpicture;
    v->vaDestroySubpicture = destroy_subpicture;
    v->vaSetSubpictureImage = subpicture_image;
    v->vaSetSubpictureChromakey = subpicture_key;
    v->vaSetSubpictureGlobalAlpha = subpicture_alpha;
    v->vaAssociateSubpicture = associate;
    v->vaDeassociateSubpicture = deassociate;
    v->vaQueryDisplayAttributes = query_display;
    v->vaGetDisplayAttributes = access_display;
    v->vaSetDisplayAttributes = access_display;
    v->vaPutSurface = put_surface;
    v->vaBufferInfo = buffer_info;
    if (person->flags & PERSON_NO_SYNC2)
        v->vaSyncSurface2 = NULL;
    if (person->flags & PERSON_NO_EXPORT)
        v->vaExportSurfaceHandle = NULL;
    vpp->version = VA_DRIVER_VTABLE_VPP_VERSION;
#define X(name, params, args) vpp->va##name = thunk_##name;
    VPP_CALLS(X)
#undef X
}
