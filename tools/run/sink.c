// SPDX-License-Identifier: Apache-2.0
#include "run.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "npy.h"
#include "tools/common/tools.h"

static bool fail(struct run *run, const char *path)
{
    int error = errno;

    progress_clear(&run->progress);
    return tools_warn("%s: %s", path,
                      error == EXDEV
                          ? "is on another file system than its folder"
                          : strerror(error));
}

// Shape of one picture, of many if n is not NULL.
static void header(const struct run *run, const uint64_t *n, int w, int h,
                   unsigned char out[NPY_HEADER_SIZE])
{
    uint64_t c = (uint64_t)run->c, shape[4];
    int dims = 0;

    if (n)
        shape[dims++] = *n;
    if (run->opt.layout == HR_NCHW)
        shape[dims++] = c;
    shape[dims++] = (uint64_t)h;
    shape[dims++] = (uint64_t)w;
    if (run->opt.layout == HR_NHWC)
        shape[dims++] = c;
    npy_header(out, run->opt.dtype, shape, dims);
}

static char *print_new(const char *format, const char *text, size_t length)
{
    int size = snprintf(NULL, 0, format, (int)length, text);
    char *out = size < 0 ? NULL : malloc((size_t)size + 1);

    if (out)
        snprintf(out, (size_t)size + 1, format, (int)length, text);
    return out;
}

bool run_sink_name(struct run *run)
{
    struct run_sink *sink = &run->sink;
    const char *out = run->opt.out;
    size_t length = strlen(out);
    struct stat st;

    *sink = (struct run_sink){0};
    if (run->opt.out_kind == RUN_OUT_NONE)
        return true;
    if (run->opt.out_kind == RUN_OUT_ARRAY) {
        sink->array_path = print_new("%.*s", out, length);
        sink->manifest_path = print_new("%.*s.json", out, length - 4);
    } else {
        while (length > 1 && out[length - 1] == '/')
            length--;
        sink->folder = print_new("%.*s", out, length);
        sink->manifest_path = print_new("%.*s/manifest.json", out, length);
    }
    if (!sink->manifest_path || (!sink->folder && !sink->array_path))
        return fail(run, out);
    sink->again = !stat(sink->manifest_path, &st);
    if (manifest_is_ours(sink->manifest_path))
        return true;
    return tools_warn(
        "%s: not written by headrace run, and not overwritten: move it, "
        "or name another --out",
        sink->manifest_path);
}

static bool open_array(struct run *run)
{
    struct run_sink *sink = &run->sink;

    if (!out_file_parents(sink->array_path))
        return fail(run, sink->array_path);
    if (!out_file_open(&sink->array, sink->array_path))
        return fail(run, sink->array_path);
    return manifest_open(&sink->manifest, sink->manifest_path) ||
           fail(run, sink->manifest_path);
}

static bool no_clashes(struct run *run)
{
    char a_path[PATH_MAX], b_path[PATH_MAX];
    const char *pa, *pb;
    size_t a, b;

    if (!inputs_clash(&run->in, true, &a, &b)) {
        if (*run->in.error)
            tools_warn("%s", run->in.error);
        return !*run->in.error;
    }
    pa = inputs_path(&run->in, a, a_path, sizeof(a_path));
    pb = inputs_path(&run->in, b, b_path, sizeof(b_path));
    return tools_warn("%s and %s would be written to the same file",
                      pa ? pa : "?", pb ? pb : "?");
}

// Length of the part of a path up to its last slash; 0: there is none.
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? (size_t)(slash - path) : 0;
}

// Drops what an interrupted run has left in the folders of this one. Pictures
// of a folder mostly follow each other.
static void clean_folders(const struct run *run)
{
    char last[PATH_MAX] = "", path[2 * PATH_MAX];

    snprintf(path, sizeof(path), "%s/", run->sink.folder);
    out_file_clean(path);
    for (size_t i = 0; i < run->in.num; i++) {
        char name[PATH_MAX];

        if (!inputs_output(&run->in, i, name, sizeof(name)))
            continue;
        name[folder_length(name)] = '\0';
        if (!strcmp(name, last))
            continue;
        memcpy(last, name, strlen(name) + 1);
        if (snprintf(path, sizeof(path), "%s/%s", run->sink.folder, name) <
            (int)sizeof(path))
            out_file_clean(path);
    }
}

