// SPDX-License-Identifier: Apache-2.0
// The commands of a packed batch: one upload, one launch per stage with the
// list of groups that it works at, one download.
#include <string.h>

#include "backends/opencl/opencl.h"
#include "kernels/plan.h"

// ---- Launching ------------------------------------------------------------

// The kernels in order, in the form for host processors if there is one, and
// the stages at which spans that run them begin. The last two are for pictures
// that have codes, of which hr_store leaves bytes in work, and for pictures that
// are painted on.
#define FIRST(stage) (1u << HR_##stage)
static const struct {
    unsigned first;
    int kernel;
} stages[OCL_LAUNCHES] = {
    {FIRST(ENTROPY), HR__KERNEL_BEGIN},
    {FIRST(ENTROPY), HR__KERNEL_GUESS},
    {FIRST(ENTROPY), HR__KERNEL_AGAIN},
    {FIRST(ENTROPY), HR__KERNEL_FAR},
    {FIRST(ENTROPY), HR__KERNEL_CHECK},
    {FIRST(ENTROPY), HR__KERNEL_WRITE},
    {FIRST(ENTROPY), HR__KERNEL_DC},
    {FIRST(RECONSTRUCT), HR__KERNEL_INDEX},
    {FIRST(ENTROPY) | FIRST(RECONSTRUCT), HR__KERNEL_RECONSTRUCT},
    {FIRST(ENTROPY) | FIRST(RECONSTRUCT), HR__KERNEL_FUSED_GPU},
    {FIRST(COLOR), HR__KERNEL_PLANES},
    {FIRST(ENTROPY) | FIRST(RECONSTRUCT) | FIRST(COLOR), HR__KERNEL_COLOR},
    {FIRST(RESAMPLE) | FIRST(AUGMENT), HR__KERNEL_PIXELS},
    {~0u, HR__KERNEL_RESAMPLE},
    {~0u, HR__KERNEL_STORE},
    {~0u, HR__KERNEL_AUGMENT},
    {~0u, HR__KERNEL_ERASE},
};
#undef FIRST

// Says whether the kernel has the items of hr_entropy_guess.
static bool goes_on(int kernel)
{
    return kernel == HR__KERNEL_AGAIN || kernel == HR__KERNEL_FAR;
}

// For host processors hr_entropy_check does the same, unless its items had too
// many rounds.
static bool go_alone(struct ocl *o, const struct ocl_batch *batch)
{
    for (int i = 0; i < batch->num_items; i++) {
        uint32_t subs = ocl_plan_picture(&o->plan, i)->num_subs;

        if (subs &&
            subs * batch->items[i].file->entropy.sub_marks > HR__MARKS_ALONE)
            return true;
    }
    return batch->gpu;
}

static int kernel_of(const struct ocl_batch *batch, int stage)
{
    int kernel = stages[stage].kernel;
    bool resizes = kernel == HR__KERNEL_RESAMPLE || kernel == HR__KERNEL_STORE;

    if (resizes ? batch->tiles : batch->gpu)
        return hr__kernel_gpu(kernel);
    return kernel;
}

static bool runs(int stage, enum hr_stage first)
{
    return stages[stage].first >> first & 1;
}

// Says whether the form for GPUs can resize the batch: one form resizes a whole
// batch, so that there are never more launches.
static bool suits_tiles(struct ocl *o, const struct ocl_batch *batch)
{
    for (int i = 0; i < batch->num_items; i++)
        if (!hr__kernel_suits_gpu(ocl_plan_picture(&o->plan, i)))
            return false;
    return o->plan.gpu;
}

// The groups of picture i for a launch.
static uint32_t groups_of(struct ocl *o, const struct ocl_batch *batch, int s,
                          int i)
{
    if (batch->items[i].dropped)
        return 0;
    return hr__kernel_groups(ocl_plan_picture(&o->plan, i),
                             kernel_of(batch, s));
}

// Groups of hr_augment, one for each picture, in the order of their cost: the
// longest begins first.
static void sort_groups(struct ocl *o, uint32_t *list, const uint32_t *end)
{
    for (uint32_t *at = list; at < end; at += 2) {
        uint32_t picture = *at, *to = at;
        uint32_t cost = ocl_plan_picture(&o->plan, (int)picture)->cost;

        for (;
             to > list && ocl_plan_picture(&o->plan, (int)to[-2])->cost < cost;
             to -= 2)
            to[0] = to[-2];
        to[0] = picture;
    }
}

