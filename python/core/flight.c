// SPDX-License-Identifier: Apache-2.0
// The references of a job in flight, and how they are released.
//
//   NEW -> FLYING -> DONE
//
// A flight has up to two users: its Job, and the library while it flies. The
// Job goes first: the flight is an orphan, and goes on the list of the dead
// when it is done. An errand, or the next submit, frees those: that needs the
// GIL, and the library's threads shall not wait for it.
//
// The mutex guards the two lists, f->state, f->orphan, f->job and the flags. It
// is taken with the GIL or without, and a thread that has it never asks for the
// GIL.
#include "flight.h"
#include "inputs.h"

#include <stdlib.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended;  // a flight is done
static struct flight *flying, *dead;
static unsigned landings;     // how many are done, modulo 2^32
static unsigned generation;   // of processes: how often this one forked
static bool closing, closed;  // the exit hook has begun, has ended
static bool burying;          // an errand frees the dead
static _Thread_local bool in_callback;

// Waits for the end of a flight. The caller has the mutex, which it gives up
// meanwhile.
static void wait_slice(void)
{
    struct timespec t = core_slice(INT64_MAX);

    pthread_cond_timedwait(&ended, &mutex, &t);
}

// ---- Lists ------------------------------------------------------------------

static void link_in(struct flight **list, struct flight *f)
{
    f->prev = NULL;
    if ((f->next = *list))
        f->next->prev = f;
    *list = f;
}

static void unlink_from(struct flight **list, struct flight *f)
{
    *(f->prev ? &f->prev->next : list) = f->next;
    if (f->next)
        f->next->prev = f->prev;
    f->prev = f->next = NULL;
}

// ---- The end of one ---------------------------------------------------------

void flight_settle(struct flight *f)
{
    held_release(&f->sources);
    held_release(&f->tables);
    Py_CLEAR(f->samples);
    Py_CLEAR(f->out);
}

static void flight_free(struct flight *f)
{
    flight_settle(f);
    Py_CLEAR(f->on_done);
    Py_CLEAR(f->self);
    Py_CLEAR(f->files);
    free(f);
}

// Frees the dead. The caller has the GIL. Freeing may run any code, also code
// that submits.
static void free_dead(void)
{
    struct flight *f;

    for (;;) {
        pthread_mutex_lock(&mutex);
        if ((f = dead))
            unlink_from(&dead, f);
        pthread_mutex_unlock(&mutex);
        if (!f)
            return;
        flight_free(f);
    }
}

// The errand: what is left when it has waited for the GIL.
static void come(void *unused)
{
}

static void bury(void *unused)
{
    pthread_mutex_lock(&mutex);
    burying = false;  // later deaths get an errand of their own
    pthread_mutex_unlock(&mutex);
    free_dead();
}

static void call_python(struct flight *f, hr_job job)
{
    PyGILState_STATE state;
    PyObject *answer;
    bool late;

    pthread_mutex_lock(&mutex);
    late = closed || f->generation != generation;
    if (!f->job)
        f->job = job;  // hr_submit() has not returned yet
    pthread_mutex_unlock(&mutex);
    if (late)
        return;
    state = PyGILState_Ensure();
    in_callback = true;
    answer = PyObject_CallFunctionObjArgs(f->on_done, f->self, NULL);
    if (!answer)
        PyErr_WriteUnraisable(f->on_done);
    Py_XDECREF(answer);
    Py_CLEAR(f->on_done);
    Py_CLEAR(f->self);  // perhaps the last reference: an orphan from now on
    PyGILState_Release(state);  // what is local to the thread goes, too
    in_callback = false;
}

// The library's on_done: on a thread of its own, without the GIL.
static void landed(void *ctx, hr_job job)
{
    struct flight *f = ctx;
    bool call;

    if (f->on_done)
        call_python(f, job);
    pthread_mutex_lock(&mutex);
    if (f->generation != generation) {  // of an interpreter that has ended
        pthread_mutex_unlock(&mutex);
        return;
    }
    unlink_from(&flying, f);
    f->state = FLIGHT_DONE;
    landings++;
    pthread_cond_broadcast(&ended);
    if (f->orphan)
        link_in(&dead, f);
    if ((call = f->orphan && !closed && !burying))
        burying = true;
    pthread_mutex_unlock(&mutex);
    if (call && !errand_send(come, bury, NULL)) {
        pthread_mutex_lock(&mutex);
        burying = false;
        pthread_mutex_unlock(&mutex);
    }
}

// ---- From outside -----------------------------------------------------------

struct flight *flight_new(void)
{
    struct flight *f = calloc(1, sizeof(*f));

    if (!f)
        PyErr_NoMemory();
    else
        f->generation = generation;
    return f;
}

void flight_leave(struct flight *f)
{
    hr_job job;
    bool mine;

    pthread_mutex_lock(&mutex);
    job = f->job;
    f->job = NULL;
    // In the child of a fork no library thread uses the parent's flights.
    mine = f->state != FLIGHT_FLYING || f->generation != generation;
    f->orphan = !mine;
    pthread_mutex_unlock(&mutex);
    hr_job_release(&job);
    if (mine)
        flight_free(f);
}

bool flight_done(struct flight *f)
{
    bool done;

    pthread_mutex_lock(&mutex);
    done = f->state == FLIGHT_DONE;
    pthread_mutex_unlock(&mutex);
    return done;
}

bool flight_note(struct flight *f, Py_ssize_t i, PyObject *file)
{
    PyObject *number = PyLong_FromSsize_t(i);
    bool noted = number && (f->files || (f->files = PyDict_New())) &&
                 !PyDict_SetItem(f->files, number, file);

    Py_XDECREF(number);
    return noted;
}

