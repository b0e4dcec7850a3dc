// SPDX-License-Identifier: Apache-2.0
// Lists of ops as arguments and results of calls.
#ifndef HR_PY_OPS_H
#define HR_PY_OPS_H

#include "core.h"

// Buffers that are held until something is done with them.
struct held {
    Py_buffer *views;
    int n, capacity;
};
bool held_add(struct held *held, PyObject *object, int flags);
void held_release(struct held *held);

// Writes the ops of a tuple of tuples to out[HR_MAX_OPS]; returns how many, or
// -1 with an exception. channels: that a table must have at least. Buffers of
// tables go to tables.
int ops_parse(PyObject *ops, int channels, struct hr_op *out,
              struct held *tables);
// (seed, index, epoch) or None.
bool ops_parse_key(PyObject *key, struct hr_random *out);
PyObject *ops_to_tuple(const struct hr_op *ops, int n);

PyObject *ops_output_size(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *ops_fixed_size(PyObject *module, PyObject *list);
PyObject *ops_from_text(PyObject *module, PyObject *text);
PyObject *ops_to_text(PyObject *module, PyObject *list);
PyObject *ops_draw(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *ops_warp_matrix(PyObject *module, PyObject *args);
bool ops_add_constants(PyObject *module);

#endif
