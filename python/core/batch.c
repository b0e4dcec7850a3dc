// SPDX-License-Identifier: Apache-2.0
// Batch: one tensor for many pictures.
#include "tensor.h"

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"n",      "c",      "h",    "w",
                            "dtype",  "layout", "data", "device",
                            "memory", "keep",   NULL};
    struct tensor_call a = {.is_batch = true};

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "iiii|OOOOOO:Batch", names,
                                     &a.n, &a.c, &a.h, &a.w, &a.dtype,
                                     &a.layout, &a.data, &a.device, &a.memory,
                                     &a.keep))
        return NULL;
    return tensor_create(type, &a);
}

static PyObject *batch_read(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"first", "n", "timeout", NULL};
    struct tensor *t = tensor_of(self);
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
    return tensor_read(t, first, n, ns);
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

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "Batch(n, c, h, w, dtype='f32', layout='nchw', data=None, device=None,\n"
     "      memory='host', keep=None)\n--\n\n"
     "One tensor for n pictures of c x h x w; c is 1 or 3.\n\n"
     "Args:\n"
     "    dtype: 'f32', 'f16' or 'u8', or the types of NumPy and torch.\n"
     "    layout: 'nchw' or 'nhwc'.\n"
     "    data: the caller's memory, written in place: a writable buffer (NumPy\n"
     "        array) or a tensor with __dlpack__ (torch), each of this shape and\n"
     "        type with rows without gaps; enough bytes in a row; or an address.\n"
     "        None: the library makes the memory, all zero.\n"
     "    device: the device that makes the memory; None: the default one.\n"
     "    memory: 'host', or 'pinned' or 'device', which are the device's.\n"
     "    keep: the owner of an address.\n"
     "\n"
     "Jobs that write it hold it. The bytes belong to a job until it is\n"
     "done. It is a buffer and an array for NumPy, and has __dlpack__."},
    {Py_tp_new, create},
    {Py_tp_repr, represent},
    {Py_tp_methods, methods},
    TENSOR_SLOTS,
    {Py_sq_length, length},
    {0},
};

PyType_Spec batch_spec = CORE_SPEC("Batch", struct tensor, slots,
                                   Py_TPFLAGS_HAVE_GC);
