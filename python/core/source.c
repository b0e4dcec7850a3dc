// SPDX-License-Identifier: Apache-2.0
// Source: the samples that a Loader takes. It has one of three forms:
//
//   paths      what the library finds there
//   items      pairs (path or bytes, class), looked at once: no Python is run
//              when a sample is read
//   sequence   items that are asked for when they are read (sequence.c)
#include "source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADERS = 64 };  // of a request, at most

#define HASH_START UINT64_C(0xCBF29CE484222325)

static struct source *source_of(PyObject *self)
{
    return (struct source *)self;
}

hr_source source_get(PyObject *self)
{
    return source_of(self)->source;
}

int64_t source_class(PyObject *self, uint64_t i, int64_t found)
{
    const int64_t *labels = source_of(self)->labels;

    return labels ? labels[i] : found;
}

// A sequence names the path in its message, if that was not bytes.
PyObject *source_file(PyObject *self, uint64_t i,
                      const struct hr_result *result)
{
    const struct source *s = source_of(self);
    size_t size = core_name_size(result);
    char name[4096];

    if (s->table)
        return s->table[i].path ? PyUnicode_DecodeFSDefault(s->table[i].path)
                                : Py_NewRef(Py_None);
    hr_source_path(s->source, i, name, sizeof(name));
    if (!s->items)
        return PyUnicode_DecodeFSDefault(name);
    if (!size || (size == strlen(name) && !memcmp(result->message, name, size)))
        Py_RETURN_NONE;
    return PyUnicode_DecodeFSDefaultAndSize(result->message, (Py_ssize_t)size);
}

// ---- Paths ------------------------------------------------------------------

enum { NO_CIFAR = -1 };

// A call of hr_source_add_all() on an errand: a server may keep it waiting.
struct adding {
    struct core *core;
    hr_source source;
    PyObject **kept;  // [num] objects that own the texts
    const char **texts;
    Py_ssize_t num;
    enum hr_status status;
    char message[512];
};

static void add_all(void *ctx)
{
    struct adding *a = ctx;

    a->status = hr_source_add_all(a->source, a->texts, (size_t)a->num);
    snprintf(a->message, sizeof(a->message), "%s",
             a->status ? hr_last_error() : "");
}

static void stop_adding(void *ctx)
{
    hr_source_stop(((struct adding *)ctx)->source);
}

static void free_adding(void *ctx)
{
    struct adding *a = ctx;

    WITHOUT_GIL(hr_source_close(&a->source));
    for (Py_ssize_t i = 0; a->kept && i < a->num; i++)
        Py_XDECREF(a->kept[i]);
    PyMem_Free(a->texts);
    PyMem_Free(a->kept);
    free(a);
}

static bool read_paths(struct adding *a, PyObject *paths)
{
    a->num = PyTuple_Size(paths);
    a->texts = PyMem_Calloc((size_t)a->num + 1, sizeof(*a->texts));
    a->kept = PyMem_Calloc((size_t)a->num + 1, sizeof(*a->kept));
    if (!a->texts || !a->kept)
        return PyErr_NoMemory(), false;
    for (Py_ssize_t i = 0; i < a->num; i++)
        if (!(a->kept[i] = path_of(a->core, PyTuple_GetItem(paths, i),
                                   &a->texts[i])))
            return false;
    return true;
}

// Samples of all paths, which are a tuple: shards side by side. After Ctrl-C
// the source is the errand's.
static bool add_paths(struct source *s, PyObject *paths)
{
    struct adding *a = calloc(1, sizeof(*a));
    bool done;

    if (!a)
        return PyErr_NoMemory(), false;
    a->core = s->core;
    if (read_paths(a, paths)) {
        a->source = s->source;
        s->source = NULL;
        if (!errand_do(add_all, stop_adding, free_adding, a, -1, true))
            return false;
        s->source = a->source;
        a->source = NULL;
        if (a->status)
            core_raise(s->core, a->status, a->message);
    }
    done = !PyErr_Occurred();
    free_adding(a);
    return done;
}

