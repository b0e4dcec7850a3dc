// SPDX-License-Identifier: Apache-2.0
// Devices: listed, opened, found by name.
#include "flight.h"
#include "inputs.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct device {
    PyObject ob_base;
    hr_device device;  // NULL: closed
    unsigned generation;
};

// ---- The default device -----------------------------------------------------

// The last choice, and the process that made it. The child of a fork has no
// default device: the library would take the best there is.
static char chosen[64];
static unsigned chosen_in;

static enum hr_status choose(const char *name)
{
    PyThreadState *gil = PyEval_SaveThread();
    enum hr_status status = hr_set_image_backend(name);
    bool any = !name || !strcmp(name, "auto");
    const char *found = any && !status ? hr_get_image_backend() : NULL;

    // A child need not look for better ones again, if there are none.
    if (found && !strcmp(found, "cpu"))
        name = "cpu";
    PyEval_RestoreThread(gil);
    if (status)
        return status;
    // (A name that is too long was not that of a device.)
    snprintf(chosen, sizeof(chosen), "%s", name ? name : "auto");
    chosen_in = flight_generation();
    return HR_OK;
}

static bool renew(struct core *core)
{
    char name[sizeof(chosen)];

    if (!chosen[0] || chosen_in == flight_generation())
        return true;
    snprintf(name, sizeof(name), "%s", chosen);
    return !choose(name) || core_raise_last(core);
}

PyObject *device_set_default(PyObject *module, PyObject *name)
{
    const char *text = NULL;

    if (name != Py_None && !(text = PyUnicode_AsUTF8AndSize(name, NULL)))
        return NULL;
    return core_done(PyModule_GetState(module), choose(text));
}

PyObject *device_get_default(PyObject *module, PyObject *none)
{
    struct core *core = PyModule_GetState(module);
    const char *name;

    if (!renew(core))
        return NULL;
    WITHOUT_GIL(name = hr_get_image_backend());
    return name ? PyUnicode_FromString(name) : core_raise_last(core);
}

// ---- Opening ----------------------------------------------------------------

static PyObject *open_device(struct core *core, const char *name,
                             const struct hr_device_params *params)
{
    struct device *self = core_alive(core)
                              ? PyObject_New(struct device, core->device)
                              : NULL;

    if (!self)
        return NULL;
    self->generation = flight_generation();
    WITHOUT_GIL(self->device = hr_device_open(name, params));
    if (self->device)
        return (PyObject *)self;
    core_raise_last(core);
    Py_DECREF(self);
    return NULL;
}

// False: there is no such place.
static bool find_where(const char *name, enum hr_where *where)
{
    static const char *const names[] = {
        [HR_WHERE_HOST] = "host", [HR_WHERE_DEVICE] = "device"};

    for (int i = HR_WHERE_HOST; name && i <= HR_WHERE_DEVICE; i++)
        if (!strcmp(name, names[i]))
            *where = (enum hr_where)i;
    return !name || *where;
}

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"name",     "threads",   "budget",  "strict",
                            "deadline", "reference", "depth",   "cache",
                            "entropy",  "balance",   "cpu_cap", "latency",
                            NULL};
    struct core *core = core_of_type(type);
    struct hr_device_params params = {0};
    const char *name = NULL, *reference = NULL, *entropy = NULL;
    PyObject *deadline = NULL, *cache = NULL, *latency = NULL;
    Py_ssize_t budget = 0;
    int strict = 0, balance = 0;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|z$inpOziOzpiO:Device",
                                     names, &name, &params.threads, &budget,
                                     &strict, &deadline, &reference,
                                     &params.depth, &cache, &entropy, &balance,
                                     &params.cpu_cap, &latency) ||
        !core_seconds(deadline, 0, &params.deadline_ns) ||
        !core_seconds(latency, 0, &params.latency_ns) ||
        !cache_find(core, cache, &params.cache))
        return NULL;
    if (budget < 0)
        return core_raise(core, HR_EINVAL, "budget: below 0");
    params.budget = (size_t)budget;
    params.strict = strict;
    params.balance = balance;
    if (reference && !(params.reference = hr_reference_find(reference)))
        return core_raise(core, HR_EINVAL, "there is no such reference");
    if (!find_where(entropy, &params.entropy))
        return core_raise(core, HR_EINVAL, "entropy is not host or device");
    return open_device(core, name, &params);
}

static struct device *device_of(PyObject *self)
{
    return (struct device *)self;
}

// The open device of that name in this process; borrowed. NULL, perhaps with an
// exception.
static PyObject *find_cached(struct core *core, PyObject *name)
{
    PyObject *found = core_alive(core)
                          ? PyDict_GetItemWithError(core->devices, name)
                          : NULL;

    return found && device_of(found)->device &&
                   device_of(found)->generation == flight_generation()
               ? found
               : NULL;
}

