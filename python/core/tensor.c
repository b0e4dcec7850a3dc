// SPDX-License-Identifier: Apache-2.0
// Common to batches and pixels: form, attributes, the buffer protocol, their
// end.
#include "flight.h"
#include "tensor.h"

#include <stddef.h>
#include <string.h>

// ---- What it is -------------------------------------------------------------

// Also for numpy.dtype and torch.dtype, whose names are these, and for NumPy's
// scalar types.
static int dtype_of(PyObject *dtype)
{
    static const char *const names[] = {"f32", "float32", "torch.float32",
                                        "f16", "float16", "torch.float16",
                                        "u8",  "uint8",   "torch.uint8",
                                        NULL};
    PyObject *text;
    int i;

    if (!dtype || dtype == Py_None)
        return 0;
    text = PyType_Check(dtype) ? PyType_GetName((PyTypeObject *)dtype)
                               : PyObject_Str(dtype);
    if (!text)
        return -1;
    i = core_choice(text, "dtype", names);
    Py_DECREF(text);
    return i < 0 ? -1 : i / 3;
}

bool tensor_parse_form(PyObject *dtype, PyObject *layout, PyObject *memory,
                       struct tensor *t)
{
    static const char *const layouts[] = {"nchw", "nhwc", NULL};
    static const char *const memories[] = {"host", "pinned", "device", NULL};
    int d = -1, l = -1, m = -1;

    if ((d = dtype_of(dtype)) < 0 ||
        (l = core_choice(layout, "layout", layouts)) < 0 ||
        (m = core_choice(memory, "memory", memories)) < 0)
        return false;
    t->dtype = (enum hr_dtype)d;
    t->layout = (enum hr_layout)l;
    t->memory = (enum hr_memory)m;
    return true;
}

PyObject *tensor_form(PyObject *module, PyObject *args)
{
    PyObject *dtype, *layout, *memory;
    struct tensor t = {0};

    if (!PyArg_ParseTuple(args, "OOO:form", &dtype, &layout, &memory) ||
        !tensor_parse_form(dtype, layout, memory, &t))
        return NULL;
    return PyUnicode_InternFromString(hr_dtype_name(t.dtype));
}

bool tensor_pack(struct tensor *t)
{
    Py_ssize_t size = tensor_item(t);

    for (int i = t->ndim; i-- > 0;) {
        t->strides[i] = size;
        if (__builtin_mul_overflow(size, t->shape[i], &size))
            return PyErr_NoMemory(), false;
    }
    t->nbytes = size;
    return true;
}

static bool is_packed(const struct tensor *t)
{
    Py_ssize_t size = tensor_item(t);

    for (int i = t->ndim; i-- > 0; size *= t->shape[i])
        if (t->shape[i] != 1 && t->strides[i] != size)
            return false;
    return true;
}

// ---- Buffers ----------------------------------------------------------------

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

bool tensor_reachable(struct tensor *t)
{
    if (!t->data) {
        PyErr_SetString(PyExc_BufferError,
                        "the memory is the device's: use read()");
        return false;
    }
    // A batch cannot tell; its jobs can.
    return !t->image || pixels_wait(t, HR_FOREVER);
}

static const char *format_of(const struct tensor *t)
{
    static const char *const formats[] = {
        [HR_F32] = "f", [HR_F16] = "e", [HR_U8] = "B"};

    return formats[t->dtype];
}

int tensor_get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    struct tensor *t = tensor_of(self);
    bool strided = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
    bool in_c_order = (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS ||
                      (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS;

    view->obj = NULL;
    if (!tensor_reachable(t))
        return -1;
    if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE && t->readonly) {
        PyErr_SetString(PyExc_BufferError, "the memory is read-only");
        return -1;
    }
    if ((!strided || in_c_order ||
         (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS) &&
        !is_packed(t)) {
        PyErr_SetString(PyExc_BufferError, "the rows have gaps");
        return -1;
    }
    if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && !in_c_order) {
        PyErr_SetString(PyExc_BufferError, "not in Fortran's order");
        return -1;
    }
    *view = (Py_buffer){
        .buf = t->data,
        .obj = Py_NewRef(self),
        .len = t->nbytes,
        .readonly = t->readonly,
        .itemsize = tensor_item(t),
        .ndim = t->ndim,
        .format = (flags & PyBUF_FORMAT) == PyBUF_FORMAT ? (char *)format_of(t)
                                                         : NULL,
        .shape = (flags & PyBUF_ND) == PyBUF_ND ? t->shape : NULL,
        .strides = strided ? t->strides : NULL,
    };
    return 0;
}

