// SPDX-License-Identifier: Apache-2.0
// Cache, the cache of the process, and packed pictures.
#include "inputs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cache {
    PyObject ob_base;
    hr_cache cache;  // one reference
};

// ---- Sizes ------------------------------------------------------------------

static int unit_shift(const char *unit)
{
    static const char letters[] = "KMGT", small[] = "kmgt";
    const char *letter;
    int shift;

    if (!*unit || !strcmp(unit, "B"))
        return 0;
    if ((letter = strchr(letters, *unit)))
        shift = 10 * (int)(letter - letters + 1);
    else if ((letter = strchr(small, *unit)))
        shift = 10 * (int)(letter - small + 1);
    else
        return -1;
    unit++;
    return !*unit || !strcmp(unit, "B") || !strcmp(unit, "iB") ? shift : -1;
}

// "512M", "1.5 GiB" without the blank: as the command reads sizes. 0: none.
static size_t read_size(const char *text, Py_ssize_t length)
{
    char *end;
    double value;
    int shift;

    // strtod() also takes blanks, signs, hex, inf and nan.
    if (*text < '0' || *text > '9' || strpbrk(text, "xX") ||
        strlen(text) != (size_t)length)
        return 0;
    value = strtod(text, &end);
    shift = unit_shift(end);
    value = shift < 0 ? 0 : floor(ldexp(value, shift));
    return value >= 1 && value < 0x1p62 ? (size_t)value : 0;
}

// Bytes of an int, or of a text as "2G". False with an exception.
static bool parse_size(PyObject *value, size_t *out)
{
    Py_ssize_t length;
    const char *text;

    if (!PyUnicode_Check(value)) {
        Py_ssize_t n = PyNumber_AsSsize_t(value, PyExc_ValueError);

        if (n == -1 && PyErr_Occurred())
            return false;
        *out = n > 0 ? (size_t)n : 0;
    } else {
        if (!(text = PyUnicode_AsUTF8AndSize(value, &length)))
            return false;
        *out = read_size(text, length);
    }
    if (!*out)
        PyErr_Format(core_argument_error(),
                     "%R is no size: bytes above 0, or a text as '512M' or "
                     "'2G'",
                     value);
    return *out != 0;
}

// ---- Cache ------------------------------------------------------------------

// Takes the reference, also on failure. NULL: hr_last_error().
static PyObject *wrap(struct core *core, hr_cache cache)
{
    struct cache *self = core_alive(core)
                             ? PyObject_New(struct cache, core->cache)
                             : NULL;

    if (self)
        self->cache = cache;
    else
        hr_cache_release(&cache);
    return (PyObject *)self;
}

static PyObject *make(struct core *core, PyObject *value)
{
    hr_cache cache;
    size_t bytes;

    if (!parse_size(value, &bytes))
        return NULL;
    if (!(cache = hr_cache_create(bytes)))
        return core_raise_last(core);
    return wrap(core, cache);
}

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"bytes", NULL};
    PyObject *bytes;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Cache", names, &bytes))
        return NULL;
    return make(core_of_type(type), bytes);
}

bool cache_find(struct core *core, PyObject *cache, hr_cache *out)
{
    *out = NULL;
    if (!cache || cache == Py_None)
        return true;
    if (Py_TYPE(cache) != core->cache) {
        PyErr_SetString(PyExc_TypeError, "cache must be None or a Cache");
        return false;
    }
    *out = ((struct cache *)cache)->cache;
    return true;
}

static hr_cache cache_of(PyObject *self)
{
    return ((struct cache *)self)->cache;
}

static PyObject *get_bytes(PyObject *self, void *closure)
{
    return PyLong_FromSize_t(cache_of(self)->bytes);
}

static PyObject *get_stats(PyObject *self, PyObject *none)
{
    PyObject *stats = PyStructSequence_New(core_of(self)->cache_stats);
    struct hr_cache_stats s;

    hr_cache_stats(cache_of(self), &s);
    const uint64_t counts[] = {s.hits,      s.misses,   s.kept,
                               s.evictions, s.pictures, s.bytes};

    for (int i = 0; stats && i < 6; i++)
        PyStructSequence_SetItem(stats, i,
                                 PyLong_FromUnsignedLongLong(counts[i]));
    if (PyErr_Occurred())
        Py_CLEAR(stats);
    return stats;
}

