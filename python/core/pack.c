// SPDX-License-Identifier: Apache-2.0
// PackFile and PackEntry: a data set in one file, and one picture of it.
#include "inputs.h"

#include <fcntl.h>
#include <stddef.h>
#include <structmember.h>
#include <sys/stat.h>
#include <unistd.h>

// Bytes at the begin of a pack file that no other contents begin with: numbers
// and checksums of everything.
#define HEADER 64
#define OURS "headrace.packs"

struct pack {
    PyObject ob_base;
    hr_pack_file file;
    uint8_t header[HEADER];
    PyObject *weak;
};

struct entry {
    PyObject ob_base;
    PyObject *pack;  // keeps the file open
    size_t number;
};

static struct pack *pack_of(PyObject *self)
{
    return (struct pack *)self;
}

static hr_pack_file file_of(PyObject *entry)
{
    return pack_of(((struct entry *)entry)->pack)->file;
}

static size_t number_of(PyObject *entry)
{
    return ((struct entry *)entry)->number;
}

static struct hr_pack_entry facts_of(PyObject *entry)
{
    struct hr_pack_entry e;

    hr_pack_entry(file_of(entry), number_of(entry), &e);
    return e;
}

static PyObject *text_of(const char *text)
{
    return PyUnicode_DecodeFSDefault(text);  // names have any encoding
}

// ---- Opening ----------------------------------------------------------------

static bool read_header(const char *path, struct stat *st, uint8_t *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool done = fd >= 0 && !fstat(fd, st) &&
                pread(fd, out, HEADER, 0) == HEADER;

    if (fd >= 0)
        close(fd);
    return done;
}

static bool same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

// The file, and its header: of that file, although both are found by a path
// that a thread may give to another one meanwhile. HR_EAGAIN: one does,
// each time; others: hr_last_error().
static enum hr_status open_file(const char *path, uint8_t *header,
                                hr_pack_file *file)
{
    for (int i = 0; i < 8; i++) {
        struct stat before, after;
        bool had = read_header(path, &before, header);

        if (!(*file = hr_pack_open(path)))
            return hr_last_status();
        if (had && read_header(path, &after, header) && same(&before, &after))
            return HR_OK;
        hr_pack_close(file);
    }
    return HR_EAGAIN;
}

static PyObject *make_file(struct core *core, const char *path)
{
    struct pack *self = (struct pack *)PyType_GenericAlloc(core->pack, 0);
    enum hr_status status;

    if (!self)
        return NULL;
    WITHOUT_GIL(status = open_file(path, self->header, &self->file));
    if (!status)
        return (PyObject *)self;
    Py_DECREF(self);
    if (status == HR_EAGAIN)
        return core_raise(core, HR_EIO,
                          "the pack file is replaced all the time");
    return core_raise_last(core);
}

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"path", NULL};
    struct core *core = core_of_type(type);
    PyObject *path, *held, *done, *self = NULL;
    const char *text;

    if (!core_alive(core) ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "O:PackFile", names,
                                     &path) ||
        !(path = core_call(OURS, "_absolute", path)))
        return NULL;
    if ((held = path_of(core, path, &text)))
        self = make_file(core, text);
    Py_XDECREF(held);
    Py_DECREF(path);
    if (!self)
        return NULL;
    if (!(done = core_call(OURS, "_opened", self)))
        Py_CLEAR(self);
    Py_XDECREF(done);
    return self;
}

static void pack_dealloc(PyObject *self)
{
    if (pack_of(self)->weak)
        PyObject_ClearWeakRefs(self);
    WITHOUT_GIL(hr_pack_close(&pack_of(self)->file));  // unmaps gigabytes
    core_free(self);
}

// ---- PackFile ---------------------------------------------------------------

static Py_ssize_t pack_length(PyObject *self)
{
    return (Py_ssize_t)pack_of(self)->file->num;
}

