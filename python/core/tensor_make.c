// SPDX-License-Identifier: Apache-2.0
// Batches and pixels are made, and read.
#include "flight.h"
#include "inputs.h"
#include "tensor.h"

#include <string.h>

// ---- Making -----------------------------------------------------------------

static bool sizes_valid(struct core *core, const struct tensor_call *call)
{
    if ((!call->is_batch || call->n >= 1) && (call->c == 1 || call->c == 3) &&
        call->h >= 1 && call->w >= 1 && call->h <= HR_MAX_SIDE &&
        call->w <= HR_MAX_SIDE)
        return true;
    core_raise(core, HR_EINVAL,
               call->is_batch
                   ? "batch: n must be > 0, c 1 or 3, h and w 1 .. 65535"
                   : "pixels: c must be 1 or 3, h and w 1 .. 65535");
    return false;
}

static void set_shape(struct tensor *t, const struct tensor_call *call)
{
    const int nchw[] = {call->n, call->c, call->h, call->w};
    const int nhwc[] = {call->n, call->h, call->w, call->c};

    t->ndim = 3 + call->is_batch;
    t->c = call->c;
    for (int i = 0; i < t->ndim; i++)
        t->shape[i] = (t->layout == HR_NHWC ? nhwc : nchw)[4 - t->ndim + i];
}

// strided: its strides hold, as those of data always do.
static bool make_batch(struct tensor *t, hr_device dev, bool strided)
{
    bool planar = t->layout == HR_NCHW;
    struct hr_batch_params p = {.n = (int)t->shape[0],
                                .c = t->c,
                                .h = (int)t->shape[1 + planar],
                                .w = (int)t->shape[2 + planar],
                                .dtype = t->dtype,
                                .layout = t->layout,
                                .memory = t->memory,
                                .data = t->data};

    if (strided) {
        p.stride_n = (size_t)t->strides[0];
        p.stride_c = planar ? (size_t)t->strides[1] : 0;
        p.stride_h = (size_t)t->strides[1 + planar];
    }
    if (!(t->batch = hr_batch_create(dev, &p)))
        return false;
    p = t->batch->params;
    t->data = p.data;
    t->memory = p.memory;
    t->strides[0] = (Py_ssize_t)p.stride_n;
    if (planar)
        t->strides[1] = (Py_ssize_t)p.stride_c;
    t->strides[1 + planar] = (Py_ssize_t)p.stride_h;
    return true;
}

static bool make_image(struct tensor *t, hr_device dev, bool strided)
{
    bool planar = t->layout == HR_NCHW;
    struct hr_image_params p = {.w = (int)t->shape[1 + planar],
                                .h = (int)t->shape[planar],
                                .c = t->c,
                                .dtype = t->dtype,
                                .layout = t->layout,
                                .memory = t->memory,
                                .data = t->data};

    if (strided) {
        p.stride_c = planar ? (size_t)t->strides[0] : 0;
        p.stride_h = (size_t)t->strides[planar];
    }
    if (!(t->image = hr_image_create(dev, &p)))
        return false;
    t->data = t->image->params.data;
    t->memory = t->image->params.memory;
    return true;
}

// Gives *dev back.
static bool make(struct core *core, struct tensor *t, hr_device *dev,
                 bool strided)
{
    bool done;

    WITHOUT_GIL(
        done = (t->ndim == 4 ? make_batch : make_image)(t, *dev, strided);
        hr_device_close(dev));
    return done || core_raise_last(core);
}

PyObject *tensor_create(PyTypeObject *type, const struct tensor_call *call)
{
    struct core *core = core_of_type(type);
    struct tensor *t;
    hr_device dev = NULL;

    if (!sizes_valid(core, call) || !device_find(core, call->device, &dev) ||
        !(t = (struct tensor *)PyType_GenericAlloc(type, 0))) {
        device_leave(dev);
        return NULL;
    }
    PyObject_GC_UnTrack(t);  // the collector must not show it half made
    if (tensor_parse_form(call->dtype, call->layout, call->memory, t)) {
        // Pictures are interleaved bytes by default.
        if (!call->is_batch && (!call->dtype || call->dtype == Py_None))
            t->dtype = HR_U8;
        if (!call->is_batch && (!call->layout || call->layout == Py_None))
            t->layout = HR_NHWC;
        set_shape(t, call);
        if (tensor_borrow(t, call->data, call->keep) &&
            make(core, t, &dev, t->data != NULL)) {
            PyObject_GC_Track(t);
            return (PyObject *)t;
        }
    }
    device_leave(dev);
    Py_DECREF(t);
    return NULL;
}

