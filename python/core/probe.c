// SPDX-License-Identifier: Apache-2.0
// Header facts.
#include "inputs.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <structmember.h>
#include <sys/stat.h>
#include <unistd.h>

struct info {
    PyObject ob_base;
    struct hr_info info;
    bool plain;
};

// ---- Paths ------------------------------------------------------------------

static PyObject *no_nul(PyObject *held, const char *text, Py_ssize_t size)
{
    if ((Py_ssize_t)strlen(text) == size)
        return held;
    PyErr_SetString(core_argument_error(), "embedded null byte");
    Py_DECREF(held);
    return NULL;
}

static PyObject *encoded(PyObject *str, const char **out)
{
    PyObject *bytes = PyUnicode_EncodeFSDefault(str);
    char *text;
    Py_ssize_t size;

    if (!bytes || PyBytes_AsStringAndSize(bytes, &text, &size)) {
        Py_XDECREF(bytes);
        return NULL;
    }
    *out = text;
    return no_nul(bytes, text, size);
}

PyObject *path_of(struct core *core, PyObject *source, const char **out)
{
    PyObject *path;
    Py_ssize_t size;

    if (PyUnicode_Check(source)) {
        *out = core->utf8_paths ? PyUnicode_AsUTF8AndSize(source, &size) : NULL;
        if (*out)
            return no_nul(Py_NewRef(source), *out, size);
        PyErr_Clear();  // surrogates: bytes that are no UTF-8
        return encoded(source, out);
    }
    if (!(path = PyOS_FSPath(source)))
        return NULL;
    if (PyUnicode_Check(path)) {
        PyObject *held = path_of(core, path, out);

        Py_DECREF(path);
        return held;
    }
    *out = PyBytes_AsString(path);
    return no_nul(path, *out, PyBytes_Size(path));
}

// ---- probe() ----------------------------------------------------------------

// Below this no file is over hr_limits.file_bytes.
static const uint64_t most_bytes = 64 << 20;

static enum hr_status probe_bytes(const void *data, size_t size,
                                  struct hr_info *out)
{
    enum hr_status status;

    // All of a progressive file is looked at; others take a microsecond.
    if (size < 65536)
        return hr_probe(data, size, NULL, out);
    WITHOUT_GIL(status = hr_probe(data, size, NULL, out));
    return status;
}

// Most headers end in the first few kilobytes of a file, and tell everything of
// a file with one scan but its end. hr_probe() gets these two parts as if they
// were a file. False: that was not enough, or something is odd about the file;
// hr_probe_path() knows.
static bool probe_ends(const char *path, struct hr_info *out)
{
    enum { HEAD = 8192, TAIL = 64 };
    uint8_t bytes[HEAD + TAIL];
    struct stat st;
    ssize_t head = -1, tail = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0)
        return false;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size >= HEAD + TAIL) {
        head = pread(fd, bytes, HEAD, 0);
        tail = pread(fd, bytes + HEAD, TAIL, st.st_size - TAIL);
    }
    close(fd);
    return head == HEAD && tail == TAIL &&
           !hr_probe(bytes, sizeof(bytes), NULL, out) &&
           out->format == HR_FORMAT_JPEG && out->interleaved &&
           out->process == HR_PROCESS_BASELINE && out->header_size <= HEAD &&
           (uint64_t)st.st_size <= most_bytes;
}

// ---- What every reader finds in a header ------------------------------------

static bool begins(const uint8_t *s, size_t n, const char *text, size_t size)
{
    return n >= 14 && !memcmp(s, text, size);
}

static bool is_plain_segment(uint8_t marker, const uint8_t *s, size_t n,
                             int *frames)
{
    switch (marker) {
    case 0xc0:
    case 0xc1:
    case 0xc2:
        ++*frames;
        return n > 6 && *s == 8 && n == 6 + 3 * (size_t)s[5] &&
               (s[5] == 1 || s[5] == 3);
    case 0xc4:  // DHT
    case 0xdb:  // DQT, which was read
    case 0xdd:  // DRI
    case 0xfe:  // COM
        return true;
    case 0xe0:
        return begins(s, n, "JFIF", 5);
    case 0xe2:
        return begins(s, n, "ICC_PROFILE", 12);
    }
    return false;
}

