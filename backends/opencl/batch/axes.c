// SPDX-License-Identifier: Apache-2.0
// Weights of axes, kept on the device from batch to batch. They are found by
// the step that only they depend on (hr__axis_alone()). Weights are only added,
// so that batches in flight are not disturbed. When there are too many, all are
// forgotten, and another buffer takes the next ones: the driver keeps the old
// one until the last command that reads it has run.
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "backends/opencl/opencl.h"

// Some thousand axes of photos. As many entries are never all used.
#define MOST_BYTES ((size_t)16 << 20)
enum { MOST = OCL_AXES - 4 * OCL_BATCH, ROOM = 1 << 20 };

struct ocl_axis {
    struct hr__step step;  // from hr__axis_alone()
    struct hr__axis axis;  // of that
    size_t at;             // in data: lo; n follows,
    size_t w;              // and w
    bool used;
};

// ---- On the host -----------------------------------------------------------

void ocl_axes_begin(struct ocl_axes *a, size_t most)
{
    most = most / 4 < MOST_BYTES ? most / 4 : MOST_BYTES;
    if (a->used <= most && a->num <= MOST)
        return;
    memset(a->entries, 0, OCL_AXES * sizeof(a->entries[0]));
    a->used = 0;
    a->num = 0;
    a->full = true;
}

static bool build(struct ocl_axes *a, struct ocl_axis *e)
{
    if (!ocl_host_grow(a->ref, &a->data, &a->capacity, a->used,
                       a->used + hr__axis_size(&e->step, 0), ROOM))
        return false;
    hr__axis_build(&e->axis, &e->step, 0, a->data + a->used);
    e->at = a->used;
    e->w = (size_t)((uint8_t *)e->axis.w - a->data);
    // The bytes behind the weights were scratch.
    a->used = ocl_aligned(e->w + (size_t)e->axis.out * (size_t)e->axis.stride *
                                     sizeof(int32_t));
    e->used = true;
    a->num++;
    return true;
}

// An entry of that step; a new one is not used yet.
static struct ocl_axis *find(struct ocl_axes *a, const struct hr__step *step)
{
    uint64_t at = XXH3_64bits(step, sizeof(*step));
    struct ocl_axis *e;

    while ((e = &a->entries[at % OCL_AXES])->used &&
           memcmp(&e->step, step, sizeof(*step)))
        at++;
    e->step = *step;
    return e;
}

static struct ocl_axis *axis_of(struct ocl_axes *a, const struct hr__step *step,
                                int which, int *base)
{
    struct hr__step alone;
    struct ocl_axis *e;

    *base = hr__axis_alone(step, which, &alone);
    e = find(a, &alone);
    return e->used || build(a, e) ? e : NULL;
}

static struct hr__axis placed(const struct ocl_axes *a,
                              const struct ocl_axis *e, int base)
{
    struct hr__axis axis = e->axis;

    axis.base = base;
    axis.lo = (int32_t *)(void *)(a->data + e->at);
    axis.n = axis.lo + axis.out;
    axis.w = (int32_t *)(void *)(a->data + e->w);
    if (axis.out) {
        axis.src_lo += base;
        axis.src_hi += base;
    }
    return axis;
}

bool ocl_axes_find(struct ocl_axes *a, const struct hr__step *step,
                   struct hr__axis *x, struct hr__axis *y)
{
    size_t size = OCL_AXES * sizeof(a->entries[0]);
    struct ocl_axis *ex, *ey;
    int base[2];

    if (!a->entries) {
        if (!(a->entries = hr__engine_ref_alloc(a->ref, size)))
            return false;
        memset(a->entries, 0, size);
    }
    if (!(ex = axis_of(a, step, 0, &base[0])) ||
        !(ey = axis_of(a, step, 1, &base[1])))
        return false;
    // The second one may have moved the first.
    *x = placed(a, ex, base[0]);
    *y = placed(a, ey, base[1]);
    return true;
}

void ocl_axes_free(struct ocl_axes *a)
{
    hr__free(a->data);
    hr__free(a->entries);
}

// ---- On the device ---------------------------------------------------------

void ocl_axes_drop(struct ocl *o, bool forget)
{
    struct ocl_axes *a = &o->axes;

    if (forget)
        a->mem = (struct ocl_buffer){0};
    ocl_event_release(o, &a->sent_event);
    ocl_buffer_drop(o, &a->mem);
    a->sent = 0;
    a->full = false;
}

bool ocl_axes_grow(struct ocl *o, size_t *bytes, struct ocl_fault *fault)
{
    struct ocl_axes *a = &o->axes;

    if (a->full || a->mem.size < a->used)
        ocl_axes_drop(o, false);
    *bytes = ocl_axes_new(a);
    return ocl_buffer_grow(o, &a->mem, a->used, false, fault);
}

// Each waits for the one before, and kernels for the last: if one has failed,
// nothing that reads it runs.
bool ocl_axes_send(struct ocl *o, uint8_t *from, struct ocl_fault *fault)
{
    struct ocl_axes *a = &o->axes;
    cl_event before = a->sent_event, done;
    cl_int err;

    if (a->sent == a->used)
        return true;
    memcpy(from, a->data + a->sent, a->used - a->sent);
    err = o->api.clEnqueueWriteBuffer(o->queues[OCL_UPLOAD], a->mem.mem,
                                      CL_FALSE, a->sent, a->used - a->sent,
                                      from, before ? 1 : 0,
                                      before ? &before : NULL, &done);
    if (ocl_failed(fault, err, "clEnqueueWriteBuffer"))
        return false;
    ocl_event_release(o, &a->sent_event);
    a->sent_event = done;
    a->sent = a->used;
    atomic_fetch_add(&o->transfers, 1);
    return true;
}
