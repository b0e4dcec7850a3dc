// SPDX-License-Identifier: Apache-2.0
// headrace._core: shared by all its files (inputs.h, ops.h, tensor.h and
// flight.h are for some of them). One file per subject:
//
//   module    the module, its constants, process-wide settings; exit and fork
//   errors    statuses become exceptions
//   values    arguments that many calls have in common
//   device    devices, by name or opened
//   cache     Cache; packed pictures
//   pack      PackFile, PackEntry
//   pack_writer  PackWriter
//   ops       tuples become ops, and back
//   ops_calls checks and sizes of lists of ops, without a picture
//   probe     header facts
//   file      FileBytes, SharedFiles: the bytes of files
//   submit    tuples become samples, samples become a job
//   errand    calls that may wait for ever, on threads of their own
//   flight    the references of a job in flight; its end
//   job       Job
//   result    Result
//   tensor    attributes of batches and pixels; buffers and arrays
//   borrow    the caller's memory in them
//   dlpack    and DLPack tensors of them
//   batch     Batch
//   source    Source: what a Loader takes
//   loader    Loader: its life
//   loaded    Loaded: a batch of a Loader
//   pixels    Pixels
//   picture   recorded pictures of the drop-in
//   other     formats that the library does not decode
//
// References. The library borrows the bytes, tables and tensors of a job until
// the job is done. A struct flight holds references to them, apart from the
// Python object: that may be collected earlier.
//
// A call holds the library's handles that it uses: device_find() returns a
// reference. A borrowed Python object is not used behind a call that may run
// Python code: that may drop it, or give the GIL to a thread that does.
//
// Locks: the GIL, then the mutex of flight.c, of loader.c or of errand.c. A
// thread that has a mutex does not ask for the GIL. Calls of the library that
// may wait are made without both, in slices of time between which signals are
// heard; a call that cannot be cut into slices is an errand.
#ifndef HR_PY_CORE_H
#define HR_PY_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <headrace/headrace.h>

// ---- The module -------------------------------------------------------------

// The types, by the names of their NAME_spec.
// clang-format off
#define CORE_TYPES(X) \
    X(info) X(device) X(cache) X(pack) X(entry) \
    X(pack_writer) X(batch) X(pixels) X(result) X(job) \
    X(source) X(loader) X(loaded) X(file) X(shared)
// clang-format on
#define X(name) extern PyType_Spec name##_spec;
CORE_TYPES(X)
#undef X
// The spec of a type; more: flags beside the common ones.
#define CORE_SPEC(title, object, table, more)                            \
    {                                                                    \
        .name = "headrace._core." title, .basicsize = sizeof(object),    \
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | (more), \
        .slots = (table)                                                 \
    }

struct core {
#define X(name) PyTypeObject *name;
    CORE_TYPES(X)
#undef X
    PyTypeObject *cache_stats;
    PyObject *make_error;  // headrace.errors.make
    PyObject *devices;     // name -> Device, opened for submit(device=name)
    PyObject *pictures;    // see picture.c; NULL: the drop-in was not imported
    bool utf8_paths;       // of the file system: str has them ready
};

#define CORE_OBJECTS(X) \
    CORE_TYPES(X) X(cache_stats) X(make_error) X(devices) X(pictures)

// The state of the module that a type, or an object of it, belongs to.
static inline struct core *core_of_type(PyTypeObject *type)
{
    return PyType_GetModuleState(type);
}
static inline struct core *core_of(PyObject *self)
{
    return core_of_type(Py_TYPE(self));
}

// Runs statements without the GIL.
#define WITHOUT_GIL(...)                          \
    do {                                          \
        PyThreadState *gil = PyEval_SaveThread(); \
        __VA_ARGS__;                              \
        PyEval_RestoreThread(gil);                \
    } while (0)

// The end of an object's tp_dealloc, or all of it.
void core_free(PyObject *self);

// For the table of members of a type whose objects have `weak`: weak references
// to them. Its file includes <stddef.h> and <structmember.h>.
#define WEAK_MEMBER(type)                                                      \
    {                                                                          \
        "__weaklistoffset__", T_PYSSIZET, offsetof(type, weak), READONLY, NULL \
    }

