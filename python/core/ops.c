// SPDX-License-Identifier: Apache-2.0
// Ops as Python records them: tuples of a constant and its fields. A field that
// is missing at the end, or None, is 0.
#include "core.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum op {  // the first element of a tuple
    OP_DECODE = 1,
    OP_CROP,
    OP_RESIZE,
    OP_FLIP,
    OP_NORMALIZE,
    OP_FIT,
    OP_RANDOM_CROP,
    OP_RANDOM_RESIZED_CROP,
    OP_RANDOM_FLIP,
    OP_CENTER_CROP,
    OP_RESIZE_SHORT,
    OP_TABLE,
};

// The functions of headrace.ops. Its constants are called so in capitals.
static const char *const op_names[] = {
    [OP_DECODE] = "decode",
    [OP_CROP] = "crop",
    [OP_RESIZE] = "resize",
    [OP_FLIP] = "flip",
    [OP_NORMALIZE] = "normalize",
    [OP_FIT] = "fit",
    [OP_RANDOM_CROP] = "random_crop",
    [OP_RANDOM_RESIZED_CROP] = "random_resized_crop",
    [OP_RANDOM_FLIP] = "random_flip",
    [OP_CENTER_CROP] = "center_crop",
    [OP_RESIZE_SHORT] = "resize_short",
    [OP_TABLE] = "table",
};

// ---- Held buffers -----------------------------------------------------------

bool held_add(struct held *held, PyObject *object, int flags)
{
    if (held->n == held->room) {
        int room = held->room ? 2 * held->room : 4;
        Py_buffer *views = realloc(held->views, (size_t)room * sizeof(*views));

        if (!views)
            return PyErr_NoMemory(), false;
        held->views = views;
        held->room = room;
    }
    if (PyObject_GetBuffer(object, &held->views[held->n], flags))
        return false;
    held->n++;
    return true;
}

void held_release(struct held *held)
{
    struct held old = *held;

    // Releasing may run code that looks here again.
    *held = (struct held){0};
    while (old.n > 0)
        PyBuffer_Release(&old.views[--old.n]);
    free(old.views);
}

// ---- Fields -----------------------------------------------------------------

struct fields {
    PyObject *op;
    Py_ssize_t n, i;  // i: the next one
    int number;       // of the op in its list
    const char *name;
    const char *field;  // as the function of headrace.ops calls it
    bool bad;           // with an exception
};

// What the field that was read last must be.
static void *refuse_as(struct fields *f, PyObject *kind, const char *what)
{
    PyObject *value = f->i - 1 < f->n ? PyTuple_GetItem(f->op, f->i - 1)
                                      : Py_None;

    if (!f->bad &&
        (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_TypeError)))
        PyErr_Format(kind, "op %d: %s: %s must be %s, not %.60R", f->number,
                     f->name, f->field, what, value);
    f->bad = true;
    return NULL;
}

static void *refuse(struct fields *f, const char *what)
{
    return refuse_as(f, PyExc_TypeError, what);
}

// Borrowed; NULL: the field is missing.
static PyObject *next(struct fields *f, const char *field)
{
    PyObject *value = f->i < f->n && !f->bad ? PyTuple_GetItem(f->op, f->i)
                                             : NULL;

    if (!f->bad) {
        f->field = field;
        f->i++;
    }
    return value == Py_None ? NULL : value;
}

static int next_int(struct fields *f, const char *field)
{
    PyObject *value = next(f, field);
    long x = value ? PyLong_AsLong(value) : 0;

    if (x == -1 && PyErr_Occurred()) {
        refuse(f, "an int");
        return 0;
    }
    // The library says what is wrong with sizes as large as these.
    return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (int)x;
}

static bool next_bool(struct fields *f, const char *field)
{
    PyObject *value = next(f, field);
    int x = value ? PyObject_IsTrue(value) : 0;

    if (x < 0)
        refuse(f, "a bool");
    return x > 0;
}

static double next_double(struct fields *f, const char *field)
{
    PyObject *value = next(f, field);
    double x = value ? PyFloat_AsDouble(value) : 0;

    if (x == -1 && PyErr_Occurred())
        refuse(f, "a float");
    return x;
}

