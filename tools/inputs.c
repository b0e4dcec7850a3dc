// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE  // qsort_r
#include "inputs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "tools.h"

#define BLOCK_SIZE ((size_t)256 * 1024)

// A link that points at a folder is followed; this many of them may lie on
// one way down, as folders that link to each other make many ways.
#define MAX_LINKS 8

// The folders above the one being walked.
struct ancestor {
    const struct ancestor *up;
    dev_t dev;
    ino_t ino;
};

static bool fail(struct inputs *in, const char *format, ...) HR_PRINTF(2, 3);

static bool fail(struct inputs *in, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(in->error, sizeof(in->error), format, args);
    va_end(args);
    return false;
}

static bool no_memory(struct inputs *in)
{
    return fail(in, "out of memory");
}

// Makes room for one more element. Doubling, as the end is not known.
static bool grow(void **array, size_t *capacity, size_t num, size_t size)
{
    size_t more = *capacity ? *capacity * 2 : 64, bytes;
    void *moved;

    if (num < *capacity)
        return true;
    if (!tools_mul(&bytes, more, size) || !(moved = realloc(*array, bytes)))
        return false;
    *array = moved;
    *capacity = more;
    return true;
}

static const char *keep_name(struct inputs *in, const char *name)
{
    size_t size = strlen(name) + 1;
    char **blocks, *kept;

    if (size > BLOCK_SIZE)
        return NULL;
    if (!in->num_blocks || BLOCK_SIZE - in->block_used < size) {
        blocks = realloc(in->blocks, (in->num_blocks + 1) * sizeof(*blocks));
        if (!blocks)
            return NULL;
        in->blocks = blocks;
        if (!(blocks[in->num_blocks] = malloc(BLOCK_SIZE)))
            return NULL;
        in->num_blocks++;
        in->block_used = 0;
    }
    kept = in->blocks[in->num_blocks - 1] + in->block_used;
    in->block_used += size;
    return memcpy(kept, name, size);
}

static const char *slash_after(const char *dir)
{
    size_t length = strlen(dir);

    return length && dir[length - 1] != '/' ? "/" : "";
}

static bool add_item(struct inputs *in, uint32_t dir, const char *name)
{
    struct inputs_item item = {.dir = dir};
    void *items = in->items;

    if (strlen(in->dirs[dir].path) + strlen(name) + 2 > PATH_MAX)
        return fail(in, "%s%s%s: %s", in->dirs[dir].path,
                    slash_after(in->dirs[dir].path), name,
                    strerror(ENAMETOOLONG));
    if (!(item.name = keep_name(in, name)) ||
        !grow(&items, &in->capacity, in->num, sizeof(item)))
        return no_memory(in);
    in->items = items;
    in->items[in->num++] = item;
    return true;
}

// Takes path over, also on failure.
static bool add_dir(struct inputs *in, char *path, size_t rel, uint32_t *dir)
{
    void *dirs = in->dirs;

    if (!path || in->num_dirs == UINT32_MAX ||
        !grow(&dirs, &in->dirs_capacity, in->num_dirs, sizeof(*in->dirs))) {
        free(path);
        return no_memory(in);
    }
    in->dirs = dirs;
    in->dirs[in->num_dirs] = (struct inputs_dir){path, rel};
    *dir = (uint32_t)in->num_dirs++;
    return true;
}

static char *join(const char *dir, const char *name)
{
    char *path;
    size_t size = strlen(dir) + strlen(name) + 2;

    if ((path = malloc(size)))
        snprintf(path, size, "%s%s%s", dir, slash_after(dir), name);
    return path;
}

bool inputs_is_picture(const char *name)
{
    static const char *const extensions[] = {
        ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".mpo",
    };
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot && i < sizeof(extensions) / sizeof(char *); i++)
        if (!strcasecmp(dot, extensions[i]))
            return true;
    return false;
}

static bool leads_up(const struct ancestor *up, const struct stat *st)
{
    for (; up; up = up->up)
        if (up->dev == st->st_dev && up->ino == st->st_ino)
            return true;
    return false;
}

static void skip(struct inputs *in, uint32_t dir, const char *name)
{
    if (!in->skipped++)
        in->first_skipped = join(in->dirs[dir].path, name);
}

// The folder the user named has no relative part: its rel is its length.
static bool add_below(struct inputs *in, uint32_t dir, const char *name,
                      uint32_t *below)
{
    const struct inputs_dir *up = &in->dirs[dir];
    char *path = join(up->path, name);
    size_t rel = up->rel;

    if (path && !up->path[rel])
        rel = strlen(path) - strlen(name);
    return add_dir(in, path, rel, below);
}

// What an entry is. Unknown file systems and links need a look.
enum entry_kind { ENTRY_OTHER, ENTRY_FILE, ENTRY_DIR, ENTRY_DIR_LINK };

static enum entry_kind entry_kind(int fd, const struct dirent *entry,
                                  const struct ancestor *up)
{
    struct stat st;

    if (entry->d_type == DT_REG)
        return ENTRY_FILE;
    if (entry->d_type == DT_DIR)
        return ENTRY_DIR;
    if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN)
        return ENTRY_OTHER;
    if (fstatat(fd, entry->d_name, &st, 0) < 0)
        return ENTRY_OTHER;
    if (S_ISREG(st.st_mode))
        return ENTRY_FILE;
    if (!S_ISDIR(st.st_mode) || leads_up(up, &st))
        return ENTRY_OTHER;
    if (fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return ENTRY_OTHER;
    return S_ISLNK(st.st_mode) ? ENTRY_DIR_LINK : ENTRY_DIR;
}

