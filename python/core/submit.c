// SPDX-License-Identifier: Apache-2.0
// Samples of Python become a job.
#include "flight.h"
#include "inputs.h"
#include "ops.h"
#include "tensor.h"

#include <stdlib.h>
#include <string.h>

// The state of one call of submit(); only the flight outlives the call.
struct request {
    struct core *core;
    struct flight *flight;
    PyObject *names;  // paths that had to be converted, a list
    struct hr_sample *samples;
    struct hr_op *ops;  // of all samples; equal lists are there once
    Py_ssize_t n;
    hr_batch batch;
    hr_image *images;  // [n] over slots, if there are several batches
    hr_cache cache;    // of all samples, or NULL
    int channels;      // of the destination
};

// ---- One sample -------------------------------------------------------------

static bool keep_name(struct request *r, PyObject *name)
{
    return (r->names || (r->names = PyList_New(0))) &&
           !PyList_Append(r->names, name);
}

// The path is noted now: at the end of the job no Python code is to be run.
static bool read_path(struct request *r, Py_ssize_t i, PyObject *source)
{
    PyObject *path = PyOS_FSPath(source), *held = NULL;
    bool kept = path && flight_note(r->flight, i, path) &&
                (held = path_of(r->core, path, &r->samples[i].path)) &&
                keep_name(r, held);

    Py_XDECREF(path);
    Py_XDECREF(held);
    return kept;
}

// Messages name the pack file and the picture.
static bool read_entry(struct request *r, Py_ssize_t i, PyObject *entry)
{
    PyObject *place = NULL, *name = NULL;
    struct hr_sample *sample = &r->samples[i];

    if (entry_sample(r->core, entry, sample) && (place = entry_place(entry)) &&
        flight_note(r->flight, i, place) &&
        (name = PyUnicode_EncodeFSDefault(place)) && keep_name(r, name))
        sample->name = PyBytes_AsString(name);
    else
        sample->name = NULL;
    Py_XDECREF(place);
    Py_XDECREF(name);
    return sample->name != NULL;
}

static bool read_source(struct request *r, Py_ssize_t i, PyObject *source)
{
    struct hr_sample *sample = &r->samples[i];
    struct held *sources = &r->flight->sources;
    Py_ssize_t size;
    char *bytes;

    if (PyUnicode_Check(source))
        return read_path(r, i, source);
    if (PyBytes_Check(source)) {
        if (PyBytes_AsStringAndSize(source, &bytes, &size))
            return false;
        sample->data = bytes;
        sample->size = (size_t)size;
        return true;
    }
    if (Py_TYPE(source) == r->core->pixels) {
        sample->image = ((struct tensor *)source)->image;
        return true;
    }
    if (Py_TYPE(source) == r->core->entry)
        return read_entry(r, i, source);
    if (Py_TYPE(source) == r->core->file)
        return file_sample(source, sample), true;
    if (!PyObject_CheckBuffer(source))
        return read_path(r, i, source);
    if (!held_add(sources, source, PyBUF_SIMPLE))
        return false;
    sample->data = sources->views[sources->n - 1].buf;
    sample->size = (size_t)sources->views[sources->n - 1].len;
    // A pointer to nothing would not be a source.
    if (!sample->data)
        sample->data = "";
    return true;
}

static PyObject *ops_of(PyObject *sample)
{
    return PyTuple_GetItem(sample, 1);
}

static bool is_random(const struct hr_sample *sample)
{
    bool is = false;

    for (int i = 0; i < sample->num_ops; i++)
        is = is || hr_op_info(sample->ops[i].type)->random;
    return is;
}

static bool read_sample(struct request *r, Py_ssize_t i, struct hr_op **free)
{
    PyObject *tuple = PyTuple_GetItem(r->flight->samples, i);
    struct hr_sample *sample = &r->samples[i], *before = sample - 1;
    PyObject *key, *out;

    sample->cache = r->cache;
    if (!read_source(r, i, PyTuple_GetItem(tuple, 0)))
        return false;
    if (i &&
        ops_of(tuple) == ops_of(PyTuple_GetItem(r->flight->samples, i - 1))) {
        sample->ops = before->ops;
        sample->num_ops = before->num_ops;
    } else {
        sample->ops = *free;
        sample->num_ops = ops_parse(ops_of(tuple), r->channels, *free,
                                    &r->flight->tables);
        if (sample->num_ops < 0)
            return false;
        *free += sample->num_ops;
    }
    key = PyTuple_Size(tuple) == 3 ? PyTuple_GetItem(tuple, 2) : Py_None;
    if (!ops_parse_key(key, &sample->random))
        return false;
    // Without one all pictures would get the same crop and flip.
    if (key == Py_None && is_random(sample)) {
        PyErr_SetString(core_argument_error(),
                        "random ops need a key: (source, ops, (seed, index, "
                        "epoch))");
        return false;
    }
    if (r->images) {
        sample->out = r->images[i];
    } else if (!r->batch) {
        out = PyTuple_GetItem(r->flight->out, i);
        sample->out = ((struct tensor *)out)->image;
    }
    return true;
}