// Numbers of a sequence to out[most]; how many, 0 if the field is missing.
static int next_doubles(struct fields *f, const char *field, double *out,
                        int most, const char *what)
{
    PyObject *value = next(f, field), *tuple;
    Py_ssize_t n;

    if (!value)
        return 0;
    if (!(tuple = PySequence_Tuple(value)))
        return refuse(f, what), 0;
    n = PyTuple_Size(tuple);
    if (n < 1 || n > most)
        refuse(f, what);
    for (Py_ssize_t i = 0; i < n && !f->bad; i++) {
        out[i] = PyFloat_AsDouble(PyTuple_GetItem(tuple, i));
        if (out[i] == -1 && PyErr_Occurred())
            refuse(f, what);
    }
    Py_DECREF(tuple);
    return f->bad ? 0 : (int)n;
}

// One number counts for all channels.
static int next_channels(struct fields *f, const char *field, float out[3])
{
    static const char what[] = "1 or 3 floats";
    double x[3] = {0};
    int n = next_doubles(f, field, x, 3, what);

    if (n == 2)
        refuse(f, what);
    for (int i = 0; i < 3; i++)
        out[i] = (float)x[n == 1 ? 0 : i];
    return n;
}

static void next_range(struct fields *f, const char *field, double out[2])
{
    if (next_doubles(f, field, out, 2, "2 floats") == 1)
        refuse(f, "2 floats");
}

static void next_box(struct fields *f, float out[4])
{
    double x[4] = {0};
    int n = next_doubles(f, "box", x, 4, "4 floats");

    if (n && n != 4)
        refuse(f, "4 floats");
    for (int i = 0; i < 4; i++)
        out[i] = (float)x[i];
}

// ---- Tables -----------------------------------------------------------------

static bool is_float32(const char *format)
{
    if (!format)
        return true;  // bytes
    if (strchr("@=<", *format) && *format)
        format++;
    return strlen(format) == 1 && strchr("fBbc", *format);
}

// The same object is held once: few samples have a table of their own.
static const Py_buffer *find_table(const struct held *tables, PyObject *object)
{
    for (int i = tables->n; i-- > 0 && i + 8 > tables->n;)
        if (tables->views[i].obj == object)
            return &tables->views[i];
    return NULL;
}

static const float *next_table(struct fields *f, int channels,
                               struct held *tables)
{
    static const char what[] = "a buffer of float32, channels x 256";
    PyObject *object = next(f, "values");
    const Py_buffer *view;

    if (!object)
        return refuse(f, what);
    if (!(view = find_table(tables, object))) {
        if (!held_add(tables, object, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS))
            return refuse(f, what);
        view = &tables->views[tables->n - 1];
    }
    if (!is_float32(view->format) || (uintptr_t)view->buf % sizeof(float))
        return refuse(f, what);
    if (view->len < (Py_ssize_t)(256 * sizeof(float)) * channels) {
        if (!f->bad)
            PyErr_Format(core_argument_error(),
                         "op %d: table: %zd bytes, %d channels need %d",
                         f->number, view->len, channels, 1024 * channels);
        f->bad = true;
        return NULL;
    }
    return view->buf;
}

// ---- One op -----------------------------------------------------------------

static void read_crop(struct fields *f, struct hr_op *op, bool center)
{
    struct hr_crop *c = &op->crop;

    op->type = HR_OP_CROP;
    c->center = center;
    if (!center) {
        c->x = next_int(f, "x");
        c->y = next_int(f, "y");
    }
    c->w = next_int(f, "w");
    c->h = next_int(f, "h");
    c->pad = next_bool(f, "pad");
}

static void read_resize(struct fields *f, struct hr_op *op, bool short_side)
{
    struct hr_resize *r = &op->resize;

    op->type = HR_OP_RESIZE;
    if (short_side) {
        // 0 means something else to the library.
        if ((r->short_side = next_int(f, "side")) < 1)
            refuse_as(f, core_argument_error(), "1 or more");
    } else {
        r->w = next_int(f, "w");
        r->h = next_int(f, "h");
    }
    r->filter = (enum hr_filter)next_int(f, "filter");
    if (!short_side)
        next_box(f, r->box);
    r->order = (enum hr_order)next_int(f, "order");
}

static void read_fit(struct fields *f, struct hr_op *op)
{
    struct hr_fit *fit = &op->fit;

    op->type = HR_OP_FIT;
    fit->w = next_int(f, "w");
    fit->h = next_int(f, "h");
    fit->filter = (enum hr_filter)next_int(f, "filter");
    fit->enlarge = next_bool(f, "enlarge");
    fit->order = (enum hr_order)next_int(f, "order");
}

static void read_random_crop(struct fields *f, struct hr_op *op)
{
    struct hr_random_crop *c = &op->random_crop;

    op->type = HR_OP_RANDOM_CROP;
    c->w = next_int(f, "w");
    c->h = next_int(f, "h");
    c->pad = next_int(f, "pad");
    c->pad_if_needed = next_bool(f, "pad_if_needed");
}

