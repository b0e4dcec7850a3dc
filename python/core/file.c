// SPDX-License-Identifier: Apache-2.0
// FileBytes: what was read of a file, in memory that is used again. Memory that
// is new to a process costs more than reading into it: a page fault per 4 KB.
//
// A room is memory in grains. A count of owners is kept for each grain; that of
// the first one of a run counts for all of it. A process takes runs from the one
// room that is its own; that of a DataLoader worker is a memory file, which its
// parent maps as well (SharedFiles): the worker reads, the device of the parent
// decodes, and nothing is copied between. A parent keeps such a file for its next
// workers: its pages are there then. Where there is no room, malloc() is asked.
//
// A file whose picture the process's cache has is not read: its FileBytes hold
// that picture, packed, and the file's header.
//
// A forked child has copies of its parent's objects, and they count for nothing;
// that of a worker has a copy of its memory, too.
#include "flight.h"
#include "inputs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { GRAIN = 16384, GRAINS = 4096, MOST_OWNERS = 200 };
enum { MOST_BYTES = 256 << 20 };  // the default of hr_limits.file_bytes

// What is known of the bytes. It lies before those that are lent, for the other
// process.
struct head {
    size_t size;  // of the bytes
    struct stat status;
    int known;    // it was the same before and after they were read,
    int settled;  // and any later change will change it
};
enum { HEAD = 192 };
_Static_assert(sizeof(struct head) <= HEAD, "the bytes begin behind it");

#define ROOM_BYTES (GRAINS + (size_t)GRAIN * GRAINS)

struct room {
    _Atomic(uint8_t) *owners;  // [GRAINS], then the grains
    pid_t pid;                 // whose objects are counted
    int refs;                  // with the GIL
    bool shared;
    size_t mapped;  // grains from the first on whose pages this process has
};

struct file {
    PyObject ob_base;
    struct room *room;  // NULL: of malloc()
    uint8_t *data;      // HEAD bytes behind the begin of its memory
    struct head head;
    hr_cached cached;     // NULL: it was read
    unsigned generation;  // .. by the process of this one
};

// This process's own; it may be its parent's still.
static struct room *own;

// ---- Rooms -------------------------------------------------------------------

// fd: of a memory file, which stays the caller's; -1: none. NULL: no memory.
static struct room *room_new(int fd)
{
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
                       : MAP_SHARED;
    struct room *room = malloc(sizeof(*room));
    void *map = mmap(NULL, ROOM_BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);

    if (!room || map == MAP_FAILED) {
        if (map != MAP_FAILED)
            munmap(map, ROOM_BYTES);
        free(room);
        return NULL;
    }
    *room = (struct room){map, getpid(), 1, fd >= 0, 0};
    return room;
}

static void room_leave(struct room *room)
{
    if (!room || --room->refs)
        return;
    munmap((void *)room->owners, ROOM_BYTES);
    free(room);
}

// What a child of a worker is to find in the worker's memory: made before the
// fork, since the worker goes on and uses it again.
static void *childs;