// ---- All samples ------------------------------------------------------------

// Names the sample in the text of an exception.
static void blame(Py_ssize_t i)
{
    PyObject *type, *value, *trace;

    PyErr_Fetch(&type, &value, &trace);
    if ((type == PyExc_TypeError || type == core_argument_error()) && value) {
        PyErr_Format(type, "sample %zd: %S", i, value);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
    } else {
        PyErr_Restore(type, value, trace);
    }
}

// How many ops there are; -1 with an exception.
static Py_ssize_t count_ops(PyObject *samples, Py_ssize_t n)
{
    PyObject *before = NULL;
    Py_ssize_t total = 0;

    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *tuple = PyTuple_GetItem(samples, i), *ops;
        Py_ssize_t size = PyTuple_Check(tuple) ? PyTuple_Size(tuple) : 0;

        if ((size != 2 && size != 3) || !PyTuple_Check(ops_of(tuple))) {
            PyErr_Format(PyExc_TypeError,
                         "sample %zd must be (source, ops) or (source, ops, "
                         "key), with a tuple of ops",
                         i);
            return -1;
        }
        ops = ops_of(tuple);
        if (ops != before)
            total += PyTuple_Size(ops);
        before = ops;
    }
    return total;
}

static bool read_samples(struct request *r)
{
    Py_ssize_t total = count_ops(r->flight->samples, r->n);
    struct hr_op *free;

    if (total < 0)
        return false;
    r->samples = calloc((size_t)r->n, sizeof(*r->samples));
    // ops_parse() writes less than HR_MAX_OPS, and never more than there are.
    r->ops = malloc((size_t)(total + 1) * sizeof(*r->ops));
    if (!r->samples || !r->ops)
        return PyErr_NoMemory(), false;
    free = r->ops;
    for (Py_ssize_t i = 0; i < r->n; i++)
        if (!read_sample(r, i, &free))
            return blame(i), false;
    return true;
}

// ---- The destination --------------------------------------------------------

// An image over a slot of a batch.
static hr_image slot_image(struct request *r, hr_device dev, PyObject *out,
                           Py_ssize_t slot)
{
    const struct tensor *t = (struct tensor *)out;
    const struct hr_batch_params *p = t->batch ? &t->batch->params : NULL;
    hr_image image;

    if (!p || !p->data || slot >= p->n)
        return PyErr_SetString(core_argument_error(),
                               "it has no such slot in host memory"),
               NULL;
    image = hr_image_create(
        dev,
        hr_image_params(.w = p->w, .h = p->h, .c = p->c, .dtype = p->dtype,
                        .layout = p->layout, .stride_c = p->stride_c,
                        .stride_h = p->stride_h,
                        .data = (char *)p->data + p->stride_n * (size_t)slot));
    if (!image)
        core_raise_last(r->core);
    return image;
}

// Sample i goes to slot i / k of batch i % k.
static bool read_batches(struct request *r, hr_device dev, PyObject *list)
{
    Py_ssize_t k = PyTuple_Size(list);

    if (!(r->images = calloc((size_t)r->n, sizeof(*r->images))))
        return PyErr_NoMemory(), false;
    for (Py_ssize_t i = 0; i < r->n; i++) {
        PyObject *batch = PyTuple_GetItem(list, i % k);

        if (Py_TYPE(batch) != r->core->batch)
            return PyErr_Format(PyExc_TypeError, "out[%zd] is not a Batch",
                                i % k),
                   false;
        if (!(r->images[i] = slot_image(r, dev, batch, i / k)))
            return blame(i), false;
        if (r->channels < ((struct tensor *)batch)->c)
            r->channels = ((struct tensor *)batch)->c;
    }
    return true;
}

static void drop_images(struct request *r)
{
    for (Py_ssize_t i = 0; r->images && i < r->n; i++)
        hr_image_release(&r->images[i]);
    free(r->images);
}