static void read_random_resized_crop(struct fields *f, struct hr_op *op)
{
    struct hr_random_resized_crop *c = &op->random_resized_crop;

    op->type = HR_OP_RANDOM_RESIZED_CROP;
    c->w = next_int(f, "w");
    c->h = next_int(f, "h");
    c->filter = (enum hr_filter)next_int(f, "filter");
    next_range(f, "scale", c->scale);
    next_range(f, "ratio", c->ratio);
    c->order = (enum hr_order)next_int(f, "order");
}

static void read_normalize(struct fields *f, struct hr_op *op)
{
    int n;

    op->type = HR_OP_NORMALIZE;
    next_channels(f, "mean", op->normalize.mean);
    n = next_channels(f, "std", op->normalize.std);
    // To the library three zeros mean 1. That is what no std is, not this.
    for (int i = 0; n && i < 3; i++)
        if (op->normalize.std[i] == 0)
            refuse_as(f, core_argument_error(), "other than 0");
    op->normalize.arith = (enum hr_arith)next_int(f, "arithmetic");
}

static void read_fields(struct fields *f, long type, int channels,
                        struct hr_op *op, struct held *tables)
{
    switch (type) {
    case OP_DECODE:
        op->type = HR_OP_DECODE;
        op->decode.mode = (enum hr_mode)next_int(f, "mode");
        op->decode.apply_orientation = next_bool(f, "apply_orientation");
        return;
    case OP_CROP:
    case OP_CENTER_CROP:
        read_crop(f, op, type == OP_CENTER_CROP);
        return;
    case OP_RESIZE:
    case OP_RESIZE_SHORT:
        read_resize(f, op, type == OP_RESIZE_SHORT);
        return;
    case OP_FLIP:
        op->type = HR_OP_FLIP;
        op->flip.horizontal = next_bool(f, "horizontal");
        op->flip.vertical = next_bool(f, "vertical");
        op->flip.transpose = next_bool(f, "transpose");
        return;
    case OP_NORMALIZE:
        read_normalize(f, op);
        return;
    case OP_FIT:
        read_fit(f, op);
        return;
    case OP_RANDOM_CROP:
        read_random_crop(f, op);
        return;
    case OP_RANDOM_RESIZED_CROP:
        read_random_resized_crop(f, op);
        return;
    case OP_RANDOM_FLIP:
        op->type = HR_OP_RANDOM_FLIP;
        op->random_flip.horizontal = next_double(f, "horizontal");
        op->random_flip.vertical = next_double(f, "vertical");
        return;
    default:
        op->type = HR_OP_NORMALIZE;
        op->normalize.table = next_table(f, channels, tables);
    }
}

static bool read_op(PyObject *tuple, int number, int channels, struct hr_op *op,
                    struct held *tables)
{
    struct fields f = {.op = tuple, .number = number, .name = "?"};
    long type;

    memset(op, 0, sizeof(*op));
    if (!PyTuple_Check(tuple) || (f.n = PyTuple_Size(tuple)) < 1)
        return PyErr_Format(PyExc_TypeError,
                            "op %d must be a tuple that begins with a "
                            "constant of headrace.ops",
                            number),
               false;
    type = PyLong_AsLong(PyTuple_GetItem(tuple, f.i++));
    if (type == -1 && PyErr_Occurred())
        return refuse(&f, "an int"), false;
    if (type < OP_DECODE || type > OP_TABLE)
        return PyErr_Format(core_argument_error(),
                            "op %d: no op has the number %ld", number, type),
               false;
    f.name = op_names[type];
    read_fields(&f, type, channels, op, tables);
    if (!f.bad && f.i < f.n) {
        PyErr_Format(PyExc_TypeError, "op %d: %s has %zd fields, not %zd",
                     number, f.name, f.i - 1, f.n - 1);
        f.bad = true;
    }
    return !f.bad;
}

int ops_parse(PyObject *ops, int channels, struct hr_op *out,
              struct held *tables)
{
    Py_ssize_t n;

    if (!PyTuple_Check(ops)) {
        PyErr_SetString(PyExc_TypeError, "ops must be a tuple of tuples");
        return -1;
    }
    if ((n = PyTuple_Size(ops)) > HR_MAX_OPS) {
        PyErr_Format(core_argument_error(), "%zd ops, at most %d", n,
                     HR_MAX_OPS);
        return -1;
    }
    for (int i = 0; i < (int)n; i++)
        if (!read_op(PyTuple_GetItem(ops, i), i, channels, &out[i], tables))
            return -1;
    return (int)n;
}

