// SPDX-License-Identifier: Apache-2.0
// A Source of items that a sequence is asked for when they are read, by the
// loader's threads, with the GIL.
//
// A thread that has used a sample may not give back with the GIL what was lent:
// the device's threads shall not wait for that. So it goes on a list, which the
// next thread that has the GIL frees.
#include "flight.h"
#include "source.h"

#include <stdio.h>
#include <stdlib.h>

struct lent {
    struct lent *next;
    PyObject *item, *path;
    struct held bytes;
};

static _Thread_local bool reading;

bool source_reading(void)
{
    return reading;
}

// ---- What was lent ----------------------------------------------------------

static void free_lent(struct lent *lent)
{
    held_release(&lent->bytes);
    Py_XDECREF(lent->path);
    Py_XDECREF(lent->item);
    free(lent);
}

void source_settle(PyObject *self)
{
    struct lent *lent = atomic_exchange(&((struct source *)self)->returned,
                                        NULL);

    while (lent) {
        struct lent *next = lent->next;

        free_lent(lent);
        lent = next;
    }
}

static void take_back(void *ctx, uint64_t i, const struct hr_encoded *from)
{
    struct source *s = ctx;
    struct lent *lent = from->owner;

    lent->next = atomic_load(&s->returned);
    while (!atomic_compare_exchange_weak(&s->returned, &lent->next, lent))
        ;
}

// ---- One item ---------------------------------------------------------------

bool item_split(PyObject *item, PyObject **picture, int64_t *label)
{
    PyObject *pair, *number;

    *label = -1;
    if (!PyTuple_Check(item) && !PyList_Check(item)) {
        *picture = Py_NewRef(item);
        return true;
    }
    if (!(pair = PySequence_Tuple(item)))
        return false;
    if (PyTuple_Size(pair) != 2) {
        PyErr_SetString(PyExc_TypeError,
                        "an item must be a picture, or (picture, class)");
        Py_DECREF(pair);
        return false;
    }
    number = PyTuple_GetItem(pair, 1);
    if (number != Py_None)
        *label = PyLong_AsLongLong(number);
    *picture = Py_NewRef(PyTuple_GetItem(pair, 0));
    Py_DECREF(pair);
    if (*label != -1 || !PyErr_Occurred())
        return true;
    Py_CLEAR(*picture);
    return false;
}

bool item_is_bytes(PyObject *picture)
{
    return !PyUnicode_Check(picture) && PyObject_CheckBuffer(picture);
}

bool item_hold_bytes(struct held *held, PyObject *picture, const void **data,
                     size_t *size)
{
    const Py_buffer *view;

    if (!held_add(held, picture, PyBUF_SIMPLE))
        return false;
    view = &held->views[held->n - 1];
    *data = view->buf && view->len ? view->buf : "";
    *size = (size_t)view->len;
    return true;
}

// ---- Reading ----------------------------------------------------------------

static bool lend_picture(struct source *s, PyObject *picture, struct lent *lent,
                         struct hr_encoded *to)
{
    if (item_is_bytes(picture))
        return item_hold_bytes(&lent->bytes, picture, &to->data, &to->size);
    lent->path = path_of(s->core, picture, &to->path);
    return lent->path != NULL;
}

// Lends what an item is, which is stolen; NULL: there is an exception; an item
// that is one: the sample has failed by it. The class goes with the bytes: the
// next time the item may have another one.
static bool lend_item(struct source *s, PyObject *item, struct lent *lent,
                      struct hr_encoded *to)
{
    PyObject *picture = NULL;
    bool done;

    lent->item = item;
    if (item && PyExceptionInstance_Check(item)) {
        PyErr_SetObject((PyObject *)Py_TYPE(item), item);
        return false;
    }
    done = lent->item && item_split(lent->item, &picture, &to->class_number) &&
           lend_picture(s, picture, lent, to);
    Py_XDECREF(picture);
    to->has_class = done;
    return done;
}

// A thread of a loader keeps its state in Python until it ends, and with it
// what is local to the thread: connections, open files. (Not in another
// interpreter.)
static _Thread_local struct {
    bool has;
    unsigned generation;
} state;

static PyGILState_STATE enter_python(void)
{
    if (!PyGILState_GetThisThreadState()) {
        state.has = true;
        state.generation = flight_generation();
        PyGILState_Ensure();
        PyEval_SaveThread();
    }
    return PyGILState_Ensure();
}

