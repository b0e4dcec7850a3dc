// SPDX-License-Identifier: Apache-2.0
// The pictures of a folder and of all below it. Real folders come before those
// behind links, and links before what is behind them; folders are remembered
// by device and inode, so that links cannot multiply them.
#define _GNU_SOURCE  // qsort_r
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "inputs_parts.h"

struct seen {
    dev_t dev;
    ino_t ino;
};

static int compare_seen(const void *a, const void *b)
{
    const struct seen *sa = a, *sb = b;

    if (sa->dev != sb->dev)
        return sa->dev < sb->dev ? -1 : 1;
    return (sa->ino > sb->ino) - (sa->ino < sb->ino);
}

// Whether the folder is met for the first time. False with inputs->error "" if
// it is not.
static bool is_new(struct inputs *in, const struct stat *st)
{
    struct seen *one = malloc(sizeof(*one)), **found = NULL;

    in->error[0] = '\0';
    if (one) {
        *one = (struct seen){st->st_dev, st->st_ino};
        found = tsearch(one, &in->seen, compare_seen);
    }
    if (found && *found == one)
        return true;
    free(one);
    if (!found)
        inputs_fail(in, "out of memory");
    return false;
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

// What an entry is. Unknown file systems and links need a look.
enum entry_kind { ENTRY_OTHER, ENTRY_FILE, ENTRY_DIR, ENTRY_DIR_LINK };

static enum entry_kind entry_kind(int fd, const struct dirent *entry)
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
    if (!S_ISDIR(st.st_mode) ||
        fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return ENTRY_OTHER;
    return S_ISLNK(st.st_mode) ? ENTRY_DIR_LINK : ENTRY_DIR;
}

// The folder the user named has no relative part: its rel is its length.
static bool add_below(struct inputs *in, uint32_t up, const char *name,
                      bool link)
{
    struct inputs_dir dir = in->dirs[up];
    bool first = !dir.path[dir.rel];
    uint32_t unused;

    dir.path = inputs_join(dir.path, name);
    dir.link = link;
    if (dir.path && first)
        dir.rel = strlen(dir.path) - strlen(name);
    if (first && !inputs_intern(in, name, &dir.label)) {
        free(dir.path);
        return false;
    }
    return inputs_put_dir(in, dir, &unused);
}

static void count(const struct inputs *in, uint32_t dir, const char *name,
                  size_t *num, char **first)
{
    if (!(*num)++)
        *first = inputs_join(in->dirs[dir].path, name);
}

static bool visit(struct inputs *in, uint32_t dir, int fd,
                  const struct dirent *entry)
{
    const char *name = entry->d_name;
    enum entry_kind kind;

    if (!strcmp(name, ".") || !strcmp(name, ".."))
        return true;
    kind = entry_kind(fd, entry);
    if (kind == ENTRY_DIR || kind == ENTRY_DIR_LINK)
        return add_below(in, dir, name, kind == ENTRY_DIR_LINK);
    if (kind == ENTRY_FILE && inputs_is_picture(name))
        return inputs_put(in, dir, name, 0);
    if (inputs_is_picture(name))
        count(in, dir, name, &in->skipped, &in->first_skipped);
    else if (kind == ENTRY_FILE && *name != '.')
        count(in, dir, name, &in->others, &in->first_other);
    return true;
}

// The entries of one folder, unless they were met before. What cannot be read
// is a fault, but of the folder that was named an error.
static bool read_folder(struct inputs *in, uint32_t dir, uint32_t root)
{
    DIR *stream = opendir(in->dirs[dir].path);
    const struct dirent *entry;
    bool ok = true;
    struct stat st;
    int error;

    if (stream && !fstat(dirfd(stream), &st) && !is_new(in, &st)) {
        closedir(stream);
        return !*in->error;
    }
    while (stream && ok && (errno = 0, entry = readdir(stream)))
        ok = visit(in, dir, dirfd(stream), entry);
    error = errno;
    if (stream)
        closedir(stream);
    if (!ok || (stream && !error))
        return ok;
    if (dir == root)
        return inputs_fail(in, "%s: %s", in->dirs[dir].path, strerror(error));
    inputs_fault(in, in->dirs[dir].path, error);
    return true;
}

static int compare_dirs(const void *a, const void *b, void *context)
{
    const struct inputs *in = context;

    return strcmp(in->dirs[*(const uint32_t *)a].path,
                  in->dirs[*(const uint32_t *)b].path);
}

// Reads what the links from dirs[begin] to dirs[end] lead to, in the order of
// their names: which of two leads first must not depend on the file system.
static bool follow_links(struct inputs *in, size_t begin, size_t end,
                         uint32_t root)
{
    uint32_t *links = calloc(end - begin + 1, sizeof(*links));
    size_t num = 0;
    bool ok = true;

    if (!links)
        return inputs_fail(in, "out of memory");
    for (size_t i = begin; i < end; i++)
        if (in->dirs[i].link)
            links[num++] = (uint32_t)i;
    qsort_r(links, num, sizeof(*links), compare_dirs, in);
    for (size_t i = 0; i < num && ok; i++)
        ok = read_folder(in, links[i], root);
    free(links);
    return ok;
}

static bool walk(struct inputs *in, uint32_t root)
{
    for (size_t begin = root, end; begin < in->num_dirs; begin = end) {
        for (size_t i = begin; i < in->num_dirs; i++)
            if (!in->dirs[i].link && !read_folder(in, (uint32_t)i, root))
                return false;
        end = in->num_dirs;
        if (!follow_links(in, begin, end, root))
            return false;
    }
    return true;
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

bool inputs_walk(struct inputs *in, const char *folder)
{
    struct inputs_dir dir = {.path = strdup(folder), .rel = strlen(folder)};
    size_t first = in->num;
    const char *name;
    uint32_t root;

    while (dir.path && dir.rel > 1 && dir.path[dir.rel - 1] == '/')
        dir.path[--dir.rel] = '\0';
    if (!inputs_put_dir(in, dir, &root) || !walk(in, root))
        return false;
    name = strrchr(dir.path, '/');
    name = name ? name + 1 : dir.path;
    // Where there are classes, a picture beside them is of none.
    for (size_t i = first; i < in->num; i++)
        if (in->items[i].dir != root)
            name = "";
    if (!strcmp(name, ".") || !strcmp(name, ".."))
        name = "";
    if (!inputs_intern(in, name, &in->dirs[root].label))
        return false;
    if (in->num > first)
        qsort_r(in->items + first, in->num - first, sizeof(*in->items),
                compare_items, in);
    return true;
}
