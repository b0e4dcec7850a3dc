// SPDX-License-Identifier: Apache-2.0
// Header and index of a pack file, which may hold any bytes: what passes here a
// reader cannot go astray in.
#include <string.h>

#include "format.h"

static enum hr_status bad(struct pack_view *view, enum hr_status status,
                          uint64_t at, const char *why)
{
    view->fault_at = at;
    view->why = why;
    return status;
}

static enum hr_status check_header(struct pack_view *view)
{
    const struct pack_header *h = (const void *)view->map;
    size_t magic = view->size < 8 ? (size_t)view->size : 8;

    if (!magic || memcmp(h->magic, PACK_MAGIC, magic) != 0)
        return bad(view, HR_EFORMAT, 0,
                   "not a pack file: headrace pack makes one");
    if (view->size < sizeof(*h))
        return bad(view, HR_ETRUNCATED, view->size, "it ends in its header");
    // Another version may have another header.
    if (le32toh(h->version) != PACK_VERSION &&
        le32toh(h->version) != PACK_VERSION_CLASSES)
        return bad(view, HR_EUNSUPPORTED, 8,
                   "of a version that this library does not read");
    if (le64toh(h->sum) != pack_header_sum(h))
        return bad(view, HR_ECORRUPT, 56, "the header's checksum is wrong");
    if (!h->bytes)
        return bad(view, HR_ETRUNCATED, 24, "it was never finished");
    if (le64toh(h->bytes) > view->size)
        return bad(view, HR_ETRUNCATED, view->size, "it ends too early");
    if (le64toh(h->bytes) < view->size)
        return bad(view, HR_ECORRUPT, le64toh(h->bytes),
                   "there is something behind its end");
    if (le32toh(h->version) == PACK_VERSION
            ? h->fixed || h->classes
            : le32toh(h->fixed) > PACK_FIXED || !h->classes)
        return bad(view, HR_ECORRUPT, 12,
                   "reserved bits of the header are set");
    return HR_OK;
}

static enum hr_status find_index(struct pack_view *view)
{
    const struct pack_header *h = (const void *)view->map;
    struct pack_parts parts;

    view->num = le64toh(h->num);
    view->index_at = le64toh(h->index);
    view->index_sum = le64toh(h->index_sum);
    if (view->index_at % 64 || view->index_at < sizeof(*h) ||
        view->index_at > view->size)
        return bad(view, HR_ECORRUPT, 32, "the index is not in it");
    view->index_size = view->size - view->index_at;
    view->num_classes = le64toh(h->classes);
    view->looked = view->text_at = 0;
    view->record_at = sizeof(*h);
    if (!pack_parts(&parts, view->num) || parts.texts > view->index_size)
        return bad(view, HR_ECORRUPT, 16,
                   "it names more pictures than its index has room for");
    view->text_size = view->index_size - parts.texts;
    return HR_OK;
}

// Finds the parts of the index, and checks them against its checksum.
static enum hr_status check_index(struct pack_view *view, const uint8_t *index)
{
    struct pack_parts parts;

    if (view->index_sum != pack_sum(index, (size_t)view->index_size))
        return bad(view, HR_ECORRUPT, 40, "the index's checksum is wrong");
    pack_parts(&parts, view->num);
    view->entries = (const void *)index;
    view->order = (const void *)(index + parts.order);
    view->texts = (const char *)index + parts.texts;
    return HR_OK;
}

static const char *check_texts(const struct pack_view *view,
                               const struct pack_index *e)
{
    uint64_t names = le32toh(e->name_size), labels = le32toh(e->label_size);
    const char *name = view->texts + le64toh(e->name);

    if (!pack_is_name(name, (size_t)names) || name[names])
        return "the name is not a relative path";
    if (!pack_is_label(name + names + 1, (size_t)labels) ||
        name[names + 1 + labels])
        return "the label is not a text";
    return NULL;
}

// The picture whose record begins at record, and its texts at text.
static const char *check_numbers(const struct pack_view *view,
                                 const struct pack_index *e, uint64_t record,
                                 uint64_t text)
{
    uint64_t offset = le64toh(e->offset), size = le64toh(e->size);
    uint64_t names = le32toh(e->name_size), labels = le32toh(e->label_size);

    if (le64toh(e->name) != text || names > PACK_TEXT_MAX ||
        labels > PACK_TEXT_MAX || names + labels + 2 > view->text_size - text)
        return "the name is not in the index";
    // There is one place only where they can be, so none lie in others'.
    if (offset !=
            PACK_ROUND(record + sizeof(struct pack_record) + names + labels) ||
        offset > view->index_at || size > view->index_at - offset)
        return "the data are not where they belong";
    if (le32toh(e->flags) & ~(uint32_t)PACK_PACKED || e->zeros[0] ||
        e->zeros[1] || e->zeros[2])
        return "reserved bits are set";
    return NULL;
}