static bool open_folder(struct run *run)
{
    struct run_sink *sink = &run->sink;

    if (!no_clashes(run))
        return false;
    if (!out_file_parents(sink->manifest_path))
        return fail(run, run->opt.out);
    clean_folders(run);
    return manifest_open(&sink->manifest, sink->manifest_path) ||
           fail(run, sink->manifest_path);
}

bool run_sink_open(struct run *run)
{
    switch (run->opt.out_kind) {
    case RUN_OUT_ARRAY:
        return open_array(run);
    case RUN_OUT_FOLDER:
        return open_folder(run);
    case RUN_OUT_NONE:
        break;
    }
    return true;
}

static json_t *classes_json(const struct inputs *in)
{
    json_t *classes = json_array();

    for (size_t i = 0; i < in->num_classes; i++)
        json_array_append_new(classes, manifest_text(in->classes[i]));
    return classes;
}

bool run_sink_begin(struct run *run)
{
    struct run_sink *sink = &run->sink;
    unsigned char head[NPY_HEADER_SIZE];
    json_t *json;

    if (run->opt.out_kind == RUN_OUT_NONE)
        return true;
    sink->rows = 0;
    if ((json = run_head_json(run)))
        json_object_set_new(json, "classes", classes_json(&run->in));
    if (!manifest_begin(&sink->manifest, json))
        return fail(run, sink->manifest_path);
    if (run->opt.out_kind != RUN_OUT_ARRAY)
        return true;
    header(run, &sink->rows, run->w, run->h, head);
    if (!out_file_rewind(&sink->array) ||
        !out_file_write(&sink->array, head, sizeof(head)))
        return fail(run, sink->array_path);
    return true;
}

static bool write_file(struct run *run, char *path, const void *pixels, int w,
                       int h)
{
    size_t size = (size_t)run->c * (size_t)w * (size_t)h *
                  hr_dtype_size(run->opt.dtype);
    struct out_file file = OUT_FILE_CLOSED;
    unsigned char head[NPY_HEADER_SIZE];

    header(run, NULL, w, h, head);
    if (out_file_open_part(&file, path) &&
        out_file_write(&file, head, sizeof(head)) &&
        out_file_write(&file, pixels, size) && out_file_close(&file) &&
        out_file_rename(&file))
        return true;
    fail(run, path);
    out_file_discard(&file);
    return false;
}

static bool file_path(const struct run_sink *sink, const char *name,
                      char path[2 * PATH_MAX])
{
    int length = snprintf(path, 2 * PATH_MAX, "%s/%s", sink->folder, name);

    errno = ENAMETOOLONG;
    return length < 2 * PATH_MAX;
}

// A picture that failed has no file: nor has it that of an earlier run.
static bool drop_file(struct run *run, const char *name)
{
    char path[2 * PATH_MAX];

    if (!run->sink.again && !run->epoch)
        return true;
    return (file_path(&run->sink, name, path) &&
            (!unlink(path) || errno == ENOENT || errno == ENOTDIR)) ||
           fail(run, name);
}

static bool put_file(struct run *run, const char *name, const void *pixels,
                     int w, int h)
{
    struct run_sink *sink = &run->sink;
    size_t length = folder_length(name);
    char path[2 * PATH_MAX];

    if (!file_path(sink, name, path))
        return fail(run, name);
    if (!sink->has_made || strlen(sink->made) != length ||
        memcmp(sink->made, name, length)) {
        if (!out_file_parents(path))
            return fail(run, path);
        sink->has_made = true;
        memcpy(sink->made, name, length);
        sink->made[length] = '\0';
    }
    return write_file(run, path, pixels, w, h);
}