// Number of the picture of that name. -1 with a KeyError.
static Py_ssize_t find(PyObject *self, PyObject *name)
{
    PyObject *bytes = PyUnicode_EncodeFSDefault(name);
    enum hr_status status;
    Py_ssize_t size;
    char *text;
    size_t i;

    if (!bytes || PyBytes_AsStringAndSize(bytes, &text, &size)) {
        Py_XDECREF(bytes);
        return -1;
    }
    status = hr_pack_find(pack_of(self)->file, text, (size_t)size, &i);
    Py_DECREF(bytes);
    if (!status)
        return (Py_ssize_t)i;
    PyErr_SetObject(PyExc_KeyError, name);
    return -1;
}

static PyObject *make_entry(struct core *core, PyObject *pack, Py_ssize_t i)
{
    struct entry *entry = PyObject_New(struct entry, core->entry);

    if (!entry)
        return NULL;
    entry->pack = Py_NewRef(pack);
    entry->number = (size_t)i;
    return (PyObject *)entry;
}

// Numbers as of a sequence: its end is how a loop knows that it is done.
static PyObject *pack_item(PyObject *self, Py_ssize_t i)
{
    struct core *core = core_of(self);

    if (!core_alive(core))
        return NULL;
    if (i >= 0 && i < pack_length(self))
        return make_entry(core, self, i);
    PyErr_Format(PyExc_IndexError, "picture %zd of %zd", i, pack_length(self));
    return NULL;
}

static PyObject *pack_subscript(PyObject *self, PyObject *key)
{
    Py_ssize_t i;

    if (PyUnicode_Check(key)) {
        i = find(self, key);
        return i < 0 ? NULL : pack_item(self, i);
    }
    i = PyNumber_AsSsize_t(key, PyExc_IndexError);
    if (i == -1 && PyErr_Occurred())
        return NULL;
    return pack_item(self, i < 0 ? i + pack_length(self) : i);
}

static int pack_contains(PyObject *self, PyObject *name)
{
    if (!PyUnicode_Check(name))
        return 0;
    if (find(self, name) >= 0)
        return 1;
    if (!PyErr_ExceptionMatches(PyExc_KeyError))
        return -1;
    PyErr_Clear();
    return 0;
}

static PyObject *name_of(const void *file, size_t i)
{
    struct hr_pack_entry e;

    hr_pack_entry((hr_pack_file)file, i, &e);
    return text_of(e.name);
}

static PyObject *label_of(const void *file, size_t i)
{
    struct hr_pack_entry e;

    hr_pack_entry((hr_pack_file)file, i, &e);
    return text_of(e.label);
}

static PyObject *get_names(PyObject *self, void *closure)
{
    hr_pack_file file = pack_of(self)->file;

    return core_tuple((Py_ssize_t)file->num, closure ? label_of : name_of,
                      file);
}

static PyObject *class_of(const void *list, size_t i)
{
    const struct hr_pack_class *c = &((const struct hr_pack_class *)list)[i];

    return Py_BuildValue("NL", text_of(c->label), (long long)c->number);
}

static PyObject *get_classes(PyObject *self, void *closure)
{
    hr_pack_file file = pack_of(self)->file;
    struct hr_pack_class *list = PyMem_Calloc(file->num_classes + 1,
                                              sizeof(*list));
    PyObject *tuple;

    if (!list)
        return PyErr_NoMemory();
    hr_pack_classes(file, list);
    tuple = core_tuple((Py_ssize_t)file->num_classes, class_of, list);
    PyMem_Free(list);
    return tuple;
}

static PyObject *get_fixed(PyObject *self, void *closure)
{
    return PyBool_FromLong(pack_of(self)->file->fixed);
}

static PyObject *get_path(PyObject *self, void *closure)
{
    return text_of(pack_of(self)->file->path);
}

static PyObject *get_packed(PyObject *self, void *closure)
{
    return PyLong_FromSize_t(pack_of(self)->file->packed);
}

static PyObject *get_bytes(PyObject *self, void *closure)
{
    const char *at = (const char *)pack_of(self)->file + (size_t)closure;

    return PyLong_FromUnsignedLongLong(*(const uint64_t *)at);
}

static PyObject *get_fingerprint(PyObject *self, void *closure)
{
    return PyBytes_FromStringAndSize((const char *)pack_of(self)->header,
                                     HEADER);
}

static PyObject *pack_represent(PyObject *self)
{
    PyObject *path = get_path(self, NULL), *text = NULL;

    if (path)
        text = PyUnicode_FromFormat("<headrace.PackFile %R, %zd pictures>",
                                    path, pack_length(self));
    Py_XDECREF(path);
    return text;
}

