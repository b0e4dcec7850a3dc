// SPDX-License-Identifier: Apache-2.0
// Loaded: a batch that a Loader delivered. Its memory is lent by the loader,
// and goes back with the last reference; or it is a copy.
#include "flight.h"
#include "inputs.h"
#include "tensor.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>

struct loaded {
    struct tensor t;  // first
    hr_loaded lent;   // NULL: a copy
    struct lending *lending;
    bool counted;  // in it
    void *copy;
    int n, failed, replaced;
    uint32_t epoch;
    uint64_t number;
    bool last, copied;
    PyObject *source;
    PyObject *labels;  // a bytearray of int64
    PyObject *views;   // of a batch with views, where they are
    const uint64_t *indices;
    const struct hr_random *keys;
    const struct hr_result *results;
};

static struct loaded *loaded_of(PyObject *self)
{
    return (struct loaded *)self;
}

void lending_leave(struct lending *lending)
{
    if (lending && !--lending->refs)
        free(lending);
}

// ---- Made -------------------------------------------------------------------

// With views it is all their memory, in elements.
static void set_form(struct tensor *t, hr_loaded from)
{
    const struct hr_batch_params *p = &from->batch->params;
    bool planes = p->layout == HR_NCHW;

    t->dtype = p->dtype;
    t->layout = p->layout;
    t->memory = p->memory;
    t->c = p->c;
    t->ndim = 4;
    if (from->views) {
        t->c = t->ndim = 1;
        t->shape[0] = (Py_ssize_t)p->h * p->w;
        tensor_pack(t);
        return;
    }
    t->shape[0] = from->n;
    t->shape[1] = planes ? p->c : p->h;
    t->shape[2] = planes ? p->h : p->w;
    t->shape[3] = planes ? p->w : p->c;
    tensor_pack(t);
    t->strides[0] = (Py_ssize_t)p->stride_n;
    if (planes)
        t->strides[1] = (Py_ssize_t)p->stride_c;
    t->strides[planes ? 2 : 1] = (Py_ssize_t)p->stride_h;
}

static bool set_labels(struct loaded *self, PyObject *source, hr_loaded from)
{
    Py_ssize_t size = from->n * (Py_ssize_t)sizeof(int64_t);
    int64_t *labels;

    if (!(self->labels = PyByteArray_FromStringAndSize(NULL, size)))
        return false;
    labels = (int64_t *)(void *)PyByteArray_AsString(self->labels);
    for (int i = 0; i < from->n; i++)
        labels[i] = source_class(source, from->indices[i], from->classes[i]);
    return true;
}

// (first element, shape) of each view, or () without views.
static bool set_views(struct loaded *self, hr_loaded from)
{
    if (!(self->views = PyTuple_New(from->views)))
        return false;
    for (int i = 0; i < from->views; i++) {
        const struct hr_image_params *p = &from->images[i * from->n]->params;
        Py_ssize_t at = ((const char *)p->data -
                         (const char *)from->batch->params.data) /
                        tensor_item(&self->t);
        bool planes = p->layout == HR_NCHW;
        PyObject *one = Py_BuildValue("n(iiii)", at, from->n,
                                      planes ? p->c : p->h,
                                      planes ? p->h : p->w,
                                      planes ? p->w : p->c);

        if (!one || PyTuple_SetItem(self->views, i, one))
            return false;
    }
    return true;
}

static void lend(struct loaded *self, hr_loaded from)
{
    self->t.data = from->batch->params.data;
    self->indices = from->indices;
    self->keys = from->keys;
    self->results = from->results;
}

static void *copy_to(char **at, const void *from, size_t size)
{
    void *to = *at;

    memcpy(to, from, size);
    *at += (size + 63) / 64 * 64;
    return to;
}

// Pixels and facts; without the GIL.
static bool copy(struct loaded *self, hr_loaded from)
{
    size_t n = (size_t)from->n;
    size_t pixels = (from->views ? 1 : n) * from->batch->params.stride_n;
    size_t facts = n * (sizeof(*from->indices) + sizeof(*from->keys) +
                        sizeof(*from->results));
    char *at;

    self->copy = aligned_alloc(64, (pixels + facts + 4 * 64 + 63) / 64 * 64);
    if (!(at = self->copy))
        return false;
    self->t.data = copy_to(&at, from->batch->params.data, pixels);
    self->t.memory = HR_MEMORY_HOST;
    self->indices = copy_to(&at, from->indices, n * sizeof(*from->indices));
    self->keys = copy_to(&at, from->keys, n * sizeof(*from->keys));
    self->results = copy_to(&at, from->results, n * sizeof(*from->results));
    return true;
}

static bool fill(struct loaded *self, hr_loaded from, bool copied)
{
    if (!copied) {
        lend(self, from);
        return true;
    }
    WITHOUT_GIL(copied = copy(self, from); hr_loaded_release(&from));
    self->lent = NULL;
    return copied || PyErr_NoMemory();
}

PyObject *loaded_new(struct core *core, PyObject *source, hr_loaded from,
                     struct lending *lending, bool copied)
{
    struct loaded *self =
        core_alive(core) ? (struct loaded *)PyType_GenericAlloc(core->loaded, 0)
                         : NULL;

