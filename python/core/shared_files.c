// SPDX-License-Identifier: Apache-2.0
// SharedFiles: the memory file in which a worker reads files, as its parent
// maps it. How it is divided stands in file.c.
#include "file.h"
#include "inputs.h"

#include <string.h>
#include <sys/mman.h>

struct shared {
    PyObject ob_base;
    struct room *room;
    int fd;  // -1: it has none of its own
};

static int memory_file(void)
{
    int fd = memfd_create("headrace", MFD_CLOEXEC);

    if (fd >= 0 && ftruncate(fd, (off_t)ROOM_BYTES)) {
        close(fd);
        fd = -1;
    }
    if (fd < 0)
        PyErr_SetFromErrno(PyExc_OSError);
    return fd;
}

// For a worker: returns a descriptor for SharedFiles, which the caller owns.
PyObject *file_share(PyObject *module, PyObject *none)
{
    int fd = memory_file();

    if (fd >= 0 && file_own(fd))
        return PyLong_FromLong(fd);
    if (fd >= 0)
        close(fd);
    return NULL;
}

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fd", NULL};
    struct stat status;
    struct shared *self;
    int fd = -1, made = -1;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|i:SharedFiles", names,
                                     &fd))
        return NULL;
    if (fd < 0 && (fd = made = memory_file()) < 0)
        return NULL;
    if (fstat(fd, &status))
        return PyErr_SetFromErrno(PyExc_OSError);
    if (status.st_size != (off_t)ROOM_BYTES) {
        PyErr_SetString(PyExc_ValueError, "no memory of share_files()");
        return NULL;
    }
    if (!(self = (struct shared *)PyType_GenericAlloc(type, 0))) {
        if (made >= 0)
            close(made);
        return NULL;
    }
    self->fd = made;
    if (!(self->room = file_room_new(fd))) {
        Py_DECREF((PyObject *)self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static PyObject *adopt(PyObject *self, PyObject *none)
{
    int fd = ((struct shared *)self)->fd;

    if (fd < 0) {
        PyErr_SetString(PyExc_ValueError, "the memory is that of a worker");
        return NULL;
    }
    return file_own(fd) ? Py_NewRef(Py_None) : NULL;
}

// Frees the bytes that a worker left there; refuses while this process still
// uses files of it.
static PyObject *clear(PyObject *self, PyObject *none)
{
    struct room *room = ((struct shared *)self)->room;

    if (!file_is_ours(room) || room->refs > 1)
        Py_RETURN_FALSE;
    for (size_t i = 0; i < GRAINS; i++)
        atomic_store(&room->owners[i], 0);
    Py_RETURN_TRUE;
}

static PyObject *take(PyObject *self, PyObject *number)
{
    struct room *room = ((struct shared *)self)->room;
    Py_ssize_t first = PyNumber_AsSsize_t(number, PyExc_ValueError);
    struct head head = {0};
    struct file *f;

    if (first == -1 && PyErr_Occurred())
        return NULL;
    // (Read once: the worker might still write there.)
    if (first >= 0 && first < GRAINS && atomic_load(&room->owners[first]))
        memcpy(&head, file_grain(room, (size_t)first), sizeof(head));
    if (first < 0 || first >= GRAINS || !head.status.st_mode ||
        head.size > (size_t)(GRAINS - first) * GRAIN - HEAD) {
        PyErr_SetString(PyExc_ValueError, "no worker has lent such a file");
        return NULL;
    }
    if (!(f = file_new(core_of(self))))
        return NULL;
    f->room = room;
    room->refs++;
    f->data = file_grain(room, (size_t)first) + HEAD;
    f->head = head;
    return (PyObject *)f;
}

static void shared_dealloc(PyObject *self)
{
    file_room_leave(((struct shared *)self)->room);
    if (((struct shared *)self)->fd >= 0)
        close(((struct shared *)self)->fd);
    core_free(self);
}

static PyMethodDef shared_methods[] = {
    {"take", take, METH_O,
     "take($self, number, /)\n--\n\n"
     "Return the FileBytes that a worker has lent by that number."},
    {"adopt", adopt, METH_NOARGS,
     "adopt($self, /)\n--\n\n"
     "In a forked child: files are read into this memory from now on."},
    {"clear", clear, METH_NOARGS,
     "clear($self, /)\n--\n\n"
     "Make it ready for another worker, when the one before is gone. False: a\n"
     "file that was taken is still in use."},
    {0},
};

static PyType_Slot shared_slots[] = {
    {Py_tp_doc, "SharedFiles(fd=-1)\n--\n\n"
                "The memory in which a worker reads files; see share_files().\n"
                "-1: memory that a forked child may adopt()."},
    {Py_tp_new, create},
    {Py_tp_dealloc, shared_dealloc},
    {Py_tp_methods, shared_methods},
    {0},
};

PyType_Spec shared_spec = CORE_SPEC("SharedFiles", struct shared, shared_slots,
                                    0);
