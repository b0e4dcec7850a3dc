// SPDX-License-Identifier: Apache-2.0
// Surfaces of the media engine in front, read where they lie. Images are made
// once for each surface (surface.c). A batch acquires the images that it reads,
// copies the rows that are wanted into its own input, in the device, and
// releases them. Kernels could read the surface itself, but they take one input
// for a whole batch, and would have to be launched for each picture; a copy in
// the device costs little of what the bus would. If anything here fails, the
// batch is made again from the host's view of the same memory, and from then on
// no surface is imported.
#include "backends/opencl/opencl.h"

// ---- The context -----------------------------------------------------------

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

// ---- Objects ---------------------------------------------------------------

static struct ocl_import *at_place(struct ocl *o, const struct hr__external *x)
{
    return &o->imports.of[(unsigned)x->place % OCL_IMPORTS];
}

// A surface that was mapped for the host is not imported: it has other planes
// since.
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

    // The surface that was at its place is gone, and nothing reads it any more.
    drop(o, m);
    m->of = *of;
    if (ocl_surface_import(o, m, &fault))
        return;
    *m = (struct ocl_import){0};
    ocl_import_give_up(o, &fault);
}

static int find_missing(struct ocl *o, struct ocl_batch *batch,
                        struct hr__external missing[OCL_BATCH])
{
    int n = 0;

    for (int i = 0; i < batch->num_items; i++) {
        struct hr__task *task = batch->items[i].task;

        if (!hr__task_claim(task))
            continue;
        if (may_import(o, task->in) && !ocl_import_of(o, task->in))
            missing[n++] = *task->in->external;
        hr__task_unclaim(task);
    }
    return n;
}

bool ocl_import_all(struct ocl *o, struct ocl_batch *batch)
{
    struct hr__external missing[OCL_BATCH];
    int n;

    if (!atomic_load(&o->imports.on) ||
        batch->items[0].task->span.first != HR_COLOR ||
        !(n = find_missing(o, batch, missing)))
        return true;
    ocl_enter(o);
    for (int i = 0; i < n && atomic_load(&o->imports.on); i++)
        import(o, &missing[i]);
    return ocl_leave(o);
}

// ---- Of one batch ----------------------------------------------------------

// Finds the rows of a copy in the images. Luma has a byte per pixel, chroma
// two; struct hr__external says where both lie among the bytes that hr__planes
// speaks of.
static void find_rows(const struct ocl_import *m, struct ocl_copy *c)
{
    size_t w = m->of.width, luma = w * m->of.height;
    size_t at = c->from < luma ? c->from : c->from - luma;

    c->mem = c->from < luma ? m->mem : m->chroma;
    c->texel = c->from < luma ? 1 : 2;
    c->x = at % w / c->texel;
    c->y = at / w;
}

void ocl_import_retain(struct ocl_batch *batch, struct ocl_item *item,
                       const struct hr__payload *in)
{
    batch->externals[batch->num_externals] = *in->external;
    in->external->retain(&batch->externals[batch->num_externals++]);
    item->first_copy = batch->num_copies;
    batch->num_copies += ocl_describe_copies(item, item->task->pic, in,
                                             batch->copies + batch->num_copies);
    item->end_copy = batch->num_copies;
    // Each plane is copied once at most; grey pictures have no use for chroma.
    for (int i = item->first_copy; i < item->end_copy; i++) {
        find_rows(item->import, &batch->copies[i]);
        batch->acquires[batch->num_acquires++] = batch->copies[i].mem;
    }
}

void ocl_import_arrange(struct ocl_batch *batch, size_t base)
{
    for (int i = 0; i < batch->num_items; i++) {
        struct ocl_item *item = &batch->items[i];

        if (!item->import || item->dropped)
            continue;
        item->in_at = base;
        for (int k = item->first_copy; k < item->end_copy; k++)
            batch->copies[k].to += base;
        base += ocl_aligned(item->in_bytes);
    }
}

void ocl_import_release(struct ocl_batch *batch)
{
    for (int i = 0; i < batch->num_externals; i++)
        batch->externals[i].release(&batch->externals[i]);
    ocl_import_forget(batch);
}

void ocl_import_forget(struct ocl_batch *batch)
{
    batch->num_externals = batch->num_copies = batch->num_acquires = 0;
}

static bool copy_rows(struct ocl *o, cl_mem to, const struct ocl_copy *c,
                      struct ocl_fault *fault)
{
    const size_t from[3] = {c->x, c->y, 0};
    const size_t region[3] = {c->width / c->texel, c->rows, 1};

    return !ocl_failed(
        fault,
        o->api.clEnqueueCopyImageToBuffer(o->queues[OCL_UPLOAD], c->mem, to,
                                          from, region, c->to, 0, NULL, NULL),
        "clEnqueueCopyImageToBuffer");
}

bool ocl_import_enqueue(struct ocl *o, struct ocl_batch *batch, cl_mem to,
                        cl_event *done, struct ocl_fault *fault)
{
    const struct ocl_imports *im = &o->imports;
    cl_command_queue q = o->queues[OCL_UPLOAD];
    cl_uint n = (cl_uint)batch->num_acquires;
    uint64_t bytes = 0;
    bool ok;

    if (!n)
        return true;
    ok = !ocl_failed(fault,
                     im->acquire(q, n, batch->acquires, 0, NULL,
                                 ocl_times_import(o, batch)),
                     "clEnqueueAcquireVA_APIMediaSurfacesINTEL");
    if (ok) {
        for (int i = 0; i < batch->num_copies && ok; i++) {
            ok = copy_rows(o, to, &batch->copies[i], fault);
            bytes += batch->copies[i].width * batch->copies[i].rows;
        }
        // Images that could not be copied have been acquired, too. The queue
        // runs in order: the last command's event is that of all.
        ok &= !ocl_failed(fault,
                          im->release(q, n, batch->acquires, 0, NULL, done),
                          "clEnqueueReleaseVA_APIMediaSurfacesINTEL");
    }
    if (ok)
        hr__engine_ref_count(&o->guard.ref,
                             offsetof(struct hr__meter, bytes_imported), bytes);
    else
        ocl_import_give_up(o, fault);
    return ok;
}
