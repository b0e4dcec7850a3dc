// SPDX-License-Identifier: Apache-2.0
// The pictures of a folder, as torchvision's ImageFolder finds them: folders
// below it are classes, whatever is in them; of a class its folders are gone
// through in the order of their paths, and the files of each in that of their
// names. Links are followed, but for one to a folder that it lies in; folders
// are remembered by device and inode, so that links cannot multiply them for
// ever.
//
// (torchvision datasets/folder.py, make_dataset() and find_classes().)
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

// Says whether a name ends like one of suffixes, as ".jpg .jpeg".
static bool ends_in(const char *name, const char *suffixes)
{
    const char *dot = strrchr(name, '.');
    size_t size = dot ? strlen(dot) : 0, next;

    for (; dot && *suffixes; suffixes += next + (suffixes[next] == ' ')) {
        next = strcspn(suffixes, " ");
        if (next == size && !strncasecmp(dot, suffixes, size))
            return true;
    }
    return false;
}

bool hr__source_is_picture(const char *name)
{
    const struct hr_format_info *info;

    for (int i = HR_FORMAT_JPEG; (info = hr_format_info(i)); i++)
        if (ends_in(name, info->suffixes))
            return true;
    return false;
}

bool hr__source_is_other_picture(const char *name)
{
    static const enum hr_format others[] = {HR_FORMAT_BMP, HR_FORMAT_PNM,
                                            HR_FORMAT_OTHER};

    for (int i = 0; i < 3; i++)
        if (ends_in(name, hr_format_info(others[i])->suffixes))
            return true;
    return false;
}

// The kind of an entry. Unknown file systems and links need a look.
enum entry_kind { ENTRY_OTHER, ENTRY_FILE, ENTRY_DIR, ENTRY_NOWHERE };

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
        return ENTRY_NOWHERE;
    return S_ISREG(st.st_mode)   ? ENTRY_FILE
           : S_ISDIR(st.st_mode) ? ENTRY_DIR
                                 : ENTRY_OTHER;
}

// ---- Going through ---------------------------------------------------------

// One for each of the source's folders from root on.
struct folder {
    uint64_t dev, ino;
    uint32_t up;    // the folder that it lies in; of the root itself
    uint32_t rank;  // among all in their order
    bool told;      // that it cannot be read
};

struct walk {
    struct hr__source *s;
    uint32_t root;
    struct folder *folders;
    size_t num, capacity;
    size_t again;  // folders that were met before
};

// Folders that are met again: so many, and so many for each.
enum { AGAIN = 1000, AGAIN_EACH = 16 };

static bool put_folder(struct walk *w, struct hr__source_dir dir, uint32_t up)
{
    uint32_t index;

    if (!hr__source_put_dir(w->s, dir, &index) ||
        !hr__source_grow(&w->folders, &w->capacity, w->num,
                         sizeof(*w->folders)))
        return false;
    w->folders[w->num++] = (struct folder){.up = up};
    return true;
}

static bool put_root(struct walk *w, const char *path)
{
    struct hr__source_dir dir = {0};
    size_t length = strlen(path);

    while (length > 1 && path[length - 1] == '/')
        length--;
    dir.path = hr__source_text(w->s, path, length);
    dir.rel = (uint32_t)length;
    w->root = (uint32_t)w->s->num_dirs;
    return put_folder(w, dir, w->root);
}

// The folder the user named has no relative part: its rel is its length. A
// folder right below it is a class.
static bool add_below(struct walk *w, uint32_t up, const char *name)
{
    struct hr__source *s = w->s;
    struct hr__source_dir dir = s->dirs[up];

    dir.path = hr__source_join(s, dir.path, name);
    if (up != w->root)
        return put_folder(w, dir, up);
    if (dir.path)
        dir.rel = (uint32_t)(strlen(dir.path) - strlen(name));
    return hr__source_name_class(s, name, NULL, &dir.label) &&
           put_folder(w, dir, up);
}