static PyObject *pack_reduce(PyObject *self, PyObject *none)
{
    return core_call(OURS, "_reduce", self);
}

static PyMethodDef pack_methods[] = {
    {"__reduce__", pack_reduce, METH_NOARGS,
     "__reduce__($self, /)\n--\n\nIt pickles as its path."},
    {0},
};

static PyMemberDef pack_members[] = {WEAK_MEMBER(struct pack), {0}};

#define AT(field) (void *)offsetof(struct hr_pack_file_t, field)
static PyGetSetDef pack_getset[] = {
    {"path", get_path, NULL, "of the file, as it was opened", NULL},
    {"names", get_names, NULL, "tuple of the pictures' names", NULL},
    {"labels", get_names, NULL, "tuple of their labels; '': none", (void *)1},
    {"classes", get_classes, NULL,
     "pairs (label, number) of all classes; (): the labels are the classes",
     NULL},
    {"fixed", get_fixed, NULL,
     "whether the numbers of classes hold, or only the labels' order", NULL},
    {"packed", get_packed, NULL, "how many are packed, not kept as they were",
     NULL},
    {"bytes", get_bytes, NULL, "of the file", AT(bytes)},
    {"data_bytes", get_bytes, NULL, "of the pictures in it", AT(data_bytes)},
    {"source_bytes", get_bytes, NULL, "of the files that they were made of",
     AT(source_bytes)},
    {"_fingerprint", get_fingerprint, NULL, "bytes that no other contents have",
     NULL},
    {0},
};
#undef AT

static PyType_Slot pack_slots[] = {
    {Py_tp_doc,
     "PackFile(path)\n--\n\n"
     "A pack file of 'headrace pack', opened: pack[7] and pack['dir/cat.jpg']\n"
     "are its pictures, PackEntry, which are sources like paths and bytes.\n\n"
     "Opening reads the header and the index; a picture is read when it is\n"
     "used. The file is mapped: processes share its memory. It closes with\n"
     "the last reference to it, a picture or a job of it. It pickles as its\n"
     "absolute path, and refuses to arrive at a file with other contents.\n\n"
     "Errors: headrace.ReadError; headrace.PictureError for a file that is no\n"
     "pack file, or cut, or damaged; IndexError, KeyError. The file must not\n"
     "change while it is open; to replace it, rename another one to its\n"
     "name. Threads: any."},
    {Py_tp_new, create},
    {Py_tp_dealloc, pack_dealloc},
    {Py_tp_repr, pack_represent},
    {Py_tp_methods, pack_methods},
    {Py_tp_members, pack_members},
    {Py_tp_getset, pack_getset},
    {Py_mp_length, pack_length},
    {Py_mp_subscript, pack_subscript},
    {Py_sq_length, pack_length},
    {Py_sq_item, pack_item},
    {Py_sq_contains, pack_contains},
    {0},
};

PyType_Spec pack_spec = CORE_SPEC("PackFile", struct pack, pack_slots, 0);

// ---- PackEntry --------------------------------------------------------------

bool entry_sample(struct core *core, PyObject *self, struct hr_sample *sample)
{
    enum hr_status status;

    WITHOUT_GIL(
        status = hr_pack_sample(file_of(self), number_of(self), sample));
    if (status)
        return core_raise_last(core), false;
    // A pointer to nothing would not be a source.
    if (!sample->size)
        sample->data = "";
    return true;
}

void entry_passed(PyObject *self)
{
    hr_pack_passed(file_of(self), number_of(self));
}

PyObject *entry_place(PyObject *self)
{
    PyObject *pack = text_of(file_of(self)->path);
    PyObject *name = text_of(facts_of(self).name), *place = NULL;

    if (pack && name)
        place = PyUnicode_FromFormat("%U/%U", pack, name);
    Py_XDECREF(pack);
    Py_XDECREF(name);
    return place;
}

