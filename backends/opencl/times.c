// SPDX-License-Identifier: Apache-2.0
// When the device did what: events of a batch, read by the driver thread when
// the batch has come back, laid over the host's clock. Also what is counted of
// batches. Queues tell times only if somebody watched when they were made.
#include "backends/opencl/opencl.h"
#include "kernels/plan.h"

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

void ocl_times_begin(struct ocl *o, struct ocl_slot *slot)
{
    o->times.launches = atomic_load(&o->launches);
    slot->times.before = slot->times.after = hr__now();
}

void ocl_times_uploaded(struct ocl_slot *slot)
{
    slot->times.after = hr__now();
}

cl_event *ocl_times_upload(struct ocl *o, struct ocl_slot *slot, int i)
{
    return o->times.on && i == 0 ? &slot->times.upload : NULL;
}

cl_event *ocl_times_import(struct ocl *o, struct ocl_slot *slot)
{
    return o->times.on ? &slot->times.import : NULL;
}

cl_event *ocl_times_kernel(struct ocl *o, struct ocl_slot *slot, int launch,
                           int kernel)
{
    static const enum hr_part parts[HR__NUM_KERNELS] = {
        [HR__KERNEL_RECONSTRUCT] = HR_PART_RECONSTRUCT,
        [HR__KERNEL_FUSED] = HR_PART_RECONSTRUCT,
        [HR__KERNEL_PLANES] = HR_PART_COLOR,
        [HR__KERNEL_COLOR] = HR_PART_COLOR,
        [HR__KERNEL_PIXELS] = HR_PART_COLOR,
        [HR__KERNEL_RESAMPLE] = HR_PART_RESAMPLE,
        [HR__KERNEL_STORE] = HR_PART_STORE,
    };

    slot->times.parts[launch] = parts[kernel];
    return o->times.on ? &slot->times.kernels[launch] : NULL;
}

void ocl_times_sent(struct ocl *o, struct ocl_slot *slot, size_t up,
                    size_t down)
{
    slot->times.batch = atomic_load(&o->batches);
    slot->times.pending = o->times.on;
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

// The upload was queued between two looks at the host's clock: the device's
// can be off by no less and no more. The tightest of all batches counts, until
// the clocks have drifted from it.
static void compare_clocks(struct ocl *o, const struct ocl_slot *slot)
{
    int64_t queued, low, high;

    if (!ask(o, slot->uploaded, CL_PROFILING_COMMAND_QUEUED, &queued))
        return;
    low = slot->times.before - queued;
    high = slot->times.after - queued;
    if (low > o->times.high || high < o->times.low) {
        o->times.low = low;
        o->times.high = high;
    }
    o->times.low = low > o->times.low ? low : o->times.low;
    o->times.high = high < o->times.high ? high : o->times.high;
}

// From the beginning of the first to the end of the last.
static void report_both(struct ocl *o, int queue, const struct ocl_slot *slot,
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
    // A queue runs in order, whatever the clocks' comparison has just learnt.
    if (begin < o->times.last[queue])
        begin = o->times.last[queue];
    if (end < begin)
        end = begin;
    o->times.last[queue] = end;
    hr__engine_ref_device(&o->guard.ref, names[queue], part, slot->times.batch,
                          begin, end);
}

static void report(struct ocl *o, int queue, const struct ocl_slot *slot,
                   cl_event event, enum hr_part part)
{
    report_both(o, queue, slot, event, event, part);
}

void ocl_times_read(struct ocl *o, struct ocl_slot *slot)
{
    struct ocl_times_slot *t = &slot->times;

    if (t->pending) {
        compare_clocks(o, slot);
        report_both(o, OCL_UPLOAD, slot, t->upload ? t->upload : slot->uploaded,
                    t->import ? t->import : slot->uploaded, HR_PART_UPLOAD);
        if (t->import)
            report_both(o, OCL_QUEUES, slot, t->import, slot->uploaded,
                        HR_PART_IMPORT);
        for (int i = 0; i < OCL_LAUNCHES - 1; i++)
            report(o, OCL_COMPUTE, slot, t->kernels[i], t->parts[i]);
        report(o, OCL_COMPUTE, slot, slot->computed,
               t->parts[OCL_LAUNCHES - 1]);
        report(o, OCL_DOWNLOAD, slot, slot->downloaded, HR_PART_DOWNLOAD);
    }
    t->pending = false;
    if (t->upload)
        o->api.clReleaseEvent(t->upload);
    if (t->import)
        o->api.clReleaseEvent(t->import);
    t->upload = t->import = NULL;
    for (int i = 0; i < OCL_LAUNCHES; i++) {
        if (t->kernels[i])
            o->api.clReleaseEvent(t->kernels[i]);
        t->kernels[i] = NULL;
    }
}

// Of what has come back since, while there is nothing else to do.
bool ocl_times_idle(struct ocl *o)
{
    struct ocl_slot *slot = NULL;

    for (int i = 0; i < OCL_SLOTS && !slot; i++)
        if (o->slots[i].state == OCL_FREE && o->slots[i].times.pending)
            slot = &o->slots[i];
    if (!slot)
        return false;
    pthread_mutex_unlock(&o->guard.lock);
    ocl_enter(o);
    ocl_times_read(o, slot);
    ocl_leave(o);
    pthread_mutex_lock(&o->guard.lock);
    return true;
}

// ---- The host's part -------------------------------------------------------

void ocl_times_host(struct ocl *o, const struct ocl_slot *slot,
                    enum hr_part part, int64_t begin)
{
    hr__engine_ref_part(&o->guard.ref, part, slot->times.batch, begin);
}
