// SPDX-License-Identifier: Apache-2.0
// Memory of another engine, read where it lies: imported once for each of its
// surfaces, as a dma-buf by cl_khr_external_memory or as surface.c does it. A
// batch acquires what it reads, copies the rows that are wanted into its own
// input, in the device, and releases it. Kernels could read the surface itself,
// but take one input for a whole batch, and would have to be launched for each
// picture; a copy in the device costs little of what the bus would. If anything
// here fails, the batch is made again from the host's view of the same memory,
// and no more comes in that way.
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "backends/opencl/opencl.h"

static const struct {
    unsigned kind;
    const char *name;  // for logs
    const char *row;   // of traces
    const char *acquire, *release;
} ways[OCL_WAYS] = {
    [OCL_BY_FD] = {HR__DMA_BUF, "dma-bufs", "dma-buf",
                   "clEnqueueAcquireExternalMemObjectsKHR",
                   "clEnqueueReleaseExternalMemObjectsKHR"},
    [OCL_BY_SURFACE] = {HR__VA_SURFACE, "VA-API surfaces", "shared surface",
                        "clEnqueueAcquireVA_APIMediaSurfacesINTEL",
                        "clEnqueueReleaseVA_APIMediaSurfacesINTEL"},
};

// ---- What the driver can do ----------------------------------------------------

static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = text; (at = strstr(at, word)); at += n)
        if ((at == text || at[-1] == ' ') && (!at[n] || at[n] == ' '))
            return true;
    return false;
}

bool ocl_has_extension(struct ocl *o, cl_device_id device, const char *name)
{
    size_t size = 0;
    char *text;
    bool has;

    if (o->api.clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, 0, NULL, &size) ||
        !size || !(text = hr__alloc(NULL, size + 1)))
        return false;
    memset(text, 0, size + 1);
    has = !o->api.clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, size, text,
                                  NULL) &&
          has_word(text, name);
    hr__free(text);
    return has;
}

bool ocl_import_entry(struct ocl *o, cl_platform_id platform, const char *name,
                      void *to)
{
    void *entry = o->api.clGetExtensionFunctionAddressForPlatform(platform,
                                                                  name);

    memcpy(to, &entry, sizeof(entry));
    return entry != NULL;
}

static bool open_fd(struct ocl *o)
{
    struct ocl_way_calls *calls = &o->imports.ways[OCL_BY_FD];
    cl_device_id device = o->facts.device;
    cl_platform_id id = o->facts.platform_id;

    return o->api.clGetExtensionFunctionAddressForPlatform &&
           o->api.clCreateBufferWithProperties &&
           o->api.clEnqueueCopyBufferRect &&
           ocl_has_extension(o, device, "cl_khr_external_memory") &&
           ocl_has_extension(o, device, "cl_khr_external_memory_dma_buf") &&
           ocl_import_entry(o, id, ways[OCL_BY_FD].acquire, &calls->acquire) &&
           ocl_import_entry(o, id, ways[OCL_BY_FD].release, &calls->release);
}

void ocl_import_open(struct ocl *o)
{
    struct ocl_imports *im = &o->imports;

    im->can = (open_fd(o) ? HR__DMA_BUF : 0) |
              (ocl_surface_open(o) ? HR__VA_SURFACE : 0);
    atomic_store(&im->on, im->can & ~atomic_load(&im->failed));
}

static void drop(struct ocl *o, struct ocl_import *m)
{
    if (m->mem)
        o->api.clReleaseMemObject(m->mem);
    if (m->chroma)
        o->api.clReleaseMemObject(m->chroma);
    *m = (struct ocl_import){0};
}

void ocl_import_close(struct ocl *o)
{
    for (int i = 0; i < OCL_IMPORTS; i++)
        drop(o, &o->imports.of[i]);
}

unsigned ocl_import_kinds(struct hr__engine *e)
{
    struct ocl *o = ocl_of(e);

    return o->guard.dead ? 0 : atomic_load(&o->imports.on);
}

void ocl_import_give_up(struct ocl *o, unsigned kinds,
                        const struct ocl_fault *fault)
{
    unsigned had = ~atomic_fetch_or(&o->imports.failed, kinds) & kinds;

    atomic_fetch_and(&o->imports.on, ~kinds);
    for (int i = 0; i < OCL_WAYS; i++) {
        if (!(had & ways[i].kind))
            continue;
        hr__engine_ref_count(&o->guard.ref,
                             offsetof(struct hr__meter, import_falls), 1);
        hr__guard_log(&o->guard, HR_LOG_WARN,
                      "%s are not imported from now on: %s", ways[i].name,
                      fault->text);
    }
}

