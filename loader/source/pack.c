// SPDX-License-Identifier: Apache-2.0
// Pictures of pack files, called as if the file were a folder.
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "hal/engine/base.h"
#include "loader/pack/writer.h"
#include "source.h"

static bool keep_pack(struct hr__source *s, hr_pack_file file)
{
    if (!hr__source_grow(&s->packs, &s->packs_capacity, s->num_packs,
                         sizeof(*s->packs))) {
        hr_pack_close(&file);
        return false;
    }
    s->packs[s->num_packs++] = file;
    return true;
}

// Returns where names begin in a path that begins with a shard's, of size
// bytes. If samples are numbered, the file is a part of the name, as the next
// file has the same numbers.
static size_t name_at(const struct hr__source *s, uint32_t shard,
                      const char *root, size_t size)
{
    const char *slash = strrchr(root, '/');

    if (!shard || !s->shards[shard - 1].numbers)
        return size;
    return slash ? (size_t)(slash + 1 - root) : 0;
}

// The folder of a name that has length bytes up to its last slash.
static bool put_dir(struct hr__source *s, struct hr__source_dir made,
                    const char *name, size_t length, uint32_t *dir)
{
    const char *root = made.path;
    size_t size = strlen(root), at = size + (length != 0);
    char path[2 * PATH_MAX];

    // (It was opened by its path, and names are shorter than PATH_MAX.)
    if (size + length + 2 > sizeof(path))
        return hr__source_fail(HR_EINVAL, "%s: too long a path",
                               hr__source_short(root));
    memcpy(path, root, size);
    path[size] = '/';
    made.path = path;
    made.rel = (uint32_t)name_at(s, made.shard, root, at);
    memcpy(path + at, name, length);
    path[at + length] = '\0';
    return hr__source_put_dir_once(s, made, dir);
}

bool hr__source_put_member_dir(struct hr__source *s, const char *path,
                               uint32_t pack, uint32_t shard, const char *name,
                               uint32_t *dir)
{
    const char *slash = strrchr(name, '/');
    struct hr__source_dir made = {.path = path, .pack = pack, .shard = shard};

    return put_dir(s, made, name, slash ? (size_t)(slash - name) : 0, dir);
}

bool hr__source_put_member(struct hr__source *s, const char *path,
                           uint32_t pack, uint32_t shard, const char *name,
                           const char *label, bool is_name, uint32_t number)
{
    const char *slash = name ? strrchr(name, '/') : NULL;
    uint32_t dir, own;

    return hr__source_put_member_dir(s, path, pack, shard, name ? name : "",
                                     &dir) &&
           hr__source_intern(s, label, is_name, &own) &&
           hr__source_put(s, dir, slash ? slash + 1 : name, own, number);
}

bool hr__source_put_classes(struct hr__source *s, const struct pack_view *view)
{
    const struct pack_header *head = (const void *)view->map;
    struct hr_pack_class *classes =
        hr__alloc(NULL, ((size_t)view->num_classes + 1) * sizeof(*classes));
    bool ok = true;
    uint32_t unused;

    if (!classes)
        return hr__source_fail(HR_ENOMEM, "out of memory");
    pack_view_classes(view, classes);
    for (size_t i = 0; ok && i < view->num_classes; i++)
        ok = hr__source_name_class(s, classes[i].label,
                                   head->fixed ? &classes[i].number : NULL,
                                   &unused);
    hr__free(classes);
    return ok;
}

static bool put_entry(struct hr__source *s, hr_pack_file file, size_t i)
{
    struct hr_pack_entry entry;

    hr_pack_entry(file, i, &entry);
    return hr__source_put_member(s, file->path, (uint32_t)s->num_packs, 0,
                                 entry.name, entry.label, true, (uint32_t)i);
}

bool hr__source_unpack(struct hr__source *s, const char *path)
{
    hr_pack_file file = hr_pack_open(path);

    if (!file || !keep_pack(s, file) ||
        !hr__source_put_classes(s, pack_view_of(file)))
        return false;
    for (size_t i = 0; i < file->num; i++)
        if (!put_entry(s, file, i))
            return false;
    return true;
}

// ---- What a writer is told -------------------------------------------------

static int compare_classes(const void *a, const void *b)
{
    const struct hr_pack_class *ca = a, *cb = b;

    if (ca->number != cb->number)
        return ca->number < cb->number ? -1 : 1;
    return strcmp(ca->label, cb->label);
}

enum hr_status hr_source_pack_classes(hr_source source, hr_pack_writer writer)
{
    struct hr__source *s = hr__source_of(source);
    struct hr_pack_class *classes;
    enum hr_status status;
    size_t num = 0, kept = 0;

    if (!hr__source_find_classes(s))
        return hr_last_status();
    if (!(classes = hr__alloc(NULL, (s->num_labels + 1) * sizeof(*classes))))
        return hr__fail(HR_ENOMEM, "out of memory");
    for (size_t i = 0; i < s->num_labels; i++)
        if (s->labels[i].has_class)
            classes[num++] = (struct hr_pack_class){s->labels[i].text,
                                                    s->labels[i].number};
    if (num)
        qsort(classes, num, sizeof(*classes), compare_classes);
    for (size_t i = 0; i < num; i++)  // a name and a text may be the same
        if (!i || compare_classes(&classes[i - 1], &classes[i]))
            classes[kept++] = classes[i];
    status = hr__pack_writer_classes(writer, classes, kept, s->numbers);
    hr__free(classes);
    return status;
}