void file_forking(void)
{
    childs = NULL;
    if (!own || !own->shared || own->pid != getpid())
        return;
    childs = mmap(NULL, ROOM_BYTES, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (childs == MAP_FAILED)
        childs = NULL;
    for (size_t i = 0; childs && i < GRAINS; i++)
        if (atomic_load(&own->owners[i]))
            memcpy((uint8_t *)childs + GRAINS + i * GRAIN,
                   (uint8_t *)own->owners + GRAINS + i * GRAIN, GRAIN);
}

void file_forked(bool child)
{
    if (!childs)
        return;
    if (!child ||
        mremap(childs, ROOM_BYTES, ROOM_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED,
               (void *)own->owners) == MAP_FAILED)
        munmap(childs, ROOM_BYTES);
    childs = NULL;
}

static bool is_ours(const struct room *room)
{
    return room->pid == getpid();
}

static uint8_t *grain_at(const struct room *room, size_t i)
{
    return (uint8_t *)room->owners + GRAINS + i * GRAIN;
}

static size_t grains_of(size_t size)
{
    return (HEAD + size - 1) / GRAIN + 1;
}

// The first run of n grains without an owner; GRAINS: there is none.
static size_t find_run(const struct room *room, size_t n)
{
    size_t run = 0;

    for (size_t i = 0; n <= GRAINS && i < GRAINS; i++) {
        run = atomic_load(&room->owners[i]) ? 0 : run + 1;
        if (run == n)
            return i + 1 - n;
    }
    return GRAINS;
}

// A worker is new in each epoch, and its memory is not: all pages of a run at
// once cost a third of a fault for each.
static void map_run(struct room *room, size_t end)
{
#ifdef MADV_POPULATE_WRITE
    if (room->shared && end > room->mapped)
        madvise(grain_at(room, room->mapped), (end - room->mapped) * GRAIN,
                MADV_POPULATE_WRITE);
#endif
    if (end > room->mapped)
        room->mapped = end;
}

// The first grain says that a run is free: it comes last when a run is taken,
// and first when it is given back.
static uint8_t *take_run(struct room *room, size_t size)
{
    size_t n = grains_of(size), first = find_run(room, n);

    if (first == GRAINS)
        return NULL;
    map_run(room, first + n);
    for (size_t i = n; i-- > 0;)
        atomic_store(&room->owners[first + i], 1);
    return grain_at(room, first);
}

static size_t first_of(const struct file *f)
{
    return (size_t)(f->data - grain_at(f->room, 0)) / GRAIN;
}

static void give_run_back(struct file *f)
{
    size_t first = first_of(f), n = grains_of(f->head.size);

    if (atomic_fetch_sub(&f->room->owners[first], 1) == 1)
        for (size_t i = 1; i < n; i++)
            atomic_store(&f->room->owners[first + i], 0);
}

// ---- Reading -----------------------------------------------------------------

// Memory for that many bytes, in the room of this process if it can be.
static bool get_memory(struct file *f, size_t size)
{
    uint8_t *data = NULL;

    if (own && !is_ours(own)) {
        room_leave(own);
        own = NULL;
    }
    if (!own)
        own = room_new(-1);
    if (own && size < ROOM_BYTES && (data = take_run(own, size))) {
        f->room = own;
        own->refs++;
    } else if (!(data = malloc(HEAD + size))) {
        return false;
    }
    f->data = data + HEAD;
    f->head.size = size;
    return true;
}

static struct file *file_new(struct core *core)
{
    struct file *f = core_alive(core) ? PyObject_New(struct file, core->file)
                                      : NULL;

    if (f) {
        f->room = NULL;
        f->data = NULL;
        f->head = (struct head){0};
        f->cached = NULL;
    }
    return f;
}

static bool same(const struct stat *a, const struct stat *b)
{
    return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

// As hr_sample.status wants it.
static bool is_settled(const struct timespec *changed)
{
    const int64_t tick = changed->tv_nsec ? 100000000 : 2000000000;
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (now.tv_sec - changed->tv_sec) * INT64_C(1000000000) + now.tv_nsec -
               changed->tv_nsec >
           tick;
}

// False with errno, also if the file became shorter meanwhile.
static bool fill(struct file *f, int fd)
{
    struct head *head = &f->head;
    struct stat after;
    size_t got = 0;

    head->settled = is_settled(&head->status.st_ctim);
    while (got < head->size) {
        ssize_t n = pread(fd, f->data + got, head->size - got, (off_t)got);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        if (!n)
            return errno = EIO, false;
        got += (size_t)n;
    }
    head->known = !fstat(fd, &after) && same(&head->status, &after);
    return true;
}

// A new FileBytes of a descriptor whose status is known. NULL with an exception.
static PyObject *read_opened(struct core *core, int fd,
                             const struct stat *status)
{
    PyThreadState *gil;
    struct file *f;
    bool done;

    if (status->st_size > MOST_BYTES) {
        errno = EFBIG;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    if (!(f = file_new(core)))
        return NULL;
    if (!get_memory(f, (size_t)status->st_size)) {
        Py_DECREF((PyObject *)f);
        return PyErr_NoMemory();
    }
    f->head.status = *status;
    gil = PyEval_SaveThread();
    done = fill(f, fd);
    PyEval_RestoreThread(gil);
    if (done)
        return (PyObject *)f;
    PyErr_SetFromErrno(PyExc_OSError);
    Py_DECREF((PyObject *)f);
    return NULL;
}

// ---- Files that a cache knows -----------------------------------------------

// With the GIL: another thread may give the process its memory.
static bool is_worker(void)
{
    return own && own->shared && is_ours(own);
}

// The picture of a file, if the process's cache has it; NULL. (That of a worker
// is empty.)
static hr_cached find_cached(const struct stat *status, bool worker)
{
    hr_cache cache = worker ? NULL : hr_get_cache();
    hr_cached found = cache ? hr_cache_find(cache, status) : NULL;

    hr_cache_release(&cache);
    return found;
}

// Takes the picture, also on failure. NULL with an exception.
static PyObject *cached_new(struct core *core, hr_cached cached,
                            const struct stat *status)
{
    struct file *f = file_new(core);

    if (!f) {
        hr_cached_release(&cached);
        return NULL;
    }
    f->cached = cached;
    f->generation = flight_generation();
    f->data = (uint8_t *)cached->packed;
    f->head = (struct head){.size = cached->packed_size,
                            .status = *status,
                            .known = true,
                            .settled = true};
    return (PyObject *)f;
}

// ---- read_file() ------------------------------------------------------------

// A regular file; anything else may notice that it is opened. *cached: or its
// picture. Else *fd is -1 with errno, or with 0: it is no such file.
static void open_regular(const char *path, int *fd, struct stat *status,
                         hr_cached *cached)
{
    bool worker = is_worker();
    PyThreadState *gil = PyEval_SaveThread();

    *fd = -1;
    *cached = NULL;
    if (!stat(path, status)) {
        errno = 0;
        if (S_ISREG(status->st_mode) &&
            !(*cached = find_cached(status, worker)))
            *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (*fd >= 0 && fstat(*fd, status)) {
            close(*fd);
            *fd = -1;
        }
    }
    PyEval_RestoreThread(gil);
}

static PyObject *read_path(struct core *core, PyObject *path)
{
    PyObject *made = NULL, *held;
    struct stat status;
    hr_cached cached;
    const char *text;
    int fd;

    if (!(held = path_of(core, path, &text)))
        return NULL;
    open_regular(text, &fd, &status, &cached);
    Py_DECREF(held);
    if (cached)
        return cached_new(core, cached, &status);
    if (fd < 0 && errno)
        return PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, path);
    if (fd < 0)
        Py_RETURN_NONE;
    if (S_ISREG(status.st_mode))
        made = read_opened(core, fd, &status);
    else
        made = Py_NewRef(Py_None);
    close(fd);
    return made;
}

PyObject *file_read(PyObject *module, PyObject *source)
{
    struct core *core = PyModule_GetState(module);
    struct stat status;
    hr_cached cached;
    int fd;

    if (!PyLong_Check(source))
        return read_path(core, source);
    fd = PyObject_AsFileDescriptor(source);
    if (fd == -1)
        return NULL;
    if (fstat(fd, &status))
        return PyErr_SetFromErrno(PyExc_OSError);
    if (!S_ISREG(status.st_mode))
        Py_RETURN_NONE;
    if ((cached = find_cached(&status, is_worker())))
        return cached_new(core, cached, &status);
    return read_opened(core, fd, &status);
}

// ---- FileBytes -----------------------------------------------------------------

static struct file *file_of(PyObject *self)
{
    return (struct file *)self;
}

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    struct file *f = file_of(self);

    if (f->cached) {
        hr_cached_release(&f->cached);
    } else if (!f->room) {
        free(f->data ? f->data - HEAD : NULL);
    } else {
        if (is_ours(f->room))
            give_run_back(f);
        room_leave(f->room);
    }
    PyObject_Free(self);
    Py_DECREF(type);
}

static int get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    struct file *f = file_of(self);

    return PyBuffer_FillInfo(view, self, f->data, (Py_ssize_t)f->head.size, 1,
                             flags);
}

