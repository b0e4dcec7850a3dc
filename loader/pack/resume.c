// SPDX-License-Identifier: Apache-2.0
// Reads the pictures that an earlier writer has left, record by record, up to
// the first that is not whole.
#define XXH_INLINE_ALL
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "hal/engine/base.h"
#include "writer.h"

enum { BLOCK = 256 * 1024 };

struct scan {
    struct pack_writer *w;
    uint64_t size;          // of the file
    uint8_t *block;         // [BLOCK]
    enum hr_status status;  // what kept it from reading on: nothing is cut off
};

static bool give_up(struct scan *s, enum hr_status status)
{
    s->status = status;
    return false;
}

// Reads size bytes. False: the file ends before, or cannot be read.
static bool read_at(struct scan *s, void *to, size_t size, uint64_t at)
{
    if (at > s->size || size > s->size - at)
        return false;
    return hr__read_at(s->w->fd, to, size, at) == size ||
           give_up(s, errno ? pack_writer_errno(s->w) : HR_OK);
}

static bool sum_is(struct scan *s, uint64_t at, uint64_t size, uint64_t want)
{
    XXH3_state_t state;

    XXH3_64bits_reset(&state);
    while (size) {
        size_t part = size < BLOCK ? (size_t)size : BLOCK;

        if (!read_at(s, s->block, part, at))
            return false;
        XXH3_64bits_update(&state, s->block, part);
        at += part;
        size -= part;
    }
    return XXH3_64bits_digest(&state) == want;
}

// The picture whose record begins where the file of the writer ends so far.
// False: there is none, or not all of it.
static bool take_picture(struct scan *s)
{
    struct pack_writer *w = s->w;
    struct pack_record record;
    char texts[2 * PACK_TEXT_MAX];
    uint64_t at = w->pub.bytes, data, size;
    size_t names, labels;
    enum hr_status status;

    if (!read_at(s, &record, sizeof(record), at) ||
        memcmp(record.magic, PACK_RECORD_MAGIC, 4) != 0 ||
        le64toh(record.number) != w->table.num)
        return false;
    names = le32toh(record.name_size);
    labels = le32toh(record.label_size);
    size = le64toh(record.size);
    if (names > PACK_TEXT_MAX || labels > PACK_TEXT_MAX ||
        !read_at(s, texts, names + labels, at + sizeof(record)) ||
        le64toh(record.sum) != pack_record_sum(&record, texts, texts + names) ||
        !pack_is_name(texts, names) || !pack_is_label(texts + names, labels))
        return false;
    data = PACK_ROUND(at + sizeof(record) + names + labels);
    if (data > s->size || size > s->size - data ||
        !sum_is(s, data, size, le64toh(record.data_sum)))
        return false;
    status = pack_table_add(&w->table, &record, at, texts, texts + names);
    if (status == HR_ENOMEM)
        return give_up(s, hr__fail(HR_ENOMEM, "out of memory"));
    if (status)
        return false;
    w->pub.num = w->table.num;
    w->pub.bytes = PACK_ROUND(data + size);
    return true;
}

// A writer that was killed while it wrote its first bytes has left a part of
// them; one that was killed at the very end, the header of a finished file.
static bool is_ours(struct scan *s)
{
    struct pack_header header, begun;
    size_t size = s->size < 12 ? (size_t)s->size : 12;

    pack_header_init(&begun);
    if (!read_at(s, &header, size, 0))
        return false;
    // (Version 2 has the same records.)
    if (size == 12 && le32toh(header.version) == PACK_VERSION_CLASSES)
        header.version = begun.version;
    return !memcmp(&header, &begun, size);
}

static enum hr_status scan(struct scan *s)
{
    struct pack_writer *w = s->w;
    struct pack_header header;

    if (!is_ours(s))
        return s->status ? s->status
                         : hr__fail(HR_EFORMAT,
                                    "%s: not an unfinished pack file; remove "
                                    "it or choose another name",
                                    pack_short(w->part));
    w->pub.bytes = sizeof(struct pack_header);
    while (take_picture(s))
        ;
    if (s->status)
        return s->status;
    // Cuts off all that is behind it, also the zeros behind the last data.
    if (ftruncate(w->fd, (off_t)(w->pub.num ? w->pub.bytes : 0)) < 0)
        return pack_writer_errno(w);
    pack_header_init(&header);
    return pack_write_all(w, &header, sizeof(header), 0);
}

enum hr_status pack_resume(struct pack_writer *w)
{
    struct scan s = {.w = w, .block = hr__alloc(NULL, BLOCK)};
    enum hr_status status;
    struct stat st;

    if (!s.block)
        return hr__fail(HR_ENOMEM, "out of memory");
    if (fstat(w->fd, &st) < 0) {
        status = pack_writer_errno(w);
    } else {
        s.size = (uint64_t)st.st_size;
        status = scan(&s);
    }
    hr__free(s.block);
    return status;
}
