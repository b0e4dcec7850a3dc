// SPDX-License-Identifier: Apache-2.0
// Pixels: one picture, source or destination of a job.
#include "core.h"

#include <stddef.h>
#include <structmember.h>

static struct tensor *tensor_of(PyObject *self)
{
    return (struct tensor *)self;
}

static void set_shape(struct tensor *t, const struct hr_image_params *p)
{
    const int chw[] = {p->c, p->h, p->w};
    const int hwc[] = {p->h, p->w, p->c};

    t->ndim = 3;
    t->c = p->c;
    for (int i = 0; i < 3; i++)
        t->shape[i] = (t->layout == HR_NHWC ? hwc : chw)[i];
}

static bool sizes_valid(struct core *core, const struct hr_image_params *p)
{
    if ((p->c == 1 || p->c == 3) && p->h >= 1 && p->w >= 1 &&
        p->h <= HR_MAX_SIDE && p->w <= HR_MAX_SIDE)
        return true;
    core_raise(core, HR_EINVAL, "pixels: c must be 1 or 3, h and w 1 .. 65535");
    return false;
}

// Gives *dev back.
static bool make(struct core *core, struct tensor *t, hr_device *dev,
                 struct hr_image_params *p)
{
    PyThreadState *gil;
    bool planar = t->layout == HR_NCHW;

    p->dtype = t->dtype;
    p->layout = t->layout;
    p->memory = t->memory;
    if ((p->data = t->data)) {
        p->stride_c = planar ? (size_t)t->strides[0] : 0;
        p->stride_h = (size_t)t->strides[planar];
    }
    gil = PyEval_SaveThread();
    t->image = hr_image_create(*dev, p);
    hr_device_close(dev);
    PyEval_RestoreThread(gil);
    if (!t->image)
        return core_raise_last(core), false;
    t->data = t->image->params.data;
    t->memory = t->image->params.memory;
    return true;
}

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"w",    "h",      "c",      "dtype", "layout",
                            "data", "device", "memory", "keep",  NULL};
    PyObject *dtype = NULL, *layout = NULL, *data = NULL, *device = NULL;
    PyObject *memory = NULL, *keep = NULL;
    struct core *core = core_of_type(type);
    struct hr_image_params p = {.c = 3};
    struct tensor *t;
    hr_device dev = NULL;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "ii|iOOOOOO:Pixels", names,
                                     &p.w, &p.h, &p.c, &dtype, &layout, &data,
                                     &device, &memory, &keep) ||
        !sizes_valid(core, &p) || !device_find(core, device, &dev) ||
        !(t = (struct tensor *)PyType_GenericAlloc(type, 0))) {
        device_leave(dev);
        return NULL;
    }
    PyObject_GC_UnTrack(t);  // the collector must not show it half made
    if (tensor_parse_form(dtype, layout, memory, t)) {
        // Pictures are interleaved bytes if nobody says otherwise.
        t->dtype = dtype && dtype != Py_None ? t->dtype : HR_U8;
        t->layout = layout && layout != Py_None ? t->layout : HR_NHWC;
        set_shape(t, &p);
        if (tensor_borrow(t, data, keep) && make(core, t, &dev, &p)) {
            PyObject_GC_Track(t);
            return (PyObject *)t;
        }
    }
    device_leave(dev);
    Py_DECREF(t);
    return NULL;
}

// ---- Waiting, reading -------------------------------------------------------

// A slice of time. *over: the status is the picture's own, which may be that of
// a job that was not done in time.
static enum hr_status wait_slice(struct tensor *t, int64_t ns, bool *over)
{
    const int64_t most = 50000000;
    int64_t slice = ns < 0 || ns > most ? most : ns, begin = core_now();
    PyThreadState *gil = PyEval_SaveThread();
    enum hr_status status = hr_image_wait(t->image, slice);

    *over = status != HR_ETIMEDOUT || core_now() - begin < slice;
    PyEval_RestoreThread(gil);
    return status;
}

