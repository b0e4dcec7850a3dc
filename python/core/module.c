// SPDX-License-Identifier: Apache-2.0
// The module: its functions, types and state, and what is set for the process.
#include "flight.h"
#include "inputs.h"
#include "ops.h"
#include "tensor.h"

#include <stdio.h>
#include <string.h>

// ---- The process ------------------------------------------------------------

static PyObject *version(PyObject *module, PyObject *none)
{
    return PyUnicode_FromString(hr_version());
}

static PyObject *jpeg_library(PyObject *module, PyObject *none)
{
    return PyUnicode_FromString(hr_jpeg_library());
}

static PyObject *at_exit(PyObject *module, PyObject *none)
{
    // Items that a data set's code would still return are of no use now.
    const int64_t loader_patience = 5000000000, patience = 60000000000;
    int64_t begin = core_now();

    flight_close();
    loader_exit(begin + loader_patience);
    flight_exit(begin + patience);
    Py_RETURN_NONE;
}

static void child_after_fork(void)
{
    flight_forked();
    errand_forked();
    loader_forked();
    file_forked(true);
}

static void parent_after_fork(void)
{
    file_forked(false);
}

static void init_process(void)
{
    flight_init();
    errand_init();
    pthread_atfork(file_forking, parent_after_fork, child_after_fork);
}

// A program that embeds Python may have ended one interpreter and made another:
// what flew in the old one holds its objects.
static bool begin(PyObject *module)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    PyObject *hook, *answer = NULL;

    pthread_once(&once, init_process);
    if (flight_begin_anew())
        loader_init();
    if ((hook = PyObject_GetAttrString(module, "_at_exit")))
        answer = core_call("atexit", "register", hook);
    Py_XDECREF(answer);
    Py_XDECREF(hook);
    return answer != NULL;
}

// ---- The reference ----------------------------------------------------------

static bool find_reference_named(struct core *core, PyObject *name,
                                 enum hr_reference *out)
{
    const char *text;
    char message[192];

    *out = HR_REFERENCE_DEFAULT;
    if (name == Py_None)
        return true;
    if (!(text = PyUnicode_AsUTF8AndSize(name, NULL)))
        return false;
    if ((*out = hr_reference_find(text)))
        return true;
    snprintf(message, sizeof(message), "there is no reference '%.64s':", text);
    for (int i = 1; i < HR_NUM_REFERENCES; i++)
        snprintf(message + strlen(message), sizeof(message) - strlen(message),
                 "%s %s", i > 1 ? "," : " one of",
                 hr_reference_name((enum hr_reference)i));
    return core_raise(core, HR_EINVAL, message), false;
}

static PyObject *set_reference(PyObject *module, PyObject *name)
{
    struct core *core = PyModule_GetState(module);
    enum hr_reference reference;

    if (!find_reference_named(core, name, &reference))
        return NULL;
    return core_done(core, hr_set_reference(reference));
}

static PyObject *get_reference(PyObject *module, PyObject *none)
{
    return PyUnicode_FromString(hr_reference_name(hr_device_reference(NULL)));
}

static PyObject *resize_order(PyObject *module, PyObject *args)
{
    enum hr_reference reference;
    PyObject *name;
    int width, height, w, h;

    if (!PyArg_ParseTuple(args, "Oiiii:resize_order", &name, &width, &height,
                          &w, &h) ||
        !find_reference_named(PyModule_GetState(module), name, &reference))
        return NULL;
    if (!reference)
        reference = hr_device_reference(NULL);
    return PyLong_FromLong(
        (long)hr_resize_order(reference, width, height, w, h));
}

// The caller's function is called on this thread, inside hr_reference_probe().
struct asked {
    PyObject *resize;
    PyThreadState *thread;  // while the GIL is not held
};

static int answer(PyObject *resize, const uint8_t *pixels, int width,
                  int height, enum hr_filter filter, uint8_t *out, int w, int h)
{
    PyObject *answer = PyObject_CallFunction(resize, "y#iiiii",
                                             (const char *)pixels,
                                             (Py_ssize_t)width * height * 3,
                                             width, height, (int)filter, w, h);
    Py_ssize_t need = (Py_ssize_t)w * h * 3;
    Py_buffer view;

    if (!answer || PyObject_GetBuffer(answer, &view, PyBUF_SIMPLE)) {
        Py_XDECREF(answer);
        return -1;
    }
    if (view.len == need)
        memcpy(out, view.buf, (size_t)need);
    else
        PyErr_Format(core_argument_error(),
                     "resize returned %zd bytes, not %zd", view.len, need);
    PyBuffer_Release(&view);
    Py_DECREF(answer);
    return PyErr_Occurred() ? -1 : 0;
}