// Writes the lists of groups behind the plan.
static void write_lists(struct ocl *o, struct ocl_batch *batch,
                        enum hr_stage first)
{
    uint32_t *words = batch->up.host, *end = words + o->plan.size / 4;
    bool alone;

    batch->gpu = o->plan.gpu;
    batch->tiles = suits_tiles(o, batch);
    alone = go_alone(o, batch);
    for (int s = 0; s < OCL_LAUNCHES; s++) {
        struct ocl_groups *groups = &batch->lists[s];
        uint32_t *list = end;
        int kernel = kernel_of(batch, s);

        *groups = (struct ocl_groups){(uint32_t)(list - words), 0};
        if (!runs(s, first) || kernel == HR__NUM_KERNELS)
            continue;
        if (goes_on(kernel)) {
            if (alone)
                *groups = groups[-1];
            continue;
        }
        for (int i = 0; i < batch->num_items; i++)
            end = hr__kernel_list(end, (uint32_t)i, groups_of(o, batch, s, i));
        if (kernel == HR__KERNEL_AUGMENT)
            sort_groups(o, list, end);
        end = hr__kernel_pad(list, end);
        groups->num = (uint32_t)(end - list) / 2;
    }
}

static bool set_arg(struct ocl *o, cl_kernel k, cl_uint at, size_t size,
                    const void *value, struct ocl_fault *fault)
{
    return !ocl_failed(fault, o->api.clSetKernelArg(k, at, size, value),
                       "clSetKernelArg");
}

static bool set_args(struct ocl *o, struct ocl_batch *batch, int stage,
                     cl_uint list, struct ocl_fault *fault)
{
    int kernel = kernel_of(batch, stage);
    cl_kernel k = o->kernels[kernel];
    bool unified = o->facts.unified, entropy = kernel <= HR__KERNEL_DC;
    cl_mem in = unified ? batch->up.mem : batch->in.mem;
    cl_mem own = unified ? batch->down.mem : batch->out.mem;
    // (Flags are always downloaded.)
    cl_mem out = batch->dst && !entropy ? batch->dst : own;
    cl_mem work = o->planes.mem, from = batch->src ? batch->src : in;
    cl_mem axes = o->axes.mem.mem;
    bool stores = kernel == HR__KERNEL_STORE || kernel == HR__KERNEL_RESIZE_GPU;
    bool weighs = stores || kernel == HR__KERNEL_RESAMPLE;
    bool augments = kernel == HR__KERNEL_AUGMENT;
    bool erases = kernel == HR__KERNEL_ERASE;
    cl_uint at = HR__ARG_FIRST_BUFFER;
    bool reads = !weighs && !augments && !erases &&
                 kernel != HR__KERNEL_COLOR && kernel != HR__KERNEL_COLOR_GPU;

    return set_arg(o, k, HR__ARG_PLAN, sizeof(in), &in, fault) &&
           set_arg(o, k, HR__ARG_LIST, sizeof(list), &list, fault) &&
           (!reads || set_arg(o, k, at++, sizeof(from), &from, fault)) &&
           (!weighs || set_arg(o, k, at++, sizeof(axes), &axes, fault)) &&
           (erases || set_arg(o, k, at++, sizeof(work), &work, fault)) &&
           ((!stores && !entropy && !augments && !erases) ||
            set_arg(o, k, at++, sizeof(out), &out, fault));
}

// The last launch's event is batch->computed.
static bool launch(struct ocl *o, struct ocl_batch *batch,
                   struct ocl_fault *fault)
{
    const cl_event waits[] = {batch->uploaded, o->axes.sent_event};
    const cl_uint num = waits[1] ? 2 : 1;
    bool waited = false;