// ---- Reading ----------------------------------------------------------------

static void raise_of_copy(struct core *core, hr_job job, enum hr_status status)
{
    for (int i = 0; i < job->num_samples; i++)
        if (job->results[i].status) {
            core_raise(core, status, job->results[i].message);
            return;
        }
    core_raise(core, status, hr_status_text(status));
}

// False with an exception: it must not wait, or not any more.
static bool may_wait(struct core *core)
{
    if (!flight_in_callback())
        return !PyErr_CheckSignals();
    core_raise(core, HR_EINVAL, "a callback must not wait for a copy");
    return false;
}

// Waits for a job that writes to twin.
static bool await_copy(struct core *core, hr_job job, struct tensor *twin)
{
    const int64_t patience = 2000000000;  // for one that was canceled
    enum hr_status status = hr_job_poll(job, 0);
    int64_t end = INT64_MAX;

    while (status == HR_PENDING && core_now() < end) {
        if (end == INT64_MAX && !may_wait(core)) {
            hr_job_cancel(job);
            end = core_now() + patience;
        }
        WITHOUT_GIL(status = hr_job_poll(job, 50000000));
    }
    if (status == HR_PENDING)
        Py_INCREF((PyObject *)twin);  // a driver may still write there
    else if (status && !PyErr_Occurred())
        raise_of_copy(core, job, status);
    hr_job_release(&job);
    return !PyErr_Occurred();
}

static hr_job begin_copy(const struct tensor *t, int first, int n,
                         const struct tensor *twin,
                         const struct hr_job_params *params)
{
    if (t->batch)
        return hr_transfer_begin(
            hr_transfer_params(.batch = t->batch, .first = first, .n = n,
                               .to = twin->data, .size = twin->batch->size),
            params);
    return hr_transfer_begin(hr_transfer_params(.image = t->image,
                                                .to = twin->data,
                                                .size = twin->image->size),
                             params);
}

// Copies slots of a batch, or all of pixels, to twin. False with an exception.
static bool copy(struct tensor *t, int first, int n, struct tensor *twin,
                 int64_t timeout_ns)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    struct core *core = core_of((PyObject *)t);
    int64_t end = timeout_ns < 0 ? INT64_MAX : core_now() + timeout_ns;
    // (0 is "none" to a job.)
    struct hr_job_params params = {
        .timeout_ns = timeout_ns < 0 ? 0 : timeout_ns + !timeout_ns};
    hr_job job;

    // Jobs in flight may hold all of the device's budget.
    while (!(job = begin_copy(t, first, n, twin, &params))) {
        if (hr_last_status() != HR_EAGAIN)
            return core_raise_last(core);
        if (core_now() >= end)
            return core_raise(core, HR_ETIMEDOUT, "no room for the copy");
        if (!may_wait(core))
            return false;
        WITHOUT_GIL(nanosleep(&pause, NULL));
    }
    return await_copy(core, job, twin);
}

// A tensor of the same form on the host; n: slots of a batch.
static struct tensor *make_twin(struct tensor *t, int n)
{
    PyTypeObject *type = Py_TYPE((PyObject *)t);
    struct tensor *twin = (struct tensor *)PyType_GenericAlloc(type, 0);

    if (!twin)
        return NULL;
    twin->dtype = t->dtype;
    twin->layout = t->layout;
    twin->c = t->c;
    twin->ndim = t->ndim;
    memcpy(twin->shape, t->shape, sizeof(t->shape));
    memcpy(twin->strides, t->strides, sizeof(t->strides));
    twin->nbytes = t->nbytes;
    if (t->ndim == 4) {
        twin->shape[0] = n;
        twin->nbytes = t->nbytes / t->shape[0] * n;
    }
    if (!make(core_of_type(type), twin, &(hr_device){NULL}, true))
        Py_CLEAR(twin);
    return twin;
}

PyObject *tensor_read(struct tensor *t, int first, int n, int64_t timeout_ns)
{
    struct tensor *twin = make_twin(t, n);

    if (twin && !copy(t, first, n, twin, timeout_ns))
        Py_CLEAR(twin);
    return (PyObject *)twin;
}
