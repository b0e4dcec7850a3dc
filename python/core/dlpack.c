// SPDX-License-Identifier: Apache-2.0
// Batches and pixels as DLPack tensors.
#include "flight.h"
#include "tensor.h"

#include <stdlib.h>

#include "dlpack.h"

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

    // Renamed: a consumer has taken it.
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
        e->strides[i] = t->strides[i] / tensor_item(t);
    }
    return (struct dl_tensor){
        .data = t->data,
        .device = {DL_CPU, 0},
        .ndim = t->ndim,
        .type = {t->dtype == HR_U8 ? DL_UINT : DL_FLOAT,
                 (uint8_t)(8 * tensor_item(t)), 1},
        .shape = e->shape,
        .strides = e->strides,
    };
}

static PyObject *export(PyObject *self, bool versioned)
{
    bool readonly = tensor_of(self)->readonly;
    struct exported *e = calloc(1, sizeof(*e));
    struct dl_tensor tensor;
    PyObject *capsule;

    if (!e)
        return PyErr_NoMemory();
    tensor = describe(tensor_of(self), e);
    e->owner = Py_NewRef(self);
    if (versioned) {
        e->versioned = (struct dl_versioned){
            {1, 0}, e, delete_versioned, readonly ? DL_READ_ONLY : 0, tensor};
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

// True with an exception if another device than the host is asked for: that
// would need a copy.
static bool asks_for_device(PyObject *device)
{
    int type = DL_CPU, number = 0;

    if (!device || device == Py_None)
        return false;
    if (!PyTuple_Check(device)) {
        PyErr_SetString(PyExc_TypeError, "dl_device must be a tuple");
        return true;
    }
    if (!PyArg_ParseTuple(device, "ii:dl_device", &type, &number))
        return true;
    if (type == DL_CPU)
        return false;
    PyErr_SetString(PyExc_BufferError, "the memory is the host's");
    return true;
}

PyObject *tensor_dlpack(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = NULL, *version = NULL, *device = NULL, *copy = NULL;
    bool versioned;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names,
                                     &stream, &version, &device, &copy) ||
        asks_for_copy(copy) || asks_for_device(device) ||
        !asks_for_version(version, &versioned))
        return NULL;
    if (stream && stream != Py_None) {
        PyErr_SetString(PyExc_BufferError, "host memory has no streams");
        return NULL;
    }
    if (tensor_of(self)->readonly && !versioned) {
        PyErr_SetString(PyExc_BufferError,
                        "the memory is read-only: ask for DLPack 1.0");
        return NULL;
    }
    return tensor_reachable(tensor_of(self)) ? export(self, versioned) : NULL;
}

PyObject *tensor_dlpack_device(PyObject *self, PyObject *none)
{
    return Py_BuildValue("(ii)", tensor_of(self)->data ? DL_CPU : DL_OPENCL, 0);
}