static Py_ssize_t length(PyObject *self)
{
    return (Py_ssize_t)file_of(self)->head.size;
}

static long long ns_of(const struct timespec *t)
{
    return t->tv_sec * 1000000000LL + t->tv_nsec;
}

static PyObject *get_identity(PyObject *self, void *closure)
{
    const struct head *head = &file_of(self)->head;
    const struct stat *s = &head->status;

    (void)closure;
    if (!head->known)
        Py_RETURN_NONE;
    return Py_BuildValue("KKLLL", (unsigned long long)s->st_dev,
                         (unsigned long long)s->st_ino, (long long)s->st_size,
                         ns_of(&s->st_mtim), ns_of(&s->st_ctim));
}

static PyObject *get_header(PyObject *self, void *closure)
{
    hr_cached cached = file_of(self)->cached;

    (void)closure;
    if (!cached)
        return Py_NewRef(self);
    return PyBytes_FromStringAndSize(cached->header,
                                     (Py_ssize_t)cached->info.header_size);
}

static PyObject *get_packed(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(file_of(self)->cached != NULL);
}

hr_cached file_cached(PyObject *self)
{
    return file_of(self)->cached;
}

void file_sample(PyObject *self, struct hr_sample *sample)
{
    const struct file *f = file_of(self);

    sample->data = f->data;
    sample->size = f->head.size;
    sample->verified = f->cached != NULL;
    if (f->cached && f->generation == flight_generation())
        sample->cached = f->cached;
    if (!f->cached && f->head.known && f->head.settled)
        sample->status = &f->head.status;
}

