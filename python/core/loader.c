// SPDX-License-Identifier: Apache-2.0
// Loader: batches that are made ahead.
//
// Its work is apart from the Python object. An errand ends it: the loader's own
// threads may be in the Python code of a sequence, for ever, or be the thread
// that drops the object, in that code or in a job's callback. The list of all
// works, and what is in them, belongs to the thread that has the GIL, but for
// users, which the mutex guards, and ending, which is the errand's.
#include "flight.h"
#include "inputs.h"
#include "ops.h"
#include "tensor.h"

#include <stdlib.h>
#include <string.h>

struct work {
    struct work *prev, *next;
    hr_loader loader;  // NULL: closed
    hr_loader ending;
    PyObject *source, *device;
    struct held tables;
    struct lending *lending;
    unsigned generation;
    int users;  // threads in calls of the library, without the GIL
    int refs;   // the Python object's, and the errand's
};

struct loader {
    PyObject ob_base;
    struct work *work;
};

static struct work *works;
static bool closing;  // the interpreter exits
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER;

static const int64_t slice_ns = 50000000;  // between two looks for signals

static struct work *work_of(PyObject *self)
{
    return ((struct loader *)self)->work;
}

// ---- In use -----------------------------------------------------------------

static PyThreadState *enter(struct work *w)
{
    pthread_mutex_lock(&mutex);
    w->users++;
    pthread_mutex_unlock(&mutex);
    return PyEval_SaveThread();
}

static void leave(struct work *w, PyThreadState *gil)
{
    pthread_mutex_lock(&mutex);
    if (!--w->users)
        pthread_cond_broadcast(&idle);
    pthread_mutex_unlock(&mutex);
    PyEval_RestoreThread(gil);
}

// The open loader. NULL with an exception.
static hr_loader opened(PyObject *self)
{
    const struct work *w = work_of(self);

    if (!w->loader)
        return core_raise(core_of(self), HR_ECANCELED, "the loader is closed");
    if (w->generation != flight_generation())
        return core_raise(core_of(self), HR_EFORK,
                          "the loader is the parent process's");
    if (source_reading())
        return core_raise(core_of(self), HR_EINVAL,
                          "a sequence must not use the loader that reads it");
    return w->loader;
}

// ---- The end ----------------------------------------------------------------

static void unlink_work(struct work *w)
{
    *(w->prev ? &w->prev->next : &works) = w->next;
    if (w->next)
        w->next->prev = w->prev;
    w->prev = w->next = NULL;
}

static void leave_work(struct work *w)
{
    if (--w->refs)
        return;
    held_release(&w->tables);
    lending_leave(w->lending);
    Py_XDECREF(w->source);
    Py_XDECREF(w->device);
    free(w);
}

// Without the GIL, for which the loader's threads may ask.
static void end_loader(void *work)
{
    struct work *w = work;

    hr_loader_stop(w->ending);
    pthread_mutex_lock(&mutex);
    while (w->users)
        pthread_cond_wait(&idle, &mutex);
    pthread_mutex_unlock(&mutex);
    hr_loader_destroy(&w->ending);
}

static void ended(void *work)
{
    struct work *w = work;

    held_release(&w->tables);
    source_settle(w->source);
    leave_work(w);
}

// Waits for the end, as errand_do() does: what is not done by then goes on.
// False with an exception. Meanwhile another thread may drop the Python object.
static bool close_work(struct work *w, int64_t patience_ns, bool signals)
{
    if (!w->loader)
        return true;
    w->ending = w->loader;
    w->loader = NULL;
    w->refs++;
    unlink_work(w);
    if (w->generation != flight_generation()) {
        hr_loader_destroy(&w->ending);  // the parent's: nothing is waited for
        ended(w);
        return true;
    }
    if (errand_do(end_loader, NULL, ended, w, patience_ns, signals))
        ended(w);
    return !signals || !PyErr_Occurred();
}

void loader_forked(void)
{
    pthread_mutex_init(&mutex, NULL);
    pthread_cond_init(&idle, NULL);
}

void loader_init(void)
{
    closing = false;
    works = NULL;
}

void loader_exit(int64_t end)
{
    closing = true;
    while (works)
        close_work(works, 0, false);
    errand_exit(end);
}

