// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE  // tdestroy
#include "inputs.h"

#include <errno.h>
#include <limits.h>
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inputs_parts.h"
#include "tools.h"

#define BLOCK_SIZE ((size_t)256 * 1024)

bool inputs_fail(struct inputs *in, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(in->error, sizeof(in->error), format, args);
    va_end(args);
    return false;
}

static bool no_memory(struct inputs *in)
{
    return inputs_fail(in, "out of memory");
}

void inputs_fault(struct inputs *in, const char *path, int error)
{
    const char *why = strerror(error);
    size_t size = strlen(path) + strlen(why) + 3;
    char *text;

    if (in->num_faults++ >= INPUTS_MAX_FAULTS)
        return;
    if ((text = malloc(size)))
        snprintf(text, size, "%s: %s", path, why);
    in->faults[in->num_faults - 1] = text;
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

char *inputs_join(const char *dir, const char *name)
{
    size_t length = strlen(dir), size = length + strlen(name) + 2;
    char *path = malloc(size);

    if (path)
        snprintf(path, size, "%s%s%s", dir,
                 length && dir[length - 1] != '/' ? "/" : "", name);
    return path;
}

// ---- What is known by its text ---------------------------------------------

struct known {
    const char *text;
    size_t rel;
    uint32_t index;
};

static int compare_known(const void *a, const void *b)
{
    const struct known *ka = a, *kb = b;
    int order = strcmp(ka->text, kb->text);

    return order ? order : (ka->rel > kb->rel) - (ka->rel < kb->rel);
}

static bool find_known(void *const *tree, const char *text, size_t rel,
                       uint32_t *index)
{
    const struct known key = {text, rel, 0};
    struct known *const *found = tfind(&key, tree, compare_known);

    if (found)
        *index = (*found)->index;
    return found != NULL;
}

static bool add_known(void **tree, const char *text, size_t rel, size_t index)
{
    struct known *known = malloc(sizeof(*known));

    if (!known)
        return false;
    *known = (struct known){text, rel, (uint32_t)index};
    if (tsearch(known, tree, compare_known))
        return true;
    free(known);
    return false;
}

static bool add_label(struct inputs *in, const char *text)
{
    void *labels = in->labels;

    if (in->num_labels == UINT32_MAX ||
        !grow(&labels, &in->labels_capacity, in->num_labels,
              sizeof(*in->labels)))
        return false;
    in->labels = labels;
    in->labels[in->num_labels++] = (struct inputs_label){text, -1};
    return true;
}

bool inputs_intern(struct inputs *in, const char *text, uint32_t *label)
{
    const char *kept;

    // The first is no label.
    if (!in->num_labels && !add_label(in, ""))
        return no_memory(in);
    *label = 0;
    if (!*text || find_known(&in->known_labels, text, 0, label))
        return true;
    *label = (uint32_t)in->num_labels;
    return ((kept = keep_name(in, text)) && add_label(in, kept) &&
            add_known(&in->known_labels, kept, 0, *label)) ||
           no_memory(in);
}

// ---- Folders and files -----------------------------------------------------

bool inputs_put_dir(struct inputs *in, struct inputs_dir dir, uint32_t *index)
{
    void *dirs = in->dirs;

    if (!dir.path || in->num_dirs == UINT32_MAX ||
        !grow(&dirs, &in->dirs_capacity, in->num_dirs, sizeof(dir))) {
        free(dir.path);
        return no_memory(in);
    }
    in->dirs = dirs;
    in->dirs[in->num_dirs] = dir;
    *index = (uint32_t)in->num_dirs++;
    return true;
}

bool inputs_put_dir_once(struct inputs *in, struct inputs_dir dir,
                         uint32_t *index)
{
    if (dir.path && find_known(&in->known_dirs, dir.path, dir.rel, index)) {
        free(dir.path);
        return true;
    }
    return inputs_put_dir(in, dir, index) &&
           (add_known(&in->known_dirs, dir.path, dir.rel, *index) ||
            no_memory(in));
}

bool inputs_put(struct inputs *in, uint32_t dir, const char *name,
                uint32_t label)
{
    struct inputs_item item = {.dir = dir, .label = label};
    void *items = in->items;

    if (strlen(in->dirs[dir].path) + strlen(name) + 2 > PATH_MAX) {
        char *path = inputs_join(in->dirs[dir].path, name);

        inputs_fault(in, path ? path : name, ENAMETOOLONG);
        free(path);
        return true;
    }
    if (!(item.name = keep_name(in, name)) ||
        !grow(&items, &in->capacity, in->num, sizeof(item)))
        return no_memory(in);
    in->items = items;
    in->items[in->num++] = item;
    return true;
}

void inputs_finish(struct inputs *in)
{
    for (size_t i = 0; i < in->num_blocks; i++)
        free(in->blocks[i]);
    for (size_t i = 0; i < in->num_dirs; i++)
        free(in->dirs[i].path);
    for (size_t i = 0; i < INPUTS_MAX_FAULTS; i++)
        free(in->faults[i]);
    for (size_t i = 0; i < in->num_packs; i++)
        hr_pack_close(&in->packs[i]);
    tdestroy(in->seen, free);
    tdestroy(in->known_labels, free);
    tdestroy(in->known_dirs, free);
    free(in->packs);
    free(in->blocks);
    free(in->first_skipped);
    free(in->first_other);
    free(in->classes);
    free(in->labels);
    free(in->dirs);
    free(in->items);
    *in = (struct inputs){0};
}