// Samples of the file at path; as_item: the file itself; cifar: an enum
// hr_cifar.
static bool add_path(struct source *s, PyObject *path, bool as_item, int cifar)
{
    enum hr_status status;
    const char *text;
    PyObject *held = path_of(s->core, path, &text);

    if (!held)
        return false;
    WITHOUT_GIL(status = as_item ? hr_source_add_file(s->source, text, NULL)
                         : cifar != NO_CIFAR
                             ? hr_source_add_cifar(s->source, text,
                                                   (enum hr_cifar)cifar)
                             : hr_source_add(s->source, text));
    Py_DECREF(held);
    return !status || core_raise_last(s->core);
}

// Reads a mapping of options for URLs. Headers are a sequence of lines.
static bool set_http(struct source *s, PyObject *http)
{
    static char *names[] = {
        "connections", "retries",       "backoff_ms",  "deadline_ms",
        "max_bytes",   "headers",       "user_agent",  "ca_file",
        "seed",        "unsized_bytes", "index_bytes", "add_ms",
        NULL};
    const char *headers[HEADERS + 1] = {0};
    struct hr_http_params p = {.headers = headers};
    PyObject *none = PyTuple_New(0), *lines = NULL, *list = NULL;
    PyObject *said = PyDict_Check(http) ? PyDict_Copy(http) : NULL;  // ours
    unsigned long long most = 0, seed = 0, unsized = 0, index = 0;
    bool done = none && said &&
                PyArg_ParseTupleAndKeywords(none, said, "|iiiiKOzzKKKi:http",
                                            names, &p.connections, &p.retries,
                                            &p.backoff_ms, &p.deadline_ms,
                                            &most, &lines, &p.user_agent,
                                            &p.ca_file, &seed, &unsized, &index,
                                            &p.add_ms);

    Py_XDECREF(none);
    done = done && (list = lines ? PySequence_Tuple(lines) : PyTuple_New(0));
    if (done && PyTuple_Size(list) > HEADERS)
        done = PyErr_Format(core_argument_error(), "more than %d headers",
                            HEADERS);
    for (Py_ssize_t i = 0; done && i < PyTuple_Size(list); i++)
        done = (headers[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(list, i),
                                                     NULL));
    p.max_bytes = most;
    p.seed = seed;
    p.unsized_bytes = unsized;
    p.index_bytes = index;
    if (done && hr_source_set_http(s->source, &p))
        done = core_raise_last(s->core);
    if (!said && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "http must be a dict");
    Py_XDECREF(list);
    Py_XDECREF(said);
    return done;
}

// The classes that pairs (label, number) name.
static bool set_classes(struct source *s, PyObject *classes)
{
    PyObject *pairs = PySequence_Tuple(classes);
    Py_ssize_t num = pairs ? PyTuple_Size(pairs) : 0;
    const char **labels = PyMem_Calloc((size_t)num + 1, sizeof(*labels));
    int64_t *numbers = PyMem_Calloc((size_t)num + 1, sizeof(*numbers));
    PyObject **kept = PyMem_Calloc((size_t)num + 1, sizeof(*kept));
    bool done = pairs && labels && numbers && kept;

    for (Py_ssize_t i = 0; done && i < num; i++) {
        PyObject *label;
        long long number;

        done = PyArg_ParseTuple(PyTuple_GetItem(pairs, i), "UL:classes", &label,
                                &number) &&
               (kept[i] = PyUnicode_EncodeFSDefault(label)) &&
               (labels[i] = PyBytes_AsString(kept[i]));
        numbers[i] = done ? number : 0;
    }
    if (done && hr_source_set_classes(s->source, labels, numbers, (size_t)num))
        done = core_raise_last(s->core);
    for (Py_ssize_t i = 0; kept && i < num; i++)
        Py_XDECREF(kept[i]);
    PyMem_Free(labels);
    PyMem_Free(numbers);
    PyMem_Free(kept);
    Py_XDECREF(pairs);
    if (!done && !PyErr_Occurred())
        PyErr_NoMemory();
    return done;
}

