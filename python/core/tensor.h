// SPDX-License-Identifier: Apache-2.0
// Batch and Pixels: where pictures go.
#ifndef HR_PY_TENSOR_H
#define HR_PY_TENSOR_H

#include "core.h"

#include <stddef.h>
#include <structmember.h>

// ---- tensor: what Batch and Pixels are --------------------------------------

struct tensor {
    PyObject ob_base;
    hr_batch batch;  // one of the two
    hr_image image;
    PyObject *keep;  // owns the memory, if the caller said so
    Py_buffer view;  // of the caller's memory; view.obj NULL: there is none
    void *data;      // NULL: in device memory
    enum hr_dtype dtype;
    enum hr_layout layout;
    enum hr_memory memory;
    bool readonly;  // the caller's; Pixels only, and no destination
    int c, ndim;
    Py_ssize_t shape[4], strides[4], nbytes;
    PyObject *weak;
};

static inline struct tensor *tensor_of(PyObject *self)
{
    return (struct tensor *)self;
}

static inline Py_ssize_t tensor_item(const struct tensor *t)
{
    return (Py_ssize_t)hr_dtype_size(t->dtype);  // bytes of an element
}

// Strides without gaps, and nbytes. False with an exception: no memory has so
// many bytes.
bool tensor_pack(struct tensor *t);
// The arguments of a Batch or Pixels.
struct tensor_call {
    bool is_batch;  // of n
    int n, c, h, w;
    PyObject *dtype, *layout, *data, *device, *memory, *keep;
};
PyObject *tensor_create(PyTypeObject *type, const struct tensor_call *call);
// A copy in host memory: of slots of a batch, or of all of pixels.
PyObject *tensor_read(struct tensor *t, int first, int n, int64_t timeout_ns);
// Says whether the host may read it now; waits for jobs that write it. False
// with a BufferError, or the job's error.
bool tensor_reachable(struct tensor *t);
// The caller's memory: an object, or an address and its owner.
bool tensor_borrow(struct tensor *t, PyObject *data, PyObject *keep);
bool tensor_parse_form(PyObject *dtype, PyObject *layout, PyObject *memory,
                       struct tensor *t);
PyObject *tensor_form(PyObject *module, PyObject *args);
extern PyMemberDef tensor_members[];
extern PyGetSetDef tensor_getset[];
int tensor_get_buffer(PyObject *self, Py_buffer *view, int flags);
PyObject *tensor_dlpack(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *tensor_dlpack_device(PyObject *self, PyObject *none);
int tensor_traverse(PyObject *self, visitproc visit, void *arg);
int tensor_clear(PyObject *self);
void tensor_dealloc(PyObject *self);

// For the table of methods of a type that begins with a struct tensor.
#define TENSOR_METHODS                                                    \
    {"__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack,            \
     METH_VARARGS | METH_KEYWORDS,                                        \
     "__dlpack__($self, /, *, stream=None, max_version=None,\n"           \
     "           dl_device=None, copy=None)\n--\n\n"                      \
     "Return a capsule with the memory, not a copy of it."},              \
    {                                                                     \
        "__dlpack_device__", tensor_dlpack_device, METH_NOARGS,           \
            "__dlpack_device__($self, /)\n--\n\nReturn (device type, 0)." \
    }

// For its table of slots.
#define TENSOR_SLOTS                                                    \
    {Py_tp_dealloc, tensor_dealloc}, {Py_tp_traverse, tensor_traverse}, \
        {Py_tp_clear, tensor_clear}, {Py_tp_members, tensor_members},   \
        {Py_tp_getset, tensor_getset},                                  \
    {                                                                   \
        Py_bf_getbuffer, tensor_get_buffer                              \
    }

// Waits until nothing writes it. False with an exception.
bool pixels_wait(struct tensor *t, int64_t timeout_ns);

#endif
