// SPDX-License-Identifier: Apache-2.0
// Recorded pictures of the drop-in. python/headrace/dropin/pillow/pictures.py
// has their classes and says what their attributes mean. Here is what each call
// that a program makes of one does: it finds the recording, and makes the next
// picture.
#include "core.h"

// The tuple that set_pictures() was given.
enum part {
    IMAGE,      // the class of pictures that are made here
    RECORDING,  // and of their recordings: a tuple
    MOST,       // ops that a recording may have
    MODE,       // the attribute with the mode
    SINGLE,     // the op behind which a picture has one channel
    // Functions.
    SET_DICT,     // (picture, attributes)
    DETACH,       // (picture, check): lets go of its file
    MATERIALISE,  // (picture)
    KEEP,         // (picture): it was made outside of a fetch
    COPY_INFO,    // (picture)
    HAS_COLORS,   // (op): does it make of grey colours?
    NUM_PARTS
};

// Names of attributes, and a mode: strings for good.
#define TEXTS(X)            \
    X(hr, "_hr")            \
    X(used, "_hr_used")     \
    X(native, "_hr_native") \
    X(size, "_size") X(shared, "_hr_info") X(info, "info") X(grey, "L")
static struct {
#define X(name, text) PyObject *name;
    TEXTS(X)
#undef X
} text;

static PyObject *part(struct core *core, enum part which)
{
    if (core->pictures)
        return PyTuple_GetItem(core->pictures, which);
    PyErr_SetString(PyExc_SystemError, "set_pictures() was not called");
    return NULL;
}

// Calls a function of which nothing is to be known. False with an exception.
static bool call(struct core *core, enum part which, PyObject *a, PyObject *b)
{
    PyObject *answer = PyObject_CallFunctionObjArgs(part(core, which), a, b,
                                                    NULL);

    Py_XDECREF(answer);
    return answer != NULL;
}

PyObject *picture_set(PyObject *module, PyObject *parts)
{
    struct core *core = PyModule_GetState(module);

    if (PyTuple_Size(parts) != NUM_PARTS)
        return PyErr_Format(PyExc_TypeError, "%d arguments", NUM_PARTS);
#define X(name, string)                                                  \
    if (!text.name && !(text.name = PyUnicode_InternFromString(string))) \
        return NULL;
    TEXTS(X)
#undef X
    Py_INCREF(parts);
    Py_XDECREF(core->pictures);
    core->pictures = parts;
    Py_RETURN_NONE;
}

// ---- The fetch --------------------------------------------------------------

static _Thread_local unsigned long long fetch;

PyObject *picture_set_fetch(PyObject *module, PyObject *number)
{
    unsigned long long n = PyLong_AsUnsignedLongLong(number);

    if (PyErr_Occurred())
        return NULL;
    fetch = n;
    Py_RETURN_NONE;
}

PyObject *picture_fetch(PyObject *module, PyObject *none)
{
    return PyLong_FromUnsignedLongLong(fetch);
}

// ---- The recording ----------------------------------------------------------

// -1: an exception. 0: it was used in a fetch before: it is kept, and would be
// made each time.
static int may_use(PyObject *own)
{
    PyObject *used = PyDict_GetItemWithError(own, text.used);
    int set;

    if (!fetch)
        return 1;
    if (used)
        return PyLong_AsUnsignedLongLong(used) == fetch;
    if (PyErr_Occurred() || !(used = PyLong_FromUnsignedLongLong(fetch)))
        return -1;
    set = PyDict_SetItem(own, text.used, used);
    Py_DECREF(used);
    return set ? -1 : 1;
}

// A new reference: None where the picture is stock Pillow now.
static PyObject *find(struct core *core, PyObject *picture, PyObject *own,
                      PyObject *check)
{
    PyObject *hr = Py_XNewRef(PyDict_GetItemWithError(own, text.hr));
    int may;

    if (!hr && !PyErr_Occurred())
        hr = PyObject_CallFunctionObjArgs(part(core, DETACH), picture, check,
                                          NULL);
    if (!hr || hr == Py_None || (may = may_use(own)) == 1)
        return hr;
    Py_DECREF(hr);
    if (may < 0 || !call(core, MATERIALISE, picture, NULL))
        return NULL;
    return Py_NewRef(Py_None);
}

PyObject *picture_recording(PyObject *module, PyObject *const *args,
                            Py_ssize_t n)
{
    struct core *core = PyModule_GetState(module);
    PyObject *own, *hr;

    if (n < 1 || n > 2)
        return PyErr_Format(PyExc_TypeError, "recording(picture, check=False)");
    if (!(own = PyObject_GenericGetDict(args[0], NULL)))
        return NULL;
    hr = find(core, args[0], own, n > 1 ? args[1] : Py_False);
    Py_DECREF(own);
    return hr;
}

// ---- The next picture -------------------------------------------------------

struct next {
    PyObject *parent, *theirs;  // its attributes
    PyObject *hr, *ops, *size;  // hr: the parent's
    PyObject *op;               // the last of ops, or NULL
    bool fresh;                 // without the parent's info
};

// Sets a value that is a new reference, or NULL with an exception.
static bool set(PyObject *own, PyObject *name, PyObject *value)
{
    bool ok = value && !PyDict_SetItem(own, name, value);

    Py_XDECREF(value);
    return ok;
}

