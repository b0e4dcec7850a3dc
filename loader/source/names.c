// SPDX-License-Identifier: Apache-2.0
// Names of samples and classes.
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "hal/engine/base.h"
#include "source.h"

// Prints "DIR/NAME"; a folder that is "" or ends in a slash needs none, nor
// does a name that is "".
static const char *print_path(char *buffer, size_t size, const char *dir,
                              const char *name)
{
    size_t length = strlen(dir);
    const char *slash = *name && length && dir[length - 1] != '/' ? "/" : "";
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

// Prints a path from rel on. A URL's query is in no name or message: it may be
// a password, and may have slashes.
static const char *print_from(const struct hr__source *s,
                              const struct hr__source_item *item, uint32_t rel,
                              char *buffer, size_t size)
{
    const struct hr__source_dir *dir = &s->dirs[item->dir];
    char number[HR__NUMBER_TEXT];

    if (!print_path(buffer, size, dir->path + rel,
                    hr__source_item_name(s, item, number)))
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

    return number ? number : print_from(s, &s->items[i], 0, buffer, size);
}

const char *hr_source_name(hr_source source, uint64_t i, char *buffer,
                           size_t size)
{
    const struct hr__source *s = hr__source_of(source);
    const char *number = print_number(s, i, buffer, size);

    return number ? number
                  : print_from(s, &s->items[i], s->dirs[s->items[i].dir].rel,
                               buffer, size);
}

struct hr_source_item hr_source_item(hr_source source, uint64_t i)
{
    const struct hr__source *s = hr__source_of(source);
    struct hr_source_item item = {.label = ""};
    const struct hr__source_dir *dir;

    if (!s || i >= s->num)  // of a callback, too
        return item;
    dir = &s->dirs[s->items[i].dir];
    item.label = hr__source_label_of(s, &s->items[i])->text;
    item.is_file = !dir->pack && !dir->shard && !dir->web;
    item.pack = dir->pack ? s->packs[dir->pack - 1] : NULL;
    item.number = item.pack ? s->items[i].number : 0;
    return item;
}

// ---- What was skipped ------------------------------------------------------

const char *hr_source_skipped(hr_source source, size_t i, char *buffer,
                              size_t size, enum hr_skip *why)
{
    const struct hr__source *s = hr__source_of(source);

    if (!s || i >= s->pub.skipped)
        return NULL;
    *why = (enum hr_skip)s->skipped[i].number;
    return print_from(s, &s->skipped[i], 0, buffer, size);
}

// ---- Order -----------------------------------------------------------------

// The character at *at, which moves behind it.
static uint32_t next_char(const unsigned char **at)
{
    const unsigned char *p = *at;
    unsigned c = *p, more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1, i = 1;
    uint32_t value = c & (0x3fu >> more);

    (*at)++;
    if (c < 0x80)
        return c;
    if (c < 0xc2 || c > 0xf4)
        return 0xdc00 + c;
    for (; i <= more && (p[i] & 0xc0) == 0x80; i++)
        value = value << 6 | (p[i] & 0x3f);
    // Cut short, longer than it need be, half of a pair, or too large.
    if (i <= more || (more == 2 && value < 0x800) || value >> 11 == 0x1b ||
        (more == 3 && value < 0x10000) || value > 0x10ffff)
        return 0xdc00 + c;
    *at += more;
    return value;
}

int hr__source_order(const char *a, const char *b)
{
    const unsigned char *pa = (const void *)a, *pb = (const void *)b;
    uint32_t ca, cb;
    size_t i = 0;

    while (pa[i] == pb[i] && pa[i])
        i++;
    if (pa[i] < 0x80 && pb[i] < 0x80)
        return pa[i] - pb[i];
    // Back to where a character begins.
    while (i && (pa[i - 1] & 0xc0) == 0x80)
        i--;
    i -= i && pa[i - 1] >= 0xc0;
    pa += i;
    pb += i;
    do {
        ca = next_char(&pa);
        cb = next_char(&pb);
    } while (ca == cb && ca);
    return ca < cb ? -1 : ca > cb;
}

// ---- Labels and classes ----------------------------------------------------

static int compare_labels(const void *a, const void *b)
{
    const struct hr__source_label *const *la = a, *const *lb = b;

    return hr__source_order((*la)->text, (*lb)->text);
}

// Numbers are meant as they are, as WebDataset, MXNet and others do. A word has
// no place among them.
static void take_number(struct hr__source *s, struct hr__source_label *label)
{
    const struct hr__source_class *named = hr__source_named(s, label);
    bool fixed = named && named->fixed;

    label->has_class = fixed || (label->is_used && label->is_number);
    if (label->has_class)
        label->number = fixed ? named->number : label->whole;
}

// Numbers the labels by their sorted places, as ImageFolder does, also labels
// without samples.
static void take_places(struct hr__source_label **labels, size_t num)
{
    int64_t number = -1;

    if (num)
        qsort(labels, num, sizeof(*labels), compare_labels);
    for (size_t i = 0; i < num; i++) {
        number += !i || strcmp(labels[i - 1]->text, labels[i]->text);
        labels[i]->has_class = true;
        labels[i]->number = number;
    }
}

static bool list_classes(struct hr__source *s)
{
    const char **was = s->classes;
    size_t size = 0;

    s->classes = NULL;  // (first: a child of fork() may begin here)
    hr__free(was);
    for (size_t i = 0; i < s->num_labels; i++)
        if (s->labels[i].has_class && s->labels[i].number >= (int64_t)size &&
            s->labels[i].number < HR__SOURCE_NUMBERS)
            size = (size_t)s->labels[i].number + 1;
    s->num_classes = size;
    s->classes = hr__alloc(NULL, (size + 1) * sizeof(*s->classes));
    for (size_t i = 0; s->classes && i < size; i++)
        s->classes[i] = "";
    for (size_t i = 0; s->classes && i < s->num_labels; i++) {
        const struct hr__source_label *label = &s->labels[i];
        const char **at;

        if (!label->has_class || label->number < 0 ||
            label->number >= (int64_t)size)
            continue;
        at = s->classes + label->number;
        if (!**at || hr__source_order(label->text, *at) < 0)
            *at = label->text;
    }
    return s->classes || hr__source_fail(HR_ENOMEM, "out of memory");
}

// The lock is held.
static bool number_labels(struct hr__source *s)
{
    struct hr__source_label **labels = hr__alloc(NULL, (s->num_labels + 1) *
                                                           sizeof(*labels));
    size_t num = 0;
    bool ok = labels != NULL;

    for (size_t i = 1; i < s->num_labels; i++) {
        struct hr__source_label *label = &s->labels[i];

        label->has_class = false;
        label->number = -1;
        if (s->numbers)
            take_number(s, label);
        else if (ok && (label->is_used || hr__source_named(s, label)))
            labels[num++] = label;
    }
    if (ok)
        take_places(labels, num);
    hr__free(labels);
    return ok ? list_classes(s) : hr__source_fail(HR_ENOMEM, "out of memory");
}

enum { REMAKING = -1 };

// Locks; after a fork() the lock is made anew, as a thread that is not here may
// hold it.
static void lock(struct hr__source *s)
{
    unsigned now = hr__forks(), was = atomic_load(&s->forks);

    if (was != now && was != (unsigned)REMAKING &&
        atomic_compare_exchange_strong(&s->forks, &was, (unsigned)REMAKING)) {
        pthread_mutex_init(&s->lock, NULL);
        atomic_store(&s->forks, now);
    }
    while (atomic_load(&s->forks) != now)
        sched_yield();
    pthread_mutex_lock(&s->lock);
}

// (Asked for each sample: without the lock, once they are there.)
bool hr__source_find_classes(struct hr__source *s)
{
    bool ok = atomic_load(&s->has_classes);

    if (ok)
        return true;
    lock(s);
    if (!(ok = atomic_load(&s->has_classes)) && (ok = number_labels(s)))
        atomic_store(&s->has_classes, true);
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
    return hr__source_find_classes(s)
               ? hr__source_label_of(s, &s->items[i])->number
               : -1;
}

// ---- Identity --------------------------------------------------------------

// Digests the parts of a name, without putting it together.
static void digest_item(XXH3_state_t *state, const struct hr__source *s,
                        uint64_t i)
{
    const struct hr__source_item *item = &s->items[i];
    const struct hr__source_dir *dir = &s->dirs[item->dir];
    char number[HR__NUMBER_TEXT];
    const char *parts[] = {dir->path + dir->rel,
                           hr__source_item_name(s, item, number),
                           hr__source_label_of(s, item)->text};

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
    if (atomic_load(&s->has_identity))
        return s->identity;
    lock(s);
    if (!atomic_load(&s->has_identity)) {
        s->identity = digest(s);
        atomic_store(&s->has_identity, true);
    }
    pthread_mutex_unlock(&s->lock);
    return s->identity;
}