// ---- Attributes -------------------------------------------------------------

static PyObject *size_of(const void *list, size_t i)
{
    return PyLong_FromSsize_t(((const Py_ssize_t *)list)[i]);
}

static PyObject *sizes(const Py_ssize_t *list, int n)
{
    return core_tuple(n, size_of, list);
}

static PyObject *get_shape(PyObject *self, void *closure)
{
    return sizes(tensor_of(self)->shape, tensor_of(self)->ndim);
}

static PyObject *get_strides(PyObject *self, void *closure)
{
    return sizes(tensor_of(self)->strides, tensor_of(self)->ndim);
}

static PyObject *get_dtype(PyObject *self, void *closure)
{
    return PyUnicode_InternFromString(hr_dtype_name(tensor_of(self)->dtype));
}

static PyObject *get_layout(PyObject *self, void *closure)
{
    return PyUnicode_InternFromString(
        tensor_of(self)->layout == HR_NHWC ? "nhwc" : "nchw");
}

static PyObject *get_memory(PyObject *self, void *closure)
{
    static const char *const names[] = {"host", "pinned", "device"};

    return PyUnicode_InternFromString(names[tensor_of(self)->memory]);
}

static PyObject *get_nbytes(PyObject *self, void *closure)
{
    return PyLong_FromSsize_t(tensor_of(self)->nbytes);
}

static PyObject *get_data_ptr(PyObject *self, void *closure)
{
    if (!tensor_of(self)->data)
        Py_RETURN_NONE;
    return PyLong_FromVoidPtr(tensor_of(self)->data);
}

static PyObject *get_array_interface(PyObject *self, void *closure)
{
    static const char *const types[] = {
        [HR_F32] = "<f4", [HR_F16] = "<f2", [HR_U8] = "|u1"};
    struct tensor *t = tensor_of(self);

    if (!tensor_reachable(t)) {
        // hasattr() shall say no.
        if (PyErr_ExceptionMatches(PyExc_BufferError))
            PyErr_SetString(PyExc_AttributeError,
                            "the memory is the device's: use read()");
        return NULL;
    }
    return Py_BuildValue("{s:N,s:s,s:(NO),s:N,s:i}", "shape",
                         sizes(t->shape, t->ndim), "typestr", types[t->dtype],
                         "data", PyLong_FromVoidPtr(t->data),
                         t->readonly ? Py_True : Py_False, "strides",
                         sizes(t->strides, t->ndim), "version", 3);
}

PyMemberDef tensor_members[] = {WEAK_MEMBER(struct tensor), {0}};

PyGetSetDef tensor_getset[] = {
    {"shape", get_shape, NULL, "sizes of the axes, in elements", NULL},
    {"strides", get_strides, NULL, "bytes from one to the next, of each axis",
     NULL},
    {"dtype", get_dtype, NULL, "'f32', 'f16' or 'u8'", NULL},
    {"layout", get_layout, NULL, "'nchw' or 'nhwc'", NULL},
    {"memory", get_memory, NULL, "'host', 'pinned' or 'device'", NULL},
    {"nbytes", get_nbytes, NULL, "bytes of all elements", NULL},
    {"data_ptr", get_data_ptr, NULL,
     "address of the first element; None in device memory", NULL},
    {"__array_interface__", get_array_interface, NULL, "for NumPy", NULL},
    {0},
};

// ---- Its end ----------------------------------------------------------------

int tensor_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(tensor_of(self)->keep);
    Py_VISIT(tensor_of(self)->view.obj);
    return 0;
}

// It has no users any more: a flight that writes it would hold it.
int tensor_clear(PyObject *self)
{
    struct tensor *t = tensor_of(self);
    hr_batch batch = t->batch;
    hr_image image = t->image;

    t->batch = NULL;
    t->image = NULL;
    t->data = NULL;
    if (t->memory == HR_MEMORY_HOST) {
        hr_batch_destroy(&batch);
        hr_image_release(&image);
    } else {
        // The driver takes it back.
        WITHOUT_GIL(hr_batch_destroy(&batch); hr_image_release(&image));
    }
    if (t->view.obj)
        PyBuffer_Release(&t->view);
    Py_CLEAR(t->keep);
    return 0;
}

void tensor_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    if (tensor_of(self)->weak)
        PyObject_ClearWeakRefs(self);
    tensor_clear(self);
    core_free(self);
}