// The fields of records: a tuple of two names, or None for one.
static bool set_fields(struct source *s, PyObject *fields)
{
    const char *image, *label;

    if (!PyTuple_Check(fields))
        return PyErr_SetString(PyExc_TypeError, "fields must be a tuple"),
               false;
    if (!PyArg_ParseTuple(fields, "zz:fields", &image, &label))
        return false;
    return !hr_source_set_fields(s->source, image, label) ||
           core_raise_last(s->core);
}

static bool open_empty(struct source *s, PyObject *http, PyObject *classes)
{
    s->source = hr_source_create();
    if (!s->source)
        return core_raise_last(s->core);
    return (http == Py_None || set_http(s, http)) &&
           (classes == Py_None || set_classes(s, classes));
}

static bool open_paths(struct source *s, PyObject *paths, PyObject *http,
                       int cifar, PyObject *classes, PyObject *fields)
{
    PyObject *list = PySequence_Tuple(paths);
    bool done = list && open_empty(s, http, classes) &&
                (fields == Py_None || set_fields(s, fields));

    if (done && cifar == NO_CIFAR)
        done = add_paths(s, list);
    for (Py_ssize_t i = 0; done && cifar != NO_CIFAR && i < PyTuple_Size(list);
         i++) {
        done = add_path(s, PyTuple_GetItem(list, i), false, cifar);
        done = done && !PyErr_CheckSignals();
    }
    Py_XDECREF(list);
    return done;
}

// ---- Items ------------------------------------------------------------------

static enum hr_status read_table(void *ctx, uint64_t i, struct hr_encoded *to,
                                 char message[256])
{
    const struct item *item = &((struct source *)ctx)->table[i];

    to->data = item->data;
    to->size = item->size;
    to->path = item->path;
    return HR_OK;
}

static uint64_t hash(uint64_t h, const void *data, size_t size)
{
    const unsigned char *byte = data;

    for (size_t i = 0; i < size; i++)
        h = (h ^ byte[i]) * UINT64_C(0x100000001B3);
    return h;
}

static bool fill_entry(struct source *s, Py_ssize_t i, PyObject *picture,
                       uint64_t *identity)
{
    struct item *item = &s->table[i];
    PyObject *held;
    bool kept;

    if (item_is_bytes(picture)) {
        if (!item_hold_bytes(&s->bytes, picture, &item->data, &item->size))
            return false;
        *identity = hash(*identity, &item->size, sizeof(item->size));
    } else {
        if (!(held = path_of(s->core, picture, &item->path)))
            return false;
        kept = !PyList_Append(s->paths, held);
        Py_DECREF(held);
        if (!kept)
            return false;
        *identity = hash(*identity, item->path, strlen(item->path) + 1);
    }
    *identity = hash(*identity, &s->labels[i], sizeof(s->labels[i]));
    return true;
}

static bool open_table(struct source *s, Py_ssize_t n)
{
    struct hr_source_calls calls = {.num = (uint64_t)n,
                                    .ctx = s,
                                    .read = read_table,
                                    .identity = HASH_START};
    bool done = true;

    s->table = calloc((size_t)n + 1, sizeof(*s->table));
    if (!s->table)
        return PyErr_NoMemory(), false;
    if (!(s->paths = PyList_New(0)))
        return false;
    for (Py_ssize_t i = 0; done && i < n; i++) {
        PyObject *picture;
        int64_t label;

        if (!(done = item_split(PyTuple_GetItem(s->items, i), &picture,
                                &label)))
            break;
        done = fill_entry(s, i, picture, &calls.identity);
        Py_DECREF(picture);
    }
    if (done)
        s->source = hr_source_of_calls(&calls);
    return done && (s->source || core_raise_last(s->core));
}