static bool read_images(struct request *r, hr_device dev, PyObject *out)
{
    PyObject *list = PySequence_Tuple(out);

    if (!list)
        return false;
    r->flight->out = list;
    if (PyTuple_Size(list) &&
        Py_TYPE(PyTuple_GetItem(list, 0)) == r->core->batch)
        return read_batches(r, dev, list);
    if (PyTuple_Size(list) != r->n)
        return PyErr_Format(core_argument_error(),
                            "%zd samples, %zd destinations", r->n,
                            PyTuple_Size(list)),
               false;
    for (Py_ssize_t i = 0; i < r->n; i++) {
        PyObject *pixels = PyTuple_GetItem(list, i);

        if (Py_TYPE(pixels) != r->core->pixels)
            return PyErr_Format(PyExc_TypeError, "out[%zd] is not Pixels", i),
                   false;
        if (((struct tensor *)pixels)->readonly)
            return PyErr_Format(core_argument_error(), "out[%zd] is read-only",
                                i),
                   false;
        // A table must fit the smallest of them.
        if (r->channels < ((struct tensor *)pixels)->c)
            r->channels = ((struct tensor *)pixels)->c;
    }
    return true;
}

static bool read_out(struct request *r, hr_device dev, PyObject *out)
{
    if (Py_TYPE(out) != r->core->batch)
        return read_images(r, dev, out);
    r->flight->out = Py_NewRef(out);
    if (!(r->batch = ((struct tensor *)out)->batch))
        return core_raise(r->core, HR_EINVAL, "out: it was collected"), false;
    r->channels = ((struct tensor *)out)->c;
    return true;
}

// ---- submit() ---------------------------------------------------------------

static bool read_on_done(struct request *r, PyObject *on_done)
{
    if (on_done == Py_None)
        return true;
    if (!PyCallable_Check(on_done))
        return PyErr_SetString(PyExc_TypeError, "on_done must be callable"),
               false;
    r->flight->on_done = Py_NewRef(on_done);
    return true;
}

// Fills in what the call says; gives the samples and the destination.
static bool read_call(struct core *core, PyObject *args, PyObject *kwargs,
                      PyObject **samples, PyObject **out, PyObject **on_done,
                      hr_device *dev, hr_cache *out_cache,
                      struct hr_job_params *params)
{
    static char *names[] = {"samples", "out",        "device", "on_error",
                            "timeout", "first_slot", "strict", "on_done",
                            "tier",    "cache",      NULL};
    static const char *const on_errors[] = {"fail", "zero", "skip", NULL};
    static const char *const tiers[] = {"exact", "close", "fast", NULL};
    PyObject *device = Py_None, *on_error = NULL, *timeout = NULL, *tier = NULL;
    PyObject *cache = NULL;
    int strict = 0, number;

    *on_done = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|$OOOipOOO:submit", names,
                                     samples, out, &device, &on_error, &timeout,
                                     &params->first_slot, &strict, on_done,
                                     &tier, &cache) ||
        !cache_find(core, cache, out_cache))
        return false;
    params->strict = strict;
    if ((number = core_choice(on_error, "on_error", on_errors)) < 0)
        return false;
    params->on_error = (enum hr_on_error)number;
    if ((number = core_choice(tier, "tier", tiers)) < 0)
        return false;
    params->tier = (enum hr_tier)number;
    if (!core_seconds(timeout, 0, &params->timeout_ns))
        return false;
    // The library's 0 is "none".
    if (timeout && timeout != Py_None && !params->timeout_ns)
        params->timeout_ns = 1;
    return device_find(core, device, dev);
}

static PyObject *start(struct request *r, hr_device *dev,
                       struct hr_job_params *params)
{
    PyObject *job = job_new(r->core, r->flight);
    struct flight *f = r->flight;

    r->flight = NULL;  // it is the Job's
    if (!job)
        return NULL;
    f->self = f->on_done ? Py_NewRef(job) : NULL;
    if (flight_submit(r->core, f, dev, r->samples, (int)r->n, r->batch, params))
        return job;
    Py_CLEAR(f->self);
    Py_DECREF(job);
    return NULL;
}

PyObject *submit(PyObject *module, PyObject *args, PyObject *kwargs)
{
    struct request r = {.core = PyModule_GetState(module)};
    struct hr_job_params params = {0};
    PyObject *samples, *out, *on_done, *job = NULL;
    hr_device dev = NULL;

    if (!core_alive(r.core) ||
        !read_call(r.core, args, kwargs, &samples, &out, &on_done, &dev,
                   &r.cache, &params) ||
        !(r.flight = flight_new()))
        goto error;
    if (!(r.flight->samples = PySequence_Tuple(samples)))
        goto error;
    r.n = PyTuple_Size(r.flight->samples);
    if (r.n < 1 || r.n > 1 << 20) {
        PyErr_Format(core_argument_error(), "%zd samples, must be 1 .. 2^20",
                     r.n);
        goto error;
    }
    if (read_out(&r, dev, out) && read_on_done(&r, on_done) && read_samples(&r))
        job = start(&r, &dev, &params);
error:
    device_leave(dev);
    if (r.flight)
        flight_leave(r.flight);
    drop_images(&r);
    Py_XDECREF(r.names);
    free(r.samples);
    free(r.ops);
    return job;
}
