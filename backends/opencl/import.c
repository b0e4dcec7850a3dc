// SPDX-License-Identifier: Apache-2.0
// Memory of another engine, read where it lies: imported once for each of its
// surfaces, by cl_khr_external_memory. A batch acquires what it reads, copies
// the rows that are wanted into its own input, in the device, and releases
// it. Kernels could read the surface itself, but take one input for a whole
// batch, and would have to be launched for each picture; a copy in the device
// costs little of what the bus would. If anything here fails, the batch is
// made again from the host's view of the same memory, and no more comes in.
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

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

static bool has_extension(struct ocl *o)
{
    size_t size = 0;
    char *text;
    bool has;

    if (o->api.clGetDeviceInfo(o->facts.device, CL_DEVICE_EXTENSIONS, 0, NULL,
                               &size) ||
        !size || !(text = hr__alloc(NULL, size + 1)))
        return false;
    memset(text, 0, size + 1);
    has = !o->api.clGetDeviceInfo(o->facts.device, CL_DEVICE_EXTENSIONS, size,
                                  text, NULL) &&
          has_word(text, "cl_khr_external_memory") &&
          has_word(text, "cl_khr_external_memory_dma_buf");
    hr__free(text);
    return has;
}

static bool find(struct ocl *o, const char *name, void *to)
{
    void *entry = o->api.clGetExtensionFunctionAddressForPlatform(
        o->facts.platform_id, name);

    memcpy(to, &entry, sizeof(entry));
    return entry != NULL;
}

void ocl_import_open(struct ocl *o)
{
    struct ocl_imports *im = &o->imports;

    im->can = o->api.clGetExtensionFunctionAddressForPlatform &&
              o->api.clCreateBufferWithProperties &&
              o->api.clEnqueueCopyBufferRect && has_extension(o) &&
              find(o, "clEnqueueAcquireExternalMemObjectsKHR", &im->acquire) &&
              find(o, "clEnqueueReleaseExternalMemObjectsKHR", &im->release);
    atomic_store(&im->on, im->can && !atomic_load(&im->failed));
}

void ocl_import_close(struct ocl *o)
{
    for (int i = 0; i < OCL_IMPORTS; i++) {
        struct ocl_import *m = &o->imports.of[i];

        if (m->mem)
            o->api.clReleaseMemObject(m->mem);
        *m = (struct ocl_import){0};
    }
}

unsigned ocl_import_kinds(struct hr__engine *e)
{
    return atomic_load(&ocl_of(e)->imports.on) ? HR__DMA_BUF : 0;
}

// From now on memory of others comes through the host.
void ocl_import_give_up(struct ocl *o, const struct ocl_fault *fault)
{
    atomic_store(&o->imports.failed, true);
    atomic_store(&o->imports.on, false);
    pthread_mutex_lock(&o->hal.lock);
    if (o->hal.e)
        hr__count(&o->hal.e->meter.import_falls, 1);
    pthread_mutex_unlock(&o->hal.lock);
    ocl_log(o, HR_LOG_WARN,
            "memory of other engines goes through the host from now on: %s",
            fault->text);
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

struct ocl_import *ocl_import_of(struct ocl *o, const struct hr__payload *in)
{
    struct ocl_import *m;

    if (!in || !in->external || !atomic_load(&o->imports.on))
        return NULL;
    m = at_place(o, in->external);
    return m->mem && m->id == in->external->id ? m : NULL;
}

static void import(struct ocl *o, struct wish *w)
{
    const cl_ulong properties[] = {CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR,
                                   (cl_ulong)w->fd, 0};
    struct ocl_import *m = at_place(o, &w->of);
    struct ocl_fault fault = {0};
    cl_int err = CL_SUCCESS;
    cl_mem mem;

    // What was at its place is gone, and nothing reads it any more.
    if (m->mem)
        o->api.clReleaseMemObject(m->mem);
    *m = (struct ocl_import){0};
    mem = o->api.clCreateBufferWithProperties(o->context, properties,
                                              CL_MEM_READ_ONLY, w->of.size,
                                              NULL, &err);
    if (ocl_failed(&fault,
                   mem   ? err
                   : err ? err
                         : CL_INVALID_VALUE,
                   "clCreateBufferWithProperties")) {
        ocl_import_give_up(o, &fault);
        return;
    }
    // The descriptor is the driver's now.
    w->fd = -1;
    *m = (struct ocl_import){.mem = mem, .id = w->of.id, .size = w->of.size};
}

static int find_wishes(struct ocl *o, struct ocl_slot *slot,
                       struct wish wishes[OCL_BATCH])
{
    int n = 0;

    for (int i = 0; i < slot->num_items; i++) {
        struct hr__task *task = slot->items[i].task;
        const struct hr__external *x;

        if (!hr__task_claim(task))
            continue;
        x = task->in ? task->in->external : NULL;
        if (x && x->kind == HR__DMA_BUF && !x->modifier &&
            !ocl_import_of(o, task->in)) {
            wishes[n].of = *x;
            wishes[n++].fd = fcntl(x->fd, F_DUPFD_CLOEXEC, 3);
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
    for (int i = 0; i < n && atomic_load(&o->imports.on); i++)
        if (wishes[i].fd >= 0)
            import(o, &wishes[i]);
    alive = ocl_leave(o);
    for (int i = 0; i < n; i++)
        if (wishes[i].fd >= 0)
            close(wishes[i].fd);
    return alive;
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
    slot->imports[slot->num_imports++] = item->import->mem;
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
}

static bool copy(struct ocl *o, cl_mem to, const struct ocl_copy *c,
                 struct ocl_fault *fault)
{
    // Columns may lie beyond the pitch: only their bytes count.
    size_t from[3] = {c->from, 0, 0}, at[3] = {c->to, 0, 0};
    size_t region[3] = {c->width, c->rows, 1};
    cl_int err;

    err = o->api.clEnqueueCopyBufferRect(o->queues[OCL_UPLOAD], c->mem, to,
                                         from, at, region, c->stride, 0,
                                         c->width, 0, 0, NULL, NULL);
    return !ocl_failed(fault, err, "clEnqueueCopyBufferRect");
}

static bool enqueue(struct ocl *o, struct ocl_slot *slot, cl_mem to,
                    cl_event *done, struct ocl_fault *fault)
{
    cl_command_queue q = o->queues[OCL_UPLOAD];
    cl_uint n = (cl_uint)slot->num_imports;
    uint64_t bytes = 0;
    bool ok = true;

    if (ocl_failed(fault,
                   o->imports.acquire(q, n, slot->imports, 0, NULL, NULL),
                   "clEnqueueAcquireExternalMemObjectsKHR"))
        return false;
    for (int i = 0; i < slot->num_copies && ok; i++) {
        ok = copy(o, to, &slot->copies[i], fault);
        bytes += slot->copies[i].width * slot->copies[i].rows;
    }
    // Also what could not be copied has been acquired.
    if (ocl_failed(fault,
                   o->imports.release(q, n, slot->imports, 0, NULL, done),
                   "clEnqueueReleaseExternalMemObjectsKHR") ||
        !ok)
        return false;
    pthread_mutex_lock(&o->hal.lock);
    if (o->hal.e)
        hr__count(&o->hal.e->meter.bytes_imported, bytes);
    pthread_mutex_unlock(&o->hal.lock);
    return true;
}

bool ocl_import_enqueue(struct ocl *o, struct ocl_slot *slot, cl_mem to,
                        cl_event *done, struct ocl_fault *fault)
{
    if (!slot->num_imports || enqueue(o, slot, to, done, fault))
        return true;
    ocl_import_give_up(o, fault);
    return false;
}
