// SPDX-License-Identifier: Apache-2.0
// Surfaces of the media engine in front, read where they lie: images are made
// once for each of them (surface.c). A batch acquires what it reads, copies the
// rows that are wanted into its own input, in the device, and releases it.
// Kernels could read the surface itself, but take one input for a whole batch,
// and would have to be launched for each picture; a copy in the device costs
// little of what the bus would. If anything here fails, the batch is made again
// from the host's view of the same memory, and no more comes in that way.
#include <string.h>

#include "backends/opencl/opencl.h"

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

void ocl_import_open(struct ocl *o)
{
    struct ocl_imports *im = &o->imports;

    atomic_store(&im->on, ocl_surface_open(o) && !atomic_load(&im->failed));
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

    return !o->guard.dead && atomic_load(&o->imports.on) ? HR__VA_SURFACE : 0;
}

void ocl_import_give_up(struct ocl *o, const struct ocl_fault *fault)
{
    bool had = atomic_exchange(&o->imports.failed, true);

    atomic_store(&o->imports.on, false);
    if (had)
        return;
    hr__engine_ref_count(&o->guard.ref,
                         offsetof(struct hr__meter, import_falls), 1);
    hr__guard_log(&o->guard, HR_LOG_WARN,
                  "VA-API surfaces are not imported from now on: %s",
                  fault->text);
}

// ---- Objects -------------------------------------------------------------------

static struct ocl_import *at_place(struct ocl *o, const struct hr__external *x)
{
    return &o->imports.of[(unsigned)x->place % OCL_IMPORTS];
}

// Whether it may be imported. A surface that was mapped for the host has other
// planes since.
static bool may_import(struct ocl *o, const struct hr__payload *in)
{
    return in && in->external && in->external->kind == HR__VA_SURFACE &&
           !in->data && atomic_load(&o->imports.on);
}

struct ocl_import *ocl_import_of(struct ocl *o, const struct hr__payload *in)
{
    struct ocl_import *m;

    if (!may_import(o, in))
        return NULL;
    m = at_place(o, in->external);
    return m->mem && m->of.id == in->external->id ? m : NULL;
}

static void import(struct ocl *o, const struct hr__external *of)
{
    struct ocl_import *m = at_place(o, of);
    struct ocl_fault fault = {0};

    // What was at its place is gone, and nothing reads it any more.
    drop(o, m);
    m->of = *of;
    if (ocl_surface_import(o, m, &fault))
        return;
    *m = (struct ocl_import){0};
    ocl_import_give_up(o, &fault);
}

static int find_wishes(struct ocl *o, struct ocl_slot *slot,
                       struct hr__external wishes[OCL_BATCH])
{
    int n = 0;

    for (int i = 0; i < slot->num_items; i++) {
        struct hr__task *task = slot->items[i].task;

        if (!hr__task_claim(task))
            continue;
        if (may_import(o, task->in) && !ocl_import_of(o, task->in))
            wishes[n++] = *task->in->external;
        hr__task_unclaim(task);
    }
    return n;
}

bool ocl_import_all(struct ocl *o, struct ocl_slot *slot)
{
    struct hr__external wishes[OCL_BATCH];
    int n;

    if (!atomic_load(&o->imports.on) ||
        slot->items[0].task->span.first != HR_COLOR ||
        !(n = find_wishes(o, slot, wishes)))
        return true;
    ocl_enter(o);
    for (int i = 0; i < n && atomic_load(&o->imports.on); i++)
        import(o, &wishes[i]);
    return ocl_leave(o);
}

// ---- Of one batch --------------------------------------------------------------

void ocl_import_hold(struct ocl_slot *slot, struct ocl_item *item,
                     const struct hr__payload *in)
{
    slot->holds[slot->num_holds] = *in->external;
    in->external->hold(&slot->holds[slot->num_holds++]);
    item->first_copy = slot->num_copies;
    slot->num_copies += ocl_pack_copies(item, item->task->pic, in,
                                        slot->copies + slot->num_copies);
    item->end_copy = slot->num_copies;
    // Each plane is copied once at most; grey pictures have no use for chroma.
    for (int i = item->first_copy; i < item->end_copy; i++) {
        ocl_surface_place(item->import, &slot->copies[i]);
        slot->acquires[slot->num_acquires++] = slot->copies[i].mem;
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
    slot->num_holds = slot->num_copies = slot->num_acquires = 0;
}

// begun, done: events, or NULL.
static bool enqueue(struct ocl *o, struct ocl_slot *slot, cl_mem to,
                    cl_event *begun, cl_event *done, struct ocl_fault *fault)
{
    const struct ocl_imports *im = &o->imports;
    cl_command_queue q = o->queues[OCL_UPLOAD];
    cl_uint n = (cl_uint)slot->num_acquires;
    uint64_t bytes = 0;
    bool ok = true;

    if (ocl_failed(fault, im->acquire(q, n, slot->acquires, 0, NULL, begun),
                   "clEnqueueAcquireVA_APIMediaSurfacesINTEL"))
        return false;
    for (int i = 0; i < slot->num_copies && ok; i++) {
        ok = ocl_surface_copy(o, to, &slot->copies[i], fault);
        bytes += slot->copies[i].width * slot->copies[i].rows;
    }
    // Also what could not be copied has been acquired.
    if (ocl_failed(fault, im->release(q, n, slot->acquires, 0, NULL, done),
                   "clEnqueueReleaseVA_APIMediaSurfacesINTEL") ||
        !ok)
        return false;
    hr__engine_ref_count(&o->guard.ref,
                         offsetof(struct hr__meter, bytes_imported), bytes);
    return true;
}

bool ocl_import_enqueue(struct ocl *o, struct ocl_slot *slot, cl_mem to,
                        cl_event *done, struct ocl_fault *fault)
{
    // The queue runs in order: the last command's event is that of all.
    if (!slot->num_acquires ||
        enqueue(o, slot, to, ocl_times_import(o, slot), done, fault))
        return true;
    ocl_import_give_up(o, fault);
    return false;
}