PyObject *flight_file(struct flight *f, int i)
{
    bool failed = f->files && f->job->results[i].status;
    PyObject *number = failed ? PyLong_FromLong(i) : NULL;
    PyObject *file = number ? PyDict_GetItemWithError(f->files, number) : NULL;

    Py_XDECREF(number);
    if (PyErr_Occurred())
        return NULL;
    return Py_NewRef(file ? file : Py_None);
}

unsigned flight_generation(void)
{
    return generation;
}

bool flight_in_callback(void)
{
    return in_callback;
}

bool flight_closed(void)
{
    bool is;

    pthread_mutex_lock(&mutex);
    is = closed;
    pthread_mutex_unlock(&mutex);
    return is;
}

// ---- Submitting -------------------------------------------------------------

static bool take_off(struct flight *f, unsigned *seen)
{
    bool refused;

    pthread_mutex_lock(&mutex);
    if (!(refused = closing)) {
        f->state = FLIGHT_FLYING;
        link_in(&flying, f);
    }
    *seen = landings;
    pthread_mutex_unlock(&mutex);
    return !refused;
}

static void stay(struct flight *f)
{
    pthread_mutex_lock(&mutex);
    unlink_from(&flying, f);
    f->state = FLIGHT_NEW;
    pthread_mutex_unlock(&mutex);
}

// Until some flight is done that was not when `seen` was read, or a slice of
// time is over: jobs that are not ours hold room, too.
static bool wait_for_room(unsigned seen)
{
    PyThreadState *gil = PyEval_SaveThread();

    pthread_mutex_lock(&mutex);
    if (landings == seen)
        wait_slice();
    pthread_mutex_unlock(&mutex);
    PyEval_RestoreThread(gil);
    return !PyErr_CheckSignals();
}

// A job was refused: waits for room, if that is why. False: a Python error.
static bool wait_to_submit(struct core *core, unsigned seen, int64_t deadline,
                           struct hr_job_params *params)
{
    if (hr_last_status() != HR_EAGAIN)
        return core_raise_last(core), false;
    if (in_callback)
        return core_raise(core, HR_EAGAIN,
                          "no room for the job, and a "
                          "callback must not wait"),
               false;
    if (!wait_for_room(seen))
        return false;
    if (deadline && (params->timeout_ns = deadline - core_now()) <= 0)
        return core_raise(core, HR_ETIMEDOUT, "no room for the job in time"),
               false;
    return true;
}

bool flight_submit(struct core *core, struct flight *f, hr_device *dev,
                   const struct hr_sample *samples, int n, hr_batch batch,
                   struct hr_job_params *params)
{
    PyThreadState *gil;
    int64_t deadline = params->timeout_ns ? core_now() + params->timeout_ns : 0;
    // Its threads say when a job is done; this one does without them.
    bool here = *dev && (*dev)->params.threads == HR_THREADS_NONE;
    unsigned seen;
    hr_job job;

    free_dead();
    params->on_done = here ? NULL : landed;
    params->ctx = f;
    for (;;) {
        if (!take_off(f, &seen))
            return core_raise(core, HR_ECANCELED, "the interpreter exits"),
                   false;
        gil = PyEval_SaveThread();
        if ((job = hr_submit(*dev, samples, n, batch, params)))
            hr_device_close(dev);
        if (job && here)
            hr_job_wait(job, HR_FOREVER);
        PyEval_RestoreThread(gil);
        if (job)
            break;
        stay(f);
        if (!wait_to_submit(core, seen, deadline, params))
            return false;
    }
    pthread_mutex_lock(&mutex);
    f->job = job;
    pthread_mutex_unlock(&mutex);
    if (here)
        landed(f, job);
    return true;
}

// ---- Exit and fork ----------------------------------------------------------

// A job whose end the program wants to hear of goes on, the others' work is
// wasted.
static void cancel_all(bool also_heard)
{
    pthread_mutex_lock(&mutex);
    for (struct flight *f = flying; f; f = f->next)
        if (f->job && (also_heard || !f->on_done))
            hr_job_cancel(f->job);
    pthread_mutex_unlock(&mutex);
}

static bool wait_for_some(void)
{
    PyThreadState *gil = PyEval_SaveThread();
    bool left;

    pthread_mutex_lock(&mutex);
    if (flying)
        wait_slice();
    left = flying != NULL;
    pthread_mutex_unlock(&mutex);
    PyEval_RestoreThread(gil);
    return left;
}

void flight_close(void)
{
    pthread_mutex_lock(&mutex);
    closing = true;
    pthread_mutex_unlock(&mutex);
}

void flight_exit(int64_t end)
{
    const int64_t after_interrupt = 2000000000;

    cancel_all(false);
    while (wait_for_some() && core_now() < end)
        if (PyErr_CheckSignals()) {
            PyErr_Clear();
            cancel_all(true);
            end = core_now() + after_interrupt;
        }
    pthread_mutex_lock(&mutex);
    closed = true;
    pthread_mutex_unlock(&mutex);
    free_dead();
}

// The parent's flights do not fly here, and its mutex may have been taken.
void flight_forked(void)
{
    pthread_mutex_init(&mutex, NULL);
    core_init_cond(&ended);
    generation++;
    flying = dead = NULL;
    in_callback = burying = false;
}

void flight_init(void)
{
    core_init_cond(&ended);
}

bool flight_begin_anew(void)
{
    bool was;

    pthread_mutex_lock(&mutex);
    if ((was = closed)) {
        generation++;
        flying = dead = NULL;
        closing = closed = burying = false;
    }
    pthread_mutex_unlock(&mutex);
    return was;
}