// get_cache() makes an object whenever it is called: they are equal.
static PyObject *compare(PyObject *self, PyObject *other, int op)
{
    bool same = Py_TYPE(self) == Py_TYPE(other) &&
                cache_of(self) == cache_of(other);

    if (op != Py_EQ && op != Py_NE)
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong(same == (op == Py_EQ));
}

static Py_hash_t hash(PyObject *self)
{
    return (Py_hash_t)((uintptr_t)cache_of(self) >> 4);
}

static PyObject *represent(PyObject *self)
{
    return PyUnicode_FromFormat("<headrace.Cache of %zu bytes>",
                                cache_of(self)->bytes);
}

static void dealloc(PyObject *self)
{
    // The last reference frees gigabytes.
    WITHOUT_GIL(hr_cache_release(&((struct cache *)self)->cache));
    core_free(self);
}

// ---- The process's ----------------------------------------------------------

PyObject *cache_set(PyObject *module, PyObject *value)
{
    struct core *core = PyModule_GetState(module);
    PyObject *cache;
    enum hr_status status;

    if (!core_alive(core))
        return NULL;
    if (value == Py_None || Py_TYPE(value) == core->cache)
        cache = Py_NewRef(value);
    else if (!(cache = make(core, value)))
        return NULL;
    WITHOUT_GIL(
        status = hr_set_cache(cache == Py_None ? NULL : cache_of(cache)));
    Py_DECREF(cache);
    return core_done(core, status);
}

PyObject *cache_get(PyObject *module, PyObject *none)
{
    hr_cache cache = hr_get_cache();

    if (!cache)
        Py_RETURN_NONE;
    return wrap(PyModule_GetState(module), cache);
}

// ---- pack() -----------------------------------------------------------------

PyObject *cache_pack(PyObject *module, PyObject *source)
{
    struct core *core = PyModule_GetState(module);
    PyObject *bytes = NULL;
    enum hr_status status;
    Py_buffer view;
    void *packed;
    size_t size;

    if (!core_alive(core) || PyObject_GetBuffer(source, &view, PyBUF_SIMPLE))
        return NULL;
    WITHOUT_GIL(status = hr_pack(view.buf ? view.buf : "", (size_t)view.len,
                                 NULL, &packed, &size));
    PyBuffer_Release(&view);
    if (status)
        return core_raise_last(core);
    bytes = PyBytes_FromStringAndSize(packed, (Py_ssize_t)size);
    hr_packed_free(packed);
    return bytes;
}

// ---- The types --------------------------------------------------------------

static PyMethodDef methods[] = {
    {"stats", get_stats, METH_NOARGS,
     "stats($self, /)\n--\n\n"
     "Return counters since it was made: (hits, misses, kept, evictions,\n"
     "pictures, bytes), a named tuple. In the child of a fork: zeros."},
    {0},
};

static PyGetSetDef getset[] = {
    {"bytes", get_bytes, NULL, "that it may hold", NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "Cache(bytes)\n--\n\n"
     "A cache of pictures. It keeps the coefficients of a JPEG that was\n"
     "decoded, so the next use needs neither the file nor its Huffman\n"
     "decoding. The pixels are the same.\n"
     "\n"
     "Args:\n"
     "    bytes: the most memory, an int, or a text: '512M', '2G'. The pictures\n"
     "        that were used least recently make room.\n"
     "\n"
     "ValueError for a size that cannot be. Threads: any. After fork() it\n"
     "keeps nothing in the child."},
    {Py_tp_new, create},
    {Py_tp_dealloc, dealloc},
    {Py_tp_repr, represent},
    {Py_tp_richcompare, compare},
    {Py_tp_hash, hash},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {0},
};

PyType_Spec cache_spec = CORE_SPEC("Cache", struct cache, slots, 0);

static PyStructSequence_Field fields[] = {
    {"hits", "pictures that were there"},
    {"misses", "pictures that could be kept, and were not there"},
    {"kept", "of these, how many were"},
    {"evictions", "pictures that made room"},
    {"pictures", "there are now,"},
    {"bytes", "with this memory"},
    {0},
};

static PyStructSequence_Desc stats_desc = {
    .name = "headrace._core.CacheStats",
    .doc = "Counters of a Cache; made by Cache.stats() only.",
    .fields = fields,
    .n_in_sequence = sizeof(fields) / sizeof(*fields) - 1,
};

bool cache_add_stats(PyObject *module, struct core *core)
{
    return (core->cache_stats = PyStructSequence_NewType(&stats_desc)) &&
           !PyModule_AddType(module, core->cache_stats);
}