static PyObject *recorded(struct core *core, PyObject *hr, PyObject *ops)
{
    newfunc make = (newfunc)PyType_GetSlot(&PyTuple_Type, Py_tp_new);
    PyObject *type = part(core, RECORDING);
    PyObject *source = type ? PyTuple_GetItem(hr, 0) : NULL;
    PyObject *fields = source ? PyTuple_Pack(2, source, ops) : NULL;
    PyObject *args = fields ? PyTuple_Pack(1, fields) : NULL;
    PyObject *made = NULL;

    if (args)
        made = make((PyTypeObject *)type, args, NULL);
    Py_XDECREF(fields);
    Py_XDECREF(args);
    return made;
}

// -1: an exception.
static int is_grey(struct core *core, PyObject *ops)
{
    PyObject *decode = PyTuple_GetItem(ops, 0);
    PyObject *mode = decode ? PyTuple_GetItem(decode, 1) : NULL;

    if (!mode)
        return -1;
    return PyLong_AsLong(mode) == 1
               ? 1
               : PySequence_Contains(ops, part(core, SINGLE));
}

// A file of grey stays one, if no op makes colours of it.
static bool set_mode(struct core *core, const struct next *next, PyObject *own)
{
    PyObject *native = PyDict_GetItemWithError(next->theirs, text.native);
    int grey = is_grey(core, next->ops);
    PyObject *colors = NULL;
    bool ok = grey >= 0;

    if (grey == 1)
        ok = !PyDict_SetItem(own, part(core, MODE), text.grey);
    if (!ok || !native || PyUnicode_CompareWithASCIIString(native, "L"))
        return ok && !PyErr_Occurred();
    if (!grey && next->op &&
        !(colors = PyObject_CallFunctionObjArgs(part(core, HAS_COLORS),
                                                next->op, NULL)))
        return false;
    ok = colors == Py_True || !PyDict_SetItem(own, text.native, text.grey);
    Py_XDECREF(colors);
    return ok;
}

static bool set_info(struct core *core, const struct next *next, PyObject *own)
{
    PyObject *shared = PyDict_GetItemWithError(next->theirs, text.shared);

    if (next->fresh)
        return set(own, text.shared, PyDict_New());
    if (shared && !PyDict_GetItemWithError(next->theirs, text.info))
        return !PyDict_SetItem(own, text.shared, shared);
    return set(own, text.shared,
               PyObject_CallFunctionObjArgs(part(core, COPY_INFO), next->parent,
                                            NULL));
}

static PyObject *picture_of(struct core *core, PyObject *own)
{
    PyTypeObject *type = (PyTypeObject *)part(core, IMAGE);
    PyObject *picture = PyType_GenericAlloc(type, 0);

    // (PyObject_GenericSetDict() is none of these classes' in Python 3.13.)
    if (!picture || !call(core, SET_DICT, picture, own) ||
        (!fetch && !call(core, KEEP, picture, NULL))) {
        Py_XDECREF(picture);
        return NULL;
    }
    return picture;
}

static PyObject *make(struct core *core, const struct next *next)
{
    PyObject *own = PyDict_New(), *picture = NULL;

    if (own && set(own, text.hr, recorded(core, next->hr, next->ops)) &&
        !PyDict_SetItem(own, text.size, next->size) &&
        set_mode(core, next, own) && set_info(core, next, own))
        picture = picture_of(core, own);
    Py_XDECREF(own);
    return picture;
}

PyObject *picture_derive(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    struct core *core = PyModule_GetState(module);
    struct next next;
    PyObject *picture;

    if (n != 4)
        return PyErr_Format(PyExc_TypeError, "derive(parent, hr, ops, size)");
    next = (struct next){
        .parent = args[0], .hr = args[1], .ops = args[2], .size = args[3]};
    if (!(next.theirs = PyObject_GenericGetDict(next.parent, NULL)))
        return NULL;
    picture = make(core, &next);
    Py_DECREF(next.theirs);
    return picture;
}

// The ops of a recording and one more; None: there are too many.
static PyObject *with_op(struct core *core, PyObject *hr, PyObject *op)
{
    PyObject *ops = PyTuple_GetItem(hr, 1), *last, *more = NULL;

    if (!ops)
        return NULL;
    if (PyTuple_Size(ops) >= PyLong_AsSsize_t(part(core, MOST)))
        return Py_NewRef(Py_None);
    if ((last = PyTuple_Pack(1, op)))
        more = PySequence_Concat(ops, last);
    Py_XDECREF(last);
    return more;
}

static PyObject *record(struct core *core, struct next *next)
{
    PyObject *picture = NULL;

    next->hr = find(core, next->parent, next->theirs, Py_False);
    if (!next->hr || next->hr == Py_None)
        return next->hr;
    next->ops = with_op(core, next->hr, next->op);
    next->size = next->size == Py_None
                     ? PyDict_GetItemWithError(next->theirs, text.size)
                     : next->size;
    if (next->ops == Py_None)
        picture = Py_NewRef(Py_None);
    else if (next->ops && Py_XNewRef(next->size)) {
        picture = make(core, next);
        Py_DECREF(next->size);
    }
    Py_XDECREF(next->ops);
    Py_DECREF(next->hr);
    return picture;
}

PyObject *picture_record(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    struct core *core = PyModule_GetState(module);
    struct next next;
    PyObject *picture;

    if (n < 2 || n > 4)
        return PyErr_Format(PyExc_TypeError,
                            "record(picture, op, size=None, fresh=False)");
    if (args[1] == Py_None)
        Py_RETURN_NONE;
    next = (struct next){.parent = args[0],
                         .op = args[1],
                         .size = n > 2 ? args[2] : Py_None,
                         .fresh = n > 3 && args[3] == Py_True};
    if (!(next.theirs = PyObject_GenericGetDict(next.parent, NULL)))
        return NULL;
    picture = record(core, &next);
    Py_DECREF(next.theirs);
    return picture;
}