// A thread that the loader's end waits for does not wait for it.
static bool may_wait(void)
{
    return !source_reading() && !flight_in_callback();
}

static PyObject *end(PyObject *self, PyObject *none)
{
    if (source_reading() && !opened(self))
        return NULL;
    if (!close_work(work_of(self), may_wait() ? -1 : 0, may_wait()))
        return NULL;
    Py_RETURN_NONE;
}

// A signal cannot raise an exception here, so it waits for a moment only.
static void dealloc(PyObject *self)
{
    const int64_t moment = 1000000000;
    struct work *w = work_of(self);
    PyObject *error, *value, *trace;

    PyObject_GC_UnTrack(self);
    PyErr_Fetch(&error, &value, &trace);
    if (w) {
        close_work(w, may_wait() ? moment : 0, false);
        leave_work(w);
    }
    PyErr_Restore(error, value, trace);
    core_free(self);
}

static int traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    if (work_of(self)) {
        Py_VISIT(work_of(self)->source);
        Py_VISIT(work_of(self)->device);
    }
    return 0;
}

// ---- Opening ----------------------------------------------------------------

struct view {
    struct hr_op ops[HR_MAX_OPS];
};

struct call {  // what the caller said
    PyObject *source, *ops, *device, *dtype, *layout, *memory, *weights,
        *resume;
    Py_buffer weights_view;
    struct view *lists;  // [views]
    struct hr_loader_view *views;
    struct hr_loader_state state;
    struct hr_loader_params params;
};

static bool read_form(struct call *c)
{
    struct tensor form = {0};

    if (!tensor_parse_form(c->dtype, c->layout, c->memory, &form))
        return false;
    c->params.dtype = form.dtype;
    c->params.layout = form.layout;
    c->params.memory = form.memory;
    if (form.memory == HR_MEMORY_DEVICE)
        return PyErr_SetString(core_argument_error(),
                               "memory: a loader's is 'host' or 'pinned'"),
               false;
    return true;
}

// False.
static bool refuse_range(const struct hr_loader_param *row, PyObject *value)
{
    PyErr_Format(core_argument_error(), "%s: %R is not in %lld .. %llu",
                 row->name, value, (long long)row->lo,
                 (unsigned long long)row->hi);
    return false;
}

// Bits of a whole number in its range. False with an exception.
static bool read_whole(const struct hr_loader_param *row, PyObject *value,
                       uint64_t *bits)
{
    PyObject *number = PyNumber_Index(value);
    bool out;

    if (!number)
        return PyErr_Format(PyExc_TypeError, "%s must be an int, not %R",
                            row->name, value),
               false;
    *bits = PyLong_AsUnsignedLongLong(number);
    out = !PyErr_Occurred() && *bits > row->hi;
    if (PyErr_Occurred()) {  // it may be below 0
        PyErr_Clear();
        *bits = (uint64_t)PyLong_AsLongLong(number);
        out = PyErr_Occurred() || (int64_t)*bits < row->lo;
        PyErr_Clear();
    }
    Py_DECREF(number);
    return !out || refuse_range(row, value);
}

static bool read_share(const struct hr_loader_param *row, PyObject *value,
                       double *share)
{
    *share = PyFloat_AsDouble(value);
    if (PyErr_Occurred())
        return false;
    return (*share >= (double)row->lo && *share <= (double)row->hi) ||
           refuse_range(row, value);
}

// Into the member that a row names.
static bool read_param(const struct hr_loader_param *row, PyObject *value,
                       struct hr_loader_params *params)
{
    void *at = (char *)params + row->offset;
    uint64_t bits;
    int number;

    switch (row->kind) {
    case HR_PARAM_BOOL:
        if ((number = PyObject_IsTrue(value)) >= 0)
            *(bool *)at = number;
        return number >= 0;
    case HR_PARAM_DOUBLE:
        return read_share(row, value, at);
    case HR_PARAM_WORD:
        if ((number = core_choice(value, row->name, row->words)) >= 0)
            *(int *)at = number;
        return number >= 0;
    default:
        if (!read_whole(row, value, &bits))
            return false;
        if (row->kind == HR_PARAM_INT || row->kind == HR_PARAM_UINT32)
            *(uint32_t *)at = (uint32_t)bits;
        else
            *(uint64_t *)at = bits;
        return true;
    }
}

