// SPDX-License-Identifier: Apache-2.0
// Profiling of the device. The driver thread reads the events of a batch when
// the device is done with it, and converts their times to the host's clock.
// Batches are counted here, too. Queues give times only if a trace or report
// was on when they were made.
#include "backends/opencl/opencl.h"

cl_command_queue_properties ocl_times_queue(struct ocl *o)
{
    struct hr__engine *e;

    o->times.on = hr__watched() != 0;
    o->times.low = INT64_MIN;
    o->times.high = INT64_MAX;
    if ((e = hr__engine_ref_get(&o->guard.ref))) {
        atomic_store(&e->meter.device_times, o->times.on);
        hr__engine_ref_put(&o->guard.ref);
    }
    return o->times.on ? CL_QUEUE_PROFILING_ENABLE : 0;
}

void ocl_times_begin(struct ocl *o, struct ocl_batch *batch)
{
    o->times.launches = atomic_load(&o->launches);
    batch->times.before = batch->times.after = hr__now();
}

void ocl_times_uploaded(struct ocl_batch *batch)
{
    batch->times.after = hr__now();
}

cl_event *ocl_times_upload(struct ocl *o, struct ocl_batch *batch, int i)
{
    return o->times.on && i == 0 ? &batch->times.upload : NULL;
}

cl_event *ocl_times_import(struct ocl *o, struct ocl_batch *batch)
{
    return o->times.on ? &batch->times.import : NULL;
}

cl_event *ocl_times_kernel(struct ocl *o, struct ocl_batch *batch, int launch,
                           int kernel)
{
    static const enum hr_part parts[HR__NUM_KERNELS] = {
#define X(name, text, stage) [HR__KERNEL_##name] = HR_PART_##stage,
        HR__KERNELS(X)
#undef X
    };

    batch->times.parts[launch] = parts[kernel];
    return o->times.on ? &batch->times.kernels[launch] : NULL;
}

void ocl_times_sent(struct ocl *o, struct ocl_batch *batch, size_t up,
                    size_t down)
{
    batch->times.number = atomic_load(&o->batches);
    batch->times.pending = o->times.on;
    hr__engine_ref_count(&o->guard.ref, offsetof(struct hr__meter, batches), 1);
    hr__engine_ref_count(&o->guard.ref, offsetof(struct hr__meter, launches),
                         atomic_load(&o->launches) - o->times.launches);
    ocl_times_moved(o, up, down);
}

void ocl_times_moved(struct ocl *o, size_t up, size_t down)
{
    hr__engine_ref_count(&o->guard.ref, offsetof(struct hr__meter, bytes_up),
                         up);
    hr__engine_ref_count(&o->guard.ref, offsetof(struct hr__meter, bytes_down),
                         down);
}

// ---- Reading ---------------------------------------------------------------

static bool ask(struct ocl *o, cl_event event, cl_profiling_info what,
                int64_t *ns)
{
    cl_ulong value = 0;

    if (!event || o->api.clGetEventProfilingInfo(event, what, sizeof(value),
                                                 &value, NULL))
        return false;
    *ns = (int64_t)value;
    return value != 0;
}

// The upload was queued between two looks at the host's clock, which bounds the
// shift between the clocks on both sides. The tightest bounds of all batches
// count, until the clocks have drifted out of them.
static void compare_clocks(struct ocl *o, const struct ocl_batch *batch)
{
    int64_t queued, low, high;

    if (!ask(o, batch->uploaded, CL_PROFILING_COMMAND_QUEUED, &queued))
        return;
    low = batch->times.before - queued;
    high = batch->times.after - queued;
    if (low > o->times.high || high < o->times.low) {
        o->times.low = low;
        o->times.high = high;
    }
    o->times.low = low > o->times.low ? low : o->times.low;
    o->times.high = high < o->times.high ? high : o->times.high;
}

// Reports the time from the beginning of the first to the end of the last.
static void report(struct ocl *o, int queue, const struct ocl_batch *batch,
                   cl_event first, cl_event last, enum hr_part part)
{
    const char *const names[] = {"upload", "compute", "download",
                                 "shared surface"};
    int64_t begin, end, shift;

    if (o->times.low == INT64_MIN ||
        !ask(o, first, CL_PROFILING_COMMAND_START, &begin) ||
        !ask(o, last, CL_PROFILING_COMMAND_END, &end))
        return;
    shift = o->times.low + (o->times.high - o->times.low) / 2;
    begin += shift;
    end += shift;
    // A queue runs in order, even if the shift has just been corrected.
    if (begin < o->times.last[queue])
        begin = o->times.last[queue];
    if (end < begin)
        end = begin;
    o->times.last[queue] = end;
    hr__engine_ref_device(&o->guard.ref, names[queue], part,
                          batch->times.number, begin, end);
}

void ocl_times_read(struct ocl *o, struct ocl_batch *batch)
{
    struct ocl_batch_times *t = &batch->times;

    if (t->pending) {
        compare_clocks(o, batch);
        report(o, OCL_UPLOAD, batch, t->upload ? t->upload : batch->uploaded,
               t->import ? t->import : batch->uploaded, HR_PART_UPLOAD);
        if (t->import)
            report(o, OCL_QUEUES, batch, t->import, batch->uploaded,
                   HR_PART_IMPORT);
        for (int i = 0; i < OCL_LAUNCHES; i++)
            report(o, OCL_COMPUTE, batch, t->kernels[i], t->kernels[i],
                   t->parts[i]);
        report(o, OCL_COMPUTE, batch, batch->computed, batch->computed,
               t->parts[t->last]);
        report(o, OCL_DOWNLOAD, batch, batch->downloaded, batch->downloaded,
               HR_PART_DOWNLOAD);
    }
    t->pending = false;
    ocl_event_release(o, &t->upload);
    ocl_event_release(o, &t->import);
    for (int i = 0; i < OCL_LAUNCHES; i++)
        ocl_event_release(o, &t->kernels[i]);
}

bool ocl_times_idle(struct ocl *o)
{
    struct ocl_batch *batch = NULL;

    for (int i = 0; i < OCL_BATCHES && !batch; i++)
        if (o->batch[i].state == OCL_FREE && o->batch[i].times.pending)
            batch = &o->batch[i];
    if (!batch)
        return false;
    pthread_mutex_unlock(&o->guard.lock);
    ocl_enter(o);
    ocl_times_read(o, batch);
    ocl_leave(o);
    pthread_mutex_lock(&o->guard.lock);
    return true;
}
