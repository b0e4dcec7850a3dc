// SPDX-License-Identifier: Apache-2.0
// Result: how one sample of a job ended.
#include "flight.h"

#include <stddef.h>

struct result {
    PyObject ob_base;
    PyObject *keep;  // a Job or a Loaded; keeps the other two
    const struct hr_result *facts;
    struct flight *flight;  // NULL: of a loader
    int index;
};

// The results of a job that is done.
PyObject *result_tuple(struct core *core, PyObject *job, struct flight *f)
{
    return results_of(core, job, f, f->job->results, f->job->num_samples);
}

PyObject *results_of(struct core *core, PyObject *keep, struct flight *f,
                     const struct hr_result *facts, int n)
{
    PyObject *tuple = core_alive(core) ? PyTuple_New(n) : NULL;

    for (int i = 0; tuple && i < n; i++) {
        struct result *r = PyObject_New(struct result, core->result);

        if (!r) {
            Py_DECREF(tuple);
            return NULL;
        }
        r->keep = Py_NewRef(keep);
        r->facts = &facts[i];
        r->flight = f;
        r->index = i;
        PyTuple_SetItem(tuple, i, (PyObject *)r);
    }
    return tuple;
}

#define FACTS(self) (((struct result *)(self))->facts)

static void result_dealloc(PyObject *self)
{
    Py_XDECREF(((struct result *)self)->keep);
    core_free(self);
}

static PyObject *text_of(const char *text)
{
    return PyUnicode_DecodeFSDefault(text);  // it may hold a path
}

static PyObject *get_int(PyObject *self, void *closure)
{
    const char *at = (const char *)FACTS(self) + (size_t)closure;

    return PyLong_FromLong(*(const int *)at);
}

static PyObject *get_ok(PyObject *self, void *closure)
{
    return PyBool_FromLong(!FACTS(self)->status);
}

static PyObject *get_status(PyObject *self, void *closure)
{
    return PyLong_FromLong((long)FACTS(self)->status);
}

static PyObject *get_status_name(PyObject *self, void *closure)
{
    return PyUnicode_InternFromString(hr_status_name(FACTS(self)->status));
}

static PyObject *get_message(PyObject *self, void *closure)
{
    return text_of(FACTS(self)->message);
}

static PyObject *get_stage(PyObject *self, void *closure)
{
    if (!FACTS(self)->status)
        Py_RETURN_NONE;
    return PyUnicode_InternFromString(hr_stage_name(FACTS(self)->stage));
}

static PyObject *get_offset(PyObject *self, void *closure)
{
    if (FACTS(self)->offset < 0)
        Py_RETURN_NONE;
    return PyLong_FromLongLong(FACTS(self)->offset);
}

static PyObject *get_reason(PyObject *self, void *closure)
{
    return text_of(core_reason(FACTS(self)));
}

static PyObject *get_file(PyObject *self, void *closure)
{
    struct result *r = (struct result *)self;

    if (r->flight)
        return flight_file(r->flight, r->index);
    return loaded_file(r->keep, r->index);
}

static bool append(PyObject *list, PyObject *item)
{
    bool done = item && !PyList_Append(list, item);

    Py_XDECREF(item);
    return done;
}

static PyObject *get_why(PyObject *self, void *closure)
{
    PyObject *list = PyList_New(0);

    for (unsigned why = FACTS(self)->why; list && why; why &= why - 1)
        if (!append(list, PyUnicode_InternFromString(hr_why_text(why))))
            Py_CLEAR(list);
    return list;
}

static PyObject *get_spans(PyObject *self, void *closure)
{
    const struct hr_result *facts = FACTS(self);
    PyObject *list = PyList_New(0);

    for (int i = 0; list && i < facts->num_spans; i++) {
        const struct hr_span_result *s = &facts->spans[i];

        if (!append(list,
                    Py_BuildValue("(sss)", hr_stage_name(s->span.first),
                                  hr_stage_name(s->span.last), s->device)))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *result_represent(PyObject *self)
{
    const struct hr_result *facts = FACTS(self);

    return PyUnicode_FromFormat("<headrace.Result %s%s%s>",
                                hr_status_name(facts->status),
                                facts->message[0] ? " " : "", facts->message);
}

#define AT(field) (void *)offsetof(struct hr_result, field)
static PyGetSetDef result_getset[] = {
    {"ok", get_ok, NULL, "whether the sample was made", NULL},
    {"status", get_status, NULL, "0, or the number of the status", NULL},
    {"status_name", get_status_name, NULL, "'HR_OK', 'HR_ECORRUPT', ...", NULL},
    {"message", get_message, NULL, "'', or one sentence of what went wrong",
     NULL},
    {"stage", get_stage, NULL, "where it failed, e.g. 'header'; else None",
     NULL},
    {"offset", get_offset, NULL, "byte of the file where it failed, or None",
     NULL},
    {"reason", get_reason, NULL, "the message without file and stage", NULL},
    {"file", get_file, NULL, "path of a sample that failed, or None", NULL},
    {"width", get_int, NULL, "of the source, in pixels; 0: never known",
     AT(width)},
    {"height", get_int, NULL, "of the source, in pixels; 0: never known",
     AT(height)},
    {"orientation", get_int, NULL, "its EXIF's, 1 .. 8; 0: never known",
     AT(orientation)},
    {"why", get_why, NULL,
     "list of reasons why the preferred engine did not do everything", NULL},
    {"spans", get_spans, NULL, "list of (first stage, last stage, device)",
     NULL},
    {"fallbacks", get_int, NULL, "how often it changed engine in flight",
     AT(fallbacks)},
    {"warnings", get_int, NULL, "faults that the decoder mended", AT(warnings)},
    {0},
};
#undef AT

static PyType_Slot result_slots[] = {
    {Py_tp_doc, "How one sample of a job ended; made by Job.results only."},
    {Py_tp_dealloc, result_dealloc},
    {Py_tp_repr, result_represent},
    {Py_tp_getset, result_getset},
    {0},
};

PyType_Spec result_spec = CORE_SPEC("Result", struct result, result_slots,
                                    Py_TPFLAGS_DISALLOW_INSTANTIATION);
