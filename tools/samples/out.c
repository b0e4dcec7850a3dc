// SPDX-License-Identifier: Apache-2.0
#include "out.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/common/out_file.h"
#include "tools/common/tools.h"

static bool complain(const char *what, const char *path)
{
    return tools_warn("samples: cannot %s %s: %s", what, path, strerror(errno));
}

static bool no_memory(void)
{
    return tools_warn("samples: out of memory");
}

static bool reserve(struct samples_bytes *b, size_t more)
{
    size_t need = b->size + more, capacity = b->capacity ? b->capacity : 4096;
    unsigned char *data;
    if (b->failed || need < more)
        b->failed = true;
    if (b->failed || need <= b->capacity)
        return !b->failed;
    while (capacity < need)
        capacity = capacity > SIZE_MAX / 2 ? need : capacity * 2;
    if (!(data = realloc(b->data, capacity))) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->capacity = capacity;
    return true;
}

void samples_bytes_add(struct samples_bytes *b, const void *data, size_t size)
{
    if (!size || !reserve(b, size))
        return;
    memcpy(b->data + b->size, data, size);
    b->size += size;
}

void samples_bytes_byte(struct samples_bytes *b, int value, size_t times)
{
    if (!times || !reserve(b, times))
        return;
    memset(b->data + b->size, value, times);
    b->size += times;
}

void samples_bytes_finish(struct samples_bytes *b)
{
    free(b->data);
    *b = (struct samples_bytes){0};
}

// The path of a name below the folder; false with errno if it is too long.
static bool in_folder(char path[PATH_MAX], const struct samples_out *out,
                      const char *name)
{
    errno = ENAMETOOLONG;
    return snprintf(path, PATH_MAX, "%s/%s", out->dir, name) < PATH_MAX;
}

static size_t count_names(const char *kinds)
{
    size_t n = 1;
    for (const char *p = kinds; *p; p++)
        n += *p == ',';
    return n;
}

bool samples_out_init(struct samples_out *out, const char *dir,
                      const char *kinds)
{
    struct stat st;
    char path[PATH_MAX];
    *out = (struct samples_out){.dir = dir, .kinds = kinds};
    out->list = json_array();
    out->used = calloc(1, kinds ? count_names(kinds) : 1);
    if (!out->list || !out->used)
        return no_memory();
    if (!in_folder(path, out, "") || !out_file_parents(path))
        return complain("make folder", dir);
    if (stat(dir, &st) < 0)
        return complain("open folder", dir);
    errno = ENOTDIR;
    return S_ISDIR(st.st_mode) || complain("use", dir);
}

bool samples_wanted(struct samples_out *out, const char *kind)
{
    const char *p = out->kinds;
    bool wanted = !p;
    for (size_t i = 0; p; i++) {
        size_t len = strcspn(p, ",");
        if (len && !strncmp(kind, p, len) &&
            (kind[len] == '\0' || kind[len] == '-')) {
            out->used[i] = 1;
            wanted = true;
        }
        p = p[len] ? p + len + 1 : NULL;
    }
    return wanted;
}

const char *samples_out_unused(const struct samples_out *out, int *len)
{
    const char *p = out->kinds;
    for (size_t i = 0; p; i++) {
        size_t n = strcspn(p, ",");
        if (!out->used[i]) {
            *len = (int)n;
            return p;
        }
        p = p[n] ? p + n + 1 : NULL;
    }
    return NULL;
}

static bool write_file(struct samples_out *out, const char *name,
                       const struct samples_bytes *bytes)
{
    struct out_file file = OUT_FILE_CLOSED;
    char path[PATH_MAX];
    if (!in_folder(path, out, name) || !out_file_parents(path))
        return complain("make the folder of", name);
    if (out_file_open_part(&file, path) &&
        out_file_write(&file, bytes->data, bytes->size) &&
        out_file_close(&file) && out_file_rename(&file))
        return true;
    complain("write", path);
    out_file_discard(&file);
    return false;
}

static bool list_entry(struct samples_out *out, const struct samples_entry *e)
{
    static const char *const words[] = {"ok", "warn", "fail"};
    json_t *item = json_pack("{s:s, s:s, s:i, s:i, s:s, s:i, s:o*}", "path",
                             e->path, "kind", e->kind, "width", e->w, "height",
                             e->h, "expect", words[e->expect], "orientation",
                             e->orientation ? e->orientation : 1, "limit",
                             e->limit ? json_true() : NULL);

    return !json_array_append_new(out->list, item) || no_memory();
}

bool samples_cannot(const char *kind)
{
    return tools_warn("samples: cannot make the sample %s", kind);
}

bool samples_out_add(struct samples_out *out, const struct samples_entry *entry,
                     struct samples_bytes *bytes)
{
    bool ok = bytes->failed ? samples_cannot(entry->kind)
                            : write_file(out, entry->path, bytes) &&
                                  list_entry(out, entry);

    if (ok) {
        out->count[entry->part]++;
        out->bytes += bytes->size;
    }
    samples_bytes_finish(bytes);
    return ok;
}

bool samples_out_listing(struct samples_out *out)
{
    char *text = json_dumps(out->list, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    struct samples_bytes b = {0};
    bool ok = false;
    if (text) {
        samples_bytes_add(&b, text, strlen(text));
        samples_bytes_byte(&b, '\n', 1);
    }
    if (!text || b.failed)
        no_memory();
    else
        ok = write_file(out, "samples.json", &b) &&
             (out_folder_sync(out->dir) || complain("write", out->dir));
    samples_bytes_finish(&b);
    free(text);
    return ok;
}

void samples_out_finish(struct samples_out *out)
{
    json_decref(out->list);
    free(out->used);
    *out = (struct samples_out){0};
}
