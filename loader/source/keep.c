// SPDX-License-Identifier: Apache-2.0
// Folders, files and labels, as they are kept.
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "hal/engine/base.h"
#include "source.h"

#define BLOCK_SIZE ((size_t)256 * 1024)

bool hr__source_fail(enum hr_status status, const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    hr__fail(status, "%s", text);
    return false;
}

static bool no_memory(void)
{
    return hr__source_fail(HR_ENOMEM, "out of memory");
}

const char *hr__source_short(const char *path)
{
    size_t length = strlen(path);

    return length > 160 ? path + length - 160 : path;
}

void hr__source_fault(struct hr__source *s, const char *path, int error)
{
    const char *why = strerror(error);
    char text[PATH_MAX + 128];

    snprintf(text, sizeof(text), "%.*s: %s", PATH_MAX, path, why);
    hr__source_fault_text(s, text);
}

void hr__source_fault_text(struct hr__source *s, const char *text)
{
    if (s->pub.num_faults++ >= HR__SOURCE_FAULTS)
        return;
    s->faults[s->pub.num_faults - 1] = hr__source_text(s, text, strlen(text));
    if (!s->faults[s->pub.num_faults - 1])
        s->faults[s->pub.num_faults - 1] = "out of memory";
    s->pub.num_fault_texts = s->pub.num_faults;
}

// ---- Memory ----------------------------------------------------------------

bool hr__source_grow(void *array, size_t *capacity, size_t num, size_t size)
{
    void **at = array, *moved;
    size_t more = *capacity ? *capacity * 2 : 64, bytes;

    if (num < *capacity)
        return true;
    if (!hr__mul(&bytes, more, size) || !(moved = hr__alloc(NULL, bytes)))
        return no_memory();
    if (num)
        memcpy(moved, *at, num * size);
    hr__free(*at);
    *at = moved;
    *capacity = more;
    return true;
}

// Longer texts get a block of their own.
static char *carve(struct hr__source *s, size_t size)
{
    bool large = size > BLOCK_SIZE / 16;
    char *made;

    if (!large && s->num_blocks && BLOCK_SIZE - s->block_used >= size) {
        made = s->blocks[s->block] + s->block_used;
        s->block_used += size;
        return made;
    }
    if (!hr__source_grow(&s->blocks, &s->blocks_capacity, s->num_blocks,
                         sizeof(*s->blocks)) ||
        !(made = hr__alloc(NULL, large ? size : BLOCK_SIZE)))
        return NULL;
    s->blocks[s->num_blocks++] = made;
    if (!large)
        s->block = s->num_blocks - 1;
    if (!large || s->num_blocks == 1)
        s->block_used = large ? BLOCK_SIZE : size;
    return made;
}

const char *hr__source_text(struct hr__source *s, const char *text,
                            size_t length)
{
    char *made = carve(s, length + 1);

    if (!made) {
        no_memory();
        return NULL;
    }
    memcpy(made, text, length);
    made[length] = '\0';
    return made;
}

const char *hr__source_join(struct hr__source *s, const char *dir,
                            const char *name)
{
    size_t length = strlen(dir), size = length + strlen(name) + 2;
    char *made = carve(s, size);

    if (!made)
        no_memory();
    else
        snprintf(made, size, "%s%s%s", dir,
                 length && dir[length - 1] != '/' ? "/" : "", name);
    return made;
}

// Names of items are meant by 32 bits: their block, and a multiple of STEP in
// it.
enum { STEP = 4, NAME_BITS = 16 };
_Static_assert(BLOCK_SIZE / STEP == (size_t)1 << NAME_BITS, "all can be meant");

static bool put_name(struct hr__source *s, const char *name, uint32_t *at)
{
    const char *made;

    s->block_used = (s->block_used + STEP - 1) / STEP * STEP;
    if (!(made = hr__source_text(s, name, strlen(name))))
        return false;
    *at = (uint32_t)(s->block << NAME_BITS |
                     (size_t)(made - s->blocks[s->block]) / STEP) +
          1;
    return s->block < UINT16_MAX || no_memory();
}