// Reads the parameters of the table from kwargs to params.
static bool read_params(PyObject *kwargs, struct hr_loader_params *params)
{
    const struct hr_loader_param *row;
    PyObject *value;

    for (int i = 0; kwargs && (row = hr_loader_param(i)); i++)
        if ((value = PyDict_GetItemString(kwargs, row->name)) &&
            (!read_param(row, value, params) ||
             PyDict_DelItemString(kwargs, row->name)))
            return false;
    return true;
}

PyObject *loader_check(PyObject *module, PyObject *given)
{
    PyObject *rest = PyDict_Copy(given);
    struct hr_loader_params params = {0};
    bool done = rest && read_params(rest, &params);

    Py_XDECREF(rest);
    return done ? Py_NewRef(Py_None) : NULL;
}

// A table needs as many channels as the pictures have.
static int read_list(PyObject *list, struct hr_op *ops, struct held *tables)
{
    struct held one = {0};
    int n = ops_parse(list, 1, ops, &one);
    int channels = n > 0 ? hr_ops_channels(ops, n, 1) : 1;

    held_release(&one);
    return n < 0 ? n : ops_parse(list, channels, ops, tables);
}

// One list of ops, or views: a tuple of such lists.
static bool read_ops(struct call *c, struct held *tables)
{
    Py_ssize_t n = PyTuple_Check(c->ops) ? PyTuple_Size(c->ops) : 0;
    PyObject *first = n > 0 ? PyTuple_GetItem(c->ops, 0) : NULL;
    bool views = first && PyTuple_Check(first) && PyTuple_Size(first) > 0 &&
                 PyTuple_Check(PyTuple_GetItem(first, 0));

    n = views ? n : 1;
    c->lists = calloc((size_t)n, sizeof(*c->lists));
    c->views = calloc((size_t)n, sizeof(*c->views));
    if (!c->lists || !c->views)
        return PyErr_NoMemory(), false;
    for (Py_ssize_t i = 0; i < n; i++) {
        c->views[i].ops = c->lists[i].ops;
        c->views[i].num_ops = read_list(views ? PyTuple_GetItem(c->ops, i)
                                              : c->ops,
                                        c->lists[i].ops, tables);
        if (c->views[i].num_ops < 0)
            return false;
    }
    if (views) {
        c->params.views = c->views;
        c->params.num_views = (int)n;
    } else {
        c->params.ops = c->views[0].ops;
        c->params.num_ops = c->views[0].num_ops;
    }
    return true;
}

static bool read_weights(struct call *c)
{
    Py_buffer *view = &c->weights_view;
    uint64_t n = source_get(c->source)->num;

    if (!c->weights || c->weights == Py_None)
        return true;
    if (PyObject_GetBuffer(c->weights, view, PyBUF_C_CONTIGUOUS))
        return false;
    if ((uint64_t)view->len % sizeof(double) ||
        (uint64_t)view->len / sizeof(double) != n)
        return PyErr_SetString(core_argument_error(),
                               "weights: a float64 for each sample"),
               false;
    c->params.weights = view->buf;
    return true;
}

static bool read_resume(struct core *core, struct call *c)
{
    Py_ssize_t size;
    char *bytes;

    if (!c->resume || c->resume == Py_None)
        return true;
    if (PyBytes_AsStringAndSize(c->resume, &bytes, &size))
        return false;
    if (size != sizeof(c->state.bytes))
        return core_raise(core, HR_EINVAL, "this is not a loader's state"),
               false;
    memcpy(c->state.bytes, bytes, sizeof(c->state.bytes));
    c->params.resume = &c->state;
    return true;
}

static bool read_call(struct core *core, PyObject *args, PyObject *kwargs,
                      struct call *c)
{
    static char *names[] = {"source", "ops",     "device", "dtype", "layout",
                            "memory", "weights", "resume", NULL};
    PyObject *rest = kwargs ? PyDict_Copy(kwargs) : PyDict_New();
    bool done = rest && read_params(rest, &c->params) &&
                PyArg_ParseTupleAndKeywords(args, rest, "O!O|$OOOOOO:Loader",
                                            names, core->source, &c->source,
                                            &c->ops, &c->device, &c->dtype,
                                            &c->layout, &c->memory, &c->weights,
                                            &c->resume);

