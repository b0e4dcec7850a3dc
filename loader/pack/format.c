// SPDX-License-Identifier: Apache-2.0
// The format of a pack file: checksums, headers and names, for reader and
// writer.
#define XXH_INLINE_ALL
#include "format.h"

#include <assert.h>
#include <string.h>

#include <xxhash.h>

static_assert(sizeof(struct pack_header) == 64 &&
                  sizeof(struct pack_record) == 64 &&
                  sizeof(struct pack_index) == 64,
              "as the bytes lie");

uint64_t pack_sum(const void *data, size_t size)
{
    return XXH3_64bits(data, size);
}

uint64_t pack_header_sum(const struct pack_header *header)
{
    return pack_sum(header, offsetof(struct pack_header, sum));
}

void pack_header_init(struct pack_header *header)
{
    *header = (struct pack_header){.version = htole32(PACK_VERSION)};
    memcpy(header->magic, PACK_MAGIC, sizeof(header->magic));
    header->sum = htole64(pack_header_sum(header));
}

uint64_t pack_record_sum(const struct pack_record *record, const char *name,
                         const char *label)
{
    XXH3_state_t state;

    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, record, offsetof(struct pack_record, sum));
    XXH3_64bits_update(&state, name, le32toh(record->name_size));
    XXH3_64bits_update(&state, label, le32toh(record->label_size));
    return XXH3_64bits_digest(&state);
}

// Says whether a program that makes files of these names stays in its folder.
bool pack_is_name(const char *name, size_t size)
{
    const char *end = name + size;

    if (!size || size > PACK_TEXT_MAX || memchr(name, 0, size))
        return false;
    while (name <= end) {
        const char *slash = memchr(name, '/', (size_t)(end - name));
        size_t part = (size_t)((slash ? slash : end) - name);

        if (!part || (part <= 2 && !memcmp(name, "..", part)))
            return false;
        name += part + 1;
    }
    return true;
}

bool pack_is_label(const char *label, size_t size)
{
    return size <= PACK_TEXT_MAX && !memchr(label, 0, size);
}

struct hr_pack_entry pack_entry(const struct pack_index *entry,
                                const char *texts, const uint8_t *map)
{
    const char *name = texts + le64toh(entry->name);

    return (struct hr_pack_entry){
        .name = name,
        .label = name + le32toh(entry->name_size) + 1,
        .data = map ? map + le64toh(entry->offset) : NULL,
        .size = (size_t)le64toh(entry->size),
        .source = le64toh(entry->source),
        .packed = le32toh(entry->flags) & PACK_PACKED,
    };
}

const char *pack_short(const char *path)
{
    size_t length = strlen(path);

    return length > 120 ? path + length - 120 : path;
}

bool pack_parts(struct pack_parts *parts, uint64_t num)
{
    if (num > UINT32_MAX)
        return false;
    parts->order = num * sizeof(struct pack_index);
    parts->texts = (parts->order + num * sizeof(uint32_t) + 7) & ~UINT64_C(7);
    return true;
}