bool ops_parse_key(PyObject *key, struct hr_random *out)
{
    unsigned long epoch;

    memset(out, 0, sizeof(*out));
    if (key == Py_None)
        return true;
    if (!PyTuple_Check(key) || PyTuple_Size(key) != 3)
        return PyErr_SetString(PyExc_TypeError,
                               "key must be (seed, index, epoch)"),
               false;
    // Numbers below 0 are those of the same bits.
    out->seed = PyLong_AsUnsignedLongLongMask(PyTuple_GetItem(key, 0));
    if (PyErr_Occurred())
        return false;
    out->index = PyLong_AsUnsignedLongLongMask(PyTuple_GetItem(key, 1));
    if (PyErr_Occurred())
        return false;
    epoch = PyLong_AsUnsignedLongMask(PyTuple_GetItem(key, 2));
    out->epoch = (uint32_t)epoch;
    return !PyErr_Occurred();
}

// ---- And back ---------------------------------------------------------------

static PyObject *bool_of(bool x)
{
    return x ? Py_True : Py_False;
}

static PyObject *crop_tuple(const struct hr_crop *c)
{
    if (c->center)
        return Py_BuildValue("(iiiO)", OP_CENTER_CROP, c->w, c->h,
                             bool_of(c->pad));
    return Py_BuildValue("(iiiiiO)", OP_CROP, c->x, c->y, c->w, c->h,
                         bool_of(c->pad));
}

static PyObject *resize_tuple(const struct hr_resize *r)
{
    const float *b = r->box;

    if (r->short_side)
        return Py_BuildValue("(iiii)", OP_RESIZE_SHORT, r->short_side,
                             (int)r->filter, (int)r->order);
    if (b[0] == 0 && b[1] == 0 && b[2] == 0 && b[3] == 0)
        return Py_BuildValue("(iiiiOi)", OP_RESIZE, r->w, r->h, (int)r->filter,
                             Py_None, (int)r->order);
    return Py_BuildValue("(iiii(ffff)i)", OP_RESIZE, r->w, r->h, (int)r->filter,
                         b[0], b[1], b[2], b[3], (int)r->order);
}

static PyObject *normalize_tuple(const struct hr_normalize *n)
{
    // The table is the caller's: its tuple is put back by ops_draw().
    if (n->table)
        return Py_BuildValue("(iO)", OP_TABLE, Py_None);
    return Py_BuildValue("(i(fff)(fff)i)", OP_NORMALIZE, n->mean[0], n->mean[1],
                         n->mean[2], n->std[0], n->std[1], n->std[2],
                         (int)n->arith);
}

static PyObject *op_tuple(const struct hr_op *op)
{
    switch (op->type) {
    case HR_OP_DECODE:
        return Py_BuildValue("(iiO)", OP_DECODE, (int)op->decode.mode,
                             bool_of(op->decode.apply_orientation));
    case HR_OP_CROP:
        return crop_tuple(&op->crop);
    case HR_OP_RESIZE:
        return resize_tuple(&op->resize);
    case HR_OP_FLIP:
        return Py_BuildValue("(iOOO)", OP_FLIP, bool_of(op->flip.horizontal),
                             bool_of(op->flip.vertical),
                             bool_of(op->flip.transpose));
    case HR_OP_NORMALIZE:
        return normalize_tuple(&op->normalize);
    case HR_OP_FIT:
        return Py_BuildValue("(iiiiOi)", OP_FIT, op->fit.w, op->fit.h,
                             (int)op->fit.filter, bool_of(op->fit.enlarge),
                             (int)op->fit.order);
    default:
        // hr_ops_draw() leaves no random ones.
        PyErr_Format(PyExc_SystemError, "op of type %d", (int)op->type);
        return NULL;
    }
}

PyObject *ops_to_tuple(const struct hr_op *ops, int n)
{
    PyObject *tuple = PyTuple_New(n);

    for (int i = 0; tuple && i < n; i++) {
        PyObject *op = op_tuple(&ops[i]);

        if (!op || PyTuple_SetItem(tuple, i, op)) {
            Py_DECREF(tuple);
            return NULL;
        }
    }
    return tuple;
}

// ---- Without pictures -------------------------------------------------------

