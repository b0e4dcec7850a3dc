// SPDX-License-Identifier: Apache-2.0
// The memory of batches and pixels: the caller's, taken as it is given; and
// handed out as a buffer, as an array, as a DLPack tensor.
#include "core.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "dlpack.h"

static struct tensor *tensor_of(PyObject *self)
{
    return (struct tensor *)self;
}

static Py_ssize_t element_size(const struct tensor *t)
{
    return (Py_ssize_t)hr_dtype_size(t->dtype);
}

// ---- What it is -------------------------------------------------------------

// Also for numpy.dtype and torch.dtype, whose names are these.
static int dtype_of(PyObject *dtype)
{
    static const char *const names[] = {"f32", "float32", "torch.float32",
                                        "f16", "float16", "torch.float16",
                                        "u8",  "uint8",   "torch.uint8",
                                        NULL};
    PyObject *text = dtype && dtype != Py_None ? PyObject_Str(dtype) : NULL;
    int i;

    if (!text)
        return PyErr_Occurred() ? -1 : 0;
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

static void pack_strides(struct tensor *t)
{
    Py_ssize_t size = element_size(t);

    for (int i = t->ndim; i-- > 0; size *= t->shape[i])
        t->strides[i] = size;
    t->nbytes = size;
}

static bool is_packed(const struct tensor *t)
{
    Py_ssize_t size = element_size(t);

    for (int i = t->ndim; i-- > 0; size *= t->shape[i])
        if (t->shape[i] != 1 && t->strides[i] != size)
            return false;
    return true;
}

// ---- The caller's memory ----------------------------------------------------

// Whether rows are without gaps and nothing runs backwards: the library asks
// for no more.
static bool strides_fit(const struct tensor *t, const Py_ssize_t *strides)
{
    Py_ssize_t size = element_size(t);
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
    // Of an axis with one element anything may be said.
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
        PyErr_SetString(PyExc_ValueError, "data: an address of 0");
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
    PyErr_Format(PyExc_ValueError,
                 "data: neither an array of this shape and type whose rows "
                 "have no gaps, nor %zd bytes in a row",
                 t->nbytes);
    return false;
}

static bool borrow_buffer(struct tensor *t, PyObject *data)
{
    const Py_buffer *v = &t->view;

    if (PyObject_GetBuffer(data, &t->view,
                           PyBUF_WRITABLE | PyBUF_FORMAT | PyBUF_STRIDES))
        return false;
    t->data = v->buf;
    if (same_shape(t, v->ndim, v->shape)) {
        if (!format_fits(t, v->format) || !strides_fit(t, v->strides))
            return wrong_shape(t);
        take_strides(t, v->strides);
        return true;
    }
    return (PyBuffer_IsContiguous(v, 'C') && v->len >= t->nbytes) ||
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
           d->type.bits == 8 * element_size(t) && d->type.lanes == 1;
}

static bool take_dlpack(struct tensor *t, const struct dl_tensor *d)
{
    Py_ssize_t shape[4], strides[4], size = element_size(t);

    if (!dlpack_fits(t, d) || d->ndim != t->ndim)
        return wrong_shape(t);
    for (int i = d->ndim; i-- > 0;) {
        shape[i] = (Py_ssize_t)d->shape[i];
        strides[i] = d->strides ? (Py_ssize_t)d->strides[i] * element_size(t)
                                : size;
        size *= shape[i];
    }
    if (!same_shape(t, d->ndim, shape) || !strides_fit(t, strides))
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
    pack_strides(t);
    if (keep && keep != Py_None)
        t->keep = Py_NewRef(keep);
    if (!data || data == Py_None)
        return true;
    if (t->memory != HR_MEMORY_HOST)
        return PyErr_SetString(PyExc_ValueError,
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

// ---- Buffers ----------------------------------------------------------------

static bool reachable(struct tensor *t)
{
    if (!t->data) {
        PyErr_SetString(PyExc_BufferError,
                        "the memory is the device's: use read()");
        return false;
    }
    // Of a batch only the jobs tell.
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
    if (!reachable(t))
        return -1;
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
        .itemsize = element_size(t),
        .ndim = t->ndim,
        .format = (flags & PyBUF_FORMAT) == PyBUF_FORMAT ? (char *)format_of(t)
                                                         : NULL,
        .shape = (flags & PyBUF_ND) == PyBUF_ND ? t->shape : NULL,
        .strides = strided ? t->strides : NULL,
    };
    return 0;
}

// ---- DLPack -----------------------------------------------------------------

struct exported {
    union {
        struct dl_managed old;
        struct dl_versioned versioned;
    };
    PyObject *owner;
    int64_t shape[4], strides[4];
};

// On any thread, with the GIL or without, also while the interpreter ends: then
// the memory stays, the process does not.
static void give_back(struct exported *e)
{
    PyGILState_STATE state;

    if (flight_closed() || !Py_IsInitialized())
        return;
    state = PyGILState_Ensure();
    Py_DECREF(e->owner);
    free(e);
    PyGILState_Release(state);
}

static void delete_old(struct dl_managed *managed)
{
    give_back(managed->context);
}

static void delete_versioned(struct dl_versioned *managed)
{
    give_back(managed->context);
}

static void drop_old(PyObject *capsule)
{
    struct dl_managed *managed;

    // Renamed: somebody has taken it.
    if (!PyCapsule_IsValid(capsule, DL_NAME))
        return;
    managed = PyCapsule_GetPointer(capsule, DL_NAME);
    managed->deleter(managed);
}

static void drop_versioned(PyObject *capsule)
{
    struct dl_versioned *managed;

    if (!PyCapsule_IsValid(capsule, DL_VERSIONED_NAME))
        return;
    managed = PyCapsule_GetPointer(capsule, DL_VERSIONED_NAME);
    managed->deleter(managed);
}

static struct dl_tensor describe(const struct tensor *t, struct exported *e)
{
    for (int i = 0; i < t->ndim; i++) {
        e->shape[i] = t->shape[i];
        e->strides[i] = t->strides[i] / element_size(t);
    }
    return (struct dl_tensor){
        .data = t->data,
        .device = {DL_CPU, 0},
        .ndim = t->ndim,
        .type = {t->dtype == HR_U8 ? DL_UINT : DL_FLOAT,
                 (uint8_t)(8 * element_size(t)), 1},
        .shape = e->shape,
        .strides = e->strides,
    };
}

static PyObject *export(PyObject *self, bool versioned)
{
    struct exported *e = calloc(1, sizeof(*e));
    struct dl_tensor tensor;
    PyObject *capsule;

    if (!e)
        return PyErr_NoMemory();
    tensor = describe(tensor_of(self), e);
    e->owner = Py_NewRef(self);
    if (versioned) {
        e->versioned =
            (struct dl_versioned){{1, 0}, e, delete_versioned, 0, tensor};
        capsule = PyCapsule_New(&e->versioned, DL_VERSIONED_NAME,
                                drop_versioned);
    } else {
        e->old = (struct dl_managed){tensor, e, delete_old};
        capsule = PyCapsule_New(&e->old, DL_NAME, drop_old);
    }
    if (!capsule)
        give_back(e);
    return capsule;
}

static bool asks_for_copy(PyObject *copy)
{
    int wants = copy && copy != Py_None ? PyObject_IsTrue(copy) : 0;

    if (wants > 0)
        PyErr_SetString(PyExc_BufferError, "no copies are made");
    return wants != 0;
}

static bool asks_for_version(PyObject *version, bool *versioned)
{
    long major = 0;

    if (version && PyTuple_Check(version) && PyTuple_Size(version) >= 1)
        major = PyLong_AsLong(PyTuple_GetItem(version, 0));
    *versioned = major >= 1;
    return !(major == -1 && PyErr_Occurred());
}

PyObject *tensor_dlpack(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = NULL, *version = NULL, *device = NULL, *copy = NULL;
    bool versioned;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names,
                                     &stream, &version, &device, &copy) ||
        asks_for_copy(copy) || !asks_for_version(version, &versioned))
        return NULL;
    if (stream && stream != Py_None) {
        PyErr_SetString(PyExc_BufferError, "host memory has no streams");
        return NULL;
    }
    return reachable(tensor_of(self)) ? export(self, versioned) : NULL;
}