// A device opened before fork is opened again in the child. If two threads open
// it at once, the second one finds the first one's.
static PyObject *cached(struct core *core, PyObject *name)
{
    PyObject *found = Py_XNewRef(find_cached(core, name)), *opened;
    const char *text;

    if (found || PyErr_Occurred() ||
        !(text = PyUnicode_AsUTF8AndSize(name, NULL)) ||
        !(opened = open_device(core, text, NULL)))
        return found;
    if ((found = Py_XNewRef(find_cached(core, name))) || PyErr_Occurred() ||
        PyDict_SetItem(core->devices, name, opened)) {
        Py_DECREF(opened);
        return found;
    }
    return opened;
}

// The device of an object, with a reference. False with an exception.
static bool retain(struct core *core, PyObject *self, hr_device *out)
{
    if (!device_of(self)->device)
        return core_raise(core, HR_EINVAL, "the device is closed"), false;
    if (!(*out = hr_device_retain(device_of(self)->device)))
        return core_raise_last(core), false;
    return true;
}

void device_leave(hr_device device)
{
    if (!device)
        return;
    // It may be the last reference, and wait for a driver.
    WITHOUT_GIL(hr_device_close(&device));
}

bool device_find(struct core *core, PyObject *device, hr_device *out)
{
    PyObject *name, *found;
    bool done;

    *out = NULL;
    if (!device || device == Py_None)
        return renew(core);
    if (Py_TYPE(device) == core->device)
        return retain(core, device, out);
    if (!PyUnicode_Check(device)) {
        PyErr_SetString(PyExc_TypeError,
                        "device must be None, a name or a Device");
        return false;
    }
    // A subclass of str might run code when it is looked up.
    if (!(name = PyUnicode_FromObject(device)))
        return false;
    done = (found = cached(core, name)) && retain(core, found, out);
    Py_XDECREF(found);
    Py_DECREF(name);
    return done;
}

// ---- Facts ------------------------------------------------------------------

// A string that a driver made may be in any encoding.
static PyObject *text_of(const char *text)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static PyObject *info_dict(const struct hr_device_info *info)
{
    return Py_BuildValue("{s:N,s:N,s:N,s:N,s:N,s:i,s:i,s:i,s:N,s:N,s:N}",
                         "name", text_of(info->name), "backend",
                         text_of(info->backend), "description",
                         text_of(info->description), "available",
                         PyBool_FromLong(info->available), "reason",
                         text_of(info->reason), "threads", info->caps.threads,
                         "max_side", info->caps.max_side, "batch",
                         info->caps.batch, "host_memory",
                         PyBool_FromLong(info->caps.host_memory), "exact",
                         PyBool_FromLong(info->caps.exact), "software",
                         PyBool_FromLong(info->caps.software));
}

PyObject *device_list(PyObject *module, PyObject *none)
{
    enum { MOST = 32 };
    struct hr_device_info *infos = calloc(MOST, sizeof(*infos));
    PyObject *list = PyList_New(0);
    int n = 0;

    if (infos && list) {
        WITHOUT_GIL(n = hr_device_list(infos, MOST));

    } else {
        PyErr_NoMemory();
    }
    for (int i = 0; i < n && i < MOST && !PyErr_Occurred(); i++) {
        PyObject *dict = info_dict(&infos[i]);

        if (dict)
            PyList_Append(list, dict);
        Py_XDECREF(dict);
    }
    free(infos);
    if (PyErr_Occurred())
        Py_CLEAR(list);
    return list;
}

// Copies the device's facts at once: when a list or a dict is made other code
// may run, which closes the device. (Its texts are not copied; making a str of
// them runs no code.) False with an exception.
static bool facts_of(PyObject *self, struct hr_device_t *facts)
{
    hr_device device = device_of(self)->device;

    if (!device)
        return core_raise(core_of(self), HR_EINVAL, "the device is closed"),
               false;
    memcpy(facts, device, sizeof(*facts));
    return true;
}

// closure: where it stands.
static PyObject *get_text(PyObject *self, void *closure)
{
    struct hr_device_t facts;

    if (!facts_of(self, &facts))
        return NULL;
    return text_of(*(const char *const *)((char *)&facts + (size_t)closure));
}

static PyObject *get_exact(PyObject *self, void *closure)
{
    struct hr_device_t facts;

    return facts_of(self, &facts) ? PyBool_FromLong(facts.caps.exact) : NULL;
}

static PyObject *get_reference(PyObject *self, void *closure)
{
    struct hr_device_t facts;

    if (!facts_of(self, &facts))
        return NULL;
    return text_of(
        hr_reference_name(hr_device_reference(device_of(self)->device)));
}

static PyObject *engine_name(const void *profile, size_t i)
{
    return text_of(((const struct hr_profile *)profile)->engines[i].name);
}

static PyObject *fallbacks_dict(const struct hr_stats *stats)
{
    PyObject *dict = PyDict_New();

    for (int bit = 0; dict && bit < 32; bit++) {
        uint64_t count = stats->fallback_reasons[bit];

        if (count && !core_put(dict, hr_why_text(1u << bit),
                               PyLong_FromUnsignedLongLong(count)))
            Py_CLEAR(dict);
    }
    return dict;
}