    Py_XDECREF(rest);  // the caller has what is in it
    return done && read_form(c) && read_weights(c) && read_resume(core, c);
}

static bool open_work(struct core *core, struct work *w, struct call *c)
{
    hr_device dev;

    if (closing)
        return core_raise(core, HR_ECANCELED, "the interpreter exits"), false;
    if (!(w->lending = calloc(1, sizeof(*w->lending))))
        return PyErr_NoMemory(), false;
    w->lending->refs = 1;
    w->generation = flight_generation();
    w->source = Py_NewRef(c->source);
    w->device = Py_XNewRef(c->device);
    if (!read_ops(c, &w->tables) || !device_find(core, c->device, &dev))
        return false;
    c->params.source = source_get(c->source);
    c->params.device = dev;
    WITHOUT_GIL(w->loader = hr_loader_create(&c->params);
                hr_device_close(&dev));  // the loader has it
    if (!w->loader)
        return core_raise_last(core), false;
    if ((w->next = works))
        works->prev = w;
    works = w;
    return true;
}

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct core *core = core_of_type(type);
    struct call c = {0};
    struct loader *self = NULL;

    if (core_alive(core) && read_call(core, args, kwargs, &c) &&
        (self = (struct loader *)PyType_GenericAlloc(type, 0))) {
        PyObject_GC_UnTrack(self);  // the collector must not show it half made
        if ((self->work = calloc(1, sizeof(*self->work))))
            self->work->refs = 1;
        else
            PyErr_NoMemory();
        if (self->work && open_work(core, self->work, &c))
            PyObject_GC_Track(self);
        else
            Py_CLEAR(self);
    }
    if (c.weights_view.obj)
        PyBuffer_Release(&c.weights_view);
    free(c.lists);
    free(c.views);
    return (PyObject *)self;
}

// ---- Next -------------------------------------------------------------------

// Waits for a slice of time at most.
static enum hr_status wait_slice(PyObject *self, int64_t ns, hr_loaded *loaded)
{
    struct work *w = work_of(self);
    hr_loader loader = w->loader;
    PyThreadState *gil = enter(w);
    enum hr_status status;

    status = hr_loader_next(loader, ns < slice_ns ? ns : slice_ns, loaded);
    leave(w, gil);
    return status;
}

// With the facts of the sample, if it is one's.
static PyObject *raise_failed(PyObject *self, enum hr_status status)
{
    uint64_t index;
    const struct hr_result *failed = hr_loader_failed(&index);
    struct hr_result result;
    PyObject *file;

    if (!failed || failed->status != status)
        return core_raise_last(core_of(self));
    result = *failed;
    if ((file = source_file(work_of(self)->source, index, &result)))
        core_raise_result(core_of(self), &result, file);
    Py_XDECREF(file);
    return NULL;
}

static PyObject *next(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct work *w = work_of(self);
    enum hr_status status;
    hr_loaded loaded;
    int64_t left, end;
    bool copy;

    if (!core_timeout(args, kwargs, "|O:next", INT64_MAX / 2, &left))
        return NULL;
    if (flight_in_callback())
        return core_raise(core_of(self), HR_EINVAL,
                          "a callback must not wait for a loader");
    for (end = core_now() + left;; left = end - core_now()) {
        if (!opened(self))
            return NULL;
        status = wait_slice(self, left < 0 ? 0 : left, &loaded);
        if (status != HR_PENDING)
            break;
        if (PyErr_CheckSignals())
            return NULL;
        if (left <= 0)
            return core_raise(core_of(self), HR_ETIMEDOUT,
                              "no batch was ready in time");
    }
    if (status)
        return raise_failed(self, status);
    if (!loaded)
        Py_RETURN_NONE;
    source_settle(w->source);
    // One batch must stay with the loader, or it could make no other.
    copy = !w->loader || w->lending->lent + 1 >= w->loader->depth;
    return loaded_new(core_of(self), w->source, loaded, w->lending, copy);
}

// ---- What else there is to know ---------------------------------------------

static PyObject *save(PyObject *self, PyObject *none)
{
    struct work *w = work_of(self);
    hr_loader loader = opened(self);
    struct hr_loader_state state;
    enum hr_status status;
    PyThreadState *gil;

    if (!loader)
        return NULL;
    gil = enter(w);
    status = hr_loader_save(loader, &state);
    leave(w, gil);
    if (status)
        return core_raise_last(core_of(self));
    return PyBytes_FromStringAndSize((const char *)state.bytes,
                                     sizeof(state.bytes));
}

