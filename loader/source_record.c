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
// floats, of which the first is the label; then the picture.
//
// (dmlc-core include/dmlc/recordio.h; mxnet src/io/image_recordio.h.)
#include <endian.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hal/engine/base.h"
#include "source.h"

enum { HEAD = 8, IMAGE_HEAD = 24, WORD = 4 };

#define MAGIC UINT32_C(0xced7230a)

enum { WHOLE, FIRST, MIDDLE, LAST };

static uint32_t word_at(const unsigned char *p)
{
    uint32_t word;

    memcpy(&word, p, sizeof(word));
    return le32toh(word);
}

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
    if (word_at(head) != MAGIC)
        return "no record begins here";
    *kind = (int)(word_at(head + 4) >> 29);
    *bytes = word_at(head + 4) & ((UINT32_C(1) << 29) - 1);
    if (*bytes > left - HEAD)
        return "the record is longer than the file";
    return *kind > LAST ? "the record is of no known kind" : NULL;
}

// The end of the record whose parts begin at offset; 0: *why it has none.
static uint64_t find_end(const struct hr__shard *shard, uint64_t offset,
                         const char **why)
{
    unsigned char head[HEAD + IMAGE_HEAD + WORD];
    uint64_t bytes;
    int kind;

    for (bool first = true;; first = false) {
        *why = "the file ends in a record";
        if (offset >= shard->size)
            return 0;
        if ((*why = read_head(shard, offset, head, &kind, &bytes)))
            return 0;
        *why = "the parts of a record are out of order";
        if (first ? kind != FIRST : kind != MIDDLE && kind != LAST)
            return 0;
        *why = NULL;
        if (kind == LAST)
            return offset + HEAD + bytes;
        offset += HEAD + padded(bytes);
    }
}

static float float_at(const unsigned char *p)
{
    uint32_t bits = word_at(p);
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

// Digits that tell it from all others: of a number of a class all, of others as
// few as will do.
static void print_label(char *text, size_t size, float value)
{
    int digits = value == truncf(value) ? 9 : 6;

    do
        snprintf(text, size, "%.*g", digits, (double)value);
    while (digits++ < 9 && strtof(text, NULL) != value);
}

// The sample of a record; its label and name.
static bool put(struct hr__source *s, struct hr__shard *shard,
                const unsigned char *head, struct hr__range range,
                uint64_t offset)
{
    const unsigned char *image = head + HEAD;
    uint64_t more = word_at(image);
    char name[32], label[32];

    if (!range.parts) {
        if (range.size < IMAGE_HEAD + more * WORD) {
            hr__shard_fault(s, shard, offset, NULL,
                            "the record has no picture's header");
            return true;
        }
        range.offset += IMAGE_HEAD + more * WORD;
        range.size -= IMAGE_HEAD + more * WORD;
    }
    snprintf(name, sizeof(name), "%08zu", shard->num);
    print_label(label, sizeof(label),
                float_at(image + (more ? IMAGE_HEAD : WORD)));
    return hr__shard_put(s, shard, name, label, range);
}

static bool read_records(struct hr__source *s, struct hr__shard *shard)
{
    const char *why = NULL;
    uint64_t offset = 0, next;

    while (offset < shard->size) {
        unsigned char head[HEAD + IMAGE_HEAD + WORD];
        struct hr__range range = {.offset = offset + HEAD};
        int kind;

        if ((why = read_head(shard, offset, head, &kind, &range.size)))
            break;
        next = offset + HEAD + padded(range.size);
        if (kind != WHOLE) {
            if (!(next = find_end(shard, offset, &why)))
                break;
            range = (struct hr__range){.offset = offset,
                                       .size = next - offset,
                                       .parts = true};
            next = padded(next);
        }
        if (!put(s, shard, head, range, offset))
            return false;
        offset = next;
    }
    if (why && !offset)
        return hr__source_fail(HR_EFORMAT, "%s: not a RecordIO file: %s",
                               hr__source_short(shard->path), why);
    if (why)
        hr__shard_fault(s, shard, offset, NULL, why);
    return true;
}

bool hr__source_records(struct hr__source *s, const char *path)
{
    struct hr__shard *shard = hr__shard_open(s, path);

    return shard && hr__shard_opened(shard, read_records(s, shard));
}

// Moves the parts together, in place. They were found whole when the file was
// opened; should they have changed, what is there is short, and no picture.
size_t hr__record_join(void *memory, size_t size)
{
    unsigned char *at = memory;
    size_t from = 0, to = 0, skip;

    while (size - from >= HEAD) {
        uint32_t word = word_at(at + from + 4);
        size_t bytes = word & ((UINT32_C(1) << 29) - 1);

        if (word_at(at + from) != MAGIC || bytes > size - from - HEAD)
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
    if (to < IMAGE_HEAD)
        return 0;
    skip = IMAGE_HEAD + (size_t)word_at(at) * WORD;
    if (skip > to)
        return 0;
    memmove(at, at + skip, to - skip);
    return to - skip;
}
