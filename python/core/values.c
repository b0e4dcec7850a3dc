// SPDX-License-Identifier: Apache-2.0
// Arguments that many calls have in common, and tuples.
#include "core.h"

#include <stdio.h>
#include <string.h>

PyObject *core_tuple(Py_ssize_t n, PyObject *(*one)(const void *ctx, size_t i),
                     const void *ctx)
{
    PyObject *tuple = PyTuple_New(n), *item;

    for (Py_ssize_t i = 0; tuple && i < n; i++)
        if (!(item = one(ctx, (size_t)i)) || PyTuple_SetItem(tuple, i, item))
            Py_CLEAR(tuple);
    return tuple;
}

void core_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

bool core_put(PyObject *dict, const char *name, PyObject *value)
{
    bool done = value && !PyDict_SetItemString(dict, name, value);

    Py_XDECREF(value);
    return done;
}

static PyObject *one_double(const void *ctx, size_t i)
{
    return PyFloat_FromDouble(((const double *)ctx)[i]);
}

PyObject *core_doubles(const double *from, size_t size)
{
    return core_tuple((Py_ssize_t)(size / sizeof(*from)), one_double, from);
}

static void refuse_choice(PyObject *value, const char *what,
                          const char *const *names)
{
    char list[128] = "";

    for (int i = 0; names[i]; i++)
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
                 i ? ", " : "", names[i]);
    PyErr_Format(core_argument_error(), "%s %R: must be one of %s", what, value,
                 list);
}

int core_choice(PyObject *value, const char *what, const char *const *names)
{
    const char *text;

    if (!value || value == Py_None)
        return 0;
    if (!PyUnicode_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s must be a str, not %R", what,
                     (PyObject *)Py_TYPE(value));
        return -1;
    }
    if (!(text = PyUnicode_AsUTF8AndSize(value, NULL)))
        return -1;
    for (int i = 0; names[i]; i++)
        if (!strcmp(names[i], text))
            return i;
    refuse_choice(value, what, names);
    return -1;
}

bool core_seconds(PyObject *value, int64_t missing, int64_t *out)
{
    double x;

    *out = missing;
    if (!value || value == Py_None)
        return true;
    x = PyFloat_AsDouble(value);
    if (x == -1 && PyErr_Occurred())
        return false;
    if (!(x >= 0)) {
        PyErr_Format(core_argument_error(), "timeout of %R seconds", value);
        return false;
    }
    // 31 years are enough.
    *out = x < 1e9 ? (int64_t)(x * 1e9) : 1000000000000000000;
    return true;
}

bool core_timeout(PyObject *args, PyObject *kwargs, const char *form,
                  int64_t missing, int64_t *out)
{
    static char *names[] = {"timeout", NULL};
    PyObject *timeout = NULL;

    return PyArg_ParseTupleAndKeywords(args, kwargs, form, names, &timeout) &&
           core_seconds(timeout, missing, out);
}

PyObject *core_import(const char *module, const char *name)
{
    PyObject *from = PyImport_ImportModule(module);
    PyObject *object = from ? PyObject_GetAttrString(from, name) : NULL;

    Py_XDECREF(from);
    return object;
}

PyObject *core_call(const char *module, const char *name, PyObject *argument)
{
    PyObject *function = core_import(module, name), *answer = NULL;

    if (function)
        answer = PyObject_CallFunctionObjArgs(function, argument, NULL);
    Py_XDECREF(function);
    return answer;
}
