// SPDX-License-Identifier: Apache-2.0
// headrace._core: what its files share. One file per subject:
//
//   module    the module, its constants, process-wide settings
//   errors    statuses become exceptions
//   device    devices, by name or opened
//   cache     Cache; packed pictures
//   pack      PackFile, PackEntry
//   pack_writer  PackWriter
//   ops       tuples become ops, and back
//   probe     header facts
//   file      FileBytes, SharedFiles: what was read of files
//   submit    tuples become samples, samples become a job
//   errand    calls that may wait for ever, on threads of their own
//   flight    what a job in flight borrows; its end; exit and fork
//   job       Job
//   result    Result
//   tensor    what batches and pixels are; buffers and arrays
//   borrow    the caller's memory in them
//   dlpack    and DLPack tensors of them
//   batch     Batch
//   source    Source: what a Loader takes
//   loader    Loader: its life
//   loaded    Loaded: a batch of a Loader
//   pixels    Pixels
//
// Who holds what. The library borrows the bytes, tables and tensors of a job
// until the job is done. A struct flight holds references to them, apart from
// the Python object: that may be collected earlier.
//
// A handle of the library that is used is held: device_find() gives a reference.
// A borrowed Python object is not used behind a call that may run Python code:
// that may drop it, or give the GIL to a thread that does.
//
// Locks: the GIL, then the mutex of flight.c, of loader.c or of errand.c. A
// thread that has a mutex does not ask for the GIL. Calls of the library that
// may wait are made without both, in slices of time between which signals are
// heard; what cannot be cut into slices is an errand.
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

struct core {
#define X(name) PyTypeObject *name;
    CORE_TYPES(X)
#undef X
    PyTypeObject *cache_stats;
    PyObject *make_error;  // headrace.errors.make
    PyObject *devices;     // name -> Device, opened for submit(device=name)
    bool utf8_paths;       // of the file system: str has them ready
};

// The state of the module that a type, or an object of it, belongs to.
static inline struct core *core_of_type(PyTypeObject *type)
{
    return PyType_GetModuleState(type);
}
static inline struct core *core_of(PyObject *self)
{
    return core_of_type(Py_TYPE(self));
}

// Makes a type and adds it to the module. NULL with an exception.
PyTypeObject *core_add_type(PyObject *module, PyType_Spec *spec);

// For the table of members of a type whose objects have `weak`: weak references
// to them. Its file includes <stddef.h> and <structmember.h>.
#define WEAK_MEMBER(type)                                                      \
    {                                                                          \
        "__weaklistoffset__", T_PYSSIZET, offsetof(type, weak), READONLY, NULL \
    }

// A tuple of what one() gives for 0 .. n - 1: new references; NULL: an exception,
// as of this.
PyObject *core_tuple(Py_ssize_t n, PyObject *(*one)(const void *ctx, size_t i),
                     const void *ctx);

// A name of a list, "a", "b", NULL, or None = the first one. -1 with an
// ArgumentError that names what it is.
int core_choice(PyObject *value, const char *what, const char *const *names);

// Seconds, or None = missing, in nanoseconds. False with an exception.
bool core_seconds(PyObject *value, int64_t missing, int64_t *out);

// ---- errors -----------------------------------------------------------------

// headrace.ArgumentError, which is a ValueError; borrowed.
PyObject *core_argument_error(void);

// False with an exception: the interpreter ends and has cleared the module.
bool core_alive(struct core *core);

// All set an exception of headrace.errors and return NULL.
void *core_raise(struct core *core, enum hr_status status, const char *text);
void *core_raise_last(struct core *core);  // of the call that failed last
// Of a sample; file: a path, or NULL.
void *core_raise_result(struct core *core, const struct hr_result *r,
                        PyObject *file);
// The last part of a result's message: the reason.
const char *core_reason(const struct hr_result *r);
// How long its first part is: what is not named so has no file.
size_t core_name_size(const struct hr_result *r);

// ---- ops --------------------------------------------------------------------

// Buffers that are held until something is done with them.
struct held {
    Py_buffer *views;
    int n, room;
};
bool held_add(struct held *held, PyObject *object, int flags);
void held_release(struct held *held);

// Writes the ops of a tuple of tuples to out[HR_MAX_OPS]; returns how many, or
// -1 with an exception. channels: that a table must have at least. Buffers of
// tables go to tables.
int ops_parse(PyObject *ops, int channels, struct hr_op *out,
              struct held *tables);
// (seed, index, epoch) or None.
bool ops_parse_key(PyObject *key, struct hr_random *out);
PyObject *ops_to_tuple(const struct hr_op *ops, int n);

