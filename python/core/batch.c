// SPDX-License-Identifier: Apache-2.0
// Batch: one tensor for many pictures.
#include "core.h"

#include <stddef.h>
#include <structmember.h>

static struct tensor *tensor_of(PyObject *self)
{
    return (struct tensor *)self;
}

static void set_shape(struct tensor *t, const struct hr_batch_params *p)
{
    const int nchw[] = {p->n, p->c, p->h, p->w};
    const int nhwc[] = {p->n, p->h, p->w, p->c};

    t->ndim = 4;
    t->c = p->c;
    for (int i = 0; i < 4; i++)
        t->shape[i] = (t->layout == HR_NHWC ? nhwc : nchw)[i];
}

static bool sizes_valid(struct core *core, const struct hr_batch_params *p)
{
    if (p->n >= 1 && (p->c == 1 || p->c == 3) && p->h >= 1 && p->w >= 1 &&
        p->h <= HR_MAX_SIDE && p->w <= HR_MAX_SIDE)
        return true;
    core_raise(core, HR_EINVAL,
               "batch: n must be > 0, c 1 or 3, h and w 1 .. 65535");
    return false;
}

static void set_strides(struct tensor *t, struct hr_batch_params *p)
{
    p->stride_n = (size_t)t->strides[0];
    if (p->layout == HR_NCHW)
        p->stride_c = (size_t)t->strides[1];
    p->stride_h = (size_t)t->strides[p->layout == HR_NCHW ? 2 : 1];
}

static void get_strides(struct tensor *t)
{
    const struct hr_batch_params *p = &t->batch->params;

    t->data = p->data;
    t->memory = p->memory;
    t->strides[0] = (Py_ssize_t)p->stride_n;
    if (p->layout == HR_NCHW)
        t->strides[1] = (Py_ssize_t)p->stride_c;
    t->strides[p->layout == HR_NCHW ? 2 : 1] = (Py_ssize_t)p->stride_h;
}

// Gives *dev back.
static bool make(struct core *core, struct tensor *t, hr_device *dev,
                 struct hr_batch_params *p)
{
    PyThreadState *gil;
    p->dtype = t->dtype;
    p->layout = t->layout;
    p->memory = t->memory;
    if ((p->data = t->data))
        set_strides(t, p);
    gil = PyEval_SaveThread();
    t->batch = hr_batch_create(*dev, p);
    hr_device_close(dev);
    PyEval_RestoreThread(gil);
    if (!t->batch)
        return core_raise_last(core), false;
    get_strides(t);
    return true;
}

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"n",      "c",      "h",    "w",
                            "dtype",  "layout", "data", "device",
                            "memory", "keep",   NULL};
    PyObject *dtype = NULL, *layout = NULL, *data = NULL, *device = NULL;
    PyObject *memory = NULL, *keep = NULL;
    struct core *core = core_of_type(type);
    struct hr_batch_params p = {0};
    struct tensor *t;
    hr_device dev = NULL;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "iiii|OOOOOO:Batch", names,
                                     &p.n, &p.c, &p.h, &p.w, &dtype, &layout,
                                     &data, &device, &memory, &keep) ||
        !sizes_valid(core, &p) || !device_find(core, device, &dev) ||
        !(t = (struct tensor *)PyType_GenericAlloc(type, 0))) {
        device_leave(dev);
        return NULL;
    }
    PyObject_GC_UnTrack(t);  // the collector must not show it half made
    if (tensor_parse_form(dtype, layout, memory, t)) {
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

// ---- read() -----------------------------------------------------------------

// A batch on the host, of the same form.
static struct tensor *make_twin(struct tensor *t, int n)
{
    PyTypeObject *type = Py_TYPE((PyObject *)t);
    struct tensor *twin = (struct tensor *)PyType_GenericAlloc(type, 0);
    struct hr_batch_params p = t->batch->params;

    if (!twin)
        return NULL;
    twin->dtype = t->dtype;
    twin->layout = t->layout;
    p.n = n;
    p.data = NULL;
    set_shape(twin, &p);
    twin->nbytes = t->nbytes / t->shape[0] * n;
    if (make(core_of_type(type), twin, &(hr_device){NULL}, &p)) {
        twin->strides[3] = t->strides[3];
        if (t->layout == HR_NHWC)
            twin->strides[2] = t->strides[2];
        return twin;
    }
    Py_DECREF(twin);
    return NULL;
}

static PyObject *batch_read(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"first", "n", "timeout", NULL};
    struct tensor *t = tensor_of(self), *twin;
    PyObject *timeout = NULL;
    int first = 0, n = -1;
    int64_t ns;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|iiO:read", names, &first,
                                     &n, &timeout) ||
        !core_seconds(timeout, HR_FOREVER, &ns))
        return NULL;
    if (!t->batch)
        return core_raise(core_of(self), HR_EINVAL, "read: it was collected");
    if (n < 0)
        n = (int)t->shape[0] - first;
    if (first < 0 || n < 1 || n > t->shape[0] - first)
        return core_raise(core_of(self), HR_EINVAL, "read: no such slots");
    if (!(twin = make_twin(t, n)))
        return NULL;
    if (tensor_copy(t, first, n, twin, ns))
        return (PyObject *)twin;
    Py_DECREF(twin);
    return NULL;
}

static Py_ssize_t length(PyObject *self)
{
    return tensor_of(self)->shape[0];
}

static PyObject *represent(PyObject *self)
{
    const struct tensor *t = tensor_of(self);

    return PyUnicode_FromFormat("<headrace.Batch %zdx%zdx%zdx%zd %s %s>",
                                t->shape[0], t->shape[1], t->shape[2],
                                t->shape[3], hr_dtype_name(t->dtype),
                                t->layout == HR_NHWC ? "nhwc" : "nchw");
}

static PyMethodDef methods[] = {
    {"read", (PyCFunction)(void (*)(void))batch_read,
     METH_VARARGS | METH_KEYWORDS,
     "read($self, /, first=0, n=-1, timeout=None)\n--\n\n"
     "Return slots first .. first + n - 1 (-1: all the rest) as a Batch in\n"
     "host memory, after the jobs that write them."},
    TENSOR_METHODS,
    {0},
};

static PyMemberDef members[] = {WEAK_MEMBER(struct tensor), {0}};

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "Batch(n, c, h, w, dtype='f32', layout='nchw', data=None, device=None,\n"
     "      memory='host', keep=None)\n--\n\n"
     "One tensor for n pictures of c x h x w; c is 1 or 3.\n\n"
     "dtype: 'f32', 'f16' or 'u8', NumPy's and torch's own too. layout:\n"
     "'nchw' or 'nhwc'. data: the caller's memory, written where it lies: a\n"
     "writable buffer (NumPy array), a tensor with __dlpack__ (torch), each\n"
     "of this shape and type with rows without gaps, or enough bytes in a\n"
     "row; or an address, whose owner is keep. Without it the library makes\n"
     "the memory, all zero. memory: 'pinned' and 'device' are of the device.\n\n"
     "Jobs that write it hold it. The bytes belong to a job until it is\n"
     "done. It is a buffer and an array for NumPy, and has __dlpack__."},
    {Py_tp_new, create},
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_traverse, tensor_traverse},
    {Py_tp_clear, tensor_clear},
    {Py_tp_repr, represent},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, tensor_getset},
    {Py_sq_length, length},
    {Py_bf_getbuffer, tensor_get_buffer},
    {0},
};

PyType_Spec batch_spec = {
    .name = "headrace._core.Batch",
    .basicsize = sizeof(struct tensor),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};