bool pixels_wait(struct tensor *t, int64_t timeout_ns)
{
    int64_t begin = core_now(), left = timeout_ns;
    enum hr_status status = hr_image_wait(t->image, 0);
    bool over = false;

    while (status == HR_ETIMEDOUT && left && !flight_in_callback()) {
        status = wait_slice(t, left, &over);
        if (over)
            break;
        if (PyErr_CheckSignals())
            return false;
        if (timeout_ns >= 0 && (left = timeout_ns - (core_now() - begin)) < 0)
            left = 0;
    }
    // Said anew: a handler may have used the library.
    if (status == HR_ETIMEDOUT)
        status = hr_image_wait(t->image, 0);
    if (status)
        core_raise_last(core_of((PyObject *)t));
    return !status;
}

static PyObject *wait_for(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"timeout", NULL};
    PyObject *timeout = NULL;
    int64_t ns;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:wait", names,
                                     &timeout) ||
        !core_seconds(timeout, HR_FOREVER, &ns) ||
        !pixels_wait(tensor_of(self), ns))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *pixels_read(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"timeout", NULL};
    struct tensor *t = tensor_of(self), *twin;
    struct hr_image_params p;
    PyObject *timeout = NULL;
    int64_t ns;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:read", names,
                                     &timeout) ||
        !core_seconds(timeout, HR_FOREVER, &ns))
        return NULL;
    if (!t->image)
        return core_raise(core_of(self), HR_EINVAL, "read: it was collected");
    if (!(twin = (struct tensor *)PyType_GenericAlloc(Py_TYPE(self), 0)))
        return NULL;
    p = t->image->params;
    twin->dtype = t->dtype;
    twin->layout = t->layout;
    twin->nbytes = t->nbytes;
    set_shape(twin, &p);
    for (int i = 0; i < 3; i++)
        twin->strides[i] = t->strides[i];
    p.data = NULL;
    p.free_fn = NULL;
    if (!make(core_of(self), twin, &(hr_device){NULL}, &p)) {
        Py_DECREF(twin);
        return NULL;
    }
    if (tensor_copy(t, 0, 1, twin, ns))
        return (PyObject *)twin;
    Py_DECREF(twin);
    return NULL;
}

static PyObject *represent(PyObject *self)
{
    const struct tensor *t = tensor_of(self);

    return PyUnicode_FromFormat("<headrace.Pixels %zdx%zdx%zd %s %s>",
                                t->shape[0], t->shape[1], t->shape[2],
                                hr_dtype_name(t->dtype),
                                t->layout == HR_NHWC ? "hwc" : "chw");
}

static PyMethodDef methods[] = {
    {"wait", (PyCFunction)(void (*)(void))wait_for,
     METH_VARARGS | METH_KEYWORDS,
     "wait($self, /, timeout=None)\n--\n\n"
     "Wait until no job writes it any more; raises what went wrong with it."},
    {"read", (PyCFunction)(void (*)(void))pixels_read,
     METH_VARARGS | METH_KEYWORDS,
     "read($self, /, timeout=None)\n--\n\n"
     "Return a copy in host memory, after the jobs that write it."},
    TENSOR_METHODS,
    {0},
};

static PyMemberDef members[] = {WEAK_MEMBER(struct tensor), {0}};

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "Pixels(w, h, c=3, dtype='u8', layout='nhwc', data=None, device=None,\n"
     "       memory='host', keep=None)\n--\n\n"
     "The pixels of one picture, h x w x c ('nhwc') or c x h x w ('nchw');\n"
     "c is 1 or 3. Source of a sample (u8), or its destination. data, keep\n"
     "and memory: as in Batch. Reading it as a buffer, as an array or by\n"
     "DLPack waits for the jobs that write it, and raises what went wrong."},
    {Py_tp_new, create},
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_traverse, tensor_traverse},
    {Py_tp_clear, tensor_clear},
    {Py_tp_repr, represent},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, tensor_getset},
    {Py_bf_getbuffer, tensor_get_buffer},
    {0},
};

PyType_Spec pixels_spec = {
    .name = "headrace._core.Pixels",
    .basicsize = sizeof(struct tensor),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};
