// SPDX-License-Identifier: Apache-2.0
// Jobs in flight, their results, and loaders.
#ifndef HR_PY_FLIGHT_H
#define HR_PY_FLIGHT_H

#include "inputs.h"
#include "ops.h"

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

void flight_init(void);            // once per process
void flight_forked(void);          // in the child
bool flight_begin_anew(void);      // whether an interpreter had ended before
unsigned flight_generation(void);  // changes with fork
bool flight_closed(void);          // the interpreter has ended our work
void flight_close(void);           // nothing is submitted from now on
// Cancels what is in flight and waits for the rest, until `end`, or until 2
// seconds after Ctrl-C.
void flight_exit(int64_t end);

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
// Notes the path of a sample's source, before it flies. False with an
// exception.
bool flight_note(struct flight *f, Py_ssize_t i, PyObject *file);
// The path of a sample that failed, a new reference; None: it has none.
PyObject *flight_file(struct flight *f, int i);
// Says whether this thread runs an on_done.
bool flight_in_callback(void);

// ---- submit, job, result ----------------------------------------------------

PyObject *submit(PyObject *module, PyObject *args, PyObject *kwargs);
// Takes the flight, also on failure.
PyObject *job_new(struct core *core, struct flight *f);
PyObject *result_tuple(struct core *core, PyObject *job, struct flight *f);
// Results of n facts, which the object keep owns.
PyObject *results_of(struct core *core, PyObject *keep, struct flight *f,
                     const struct hr_result *facts, int n);

// ---- loader, loaded ---------------------------------------------------------

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