bool run_sink_put(struct run *run, size_t picture,
                  const struct hr_result *result, const void *pixels, int w,
                  int h)
{
    struct run_sink *sink = &run->sink;
    bool keep = pixels && (result->status == HR_OK ||
                           run->opt.on_error == HR_ON_ERROR_ZERO ||
                           (run->opt.on_error == HR_ON_ERROR_FAIL &&
                            run->opt.out_kind == RUN_OUT_ARRAY));
    char path[PATH_MAX], name[PATH_MAX];
    const char *output = NULL;
    int64_t number = -1;
    struct manifest_entry entry = {.index = -1,
                                   .number = &number,
                                   .result = result};

    if (run->opt.out_kind == RUN_OUT_NONE)
        return true;
    entry.path = inputs_path(&run->in, picture, path, sizeof(path));
    entry.label = inputs_item(&run->in, picture).label;
    number = inputs_class(&run->in, picture);
    if (!entry.path)
        entry.path = "?";
    if (run->opt.out_kind == RUN_OUT_FOLDER)
        output = inputs_output(&run->in, picture, name, sizeof(name));
    if (keep && output) {
        entry.file = output;
        if (!put_file(run, output, pixels, w, h))
            return false;
    } else if (output && !drop_file(run, output)) {
        return false;
    } else if (keep && run->opt.out_kind == RUN_OUT_FOLDER) {
        errno = ENAMETOOLONG;
        return fail(run, entry.path);
    } else if (keep) {
        entry.index = (int64_t)sink->rows++;
        if (!out_file_write(&sink->array, pixels, run->picture_bytes))
            return fail(run, sink->array_path);
    }
    return manifest_add(&sink->manifest, &entry) ||
           fail(run, sink->manifest_path);
}

static json_t *tail_json(const struct run *run, bool interrupted)
{
    const struct run_epoch *epoch = &run->epochs[run->epoch];
    json_t *tail = json_pack("{s:I, s:I}", "images", (json_int_t)epoch->images,
                             "failed", (json_int_t)epoch->failed);

    if (tail && run->in.source->skipped)
        json_object_set_new(tail, "left_out",
                            json_integer((json_int_t)run->in.source->skipped));
    if (tail && run->in.num_faults)
        json_object_set_new(tail, "unread",
                            json_integer((json_int_t)run->in.num_faults));
    if (tail && interrupted)
        json_object_set_new(tail, "interrupted", json_true());
    return tail;
}

// Both files are whole on disk before either gets its name.
bool run_sink_finish(struct run *run, bool interrupted)
{
    struct run_sink *sink = &run->sink;
    unsigned char head[NPY_HEADER_SIZE];
    bool array = run->opt.out_kind == RUN_OUT_ARRAY;

    if (run->opt.out_kind == RUN_OUT_NONE)
        return true;
    header(run, &sink->rows, run->w, run->h, head);
    if (array && (!out_file_rewrite(&sink->array, head, sizeof(head)) ||
                  !out_file_close(&sink->array)))
        return fail(run, sink->array_path);
    // Its files, once for all of them: none that it names is empty or missing.
    if (run->opt.out_kind == RUN_OUT_FOLDER && !out_folder_sync(sink->folder))
        return fail(run, sink->folder);
    if (!manifest_end(&sink->manifest, tail_json(run, interrupted)) ||
        !out_file_close(&sink->manifest.file))
        return fail(run, sink->manifest_path);
    if (array && !out_file_rename(&sink->array))
        return fail(run, sink->array_path);
    return out_file_rename(&sink->manifest.file) ||
           fail(run, sink->manifest_path);
}

void run_sink_discard(struct run *run)
{
    struct run_sink *sink = &run->sink;

    out_file_discard(&sink->array);
    out_file_discard(&sink->manifest.file);
    free(sink->array_path);
    free(sink->manifest_path);
    free(sink->folder);
    sink->array_path = sink->manifest_path = sink->folder = NULL;
}