// Folders below, to be walked once this one is closed.
struct below {
    struct below_dir {
        uint32_t dir;
        bool link;
    } * dirs;
    size_t num, capacity;
};

static bool visit(struct inputs *in, uint32_t dir, DIR *stream,
                  const struct dirent *entry, const struct ancestor *here,
                  struct below *below)
{
    const char *name = entry->d_name;
    enum entry_kind kind;
    struct below_dir found = {0};
    void *dirs = below->dirs;

    if (!strcmp(name, ".") || !strcmp(name, ".."))
        return true;
    kind = entry_kind(dirfd(stream), entry, here);
    if (kind == ENTRY_FILE)
        return !inputs_is_picture(name) || add_item(in, dir, name);
    if (kind == ENTRY_OTHER) {
        if (inputs_is_picture(name))
            skip(in, dir, name);
        return true;
    }
    found.link = kind == ENTRY_DIR_LINK;
    if (!add_below(in, dir, name, &found.dir))
        return false;
    if (!grow(&dirs, &below->capacity, below->num, sizeof(found)))
        return no_memory(in);
    below->dirs = dirs;
    below->dirs[below->num++] = found;
    return true;
}

static bool read_dir(struct inputs *in, uint32_t dir, DIR *stream,
                     const struct ancestor *here, struct below *below)
{
    const struct dirent *entry;

    while ((errno = 0, entry = readdir(stream)))
        if (!visit(in, dir, stream, entry, here, below))
            return false;
    if (errno)
        return fail(in, "%s: %s", in->dirs[dir].path, strerror(errno));
    return true;
}

static bool walk(struct inputs *in, uint32_t dir, const struct ancestor *up,
                 int links)
{
    struct ancestor here = {.up = up};
    struct below below = {0};
    struct stat st;
    bool ok = false;
    DIR *stream = opendir(in->dirs[dir].path);

    if (!stream || fstat(dirfd(stream), &st) < 0) {
        fail(in, "%s: %s", in->dirs[dir].path, strerror(errno));
        goto error;
    }
    here.dev = st.st_dev;
    here.ino = st.st_ino;
    if (!read_dir(in, dir, stream, &here, &below))
        goto error;
    closedir(stream);
    stream = NULL;
    ok = true;
    for (size_t i = 0; ok && i < below.num; i++)
        if (links + below.dirs[i].link <= MAX_LINKS)
            ok = walk(in, below.dirs[i].dir, &here, links + below.dirs[i].link);
error:
    if (stream)
        closedir(stream);
    free(below.dirs);
    return ok;
}

// One relative path is two pieces, the folder's and the name; they are read
// as if joined by a slash.
struct rel {
    const char *at, *name;
};

static struct rel rel_begin(const struct inputs *in,
                            const struct inputs_item *item)
{
    const char *dir = in->dirs[item->dir].path + in->dirs[item->dir].rel;

    return *dir ? (struct rel){dir, item->name}
                : (struct rel){item->name, NULL};
}

static int rel_next(struct rel *rel)
{
    if (*rel->at)
        return (unsigned char)*rel->at++;
    if (!rel->name)
        return 0;
    rel->at = rel->name;
    rel->name = NULL;
    return '/';
}

static int compare_items(const void *a, const void *b, void *in)
{
    struct rel rel_a = rel_begin(in, a), rel_b = rel_begin(in, b);
    int byte_a, byte_b;

    do {
        byte_a = rel_next(&rel_a);
        byte_b = rel_next(&rel_b);
    } while (byte_a == byte_b && byte_a);
    return byte_a - byte_b;
}

static bool add_folder(struct inputs *in, const char *argument)
{
    size_t length = strlen(argument), first = in->num;
    char *path = strdup(argument);
    uint32_t dir;

    while (path && length > 1 && path[length - 1] == '/')
        path[--length] = '\0';
    if (!add_dir(in, path, length, &dir) || !walk(in, dir, NULL, 0))
        return false;
    if (in->num > first)
        qsort_r(in->items + first, in->num - first, sizeof(*in->items),
                compare_items, in);
    return true;
}

static bool add_file(struct inputs *in, const char *argument)
{
    const char *slash = strrchr(argument, '/');
    size_t length = slash ? (size_t)(slash - argument) + (slash == argument)
                          : 0;
    size_t last = in->num_dirs;
    uint32_t dir;

    // Files of one folder tend to be named together.
    if (last && in->dirs[last - 1].rel == length &&
        strlen(in->dirs[last - 1].path) == length &&
        !strncmp(in->dirs[last - 1].path, argument, length))
        dir = (uint32_t)(last - 1);
    else if (!add_dir(in, strndup(argument, length), length, &dir))
        return false;
    return add_item(in, dir, slash ? slash + 1 : argument);
}

bool inputs_add(struct inputs *in, const char *argument)
{
    struct stat st;

    if (stat(argument, &st) < 0)
        return fail(in, "%s: %s", argument, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return add_folder(in, argument);
    if (S_ISREG(st.st_mode))
        return add_file(in, argument);
    return fail(in, "%s: neither a file nor a folder", argument);
}
