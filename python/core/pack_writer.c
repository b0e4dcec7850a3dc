// SPDX-License-Identifier: Apache-2.0
// PackWriter: a pack file in the making, for headrace.packjob. It takes the
// samples of a Source one by one, as 'headrace pack' does: the same samples
// make the same file.
#include "inputs.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

struct writer {
    PyObject ob_base;
    hr_pack_writer writer;  // NULL: closed
    // Threads take turns. It is taken without the GIL.
    pthread_mutex_t turn;
    struct hr_encoded read;  // its memory is used again
};

static struct writer *writer_of(PyObject *self)
{
    return (struct writer *)self;
}

// Takes the turn. False with an exception: there is nothing to write to.
static bool begin(PyObject *self)
{
    struct core *core = core_of(self);
    struct writer *w = writer_of(self);

    if (!core_alive(core))
        return false;
    WITHOUT_GIL(pthread_mutex_lock(&w->turn));
    if (w->writer)
        return true;
    pthread_mutex_unlock(&w->turn);
    core_raise(core, HR_EINVAL, "the pack file is finished or closed");
    return false;
}

static void end(PyObject *self)
{
    pthread_mutex_unlock(&writer_of(self)->turn);
}

// ---- Opening and closing ----------------------------------------------------

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"path", NULL};
    struct core *core = core_of_type(type);
    PyObject *path, *held;
    struct writer *w;
    const char *text;

    if (!core_alive(core) ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "O:PackWriter", names,
                                     &path) ||
        !(held = path_of(core, path, &text)))
        return NULL;
    if ((w = (struct writer *)PyType_GenericAlloc(type, 0))) {
        pthread_mutex_init(&w->turn, NULL);
        WITHOUT_GIL(w->writer = hr_pack_writer_open(text));  // reads it
        if (!w->writer) {
            Py_DECREF(w);
            w = core_raise_last(core);
        }
    }
    Py_DECREF(held);
    return (PyObject *)w;
}

static void shut(struct writer *w)
{
    hr_pack_writer_close(&w->writer);
    hr_encoded_finish(&w->read);
    w->read = (struct hr_encoded){0};
}

static PyObject *close_it(PyObject *self, PyObject *none)
{
    struct writer *w = writer_of(self);

    WITHOUT_GIL(pthread_mutex_lock(&w->turn); shut(w);
                pthread_mutex_unlock(&w->turn));
    Py_RETURN_NONE;
}

// No other thread has it. (In the child of a fork a thread that is not there
// may seem to have its turn.)
static void dealloc(PyObject *self)
{
    WITHOUT_GIL(shut(writer_of(self)));
    core_free(self);
}

// ---- Classes ----------------------------------------------------------------

static PyObject *classes(PyObject *self, PyObject *args)
{
    struct core *core = core_of(self);
    enum hr_status status;
    PyObject *source;

    if (!PyArg_ParseTuple(args, "O!:classes", core->source, &source) ||
        !begin(self))
        return NULL;
    status = hr_source_pack_classes(source_get(source),
                                    writer_of(self)->writer);
    end(self);
    return core_done(core, status);
}

// ---- A sample ---------------------------------------------------------------

static enum hr_status read_sample(hr_source source, uint64_t i,
                                  struct hr_encoded *read,
                                  struct hr_pack_entry *entry)
{
    enum hr_status status = hr_source_read(source, i, 0, read);

    if (status)
        return status;
    entry->data = read->data ? read->data : "";
    entry->size = read->size;
    // It came from a pack file, or the file is a packed picture.
    entry->packed = read->packed || hr_packed_check(entry->data, entry->size);
    entry->source = read->packed ? read->source : read->size;
    return HR_OK;
}

// The outcome of a sample.
struct taken {
    enum hr_status status;  // of the writer, or HR_ENOMEM
    enum hr_status read;    // not HR_OK: it cannot be read, nothing was added
    enum hr_status why;     // not HR_OK: it is kept as it is
};

static struct taken take_sample(struct writer *w, hr_source source, uint64_t i)
{
    char name[4096];  // PATH_MAX
    struct hr_pack_entry entry = {
        .name = hr_source_name(source, i, name, sizeof(name)),
        .label = hr_source_item(source, i).label,
    };
    struct taken t = {.read = read_sample(source, i, &w->read, &entry)};
    void *packed = NULL;
    size_t size;

    if (!t.read && !entry.packed) {
        t.why = hr_pack(entry.data, entry.size, NULL, &packed, &size);
        if (!t.why) {
            entry.data = packed;
            entry.size = size;
            entry.packed = true;
        }
    }
    if (t.read == HR_ENOMEM || t.why == HR_ENOMEM)
        t.status = HR_ENOMEM;
    else if (!t.read)
        t.status = hr_pack_writer_add(w->writer, &entry);
    hr_packed_free(packed);
    return t;
}

