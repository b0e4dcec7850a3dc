// SPDX-License-Identifier: Apache-2.0
// Pictures of pack files, called as if the file were a folder.
#include <limits.h>
#include <string.h>

#include "hal/engine/base.h"
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

// The folder of a name that has length bytes up to its last slash.
static bool put_dir(struct hr__source *s, struct hr__source_dir made,
                    const char *name, size_t length, uint32_t *dir)
{
    const char *root = made.path;
    size_t size = strlen(root);
    char path[2 * PATH_MAX];

    // (It was opened by its path, and names are shorter than PATH_MAX.)
    if (size + length + 2 > sizeof(path))
        return hr__source_fail(HR_EINVAL, "%s: too long a path",
                               hr__source_short(root));
    memcpy(path, root, size);
    path[size] = '/';
    made.path = path;
    made.rel = (uint32_t)(size + (length != 0));
    memcpy(path + made.rel, name, length);
    path[made.rel + length] = '\0';
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
                           const char *label, bool is_name)
{
    const char *slash = strrchr(name, '/');
    uint32_t dir, own;

    return hr__source_put_member_dir(s, path, pack, shard, name, &dir) &&
           hr__source_intern(s, label, is_name, &own) &&
           hr__source_put(s, dir, slash ? slash + 1 : name, own);
}

static bool put_entry(struct hr__source *s, hr_pack_file file, size_t i)
{
    struct hr_pack_entry entry;
    size_t before = s->num;

    hr_pack_entry(file, i, &entry);
    if (!hr__source_put_member(s, file->path, (uint32_t)s->num_packs, 0,
                               entry.name, entry.label, true))
        return false;
    if (s->num > before)
        s->items[before].number = (uint32_t)i;
    return true;
}

bool hr__source_unpack(struct hr__source *s, const char *path)
{
    hr_pack_file file = hr_pack_open(path);

    if (!file || !keep_pack(s, file))
        return false;
    for (size_t i = 0; i < file->num; i++)
        if (!put_entry(s, file, i))
            return false;
    return true;
}

hr_pack_file hr_source_pack(hr_source source, uint64_t i, size_t *number)
{
    const struct hr__source *s = hr__source_of(source);
    const struct hr__source_item *item;
    uint32_t pack;

    if (!s || i >= s->num)
        return NULL;
    item = &s->items[i];
    pack = s->dirs[item->dir].pack;
    *number = item->number;
    return pack ? s->packs[pack - 1] : NULL;
}
