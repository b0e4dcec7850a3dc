// SPDX-License-Identifier: Apache-2.0
// The calls behind the thunks of calls.c, one per line, and what they share.
#ifndef VA_DRIVER_CALLS_H
#define VA_DRIVER_CALLS_H

#include "driver.h"

// clang-format off
#define VTABLE_CALLS(X)                                                        \
    X(QueryConfigProfiles, (VADriverContextP c, VAProfile *p, int *n),         \
      (c, p, n))                                                               \
    X(QueryConfigEntrypoints,                                                  \
      (VADriverContextP c, VAProfile p, VAEntrypoint *e, int *n),              \
      (c, p, e, n))                                                            \
    X(GetConfigAttributes,                                                     \
      (VADriverContextP c, VAProfile p, VAEntrypoint e, VAConfigAttrib *a,     \
       int n), (c, p, e, a, n))                                                \
    X(CreateConfig,                                                            \
      (VADriverContextP c, VAProfile p, VAEntrypoint e, VAConfigAttrib *a,     \
       int n, VAConfigID *id), (c, p, e, a, n, id))                            \
    X(DestroyConfig, (VADriverContextP c, VAConfigID id), (c, id))             \
    X(QueryConfigAttributes,                                                   \
      (VADriverContextP c, VAConfigID id, VAProfile *p, VAEntrypoint *e,       \
       VAConfigAttrib *a, int *n), (c, id, p, e, a, n))                        \
    X(CreateSurfaces,                                                          \
      (VADriverContextP c, int w, int h, int rt, int n, VASurfaceID *ids),     \
      (c, w, h, rt, n, ids))                                                   \
    X(DestroySurfaces, (VADriverContextP c, VASurfaceID *ids, int n),          \
      (c, ids, n))                                                             \
    X(CreateContext,                                                           \
      (VADriverContextP c, VAConfigID cfg, int w, int h, int f,                \
       VASurfaceID *t, int n, VAContextID *id), (c, cfg, w, h, f, t, n, id))   \
    X(DestroyContext, (VADriverContextP c, VAContextID id), (c, id))           \
    X(CreateBuffer,                                                            \
      (VADriverContextP c, VAContextID x, VABufferType t, unsigned s,          \
       unsigned n, void *p, VABufferID *id), (c, x, t, s, n, p, id))           \
    X(BufferSetNumElements, (VADriverContextP c, VABufferID id, unsigned n),   \
      (c, id, n))                                                              \
    X(MapBuffer, (VADriverContextP c, VABufferID id, void **p), (c, id, p))    \
    X(UnmapBuffer, (VADriverContextP c, VABufferID id), (c, id))               \
    X(DestroyBuffer, (VADriverContextP c, VABufferID id), (c, id))             \
    X(BeginPicture, (VADriverContextP c, VAContextID x, VASurfaceID s),        \
      (c, x, s))                                                               \
    X(RenderPicture,                                                           \
      (VADriverContextP c, VAContextID x, VABufferID *b, int n), (c, x, b, n)) \
    X(EndPicture, (VADriverContextP c, VAContextID x), (c, x))                 \
    X(SyncSurface, (VADriverContextP c, VASurfaceID id), (c, id))              \
    X(SyncSurface2, (VADriverContextP c, VASurfaceID id, uint64_t ns),         \
      (c, id, ns))                                                             \
    X(QuerySurfaceStatus,                                                      \
      (VADriverContextP c, VASurfaceID id, VASurfaceStatus *s), (c, id, s))    \
    X(QuerySurfaceError,                                                       \
      (VADriverContextP c, VASurfaceID id, VAStatus s, void **p),              \
      (c, id, s, p))                                                           \
    X(QuerySurfaceAttributes,                                                  \
      (VADriverContextP c, VAConfigID id, VASurfaceAttrib *a, unsigned *n),    \
      (c, id, a, n))                                                           \
    X(QueryImageFormats, (VADriverContextP c, VAImageFormat *f, int *n),       \
      (c, f, n))                                                               \
    X(CreateImage,                                                             \
      (VADriverContextP c, VAImageFormat *f, int w, int h, VAImage *i),        \
      (c, f, w, h, i))                                                         \
    X(DeriveImage, (VADriverContextP c, VASurfaceID s, VAImage *i), (c, s, i)) \
    X(DestroyImage, (VADriverContextP c, VAImageID id), (c, id))               \
    X(GetImage,                                                                \
      (VADriverContextP c, VASurfaceID s, int x, int y, unsigned w,            \
       unsigned h, VAImageID id), (c, s, x, y, w, h, id))                      \
    X(PutImage,                                                                \
      (VADriverContextP c, VASurfaceID s, VAImageID id, int x, int y,          \
       unsigned w, unsigned h, int dx, int dy, unsigned dw, unsigned dh),      \
      (c, s, id, x, y, w, h, dx, dy, dw, dh))                                  \
    X(ExportSurfaceHandle,                                                     \
      (VADriverContextP c, VASurfaceID s, uint32_t t, uint32_t f, void *p),    \
      (c, s, t, f, p))

#define VPP_CALLS(X)                                                           \
    X(QueryVideoProcFilters,                                                   \
      (VADriverContextP c, VAContextID x, VAProcFilterType *f, unsigned *n),   \
      (c, x, f, n))                                                            \
    X(QueryVideoProcFilterCaps,                                                \
      (VADriverContextP c, VAContextID x, VAProcFilterType t, void *p,         \
       unsigned *n), (c, x, t, p, n))                                          \
    X(QueryVideoProcPipelineCaps,                                              \
      (VADriverContextP c, VAContextID x, VABufferID *f, unsigned n,           \
       VAProcPipelineCaps *p), (c, x, f, n, p))

#define X(name, params, args) VAStatus call_##name params;
VTABLE_CALLS(X)
VPP_CALLS(X)
#undef X
// clang-format on

VAStatus call_Terminate(VADriverContextP ctx);
VAStatus call_CreateSurfaces2(VADriverContextP ctx, unsigned rt, unsigned w,
                              unsigned h, VASurfaceID *ids, unsigned n,
                              VASurfaceAttrib *list, unsigned num_list);

enum { YUYV = VA_FOURCC('Y', 'U', 'Y', 'V') };

// How this driver calls a format to its client.
uint32_t said_fourcc(const struct display *d, uint32_t fourcc);

#endif