unsigned ocl_import_used(const struct ocl_slot *slot)
{
    unsigned kinds = 0;

    for (int i = 0; i < OCL_WAYS; i++)
        kinds |= slot->acquires[i].n ? ways[i].kind : 0;
    return kinds;
}

// ---- Objects -------------------------------------------------------------------

struct wish {
    struct hr__external of;
    int fd;  // our own copy, until the driver has it
};

static struct ocl_import *at_place(struct ocl *o, const struct hr__external *x)
{
    return &o->imports.of[(unsigned)x->place % OCL_IMPORTS];
}

// Whether it may be imported. A surface that was mapped for the host has other
// planes since.
static bool may_import(struct ocl *o, const struct hr__payload *in)
{
    const struct hr__external *x = in ? in->external : NULL;

    return x && x->kind & atomic_load(&o->imports.on) && !x->modifier &&
           !(x->map && in->data);
}

struct ocl_import *ocl_import_of(struct ocl *o, const struct hr__payload *in)
{
    struct ocl_import *m;

    if (!may_import(o, in))
        return NULL;
    m = at_place(o, in->external);
    return m->mem && m->of.id == in->external->id ? m : NULL;
}

static bool import_fd(struct ocl *o, struct wish *w, struct ocl_import *m,
                      struct ocl_fault *fault)
{
    const cl_ulong properties[] = {CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR,
                                   (cl_ulong)w->fd, 0};
    cl_int err = CL_SUCCESS;

    m->mem = o->api.clCreateBufferWithProperties(o->context, properties,
                                                 CL_MEM_READ_ONLY, m->of.size,
                                                 NULL, &err);
    if (!m->mem && !err)
        err = CL_INVALID_VALUE;
    if (ocl_failed(fault, err, "clCreateBufferWithProperties"))
        return false;
    // The descriptor is the driver's now.
    w->fd = -1;
    return true;
}

static void import(struct ocl *o, struct wish *w)
{
    struct ocl_import *m = at_place(o, &w->of);
    struct ocl_fault fault = {0};

    // What was at its place is gone, and nothing reads it any more.
    drop(o, m);
    m->of = w->of;
    if (w->of.kind == HR__VA_SURFACE ? ocl_surface_import(o, m, &fault)
                                     : import_fd(o, w, m, &fault))
        return;
    *m = (struct ocl_import){0};
    ocl_import_give_up(o, w->of.kind, &fault);
}

static int find_wishes(struct ocl *o, struct ocl_slot *slot,
                       struct wish wishes[OCL_BATCH])
{
    int n = 0;

    for (int i = 0; i < slot->num_items; i++) {
        struct hr__task *task = slot->items[i].task;

        if (!hr__task_claim(task))
            continue;
        if (may_import(o, task->in) && !ocl_import_of(o, task->in)) {
            const struct hr__external *x = task->in->external;

            wishes[n].of = *x;
            wishes[n++].fd = x->kind == HR__DMA_BUF
                                 ? fcntl(x->fd, F_DUPFD_CLOEXEC, 3)
                                 : -1;
        }
        hr__task_unclaim(task);
    }
    return n;
}

bool ocl_import_all(struct ocl *o, struct ocl_slot *slot)
{
    struct wish wishes[OCL_BATCH];
    bool alive;
    int n;

    if (!atomic_load(&o->imports.on) ||
        slot->items[0].task->span.first != HR_COLOR ||
        !(n = find_wishes(o, slot, wishes)))
        return true;
    ocl_enter(o);
    for (int i = 0; i < n; i++)
        if (wishes[i].of.kind & atomic_load(&o->imports.on) &&
            (wishes[i].fd >= 0 || wishes[i].of.kind != HR__DMA_BUF))
            import(o, &wishes[i]);
    alive = ocl_leave(o);
    for (int i = 0; i < n; i++)
        if (wishes[i].fd >= 0)
            close(wishes[i].fd);
    return alive;
}

// ---- Of one batch --------------------------------------------------------------

static void acquire_later(struct ocl_slot *slot, enum ocl_way way, cl_mem mem)
{
    slot->acquires[way].mems[slot->acquires[way].n++] = mem;
    slot->num_imports++;
}

