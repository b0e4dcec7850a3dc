// SPDX-License-Identifier: Apache-2.0
// set_decoder(): what the library does not decode Python functions do, on its
// threads. None is asked when the interpreter has ended our work.
#include "flight.h"

#include <stdio.h>
#include <string.h>

static PyObject *find, *make;  // of this process, for good

// Takes the exception.
static enum hr_status failed(char text[128])
{
    enum hr_status status = PyErr_ExceptionMatches(PyExc_MemoryError)
                                ? HR_ENOMEM
                                : HR_ECORRUPT;
    char message[256];

    core_explain(message);
    snprintf(text, 128, "%.127s", message);
    return status;
}

static bool numbers(PyObject *answer, struct hr_info *info)
{
    return PyArg_ParseTuple(answer, "iii", &info->width, &info->height,
                            &info->orientation);
}

static enum hr_status ask_probe(void *ctx, const void *data, size_t size,
                                struct hr_info *info, char text[128])
{
    enum hr_status status = HR_EFORMAT;
    PyObject *answer = NULL;
    PyGILState_STATE gil;

    if (flight_closed())
        return HR_ECANCELED;
    gil = PyGILState_Ensure();
    answer = PyObject_CallFunction(find, "y#", (const char *)data,
                                   (Py_ssize_t)size);
    if (!answer)
        status = failed(text);
    else if (answer != Py_None)
        status = numbers(answer, info) ? HR_OK : failed(text);
    Py_XDECREF(answer);
    PyGILState_Release(gil);
    return status;
}

static enum hr_status take(PyObject *answer, const struct hr_info *info,
                           int channels, void *pixels, char text[128])
{
    size_t want = (size_t)info->width * (size_t)info->height * (size_t)channels;
    char *bytes;
    Py_ssize_t size;

    if (!answer || PyBytes_AsStringAndSize(answer, &bytes, &size))
        return failed(text);
    if ((size_t)size != want) {
        snprintf(text, 128, "%zd bytes of pixels, not %zu", size, want);
        return HR_ECORRUPT;
    }
    memcpy(pixels, bytes, want);
    return HR_OK;
}

static enum hr_status ask_decode(void *ctx, const void *data, size_t size,
                                 const struct hr_info *info, int channels,
                                 void *pixels, char text[128])
{
    enum hr_status status;
    PyObject *answer;
    PyGILState_STATE gil;

    if (flight_closed())
        return HR_ECANCELED;
    gil = PyGILState_Ensure();
    answer = PyObject_CallFunction(make, "y#i", (const char *)data,
                                   (Py_ssize_t)size, channels);
    status = take(answer, info, channels, pixels, text);
    Py_XDECREF(answer);
    PyGILState_Release(gil);
    return status;
}

PyObject *set_decoder(PyObject *module, PyObject *args)
{
    static const struct hr_decoder decoder = {.probe = ask_probe,
                                              .decode = ask_decode};
    PyObject *a, *b;

    if (!PyArg_ParseTuple(args, "OO", &a, &b))
        return NULL;
    hr_set_decoder(NULL);
    Py_XDECREF(find);
    Py_XDECREF(make);
    find = Py_NewRef(a);
    make = Py_NewRef(b);
    hr_set_decoder(&decoder);
    Py_RETURN_NONE;
}
