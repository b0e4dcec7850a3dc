// SPDX-License-Identifier: Apache-2.0
// Pictures of pack files, called as if the file were a folder.
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "inputs_parts.h"

bool inputs_is_pack(const char *name)
{
    size_t length = strlen(name);

    return length > 4 && !strcasecmp(name + length - 4, ".hrp");
}

static bool keep_pack(struct inputs *in, hr_pack_file file)
{
    hr_pack_file *packs = realloc(in->packs,
                                  (in->num_packs + 1) * sizeof(*packs));

    if (!packs) {
        hr_pack_close(&file);
        return inputs_fail(in, "out of memory");
    }
    in->packs = packs;
    packs[in->num_packs++] = file;
    return true;
}

// The folder of a name that has length bytes up to its last slash.
static bool put_dir(struct inputs *in, hr_pack_file file, const char *name,
                    size_t length, uint32_t *dir)
{
    size_t root = strlen(file->path), size = root + length + 2;
    struct inputs_dir made = {.rel = root + (length != 0),
                              .pack = (uint32_t)in->num_packs};

    if (!(made.path = malloc(size)))
        return inputs_fail(in, "out of memory");
    memcpy(made.path, file->path, root);
    made.path[root] = '/';
    memcpy(made.path + made.rel, name, length);
    made.path[made.rel + length] = '\0';
    return inputs_put_dir_once(in, made, dir);
}

static bool put_entry(struct inputs *in, hr_pack_file file, size_t i)
{
    struct hr_pack_entry entry;
    const char *slash;
    size_t before = in->num;
    uint32_t dir, label;

    hr_pack_entry(file, i, &entry);
    slash = strrchr(entry.name, '/');
    if (!put_dir(in, file, entry.name, slash ? (size_t)(slash - entry.name) : 0,
                 &dir) ||
        !inputs_intern(in, entry.label, &label) ||
        !inputs_put(in, dir, slash ? slash + 1 : entry.name, label))
        return false;
    if (in->num > before)
        in->items[before].number = (uint32_t)i;
    return true;
}

bool inputs_unpack(struct inputs *in, const char *path)
{
    hr_pack_file file = hr_pack_open(path);
    uint32_t root;

    if (!file)
        return inputs_fail(in, "%s", hr_last_error());
    // Also one without pictures has a place that messages can name.
    if (!keep_pack(in, file) || !put_dir(in, file, "", 0, &root))
        return false;
    for (size_t i = 0; i < file->num; i++)
        if (!put_entry(in, file, i))
            return false;
    return true;
}

// ---- What a picture is made of ---------------------------------------------

hr_pack_file inputs_pack(const struct inputs *in, size_t i, size_t *number)
{
    const struct inputs_item *item = &in->items[i];
    uint32_t pack = in->dirs[item->dir].pack;

    *number = item->number;
    return pack ? in->packs[pack - 1] : NULL;
}

enum hr_status inputs_source(const struct inputs *in, size_t i,
                             const char *path, struct hr_sample *sample)
{
    size_t number;
    hr_pack_file file = inputs_pack(in, i, &number);
    enum hr_status status;

    sample->path = file ? NULL : path;
    if (!file)
        return HR_OK;
    status = hr_pack_sample_unchecked(file, number, sample);
    if (status || !sample->size) {
        sample->data = "";
        sample->size = 1;
        sample->verified = false;
    }
    sample->name = path;
    return status;
}

void inputs_passed(const struct inputs *in, size_t i)
{
    size_t number;
    hr_pack_file file = inputs_pack(in, i, &number);

    if (file)
        hr_pack_passed(file, number);
}

enum hr_status inputs_probe(const struct inputs *in, size_t i,
                            const struct hr_limits *limits,
                            struct hr_info *info)
{
    struct hr_pack_entry entry;
    char path[PATH_MAX];
    size_t number;
    hr_pack_file file = inputs_pack(in, i, &number);

    if (!file)
        return inputs_path(in, i, path, sizeof(path))
                   ? hr_probe_path(path, limits, info)
                   : HR_EINVAL;
    hr_pack_entry(file, number, &entry);
    return hr_probe(entry.data, entry.size, limits, info);
}
