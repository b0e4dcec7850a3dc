// SPDX-License-Identifier: Apache-2.0
// Surfaces as descriptors, laid out as a DRM driver describes dma-bufs. They
// are memfds: they can be mapped, DMA_BUF_IOCTL_SYNC fails on them (ENOTTY).
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calls.h"

enum { NOISE = 0xa5 };

// Memory that is not linear can be imported, but a client that ignores the
// modifier cannot read it.
static int tiled_fd(size_t size)
{
    int fd = memfd_create("va-tiled", MFD_CLOEXEC);
    void *at = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, (off_t)size) == 0)
        at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) {
        memset(at, NOISE, size);
        munmap(at, size);
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

static void one_layer(const struct layout *l, VADRMPRIMESurfaceDescriptor *to)
{
    to->num_layers = 1;
    to->layers[0].drm_format = l->format->drm;
    to->layers[0].num_planes = (uint32_t)l->format->num_planes;
    for (int i = 0; i < l->format->num_planes; i++) {
        to->layers[0].offset[i] = l->offset[i];
        to->layers[0].pitch[i] = l->pitch[i];
    }
}

static void layer_each(const struct layout *l, VADRMPRIMESurfaceDescriptor *to)
{
    to->num_layers = (uint32_t)l->format->num_planes;
    for (int i = 0; i < l->format->num_planes; i++) {
        to->layers[i].drm_format = l->format->drm_planes[i];
        to->layers[i].num_planes = 1;
        to->layers[i].offset[0] = l->offset[i];
        to->layers[i].pitch[0] = l->pitch[i];
    }
}

static VAStatus describe(const struct display *d, const struct surface *s,
                         uint32_t flags, VADRMPRIMESurfaceDescriptor *to)
{
    const struct memory *m = s->memory;
    const struct layout *l = &m->layout;
    bool composed = flags & VA_EXPORT_SURFACE_COMPOSED_LAYERS;

    if (composed && !l->format->drm)
        return VA_STATUS_ERROR_UNSUPPORTED_MEMORY_TYPE;
    memset(to, 0, sizeof(*to));
    to->fourcc = said_fourcc(d, s->fourcc);
    to->width = (uint32_t)s->width;
    to->height = (uint32_t)s->height;
    to->num_objects = 1;
    to->objects[0].size = (uint32_t)l->size;
    to->objects[0].drm_format_modifier = m->modifier;
    to->objects[0].fd = m->modifier ? tiled_fd(l->size)
                                    : fcntl(m->fd, F_DUPFD_CLOEXEC, 3);
    if (to->objects[0].fd < 0)
        return VA_STATUS_ERROR_ALLOCATION_FAILED;
    if (composed)
        one_layer(l, to);
    else
        layer_each(l, to);
    return VA_STATUS_SUCCESS;
}

// Does not wait for the surface, except where its layout is still open.
VAStatus call_ExportSurfaceHandle(VADriverContextP ctx, VASurfaceID id,
                                  uint32_t type, uint32_t flags, void *to)
{
    struct display *d = display_of(ctx);
    uint32_t both = VA_EXPORT_SURFACE_COMPOSED_LAYERS |
                    VA_EXPORT_SURFACE_SEPARATE_LAYERS;
    VAStatus status = VA_STATUS_ERROR_INVALID_SURFACE;
    struct surface *s;

    if (type != VA_SURFACE_ATTRIB_MEM_TYPE_DRM_PRIME_2)
        return VA_STATUS_ERROR_UNSUPPORTED_MEMORY_TYPE;
    if (!to || !(flags & both) || (flags & both) == both)
        return VA_STATUS_ERROR_INVALID_PARAMETER;
    pthread_mutex_lock(&d->lock);
    s = object_get(d, KIND_SURFACE, id);
    if (s && (d->person.flags & (PERSON_RESHAPE | PERSON_444)))
        surface_wait(d, s);
    if (s)
        status = describe(d, s, flags, to);
    pthread_mutex_unlock(&d->lock);
    return status;
}
