// SPDX-License-Identifier: Apache-2.0
// set_opener(): a function of Python opens files of records that the library
// does not read. Its items become a Source of a sequence. The library has a
// reference to that, and reads the items with the GIL.
#include "flight.h"
#include "source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static PyObject *open_file;  // of this process, for good
static PyTypeObject *type;

enum { LABELS, NAMES, CLASSES };

static const char *label_of(void *ctx, uint64_t i)
{
    const struct source *s = ctx;

    return s->labels[i] < 0 ? "" : s->texts[s->labels[i]];
}

static void range_of(void *ctx, uint64_t i, uint64_t *offset, uint64_t *size)
{
    const struct source *s = ctx;
    const int64_t *range = (const int64_t *)s->ranges.buf + 2 * i;

    *offset = *size = 0;
    if (range[0] < 0 || range[0] > range[1])
        return;
    *offset = (uint64_t)range[0];
    *size = (uint64_t)(range[1] - range[0]);
}

static void close_it(void *ctx)
{
    PyGILState_STATE gil;

    if (flight_closed())
        return;
    gil = PyGILState_Ensure();
    Py_DECREF((PyObject *)ctx);
    PyGILState_Release(gil);
}

// ---- The answer -------------------------------------------------------------

static bool take_texts(struct source *s, PyObject *texts, size_t *num)
{
    if (!(s->names = PyList_New(0)))
        return false;
    *num = (size_t)PyTuple_Size(texts);
    if (!(s->texts = calloc(*num + 1, sizeof(*s->texts))))
        return PyErr_NoMemory(), false;
    for (size_t i = 0; i < *num; i++) {
        PyObject *text = PyTuple_GetItem(texts, (Py_ssize_t)i);
        PyObject *bytes = PyUnicode_EncodeFSDefault(text);
        bool kept = bytes && !PyList_Append(s->names, bytes);

        if (kept)
            s->texts[i] = PyBytes_AsString(bytes);
        Py_XDECREF(bytes);
        if (!kept || !s->texts[i])
            return false;
    }
    return true;
}

// numbers: a buffer of n int64.
static bool take_numbers(struct source *s, PyObject *numbers, uint64_t n,
                         size_t texts)
{
    size_t size = (size_t)n * sizeof(*s->labels);
    Py_buffer view;
    bool fits;

    if (PyObject_GetBuffer(numbers, &view, PyBUF_SIMPLE))
        return false;
    fits = (size_t)view.len == size;
    s->labels = malloc(size + 1);
    if (fits && s->labels && size)
        memcpy(s->labels, view.buf, size);
    PyBuffer_Release(&view);
    if (!s->labels)
        return PyErr_NoMemory(), false;
    for (uint64_t i = 0; fits && i < n; i++)
        fits = s->labels[i] < (int64_t)texts;
    if (!fits)
        PyErr_SetString(PyExc_ValueError, "numbers of labels, for each item");
    return fits;
}

static bool take_ranges(struct source *s, PyObject *ranges, uint64_t n)
{
    if (ranges == Py_None)
        return true;
    if (PyObject_GetBuffer(ranges, &s->ranges, PyBUF_SIMPLE))
        return false;
    if ((uint64_t)s->ranges.len == 2 * n * sizeof(int64_t))
        return true;
    PyErr_SetString(PyExc_ValueError, "ranges, for each item");
    return false;
}

static PyObject *source_of_items(PyObject *items)
{
    PyObject *none = PyTuple_New(0), *named = PyDict_New(), *made = NULL;

    if (none && named && !PyDict_SetItemString(named, "sequence", items))
        made = PyObject_Call((PyObject *)type, none, named);
    Py_XDECREF(none);
    Py_XDECREF(named);
    return made;
}

static bool take(PyObject *answer, struct hr_opened *to)
{
    PyObject *items, *numbers, *texts, *ranges, *made;
    struct source *s;
    size_t num = 0;
    int kind;
    bool ok;

    if (!PyArg_ParseTuple(answer, "OOO!iO", &items, &numbers, &PyTuple_Type,
                          &texts, &kind, &ranges) ||
        !(made = source_of_items(items)))
        return false;
    s = (struct source *)made;
    s->is_opened = true;
    to->calls = sequence_calls(s, (Py_ssize_t)s->source->num);
    ok = take_texts(s, texts, &num) &&
         take_numbers(s, numbers, to->calls.num, num) &&
         take_ranges(s, ranges, to->calls.num);
    to->range_of = s->ranges.obj ? range_of : NULL;
    to->label_of = label_of;
    to->names = kind != LABELS;
    to->classes = s->texts;
    to->num_classes = kind == CLASSES ? num : 0;
    to->close = close_it;
    if (!ok)
        Py_DECREF(made);
    return ok;
}

static enum hr_status refused(PyObject *answer, char message[256])
{
    const char *text;
    int wrong;

    if (!PyArg_ParseTuple(answer, "sp", &text, &wrong))
        return HR_OK;
    snprintf(message, 256, "%s", text);
    return wrong ? HR_EINVAL : HR_EIO;
}

static enum hr_status ask(const char *path, const char *image,
                          const char *label, struct hr_opened *to,
                          char message[256])
{
    PyObject *answer = PyObject_CallFunction(open_file, "Nzz",
                                             PyUnicode_DecodeFSDefault(path),
                                             image, label);
    enum hr_status status = HR_OK;

    if (answer && PyTuple_Check(answer) && PyTuple_Size(answer) == 2)
        status = refused(answer, message);
    else if (answer)
        take(answer, to);
    Py_XDECREF(answer);
    if (!PyErr_Occurred())
        return status;
    status = PyErr_ExceptionMatches(PyExc_MemoryError) ? HR_ENOMEM : HR_EIO;
    core_explain(message);
    return status;
}

static enum hr_status ask_open(void *ctx, const char *path, const char *image,
                               const char *label, struct hr_opened *to,
                               char message[256])
{
    enum hr_status status;
    PyGILState_STATE gil;

    if (flight_closed())
        return HR_ECANCELED;
    gil = PyGILState_Ensure();
    status = ask(path, image, label, to, message);
    PyGILState_Release(gil);
    return status;
}

PyObject *set_opener(PyObject *module, PyObject *function)
{
    static const struct hr_opener opener = {.open = ask_open};
    struct core *core = PyModule_GetState(module);

    hr_set_opener(NULL);
    Py_XDECREF(open_file);
    open_file = Py_NewRef(function);
    type = core->source;
    hr_set_opener(&opener);
    Py_RETURN_NONE;
}
