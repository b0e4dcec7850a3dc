// SPDX-License-Identifier: Apache-2.0
// The caller's memory as that of a batch or of pixels.
#include "tensor.h"

#include <string.h>

#include "dlpack.h"

// Says whether rows are without gaps and nothing runs backwards: the library
// asks for no more.
static bool strides_fit(const struct tensor *t, const Py_ssize_t *strides)
{
    Py_ssize_t size = tensor_item(t);
    int packed = t->layout == HR_NHWC ? 2 : 1;  // innermost axes

    for (int i = t->ndim; i-- > 0; packed--) {
        if (t->shape[i] != 1 &&
            (packed > 0 ? strides[i] != size : strides[i] <= 0))
            return false;
        size *= t->shape[i];
    }
    return true;
}

static bool same_shape(const struct tensor *t, int ndim,
                       const Py_ssize_t *shape)
{
    for (int i = 0; i < t->ndim && ndim == t->ndim; i++)
        if (shape[i] != t->shape[i])
            return false;
    return ndim == t->ndim;
}

static void take_strides(struct tensor *t, const Py_ssize_t *strides)
{
    // The stride of an axis with one element may be anything.
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] != 1)
            t->strides[i] = strides[i];
}

static bool borrow_address(struct tensor *t, PyObject *data)
{
    t->data = PyLong_AsVoidPtr(data);
    if (t->data)
        return true;
    if (!PyErr_Occurred())
        PyErr_SetString(core_argument_error(), "data: an address of 0");
    return false;
}

static bool format_fits(const struct tensor *t, const char *format)
{
    static const char of[] = {[HR_F32] = 'f', [HR_F16] = 'e', [HR_U8] = 'B'};

    if (format && strchr("@=<", *format) && *format)
        format++;
    return (format ? *format : 'B') == of[t->dtype] && (!format || !format[1]);
}

static bool wrong_shape(const struct tensor *t)
{
    PyErr_Format(core_argument_error(),
                 "data: neither an array of this shape and type whose rows "
                 "have no gaps, nor %zd bytes in a row",
                 t->nbytes);
    return false;
}

static bool borrow_buffer(struct tensor *t, PyObject *data)
{
    const Py_buffer *v = &t->view;

    // Memory of Pixels, which have three axes, may be a read-only source.
    if (PyObject_GetBuffer(data, &t->view,
                           PyBUF_FORMAT | PyBUF_STRIDES |
                               (t->ndim == 4 ? PyBUF_WRITABLE : 0)))
        return false;
    t->readonly = v->readonly;
    t->data = v->buf;
    if (same_shape(t, v->ndim, v->shape)) {
        if (!format_fits(t, v->format) || !strides_fit(t, v->strides))
            return wrong_shape(t);
        take_strides(t, v->strides);
        return true;
    }
    // An array of another shape is not what was meant, however large it is.
    return (v->ndim == 1 && PyBuffer_IsContiguous(v, 'C') &&
            v->len >= t->nbytes) ||
           wrong_shape(t);
}

static bool dlpack_fits(const struct tensor *t, const struct dl_tensor *d)
{
    static const uint8_t code[] = {
        [HR_F32] = DL_FLOAT, [HR_F16] = DL_FLOAT, [HR_U8] = DL_UINT};
    bool reachable = d->device.type == DL_CPU ||
                     d->device.type == DL_CUDA_HOST ||
                     d->device.type == DL_ROCM_HOST;

    return reachable && d->type.code == code[t->dtype] &&
           d->type.bits == 8 * tensor_item(t) && d->type.lanes == 1;
}

static bool take_dlpack(struct tensor *t, const struct dl_tensor *d)
{
    Py_ssize_t shape[4], strides[4] = {0}, size = tensor_item(t);

    if (!dlpack_fits(t, d) || d->ndim != t->ndim)
        return wrong_shape(t);
    for (int i = 0; i < d->ndim; i++)
        shape[i] = (Py_ssize_t)d->shape[i];
    // The sizes that are multiplied below are then the tensor's own.
    if (!same_shape(t, d->ndim, shape))
        return wrong_shape(t);
    for (int i = d->ndim; i-- > 0; size *= shape[i]) {
        strides[i] = size;
        if (d->strides && __builtin_mul_overflow((Py_ssize_t)d->strides[i],
                                                 tensor_item(t), &strides[i]))
            return wrong_shape(t);
    }
    if (!strides_fit(t, strides))
        return wrong_shape(t);
    take_strides(t, strides);
    t->data = (char *)d->data + d->byte_offset;
    return true;
}

// The capsule is not consumed: it owns the memory as long as it lives.
static bool borrow_dlpack(struct tensor *t, PyObject *data)
{
    PyObject *capsule = PyObject_CallMethod(data, "__dlpack__", NULL);
    struct dl_managed *managed;

    if (!capsule) {
        if (PyErr_ExceptionMatches(PyExc_AttributeError))
            PyErr_SetString(PyExc_TypeError,
                            "data must be a writable buffer, a tensor with "
                            "__dlpack__, or an address");
        return false;
    }
    if (!(managed = PyCapsule_GetPointer(capsule, DL_NAME)) ||
        !take_dlpack(t, &managed->tensor)) {
        Py_DECREF(capsule);
        return false;
    }
    if (t->keep)
        Py_DECREF(capsule);  // the caller keeps the memory
    else
        t->keep = capsule;
    return true;
}

bool tensor_borrow(struct tensor *t, PyObject *data, PyObject *keep)
{
    if (!tensor_pack(t))
        return false;
    if (keep && keep != Py_None)
        t->keep = Py_NewRef(keep);
    if (!data || data == Py_None)
        return true;
    if (t->memory != HR_MEMORY_HOST)
        return PyErr_SetString(core_argument_error(),
                               "data can only be host memory (pinned memory "
                               "of others is host memory, too)"),
               false;
    if (PyLong_Check(data))
        return borrow_address(t, data);
    if (PyObject_CheckBuffer(data))
        return borrow_buffer(t, data);
    Py_CLEAR(t->keep);
    return borrow_dlpack(t, data);
}