    for (int s = 0; s < OCL_LAUNCHES; s++)
        if (batch->lists[s].num)
            batch->times.last = s;
    for (int s = 0; s <= batch->times.last; s++) {
        const struct ocl_groups *groups = &batch->lists[s];
        size_t global[2], local[2] = {HR__GROUP, 1};
        bool last = s == batch->times.last;
        int kernel = kernel_of(batch, s);
        cl_event *event;
        cl_int err;

        if (!groups->num)
            continue;
        event = ocl_times_kernel(o, batch, s, kernel);
        global[1] = hr__kernel_rows(groups->num, &global[0]);
        if (kernel == HR__KERNEL_AUGMENT)
            local[0] = ocl_augment_items(o);
        global[0] *= local[0];
        if (!set_args(o, batch, s, groups->at, fault))
            return false;
        err = o->api.clEnqueueNDRangeKernel(o->queues[OCL_COMPUTE],
                                            o->kernels[kernel], 2, NULL, global,
                                            local, waited ? 0 : num,
                                            waited ? NULL : waits,
                                            last ? &batch->computed : event);
        if (ocl_failed(fault, err, "clEnqueueNDRangeKernel"))
            return false;
        waited = true;
        atomic_fetch_add(&o->launches, 1);
    }
    return true;
}

// ---- Copying ---------------------------------------------------------------

// Enqueues the upload. If the device shares the host's memory, the buffers are
// unmapped instead of copied, which costs nothing.
static bool enqueue_upload(struct ocl *o, struct ocl_batch *batch, size_t size,
                           struct ocl_fault *fault)
{
    cl_command_queue q = o->queues[OCL_UPLOAD];
    cl_event *done = batch->num_acquires ? ocl_times_upload(o, batch, 0)
                                         : &batch->uploaded;
    void *host = batch->up.host;
    cl_int err;

    if (o->facts.unified) {
        batch->up.host = NULL;
        if (ocl_failed(fault,
                       o->api.clEnqueueUnmapMemObject(
                           q, batch->down.mem, batch->down.host, 0, NULL, NULL),
                       "clEnqueueUnmapMemObject"))
            return false;
        batch->down.host = NULL;
        err = o->api.clEnqueueUnmapMemObject(q, batch->up.mem, host, 0, NULL,
                                             done);
        return !ocl_failed(fault, err, "clEnqueueUnmapMemObject") &&
               ocl_import_enqueue(o, batch, batch->up.mem, &batch->uploaded,
                                  fault);
    }
    for (int i = 0; i < batch->num_runs; i++) {
        const struct ocl_run *run = &batch->runs[i];

        err = o->api.clEnqueueWriteBuffer(q, batch->in.mem, CL_FALSE, run->to,
                                          run->size, run->from, 0, NULL,
                                          ocl_times_upload(o, batch, i));
        if (ocl_failed(fault, err, "clEnqueueWriteBuffer"))
            return false;
    }
    // The queue runs in order: when this has arrived, all has.
    err = o->api.clEnqueueWriteBuffer(q, batch->in.mem, CL_FALSE, 0, size, host,
                                      0, NULL, done);
    atomic_fetch_add(&o->transfers, (uint64_t)batch->num_runs);
    return !ocl_failed(fault, err, "clEnqueueWriteBuffer") &&
           ocl_import_enqueue(o, batch, batch->in.mem, &batch->uploaded, fault);
}

static void *enqueue_map(struct ocl *o, struct ocl_buffer *b, cl_map_flags how,
                         cl_event after, cl_event *done,
                         struct ocl_fault *fault)
{
    cl_int err;

    // This does not block: the pointer is known at once, and valid after the
    // event.
    b->host = o->api.clEnqueueMapBuffer(o->queues[OCL_DOWNLOAD], b->mem,
                                        CL_FALSE, how, 0, b->size, 1, &after,
                                        done, &err);
    if (ocl_failed(fault, err, "clEnqueueMapBuffer"))
        b->host = NULL;
    return b->host;
}

static bool enqueue_read(struct ocl *o, struct ocl_batch *batch, size_t from,
                         size_t size, void *to, bool first, bool last,
                         struct ocl_fault *fault)
{
    cl_int err = o->api.clEnqueueReadBuffer(o->queues[OCL_DOWNLOAD],
                                            batch->out.mem, CL_FALSE, from,
                                            size, to, first ? 1 : 0,
                                            first ? &batch->computed : NULL,
                                            last ? &batch->downloaded : NULL);