static void thread_ends(void *ctx)
{
    if (!state.has || flight_closed() ||
        state.generation != flight_generation())
        return;
    state.has = false;
    reading = true;  // what is freed may drop a loader
    PyGILState_Ensure();
    PyGILState_Release(PyGILState_LOCKED);  // of this Ensure(): goes on with it
    PyGILState_Release(PyGILState_UNLOCKED);  // of the first one
    reading = false;
}

static enum hr_status read_sequence(void *ctx, uint64_t i,
                                    struct hr_encoded *to, char message[256])
{
    struct lent *lent = calloc(1, sizeof(*lent));
    struct source *s = ctx;
    PyGILState_STATE before;
    bool done;

    if (!lent)
        return HR_ENOMEM;
    if (flight_closed()) {
        free(lent);
        return HR_ECANCELED;
    }
    // (Threads of others do not say when they end.)
    before = s->is_opened ? PyGILState_Ensure() : enter_python();
    reading = true;
    source_settle(&s->ob_base);
    if (!(done = lend_item(s, PySequence_GetItem(s->items, (Py_ssize_t)i), lent,
                           to))) {
        core_explain(message);
        free_lent(lent);
    }
    PyGILState_Release(before);
    reading = false;
    to->owner = done ? lent : NULL;
    return done ? HR_OK : HR_EIO;
}

// ---- Many at once -----------------------------------------------------------

// The items that __getitems__() returns for these samples; NULL: an exception.
static PyObject *ask_many(struct source *s, int num,
                          const struct hr_source_read *samples)
{
    PyObject *numbers = PyList_New(num), *items = NULL, *list = NULL;

    for (int k = 0; numbers && k < num; k++) {
        PyObject *number = PyLong_FromUnsignedLongLong(samples[k].i);

        if (!number)
            Py_CLEAR(numbers);
        else
            PyList_SetItem(numbers, k, number);
    }
    if (numbers)
        items = PyObject_CallMethod(s->items, "__getitems__", "(O)", numbers);
    Py_XDECREF(numbers);
    if (items)
        list = PySequence_Tuple(items);
    Py_XDECREF(items);
    if (!list || PyTuple_Size(list) == num)
        return list;
    PyErr_Format(PyExc_ValueError, "__getitems__() gave %zd items for %d",
                 PyTuple_Size(list), num);
    Py_DECREF(list);
    return NULL;
}

static void lend_many(struct source *s, int num, struct hr_source_read *samples)
{
    PyObject *items = ask_many(s, num, samples);
    char why[256] = "";

    if (!items)
        core_explain(why);
    for (int k = 0; k < num; k++) {
        struct hr_source_read *r = &samples[k];
        struct lent *lent = items ? calloc(1, sizeof(*lent)) : NULL;

        r->status = items && !lent ? HR_ENOMEM : HR_EIO;
        if (!lent) {
            snprintf(r->message, sizeof(r->message), "%s", why);
        } else if (lend_item(s, Py_NewRef(PyTuple_GetItem(items, k)), lent,
                             &r->to)) {
            r->to.owner = lent;
            r->status = HR_OK;
        } else {
            core_explain(r->message);
            free_lent(lent);
        }
    }
    Py_XDECREF(items);
}

static void read_many(void *ctx, int num, struct hr_source_read *samples)
{
    struct source *s = ctx;
    PyGILState_STATE before;

    if (flight_closed()) {
        for (int k = 0; k < num; k++)
            samples[k].status = HR_ECANCELED;
        return;
    }
    before = enter_python();
    reading = true;
    source_settle(&s->ob_base);
    lend_many(s, num, samples);
    PyGILState_Release(before);
    reading = false;
}

struct hr_source_calls sequence_calls(struct source *s, Py_ssize_t n)
{
    return (struct hr_source_calls){
        .num = (uint64_t)n,
        .ctx = s,
        .read = read_sequence,
        .done = take_back,
        .thread_ends = thread_ends,
    };
}

bool sequence_open(struct source *s, PyObject *sequence)
{
    Py_ssize_t n = PySequence_Size(sequence);
    struct hr_source_calls calls = sequence_calls(s, n);

    if (n < 0)
        return false;
    if (PyObject_HasAttrString(sequence, "__getitems__"))
        calls.read_many = read_many;
    s->items = Py_NewRef(sequence);
    s->source = hr_source_of_calls(&calls);
    return s->source || core_raise_last(s->core);
}