const char *hr__source_item_name(const struct hr__source *s,
                                 const struct hr__source_item *item,
                                 char number[HR__NUMBER_TEXT])
{
    uint32_t at = item->name - 1;

    if (item->name)
        return s->blocks[at >> NAME_BITS] +
               (size_t)(at & ((1u << NAME_BITS) - 1)) * STEP;
    snprintf(number, HR__NUMBER_TEXT, "%08u", item->number);
    return number;
}

// ---- What is found again ---------------------------------------------------

typedef bool (*same_fn)(const struct hr__source *s, uint32_t number,
                        const void *key);

static bool find(const struct hr__source *s, const struct hr__source_set *set,
                 uint64_t hash, same_fn same, const void *key, uint32_t *number)
{
    for (size_t i = 0; i < set->capacity; i++) {
        const struct hr__source_key *at =
            &set->keys[(hash + i) & (set->capacity - 1)];

        if (!at->number)
            return false;
        if (at->hash == hash && same(s, at->number - 1, key)) {
            *number = at->number - 1;
            return true;
        }
    }
    return false;
}

static void insert(struct hr__source_set *set, struct hr__source_key key)
{
    size_t i = key.hash & (set->capacity - 1);

    while (set->keys[i].number)
        i = (i + 1) & (set->capacity - 1);
    set->keys[i] = key;
    set->num++;
}

static bool add(struct hr__source_set *set, uint64_t hash, size_t number)
{
    struct hr__source_set more = {.capacity = set->capacity * 2};

    if (2 * set->num >= set->capacity) {
        more.capacity = more.capacity ? more.capacity : 64;
        more.keys = hr__alloc(NULL, more.capacity * sizeof(*more.keys));
        if (!more.keys)
            return no_memory();
        memset(more.keys, 0, more.capacity * sizeof(*more.keys));
        for (size_t i = 0; i < set->capacity; i++)
            if (set->keys[i].number)
                insert(&more, set->keys[i]);
        hr__free(set->keys);
        *set = more;
    }
    insert(set, (struct hr__source_key){hash, (uint32_t)number + 1});
    return true;
}

static uint64_t hash_text(const char *text, uint64_t seed)
{
    return XXH3_64bits_withSeed(text, strlen(text), seed);
}

// ---- Labels ----------------------------------------------------------------

static bool same_label(const struct hr__source *s, uint32_t number,
                       const void *key)
{
    const struct hr__source_label *a = &s->labels[number], *b = key;

    return a->is_name == b->is_name && !strcmp(a->text, b->text);
}

static bool add_label(struct hr__source *s, struct hr__source_label label)
{
    if (s->num_labels >= UINT32_MAX - 1 ||
        !hr__source_grow(&s->labels, &s->labels_capacity, s->num_labels,
                         sizeof(*s->labels)))
        return no_memory();
    s->labels[s->num_labels++] = label;
    return true;
}

bool hr__source_number(const char *text, int64_t *number)
{
    static const char space[] = " \t\r\n\f\v";
    const char *digits = text + strspn(text, space);
    char *end;

    digits += *digits == '-' || *digits == '+';
    if (*digits < '0' || *digits > '9')
        return false;
    errno = 0;
    *number = strtoll(text, &end, 10);
    if (*end == '.')
        end += 1 + strspn(end + 1, "0");
    return !errno && !end[strspn(end, space)];
}

bool hr__source_intern(struct hr__source *s, const char *text, bool is_name,
                       uint32_t *label)
{
    struct hr__source_label made = {.text = text, .is_name = is_name};
    uint64_t hash;

    // The first is no label.
    if (!s->num_labels &&
        !add_label(s, (struct hr__source_label){"", .number = -1}))
        return false;
    *label = 0;
    if (!*text)
        return true;
    hash = hash_text(text, is_name);
    if (find(s, &s->known_labels, hash, same_label, &made, label))
        return true;
    *label = (uint32_t)s->num_labels;
    made.is_number = !is_name && !s->closed &&
                     hr__source_number(text, &made.whole);
    return (made.text = hr__source_text(s, text, strlen(text))) &&
           add_label(s, made) && add(&s->known_labels, hash, *label);
}