static int ask(void *ctx, const uint8_t *pixels, int width, int height,
               enum hr_filter filter, uint8_t *out, int w, int h)
{
    struct asked *asked = ctx;
    int failed;

    PyEval_RestoreThread(asked->thread);
    failed = answer(asked->resize, pixels, width, height, filter, out, w, h);
    asked->thread = PyEval_SaveThread();
    return failed;
}

static PyObject *find_reference(PyObject *module, PyObject *resize)
{
    struct asked asked = {.resize = resize};
    enum hr_reference found;
    enum hr_status status;

    asked.thread = PyEval_SaveThread();
    status = hr_reference_probe(ask, &asked, &found);
    PyEval_RestoreThread(asked.thread);
    if (PyErr_Occurred())
        return NULL;
    if (status == HR_EUNSUPPORTED)
        Py_RETURN_NONE;
    if (status)
        return core_raise_last(PyModule_GetState(module));
    return PyUnicode_FromString(hr_reference_name(found));
}

// ---- The module -------------------------------------------------------------

#define FASTCALL(f) ((PyCFunction)(void (*)(void))(f))
static PyMethodDef methods[] = {
    {"set_image_backend", device_set_default, METH_O,
     "set_image_backend($module, name, /)\n--\n\n"
     "Set the default device of this process: 'cpu', 'opencl', 'opencl:1',\n"
     "'vaapi', ...; 'auto' or None: the best that works. DeviceError if it\n"
     "cannot be opened; then nothing changes."},
    {"get_image_backend", device_get_default, METH_NOARGS,
     "get_image_backend($module, /)\n--\n\n"
     "Return the name of the default device, which this opens if need be."},
    {"devices", device_list, METH_NOARGS,
     "devices($module, /)\n--\n\n"
     "Return a dict for each device that could exist, best first."},
    {"version", version, METH_NOARGS,
     "version($module, /)\n--\n\nReturn the library's version."},
    {"jpeg_library", jpeg_library, METH_NOARGS,
     "jpeg_library($module, /)\n--\n\n"
     "Return name and version of the JPEG decoder that is loaded."},
    {"set_opener", set_opener, METH_O,
     "set_opener($module, open, /)\n--\n\n"
     "Let a function open files of records that the library does not read:\n"
     "open(path, image, label) returns (items, numbers, texts, kind, ranges),\n"
     "or (why not, whether the arguments are wrong). numbers: for each item\n"
     "the number of its label in texts, or -1. kind: 0: texts are labels, 1:\n"
     "they are names, 2: and their places the numbers of the classes. ranges:\n"
     "begin and end of each item in the file, 64 bits each, with the 8 bytes\n"
     "of its length in front; or None."},
    {"set_decoder", set_decoder, METH_VARARGS,
     "set_decoder($module, probe, decode, /)\n--\n\n"
     "Set what decodes pictures that the library does not: probe(data)\n"
     "returns (width, height, orientation), or None for what it does not\n"
     "know; decode(data, channels) returns the bytes of its pixels."},
    {"set_reference", set_reference, METH_O,
     "set_reference($module, name, /)\n--\n\n"
     "Set the reference that resizes follow: 'pillow-12', 'pillow-12.2',\n"
     "'pillow-13', 'torch-2'; None: pillow-13. It counts for jobs submitted from now."},
    {"reference", get_reference, METH_NOARGS,
     "reference($module, /)\n--\n\n"
     "Return the reference of a job that is submitted now."},
    {"find_reference", find_reference, METH_O,
     "find_reference($module, resize, /)\n--\n\n"
     "Return the reference that resize() follows, None if it is none.\n\n"
     "resize(pixels, width, height, filter, w, h) gets RGB bytes, 3 for each\n"
     "pixel, and returns them resized to w x h; filter is one of Headrace's."},
    {"resize_order", resize_order, METH_VARARGS,
     "resize_order($module, reference, width, height, w, h, /)\n--\n\n"
     "Return the order of passes of a resize: 1 (horizontal),\n"
     "ORDER_VERTICAL or ORDER_TORCH. reference: a name, or None for that of\n"
     "the process."},
    {"probe", probe, METH_O,
     "probe($module, source, /)\n--\n\n"
     "Read the header of encoded bytes, or of a file, without decoding."},
    {"form", tensor_form, METH_VARARGS,
     "form($module, dtype, layout, memory, /)\n--\n\n"
     "Return the name of a dtype, and refuse what no Batch can have."},
    {"read_file", file_read, METH_O,
     "read_file($module, source, /)\n--\n\n"
     "Return the FileBytes of a path or a descriptor, whose position stays.\n"
     "What the process's cache has is not read.\n\n"
     "None: it is no regular file, which was not opened. Raises OSError."},
    {"share_files", file_share, METH_NOARGS,
     "share_files($module, /)\n--\n\n"
     "Let read_file() read into memory that another process can map, and\n"
     "return a descriptor of it for SharedFiles(). For workers."},
    {"end_marker", probe_end_marker, METH_VARARGS,
     "end_marker($module, data, begin, /)\n--\n\n"
     "Return the place behind a JPEG's first end marker from begin on; 0:\n"
     "there is none."},
    {"set_cache", cache_set, METH_O,
     "set_cache($module, cache, /)\n--\n\n"
     "Keep pictures that are decoded, for the next time: in this Cache, or in\n"
     "a new one of so many bytes (an int, or a text: '512M', '2G').\n\n"
     "It holds for jobs submitted from now on in this process, on all devices\n"
     "and in the drop-in, but for those that name a cache of their own. None:\n"
     "no cache, as at first. In the child of a fork a new one of the same size\n"
     "takes its place. ValueError for a size that cannot be;\n"
     "headrace.ArgumentError for a Cache from before fork()."},
    {"get_cache", cache_get, METH_NOARGS,
     "get_cache($module, /)\n--\n\n"
     "Return the Cache of set_cache(), or None."},
    {"pack", cache_pack, METH_O,
     "pack($module, source, /)\n--\n\n"
     "Return a JPEG's bytes packed: about half as many again, decoded several\n"
     "times as fast, to the same pixels.\n\n"
     "source: bytes, or any buffer of them. What is returned is taken wherever\n"
     "encoded bytes are. Raises headrace.PictureError: with status\n"
     "'HR_EUNSUPPORTED' for a sound picture that cannot be packed (not a JPEG,\n"
     "12 bits, lossless, CMYK): keep it as it is; others as decoding does, also\n"
     "for damage that decoding would mend. The GIL is released."},
    {"output_size", (PyCFunction)(void (*)(void))ops_output_size,
     METH_VARARGS | METH_KEYWORDS,
     "output_size($module, /, ops, width, height, orientation=1)\n--\n\n"
     "Return (w, h) of what ops make of a picture of width x height pixels."},
    {"draw_ops", (PyCFunction)(void (*)(void))ops_draw,
     METH_VARARGS | METH_KEYWORDS,
     "draw_ops($module, /, ops, key, width, height, orientation=1)\n--\n\n"
     "Return ops with the random ones drawn for key = (seed, index, epoch)."},
    {"fixed_size", ops_fixed_size, METH_O,
     "fixed_size($module, ops, /)\n--\n\n"
     "Return (w, h) of what ops make of any picture; None: it depends."},
    {"parse_ops", ops_from_text, METH_O,
     "parse_ops($module, text, /)\n--\n\nSee headrace.ops.parse()."},
    {"format_ops", ops_to_text, METH_O,
     "format_ops($module, ops, /)\n--\n\nSee headrace.ops.text()."},
    {"warp_matrix", ops_warp_matrix, METH_VARARGS,
     "warp_matrix($module, /, *numbers)\n--\n\n"
     "Return the matrix of headrace.ops.affine(), or of perspective()."},
    {"submit", (PyCFunction)(void (*)(void))submit,
     METH_VARARGS | METH_KEYWORDS,
     "submit($module, /, samples, out, *, device=None, on_error='fail',\n"
     "       timeout=None, first_slot=0, strict=False, on_done=None,\n"
     "       tier='exact', cache=None)\n--\n\n"
     "Submit samples as one job; see headrace.submit()."},
    {"set_pictures", picture_set, METH_VARARGS,
     "set_pictures($module, /, *parts)\n--\n\nTell what picture.c lists."},
    {"set_fetch", picture_set_fetch, METH_O,
     "set_fetch($module, number, /)\n--\n\n"
     "Set the number of the fetch in which this thread records; 0: in none."},
    {"fetch", picture_fetch, METH_NOARGS,
     "fetch($module, /)\n--\n\nReturn the number of set_fetch(), or 0."},
    {"recording", FASTCALL(picture_recording), METH_FASTCALL,
     "recording($module, picture, check=False, /)\n--\n\n"
     "Return a picture's recording. At the call that reads it lets go of the\n"
     "file. None: the picture is stock Pillow now. So is one that was used in\n"
     "a fetch before: it is kept, and would be made each time."},
    {"derive", FASTCALL(picture_derive), METH_FASTCALL,
     "derive($module, parent, hr, ops, size, /)\n--\n\n"
     "Return the parent, whose recording is hr, with other ops."},
    {"record", FASTCALL(picture_record), METH_FASTCALL,
     "record($module, picture, op, size=None, fresh=False, /)\n--\n\n"
     "Return the recorded result of an op; None: stock Pillow must make it.\n\n"
     "size: the result's, if it is another one. fresh: stock makes the result\n"
     "of the pixels alone, without the picture's other attributes."},
#ifdef HR_HAVE_COMMAND
    {"command", command_run, METH_VARARGS,
     "command($module, /, *arguments)\n--\n\n"
     "Run the command headrace with these bytes; return its exit code.\n\n"
     "For headrace/__main__.py: it takes the process's signals."},
#endif
    {"check_loader", loader_check, METH_O,
     "check_loader($module, params, /)\n--\n\n"
     "Raise what Loader(**params) would, of those that are in the table."},
    {"_at_exit", at_exit, METH_NOARGS,
     "_at_exit($module, /)\n--\n\nEnd what is in flight; called at exit."},
    {0},
};
#undef FASTCALL

