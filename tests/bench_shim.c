// SPDX-License-Identifier: Apache-2.0
// The public API in a flat form for Python's ctypes (hrshim.py): the C
// compiler lays out structs and unions, Python passes numbers and addresses.
// Loops that are timed run here, so that no interpreter is in the figures.
//
// A set is a prepared job: samples, their ops and the batch they write. It
// can be run any number of times; the memory its sources and destination
// point to belongs to the caller.
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <headrace/headrace.h>

#include "cpu_fallback/cpu_ops.h"
#include "hal/hal.h"
#if HR_HAVE_OPENCL
#include "backends/opencl/opencl.h"
#endif

#define SHIM __attribute__((visibility("default")))

// ---- malloc, counted ------------------------------------------------------

// Interposes only if this library is preloaded: then the count covers every
// library of the process, libjpeg included. glibc only; sanitizers have
// allocators of their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SHIM_COUNTS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SHIM_COUNTS 0
#endif
#endif
#if !defined(SHIM_COUNTS) && defined(__GLIBC__)
#define SHIM_COUNTS 1
#endif

static atomic_ullong malloc_calls;

#if SHIM_COUNTS
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

static void count(void)
{
    atomic_fetch_add_explicit(&malloc_calls, 1, memory_order_relaxed);
}

SHIM void *malloc(size_t size)
{
    count();
    return __libc_malloc(size);
}

SHIM void *calloc(size_t n, size_t size)
{
    count();
    return __libc_calloc(n, size);
}

SHIM void *realloc(void *p, size_t size)
{
    count();
    return __libc_realloc(p, size);
}

SHIM void *aligned_alloc(size_t align, size_t size)
{
    count();
    return __libc_memalign(align, size);
}

SHIM void *memalign(size_t align, size_t size)
{
    count();
    return __libc_memalign(align, size);
}

SHIM int posix_memalign(void **out, size_t align, size_t size)
{
    void *p;

    count();
    if (!(p = __libc_memalign(align, size)))
        return ENOMEM;
    *out = p;
    return 0;
}
#endif

// 0 for ever if the library is not preloaded.
SHIM unsigned long long shim_malloc_calls(void);
SHIM unsigned long long shim_malloc_calls(void)
{
    return atomic_load(&malloc_calls);
}

// ---- ops ------------------------------------------------------------------

#define EXPORT(type, name, ...)  \
    SHIM type name(__VA_ARGS__); \
    type name(__VA_ARGS__)

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
       int filter, const float *box)
{
    *op = hr_op_resize(.w = w, .h = h, .short_side = short_side,
                       .filter = (enum hr_filter)filter);
    if (box)
        memcpy(op->resize.box, box, sizeof(op->resize.box));
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
       size_t budget, int strict)
{
    return hr_device_open(
        name, hr_device_params(.threads = threads, .cpu_mask = cpu_mask,
                               .budget = budget, .strict = strict != 0));
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

// ---- sets -----------------------------------------------------------------

struct shim_source {  // hrshim.py Source; data or image
    const void *data;
    size_t size;
    hr_image image;
    const struct hr_op *ops;
    int64_t num_ops;
};

struct shim_set {
    hr_device dev;
    hr_batch batch;
    int n;
    struct hr_sample samples[];
};

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
            .ops = sources[i].ops,
            .num_ops = (int)sources[i].num_ops,
        };
    return set;
}

EXPORT(void, shim_set_free, struct shim_set *set)
{
    free(set);
}

static double now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

// What a sample's result says of who made it, as hrshim.py Made.
struct shim_made {
    uint32_t why;
    int32_t by_device;  // spans that an engine other than the CPU did
    int32_t fallbacks;
};

static struct shim_made made_of(const struct hr_result *r)
{
    struct shim_made made = {.why = r->why, .fallbacks = r->fallbacks};

    for (int i = 0; i < r->num_spans; i++)
        made.by_device += strcmp(r->spans[i].device, "cpu") != 0;
    return made;
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

// Nanoseconds of each of rounds runs (submit, wait, release), and of
// hr_submit() alone; either may be NULL. Returns the first bad status.
EXPORT(int, shim_set_time, struct shim_set *set, int rounds, double *run_ns,
       double *submit_ns)
{
    for (int r = 0; r < rounds; r++) {
        double start = now_ns();
        hr_job job = hr_submit(set->dev, set->samples, set->n, set->batch,
                               hr_job_params(.tier = HR_EXACT));
        double submitted = now_ns();
        enum hr_status status;

        if (!job)
            return hr_last_status();
        status = hr_job_wait(job, HR_FOREVER);
        hr_job_release(&job);
        if (status)
            return status;
        if (run_ns)
            run_ns[r] = now_ns() - start;
        if (submit_ns)
            submit_ns[r] = submitted - start;
    }
    return HR_OK;
}

// Submits one set after the other, as a loader that prefetches: with at most
// depth jobs in flight. submit_ns: of all hr_submit() together. The first bad
// status, or HR_OK.
EXPORT(int, shim_stream, struct shim_set *const *sets, int n, int depth,
       double *submit_ns)
{
    hr_job jobs[16] = {0};
    enum hr_status status = HR_OK;

    depth = depth > 16 ? 16 : depth;
    *submit_ns = 0;
    for (int i = 0; i < n + depth; i++) {
        hr_job *job = &jobs[i % depth];

        if (*job) {
            enum hr_status one = hr_job_wait(*job, HR_FOREVER);

            status = status ? status : one;
            hr_job_release(job);
        }
        if (i < n) {
            double start = now_ns();

            *job = hr_submit(
                sets[i]->dev, sets[i]->samples, sets[i]->n, sets[i]->batch,
                hr_job_params(.tier = HR_EXACT, .wait_for_room = true));
            *submit_ns += now_ns() - start;
            if (!*job)
                status = hr_last_status();
        }
    }
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

// Calls of malloc and the like in the process during rounds runs; -1: one
// failed. Only counts if this library is preloaded.
EXPORT(int64_t, shim_set_mallocs, struct shim_set *set, int rounds)
{
    unsigned long long before = atomic_load(&malloc_calls);

    if (shim_set_time(set, rounds, NULL, NULL))
        return -1;
    return (int64_t)(atomic_load(&malloc_calls) - before);
}

// Mean nanoseconds of hr_probe() per file.
EXPORT(double, shim_probe_ns, const struct shim_source *sources, int n,
       int rounds)
{
    double start = now_ns();

    for (int r = 0; r < rounds; r++) {
        for (int i = 0; i < n; i++) {
            struct hr_info info;

            if (hr_probe(sources[i].data, sources[i].size, NULL, &info))
                return -1;
        }
    }
    return (now_ns() - start) / rounds / n;
}

// Nanoseconds to open a device: what a process pays once.
EXPORT(double, shim_open_ns, const char *name, int threads)
{
    double start = now_ns(), end;
    hr_device dev = hr_device_open(name, hr_device_params(.threads = threads));

    end = now_ns();
    if (!dev)
        return -1;
    hr_device_close(&dev);
    return end - start;
}