bool hr__source_name_class(struct hr__source *s, const char *name,
                           const int64_t *number, uint32_t *label)
{
    struct hr__source_class made = {.fixed = number != NULL}, *before;

    if (!hr__source_intern(s, name, true, label) ||
        !hr__source_grow(&s->named, &s->named_capacity, s->num_named,
                         sizeof(made)))
        return false;
    if (!*label || s->closed)
        return true;
    made.label = *label;
    made.number = number ? *number : 0;
    s->numbers = s->numbers || number;
    if (!(before = hr__source_named(s, &s->labels[*label]))) {
        s->named[s->num_named++] = made;
        s->labels[*label].named = s->num_named;
        return true;
    }
    if (number && before->fixed && before->number != *number)
        return hr__source_fail(HR_EINVAL,
                               "class '%s' is number %lld, and was %lld",
                               hr__source_short(name), (long long)*number,
                               (long long)before->number);
    if (number)
        *before = made;
    return true;
}

// ---- Folders and files -----------------------------------------------------

bool hr__source_put_dir(struct hr__source *s, struct hr__source_dir dir,
                        uint32_t *index)
{
    if (!dir.path || s->num_dirs >= UINT32_MAX - 1 ||
        !hr__source_grow(&s->dirs, &s->dirs_capacity, s->num_dirs, sizeof(dir)))
        return no_memory();
    s->dirs[s->num_dirs] = dir;
    *index = (uint32_t)s->num_dirs++;
    return true;
}

static bool same_dir(const struct hr__source *s, uint32_t number,
                     const void *key)
{
    const struct hr__source_dir *a = &s->dirs[number], *b = key;

    return a->rel == b->rel && a->pack == b->pack && a->shard == b->shard &&
           a->web == b->web && !strcmp(a->path, b->path);
}

bool hr__source_put_dir_once(struct hr__source *s, struct hr__source_dir dir,
                             uint32_t *index)
{
    uint64_t hash;

    hash = hash_text(dir.path, dir.rel);
    if (find(s, &s->known_dirs, hash, same_dir, &dir, index))
        return true;
    dir.path = hr__source_text(s, dir.path, strlen(dir.path));
    return hr__source_put_dir(s, dir, index) &&
           add(&s->known_dirs, hash, *index);
}

bool hr__source_put(struct hr__source *s, uint32_t dir, const char *name,
                    uint32_t label, uint32_t number)
{
    struct hr__source_item item = {.dir = dir,
                                   .label = label,
                                   .number = number};
    const char *folder = s->dirs[dir].path;
    size_t length = name ? strlen(name) : HR__NUMBER_TEXT;

    if (strlen(folder) + length + 2 > PATH_MAX) {
        char path[64 + PATH_MAX];

        snprintf(path, sizeof(path), "%s/%.64s", folder, name ? name : "");
        hr__source_fault(s, path, ENAMETOOLONG);
        return true;
    }
    if ((name && !put_name(s, name, &item.name)) ||
        !hr__source_grow(&s->items, &s->capacity, s->num, sizeof(item)))
        return false;
    s->items[s->num++] = item;
    return true;
}

bool hr__source_skip(struct hr__source *s, uint32_t dir, const char *name,
                     enum hr_skip why)
{
    struct hr__source_item item = {.dir = dir, .number = (uint32_t)why};

    if (!put_name(s, name, &item.name) ||
        !hr__source_grow(&s->skipped, &s->skipped_capacity, s->pub.skipped,
                         sizeof(item)))
        return false;
    s->skipped[s->pub.skipped++] = item;
    return true;
}

static bool same_seen(const struct hr__source *s, uint32_t number,
                      const void *key)
{
    // (Some were taken back.)
    return number < s->num_seen &&
           !memcmp(&s->seen[number], key, sizeof(*s->seen));
}

bool hr__source_is_new(struct hr__source *s, uint64_t dev, uint64_t ino,
                       bool *error)
{
    struct hr__source_seen key = {dev, ino};
    uint64_t hash = XXH3_64bits(&key, sizeof(key));
    uint32_t number;

    *error = false;
    if (find(s, &s->known_seen, hash, same_seen, &key, &number))
        return false;
    *error = !hr__source_grow(&s->seen, &s->seen_capacity, s->num_seen,
                              sizeof(key)) ||
             !add(&s->known_seen, hash, s->num_seen);
    if (!*error)
        s->seen[s->num_seen++] = key;
    return !*error;
}