PyObject *ops_output_size(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *ops_fixed_size(PyObject *module, PyObject *list);
PyObject *ops_from_text(PyObject *module, PyObject *text);
PyObject *ops_to_text(PyObject *module, PyObject *list);
PyObject *ops_draw(PyObject *module, PyObject *args, PyObject *kwargs);
bool ops_add_constants(PyObject *module);

// ---- device -----------------------------------------------------------------

extern PyType_Spec device_spec;
// Of None (NULL: the default device, or that of a batch), a name, or a Device.
// *out is a reference, for hr_device_close() without the GIL, or for
// device_leave(). False with an exception.
bool device_find(struct core *core, PyObject *device, hr_device *out);
void device_leave(hr_device device);
PyObject *device_list(PyObject *module, PyObject *none);
PyObject *device_set_default(PyObject *module, PyObject *name);
PyObject *device_get_default(PyObject *module, PyObject *none);

// ---- cache ------------------------------------------------------------------

extern PyType_Spec cache_spec;
bool cache_add_stats(PyObject *module, struct core *core);
// Of None (NULL), or of a Cache, which keeps it. False with an exception.
bool cache_find(struct core *core, PyObject *cache, hr_cache *out);
PyObject *cache_set(PyObject *module, PyObject *value);
PyObject *cache_get(PyObject *module, PyObject *none);
PyObject *cache_pack(PyObject *module, PyObject *source);

// ---- pack -------------------------------------------------------------------

extern PyType_Spec pack_spec, entry_spec, pack_writer_spec;
// Of a PackEntry. Its picture as the source of a sample, perhaps not checked
// yet. False with an exception.
bool entry_sample(struct core *core, PyObject *self, struct hr_sample *sample);
// A sample as entry_sample() left it was made.
void entry_passed(PyObject *self);
// Path of the pack file, /, and name: a new reference, or an exception.
PyObject *entry_place(PyObject *self);
// (name, label, bytes of its file) that a pack file would say of sample i.
PyObject *pack_writer_entry_of(struct core *core, hr_source source, uint64_t i);

// ---- probe ------------------------------------------------------------------

extern PyType_Spec info_spec;
PyObject *probe(PyObject *module, PyObject *source);
bool probe_add_constants(PyObject *module);
// A path as a new reference to bytes, or to a str whose UTF-8 is the path;
// *out points into it. NULL with an exception.
PyObject *path_of(struct core *core, PyObject *source, const char **out);

// ---- file -------------------------------------------------------------------

extern PyType_Spec file_spec, shared_spec;
PyObject *file_read(PyObject *module, PyObject *source);
PyObject *file_share(PyObject *module, PyObject *none);

// ---- tensor: what Batch and Pixels are --------------------------------------

struct tensor {
    PyObject ob_base;
    hr_batch batch;  // one of the two
    hr_image image;
    PyObject *keep;  // owns the memory, if the caller said so
    Py_buffer view;  // of the caller's memory; view.obj is NULL if there is none
    void *data;      // NULL: in device memory
    enum hr_dtype dtype;
    enum hr_layout layout;
    enum hr_memory memory;
    bool readonly;  // the caller's; Pixels only, and no destination
    int c, ndim;
    Py_ssize_t shape[4], strides[4], nbytes;
    PyObject *weak;
};

static inline Py_ssize_t tensor_item(const struct tensor *t)
{
    return (Py_ssize_t)hr_dtype_size(t->dtype);  // bytes of an element
}

// Strides without gaps, and nbytes. False with an exception: no memory has so
// many bytes.
bool tensor_pack(struct tensor *t);
// What a Batch or Pixels was called with.
struct tensor_call {
    bool is_batch;  // of n
    int n, c, h, w;
    PyObject *dtype, *layout, *data, *device, *memory, *keep;
};
PyObject *tensor_create(PyTypeObject *type, const struct tensor_call *call);
// A copy in host memory: of slots of a batch, or of all of pixels.
PyObject *tensor_read(struct tensor *t, int first, int n, int64_t timeout_ns);
// Whether the host may read it now; waits for who writes it. False with a
// BufferError, or what went wrong.
bool tensor_reachable(struct tensor *t);
// The caller's memory: an object, or an address and who owns it.
bool tensor_borrow(struct tensor *t, PyObject *data, PyObject *keep);
bool tensor_parse_form(PyObject *dtype, PyObject *layout, PyObject *memory,
                       struct tensor *t);
PyObject *tensor_form(PyObject *module, PyObject *args);
extern PyGetSetDef tensor_getset[];
int tensor_get_buffer(PyObject *self, Py_buffer *view, int flags);
PyObject *tensor_dlpack(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *tensor_dlpack_device(PyObject *self, PyObject *none);
int tensor_traverse(PyObject *self, visitproc visit, void *arg);
int tensor_clear(PyObject *self);
void tensor_dealloc(PyObject *self);

// For the table of methods of a type that begins with a struct tensor.
#define TENSOR_METHODS                                                    \
    {"__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack,            \
     METH_VARARGS | METH_KEYWORDS,                                        \
     "__dlpack__($self, /, *, stream=None, max_version=None,\n"           \
     "           dl_device=None, copy=None)\n--\n\n"                      \
     "Return a capsule with the memory, not a copy of it."},              \
    {                                                                     \
        "__dlpack_device__", tensor_dlpack_device, METH_NOARGS,           \
            "__dlpack_device__($self, /)\n--\n\nReturn (device type, 0)." \
    }

// Waits until nothing writes it. False with an exception.
bool pixels_wait(struct tensor *t, int64_t timeout_ns);

extern PyType_Spec batch_spec, pixels_spec;

// ---- errand -----------------------------------------------------------------

int64_t core_now(void);                   // nanoseconds of the monotonic clock
struct timespec core_slice(int64_t end);  // the end of a slice of time, or end
void core_init_cond(pthread_cond_t *cond);  // for that clock

// Calls run(ctx) on a thread of its own, without the GIL, and waits for it, for
// patience_ns at most (< 0: no end), with signals until a handler of one raises.
// True: it has ended; then an exception may be set all the same. False: ctx is
// the thread's, which calls leave(ctx) with the GIL when run() has ended (not if
// the interpreter has).
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

// ---- flight -----------------------------------------------------------------

struct flight {
    struct flight *prev, *next;  // in flight, or dead
    hr_job job;         // one reference, of the Job's; NULL until submitted
    PyObject *samples;  // a tuple: holds bytes, pictures, paths
    PyObject *out;      // Batch, or tuple of Pixels
    PyObject *on_done;  // to be called once, or NULL
    PyObject *self;     // the Job, while on_done shall be called
    PyObject *files;  // number of a sample -> path of its source, if it has one
    struct held sources, tables;
    unsigned generation;
    enum { FLIGHT_NEW, FLIGHT_FLYING, FLIGHT_DONE } state;
    bool orphan;  // there is no Job any more
};

bool flight_init(PyObject *module);  // once per process, and the exit hook
unsigned flight_generation(void);    // changes with fork
bool flight_closed(void);            // the interpreter has ended our work

struct flight *flight_new(void);
// Gives up a flight that was not submitted, or whose Job goes away.
void flight_leave(struct flight *f);
// hr_submit() of samples, waiting for room. False with an exception. *dev is
// given back where the GIL is not held, or stays the caller's.
bool flight_submit(struct core *core, struct flight *f, hr_device *dev,
                   const struct hr_sample *samples, int n, hr_batch batch,
                   struct hr_job_params *params);
bool flight_done(struct flight *f);
// Gives back what was borrowed, once the flight is done.
void flight_settle(struct flight *f);
// Notes the path of a sample's source, before it flies. False with an exception.
bool flight_note(struct flight *f, Py_ssize_t i, PyObject *file);
// The path of a sample that failed, a new reference; None: it has none.
PyObject *flight_file(struct flight *f, int i);
// Whether this thread runs an on_done.
bool flight_in_callback(void);
PyObject *flight_exit(PyObject *module, PyObject *none);

// ---- the command ------------------------------------------------------------

// Only with HR_HAVE_COMMAND.
PyObject *command_run(PyObject *module, PyObject *args);

// ---- submit, job, result ------------------------------------------------------------

extern PyType_Spec job_spec, result_spec;
PyObject *submit(PyObject *module, PyObject *args, PyObject *kwargs);
// Takes the flight, also on failure.
PyObject *job_new(struct core *core, struct flight *f);
PyObject *result_tuple(struct core *core, PyObject *job, struct flight *f);
// Of n facts, which keep keeps.
PyObject *results_of(struct core *core, PyObject *keep, struct flight *f,
                     const struct hr_result *facts, int n);

// ---- source, loader, loaded ---------------------------------------------------

extern PyType_Spec source_spec, loader_spec, loaded_spec;
hr_source source_get(PyObject *source);
// The path of a sample that failed so, a new reference; None: it has none.
PyObject *source_file(PyObject *source, uint64_t i,
                      const struct hr_result *result);
// The class of sample i, for which the library found this one.
int64_t source_class(PyObject *source, uint64_t i, int64_t found);
// Frees what was read and is not used any more.
void source_settle(PyObject *source);
// Whether this thread is one of a loader's, which must not end a loader.
bool source_reading(void);

// How many batches are lent: a loader makes no more when all are. The loader
// has a reference, and each batch. With the GIL.
struct lending {
    int lent, refs;
};
void lending_leave(struct lending *lending);
// The path of sample i of a Loaded, if it failed: a new reference, or None.
PyObject *loaded_file(PyObject *loaded, int i);
// A Loaded of the batch, which it takes, also on failure. If one more must not
// be lent it is a copy.
PyObject *loaded_new(struct core *core, PyObject *source, hr_loaded loaded,
                     struct lending *lending, bool copy);

// Refuses a dict of parameters that a Loader cannot have.
PyObject *loader_check(PyObject *module, PyObject *given);
// Ends all loaders, for good; called at exit. Until end it waits for them.
void loader_exit(int64_t end);
void loader_forked(void);  // in the child
void loader_init(void);    // in another interpreter

#endif
