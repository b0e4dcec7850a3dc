// SPDX-License-Identifier: Apache-2.0
// The pictures of a folder and of all below it. Real folders come before those
// behind links, and links before what is behind them; folders are remembered
// by device and inode, so that links cannot multiply them.
#define _GNU_SOURCE  // qsort_r
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "hal/engine/base.h"
#include "source.h"

bool hr__source_is_picture(const char *name)
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
static bool add_below(struct hr__source *s, uint32_t up, const char *name,
                      bool link)
{
    struct hr__source_dir dir = s->dirs[up];
    bool first = !dir.path[dir.rel];
    uint32_t unused;

    dir.path = hr__source_join(s, dir.path, name);
    dir.link = link;
    if (dir.path && first)
        dir.rel = (uint32_t)(strlen(dir.path) - strlen(name));
    return (!first || hr__source_intern(s, name, &dir.label)) &&
           hr__source_put_dir(s, dir, &unused);
}

static void count(struct hr__source *s, uint32_t dir, const char *name,
                  size_t *num, const char **first)
{
    if (!(*num)++)
        *first = hr__source_join(s, s->dirs[dir].path, name);
}

static bool visit(struct hr__source *s, uint32_t dir, int fd,
                  const struct dirent *entry)
{
    const char *name = entry->d_name;
    enum entry_kind kind;

    if (!strcmp(name, ".") || !strcmp(name, ".."))
        return true;
    kind = entry_kind(fd, entry);
    if (kind == ENTRY_DIR || kind == ENTRY_DIR_LINK)
        return add_below(s, dir, name, kind == ENTRY_DIR_LINK);
    if (kind == ENTRY_FILE && hr__source_is_picture(name))
        return hr__source_put(s, dir, name, 0);
    if (hr__source_is_picture(name))
        count(s, dir, name, &s->pub.skipped, &s->pub.first_skipped);
    else if (kind == ENTRY_FILE && *name != '.')
        count(s, dir, name, &s->pub.others, &s->pub.first_other);
    return true;
}

// The entries of one folder, unless they were met before. What cannot be read
// is a fault, but of the folder that was named an error.
static bool read_folder(struct hr__source *s, uint32_t dir, uint32_t root)
{
    DIR *stream = opendir(s->dirs[dir].path);
    const struct dirent *entry;
    bool ok = true, short_of_memory;
    struct stat st;
    int error;

    if (stream && !fstat(dirfd(stream), &st) &&
        !hr__source_is_new(s, st.st_dev, st.st_ino, &short_of_memory)) {
        closedir(stream);
        return !short_of_memory;
    }
    while (stream && ok && (errno = 0, entry = readdir(stream)))
        ok = visit(s, dir, dirfd(stream), entry);
    error = errno;
    if (stream)
        closedir(stream);
    if (!ok || (stream && !error))
        return ok;
    if (dir == root)
        return hr__source_fail(HR_EIO, "%s: %s",
                               hr__source_short(s->dirs[dir].path),
                               strerror(error));
    hr__source_fault(s, s->dirs[dir].path, error);
    return true;
}

static int compare_dirs(const void *a, const void *b, void *context)
{
    const struct hr__source *s = context;

    return strcmp(s->dirs[*(const uint32_t *)a].path,
                  s->dirs[*(const uint32_t *)b].path);
}

// Reads what the links from dirs[begin] to dirs[end] lead to, in the order of
// their names: which of two leads first must not depend on the file system.
static bool follow_links(struct hr__source *s, size_t begin, size_t end,
                         uint32_t root)
{
    uint32_t *links = hr__alloc(NULL, (end - begin + 1) * sizeof(*links));
    size_t num = 0;
    bool ok = true;

    if (!links)
        return hr__source_fail(HR_ENOMEM, "out of memory");
    for (size_t i = begin; i < end; i++)
        if (s->dirs[i].link)
            links[num++] = (uint32_t)i;
    qsort_r(links, num, sizeof(*links), compare_dirs, s);
    for (size_t i = 0; i < num && ok; i++)
        ok = read_folder(s, links[i], root);
    hr__free(links);
    return ok;
}

static bool walk(struct hr__source *s, uint32_t root)
{
    for (size_t begin = root, end; begin < s->num_dirs; begin = end) {
        for (size_t i = begin; i < s->num_dirs; i++)
            if (!s->dirs[i].link && !read_folder(s, (uint32_t)i, root))
                return false;
        end = s->num_dirs;
        if (!follow_links(s, begin, end, root))
            return false;
    }
    return true;
}

// One relative path is two pieces, the folder's and the name; they are read
// as if joined by a slash.
struct rel {
    const char *at, *name;
};

static struct rel rel_begin(const struct hr__source *s,
                            const struct hr__source_item *item)
{
    const char *dir = s->dirs[item->dir].path + s->dirs[item->dir].rel;

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

static int compare_items(const void *a, const void *b, void *context)
{
    const struct hr__source *s = context;
    struct rel rel_a = rel_begin(s, a), rel_b = rel_begin(s, b);
    int byte_a, byte_b;

    do {
        byte_a = rel_next(&rel_a);
        byte_b = rel_next(&rel_b);
    } while (byte_a == byte_b && byte_a);
    return byte_a - byte_b;
}

static bool put_root(struct hr__source *s, const char *folder, uint32_t *root)
{
    struct hr__source_dir dir = {0};
    size_t length = strlen(folder);

    while (length > 1 && folder[length - 1] == '/')
        length--;
    dir.path = hr__source_text(s, folder, length);
    dir.rel = (uint32_t)length;
    return hr__source_put_dir(s, dir, root);
}

bool hr__source_walk(struct hr__source *s, const char *folder)
{
    size_t first = s->num;
    const char *name;
    uint32_t root;

    if (!put_root(s, folder, &root) || !walk(s, root))
        return false;
    name = strrchr(s->dirs[root].path, '/');
    name = name ? name + 1 : s->dirs[root].path;
    // Where there are classes, a picture beside them is of none.
    for (size_t i = first; i < s->num; i++)
        if (s->items[i].dir != root)
            name = "";
    if (!strcmp(name, ".") || !strcmp(name, ".."))
        name = "";
    if (!hr__source_intern(s, name, &s->dirs[root].label))
        return false;
    if (s->num > first)
        qsort_r(s->items + first, s->num - first, sizeof(*s->items),
                compare_items, s);
    return true;
}