    if (!self) {
        WITHOUT_GIL(hr_loaded_release(&from));
        return NULL;
    }
    self->lent = from;
    self->source = Py_NewRef(source);
    self->lending = lending;
    lending->refs++;
    lending->lent += self->counted = !copied;
    self->copied = copied;
    self->n = from->n;
    self->failed = from->failed;
    self->replaced = from->replaced;
    self->epoch = from->epoch;
    self->number = from->number;
    self->last = from->last;
    set_form(&self->t, from);
    if (set_labels(self, source, from) && set_views(self, from) &&
        fill(self, from, copied))
        return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

// ---- Facts ------------------------------------------------------------------

PyObject *loaded_file(PyObject *self, int i)
{
    const struct loaded *loaded = loaded_of(self);

    if (!loaded->results[i].status)
        Py_RETURN_NONE;
    return source_file(loaded->source, loaded->indices[i], &loaded->results[i]);
}

// The number of one sample in the source.
static PyObject *index_of(const void *loaded, size_t i)
{
    return PyLong_FromUnsignedLongLong(
        ((const struct loaded *)loaded)->indices[i]);
}

static PyObject *key_of(const void *loaded, size_t i)
{
    const struct hr_random *key = &((const struct loaded *)loaded)->keys[i];

    return Py_BuildValue("(KKk)", (unsigned long long)key->seed,
                         (unsigned long long)key->index,
                         (unsigned long)key->epoch);
}

static PyObject *get_indices(PyObject *self, void *closure)
{
    return core_tuple(loaded_of(self)->n, index_of, self);
}

static PyObject *get_keys(PyObject *self, void *closure)
{
    return core_tuple(loaded_of(self)->n, key_of, self);
}

static PyObject *get_results(PyObject *self, void *closure)
{
    return results_of(core_of(self), self, NULL, loaded_of(self)->results,
                      loaded_of(self)->n);
}

// A tensor's attribute, read by the tensor's own getter.
static PyObject *get_of_tensor(PyObject *self, void *closure)
{
    PyGetSetDef *def = tensor_getset;

    while (def->name && strcmp(def->name, closure))
        def++;
    return def->get(self, def->closure);
}

static Py_ssize_t length(PyObject *self)
{
    return loaded_of(self)->n;
}

// ---- Its end ----------------------------------------------------------------

static int traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(loaded_of(self)->source);
    return 0;
}

static void dealloc(PyObject *self)
{
    struct loaded *loaded = loaded_of(self);

    PyObject_GC_UnTrack(self);
    if (loaded->t.weak)
        PyObject_ClearWeakRefs(self);
    if (loaded->lent)
        WITHOUT_GIL(hr_loaded_release(&loaded->lent));
    loaded->lending->lent -= loaded->counted;
    lending_leave(loaded->lending);
    Py_CLEAR(loaded->labels);
    Py_CLEAR(loaded->views);
    Py_CLEAR(loaded->source);
    free(loaded->copy);
    core_free(self);
}

// ---- The type ---------------------------------------------------------------

static PyMethodDef methods[] = {
    TENSOR_METHODS,
    {0},
};

#define MEMBER(name, type, text)                                   \
    {                                                              \
#name, type, offsetof(struct loaded, name), READONLY, text \
    }
static PyMemberDef members[] = {
    MEMBER(labels, T_OBJECT_EX, "int64 of each sample, as a bytearray"),
    MEMBER(views, T_OBJECT_EX,
           "(first element, shape) of each view, in all their memory"),
    MEMBER(failed, T_INT, "samples that could not be made"),
    MEMBER(replaced, T_INT, "samples that stand for failed ones"),
    MEMBER(epoch, T_UINT, "from 0"),
    MEMBER(number, T_ULONGLONG, "of the batch in its epoch, from 0"),
    MEMBER(last, T_BOOL, "whether it is the last of its epoch"),
    MEMBER(copied, T_BOOL,
           "whether it is a copy, since all others were in use"),
    WEAK_MEMBER(struct tensor),
    {0},
};
#undef MEMBER

#define TENSOR(name, text)                            \
    {                                                 \
        name, get_of_tensor, NULL, text, (void *)name \
    }
static PyGetSetDef getset[] = {
    {"indices", get_indices, NULL, "which sample of the source each is", NULL},
    {"keys", get_keys, NULL, "what random ops drew from, for draw_ops()", NULL},
    {"results", get_results, NULL, "tuple of a Result for each sample", NULL},
    TENSOR("shape", "sizes of the axes, in elements"),
    TENSOR("strides", "bytes from one to the next, of each axis"),
    TENSOR("dtype", "'f32', 'f16' or 'u8'"),
    TENSOR("layout", "'nchw' or 'nhwc'"),
    TENSOR("memory", "'host' or 'pinned'"),
    TENSOR("nbytes", "bytes of all elements"),
    TENSOR("data_ptr", "address of the first element"),
    TENSOR("__array_interface__", "for NumPy"),
    {0},
};
#undef TENSOR

static PyType_Slot slots[] = {
    {Py_tp_doc, "A batch of a Loader, its labels, and how it was made."},
    {Py_tp_dealloc, dealloc},
    {Py_tp_traverse, traverse},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, getset},
    {Py_sq_length, length},
    {Py_bf_getbuffer, tensor_get_buffer},
    {0},
};

PyType_Spec loaded_spec = CORE_SPEC("Loaded", struct loaded, slots,
                                    Py_TPFLAGS_HAVE_GC |
                                        Py_TPFLAGS_DISALLOW_INSTANTIATION);
