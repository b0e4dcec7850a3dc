// SPDX-License-Identifier: Apache-2.0
// What samples and classes are called.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "hal/engine/base.h"
#include "source.h"

// Prints "DIR/NAME"; a folder that is "" or ends in a slash needs none.
static const char *print_path(char *buffer, size_t size, const char *dir,
                              const char *name)
{
    size_t length = strlen(dir);
    const char *slash = length && dir[length - 1] != '/' ? "/" : "";
    int used = snprintf(buffer, size, "%s%s%s", dir, slash, name);

    return used >= 0 && (size_t)used < size ? buffer : NULL;
}

// For a callback's. NULL: go on.
static const char *print_number(const struct hr__source *s, uint64_t i,
                                char *buffer, size_t size)
{
    if (s->calls.read && i < s->pub.num)
        snprintf(buffer, size, "sample %llu", (unsigned long long)i);
    else if (i < s->num)
        return NULL;
    else
        snprintf(buffer, size, "%s", "");
    return buffer;
}

// Of a path from rel on. A URL's query is in no name or message: it may be a
// password, and may have slashes.
static const char *print_from(const struct hr__source *s, uint64_t i,
                              uint32_t rel, char *buffer, size_t size)
{
    const struct hr__source_dir *dir = &s->dirs[s->items[i].dir];

    if (!print_path(buffer, size, dir->path + rel, s->items[i].name))
        return NULL;
    if (dir->web)
        buffer[hr__http_path_end(buffer)] = '\0';
    return buffer;
}

const char *hr_source_path(hr_source source, uint64_t i, char *buffer,
                           size_t size)
{
    const struct hr__source *s = hr__source_of(source);
    const char *number = print_number(s, i, buffer, size);

    return number ? number : print_from(s, i, 0, buffer, size);
}

const char *hr_source_name(hr_source source, uint64_t i, char *buffer,
                           size_t size)
{
    const struct hr__source *s = hr__source_of(source);
    const char *number = print_number(s, i, buffer, size);

    return number
               ? number
               : print_from(s, i, s->dirs[s->items[i].dir].rel, buffer, size);
}

bool hr_source_is_file(hr_source source, uint64_t i)
{
    const struct hr__source *s = hr__source_of(source);
    const struct hr__source_dir *dir;

    if (!s || i >= s->num)  // of a callback, too
        return false;
    dir = &s->dirs[s->items[i].dir];
    return !dir->pack && !dir->shard && !dir->web;
}

// ---- Labels and classes ----------------------------------------------------

static uint32_t label_of(const struct hr__source *s, uint64_t i)
{
    const struct hr__source_item *item = &s->items[i];

    return item->label ? item->label : s->dirs[item->dir].label;
}

const char *hr_source_label(hr_source source, uint64_t i)
{
    const struct hr__source *s = hr__source_of(source);

    return i < s->num ? s->labels[label_of(s, i)].text : "";
}

static int compare_labels(const void *a, const void *b)
{
    const struct hr__source_label *const *la = a, *const *lb = b;

    return strcmp((*la)->text, (*lb)->text);
}

// The class that a text says by its number; -1: none.
static int64_t number_of(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    int64_t number;

    if (!digits || digits > 9 || text[digits] || (*text == '0' && digits > 1))
        return -1;
    number = atol(text);
    return number < HR__SOURCE_NUMBERS ? number : -1;
}

// The labels of all samples. *numbers: none is the name of a folder or packed.
static size_t find_labels(struct hr__source *s, struct hr__source_label **used,
                          bool *numbers)
{
    size_t num = 0;

    for (size_t i = 0; i < s->num_labels; i++)
        s->labels[i].number = -1;
    *numbers = true;
    for (uint64_t i = 0; i < s->num; i++) {
        const struct hr__source_item *item = &s->items[i];
        struct hr__source_label *label = &s->labels[label_of(s, i)];

        if (!*label->text)
            continue;
        if (!item->label || item->folders || s->dirs[item->dir].pack)
            *numbers = false;
        if (label->number < 0)
            label->number = 0, used[num++] = label;
    }
    return num;
}