static PyObject *take(PyObject *self, PyObject *args)
{
    struct core *core = core_of(self);
    struct taken taken;
    PyObject *source;
    Py_ssize_t i;

    if (!PyArg_ParseTuple(args, "O!n:take", core->source, &source, &i) ||
        !begin(self))
        return NULL;
    WITHOUT_GIL(
        taken = take_sample(writer_of(self), source_get(source), (uint64_t)i));
    end(self);
    if (taken.status)
        return core_raise_last(core);
    if (taken.read)
        return Py_BuildValue("(ON)", Py_None,
                             PyUnicode_DecodeFSDefault(hr_last_error()));
    return Py_BuildValue("(zz)", taken.why ? hr_status_text(taken.why) : NULL,
                         NULL);
}

// ---- What is there ----------------------------------------------------------

static PyObject *facts(const char *name, const char *label, uint64_t source)
{
    return Py_BuildValue("(NNK)", PyUnicode_DecodeFSDefault(name),
                         PyUnicode_DecodeFSDefault(label),
                         (unsigned long long)source);
}

// Bytes of the file that a sample is, or was made of, without reading it if
// that can be known.
static enum hr_status size_of(hr_source source, uint64_t i, uint64_t *size)
{
    char path[4096];  // PATH_MAX
    struct hr_encoded read = {0};
    struct hr_pack_entry entry;
    enum hr_status status;
    struct stat st;
    struct hr_source_item of = hr_source_item(source, i);

    if (of.pack && !(status = hr_pack_entry(of.pack, of.number, &entry))) {
        *size = entry.source;
        return HR_OK;
    }
    if (of.is_file &&
        !stat(hr_source_path(source, i, path, sizeof(path)), &st) &&
        S_ISREG(st.st_mode) && !access(path, R_OK)) {
        *size = (uint64_t)st.st_size;
        return HR_OK;
    }
    if (!(status = hr_source_read(source, i, 0, &read)))
        *size = read.size;
    hr_encoded_finish(&read);
    return status;
}

PyObject *pack_writer_entry_of(struct core *core, hr_source source, uint64_t i)
{
    char name[4096];
    enum hr_status status;
    uint64_t size = 0;

    WITHOUT_GIL(status = size_of(source, i, &size));
    if (status)
        return core_raise_last(core);
    return facts(hr_source_name(source, i, name, sizeof(name)),
                 hr_source_item(source, i).label, size);
}

static PyObject *entry(PyObject *self, PyObject *number)
{
    size_t i = PyLong_AsSize_t(number);
    struct hr_pack_entry e;
    PyObject *found;

    if ((i == (size_t)-1 && PyErr_Occurred()) || !begin(self))
        return NULL;
    if (hr_pack_writer_entry(writer_of(self)->writer, i, &e))
        found = core_raise_last(core_of(self));
    else
        found = facts(e.name, e.label, e.source);
    end(self);
    return found;
}

static Py_ssize_t length(PyObject *self)
{
    Py_ssize_t num;

    if (!begin(self))
        return -1;
    num = (Py_ssize_t)writer_of(self)->writer->num;
    end(self);
    return num;
}

static PyObject *cut(PyObject *self, PyObject *number)
{
    size_t num = PyLong_AsSize_t(number);
    enum hr_status status;

    if ((num == (size_t)-1 && PyErr_Occurred()) || !begin(self))
        return NULL;
    status = hr_pack_writer_cut(writer_of(self)->writer, num);
    end(self);
    return core_done(core_of(self), status);
}

static PyObject *finish(PyObject *self, PyObject *none)
{
    struct writer *w = writer_of(self);
    enum hr_status status;
    PyThreadState *gil;

    if (!begin(self))
        return NULL;
    gil = PyEval_SaveThread();
    if (!(status = hr_pack_writer_finish(w->writer)))
        hr_pack_writer_close(&w->writer);
    PyEval_RestoreThread(gil);
    end(self);
    return core_done(core_of(self), status);
}

// ---- The type ---------------------------------------------------------------

static PyMethodDef methods[] = {
    {"take", take, METH_VARARGS,
     "take($self, source, number, /)\n--\n\n"
     "Read a sample of a Source, pack it, and add it. Return (why it could\n"
     "not be packed and is kept as it is, why it could not be read and is\n"
     "left out): texts or None. Raises what is wrong with the writer."},
    {"classes", classes, METH_VARARGS,
     "classes($self, source, /)\n--\n\n"
     "Say the classes of a Source, also those that no sample has."},
    {"entry", entry, METH_O,
     "entry($self, number, /)\n--\n\n"
     "Return (name, label, bytes of its file) of a picture that is there."},
    {"cut", cut, METH_O,
     "cut($self, num, /)\n--\n\nKeep the first num pictures only."},
    {"finish", finish, METH_NOARGS,
     "finish($self, /)\n--\n\nWrite the index, and give the file its name."},
    {"close", close_it, METH_NOARGS,
     "close($self, /)\n--\n\nLeave what is there to the next writer."},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "PackWriter(path)\n--\n\n"
                "A pack file in the making, PATH.part until finish(). It goes\n"
                "on with what an earlier writer has left: len() pictures. One\n"
                "writer a file; threads take turns."},
    {Py_tp_new, create},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {Py_sq_length, length},
    {0},
};

PyType_Spec pack_writer_spec = CORE_SPEC("PackWriter", struct writer, slots, 0);
