// SPDX-License-Identifier: Apache-2.0
// RecordIO files of MXNet (.rec), as its im2rec writes them. An .idx file
// beside one is not needed: records are found one behind the other, by their
// headers.
//
//   record   u32  0xced7230a
//            u32  kind << 29 | bytes: 0 whole, 1 first, 2 middle, 3 last part
//                 the bytes, zeros up to a multiple of 4
//
// All little endian. A picture's bytes may hold the first word where a record
// could begin; there it is cut into parts, and the word itself is left out.
// Whole records begin with: u32 more, f32 label, u64 id, u64 id2; then `more`
// floats, of which the first is the label; then the picture. Data sets of faces
// have records with two floats and no picture, which say which records are of a
// person: those are no samples.
//
// (dmlc-core include/dmlc/recordio.h; mxnet src/io/image_recordio.h.)
#include <endian.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hal/engine/base.h"
#include "source.h"

enum { HEAD = 8, IMAGE_HEAD = 24, WORD = 4, INDEX_LABELS = 2 };

#define MAGIC UINT32_C(0xced7230a)

enum { WHOLE, FIRST, MIDDLE, LAST };

static uint64_t padded(uint64_t size)
{
    return (size + WORD - 1) / WORD * WORD;
}

// The header at offset. NULL, or what is wrong.
static const char *read_head(const struct hr__shard *shard, uint64_t offset,
                             unsigned char head[HEAD + IMAGE_HEAD + WORD],
                             int *kind, uint64_t *bytes)
{
    uint64_t left = shard->size - offset;
    size_t size = left < HEAD + IMAGE_HEAD + WORD ? (size_t)left
                                                  : HEAD + IMAGE_HEAD + WORD;

    memset(head, 0, HEAD + IMAGE_HEAD + WORD);
    if (size < HEAD)
        return "the file ends in a record's header";
    if (hr__shard_read(shard, head, size, offset))
        return "it cannot be read";
    if (hr__word_at(head) != MAGIC)
        return "no record begins here";
    *kind = (int)(hr__word_at(head + 4) >> 29);
    *bytes = hr__word_at(head + 4) & ((UINT32_C(1) << 29) - 1);
    if (*bytes > left - HEAD)
        return "the record is longer than the file";
    return *kind > LAST ? "the record is of no known kind" : NULL;
}

// A record, of all its parts.
struct record {
    unsigned char image[IMAGE_HEAD + WORD];  // how its bytes begin; then zeros
    uint64_t bytes;                          // with the words left out
    uint64_t end;                            // of the last part, in the file
    bool parts;
};

static void append(struct record *r, const void *data, uint64_t bytes)
{
    if (r->bytes < sizeof(r->image)) {
        size_t left = sizeof(r->image) - (size_t)r->bytes;

        memcpy(r->image + r->bytes, data, bytes < left ? (size_t)bytes : left);
    }
    r->bytes += bytes;
}

// The record at offset. NULL, or what is wrong.
static const char *read_record(const struct hr__shard *shard, uint64_t offset,
                               struct record *r)
{
    const uint32_t magic = htole32(MAGIC);

    *r = (struct record){0};
    for (int kind = MIDDLE; kind == MIDDLE || kind == FIRST;) {
        unsigned char head[HEAD + IMAGE_HEAD + WORD];
        const char *why;
        uint64_t bytes;

        if (offset >= shard->size)
            return "the file ends in a record";
        if ((why = read_head(shard, offset, head, &kind, &bytes)))
            return why;
        if ((kind == WHOLE || kind == FIRST) == r->parts)
            return "the parts of a record are out of order";
        if (r->parts)
            append(r, &magic, sizeof(magic));
        append(r, head + HEAD, bytes);
        r->parts = kind != WHOLE;
        r->end = offset + HEAD + bytes;
        offset += HEAD + padded(bytes);
    }
    return NULL;
}

// Digits that tell it from all others: of a number of a class all, of others as
// few as will do.
void hr__print_label(char *text, size_t size, float value)
{
    int digits = value == truncf(value) ? 9 : 6;

    do
        snprintf(text, size, "%.*g", digits, (double)value);
    while (digits++ < 9 && strtof(text, NULL) != value);
}

// A record without a picture.
static bool put_nothing(struct hr__source *s, struct hr__shard *shard,
                        uint64_t more, uint64_t offset)
{
    char name[32];

    snprintf(name, sizeof(name), "offset %llu", (unsigned long long)offset);
    return more == INDEX_LABELS ||
           hr__shard_skip(s, shard, name, HR_SKIP_NO_PICTURE);
}

// The sample of a record; its label and name.
static bool put(struct hr__source *s, struct hr__shard *shard,
                const struct record *r, uint64_t offset)
{
    uint64_t more = hr__word_at(r->image), skip = IMAGE_HEAD + more * WORD;
    struct hr__range range = {.offset = offset,
                              .size = r->end - offset,
                              .wrapped = r->parts};
    char label[32];

    if (r->bytes < skip) {
        hr__shard_fault(s, shard, offset, NULL,
                        "the record has no picture's header");
        return true;
    }
    if (r->bytes == skip)
        return put_nothing(s, shard, more, offset);
    if (!r->parts) {
        range.offset += HEAD + skip;
        range.size -= HEAD + skip;
    }
    hr__print_label(label, sizeof(label),
                    hr__float_at(r->image + (more ? IMAGE_HEAD : WORD)));
    return hr__shard_put(s, shard, NULL, label, range);
}

static bool read_records(struct hr__source *s, struct hr__shard *shard)
{
    const char *why = NULL;
    uint64_t offset = 0;
    struct record r;

    for (; offset < shard->size; offset = padded(r.end)) {
        if ((why = read_record(shard, offset, &r)))
            break;
        if (!put(s, shard, &r, offset))
            return false;
    }
    if (why && !offset)
        return hr__source_fail(HR_EFORMAT, "%s: not a RecordIO file: %s",
                               hr__source_short(shard->path), why);
    if (why)
        hr__shard_fault(s, shard, offset, NULL, why);
    return true;
}

// Moves the parts together, in place. They were found whole when the file was
// opened; should they have changed, what is there is short, and no picture.
static size_t join(unsigned char *at, size_t size)
{
    size_t from = 0, to = 0;

    while (size - from >= HEAD) {
        uint32_t word = hr__word_at(at + from + 4);
        size_t bytes = word & ((UINT32_C(1) << 29) - 1);

        if (hr__word_at(at + from) != MAGIC || bytes > size - from - HEAD)
            break;
        if (to) {
            uint32_t magic = htole32(MAGIC);

            memcpy(at + to, &magic, sizeof(magic));
            to += WORD;
        }
        memmove(at + to, at + from + HEAD, bytes);
        to += bytes;
        from += HEAD + (size_t)padded(bytes);
        if (from > size)
            break;
    }
    return to;
}

static const char *unwrap(const struct hr__range *range, unsigned char **at,
                          size_t *size)
{
    size_t bytes = join(*at, *size), skip = IMAGE_HEAD;

    (void)range;
    if (bytes >= IMAGE_HEAD)
        skip += (size_t)hr__word_at(*at) * WORD;
    *size = skip < bytes ? bytes - skip : 0;
    *at += skip < bytes ? skip : 0;
    return NULL;
}

static bool add_records(struct hr__source *s, const char *path)
{
    struct hr__shard *shard = hr__shard_open(s, path);

    if (shard)
        shard->unwrap = unwrap;
    return shard && hr__shard_opened(shard, read_records(s, shard));
}

const struct hr__container hr__container_records = {
    .endings = ".rec",
    .add = add_records,
};
