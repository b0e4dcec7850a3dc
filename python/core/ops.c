// SPDX-License-Identifier: Apache-2.0
// Ops as Python records them: tuples of a constant and its fields. A field that
// is missing at the end, or None, is 0.
#include "ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The first element of a tuple: the type of the op, and which of its forms.
enum { FORM = 64 };
#define NUMBER(type, form) ((int)(type) + FORM * (form))

// ---- Held buffers -----------------------------------------------------------

bool held_add(struct held *held, PyObject *object, int flags)
{
    if (held->n == held->capacity) {
        int capacity = held->capacity ? 2 * held->capacity : 4;
        Py_buffer *views = realloc(held->views,
                                   (size_t)capacity * sizeof(*views));

        if (!views)
            return PyErr_NoMemory(), false;
        held->views = views;
        held->capacity = capacity;
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

// Sets an exception that says what the last read field must be.
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

// All numbers of a field of doubles.
static void next_all(struct fields *f, const struct hr_op_field *field,
                     double *to)
{
    int num = (int)(field->size / sizeof(*to));
    char what[20];

    snprintf(what, sizeof(what), "%d floats", num);
    if (next_doubles(f, field->name, to, num, what) != num)
        refuse(f, what);
}

// One number, or one for each channel; missing: 0.
static void next_color(struct fields *f, const struct hr_op_field *field,
                       uint8_t *to)
{
    static const char what[] = "an int or 3 ints, 0 .. 255";
    PyObject *value = next(f, field->name);
    bool single = value && PyLong_Check(value);
    PyObject *tuple = !value   ? NULL
                      : single ? PyTuple_Pack(1, value)
                               : PySequence_Tuple(value);
    Py_ssize_t n = tuple ? PyTuple_Size(tuple) : 0;

    if (value && n != 1 && n != 3)
        refuse(f, what);
    for (int c = 0; c < 3 && tuple && !f->bad; c++) {
        long x = PyLong_AsLong(PyTuple_GetItem(tuple, n == 3 ? c : 0));

        if (x == -1 && PyErr_Occurred())
            refuse(f, what);
        else if (x < 0 || x > 255)
            refuse_as(f, core_argument_error(), what);
        to[c] = (uint8_t)x;
    }
    Py_XDECREF(tuple);
}

// Numbers of a sequence, of which one counts for all channels.
static void next_reals(struct fields *f, const struct hr_op_field *field,
                       void *to)
{
    static const struct {
        int num;
        const char *what;
    } all[] = {[HR_FIELD_RANGE] = {2, "2 floats"},
               [HR_FIELD_BOX] = {4, "4 floats"},
               [HR_FIELD_CHANNELS] = {3, "1 or 3 floats"}};
    bool channels = field->kind == HR_FIELD_CHANNELS;
    int num = all[field->kind].num, n;
    double x[4] = {0};

    n = next_doubles(f, field->name, x, num, all[field->kind].what);
    if (n && n != num && !(channels && n == 1))
        refuse(f, all[field->kind].what);
    for (int i = 0; i < num; i++) {
        double value = x[n == 1 ? 0 : i];

        if (n && field->not_zero && (float)value == 0)
            refuse_as(f, core_argument_error(), "other than 0");
        if (field->kind == HR_FIELD_RANGE)
            ((double *)to)[i] = value;
        else
            ((float *)to)[i] = (float)value;
    }
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

// NULL: the field is missing, or f->bad.
static const Py_buffer *next_buffer(struct fields *f, const char *field,
                                    const char *what, struct held *tables)
{
    PyObject *object = next(f, field);
    const Py_buffer *view = object ? find_table(tables, object) : NULL;

    if (!object || view)
        return view;
    if (!held_add(tables, object, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS))
        return refuse(f, what);
    return &tables->views[tables->n - 1];
}

static void next_bytes(struct fields *f, const char *field, struct hr_lut *to,
                       struct held *tables)
{
    static const char what[] = "a buffer of 256 or 768 bytes";
    const Py_buffer *view = next_buffer(f, field, what, tables);

    if (!view) {
        refuse(f, what);
        return;
    }
    *to = (struct hr_lut){view->buf, (int)view->len};
    if (view->itemsize != 1 || (view->len != 256 && view->len != 3 * 256))
        refuse_as(f, core_argument_error(), what);
}

// NULL: the field is missing, or f->bad.
static const float *next_numbers(struct fields *f, const char *field,
                                 int64_t most, const char *what,
                                 struct held *tables)
{
    const Py_buffer *view = next_buffer(f, field, what, tables);

    if (!view)
        return NULL;
    if (!is_float32(view->format) || (uintptr_t)view->buf % sizeof(float))
        return refuse(f, what);
    if (view->len / (Py_ssize_t)sizeof(float) < most) {
        if (!f->bad)
            PyErr_Format(core_argument_error(),
                         "op %d: %s: %zd bytes, there must be %lld", f->number,
                         f->name, view->len, (long long)most * 4);
        f->bad = true;
        return NULL;
    }
    return view->buf;
}

static const float *next_table(struct fields *f, const char *field,
                               int channels, struct held *tables)
{
    static const char what[] = "a buffer of float32, channels x 256";
    const float *table = next_numbers(f, field, 256 * channels, what, tables);

    return table || f->bad ? table : refuse(f, what);
}

// w and h of op are known.
static const float *next_block(struct fields *f, const char *field,
                               int channels, const struct hr_op *op,
                               struct held *tables)
{
    const struct hr_erase *e = &op->erase;
    int64_t w = e->w > 0 ? e->w : 0, h = e->h > 0 ? e->h : 0;

    // (Of larger ones the library says that they are too large.)
    w = w < HR_MAX_SIDE ? w : HR_MAX_SIDE;
    h = h < HR_MAX_SIDE ? h : HR_MAX_SIDE;
    return next_numbers(f, field, channels * h * w,
                        "a buffer of float32, channels x h x w, or None",
                        tables);
}

// ---- One op -----------------------------------------------------------------

static void *at(struct hr_op *op, const struct hr_op_field *field)
{
    return (char *)op + field->offset;
}

static void read_field(struct fields *f, const struct hr_op_field *field,
                       int channels, struct hr_op *op, struct held *tables)
{
    void *to = at(op, field);

    switch (field->kind) {
    case HR_FIELD_INT:
        // 0 may mean something else to the library.
        if ((*(int *)to = next_int(f, field->name)) < 1 && field->not_zero)
            refuse_as(f, core_argument_error(), "1 or more");
        return;
    case HR_FIELD_ENUM:
        *(int *)to = next_int(f, field->name);
        return;
    case HR_FIELD_BOOL:
        *(bool *)to = next_bool(f, field->name);
        return;
    case HR_FIELD_DOUBLE:
        *(double *)to = next_double(f, field->name);
        return;
    case HR_FIELD_RANGE:
    case HR_FIELD_BOX:
    case HR_FIELD_CHANNELS:
        next_reals(f, field, to);
        return;
    case HR_FIELD_DOUBLES:
        next_all(f, field, to);
        return;
    case HR_FIELD_COLOR:
        next_color(f, field, to);
        return;
    case HR_FIELD_BYTES:
        next_bytes(f, field->name, to, tables);
        return;
    case HR_FIELD_TABLE:
        *(const float **)to = next_table(f, field->name, channels, tables);
        return;
    case HR_FIELD_BLOCK:
        *(const float **)to = next_block(f, field->name, channels, op, tables);
    }
}

// NULL: there is no such op.
static const struct hr_op_info *find_op(long number,
                                        const struct hr_op_form **form)
{
    const struct hr_op_info *info = hr_op_info(
        (enum hr_op_type)(number > 0 ? number % FORM : 0));

    if (!info || number / FORM >= info->num_forms)
        return NULL;
    *form = &info->forms[number / FORM];
    return info;
}

static bool read_op(PyObject *tuple, int number, int channels, struct hr_op *op,
                    struct held *tables)
{
    struct fields f = {
        .op = tuple, .number = number, .name = "?", .field = "its number"};
    const struct hr_op_info *info;
    const struct hr_op_form *form;
    long type;

    if (!PyTuple_Check(tuple) || (f.n = PyTuple_Size(tuple)) < 1)
        return PyErr_Format(PyExc_TypeError,
                            "op %d must be a tuple that begins with a "
                            "constant of headrace.ops",
                            number),
               false;
    type = PyLong_AsLong(PyTuple_GetItem(tuple, f.i++));
    if (type == -1 && PyErr_Occurred())
        return refuse(&f, "an int"), false;
    if (!(info = find_op(type, &form)))
        return PyErr_Format(core_argument_error(),
                            "op %d: no op has the number %ld", number, type),
               false;
    f.name = form->name;
    *op = form->op;
    for (int i = 0; i < info->num_fields; i++)
        if (form->fields >> i & 1)
            read_field(&f, &info->fields[i], channels, op, tables);
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

static PyObject *field_value(const struct hr_op_field *field,
                             const struct hr_op *op)
{
    const void *from = at((struct hr_op *)op, field);
    const double *d = from;
    const float *x = from;
    const uint8_t *color = from;
    const struct hr_lut *lut = from;

    switch (field->kind) {
    case HR_FIELD_INT:
    case HR_FIELD_ENUM:
        return PyLong_FromLong(*(const int *)from);
    case HR_FIELD_BOOL:
        return PyBool_FromLong(*(const bool *)from);
    case HR_FIELD_DOUBLE:
        return PyFloat_FromDouble(*d);
    case HR_FIELD_RANGE:
    case HR_FIELD_DOUBLES:
        return core_doubles(d, field->size);
    case HR_FIELD_COLOR:
        return color[1] == color[0] && color[2] == color[0]
                   ? PyLong_FromLong(color[0])
                   : Py_BuildValue("(iii)", color[0], color[1], color[2]);
    case HR_FIELD_BYTES:
        return PyBytes_FromStringAndSize((const char *)lut->table,
                                         lut->entries);
    case HR_FIELD_CHANNELS:
        // Three zeros of a std mean that there is none.
        return field->not_zero && x[0] == 0 && x[1] == 0 && x[2] == 0
                   ? Py_NewRef(Py_None)
                   : Py_BuildValue("(fff)", x[0], x[1], x[2]);
    case HR_FIELD_BOX:
        return x[0] == 0 && x[1] == 0 && x[2] == 0 && x[3] == 0
                   ? Py_NewRef(Py_None)
                   : Py_BuildValue("(ffff)", x[0], x[1], x[2], x[3]);
    default:
        // The buffer is the caller's: its tuple is put back by ops_draw().
        return Py_NewRef(Py_None);
    }
}

// Says whether the parameters of the form say all that the op says.
static bool is_form(const struct hr_op_info *info,
                    const struct hr_op_form *form, const struct hr_op *op)
{
    for (int i = 0; i < info->num_fields; i++) {
        const struct hr_op_field *field = &info->fields[i];

        if (!(form->fields >> i & 1) &&
            memcmp(at((struct hr_op *)op, field),
                   at((struct hr_op *)&form->op, field), field->size))
            return false;
    }
    return true;
}

static PyObject *op_tuple(const struct hr_op *op)
{
    const struct hr_op_info *info = hr_op_info(op->type);
    PyObject *tuple;
    int form = 0, n = 1;

    while (form < info->num_forms - 1 && !is_form(info, &info->forms[form], op))
        form++;
    tuple = PyTuple_New(1 + __builtin_popcount(info->forms[form].fields));
    if (!tuple)
        return NULL;
    PyTuple_SetItem(tuple, 0, PyLong_FromLong(NUMBER(op->type, form)));
    for (int i = 0; i < info->num_fields; i++)
        if (info->forms[form].fields >> i & 1) {
            PyObject *value = field_value(&info->fields[i], op);

            if (!value || PyTuple_SetItem(tuple, n++, value)) {
                Py_DECREF(tuple);
                return NULL;
            }
        }
    return tuple;
}

static PyObject *one_op(const void *ops, size_t i)
{
    return op_tuple((const struct hr_op *)ops + i);
}

PyObject *ops_to_tuple(const struct hr_op *ops, int n)
{
    return core_tuple(n, one_op, ops);
}

// ---- Constants --------------------------------------------------------------

// By Pillow's numbers.
static bool add_filters(PyObject *module)
{
    PyObject *dict = Py_BuildValue("{i:i,i:i,i:i,i:i,i:i,i:i}", 0, HR_NEAREST,
                                   1, HR_LANCZOS, 2, HR_BILINEAR, 3, HR_BICUBIC,
                                   4, HR_BOX, 5, HR_HAMMING);
    bool added = dict && !PyModule_AddObjectRef(module, "PIL_FILTER", dict);

    Py_XDECREF(dict);
    return added;
}

// {name: value} of an enum, else None.
static PyObject *values_of(const struct hr_op_field *field)
{
    PyObject *dict = field->values ? PyDict_New() : Py_NewRef(Py_None);

    for (const struct hr_op_value *v = field->values; dict && v && v->name; v++)
        if (!core_put(dict, v->name, PyLong_FromLong(v->value)))
            Py_CLEAR(dict);
    return dict;
}

// (number, random, {field: values}) of a form.
static PyObject *form_tuple(const struct hr_op_info *info, int form)
{
    PyObject *fields = PyDict_New();

    for (int i = 0; fields && i < info->num_fields; i++)
        if (info->forms[form].fields >> i & 1 &&
            !core_put(fields, info->fields[i].name,
                      values_of(&info->fields[i])))
            Py_CLEAR(fields);
    return fields ? Py_BuildValue("(iNN)", NUMBER(info->type, form),
                                  PyBool_FromLong(info->random), fields)
                  : NULL;
}

static bool add_forms(PyObject *module)
{
    PyObject *dict = PyDict_New();
    const struct hr_op_info *info;
    bool added = dict != NULL;

    for (int i = 1; (info = hr_op_info((enum hr_op_type)i)); i++)
        for (int form = 0; added && form < info->num_forms; form++)
            added = core_put(dict, info->forms[form].name,
                             form_tuple(info, form));
    added = added && !PyModule_AddObjectRef(module, "OPS", dict);
    Py_XDECREF(dict);
    return added;
}

bool ops_add_constants(PyObject *module)
{
    static const struct {
        const char *name;
        int value;
    } constants[] = {
        {"DECODE", HR_OP_DECODE},
        {"CROP", HR_OP_CROP},
        {"CENTER_CROP", NUMBER(HR_OP_CROP, 1)},
        {"RESIZE", HR_OP_RESIZE},
        {"RESIZE_SHORT", NUMBER(HR_OP_RESIZE, 1)},
        {"FIT", HR_OP_FIT},
        {"FLIP", HR_OP_FLIP},
        {"NORMALIZE", HR_OP_NORMALIZE},
        {"TABLE", NUMBER(HR_OP_NORMALIZE, 1)},
        {"RANDOM_FLIP", HR_OP_RANDOM_FLIP},
        {"ERASE", HR_OP_ERASE},
        {"RGB", HR_RGB},
        {"GRAY", HR_GRAY},
        {"ORDER_VERTICAL", HR_ORDER_VERTICAL},
        {"ORDER_TORCH", HR_ORDER_TORCH},
        {"MAX_OPS", HR_MAX_OPS},
    };

    for (size_t i = 0; i < sizeof(constants) / sizeof(*constants); i++)
        if (PyModule_AddIntConstant(module, constants[i].name,
                                    constants[i].value))
            return false;
    return add_filters(module) && add_forms(module);
}
