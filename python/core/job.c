// SPDX-License-Identifier: Apache-2.0
// Job and Result.
#include "flight.h"
#include "inputs.h"

#include <stddef.h>
#include <structmember.h>

struct job {
    PyObject ob_base;
    struct flight *flight;
    PyObject *weak;
};

static struct flight *flight_of(PyObject *self)
{
    return ((struct job *)self)->flight;
}

// ---- Making and ending ------------------------------------------------------

PyObject *job_new(struct core *core, struct flight *f)
{
    struct job *self = (struct job *)PyType_GenericAlloc(core->job, 0);

    if (self)
        self->flight = f;
    else
        flight_leave(f);
    return (PyObject *)self;
}

// The library holds a job in flight as well: the collector must not see it.
static int traverse(PyObject *self, visitproc visit, void *arg)
{
    struct flight *f = flight_of(self);

    Py_VISIT(Py_TYPE(self));
    if (!f || !flight_done(f))
        return 0;
    Py_VISIT(f->samples);
    Py_VISIT(f->out);
    Py_VISIT(f->files);
    return 0;
}

static int clear(PyObject *self)
{
    struct flight *f = flight_of(self);

    if (f && flight_done(f))
        flight_settle(f);
    return 0;
}

static void dealloc(PyObject *self)
{
    struct job *job = (struct job *)self;
    struct flight *f = job->flight;

    PyObject_GC_UnTrack(self);
    if (job->weak)
        PyObject_ClearWeakRefs(self);
    job->flight = NULL;
    if (f)
        flight_leave(f);
    core_free(self);
}

// ---- Looking and waiting ----------------------------------------------------

static bool of_this_process(PyObject *self)
{
    if (flight_of(self)->generation != flight_generation())
        return core_raise(core_of(self), HR_EFORK, "job submitted before fork"),
               false;
    // The collector shows it to other code before submit() has returned.
    if (!flight_of(self)->job)
        return core_raise(core_of(self), HR_EINVAL, "not submitted yet"), false;
    return true;
}

// Pictures of pack files are checked when they are made first.
static void note_passed(struct core *core, struct flight *f)
{
    for (int i = 0; f->samples && i < f->job->num_samples; i++) {
        PyObject *source = PyTuple_GetItem(PyTuple_GetItem(f->samples, i), 0);

        if (Py_TYPE(source) == core->entry && !f->job->results[i].status)
            entry_passed(source);
    }
}

// Releases the job's references as soon as a call finds it done (not inside its
// own callback: the library has the job a moment longer).
static void settle(struct core *core, struct flight *f)
{
    note_passed(core, f);
    if (flight_done(f))
        flight_settle(f);
}

// HR_PENDING after timeout_ns, or how the job ended. False with an exception:
// Ctrl-C, or a job of the parent process.
static bool await_end(PyObject *self, int64_t timeout_ns,
                      enum hr_status *status)
{
    const int64_t slice = 50000000;
    int64_t begin = core_now(), left = timeout_ns;
    hr_job job = flight_of(self)->job;

    if (!of_this_process(self))
        return false;
    *status = hr_job_poll(job, 0);
    while (*status == HR_PENDING && left) {
        if (flight_in_callback())
            return core_raise(core_of(self), HR_EINVAL,
                              "a callback must not wait for a job"),
                   false;
        WITHOUT_GIL(*status = hr_job_poll(
                        job, left < 0 || left > slice ? slice : left));
        if (PyErr_CheckSignals())
            return false;
        if (timeout_ns >= 0 && (left = timeout_ns - (core_now() - begin)) < 0)
            left = 0;
    }
    if (*status != HR_PENDING)
        settle(core_of(self), flight_of(self));
    return true;
}

// The job's status is that of a sample.
static PyObject *raise_failed(PyObject *self, enum hr_status status)
{
    struct flight *f = flight_of(self);

    for (int i = 0; i < f->job->num_samples; i++) {
        const struct hr_result *result = &f->job->results[i];
        PyObject *file;

        if (result->status != status || !result->message[0])
            continue;
        if ((file = flight_file(f, i)))
            core_raise_result(core_of(self), result, file);
        Py_XDECREF(file);
        return NULL;
    }
    return core_raise(core_of(self), status, hr_status_text(status));
}

static PyObject *job_wait(PyObject *self, PyObject *args, PyObject *kwargs)
{
    enum hr_status status;
    int64_t ns;

    if (!core_timeout(args, kwargs, "|O:wait", HR_FOREVER, &ns) ||
        !await_end(self, ns, &status))
        return NULL;
    if (status == HR_PENDING)
        return core_raise(core_of(self), HR_ETIMEDOUT,
                          "the job is still at work");
    if (status)
        return raise_failed(self, status);
    Py_RETURN_NONE;
}