static bool visit(struct walk *w, uint32_t dir, int fd,
                  const struct dirent *entry)
{
    struct hr__source *s = w->s;
    const char *name = entry->d_name;
    enum entry_kind kind;
    bool picture;

    if (!strcmp(name, ".") || !strcmp(name, ".."))
        return true;
    kind = entry_kind(fd, entry);
    if (kind == ENTRY_DIR)
        return add_below(w, dir, name);
    picture = hr__source_is_picture(name);
    if (kind == ENTRY_NOWHERE || (kind == ENTRY_OTHER && picture))
        return hr__source_skip(s, dir, name, HR_SKIP_FILE);
    if (picture)
        return hr__source_put(s, dir, name, 0, 0);
    if (kind == ENTRY_FILE && *name != '.' && !s->pub.others++)
        s->pub.first_other = hr__source_join(s, s->dirs[dir].path, name);
    return true;
}

// Says whether a folder, of which st tells, lies in itself.
static bool is_loop(struct walk *w, uint32_t dir, const struct stat *st)
{
    struct folder *own = &w->folders[dir - w->root];

    own->dev = st->st_dev;
    own->ino = st->st_ino;
    for (uint32_t at = dir; at != w->root;) {
        const struct folder *up;

        at = w->folders[at - w->root].up;
        up = &w->folders[at - w->root];
        if (up->dev == own->dev && up->ino == own->ino)
            return true;
    }
    return false;
}

// Says whether links lead to the same folders far too often.
static bool is_knot(struct walk *w, const struct stat *st)
{
    bool error;

    if (hr__source_is_new(w->s, st->st_dev, st->st_ino, &error))
        return false;
    return error ||
           (++w->again > AGAIN + AGAIN_EACH * w->s->num_seen &&
            !hr__source_fail(HR_ELIMIT,
                             "%s: links lead to the same folders too often",
                             hr__source_short(w->s->dirs[w->root].path)));
}

// Reads the entries of one folder. An unreadable folder is a fault; the one
// that was named is an error.
static bool read_folder(struct walk *w, uint32_t dir)
{
    struct hr__source *s = w->s;
    DIR *stream = opendir(s->dirs[dir].path);
    const struct dirent *entry;
    bool ok = true;
    struct stat st;
    int error;

    if (stream && !fstat(dirfd(stream), &st)) {
        bool loop = is_loop(w, dir, &st);

        if (loop || is_knot(w, &st)) {
            closedir(stream);
            return loop && hr__source_skip(s, dir, "", HR_SKIP_LOOP);
        }
    }
    while (stream && ok && (errno = 0, entry = readdir(stream)))
        ok = visit(w, dir, dirfd(stream), entry);
    error = errno;
    if (stream)
        closedir(stream);
    if (!ok || (stream && !error))
        return ok;
    if (dir == w->root)
        return hr__source_fail(HR_EIO, "%s: %s",
                               hr__source_short(s->dirs[dir].path),
                               strerror(error));
    hr__source_fault(s, s->dirs[dir].path, error);
    w->folders[dir - w->root].told = true;
    return true;
}

// ---- In order --------------------------------------------------------------

static int compare_folders(const void *a, const void *b, void *context)
{
    const struct hr__source *s = context;
    const struct hr__source_dir *da = &s->dirs[*(const uint32_t *)a];
    const struct hr__source_dir *db = &s->dirs[*(const uint32_t *)b];
    int order = hr__source_order(s->labels[da->label].text,
                                 s->labels[db->label].text);

    return order ? order
                 : hr__source_order(da->path + da->rel, db->path + db->rel);
}

static bool rank_folders(struct walk *w)
{
    uint32_t *order = hr__alloc(NULL, w->num * sizeof(*order));

    if (!order)
        return hr__source_fail(HR_ENOMEM, "out of memory");
    for (size_t i = 0; i < w->num; i++)
        order[i] = w->root + (uint32_t)i;
    qsort_r(order, w->num, sizeof(*order), compare_folders, w->s);
    for (size_t i = 0; i < w->num; i++)
        w->folders[order[i] - w->root].rank = (uint32_t)i;
    hr__free(order);
    return true;
}