PyObject *tensor_dlpack_device(PyObject *self, PyObject *none)
{
    (void)none;
    return Py_BuildValue("(ii)", tensor_of(self)->data ? DL_CPU : DL_OPENCL, 0);
}

// ---- Attributes -------------------------------------------------------------

static PyObject *sizes(const Py_ssize_t *list, int n)
{
    PyObject *tuple = PyTuple_New(n);

    for (int i = 0; tuple && i < n; i++) {
        PyObject *number = PyLong_FromSsize_t(list[i]);

        if (!number || PyTuple_SetItem(tuple, i, number)) {
            Py_DECREF(tuple);
            return NULL;
        }
    }
    return tuple;
}

static PyObject *get_shape(PyObject *self, void *closure)
{
    (void)closure;
    return sizes(tensor_of(self)->shape, tensor_of(self)->ndim);
}

static PyObject *get_strides(PyObject *self, void *closure)
{
    (void)closure;
    return sizes(tensor_of(self)->strides, tensor_of(self)->ndim);
}

static PyObject *get_dtype(PyObject *self, void *closure)
{
    (void)closure;
    return PyUnicode_InternFromString(hr_dtype_name(tensor_of(self)->dtype));
}

static PyObject *get_layout(PyObject *self, void *closure)
{
    (void)closure;
    return PyUnicode_InternFromString(
        tensor_of(self)->layout == HR_NHWC ? "nhwc" : "nchw");
}

