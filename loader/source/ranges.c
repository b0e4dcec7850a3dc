// SPDX-License-Identifier: Apache-2.0
// Where the samples of a shard are, in a few bytes each: numbers of seven bits
// a byte, most of them differences. Every so often there is a mark, from which
// on they can be gone through.
#include "hal/engine/base.h"
#include "source.h"

enum { EACH = 16, FIELDS = 5, MOST = (2 + FIELDS) * 10 };
enum { SUMMED = 1, PACKED = 2, WRAPPED = 4 };

static uint8_t *put_number(uint8_t *at, uint64_t number)
{
    for (; number >> 7; number >>= 7)
        *at++ = (uint8_t)(number | 0x80);
    *at++ = (uint8_t)number;
    return at;
}

static const uint8_t *take_number(const uint8_t *at, uint64_t *number)
{
    *number = 0;
    for (int shift = 0;; shift += 7) {
        *number |= (uint64_t)(*at & 0x7f) << shift;
        if (!(*at++ & 0x80))
            return at;
    }
}

// A difference may be negative: its sign is the lowest bit.
static uint64_t folded(uint64_t number)
{
    return number >> 63 ? ~number << 1 | 1 : number << 1;
}

static uint64_t unfolded(uint64_t number)
{
    return number & 1 ? ~(number >> 1) : number >> 1;
}

static bool reserve(struct hr__ranges *r)
{
    while (r->capacity - r->size < MOST)
        if (!hr__source_grow(&r->bytes, &r->capacity, r->capacity, 1))
            return false;
    if (r->num % EACH)
        return true;
    if (!hr__source_grow(&r->marks, &r->marks_capacity, r->num / EACH,
                         sizeof(*r->marks)))
        return false;
    r->marks[r->num / EACH] = (struct hr__range_mark){r->size, r->end};
    return true;
}

bool hr__ranges_put(struct hr__ranges *r, const struct hr__range *range)
{
    uint64_t flags = (range->summed ? SUMMED : 0u) |
                     (range->packed ? PACKED : 0u) |
                     (range->wrapped ? WRAPPED : 0u);
    uint64_t more[FIELDS] = {flags, range->skip, range->size - range->inner,
                             range->source, range->sum};
    uint8_t *at;

    if (!reserve(r))
        return false;
    at = put_number(r->bytes + r->size, folded(range->offset - r->end));
    at = put_number(at, range->size << 1 | (flags != 0));
    for (int i = 0; flags && i < FIELDS; i++)
        at = put_number(at, more[i]);
    r->size = (size_t)(at - r->bytes);
    r->end = range->offset + range->size;
    r->num++;
    return true;
}

struct hr__range hr__ranges_at(const struct hr__ranges *r, size_t i)
{
    const struct hr__range_mark *mark = &r->marks[i / EACH];
    const uint8_t *at = r->bytes + mark->at;
    uint64_t end = mark->end, offset = 0, size = 0, more[FIELDS];

    for (size_t left = i % EACH + 1; left; left--, end = offset + size / 2) {
        at = take_number(at, &offset);
        at = take_number(at, &size);
        offset = end + unfolded(offset);
        for (int k = 0; k < FIELDS; k++) {
            more[k] = 0;
            if (size & 1)
                at = take_number(at, &more[k]);
        }
    }
    return (struct hr__range){.offset = offset,
                              .size = size / 2,
                              .sum = more[4],
                              .source = more[3],
                              .summed = more[0] & SUMMED,
                              .packed = more[0] & PACKED,
                              .wrapped = more[0] & WRAPPED,
                              .skip = more[1],
                              .inner = size & 1 ? size / 2 - more[2] : 0};
}

void hr__ranges_free(struct hr__ranges *r)
{
    hr__free(r->bytes);
    hr__free(r->marks);
}
