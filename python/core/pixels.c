// SPDX-License-Identifier: Apache-2.0
// Pixels: one picture, source or destination of a job.
#include "tensor.h"

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"w",    "h",      "c",      "dtype", "layout",
                            "data", "device", "memory", "keep",  NULL};
    struct tensor_call a = {.c = 3};

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "ii|iOOOOOO:Pixels", names,
                                     &a.w, &a.h, &a.c, &a.dtype, &a.layout,
                                     &a.data, &a.device, &a.memory, &a.keep))
        return NULL;
    return tensor_create(type, &a);
}

// ---- Waiting, reading -------------------------------------------------------

static PyObject *wait_for(PyObject *self, PyObject *args, PyObject *kwargs)
{
    int64_t ns;

    if (!core_timeout(args, kwargs, "|O:wait", HR_FOREVER, &ns) ||
        !pixels_wait(tensor_of(self), ns))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *pixels_read(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct tensor *t = tensor_of(self);
    int64_t ns;

    if (!core_timeout(args, kwargs, "|O:read", HR_FOREVER, &ns))
        return NULL;
    if (!t->image)
        return core_raise(core_of(self), HR_EINVAL, "read: it was collected");
    return tensor_read(t, 0, 1, ns);
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

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "Pixels(w, h, c=3, dtype='u8', layout='nhwc', data=None, device=None,\n"
     "       memory='host', keep=None)\n--\n\n"
     "The pixels of one picture, h x w x c ('nhwc') or c x h x w ('nchw');\n"
     "c is 1 or 3. Source of a sample (u8), or its destination. data, keep\n"
     "and memory: as in Batch. Reading it as a buffer, as an array or by\n"
     "DLPack waits for the jobs that write it, and raises what went wrong."},
    {Py_tp_new, create},
    {Py_tp_repr, represent},
    {Py_tp_methods, methods},
    TENSOR_SLOTS,
    {0},
};

PyType_Spec pixels_spec = CORE_SPEC("Pixels", struct tensor, slots,
                                    Py_TPFLAGS_HAVE_GC);
