// SPDX-License-Identifier: Apache-2.0
// Functions of the module on lists of ops without a picture: sizes, texts, the
// draws of random ops, matrices.
#include "ops.h"

#include <string.h>

// Ends a call that has read n ops. False with an exception: the list was wrong,
// or the library said this status.
static bool end(PyObject *module, struct held *tables, int n,
                enum hr_status status)
{
    held_release(tables);
    if (n >= 0 && status)
        core_raise_last(PyModule_GetState(module));
    return n >= 0 && !status;
}

// ---- Without pictures -------------------------------------------------------

PyObject *ops_output_size(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ops", "width", "height", "orientation", NULL};
    struct hr_op ops[HR_MAX_OPS];
    struct held tables = {0};
    PyObject *list;
    enum hr_status status = HR_OK;
    int n, w, h, orientation = 1;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Oii|i:output_size", names,
                                     &list, &w, &h, &orientation))
        return NULL;
    n = ops_parse(list, 1, ops, &tables);
    if (n >= 0)
        status = hr_ops_output_size(ops, n, w, h, orientation, &w, &h);
    return end(module, &tables, n, status) ? Py_BuildValue("(ii)", w, h) : NULL;
}

PyObject *ops_fixed_size(PyObject *module, PyObject *list)
{
    struct hr_op ops[HR_MAX_OPS];
    struct held tables = {0};
    enum hr_status status = HR_OK;
    bool fixed = false;
    int n, w, h;

    n = ops_parse(list, 1, ops, &tables);
    // A faulty list fails for the largest picture, too, or, if ops make that
    // larger still, for half of it.
    for (int side = HR_MAX_SIDE; n >= 0 && side > HR_MAX_SIDE / 4; side /= 2)
        if (!(status = hr_ops_output_size(ops, n, side, side, 1, &w, &h)))
            break;
    if (n >= 0 && !status)
        fixed = hr_ops_fixed_size(ops, n, &w, &h);
    if (!end(module, &tables, n, status))
        return NULL;
    return fixed ? Py_BuildValue("(ii)", w, h) : Py_NewRef(Py_None);
}

PyObject *ops_from_text(PyObject *module, PyObject *text)
{
    struct hr_op ops[HR_MAX_OPS];
    Py_ssize_t size;
    const char *utf8 = PyUnicode_AsUTF8AndSize(text, &size);
    int n;

    if (!utf8)
        return NULL;
    if (strlen(utf8) != (size_t)size)
        return PyErr_Format(core_argument_error(),
                            "character %zu: NUL does not belong here",
                            strlen(utf8) + 1);
    if (hr_ops_parse(utf8, ops, &n))
        return core_raise_last(PyModule_GetState(module));
    return ops_to_tuple(ops, n);
}

PyObject *ops_to_text(PyObject *module, PyObject *list)
{
    struct hr_op ops[HR_MAX_OPS];
    struct held tables = {0};
    char text[HR_MAX_OPS * 400];
    int n = ops_parse(list, 1, ops, &tables);
    enum hr_status status = HR_OK;

    if (n >= 0)
        status = hr_ops_format(ops, n, text, sizeof(text));
    return end(module, &tables, n, status) ? PyUnicode_FromString(text) : NULL;
}

// The caller's numbers that the op holds, or NULL.
static const float *numbers_of(const struct hr_op *op)
{
    return op->type == HR_OP_NORMALIZE ? op->normalize.table
           : op->type == HR_OP_ERASE   ? op->erase.values
                                       : NULL;
}

// The buffers of tables and blocks, which are the caller's: each such op of the
// n in `list` stands in `made`, as it was. They are in the same order.
static PyObject *put_buffers_back(PyObject *made, PyObject *list,
                                  const struct hr_op *ops, int n,
                                  const struct hr_op *drawn)
{
    int num = made ? (int)PyTuple_Size(made) : 0, from = 0;

    for (int i = 0; i < num; i++) {
        if (!numbers_of(&drawn[i]))
            continue;
        while (from < n && !numbers_of(&ops[from]))
            from++;
        if (PyTuple_SetItem(made, i,
                            Py_NewRef(PyTuple_GetItem(list, from++)))) {
            Py_DECREF(made);
            return NULL;
        }
    }
    return made;
}

PyObject *ops_draw(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ops",    "key",         "width",
                            "height", "orientation", NULL};
    struct core *core = PyModule_GetState(module);
    struct hr_op ops[HR_MAX_OPS], drawn[HR_MAX_OPS];
    struct held tables = {0};
    struct hr_random random;
    PyObject *list, *key, *made = NULL;
    int n, w, h, orientation = 1, num = 0;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOii|i:draw_ops", names,
                                     &list, &key, &w, &h, &orientation) ||
        !ops_parse_key(key, &random))
        return NULL;
    n = ops_parse(list, 1, ops, &tables);
    if (n >= 0 && hr_ops_draw(ops, n, &random, w, h, orientation, drawn, &num))
        core_raise_last(core);
    else if (n >= 0)
        made = put_buffers_back(ops_to_tuple(drawn, num), list, ops, n, drawn);
    held_release(&tables);
    return made;
}

// ---- Matrices ---------------------------------------------------------------

static PyObject *affine_matrix(PyObject *args)
{
    double angle, scale, move[2], shear[2], center[2], matrix[6];
    int centered;

    if (!PyArg_ParseTuple(args, "d(dd)d(dd)(dd)p:warp_matrix", &angle, &move[0],
                          &move[1], &scale, &shear[0], &shear[1], &center[0],
                          &center[1], &centered))
        return NULL;
    hr_affine_matrix(angle, move, scale, shear, centered ? NULL : center,
                     matrix);
    return core_doubles(matrix, sizeof(matrix));
}

static PyObject *perspective_matrix(PyObject *args)
{
    double s[8], e[8], matrix[8];

    if (!PyArg_ParseTuple(args, "(dddddddd)(dddddddd):warp_matrix", &s[0],
                          &s[1], &s[2], &s[3], &s[4], &s[5], &s[6], &s[7],
                          &e[0], &e[1], &e[2], &e[3], &e[4], &e[5], &e[6],
                          &e[7]))
        return NULL;
    return hr_perspective_matrix(s, e, matrix)
               ? core_doubles(matrix, sizeof(matrix))
               : Py_NewRef(Py_None);
}

PyObject *ops_warp_matrix(PyObject *module, PyObject *args)
{
    return PyTuple_Size(args) == 2 ? perspective_matrix(args)
                                   : affine_matrix(args);
}