static PyObject *get_memory(PyObject *self, void *closure)
{
    static const char *const names[] = {"host", "pinned", "device"};

    (void)closure;
    return PyUnicode_InternFromString(names[tensor_of(self)->memory]);
}

static PyObject *get_nbytes(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromSsize_t(tensor_of(self)->nbytes);
}

static PyObject *get_data_ptr(PyObject *self, void *closure)
{
    (void)closure;
    if (!tensor_of(self)->data)
        Py_RETURN_NONE;
    return PyLong_FromVoidPtr(tensor_of(self)->data);
}

static PyObject *get_array_interface(PyObject *self, void *closure)
{
    static const char *const types[] = {
        [HR_F32] = "<f4", [HR_F16] = "<f2", [HR_U8] = "|u1"};
    struct tensor *t = tensor_of(self);

    (void)closure;
    if (!reachable(t)) {
        // hasattr() shall say no.
        if (PyErr_ExceptionMatches(PyExc_BufferError))
            PyErr_SetString(PyExc_AttributeError,
                            "the memory is the device's: use read()");
        return NULL;
    }
    return Py_BuildValue("{s:N,s:s,s:(NO),s:N,s:i}", "shape",
                         sizes(t->shape, t->ndim), "typestr", types[t->dtype],
                         "data", PyLong_FromVoidPtr(t->data), Py_False,
                         "strides", sizes(t->strides, t->ndim), "version", 3);
}

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

// Nobody has it any more: a flight that writes it would hold it.
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
        Py_BEGIN_ALLOW_THREADS hr_batch_destroy(&batch);
        hr_image_release(&image);
        Py_END_ALLOW_THREADS
    }
    if (t->view.obj)
        PyBuffer_Release(&t->view);
    Py_CLEAR(t->keep);
    return 0;
}

void tensor_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    if (tensor_of(self)->weak)
        PyObject_ClearWeakRefs(self);
    tensor_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}