static PyObject *stats(PyObject *self, PyObject *none)
{
    struct work *w = work_of(self);
    hr_loader loader = opened(self);
    struct hr_loader_stats s;
    PyThreadState *gil;

    if (!loader)
        return NULL;
    gil = enter(w);
    hr_loader_stats(loader, &s);
    leave(w, gil);
    return Py_BuildValue(
        "{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:d,s:i,s:i,s:n,s:n,s:n,s:i,"
        "s:d,s:d,s:d,s:d,s:d,s:K,s:K,s:{s:i,s:i,s:i,s:n}}",
        "batches", (unsigned long long)s.batches, "samples",
        (unsigned long long)s.samples, "failed", (unsigned long long)s.failed,
        "replaced", (unsigned long long)s.replaced, "pillow",
        (unsigned long long)s.by_decoder, "dropped",
        (unsigned long long)s.dropped, "waits", (unsigned long long)s.waits,
        "wait_seconds", (double)s.wait_ns / 1e9, "ready", s.ready, "reading",
        s.reading, "batch_bytes", (Py_ssize_t)s.batch_bytes, "encoded_bytes",
        (Py_ssize_t)s.encoded_bytes, "peak_encoded_bytes",
        (Py_ssize_t)s.peak_encoded_bytes, "lent", w->lending->lent,
        "mean_ready", s.mean_ready, "mean_reading", s.mean_reading,
        "mean_making", s.mean_making, "starved", s.starved, "waited", s.waited,
        "tune_steps", (unsigned long long)s.tune_steps, "tune_backs",
        (unsigned long long)s.tune_backs, "settings", "threads",
        s.settings.threads, "reads", s.settings.reads, "depth",
        s.settings.depth, "bytes", (Py_ssize_t)s.settings.bytes);
}

static PyObject *fileno_of(PyObject *self, PyObject *none)
{
    hr_loader loader = opened(self);

    return loader ? PyLong_FromLong(loader->fd) : NULL;
}

static PyObject *get_depth(PyObject *self, void *closure)
{
    hr_loader loader = opened(self);

    return loader ? PyLong_FromLong(loader->depth) : NULL;
}

// closure: whether these are batches.
static PyObject *get_number(PyObject *self, void *closure)
{
    hr_loader loader = opened(self);

    return loader ? PyLong_FromUnsignedLongLong(closure ? loader->batches
                                                        : loader->samples)
                  : NULL;
}

static PyMethodDef methods[] = {
    {"next", (PyCFunction)(void (*)(void))next, METH_VARARGS | METH_KEYWORDS,
     "next($self, /, timeout=None)\n--\n\n"
     "Return the next batch, a Loaded; None behind the last epoch."},
    {"save", save, METH_NOARGS,
     "save($self, /)\n--\n\nReturn where it stands, for resume."},
    {"stats", stats, METH_NOARGS, "stats($self, /)\n--\n\nReturn a dict."},
    {"fileno", fileno_of, METH_NOARGS,
     "fileno($self, /)\n--\n\n"
     "Return a descriptor that is readable while next() would not wait."},
    {"close", end, METH_NOARGS,
     "close($self, /)\n--\n\n"
     "End it, and wait for its threads; batches stay as they are."},
    {0},
};

static PyGetSetDef getset[] = {
    {"depth", get_depth, NULL, "batches that it has memory for", NULL},
    {"samples", get_number, NULL, "of an epoch, of this shard", NULL},
    {"batches", get_number, NULL, "of an epoch", (void *)1},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "Loader(source, ops, *, device=None, dtype=None, layout=None,\n"
     "       memory=None, weights=None, resume=None, **params)\n--\n\n"
     "Batches of a Source, made ahead; see headrace.Loader. params: of\n"
     "struct hr_loader_params, by their names; 'start.reads': of start."},
    {Py_tp_new, create},
    {Py_tp_dealloc, dealloc},
    {Py_tp_traverse, traverse},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {0},
};

PyType_Spec loader_spec = CORE_SPEC("Loader", struct loader, slots,
                                    Py_TPFLAGS_HAVE_GC);