// A tuple of what one() gives for 0 .. n - 1: new references; NULL: an
// exception, as of this.
PyObject *core_tuple(Py_ssize_t n, PyObject *(*one)(const void *ctx, size_t i),
                     const void *ctx);
// A tuple of the numbers in `size` bytes.
PyObject *core_doubles(const double *from, size_t size);

// Sets dict[name], of a value that is stolen, which may be NULL with an
// exception. False with one.
bool core_put(PyObject *dict, const char *name, PyObject *value);

// A name of a list, "a", "b", NULL, or None = the first one. -1 with an
// ArgumentError that names what it is.
int core_choice(PyObject *value, const char *what, const char *const *names);

// Seconds, or None = missing, in nanoseconds. False with an exception.
bool core_seconds(PyObject *value, int64_t missing, int64_t *out);
// The same of a method's only argument, "timeout"; form: "|O:NAME".
bool core_timeout(PyObject *args, PyObject *kwargs, const char *form,
                  int64_t missing, int64_t *out);

// An attribute of a module, and what a function of one returns.
PyObject *core_import(const char *module, const char *name);
PyObject *core_call(const char *module, const char *name, PyObject *argument);

// ---- errors -----------------------------------------------------------------

// headrace.ArgumentError, which is a ValueError; borrowed.
PyObject *core_argument_error(void);

// False with an exception: the interpreter ends and has cleared the module.
bool core_alive(struct core *core);

// All set an exception of headrace.errors and return NULL.
void *core_raise(struct core *core, enum hr_status status, const char *text);
void *core_raise_last(struct core *core);  // of the call that failed last
// The last call's: None, or the same.
PyObject *core_done(struct core *core, enum hr_status status);
// As the result of a sample says; file: a path, or NULL.
void *core_raise_result(struct core *core, const struct hr_result *r,
                        PyObject *file);
// Takes the exception; message is its class and its text.
void core_explain(char message[256]);
// The last part of a result's message: the reason.
const char *core_reason(const struct hr_result *r);
// How long its first part is: what is not named so has no file.
size_t core_name_size(const struct hr_result *r);

// ---- errand -----------------------------------------------------------------

int64_t core_now(void);                   // nanoseconds of the monotonic clock
struct timespec core_slice(int64_t end);  // the end of a slice of time, or end
void core_init_cond(pthread_cond_t *cond);  // for that clock

// Calls run(ctx) on a thread of its own, without the GIL, and waits for it, for
// patience_ns at most (< 0: no end), with signals until a handler of one
// raises. True: it has ended; then an exception may be set all the same. False:
// ctx is the thread's, which calls leave(ctx) with the GIL when run() has ended
// (not if the interpreter has).
// hasten, if not NULL, is called before that, and shall make run() end soon.
bool errand_do(void (*run)(void *ctx), void (*hasten)(void *ctx),
               void (*leave)(void *ctx), void *ctx, int64_t patience_ns,
               bool signals);
// The same without waiting, and on any thread, with the GIL or without. False:
// there is no thread, nothing was called.
bool errand_send(void (*run)(void *ctx), void (*leave)(void *ctx), void *ctx);
void errand_exit(int64_t end);  // waits for all until then, or Ctrl-C
void errand_init(void);         // once per process
void errand_forked(void);       // in the child

// ---- picture ----------------------------------------------------------------

PyObject *picture_set(PyObject *module, PyObject *parts);
PyObject *picture_set_fetch(PyObject *module, PyObject *number);
PyObject *picture_fetch(PyObject *module, PyObject *none);
PyObject *picture_recording(PyObject *module, PyObject *const *args,
                            Py_ssize_t n);
PyObject *picture_derive(PyObject *module, PyObject *const *args, Py_ssize_t n);
PyObject *picture_record(PyObject *module, PyObject *const *args, Py_ssize_t n);

// ---- other ------------------------------------------------------------------

PyObject *set_decoder(PyObject *module, PyObject *args);
PyObject *set_opener(PyObject *module, PyObject *open);

// ---- the command ------------------------------------------------------------

// Only with HR_HAVE_COMMAND.
PyObject *command_run(PyObject *module, PyObject *args);

#endif
