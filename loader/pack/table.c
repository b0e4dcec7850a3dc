// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE  // qsort_r
#include <stdlib.h>
#include <string.h>

#include "hal/engine/base.h"
#include "writer.h"

static const char *name_of(const struct pack_table *t, size_t i)
{
    return t->texts + le64toh(t->entries[i].name);
}

// Room for size bytes at *block, of which used are kept.
static bool grow(void **block, size_t used, size_t size)
{
    void *more = hr__alloc(NULL, size);

    if (!more)
        return false;
    if (used)
        memcpy(more, *block, used);
    hr__free(*block);
    *block = more;
    return true;
}

// ---- Names -----------------------------------------------------------------

// The slot of that name, or the free one where it belongs.
static uint32_t *slot_of(const struct pack_table *t, const char *name,
                         size_t size)
{
    size_t at = (size_t)pack_sum(name, size);

    for (;; at++) {
        uint32_t *slot = &t->slots[at & (t->num_slots - 1)];

        if (!*slot || !strcmp(name_of(t, *slot - 1), name))
            return slot;
    }
}

static void fill_slots(struct pack_table *t)
{
    memset(t->slots, 0, t->num_slots * sizeof(*t->slots));
    for (size_t i = 0; i < t->num; i++) {
        const char *name = name_of(t, i);

        *slot_of(t, name, strlen(name)) = (uint32_t)i + 1;
    }
}

static bool room_for_slot(struct pack_table *t)
{
    size_t more = t->num_slots ? 2 * t->num_slots : 128;
    void *slots = t->slots;

    if (2 * (t->num + 1) <= t->num_slots)
        return true;
    if (!grow(&slots, 0, more * sizeof(*t->slots)))
        return false;
    t->slots = slots;
    t->num_slots = more;
    fill_slots(t);
    return true;
}

// ---- Pictures --------------------------------------------------------------

static bool room_for_entry(struct pack_table *t, size_t texts)
{
    void *entries = t->entries, *text = t->texts;
    size_t more;

    if (t->num == t->capacity) {
        more = t->capacity ? 2 * t->capacity : 64;
        if (!grow(&entries, t->num * sizeof(*t->entries),
                  more * sizeof(*t->entries)))
            return false;
        t->entries = entries;
        t->capacity = more;
    }
    if (t->text_size + texts > t->text_capacity) {
        more = 2 * t->text_capacity + texts + 4096;
        if (!grow(&text, t->text_size, more))
            return false;
        t->texts = text;
        t->text_capacity = more;
    }
    return room_for_slot(t);
}

static char *put_text(char *to, const char *text, size_t size)
{
    memcpy(to, text, size);
    to[size] = '\0';
    return to + size + 1;
}

enum hr_status pack_table_add(struct pack_table *t,
                              const struct pack_record *record,
                              uint64_t record_at, const char *name,
                              const char *label)
{
    size_t names = le32toh(record->name_size);
    size_t labels = le32toh(record->label_size), texts = names + labels + 2;
    uint32_t *slot;

    if (t->num >= UINT32_MAX - 1)
        return HR_ELIMIT;
    if (!room_for_entry(t, texts))
        return HR_ENOMEM;
    // First its name, which slot_of() compares.
    put_text(put_text(t->texts + t->text_size, name, names), label, labels);
    slot = slot_of(t, t->texts + t->text_size, names);
    if (*slot)
        return HR_EINVAL;
    t->entries[t->num] = (struct pack_index){
        .offset = htole64(
            PACK_ROUND(record_at + sizeof(*record) + names + labels)),
        .size = record->size,
        .source = record->source,
        .data_sum = record->data_sum,
        .name = htole64(t->text_size),
        .name_size = record->name_size,
        .label_size = record->label_size,
        .flags = record->flags,
    };
    t->text_size += texts;
    *slot = (uint32_t)++t->num;
    return HR_OK;
}

void pack_table_cut(struct pack_table *t, size_t num)
{
    if (num < t->num)
        t->text_size = (size_t)le64toh(t->entries[num].name);
    t->num = num;
    if (t->num_slots)
        fill_slots(t);
}

// ---- The index -------------------------------------------------------------

static int compare(const void *a, const void *b, void *context)
{
    const struct pack_table *t = context;

    return strcmp(name_of(t, *(const uint32_t *)a),
                  name_of(t, *(const uint32_t *)b));
}

void *pack_table_index(const struct pack_table *t,
                       const struct pack_classes *classes,
                       struct pack_parts *parts, uint64_t *size)
{
    uint64_t classes_at;
    uint32_t *order;
    uint8_t *index;

    if (!pack_parts(parts, t->num))
        return NULL;
    classes_at = (parts->texts + t->text_size + 7) & ~UINT64_C(7);
    *size = classes->num ? classes_at + classes->size
                         : parts->texts + t->text_size;
    if (*size > SIZE_MAX || !(index = hr__alloc(NULL, (size_t)*size + 1)))
        return NULL;
    memset(index, 0, (size_t)*size);
    if (classes->num)
        memcpy(index + classes_at, classes->data, classes->size);
    order = (uint32_t *)(void *)(index + parts->order);
    for (uint32_t i = 0; i < t->num; i++)
        order[i] = i;
    if (t->num) {
        qsort_r(order, t->num, sizeof(*order), compare, (void *)(uintptr_t)t);
        memcpy(index, t->entries, t->num * sizeof(*t->entries));
        memcpy(index + parts->texts, t->texts, t->text_size);
    }
    for (uint32_t i = 0; i < t->num; i++)
        order[i] = htole32(order[i]);
    return index;
}

void pack_table_finish(struct pack_table *t)
{
    hr__free(t->entries);
    hr__free(t->texts);
    hr__free(t->slots);
    *t = (struct pack_table){0};
}