// Labels of all items; *paths: whether no picture comes as bytes.
static bool read_labels(struct source *s, Py_ssize_t n, bool *paths)
{
    *paths = true;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *picture;

        if (!item_split(PyTuple_GetItem(s->items, i), &picture, &s->labels[i]))
            return false;
        *paths = *paths && !item_is_bytes(picture);
        Py_DECREF(picture);
    }
    return true;
}

static bool open_items(struct source *s, PyObject *items, PyObject *http)
{
    bool paths, done;
    Py_ssize_t n;

    if (!(s->items = PySequence_Tuple(items)))
        return false;
    n = PyTuple_Size(s->items);
    if (!(s->labels = calloc((size_t)n + 1, sizeof(*s->labels))))
        return PyErr_NoMemory(), false;
    if (!read_labels(s, n, &paths))
        return false;
    if (!paths)
        return open_table(s, n);
    // The library names files itself, and keeps them in less memory.
    done = open_empty(s, http, Py_None);
    for (Py_ssize_t i = 0; done && i < n; i++) {
        PyObject *picture;
        int64_t label;

        if (!(done = item_split(PyTuple_GetItem(s->items, i), &picture,
                                &label)))
            break;
        done = add_path(s, picture, true, NO_CIFAR);
        Py_DECREF(picture);
    }
    Py_CLEAR(s->items);
    return done;
}

// ---- Source -----------------------------------------------------------------

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"paths", "items",   "sequence", "http",
                            "cifar", "classes", "fields",   NULL};
    PyObject *paths = Py_None, *items = Py_None, *sequence = Py_None;
    PyObject *http = Py_None, *classes = Py_None, *fields = Py_None;
    struct core *core = core_of_type(type);
    struct source *s;
    int cifar = NO_CIFAR;
    bool done;

    if (!core_alive(core) ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOOiOO:Source", names,
                                     &paths, &items, &sequence, &http, &cifar,
                                     &classes, &fields))
        return NULL;
    if ((paths != Py_None) + (items != Py_None) + (sequence != Py_None) != 1)
        return PyErr_SetString(PyExc_TypeError,
                               "one of paths, items, sequence"),
               NULL;
    if (!(s = (struct source *)PyType_GenericAlloc(type, 0)))
        return NULL;
    PyObject_GC_UnTrack(s);  // the collector must not show it half made
    s->core = core;
    done = paths != Py_None ? open_paths(s, paths, http, cifar, classes, fields)
           : items != Py_None ? open_items(s, items, http)
                              : sequence_open(s, sequence);
    if (done) {
        PyObject_GC_Track(s);
        return &s->ob_base;
    }
    Py_DECREF(s);
    return NULL;
}

static int traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(source_of(self)->items);
    return 0;
}

// Loaders hold it, so no loader reads it any more. (It has no tp_clear: loaders
// may read it as long as it lives.)
static void dealloc(PyObject *self)
{
    struct source *s = source_of(self);

    PyObject_GC_UnTrack(self);
    WITHOUT_GIL(hr_source_close(&s->source));
    source_settle(self);
    held_release(&s->bytes);
    Py_CLEAR(s->items);
    Py_CLEAR(s->paths);
    Py_CLEAR(s->names);
    free(s->table);
    free(s->texts);
    free(s->labels);
    PyBuffer_Release(&s->ranges);
    core_free(self);
}

static Py_ssize_t length(PyObject *self)
{
    return (Py_ssize_t)source_get(self)->num;
}

// False with an exception: there is no such sample.
static bool number_of(PyObject *self, PyObject *number, size_t *i)
{
    *i = PyLong_AsSize_t(number);
    if (*i == (size_t)-1 && PyErr_Occurred())
        return false;
    if (*i < source_get(self)->num)
        return true;
    PyErr_Format(PyExc_IndexError, "sample %zu of %zd", *i, length(self));
    return false;
}

