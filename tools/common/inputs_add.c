// SPDX-License-Identifier: Apache-2.0
// What the user names: files, folders, lists of files.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inputs_parts.h"

// Adds the picture at path, of which what lies behind rel names the output.
// Its folder is that of others that were named in the same way.
static bool put_file(struct inputs *in, const char *path, size_t rel,
                     const char *label)
{
    const char *slash = strrchr(path, '/'), *name;
    size_t length = slash ? (size_t)(slash - path) + (slash == path) : 0;
    struct inputs_dir dir = {.rel = rel < length ? rel : length};
    uint32_t index, own;

    if (!(dir.path = strndup(path, length)))
        return inputs_fail(in, "out of memory");
    name = strrchr(dir.path, '/');
    name = name ? name + 1 : dir.path;
    if (!label)
        label = strcmp(name, ".") && strcmp(name, "..") ? name : "";
    if (!inputs_intern(in, label, &own)) {
        free(dir.path);
        return false;
    }
    return inputs_put_dir_once(in, dir, &index) &&
           inputs_put(in, index, slash ? slash + 1 : path, own);
}

bool inputs_add(struct inputs *in, const char *argument)
{
    struct stat st;

    if (stat(argument, &st) < 0)
        return inputs_fail(in, "%s: %s", argument, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return inputs_walk(in, argument);
    if (S_ISREG(st.st_mode))
        return inputs_is_pack(argument)
                   ? inputs_unpack(in, argument)
                   : put_file(in, argument, SIZE_MAX, NULL);
    return inputs_fail(in, "%s: neither a file nor a folder", argument);
}

bool inputs_add_file(struct inputs *in, const char *path)
{
    return put_file(in, path, SIZE_MAX, "");
}

void inputs_look(struct inputs *in, size_t i)
{
    char path[PATH_MAX];
    struct stat st;
    size_t number;
    int fd, error = 0;

    if (inputs_pack(in, i, &number))
        return;  // its file is open
    inputs_path(in, i, path, sizeof(path));
    // A FIFO without a writer must not keep the caller.
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        error = errno;
    else if (!S_ISREG(st.st_mode))
        error = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
    if (fd >= 0)
        close(fd);
    if (error)
        inputs_fault(in, path, error);
}

// ---- Lists -----------------------------------------------------------------

// Whether each part of a relative path names something. One that leads out of
// its folder would lead out of the folder of the output, too.
static bool stays_below(const char *path)
{
    while (path) {
        size_t dots = strspn(path, ".");

        if (dots <= 2 && (!path[dots] || path[dots] == '/'))
            return false;
        path = strchr(path, '/');
        path += path != NULL;
    }
    return true;
}

// An entry of a list that lies in folder ("" or with its slash).
static bool put_entry(struct inputs *in, const char *folder, char *entry)
{
    char *tab = strrchr(entry, '\t'), *path;
    bool ok;

    if (tab)
        *tab = '\0';
    while (!strncmp(entry, "./", 2))
        entry += 2;
    if (!*entry)
        return true;
    path = *entry == '/' ? strdup(entry) : inputs_join(folder, entry);
    ok = path ? put_file(in, path,
                         stays_below(entry) ? strlen(folder) : SIZE_MAX,
                         tab ? tab + 1 : "")
              : inputs_fail(in, "out of memory");
    free(path);
    return ok;
}

static bool read_list(struct inputs *in, FILE *file, const char *list,
                      const char *folder, bool zero)
{
    char *entry = NULL;
    size_t size = 0, line = 0;
    ssize_t length;
    bool ok = true;

    while (ok && (errno = 0, length = getdelim(&entry, &size,
                                               zero ? '\0' : '\n', file)) > 0) {
        line++;
        if (!zero && entry[length - 1] == '\n')
            entry[--length] = '\0';
        if (!zero && strlen(entry) < (size_t)length)
            ok = inputs_fail(in, "%s: line %zu holds a zero byte (see --null)",
                             list, line);
        else
            ok = put_entry(in, folder, entry);
    }
    free(entry);
    if (ok && (ferror(file) || errno))
        ok = inputs_fail(in, "%s: %s", list, strerror(errno));
    return ok;
}

bool inputs_add_list(struct inputs *in, const char *list, bool zero)
{
    bool is_stdin = !strcmp(list, "-"), ok = false;
    FILE *file = is_stdin ? stdin : fopen(list, "re");
    const char *slash = is_stdin ? NULL : strrchr(list, '/');
    char *folder = slash ? strndup(list, (size_t)(slash - list) + 1)
                         : strdup("");

    if (!file)
        inputs_fail(in, "%s: %s", list, strerror(errno));
    else if (!folder)
        inputs_fail(in, "out of memory");
    else
        ok = read_list(in, file, is_stdin ? "standard input" : list, folder,
                       zero);
    if (file && !is_stdin)
        fclose(file);
    free(folder);
    return ok;
}