// Checks entries up to number end.
static enum hr_status look_at(struct pack_view *view,
                              const struct pack_index *entries, uint64_t end)
{
    for (; view->looked < end && view->looked < view->num; view->looked++) {
        const struct pack_index *e = &entries[view->looked];
        const char *why = check_numbers(view, e, view->record_at,
                                        view->text_at);

        if (why)
            return bad(view, HR_ECORRUPT,
                       view->index_at + view->looked * sizeof(*e), why);
        view->record_at = PACK_ROUND(le64toh(e->offset) + le64toh(e->size));
        view->text_at += le32toh(e->name_size) + le32toh(e->label_size) +
                         UINT64_C(2);
        view->packed += le32toh(e->flags) & PACK_PACKED;
        view->data_bytes += le64toh(e->size);
        view->source_bytes += le64toh(e->source);
    }
    return HR_OK;
}

static enum hr_status check_entries(struct pack_view *view)
{
    enum hr_status status = look_at(view, view->entries, view->num);

    for (uint64_t i = 0; i < view->num && !status; i++) {
        const char *why = check_texts(view, &view->entries[i]);

        if (why)
            status = bad(view, HR_ECORRUPT,
                         view->index_at + i * sizeof(*view->entries), why);
    }
    if (status)
        return status;
    if (view->record_at != view->index_at)
        return bad(view, HR_ECORRUPT, 32, "the index is not where it belongs");
    return HR_OK;
}

static const char *check_class(const struct pack_view *view, uint64_t at)
{
    uint64_t left = view->text_size - at;
    const char *label = view->texts + at;
    size_t most = left < PACK_TEXT_MAX + 1 ? (size_t)left : PACK_TEXT_MAX + 1;

    return !most || !memchr(label, 0, most) ? "a class's label is no text"
           : *label                         ? NULL
                                            : "a class has no label";
}

// Checks the classes behind the pictures' texts; then the index ends.
static enum hr_status check_classes(struct pack_view *view)
{
    uint64_t at = view->text_at, left;
    const char *why = NULL;

    for (; view->num_classes && at % 8 && at < view->text_size && !why; at++)
        if (view->texts[at])
            why = "reserved bits are set";
    left = view->text_size - at;
    if (!why && view->num_classes > left / (sizeof(*view->numbers) + 2))
        why = "it names more classes than its index has room for";
    if (!why) {
        view->numbers = (const void *)(view->texts + at);
        at += view->num_classes * sizeof(*view->numbers);
        view->class_texts = view->texts + at;
    }
    for (uint64_t i = 0; i < view->num_classes && !why; i++)
        if (!(why = check_class(view, at)))
            at += strlen(view->texts + at) + 1;
    if (!why && at != view->text_size)
        why = "the index has texts that no entry or class uses";
    at = view->index_at +
         (uint64_t)(view->texts - (const char *)view->entries) + at;
    return why ? bad(view, HR_ECORRUPT, at, why) : HR_OK;
}

static enum hr_status check_order(struct pack_view *view)
{
    uint64_t at = view->index_at + view->num * sizeof(struct pack_index);
    const char *before = NULL;

    for (uint64_t i = 0; i < view->num; i++, at += sizeof(uint32_t)) {
        uint32_t number = le32toh(view->order[i]);
        const char *name;

        if (number >= view->num)
            return bad(view, HR_ECORRUPT, at, "the order names no picture");
        name = view->texts + le64toh(view->entries[number].name);
        if (before && strcmp(before, name) >= 0)
            return bad(view, HR_ECORRUPT, at,
                       "the order of the names is wrong");
        before = name;
    }
    if (view->num % 2 && view->order[view->num])
        return bad(view, HR_ECORRUPT, at, "reserved bits are set");
    return HR_OK;
}

enum hr_status pack_view_head(struct pack_view *view, const void *head,
                              uint64_t size)
{
    enum hr_status status;

    *view = (struct pack_view){.map = head, .size = size};
    return (status = check_header(view)) ? status : find_index(view);
}

enum hr_status pack_view_part(struct pack_view *view, const void *index,
                              uint64_t size)
{
    return look_at(view, index, size / sizeof(struct pack_index));
}

enum hr_status pack_view_index(struct pack_view *view, const void *index)
{
    enum hr_status status;

    if ((status = check_index(view, index)) || (status = check_entries(view)) ||
        (status = check_classes(view)))
        return status;
    return check_order(view);
}

void pack_view_classes(const struct pack_view *view,
                       struct hr_pack_class *classes)
{
    const char *at = view->class_texts;

    for (uint64_t i = 0; i < view->num_classes; i++, at += strlen(at) + 1)
        classes[i] = (struct hr_pack_class){
            at, (int64_t)le64toh((uint64_t)view->numbers[i])};
}

enum hr_status pack_view_open(struct pack_view *view, const void *map,
                              uint64_t size)
{
    enum hr_status status = pack_view_head(view, map, size);

    return status ? status : pack_view_index(view, view->map + view->index_at);
}