static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);

    if (type && PyModule_AddType(module, (PyTypeObject *)type)) {
        Py_DECREF(type);
        return NULL;
    }
    return (PyTypeObject *)type;
}

static bool add_types(PyObject *module, struct core *core)
{
#define X(name) (core->name = add_type(module, &name##_spec)) &&
    return CORE_TYPES(X) cache_add_stats(module, core);
#undef X
}

// str has its UTF-8 ready: paths need no conversion if that is theirs.
static bool find_encoding(struct core *core)
{
    PyObject *get = core_import("sys", "getfilesystemencoding");
    PyObject *name = get ? PyObject_CallNoArgs(get) : NULL;

    core->utf8_paths = name && !PyUnicode_CompareWithASCIIString(name, "utf-8");
    Py_XDECREF(get);
    Py_XDECREF(name);
    return name != NULL;
}

static int run(PyObject *module)
{
    struct core *core = PyModule_GetState(module);

    if (PyInterpreterState_GetID(PyInterpreterState_Get())) {
        PyErr_SetString(PyExc_ImportError,
                        "headrace works in the main interpreter only, not in "
                        "subinterpreters");
        return -1;
    }
    if (!(core->make_error = core_import("headrace.errors", "make")) ||
        !(core->devices = PyDict_New()) || !find_encoding(core) ||
        !add_types(module, core) || !ops_add_constants(module) ||
        !probe_add_constants(module) || !begin(module))
        return -1;
    return 0;
}

static int traverse(PyObject *module, visitproc visit, void *arg)
{
    struct core *core = PyModule_GetState(module);

    if (!core)
        return 0;
#define X(name) Py_VISIT(core->name);
    CORE_OBJECTS(X)
#undef X
    return 0;
}

static int clear(PyObject *module)
{
    struct core *core = PyModule_GetState(module);

    if (!core)
        return 0;
#define X(name) Py_CLEAR(core->name);
    CORE_OBJECTS(X)
#undef X
    return 0;
}

static void release(void *module)
{
    clear(module);
}

// Free-threaded builds have no limited API: headrace/__init__.py says so.
static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)run},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "headrace._core",
    .m_doc = "Headrace's C library for Python. Programs use headrace.",
    .m_size = sizeof(struct core),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
    .m_free = release,
};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