static PyObject *path(PyObject *self, PyObject *number)
{
    const struct source *s = source_of(self);
    char buffer[4096];
    size_t i;

    if (!number_of(self, number, &i))
        return NULL;
    if (s->table && s->table[i].path)
        return PyUnicode_DecodeFSDefault(s->table[i].path);
    return PyUnicode_DecodeFSDefault(
        hr_source_path(s->source, i, buffer, sizeof(buffer)));
}

static PyObject *name(PyObject *self, PyObject *number)
{
    char buffer[4096];
    size_t i;

    if (!number_of(self, number, &i))
        return NULL;
    return PyUnicode_DecodeFSDefault(
        hr_source_name(source_get(self), i, buffer, sizeof(buffer)));
}

static PyObject *entry(PyObject *self, PyObject *number)
{
    size_t i;

    if (!number_of(self, number, &i))
        return NULL;
    return pack_writer_entry_of(source_of(self)->core, source_get(self), i);
}

static PyObject *text_of(const void *list, size_t i)
{
    return PyUnicode_DecodeFSDefault(((const char *const *)list)[i]);
}

static PyObject *get_classes(PyObject *self, void *closure)
{
    size_t n = 0;
    const char *const *list;

    if (source_of(self)->labels || source_of(self)->items)
        return PyTuple_New(0);
    if (!(list = hr_source_classes(source_get(self), &n)))
        return PyErr_NoMemory();
    return core_tuple((Py_ssize_t)n, text_of, list);
}

static PyObject *get_faults(PyObject *self, void *closure)
{
    hr_source source = source_get(self);

    return core_tuple((Py_ssize_t)source->num_fault_texts, text_of,
                      source->faults);
}

static PyObject *skipped_of(const void *source, size_t i)
{
    char buffer[2 * 4096 + 2];
    enum hr_skip why = HR_SKIP_FILE;
    const char *path = hr_source_skipped(source, i, buffer, sizeof(buffer),
                                         &why);

    return Py_BuildValue("Ns", PyUnicode_DecodeFSDefault(path ? path : "?"),
                         hr_skip_text(why));
}

static PyObject *get_skipped(PyObject *self, void *closure)
{
    hr_source source = source_get(self);

    return core_tuple((Py_ssize_t)source->skipped, skipped_of, source);
}

static PyObject *get_identity(PyObject *self, void *closure)
{
    return PyLong_FromUnsignedLongLong(hr_source_identity(source_get(self)));
}

static PyMethodDef methods[] = {
    {"path", path, METH_O,
     "path($self, number, /)\n--\n\nReturn the path of a sample, or its name."},
    {"name", name, METH_O,
     "name($self, number, /)\n--\n\nReturn the name of a sample."},
    {"entry", entry, METH_O,
     "entry($self, number, /)\n--\n\n"
     "Return (name, label, bytes of its file) of a sample. Raises\n"
     "headrace.Error if it cannot be read."},
    {0},
};

static PyGetSetDef getset[] = {
    {"classes", get_classes, NULL, "labels, in the order of their numbers",
     NULL},
    {"faults", get_faults, NULL, "what could not be read, PATH: REASON", NULL},
    {"skipped", get_skipped, NULL,
     "what was named and is no sample: pairs (path, reason)", NULL},
    {"identity", get_identity, NULL,
     "a number that differs for other names, labels or order", NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Source(*, paths=None, items=None, sequence=None, http=None, "
                "cifar=-1, classes=None, fields=None)\n"
                "--\n\n"
                "The samples of a data set; see headrace.Loader."},
    {Py_tp_new, create},
    {Py_tp_dealloc, dealloc},
    {Py_tp_traverse, traverse},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {Py_sq_length, length},
    {0},
};

PyType_Spec source_spec = CORE_SPEC("Source", struct source, slots,
                                    Py_TPFLAGS_HAVE_GC);