// Numbers are meant as they are, as WebDataset, MXNet and others do; names by
// their place, as ImageFolder. The lock is held.
static bool number_labels(struct hr__source *s)
{
    struct hr__source_label **used = hr__alloc(NULL, (s->num_labels + 1) *
                                                         sizeof(*used));
    size_t num, size = 0;
    bool numbers;

    hr__free(s->classes);
    s->classes = NULL;
    if (!used)
        return hr__source_fail(HR_ENOMEM, "out of memory");
    num = find_labels(s, used, &numbers);
    for (size_t i = 0; i < num && numbers; i++) {
        used[i]->number = number_of(used[i]->text);
        numbers = used[i]->number >= 0;
        if (size < (size_t)used[i]->number + 1)
            size = (size_t)used[i]->number + 1;
    }
    if (!numbers) {
        qsort(used, num, sizeof(*used), compare_labels);
        for (size = 0; size < num; size++)
            used[size]->number = (int64_t)size;
    }
    s->num_classes = size;
    s->classes = hr__alloc(NULL, (size + 1) * sizeof(*s->classes));
    for (size_t i = 0; s->classes && i < size; i++)
        s->classes[i] = "";
    for (size_t i = 0; s->classes && i < num; i++)
        s->classes[used[i]->number] = used[i]->text;
    hr__free(used);
    return s->classes || hr__source_fail(HR_ENOMEM, "out of memory");
}

bool hr__source_find_classes(struct hr__source *s)
{
    bool ok;

    pthread_mutex_lock(&s->lock);
    ok = s->has_classes || (s->has_classes = number_labels(s));
    pthread_mutex_unlock(&s->lock);
    return ok;
}

const char *const *hr_source_classes(hr_source source, size_t *num)
{
    struct hr__source *s = hr__source_of(source);

    *num = 0;
    if (!s || !hr__source_find_classes(s))
        return NULL;
    *num = s->num_classes;
    return s->classes;
}

int64_t hr_source_class(hr_source source, uint64_t i)
{
    struct hr__source *s = hr__source_of(source);

    if (i >= s->pub.num)
        return -1;
    if (s->calls.read)
        return s->calls.class_of ? s->calls.class_of(s->calls.ctx, i) : -1;
    return hr__source_find_classes(s) ? s->labels[label_of(s, i)].number : -1;
}

// ---- Identity --------------------------------------------------------------

// What a name is made of, without putting it together.
static void digest_item(XXH3_state_t *state, const struct hr__source *s,
                        uint64_t i)
{
    const struct hr__source_item *item = &s->items[i];
    const struct hr__source_dir *dir = &s->dirs[item->dir];
    const char *parts[] = {dir->path + dir->rel, item->name,
                           s->labels[label_of(s, i)].text};

    for (size_t k = 0; k < sizeof(parts) / sizeof(*parts); k++) {
        // (Queries are passwords of a day.)
        bool cut = dir->web && k == 1;

        XXH3_64bits_update(state, parts[k],
                           cut ? hr__http_path_end(parts[k])
                               : strlen(parts[k]));
        XXH3_64bits_update(state, "", 1);
    }
}

static uint64_t digest(const struct hr__source *s)
{
    XXH3_state_t state;

    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, &s->pub.num, sizeof(s->pub.num));
    if (s->calls.read)
        XXH3_64bits_update(&state, &s->calls.identity,
                           sizeof(s->calls.identity));
    for (uint64_t i = 0; i < s->num; i++)
        digest_item(&state, s, i);
    return XXH3_64bits_digest(&state);
}

uint64_t hr_source_identity(hr_source source)
{
    struct hr__source *s = hr__source_of(source);

    if (!s)
        return 0;
    pthread_mutex_lock(&s->lock);
    if (!s->has_identity)
        s->identity = digest(s);
    s->has_identity = true;
    pthread_mutex_unlock(&s->lock);
    return s->identity;
}