// Is there nothing in the header of a JPEG that Pillow might refuse, warn of or
// interpret? Each segment is one that most files have, and as it should be.
static bool is_plain(const uint8_t *p, size_t size)
{
    size_t at = 2;
    int frames = 0;

    while (size - at > 4) {
        size_t n = (size_t)p[at + 2] << 8 | p[at + 3];

        if (p[at] != 0xff || n < 2 || n > size - at - 2)
            return false;
        if (p[at + 1] == 0xda)
            return frames == 1;
        if (!is_plain_segment(p[at + 1], p + at + 4, n - 2, &frames))
            return false;
        at += 2 + n;
    }
    return false;
}

// ---- Info of a source -------------------------------------------------------

static bool probe_source(struct core *core, PyObject *source,
                         struct hr_info *out, bool *plain,
                         enum hr_status *status)
{
    struct hr_sample sample = {0};
    hr_cached cached;
    Py_buffer view;
    PyObject *held;
    const char *path;

    if (Py_TYPE(source) == core->entry) {
        // Not as a buffer: that would read all of it.
        if (!entry_sample(core, source, &sample))
            return false;
        *status = probe_bytes(sample.data, sample.size, out);
        return true;
    }
    if (Py_TYPE(source) == core->file && (cached = file_cached(source))) {
        *status = HR_OK;
        *out = cached->info;
        *plain = is_plain(cached->header, out->header_size);
        return true;
    }
    if (PyUnicode_Check(source) || !PyObject_CheckBuffer(source)) {
        if (!(held = path_of(core, source, &path)))
            return false;
        WITHOUT_GIL(*status = probe_ends(path, out)
                                  ? HR_OK
                                  : hr_probe_path(path, NULL, out));
        Py_DECREF(held);
        return true;
    }
    if (PyObject_GetBuffer(source, &view, PyBUF_SIMPLE))
        return false;
    *status = probe_bytes(view.buf, (size_t)view.len, out);
    *plain = !*status && out->format == HR_FORMAT_JPEG &&
             is_plain(view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return true;
}

PyObject *probe(PyObject *module, PyObject *source)
{
    struct core *core = PyModule_GetState(module);
    struct hr_info facts = {0};
    enum hr_status status;
    struct info *info;
    bool plain = false;

    if (!core_alive(core) ||
        !probe_source(core, source, &facts, &plain, &status))
        return NULL;
    if (status)
        return core_raise_last(core);
    if (!(info = PyObject_New(struct info, core->info)))
        return NULL;
    info->info = facts;
    info->plain = plain;
    return (PyObject *)info;
}

// ---- The end of a picture ---------------------------------------------------

// memchr() jumps from one 0xff to the next; coded data has one in 256 bytes.
// bytes.find() with two bytes looks at each of them.
static size_t behind_marker(const uint8_t *p, size_t size, size_t at)
{
    const uint8_t *found;

    while (at < size && (found = memchr(p + at, 0xff, size - at))) {
        at = (size_t)(found - p) + 1;
        if (at < size && p[at] == 0xd9)
            return at + 1;
    }
    return 0;
}

PyObject *probe_end_marker(PyObject *module, PyObject *args)
{
    Py_buffer view;
    Py_ssize_t begin;
    size_t end = 0;

    if (!PyArg_ParseTuple(args, "y*n", &view, &begin))
        return NULL;
    if (begin >= 0)
        end = behind_marker(view.buf, (size_t)view.len, (size_t)begin);
    PyBuffer_Release(&view);
    return PyLong_FromSize_t(end);
}

// ---- Info -------------------------------------------------------------------

#define INFO(self) (&((struct info *)(self))->info)

static PyObject *name_of(const char *const *names, unsigned n, unsigned i)
{
    if (i >= n)
        Py_RETURN_NONE;
    return PyUnicode_InternFromString(names[i]);
}
#define NAME(names, i) name_of(names, sizeof(names) / sizeof(*(names)), i)

static PyObject *get_format(PyObject *self, void *closure)
{
    return PyUnicode_InternFromString(hr_format_info(INFO(self)->format)->name);
}

static PyObject *get_process(PyObject *self, void *closure)
{
    static const char *const names[] = {"baseline", "extended", "progressive",
                                        "lossless"};

    if (INFO(self)->format != HR_FORMAT_JPEG)
        Py_RETURN_NONE;
    return NAME(names, INFO(self)->process);
}

static PyObject *get_color(PyObject *self, void *closure)
{
    static const char *const names[] = {"gray", "ycc", "rgb", "cmyk", "ycck"};

    if (INFO(self)->format != HR_FORMAT_JPEG &&
        INFO(self)->format != HR_FORMAT_PACKED)
        Py_RETURN_NONE;
    return NAME(names, INFO(self)->color);
}

static PyObject *get_all_scans(PyObject *self, void *closure)
{
    if (INFO(self)->all_scans == HR_SCANS_UNKNOWN)
        Py_RETURN_NONE;
    return PyBool_FromLong(INFO(self)->all_scans == HR_SCANS_ALL);
}

static PyObject *represent(PyObject *self)
{
    const struct hr_info *i = INFO(self);

    return PyUnicode_FromFormat("<headrace.Info %dx%dx%d %s>", i->width,
                                i->height, i->components,
                                hr_format_info(i->format)->name);
}

// FORMATS: the suffixes of each by its name. IMAGE_FIELDS, LABEL_FIELDS: the
// usual names of fields of records, the better ones first.
bool probe_add_constants(PyObject *module)
{
    PyObject *formats = PyDict_New();
    const struct hr_format_info *info;
    bool done = formats;

    for (int i = HR_FORMAT_JPEG; done && (info = hr_format_info(i)); i++)
        done = core_put(formats, info->name,
                        PyUnicode_FromString(info->suffixes));
    done = done && !PyModule_AddObjectRef(module, "FORMATS", formats) &&
           !PyModule_AddStringConstant(module, "IMAGE_FIELDS",
                                       HR_SOURCE_IMAGE_FIELDS) &&
           !PyModule_AddStringConstant(module, "LABEL_FIELDS",
                                       HR_SOURCE_LABEL_FIELDS);
    Py_XDECREF(formats);
    return done;
}

#define INT_MEMBER(name, text)                                         \
    {                                                                  \
#name, T_INT, offsetof(struct info, info.name), READONLY, text \
    }
static PyMemberDef members[] = {
    INT_MEMBER(width, "pixels, as stored, before any orientation"),
    INT_MEMBER(height, "pixels, as stored"),
    INT_MEMBER(components, "1, 3 or 4 in JPEG; channels in PNG"),
    INT_MEMBER(precision, "bits per sample"),
    INT_MEMBER(orientation, "EXIF's, 1 .. 8; 1 if there is none"),
    INT_MEMBER(scans, "JPEG: scans; 1 unless they were counted"),
    {"header_size", T_PYSSIZET, offsetof(struct info, info.header_size),
     READONLY, "bytes before the first scan's data"},
    {"ends", T_BOOL, offsetof(struct info, info.ends), READONLY,
     "whether the last bytes are an end marker; False: cut short"},
    {"arithmetic", T_BOOL, offsetof(struct info, info.arithmetic), READONLY,
     "whether it has arithmetic instead of Huffman coding"},
    {"plain", T_BOOL, offsetof(struct info, plain), READONLY,
     "JPEG, of bytes: whether its header has only what every reader reads\n"
     "alike; False: perhaps not"},
    {0},
};
#undef INT_MEMBER

static PyGetSetDef getset[] = {
    {"format", get_format, NULL, "'jpeg', 'png' or 'packed'", NULL},
    {"process", get_process, NULL,
     "JPEG: 'baseline', 'extended', 'progressive' or 'lossless'; else None",
     NULL},
    {"color", get_color, NULL,
     "JPEG and packed: 'gray', 'ycc', 'rgb', 'cmyk' or 'ycck'; else None",
     NULL},
    {"all_scans", get_all_scans, NULL,
     "whether the scans hold all coefficients; None: not known", NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Header facts of a picture; made by probe() only."},
    {Py_tp_dealloc, core_free},
    {Py_tp_repr, represent},
    {Py_tp_members, members},
    {Py_tp_getset, getset},
    {0},
};

PyType_Spec info_spec = CORE_SPEC("Info", struct info, slots,
                                  Py_TPFLAGS_DISALLOW_INSTANTIATION);
