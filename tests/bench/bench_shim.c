// SPDX-License-Identifier: Apache-2.0
// The public API in a flat form for Python's ctypes (hrshim.py): the C
// compiler lays out structs and unions, Python passes numbers and addresses.
// Loops that are timed run in C, too (bench_times.c), so that no interpreter is
// in the figures.
//
// A set is a prepared job: samples, their ops and the batch they write. It
// can be run any number of times; the memory its sources and destination
// point to belongs to the caller.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench_shim.h"
#include "made.h"
#include "cpu_fallback/cpu_ops.h"
#include "hal/job/work.h"
#if HR_HAVE_OPENCL
#include "backends/opencl/opencl.h"
#endif

// ---- ops ------------------------------------------------------------------

EXPORT(size_t, shim_op_size, void)
{
    return sizeof(struct hr_op);
}

EXPORT(void, shim_op_decode, struct hr_op *op, int gray, int exif)
{
    *op = hr_op_decode(.mode = gray ? HR_GRAY : HR_RGB,
                       .apply_orientation = exif != 0);
}

EXPORT(void, shim_op_crop, struct hr_op *op, int x, int y, int w, int h,
       int center, int pad)
{
    *op = hr_op_crop(.x = x, .y = y, .w = w, .h = h, .center = center != 0,
                     .pad = pad != 0);
}

EXPORT(void, shim_op_resize, struct hr_op *op, int w, int h, int short_side,
       int filter, const float *box, int order)
{
    *op = hr_op_resize(.w = w, .h = h, .short_side = short_side,
                       .filter = (enum hr_filter)filter,
                       .order = (enum hr_order)order);
    if (box)
        memcpy(op->resize.box, box, sizeof(op->resize.box));
}

EXPORT(void, shim_op_fit, struct hr_op *op, int w, int h, int filter,
       int enlarge)
{
    *op = hr_op_fit(.w = w, .h = h, .filter = (enum hr_filter)filter,
                    .enlarge = enlarge != 0);
}

EXPORT(void, shim_op_flip, struct hr_op *op, int horizontal, int vertical,
       int transpose)
{
    *op = hr_op_flip(.horizontal = horizontal != 0, .vertical = vertical != 0,
                     .transpose = transpose != 0);
}

EXPORT(void, shim_op_normalize, struct hr_op *op, const float *mean,
       const float *std, int mul, const float *table)
{
    *op = hr_op_normalize(.arith = mul ? HR_ARITH_MUL : HR_ARITH_DIV,
                          .table = table);
    if (mean)
        memcpy(op->normalize.mean, mean, sizeof(op->normalize.mean));
    if (std)
        memcpy(op->normalize.std, std, sizeof(op->normalize.std));
}

// ---- devices, images, batches ---------------------------------------------

// Instruction sets of this machine, as for cpu_mask.
EXPORT(unsigned, shim_cpu_sets, void)
{
    unsigned flags = cpu_detect();

    return HR_CPU_C | (flags & CPU_FLAG_AVX2 ? HR_CPU_AVX2 : 0) |
           (flags & CPU_FLAG_AVX512 ? HR_CPU_AVX512 : 0);
}

EXPORT(hr_device, shim_open, const char *name, int threads, unsigned cpu_mask,
       size_t budget, int strict, size_t cache_bytes)
{
    hr_cache cache = cache_bytes ? hr_cache_create(cache_bytes) : NULL;
    hr_device dev = hr_device_open(
        name, hr_device_params(.threads = threads, .cpu_mask = cpu_mask,
                               .budget = budget, .strict = strict != 0,
                               .cache = cache));

    hr_cache_release(&cache);
    return dev;
}

EXPORT(const char *, shim_name, hr_device dev)
{
    return dev->name;
}

EXPORT(const char *, shim_description, hr_device dev)
{
    return dev->description;
}

EXPORT(uint64_t, shim_heap_allocations, hr_device dev)
{
    struct hr_stats stats;

    hr_device_stats(dev, &stats);
    return stats.heap_allocations;
}

// u8 pixels of the caller's, interleaved or planes.
EXPORT(hr_image, shim_image, hr_device dev, void *data, int w, int h, int c,
       int layout, size_t stride_c, size_t stride_h)
{
    return hr_image_create(
        dev, hr_image_params(.w = w, .h = h, .c = c, .dtype = HR_U8,
                             .layout = (enum hr_layout)layout, .data = data,
                             .stride_c = stride_c, .stride_h = stride_h));
}

EXPORT(void, shim_image_release, hr_image image)
{
    hr_image_release(&image);
}

EXPORT(hr_batch, shim_batch, hr_device dev, void *data, int n, int c, int h,
       int w, int dtype, int layout, size_t stride_n, size_t stride_c,
       size_t stride_h)
{
    return hr_batch_create(
        dev, hr_batch_params(.n = n, .c = c, .h = h, .w = w,
                             .dtype = (enum hr_dtype)dtype,
                             .layout = (enum hr_layout)layout, .data = data,
                             .stride_n = stride_n, .stride_c = stride_c,
                             .stride_h = stride_h));
}