static int compare_items(const void *a, const void *b, void *context)
{
    const struct walk *w = context;
    const struct hr__source_item *ia = a, *ib = b;
    char number[2][HR__NUMBER_TEXT];

    if (ia->dir == ib->dir)
        return hr__source_order(hr__source_item_name(w->s, ia, number[0]),
                                hr__source_item_name(w->s, ib, number[1]));
    return w->folders[ia->dir - w->root].rank <
                   w->folders[ib->dir - w->root].rank
               ? -1
               : 1;
}

static void sort(struct walk *w, struct hr__source_item *items, size_t num)
{
    if (num)
        qsort_r(items, num, sizeof(*items), compare_items, w);
}

// ---- What is left ----------------------------------------------------------

// Leaves out pictures that lie beside folders of classes: they are of no class.
static bool leave_beside(struct walk *w, size_t first)
{
    struct hr__source *s = w->s;
    char number[HR__NUMBER_TEXT];
    size_t kept = first;

    for (size_t i = first; i < s->num; i++)
        if (s->items[i].dir != w->root)
            s->items[kept++] = s->items[i];
        else if (!hr__source_skip(s, w->root,
                                  hr__source_item_name(s, &s->items[i], number),
                                  HR_SKIP_BESIDE))
            return false;
    s->num = kept;
    return true;
}

// The class of a folder, by its own folder.
static uint32_t class_of(const struct walk *w, uint32_t dir)
{
    while (w->folders[dir - w->root].up != w->root)
        dir = w->folders[dir - w->root].up;
    return dir - w->root;
}

// Notes the classes that have nothing that is called like a picture.
static bool find_empty(struct walk *w, size_t first, size_t first_skipped)
{
    struct hr__source *s = w->s;
    bool *has = hr__alloc(NULL, w->num), ok = true;
    size_t skipped = s->pub.skipped;

    if (!has)
        return hr__source_fail(HR_ENOMEM, "out of memory");
    memset(has, 0, w->num);
    for (size_t i = first; i < s->num; i++)
        has[class_of(w, s->items[i].dir)] = true;
    for (size_t i = first_skipped; i < skipped; i++)
        if (s->skipped[i].dir != w->root)
            has[class_of(w, s->skipped[i].dir)] = true;
    for (uint32_t i = 1; i < w->num; i++)
        if (w->folders[i].told)
            has[class_of(w, w->root + i)] = true;
    for (uint32_t i = 1; i < w->num && ok; i++)
        if (w->folders[i].up == w->root && !has[i])
            ok = hr__source_skip(s, w->root + i, "", HR_SKIP_EMPTY);
    hr__free(has);
    return ok;
}

// The class of a folder without folders is the folder.
static bool name_root(struct walk *w)
{
    struct hr__source *s = w->s;
    const char *name = strrchr(s->dirs[w->root].path, '/');

    name = name ? name + 1 : s->dirs[w->root].path;
    if (!strcmp(name, ".") || !strcmp(name, ".."))
        name = "";
    return hr__source_intern(s, name, true, &s->dirs[w->root].label);
}

bool hr__source_walk(struct hr__source *s, const char *folder)
{
    size_t first = s->num, first_skipped = s->pub.skipped;
    struct walk w = {.s = s};
    bool ok = put_root(&w, folder);

    for (size_t i = 0; i < w.num && ok; i++)
        ok = read_folder(&w, w.root + (uint32_t)i);
    ok = ok &&
         (w.num > 1
              ? leave_beside(&w, first) && find_empty(&w, first, first_skipped)
              : name_root(&w)) &&
         rank_folders(&w);
    if (ok) {
        sort(&w, s->items + first, s->num - first);
        sort(&w, s->skipped + first_skipped, s->pub.skipped - first_skipped);
    }
    hr__free(w.folders);
    return ok;
}
