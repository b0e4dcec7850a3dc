// SPDX-License-Identifier: Apache-2.0
// Shared by the two files of a Source.
#ifndef HR_PY_SOURCE_H
#define HR_PY_SOURCE_H

#include "inputs.h"
#include "ops.h"

#include <stdatomic.h>

struct item {
    const void *data;
    size_t size;
    const char *path;  // if data is NULL
};

struct source {
    PyObject ob_base;
    hr_source source;
    struct core *core;
    PyObject *items;     // a tuple, or the sequence
    PyObject *paths;     // a list: what table points into
    struct held bytes;   // and this
    struct item *table;  // NULL: there is none
    int64_t *labels;     // [source->num], of items; NULL: the library's, or
                         // they come with the bytes
    // A file that was opened for the library (opener.c) has a text for each
    // number, and threads of others may read it.
    PyObject *names;
    const char **texts;
    Py_buffer ranges;  // [2 * source->num] begins and ends, of i64, if any
    bool is_opened;
    _Atomic(struct lent *) returned;  // of a sequence
};

// The picture, a new reference, and the class of an item; -1: there is none.
// (A list may be changed by the code that is run for what is in it.) False with
// an exception.
bool item_split(PyObject *item, PyObject **picture, int64_t *label);
bool item_is_bytes(PyObject *picture);
bool item_hold_bytes(struct held *held, PyObject *picture, const void **data,
                     size_t *size);

bool sequence_open(struct source *s, PyObject *sequence);
// The calls that a sequence of n items is read by.
struct hr_source_calls sequence_calls(struct source *s, Py_ssize_t n);

#endif