    atomic_fetch_add(&o->transfers, 1);
    return !ocl_failed(fault, err, "clEnqueueReadBuffer");
}

// Straight to the tensors; then the flags. The queue runs in order.
static bool enqueue_downs(struct ocl *o, struct ocl_batch *batch,
                          struct ocl_fault *fault)
{
    size_t at = ocl_plan_flags(&o->plan), flags = (size_t)o->plan.flags;
    int n = batch->num_downs;

    for (int i = 0; i < n; i++) {
        const struct ocl_down *d = &batch->downs[i];

        if (!enqueue_read(o, batch, d->from, d->size, d->to, !i,
                          i == n - 1 && !flags, fault))
            return false;
    }
    return !flags ||
           enqueue_read(o, batch, at, flags, (uint8_t *)batch->down.host + at,
                        !n, true, fault);
}

static bool enqueue_download(struct ocl *o, struct ocl_batch *batch,
                             size_t size, struct ocl_fault *fault)
{
    if (o->facts.unified)
        return enqueue_map(o, &batch->up, CL_MAP_WRITE, batch->computed, NULL,
                           fault) &&
               enqueue_map(o, &batch->down, CL_MAP_READ, batch->computed,
                           &batch->downloaded, fault);
    if (!size) {  // all of it stays on the device
        batch->downloaded = batch->computed;
        batch->computed = NULL;
        return true;
    }
    if (batch->num_downs > 0)
        return enqueue_downs(o, batch, fault);
    return enqueue_read(o, batch, 0, size, batch->down.host, true, true, fault);
}

// ---- All of it -------------------------------------------------------------

// Payloads lie behind the plan, in the same upload.
static void shift(struct hr__kernel_picture *p, uint32_t by)
{
    p->entropy += by;
    p->packed += by;
    p->pixels += by;
    for (int i = 0; i < 3; i++) {
        p->comp[i].segments += by;
        p->comp[i].quant += by;
        p->comp[i].samples += by;
    }
}

void ocl_fill(struct ocl *o, struct ocl_batch *batch, enum hr_stage first)
{
    size_t base = ocl_plan_bytes(&o->plan);

    for (int i = 0; i < batch->num_items && !batch->src; i++) {
        const struct ocl_item *item = &batch->items[i];
        struct hr__kernel_picture *p = ocl_plan_picture(&o->plan, i);

        shift(p, (uint32_t)(item->pinned || item->import ? item->in_at : base));
        // The quantizers are those of its lead, which came before.
        for (int k = 0; k < 3 && item->recolors; k++)
            p->comp[k].quant =
                ocl_plan_picture(&o->plan, item->lead - 1)->comp[k].quant;
    }
    write_lists(o, batch, first);
    memcpy(batch->up.host, o->plan.data, o->plan.size);
}

bool ocl_enqueue(struct ocl *o, struct ocl_batch *batch,
                 struct ocl_fault *fault)
{
    size_t in = ocl_plan_bytes(&o->plan) + (size_t)o->plan.in;
    size_t axes = ocl_axes_new(&o->axes);

    // A queue that others wait for must be flushed, or they may stall.
    ocl_times_begin(o, batch);
    if (!ocl_axes_send(o, (uint8_t *)batch->up.host + batch->axes_at, fault) ||
        !enqueue_upload(o, batch, in, fault) ||
        ocl_failed(fault, o->api.clFlush(o->queues[OCL_UPLOAD]), "clFlush") ||
        !(ocl_times_uploaded(batch), launch(o, batch, fault)) ||
        ocl_failed(fault, o->api.clFlush(o->queues[OCL_COMPUTE]), "clFlush") ||
        !enqueue_download(o, batch, ocl_plan_out(&o->plan), fault))
        return false;
    // (A device that shares memory makes none of these, but counts alike.)
    atomic_fetch_add(&o->transfers, o->facts.unified ? 2 : 1);
    atomic_fetch_add(&o->batches, 1);
    for (int i = 0; i < batch->num_runs; i++)
        in += batch->runs[i].size;
    ocl_times_sent(o, batch, in + axes, ocl_plan_out(&o->plan));
    return true;
}