static int get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    struct core *core = core_of(self);
    struct hr_pack_entry e;
    enum hr_status status;

    view->obj = NULL;
    if (!core_alive(core))
        return -1;
    WITHOUT_GIL(status = hr_pack_check(file_of(self), number_of(self)));
    if (status)
        return core_raise_last(core), -1;
    e = facts_of(self);
    return PyBuffer_FillInfo(view, self, (void *)e.data, (Py_ssize_t)e.size, 1,
                             flags);
}

// A name, a label.
static PyObject *get_text(PyObject *self, void *closure)
{
    struct hr_pack_entry e = facts_of(self);

    return text_of(closure ? e.label : e.name);
}

static PyObject *get_file(PyObject *self, void *closure)
{
    return entry_place(self);
}

static PyObject *get_is_packed(PyObject *self, void *closure)
{
    return PyBool_FromLong(facts_of(self).packed);
}

static PyObject *get_source_bytes(PyObject *self, void *closure)
{
    return PyLong_FromUnsignedLongLong(facts_of(self).source);
}

static PyObject *entry_check(PyObject *self, PyObject *none)
{
    Py_buffer view;

    if (get_buffer(self, &view, PyBUF_SIMPLE))
        return NULL;
    PyBuffer_Release(&view);
    Py_RETURN_NONE;
}

static PyObject *entry_reduce(PyObject *self, PyObject *none)
{
    return core_call(OURS, "_reduce_entry", self);
}

static PyObject *entry_represent(PyObject *self)
{
    PyObject *place = entry_place(self), *text = NULL;

    if (place)
        text = PyUnicode_FromFormat("<headrace.PackEntry %R>", place);
    Py_XDECREF(place);
    return text;
}

static PyObject *entry_compare(PyObject *self, PyObject *other, int op)
{
    bool equal = Py_TYPE(self) == Py_TYPE(other) &&
                 file_of(self) == file_of(other) &&
                 number_of(self) == number_of(other);

    if (op != Py_EQ && op != Py_NE)
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong(equal == (op == Py_EQ));
}

static Py_hash_t entry_hash(PyObject *self)
{
    size_t file = (uintptr_t)file_of(self) >> 4;

    return (Py_hash_t)((file ^ number_of(self) * 0x9E3779B97F4A7C15u) >> 1);
}

static void entry_dealloc(PyObject *self)
{
    Py_DECREF(((struct entry *)self)->pack);
    core_free(self);
}

static PyMethodDef entry_methods[] = {
    {"check", entry_check, METH_NOARGS,
     "check($self, /)\n--\n\n"
     "Read the picture, if this process has not yet, and raise\n"
     "headrace.PictureError if it is not what was written."},
    {"__reduce__", entry_reduce, METH_NOARGS,
     "__reduce__($self, /)\n--\n\nIt pickles as a path and a number."},
    {0},
};

static PyMemberDef entry_members[] = {
    {"index", T_PYSSIZET, offsetof(struct entry, number), READONLY,
     "its number in the file, from 0"},
    {"pack", T_OBJECT_EX, offsetof(struct entry, pack), READONLY,
     "the PackFile"},
    {0},
};

static PyGetSetDef entry_getset[] = {
    {"name", get_text, NULL, "of the picture, a relative path", NULL},
    {"label", get_text, NULL, "its label; '': none", (void *)1},
    {"file", get_file, NULL, "path of the pack file, /, and the name", NULL},
    {"packed", get_is_packed, NULL,
     "whether it is packed; False: the bytes of its file", NULL},
    {"source_bytes", get_source_bytes, NULL, "of the file that it was made of",
     NULL},
    {0},
};

static PyType_Slot entry_slots[] = {
    {Py_tp_doc,
     "A picture in a PackFile, which it keeps open; made by PackFile only.\n\n"
     "It is a source, as a path or bytes are, and a buffer of its bytes."},
    {Py_tp_dealloc, entry_dealloc},
    {Py_tp_repr, entry_represent},
    {Py_tp_richcompare, entry_compare},
    {Py_tp_hash, entry_hash},
    {Py_tp_methods, entry_methods},
    {Py_tp_members, entry_members},
    {Py_tp_getset, entry_getset},
    {Py_bf_getbuffer, get_buffer},
    {0},
};

PyType_Spec entry_spec = CORE_SPEC("PackEntry", struct entry, entry_slots,
                                   Py_TPFLAGS_DISALLOW_INSTANTIATION);