PyObject *ops_output_size(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ops", "width", "height", "orientation", NULL};
    struct core *core = PyModule_GetState(module);
    struct hr_op ops[HR_MAX_OPS];
    struct held tables = {0};
    PyObject *list;
    int n, w, h, orientation = 1;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Oii|i:output_size", names,
                                     &list, &w, &h, &orientation))
        return NULL;
    n = ops_parse(list, 1, ops, &tables);
    held_release(&tables);
    if (n < 0)
        return NULL;
    if (hr_ops_output_size(ops, n, w, h, orientation, &w, &h))
        return core_raise_last(core);
    return Py_BuildValue("(ii)", w, h);
}

// A table is the last op, before drawing and after.
static PyObject *put_table_back(PyObject *drawn, PyObject *list,
                                const struct hr_op *last)
{
    PyObject *op;

    if (!drawn || last->type != HR_OP_NORMALIZE || !last->normalize.table)
        return drawn;
    op = PyTuple_GetItem(list, PyTuple_Size(list) - 1);
    if (PyTuple_SetItem(drawn, PyTuple_Size(drawn) - 1, Py_NewRef(op))) {
        Py_DECREF(drawn);
        return NULL;
    }
    return drawn;
}

PyObject *ops_draw(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ops",    "key",         "width",
                            "height", "orientation", NULL};
    struct core *core = PyModule_GetState(module);
    struct hr_op ops[HR_MAX_OPS], drawn[HR_MAX_OPS];
    struct held tables = {0};
    struct hr_random random;
    PyObject *list, *key;
    int n, w, h, orientation = 1, num = 0;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOii|i:draw_ops", names,
                                     &list, &key, &w, &h, &orientation) ||
        !ops_parse_key(key, &random))
        return NULL;
    n = ops_parse(list, 1, ops, &tables);
    held_release(&tables);
    if (n < 0)
        return NULL;
    if (hr_ops_draw(ops, n, &random, w, h, orientation, drawn, &num))
        return core_raise_last(core);
    return num ? put_table_back(ops_to_tuple(drawn, num), list, &ops[n - 1])
               : PyTuple_New(0);
}

// ---- Constants --------------------------------------------------------------

// Pillow has filters that we have not: None.
static bool add_filters(PyObject *module)
{
    enum { MOST = 16 };
    static const enum hr_filter by_pillow[] = {HR_NEAREST,  HR_LANCZOS,
                                               HR_BILINEAR, HR_BICUBIC,
                                               HR_BOX,      HR_HAMMING};
    PyObject *dict = PyDict_New();
    bool added = dict != NULL;

    for (int i = 0; added && i < MOST; i++) {
        PyObject *number = PyLong_FromLong(i);
        PyObject *ours = i < HR_NUM_FILTERS
                             ? PyLong_FromLong((long)by_pillow[i])
                             : Py_NewRef(Py_None);

        added = number && ours && !PyDict_SetItem(dict, number, ours);
        Py_XDECREF(number);
        Py_XDECREF(ours);
    }
    added = added && !PyModule_AddObjectRef(module, "PIL_FILTER", dict);
    Py_XDECREF(dict);
    return added;
}

bool ops_add_constants(PyObject *module)
{
    static const struct {
        const char *name;
        int value;
    } constants[] = {
        {"RGB", HR_RGB},
        {"GRAY", HR_GRAY},
        {"BILINEAR", HR_BILINEAR},
        {"NEAREST", HR_NEAREST},
        {"BOX", HR_BOX},
        {"HAMMING", HR_HAMMING},
        {"BICUBIC", HR_BICUBIC},
        {"LANCZOS", HR_LANCZOS},
        {"ORDER_REFERENCE", HR_ORDER_REFERENCE},
        {"ORDER_HORIZONTAL", HR_ORDER_HORIZONTAL},
        {"ORDER_VERTICAL", HR_ORDER_VERTICAL},
        {"DIV", HR_ARITH_DIV},
        {"MUL", HR_ARITH_MUL},
        {"MAX_OPS", HR_MAX_OPS},
    };

    for (int i = OP_DECODE; i <= OP_TABLE; i++) {
        char name[32] = "";

        for (size_t k = 0; op_names[i][k] && k + 1 < sizeof(name); k++)
            name[k] = (char)toupper((unsigned char)op_names[i][k]);
        if (PyModule_AddIntConstant(module, name, i))
            return false;
    }
    for (size_t i = 0; i < sizeof(constants) / sizeof(*constants); i++)
        if (PyModule_AddIntConstant(module, constants[i].name,
                                    constants[i].value))
            return false;
    return add_filters(module);
}
