// SPDX-License-Identifier: Apache-2.0
// Statuses become exceptions. The classes are Python's: headrace/errors.py.
#include "core.h"

#include <stdio.h>
#include <string.h>

PyObject *core_argument_error(void)
{
    PyObject *type, *value, *trace, *kind;

    PyErr_Fetch(&type, &value, &trace);
    kind = core_import("headrace.errors", "ArgumentError");
    PyErr_Restore(type, value, trace);
    Py_XDECREF(kind);  // its module keeps it
    return kind ? kind : PyExc_ValueError;
}

bool core_alive(struct core *core)
{
    if (core->make_error)
        return true;
    PyErr_SetString(PyExc_RuntimeError, "the interpreter exits");
    return false;
}

static void raise_all(struct core *core, enum hr_status status,
                      const char *text, PyObject *file, int64_t offset,
                      const char *stage, const char *reason)
{
    PyObject *error, *make, *at = NULL;

    if (PyErr_Occurred() || !core_alive(core))
        return;
    if (offset < 0)
        at = Py_NewRef(Py_None);
    else if (!(at = PyLong_FromLongLong(offset)))
        return;
    // Texts may hold a path, which has any encoding, and may be cut.
    make = Py_NewRef(core->make_error);
    error = PyObject_CallFunction(make, "sNOOzN", hr_status_name(status),
                                  PyUnicode_DecodeFSDefault(text),
                                  file ? file : Py_None, at, stage,
                                  PyUnicode_DecodeFSDefault(reason));
    Py_DECREF(at);
    Py_DECREF(make);
    if (!error)
        return;
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_DECREF(error);
}

void *core_raise(struct core *core, enum hr_status status, const char *text)
{
    raise_all(core, status, text, NULL, -1, NULL, text);
    return NULL;
}

void *core_raise_last(struct core *core)
{
    return core_raise(core, hr_last_status(), hr_last_error());
}

PyObject *core_done(struct core *core, enum hr_status status)
{
    return status ? core_raise_last(core) : Py_NewRef(Py_None);
}

// "NAME: STAGE at byte N: REASON"; NAME may hold anything. The place of the
// first colon and how long it is to REASON; NULL: the message is another one.
static const char *find_stage(const struct hr_result *r, size_t *size)
{
    char mark[96];
    const char *at;
    int n = snprintf(mark, sizeof(mark), ": %s", hr_stage_name(r->stage));

    if (r->offset >= 0)
        n += snprintf(mark + n, sizeof(mark) - (size_t)n, " at byte %lld",
                      (long long)r->offset);
    snprintf(mark + n, sizeof(mark) - (size_t)n, ": ");
    at = strstr(r->message, mark);
    *size = at ? strlen(mark) : 0;
    return at;
}

const char *core_reason(const struct hr_result *r)
{
    size_t size;
    const char *at = find_stage(r, &size);

    return at ? at + size : r->message;
}

size_t core_name_size(const struct hr_result *r)
{
    size_t size;
    const char *at = find_stage(r, &size);

    return at ? (size_t)(at - r->message) : 0;
}

void *core_raise_result(struct core *core, const struct hr_result *r,
                        PyObject *file)
{
    raise_all(core, r->status, r->message, file, r->offset,
              hr_stage_name(r->stage), core_reason(r));
    return NULL;
}

void core_explain(char message[256])
{
    PyObject *type, *value, *trace, *kind, *words, *text = NULL, *bytes = NULL;

    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    kind = PyObject_GetAttrString(type, "__name__");
    words = PyObject_Str(value);
    if (kind && words)
        text = PyUnicode_FromFormat(
            PyUnicode_GetLength(words) ? "%U: %U" : "%U", kind, words);
    if (text)
        bytes = PyUnicode_EncodeFSDefault(text);
    PyErr_Clear();
    snprintf(message, 256, "%s",
             bytes ? PyBytes_AsString(bytes) : "an exception");
    Py_XDECREF(kind);
    Py_XDECREF(words);
    Py_XDECREF(text);
    Py_XDECREF(bytes);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}