void ocl_import_hold(struct ocl_slot *slot, struct ocl_item *item,
                     const struct hr__payload *in)
{
    const struct ocl_import *m = item->import;

    slot->holds[slot->num_holds] = *in->external;
    in->external->hold(&slot->holds[slot->num_holds++]);
    item->first_copy = slot->num_copies;
    slot->num_copies += ocl_pack_copies(item, item->task->pic, in,
                                        slot->copies + slot->num_copies);
    item->end_copy = slot->num_copies;
    if (m->of.kind == HR__DMA_BUF) {
        acquire_later(slot, OCL_BY_FD, m->mem);
        return;
    }
    // Each plane is copied once at most; grey pictures have no use for chroma.
    for (int i = item->first_copy; i < item->end_copy; i++) {
        ocl_surface_place(m, &slot->copies[i]);
        acquire_later(slot, OCL_BY_SURFACE, slot->copies[i].mem);
    }
}

void ocl_import_arrange(struct ocl_slot *slot, size_t base)
{
    for (int i = 0; i < slot->num_items; i++) {
        struct ocl_item *item = &slot->items[i];

        if (!item->import || item->dropped)
            continue;
        item->in_at = base;
        for (int k = item->first_copy; k < item->end_copy; k++)
            slot->copies[k].to += base;
        base += (item->in_bytes + 63) & ~(size_t)63;
    }
}

void ocl_import_let(struct ocl_slot *slot)
{
    for (int i = 0; i < slot->num_holds; i++)
        slot->holds[i].let(&slot->holds[i]);
    ocl_import_forget(slot);
}

void ocl_import_forget(struct ocl_slot *slot)
{
    slot->num_holds = slot->num_copies = slot->num_imports = 0;
    for (int i = 0; i < OCL_WAYS; i++)
        slot->acquires[i].n = 0;
}

static bool copy(struct ocl *o, cl_mem to, const struct ocl_copy *c,
                 struct ocl_fault *fault)
{
    // Columns may lie beyond the pitch: only their bytes count.
    size_t from[3] = {c->from, 0, 0}, at[3] = {c->to, 0, 0};
    size_t region[3] = {c->width, c->rows, 1};
    cl_int err;

    if (c->texel)
        return ocl_surface_copy(o, to, c, fault);
    err = o->api.clEnqueueCopyBufferRect(o->queues[OCL_UPLOAD], c->mem, to,
                                         from, at, region, c->stride, 0,
                                         c->width, 0, 0, NULL, NULL);
    return !ocl_failed(fault, err, "clEnqueueCopyBufferRect");
}

// What a way has of the batch. begun, done: events, or NULL.
static bool enqueue(struct ocl *o, struct ocl_slot *slot, enum ocl_way way,
                    cl_mem to, cl_event *begun, cl_event *done,
                    struct ocl_fault *fault)
{
    const struct ocl_way_calls *calls = &o->imports.ways[way];
    const struct ocl_acquire *a = &slot->acquires[way];
    cl_command_queue q = o->queues[OCL_UPLOAD];
    uint64_t bytes = 0;
    bool ok = true;

    if (ocl_failed(fault,
                   calls->acquire(q, (cl_uint)a->n, a->mems, 0, NULL, begun),
                   ways[way].acquire))
        return false;
    for (int i = 0; i < slot->num_copies && ok; i++) {
        if (!slot->copies[i].texel != (way == OCL_BY_FD))
            continue;
        ok = copy(o, to, &slot->copies[i], fault);
        bytes += slot->copies[i].width * slot->copies[i].rows;
    }
    // Also what could not be copied has been acquired.
    if (ocl_failed(fault,
                   calls->release(q, (cl_uint)a->n, a->mems, 0, NULL, done),
                   ways[way].release) ||
        !ok)
        return false;
    hr__engine_ref_count(&o->guard.ref,
                         offsetof(struct hr__meter, bytes_imported), bytes);
    return true;
}

bool ocl_import_enqueue(struct ocl *o, struct ocl_slot *slot, cl_mem to,
                        cl_event *done, struct ocl_fault *fault)
{
    int first = OCL_WAYS, last = 0;

    for (int way = OCL_WAYS; way-- > 0;)
        if (slot->acquires[way].n) {
            first = way;
            last = last > way ? last : way;
        }
    // The queue runs in order: the last command's event is that of all. If
    // there are several ways, the best gives the row its name.
    for (int i = first; i <= last; i++) {
        enum ocl_way way = (enum ocl_way)i;
        cl_event *begun = i == first ? ocl_times_import(o, slot, ways[last].row)
                                     : NULL;

        if (enqueue(o, slot, way, to, begun, i == last ? done : NULL, fault))
            continue;
        ocl_import_give_up(o, ways[way].kind, fault);
        return false;
    }
    return true;
}