static PyObject *reduce(PyObject *self, PyObject *none)
{
    struct file *f = file_of(self);

    (void)none;
    return Py_BuildValue("O(y#)", (PyObject *)&PyBytes_Type, f->data,
                         (Py_ssize_t)f->head.size);
}

// Its parent has it from now on as well, and gives it back.
static PyObject *lend(PyObject *self, PyObject *none)
{
    struct file *f = file_of(self);
    size_t first;

    (void)none;
    if (!f->room || !f->room->shared || !is_ours(f->room))
        Py_RETURN_NONE;
    first = first_of(f);
    if (atomic_load(&f->room->owners[first]) >= MOST_OWNERS)
        Py_RETURN_NONE;
    memcpy(f->data - HEAD, &f->head, sizeof(f->head));
    atomic_fetch_add(&f->room->owners[first], 1);
    return PyLong_FromSize_t(first);
}

static PyMethodDef methods[] = {
    {"lend", lend, METH_NOARGS,
     "lend($self, /)\n--\n\n"
     "Return a number for SharedFiles.take() in the parent, to be called once;\n"
     "None: it does not lie in memory that both have."},
    {"__reduce__", reduce, METH_NOARGS, "__reduce__($self, /)\n--\n\n"},
    {0},
};

static PyGetSetDef getset[] = {
    {"identity", get_identity, NULL,
     "(device, inode, size, times of change in ns: of contents, of anything);\n"
     "None: it changed while it was read",
     NULL},
    {"packed", get_packed, NULL,
     "whether a cache had its picture: the buffer is that, as of pack()", NULL},
    {"header", get_header, NULL,
     "bytes of the file up to its first scan; itself, if it was read", NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "What was read of a file, a buffer; made by read_file() only."},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {Py_sq_length, length},
    {Py_bf_getbuffer, get_buffer},
    {0},
};

PyType_Spec file_spec = CORE_SPEC("FileBytes", struct file, slots,
                                  Py_TPFLAGS_DISALLOW_INSTANTIATION);

// ---- SharedFiles -----------------------------------------------------------------

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

// From now on this process reads into that memory. False with an exception.
static bool own_this(int fd)
{
    struct room *room = room_new(fd);

    if (!room)
        return PyErr_SetFromErrno(PyExc_OSError), false;
    room_leave(own);
    own = room;
    return true;
}

// In a worker. A descriptor for SharedFiles, the caller's.
PyObject *file_share(PyObject *module, PyObject *none)
{
    int fd = memory_file();

    (void)module, (void)none;
    if (fd >= 0 && own_this(fd))
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
    if (!(self->room = room_new(fd))) {
        Py_DECREF((PyObject *)self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static PyObject *adopt(PyObject *self, PyObject *none)
{
    int fd = ((struct shared *)self)->fd;

    (void)none;
    if (fd < 0) {
        PyErr_SetString(PyExc_ValueError, "the memory is that of a worker");
        return NULL;
    }
    return own_this(fd) ? Py_NewRef(Py_None) : NULL;
}

// What a worker has left there counts no more; what this process has taken does.
static PyObject *clear(PyObject *self, PyObject *none)
{
    struct room *room = ((struct shared *)self)->room;

    (void)none;
    if (!is_ours(room) || room->refs > 1)
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
        memcpy(&head, grain_at(room, (size_t)first), sizeof(head));
    if (first < 0 || first >= GRAINS || !head.status.st_mode ||
        head.size > (size_t)(GRAINS - first) * GRAIN - HEAD) {
        PyErr_SetString(PyExc_ValueError, "no worker has lent such a file");
        return NULL;
    }
    if (!(f = file_new(core_of(self))))
        return NULL;
    f->room = room;
    room->refs++;
    f->data = grain_at(room, (size_t)first) + HEAD;
    f->head = head;
    return (PyObject *)f;
}

static void shared_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    room_leave(((struct shared *)self)->room);
    if (((struct shared *)self)->fd >= 0)
        close(((struct shared *)self)->fd);
    PyObject_Free(self);
    Py_DECREF(type);
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
