// SPDX-License-Identifier: Apache-2.0
// The commands that pack the pictures of a batch which are kept, behind its own:
// what the kernels are told of each, their lists, their launches.
#include <string.h>

#include "backends/opencl/keep.h"
#include "backends/opencl/opencl.h"
#include "kernels/plan.h"

// Kernels of stage entropy among those of packing.
static const struct {
    bool pack;
    int kernel;
} launches[OCL_KEEP_LAUNCHES] = {
    {true, HR__PACK_CLEAR},   {false, HR__KERNEL_WRITE}, {false, HR__KERNEL_DC},
    {true, HR__PACK_MEASURE}, {true, HR__PACK_PLACE},    {true, HR__PACK_WRITE},
};

static uint32_t groups(const struct hr__kernel_picture *p,
                       const struct hr__pack *pack, int launch)
{
    int kernel = launches[launch].kernel;

    if (!launches[launch].pack)
        return hr__kernel_groups(p, kernel);
    if (kernel == HR__PACK_CLEAR)
        return (p->num_coefs + HR__GROUP - 1) / HR__GROUP;
    return kernel == HR__PACK_PLACE ? 1 : pack->segments;
}

// What the kernels are told of a picture. False: the device does not decode it.
static bool tell(struct ocl *o, struct ocl_batch *batch, struct ocl_kept *k,
                 bool first)
{
    const struct ocl_item *item = &batch->items[k->item];
    const struct hr__entropy *e = &item->file->entropy;
    struct hr__kernel_picture *of = ocl_plan_picture(&o->plan, k->item);
    struct hr__kernel_picture *p = ocl_plan_picture(&o->plan, k->picture);
    struct hr__entropy *scan = &k->pack.scan;
    uint32_t at = (uint32_t)ocl_entropy_pack_at();

    if (item->dropped || item->why)
        return false;
    for (uint32_t i = 0; i < e->num_components; i++) {
        struct hr__entropy_component all = scan->comp[i];

        scan->comp[i] = e->comp[i];
        scan->comp[i].block_x = scan->comp[i].block_y = 0;
        scan->comp[i].blocks_w = all.blocks_w;
        scan->comp[i].blocks_h = all.blocks_h;
        scan->comp[i].coefs = all.coefs;
    }
    memcpy(scan, e, offsetof(struct hr__entropy, comp));
    scan->scan -= at;
    scan->intervals -= at;
    scan->codes -= at;
    k->table_at += ocl_plan_flags(&o->plan);
    k->pack.table = (hr__word)k->table_at;
    k->pack.cursor = (hr__word)batch->keep->cursor_at;
    k->pack.room = (hr__word)batch->keep->room;
    k->pack.first = first;
    p->entropy = of->entropy + at;
    p->num_subs = of->num_subs;
    p->num_intervals = of->num_intervals;
    memcpy(item->pinned ? item->pinned + at
                        : (uint8_t *)batch->up.host + p->entropy,
           &k->pack, sizeof(k->pack));
    return true;
}

void ocl_keep_fill(struct ocl *o, struct ocl_batch *batch)
{
    uint32_t *words = batch->up.host;
    uint32_t *end = words + batch->lists_end;
    struct ocl_keep *keep = batch->keep;
    bool told[OCL_BATCH], first = true;

    if (!keep)
        return;
    keep->cursor_at += ocl_plan_flags(&o->plan);
    for (int i = 0; i < keep->num_pictures; i++) {
        told[i] = tell(o, batch, &keep->pictures[i], first);
        first &= !told[i];
    }
    for (int s = 0; s < OCL_KEEP_LAUNCHES; s++) {
        uint32_t *list = end;

        batch->keep_lists[s] = (uint32_t)(list - words);
        for (int i = 0; i < keep->num_pictures; i++) {
            const struct ocl_kept *k = &keep->pictures[i];

            if (told[i])
                end = hr__kernel_list(end, (uint32_t)k->picture,
                                      groups(ocl_plan_picture(&o->plan,
                                                              k->picture),
                                             &k->pack, s));
        }
        end = hr__kernel_pad(list, end);
    }
    batch->keep_lists[OCL_KEEP_LAUNCHES] = (uint32_t)(end - words);
    if (first)
        ocl_keep_drop(o, batch);
}

static bool set_args(struct ocl *o, struct ocl_batch *batch, cl_kernel k,
                     cl_uint list, bool pack, struct ocl_fault *fault)
{
    bool unified = o->facts.unified;
    cl_mem in = unified ? batch->up.mem : batch->in.mem;
    cl_mem out = unified ? batch->down.mem : batch->out.mem;
    const cl_mem mem[] = {in, o->planes.mem, out, batch->keep->packed.mem};
    cl_int err = o->api.clSetKernelArg(k, HR__ARG_PLAN, sizeof(in), &in);

    if (!err)
        err = o->api.clSetKernelArg(k, HR__ARG_LIST, sizeof(list), &list);
    for (cl_uint i = 0; i < (pack ? 4 : 3) && !err; i++)
        err = o->api.clSetKernelArg(k, HR__ARG_FIRST_BUFFER + i, sizeof(cl_mem),
                                    &mem[i]);
    return !ocl_failed(fault, err, "clSetKernelArg");
}

bool ocl_keep_launch(struct ocl *o, struct ocl_batch *batch, cl_event *last,
                     struct ocl_fault *fault)
{
    static const size_t local[2] = {HR__GROUP, 1};
    const uint32_t *lists = batch->keep_lists;

    for (int s = 0; batch->keep && s < OCL_KEEP_LAUNCHES; s++) {
        size_t global[2], n = (lists[s + 1] - lists[s]) / 2;
        cl_kernel k = launches[s].pack ? o->keeps->kernels[launches[s].kernel]
                                       : o->kernels[launches[s].kernel];
        cl_int err;

        global[1] = hr__kernel_rows(n, &global[0]);
        global[0] *= HR__GROUP;
        if (!set_args(o, batch, k, lists[s], launches[s].pack, fault))
            return false;
        err = o->api.clEnqueueNDRangeKernel(o->queues[OCL_COMPUTE], k, 2, NULL,
                                            global, local, 0, NULL,
                                            s == OCL_KEEP_LAUNCHES - 1 ? last
                                                                       : NULL);
        if (ocl_failed(fault, err, "clEnqueueNDRangeKernel"))
            return false;
        atomic_fetch_add(&o->launches, 1);
    }
    return true;
}