static PyObject *get_stats(PyObject *self, PyObject *none)
{
    struct hr_profile profile;
    struct hr_device_t facts;
    struct hr_stats s;

    if (!facts_of(self, &facts))
        return NULL;
    hr_device_stats(device_of(self)->device, &s);
    hr_device_profile(device_of(self)->device, &profile);
    return Py_BuildValue(
        "{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:n,s:n,s:K,s:K,s:N,s:N,s:(KKKK),s:K}",
        "jobs", s.jobs, "samples", s.samples, "failed", s.failed, "canceled",
        s.canceled, "fallbacks", s.fallbacks, "abandoned", s.abandoned,
        "mismatches", s.mismatches, "bytes_in_flight",
        (Py_ssize_t)s.bytes_in_flight, "peak_bytes", (Py_ssize_t)s.peak_bytes,
        "cache_hits", s.cache_hits, "cache_misses", s.cache_misses,
        "fallback_reasons", fallbacks_dict(&s), "engines",
        core_tuple(profile.num_engines, engine_name, &profile), "shares",
        s.shares[0], s.shares[1], s.shares[2], s.shares[3], "shared", s.shared);
}

// ---- Closing ----------------------------------------------------------------

// Calls that use it at the moment have a reference.
static void shut(PyObject *self)
{
    hr_device device = device_of(self)->device;

    device_of(self)->device = NULL;
    device_leave(device);
}

static PyObject *close_device(PyObject *self, PyObject *none)
{
    shut(self);
    Py_RETURN_NONE;
}

static PyObject *enter(PyObject *self, PyObject *none)
{
    return Py_NewRef(self);
}

static PyObject *leave(PyObject *self, PyObject *args)
{
    shut(self);
    Py_RETURN_NONE;
}

static PyObject *represent(PyObject *self)
{
    struct hr_device_t facts;
    bool closed = !device_of(self)->device;

    if (!closed && !facts_of(self, &facts))
        return NULL;
    return PyUnicode_FromFormat("<headrace.Device %s>",
                                closed ? "(closed)" : facts.name);
}

static void dealloc(PyObject *self)
{
    shut(self);
    core_free(self);
}

static PyMethodDef methods[] = {
    {"close", close_device, METH_NOARGS,
     "close($self, /)\n--\n\nGive the device up. Its jobs go on."},
    {"stats", get_stats, METH_NOARGS,
     "stats($self, /)\n--\n\nReturn counters since it was opened, as a dict.\n"
     "With balance, shares are the samples of each of the engines."},
    {"__enter__", enter, METH_NOARGS, NULL},
    {"__exit__", leave, METH_VARARGS, NULL},
    {0},
};

#define AT(field) (void *)offsetof(struct hr_device_t, field)
static PyGetSetDef getset[] = {
    {"name", get_text, NULL, "'cpu', 'opencl:0', ...", AT(name)},
    {"backend", get_text, NULL, "'cpu', 'opencl' or 'vaapi'", AT(backend)},
    {"description", get_text, NULL, "hardware and driver, one line",
     AT(description)},
    {"exact", get_exact, NULL, "whether all it offers is bit-exact here", NULL},
    {"reference", get_reference, NULL, "that its resizes follow now", NULL},
    {0},
};
#undef AT

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "Device(name=None, *, threads=0, budget=0, strict=False, deadline=None,\n"
     "       reference=None, depth=0, cache=None, entropy=None,\n"
     "       balance=False, cpu_cap=0, latency=None)\n--\n\n"
     "A device of its own, with threads and a byte budget.\n"
     "\n"
     "Args:\n"
     "    threads: 0: all usable cores; -1, of \"cpu\": none: submit() returns\n"
     "        when the job is done, by the thread that calls it.\n"
     "    budget: bytes that all jobs in flight may hold; 0: 256 MiB.\n"
     "    strict: never fall back to another engine.\n"
     "    deadline: seconds that a driver may take for a span.\n"
     "    reference: release whose pixels it makes; None: the process's.\n"
     "    depth: pictures in flight on a media engine; 0: 8.\n"
     "    cache: a Cache; None: that of the process.\n"
     "    entropy: \"host\" or \"device\", which decodes the entropy coding of the\n"
     "        JPEGs of an OpenCL device; None: as HEADRACE_OPENCL_ENTROPY says.\n"
     "    balance: its engines share the samples, where all make the same bytes.\n"
     "    cpu_cap: bound on the time of its threads, in percent of the usable\n"
     "        cores; 0: none.\n"
     "    latency: with balance, target in seconds for the 99th percentile of a\n"
     "        job's latency.\n"
     "\n"
     "DeviceError if it cannot be opened. After fork() the child cannot use\n"
     "it."},
    {Py_tp_new, create},
    {Py_tp_dealloc, dealloc},
    {Py_tp_repr, represent},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {0},
};

PyType_Spec device_spec = CORE_SPEC("Device", struct device, slots, 0);