// One of the library's own memory, without gaps.
EXPORT(hr_batch, shim_batch_in, hr_device dev, int n, int c, int h, int w,
       int dtype, int layout, int memory)
{
    return hr_batch_create(dev,
                           hr_batch_params(.n = n, .c = c, .h = h, .w = w,
                                           .dtype = (enum hr_dtype)dtype,
                                           .layout = (enum hr_layout)layout,
                                           .memory = (enum hr_memory)memory));
}

EXPORT(void, shim_batch_destroy, hr_batch batch)
{
    hr_batch_destroy(&batch);
}

// Header facts and the size the ops make of it. Returns the status.
EXPORT(int, shim_probe, const void *data, size_t size, const struct hr_op *ops,
       int num_ops, int32_t out[5])
{
    struct hr_info info = {0};
    int w = 0, h = 0;
    enum hr_status status = hr_probe(data, size, NULL, &info);

    if (!status)
        status = hr_ops_output_size(ops, num_ops, info.width, info.height,
                                    info.orientation, &w, &h);
    out[0] = w;
    out[1] = h;
    out[2] = info.width;
    out[3] = info.height;
    out[4] = info.orientation;
    return status;
}

// ---- pack files -----------------------------------------------------------

EXPORT(hr_pack_file, shim_pack_open, const char *path)
{
    return hr_pack_open(path);
}

EXPORT(void, shim_pack_close, hr_pack_file file)
{
    hr_pack_close(&file);
}

// Picture i as the source of a set, which borrows it while the file is open.
// check: now, once; else every job does.
EXPORT(int, shim_pack_source, hr_pack_file file, size_t i, int check,
       struct shim_source *out)
{
    struct hr_pack_entry entry;
    enum hr_status status = hr_pack_entry(file, i, &entry);

    if (!status && check)
        status = hr_pack_check(file, i);
    if (status)
        return status;
    out->data = entry.data;
    out->size = entry.size;
    out->verified = check && entry.packed;
    return HR_OK;
}

// ---- sets -----------------------------------------------------------------

// Copies the array, not what it points to. NULL: out of memory.
EXPORT(struct shim_set *, shim_set_create, hr_device dev,
       const struct shim_source *sources, int n, hr_batch batch)
{
    struct shim_set *set;

    set = calloc(1, sizeof(*set) + (size_t)n * sizeof(set->samples[0]));
    if (!set)
        return NULL;
    set->dev = dev;
    set->batch = batch;
    set->n = n;
    for (int i = 0; i < n; i++)
        set->samples[i] = (struct hr_sample){
            .data = sources[i].data,
            .size = sources[i].size,
            .image = sources[i].image,
            .path = sources[i].path,
            .ops = sources[i].ops,
            .num_ops = (int)sources[i].num_ops,
            .verified = sources[i].verified != 0,
        };
    return set;
}

EXPORT(void, shim_set_free, struct shim_set *set)
{
    free(set);
}

// What a sample's result says of who made it, as hrshim.py Made.
struct shim_made {
    uint32_t why;
    int32_t stages;  // that engines other than the CPU did, as bits
    int32_t fallbacks;
};

static struct shim_made made_of(const struct hr_result *r)
{
    return (struct shim_made){.why = r->why,
                              .stages = (int32_t)made_stages(r, NULL),
                              .fallbacks = r->fallbacks};
}

EXPORT(const char *, shim_why_text, unsigned why)
{
    return hr_why_text(why);
}

// Submits and waits. statuses[n], messages[n][384] and made[n] may be NULL.
EXPORT(int, shim_set_run, struct shim_set *set, int32_t *statuses,
       char (*messages)[384], struct shim_made *made)
{
    enum hr_status status;
    hr_job job = hr_submit(set->dev, set->samples, set->n, set->batch,
                           hr_job_params(.tier = HR_EXACT,
                                         .wait_for_room = true));

    if (!job) {
        for (int i = 0; i < set->n; i++) {
            if (statuses)
                statuses[i] = hr_last_status();
            if (messages)
                strncpy(messages[i], hr_last_error(), 383);
        }
        return hr_last_status();
    }
    status = hr_job_wait(job, HR_FOREVER);
    for (int i = 0; i < set->n; i++) {
        if (statuses)
            statuses[i] = job->results[i].status;
        if (messages)
            memcpy(messages[i], job->results[i].message, 384);
        if (made)
            made[i] = made_of(&job->results[i]);
    }
    hr_job_release(&job);
    return status;
}

// Batches and launches of kernels since an OpenCL device was opened; false if
// dev is none.
EXPORT(int, shim_opencl_counts, hr_device dev, uint64_t *batches,
       uint64_t *launches)
{
#if HR_HAVE_OPENCL
    if (!strcmp(dev->backend, "opencl")) {
        struct ocl *o = ocl_of(
            ((struct hr__device *)(uintptr_t)dev)->engines[0]);

        *batches = atomic_load(&o->batches);
        *launches = atomic_load(&o->launches);
        return true;
    }
#endif
    (void)dev;  // as without OpenCL
    *batches = *launches = 0;
    return false;
}
