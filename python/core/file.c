// SPDX-License-Identifier: Apache-2.0
// FileBytes: what was read of a file, in memory that is used again. Memory that
// is new to a process costs more than reading into it: a page fault per 4 KB.
//
// A room is memory in grains. A count of owners is kept for each grain; that of
// the first one of a run counts for all of it. A process takes runs from the
// one room that is its own; that of a DataLoader worker is a memory file, which
// its parent maps as well (SharedFiles): the worker reads, the device of the
// parent decodes, and nothing is copied between. A parent keeps such a file for
// its next workers: its pages are there then. Where there is no room, malloc()
// is asked.
//
// A file whose picture the process's cache has is not read: its FileBytes hold
// that picture, packed, and the file's header. A worker reads every file, also
// one that its parent's cache has: the cache may drop it before the parent
// needs it, and by then the name may be another file's, or gone.
//
// A forked child has copies of its parent's objects, and they count for
// nothing; that of a worker has a copy of its memory, too.
#include "file.h"
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

enum { MOST_BYTES = 256 << 20 };  // the default of hr_limits.file_bytes

// This process's own; it may be its parent's still.
static struct room *own;

// ---- Rooms ------------------------------------------------------------------

struct room *file_room_new(int fd)
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

void file_room_leave(struct room *room)
{
    if (!room || --room->refs)
        return;
    munmap((void *)room->owners, ROOM_BYTES);
    free(room);
}

// A copy of the worker's memory for its child: made before the fork, since the
// worker goes on and uses the memory again.
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

static size_t grains_of(size_t size)
{
    return (HEAD + size - 1) / GRAIN + 1;
}

bool file_own(int fd)
{
    struct room *room = file_room_new(fd);

    if (!room)
        return PyErr_SetFromErrno(PyExc_OSError), false;
    file_room_leave(own);
    own = room;
    return true;
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
        madvise(file_grain(room, room->mapped), (end - room->mapped) * GRAIN,
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
    return file_grain(room, first);
}

static size_t first_of(const struct file *f)
{
    return (size_t)(f->data - file_grain(f->room, 0)) / GRAIN;
}

static void give_run_back(struct file *f)
{
    size_t first = first_of(f), n = grains_of(f->head.size);

    if (atomic_fetch_sub(&f->room->owners[first], 1) == 1)
        for (size_t i = 1; i < n; i++)
            atomic_store(&f->room->owners[first + i], 0);
}

// ---- Reading ----------------------------------------------------------------

// Memory for that many bytes, in the room of this process if it can be.
static bool get_memory(struct file *f, size_t size)
{
    uint8_t *data = NULL;

    if (own && !file_is_ours(own)) {
        file_room_leave(own);
        own = NULL;
    }
    if (!own)
        own = file_room_new(-1);
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

struct file *file_new(struct core *core)
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

// Says whether the file has settled, as hr_sample.status requires.
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

// A new FileBytes of a descriptor whose status is known. NULL with an
// exception.
static PyObject *read_opened(struct core *core, int fd,
                             const struct stat *status)
{
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
    WITHOUT_GIL(done = fill(f, fd));
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
    return own && own->shared && file_is_ours(own);
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

// ---- FileBytes --------------------------------------------------------------

static struct file *file_of(PyObject *self)
{
    return (struct file *)self;
}

static void dealloc(PyObject *self)
{
    struct file *f = file_of(self);

    if (f->cached) {
        hr_cached_release(&f->cached);
    } else if (!f->room) {
        free(f->data ? f->data - HEAD : NULL);
    } else {
        if (file_is_ours(f->room))
            give_run_back(f);
        file_room_leave(f->room);
    }
    core_free(self);
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

    if (!head->known)
        Py_RETURN_NONE;
    return Py_BuildValue("KKLLL", (unsigned long long)s->st_dev,
                         (unsigned long long)s->st_ino, (long long)s->st_size,
                         ns_of(&s->st_mtim), ns_of(&s->st_ctim));
}

static PyObject *get_header(PyObject *self, void *closure)
{
    hr_cached cached = file_of(self)->cached;

    if (!cached)
        return Py_NewRef(self);
    return PyBytes_FromStringAndSize(cached->header,
                                     (Py_ssize_t)cached->info.header_size);
}

static PyObject *get_packed(PyObject *self, void *closure)
{
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

    return Py_BuildValue("O(y#)", (PyObject *)&PyBytes_Type, f->data,
                         (Py_ssize_t)f->head.size);
}

// Its parent has it from now on as well, and gives it back.
static PyObject *lend(PyObject *self, PyObject *none)
{
    struct file *f = file_of(self);
    size_t first;

    if (!f->room || !f->room->shared || !file_is_ours(f->room))
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