static PyObject *job_poll(PyObject *self, PyObject *none)
{
    enum hr_status status;

    if (!await_end(self, 0, &status))
        return NULL;
    return PyBool_FromLong(status != HR_PENDING);
}

static PyObject *job_cancel(PyObject *self, PyObject *none)
{
    if (!of_this_process(self))
        return NULL;
    hr_job_cancel(flight_of(self)->job);
    Py_RETURN_NONE;
}

static PyObject *job_fileno(PyObject *self, PyObject *none)
{
    int fd;

    if (!of_this_process(self))
        return NULL;
    if ((fd = hr_job_fd(flight_of(self)->job)) < 0)
        return core_raise_last(core_of(self));
    return PyLong_FromLong(fd);
}

static PyObject *job_await(PyObject *self)
{
    PyObject *coroutine = core_call("headrace._aio", "wait", self);
    PyObject *iterator = coroutine
                             ? PyObject_CallMethod(coroutine, "__await__", NULL)
                             : NULL;

    Py_XDECREF(coroutine);
    return iterator;
}

static PyObject *job_get_results(PyObject *self, void *closure)
{
    enum hr_status status;

    if (!await_end(self, 0, &status))
        return NULL;
    if (status == HR_PENDING)
        return core_raise(core_of(self), HR_EINVAL, "the job is still at work");
    return result_tuple(core_of(self), self, flight_of(self));
}

static PyObject *job_get_device(PyObject *self, void *closure)
{
    if (!of_this_process(self))
        return NULL;
    return PyUnicode_FromString(flight_of(self)->job->device->name);
}

static PyObject *job_get_reference(PyObject *self, void *closure)
{
    if (!of_this_process(self))
        return NULL;
    return PyUnicode_FromString(
        hr_reference_name(flight_of(self)->job->reference));
}

static Py_ssize_t job_length(PyObject *self)
{
    if (!of_this_process(self))
        return -1;
    return flight_of(self)->job->num_samples;
}

static PyObject *job_represent(PyObject *self)
{
    hr_job job = flight_of(self)->job;
    bool here = job && flight_of(self)->generation == flight_generation();
    enum hr_status status = here ? hr_job_poll(job, 0) : HR_EFORK;

    if (!here)
        return PyUnicode_FromString("<headrace.Job>");
    return PyUnicode_FromFormat("<headrace.Job of %d, %s>", job->num_samples,
                                status == HR_PENDING ? "at work"
                                                     : hr_status_name(status));
}

static PyMethodDef job_methods[] = {
    {"wait", (PyCFunction)(void (*)(void))job_wait,
     METH_VARARGS | METH_KEYWORDS,
     "wait($self, /, timeout=None)\n--\n\n"
     "Wait until the job is done, for timeout seconds at most.\n\n"
     "With on_error='fail' it raises the error of the first sample that\n"
     "failed; headrace.TimeoutError if the job is still at work."},
    {"poll", job_poll, METH_NOARGS,
     "poll($self, /)\n--\n\nReturn whether the job is done; never waits."},
    {"cancel", job_cancel, METH_NOARGS,
     "cancel($self, /)\n--\n\n"
     "Ask the job to end early. It still ends the usual way."},
    {"fileno", job_fileno, METH_NOARGS,
     "fileno($self, /)\n--\n\n"
     "Return a descriptor that turns readable when the job is done. It is\n"
     "the job's own: do not close it."},
    {0},
};

static PyGetSetDef job_getset[] = {
    {"results", job_get_results, NULL,
     "a tuple of Result, one for each sample, when the job is done", NULL},
    {"device", job_get_device, NULL, "name of the device it was given to",
     NULL},
    {"reference", job_get_reference, NULL,
     "the reference that its resizes follow", NULL},
    {0},
};

static PyMemberDef job_members[] = {WEAK_MEMBER(struct job), {0}};

static PyType_Slot job_slots[] = {
    {Py_tp_doc,
     "Samples that were submitted together; made by submit() only.\n\n"
     "It can be awaited in asyncio: the value is its results. Dropping it\n"
     "neither stops the work nor gives up the memory that is written to."},
    {Py_tp_dealloc, dealloc},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_repr, job_represent},
    {Py_tp_methods, job_methods},
    {Py_tp_getset, job_getset},
    {Py_tp_members, job_members},
    {Py_sq_length, job_length},
    {Py_am_await, job_await},
    {0},
};

PyType_Spec job_spec = CORE_SPEC("Job", struct job, job_slots,
                                 Py_TPFLAGS_HAVE_GC |
                                     Py_TPFLAGS_DISALLOW_INSTANTIATION);
