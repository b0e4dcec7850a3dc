// SPDX-License-Identifier: Apache-2.0
// TFRecord files of tf.Example, as TensorFlow's programs write them.
//
//   record   u64  bytes
//            u32  their checksum, of the u64
//                 the bytes
//            u32  their checksum
//
// All little endian; a checksum is a CRC-32C, turned by 15 bits and added to a
// constant. The bytes are a protocol buffer:
//
//   Example    1: Features
//   Features   1: (1: name, 2: Feature), any number of them, in any order
//   Feature    1: list of bytes, or 2: of floats, or 3: of int64
//   list       1: a value, any number; numbers may be packed
//
// A record has no mark, but its length has a checksum: behind one that is
// damaged the next length is searched whose checksum is right, so that only
// what is damaged is lost. An index beside the file is not needed. The checksum
// of the bytes is compared when a sample is read.
//
// (tensorflow core/lib/io/record_writer.h, core/example/example.proto;
// protobuf.dev/programming-guides/encoding.)
#include <stdio.h>
#include <string.h>

#include "hal/engine/base.h"
#include "source.h"

enum { HEAD = 12, SUM = 4, NAME = 256 };

// ---- The file --------------------------------------------------------------

struct tfrecord {
    struct hr__source *s;
    struct hr__shard *shard;
    char names[NAME];  // of the features of the first record
    size_t num_skipped;
    const char *why;  // the record at hand is no sample
};

static uint32_t masked(uint32_t sum)
{
    return (sum >> 15 | sum << 17) + UINT32_C(0xa282ead8);
}

// Says whether a record's length and its checksum stand here.
static bool is_head(const unsigned char head[HEAD])
{
    return hr__word_at(head + 8) == masked(hr__crc32c(head, 8));
}

static bool is_tfrecord(const void *begin, size_t size)
{
    return size >= HEAD && is_head(begin);
}

// ---- Protocol buffers ------------------------------------------------------

// A message, or what is left of it.
struct message {
    uint64_t at, end;
};

struct field {
    unsigned number;
    uint64_t value;       // if it is one, else
    struct message part;  // where its bytes are
};

static bool read_varint(struct tfrecord *t, struct message *m, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        const unsigned char *p = hr__shard_look(t->shard, 1, m->at);

        if (!p)
            return false;
        m->at++;
        *value |= (uint64_t)(*p & 0x7f) << shift;
        if (!(*p & 0x80))
            return true;
    }
    return false;
}

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

// The next field. False: what stands there is none.
static bool next_field(struct tfrecord *t, struct message *m, struct field *f)
{
    uint64_t key, size;

    *f = (struct field){0};
    if (!read_varint(t, m, &key) || key >> 3 > UINT32_MAX >> 3)
        return false;
    f->number = (unsigned)(key >> 3);
    switch (key & 7) {
    case VARINT:
        return read_varint(t, m, &f->value);
    case FIXED64:
        size = 8;
        break;
    case FIXED32:
        size = 4;
        break;
    case BYTES:
        if (read_varint(t, m, &size))
            break;
        return false;
    default:
        return false;
    }
    if (size > m->end - m->at)
        return false;
    f->part = (struct message){m->at, m->at + size};
    m->at += size;
    return true;
}

// ---- An example ------------------------------------------------------------

struct example {
    struct message image;        // end 0: it has none
    int image_rank, label_rank;  // of their names; smaller is better
    char label[NAME];
};

// Some have a picture, as a mask, for a label.
static bool fail_label(struct tfrecord *t)
{
    t->why = "the label is no text of at most 255 bytes";
    return false;
}

// The first value of a list: a text for a label.
static bool read_label(struct tfrecord *t, unsigned kind, struct message list,
                       char label[NAME])
{
    const unsigned char *p;
    struct field f;
    uint64_t value;

    *label = '\0';
    if (list.at == list.end)
        return true;
    if (!next_field(t, &list, &f))
        return false;
    if (kind == 1) {
        size_t size = (size_t)(f.part.end - f.part.at);

        if (f.part.end - f.part.at >= NAME ||
            !(p = hr__shard_look(t->shard, size, f.part.at)) ||
            memchr(p, 0, size))
            return fail_label(t);
        memcpy(label, p, size);
        label[size] = '\0';
    } else if (kind == 2) {
        if (f.part.end - f.part.at < 4 ||
            !(p = hr__shard_look(t->shard, 4, f.part.at)))
            return false;
        hr__print_label(label, NAME, hr__float_at(p));
    } else {
        value = f.value;
        if (f.part.end && !read_varint(t, &f.part, &value))
            return false;
        snprintf(label, NAME, "%lld", (long long)(int64_t)value);
    }
    return true;
}

// Takes a feature that is the picture or the label by its name.
static bool take_feature(struct tfrecord *t, const char *name,
                         struct message feature, struct example *e)
{
    int image = hr__field_rank(t->s, HR__FIELD_IMAGE, name);
    int label = hr__field_rank(t->s, HR__FIELD_LABEL, name);
    struct field list = {0}, value;

    while (feature.at < feature.end)
        if (!next_field(t, &feature, &list))
            return false;
    if (image < e->image_rank && list.number == 1 &&
        list.part.at < list.part.end) {
        if (!next_field(t, &list.part, &value) || value.number != 1)
            return false;
        e->image = value.part;
        e->image_rank = image;
    } else if (label < e->label_rank && list.number >= 1 && list.number <= 3) {
        e->label_rank = label;
        return read_label(t, list.number, list.part, e->label);
    }
    return true;
}

static void note_name(struct tfrecord *t, const char *name)
{
    size_t used = strlen(t->names);

    if (!t->shard->ranges.num && !t->num_skipped)
        snprintf(t->names + used, sizeof(t->names) - used, "%s%s",
                 used ? ", " : "", name);
}

static bool read_feature(struct tfrecord *t, struct message entry,
                         struct example *e)
{
    struct message feature = {0}, name = {0};
    const unsigned char *p;
    char text[NAME] = "";
    struct field f;
    size_t size;

    while (entry.at < entry.end) {
        if (!next_field(t, &entry, &f))
            return false;
        if (f.number == 1)
            name = f.part;
        else if (f.number == 2)
            feature = f.part;
    }
    size = (size_t)(name.end - name.at);
    if (name.end - name.at >= NAME)
        return true;  // it is none that is asked for
    if (!(p = hr__shard_look(t->shard, size, name.at)))
        return false;
    memcpy(text, p, size);
    note_name(t, text);
    return take_feature(t, text, feature, e);
}

static bool read_example(struct tfrecord *t, struct message m,
                         struct example *e)
{
    struct field features, entry;

    *e = (struct example){.image_rank = HR__FIELD_NONE,
                          .label_rank = HR__FIELD_NONE};
    while (m.at < m.end) {
        if (!next_field(t, &m, &features))
            return false;
        while (features.number == 1 && features.part.at < features.part.end)
            if (!next_field(t, &features.part, &entry) ||
                (entry.number == 1 && !read_feature(t, entry.part, e)))
                return false;
    }
    return true;
}

// ---- Records ---------------------------------------------------------------

// The sample of the record whose bytes are these.
static bool put(struct tfrecord *t, struct message m)
{
    struct hr__range range = {.offset = m.at,
                              .size = m.end - m.at + SUM,
                              .wrapped = true};
    struct example e;
    char name[32];

    t->why = "the record is no tf.Example";
    if (!read_example(t, m, &e)) {
        hr__shard_fault(t->s, t->shard, m.at - HEAD, NULL, t->why);
        return true;
    }
    if (e.image.at == e.image.end) {
        snprintf(name, sizeof(name), "offset %llu",
                 (unsigned long long)(m.at - HEAD));
        t->num_skipped++;
        return hr__shard_skip(t->s, t->shard, name, HR_SKIP_NO_PICTURE);
    }
    range.skip = e.image.at - m.at;
    range.inner = e.image.end - e.image.at;
    return hr__shard_put(t->s, t->shard, NULL, e.label, range);
}

// The offset of the next record behind a damaged one; the file's size: there is
// none.
static uint64_t search(struct tfrecord *t, uint64_t offset)
{
    uint64_t size = t->shard->size;

    while (size - offset >= HEAD + SUM && hr__shard_goes_on(t->s, t->shard)) {
        size_t n = size - offset < HR__SHARD_LOOK ? (size_t)(size - offset)
                                                  : HR__SHARD_LOOK;
        const unsigned char *p = hr__shard_look(t->shard, n, offset);

        if (!p)
            break;
        for (size_t i = 0; i + HEAD <= n; i++)
            if (hr__long_at(p + i) <= size - offset - i && is_head(p + i))
                return offset + i;
        offset += n - HEAD + 1;
    }
    return size;
}

static const char *read_head(struct tfrecord *t, uint64_t offset,
                             struct message *m)
{
    uint64_t left = t->shard->size - offset, size;
    const unsigned char *head;

    if (left < HEAD + SUM)
        return "the file ends in a record's header";
    if (!(head = hr__shard_look(t->shard, HEAD, offset)))
        return "it cannot be read";
    size = hr__long_at(head);
    if (!is_head(head))
        return "the length of the record is damaged";
    *m = (struct message){offset + HEAD, offset + HEAD + size};
    return size > left - HEAD - SUM ? "the record is longer than the file"
                                    : NULL;
}

static bool read_records(struct tfrecord *t)
{
    struct hr__shard *shard = t->shard;
    uint64_t offset = 0, next;
    struct message m;
    const char *why;

    while (offset < shard->size && hr__shard_goes_on(t->s, t->shard)) {
        if (!(why = read_head(t, offset, &m))) {
            if (!put(t, m))
                return false;
            offset = m.end + SUM;
            continue;
        }
        next = search(t, offset + 1);
        if (!offset && next == shard->size)
            return hr__source_fail(HR_EFORMAT, "%s: not a TFRecord file: %s",
                                   hr__source_short(shard->path), why);
        hr__shard_fault(t->s, shard, offset, NULL, why);
        offset = next;
    }
    return hr__shard_ends(t->s, shard);
}

// A file with records of which none has what is looked for.
static bool check_fields(const struct tfrecord *t)
{
    if (t->shard->ranges.num || !t->num_skipped || !*t->names)
        return true;
    return hr__source_fail(HR_EINVAL,
                           "%s: no picture, the first record has: %s",
                           hr__source_short(t->shard->path), t->names);
}

// Compares the checksum, and finds the picture.
static const char *unwrap(const struct hr__range *range, unsigned char **at,
                          size_t *size)
{
    size_t sum = *size - SUM;

    if (hr__word_at(*at + sum) != masked(hr__crc32c(*at, sum)))
        return "the checksum of the record is wrong";
    *size = (size_t)range->inner;
    *at += range->skip;
    return NULL;
}

static bool add_tfrecord(struct hr__source *s, const char *path)
{
    struct tfrecord *t = hr__alloc(NULL, sizeof(*t));
    bool ok;

    if (!t)
        return hr__source_fail(HR_ENOMEM, "out of memory");
    t->s = s;
    t->num_skipped = 0;
    *t->names = '\0';
    if ((t->shard = hr__shard_open(s, path))) {
        t->shard->unwrap = unwrap;
        t->shard->numbers = true;
    }
    ok = t->shard &&
         hr__shard_opened(t->shard, read_records(t) && check_fields(t));
    hr__free(t);
    return ok;
}

const struct hr__container hr__container_tfrecord = {
    .endings = ".tfrecord .tfrecords",
    .is = is_tfrecord,
    .add = add_tfrecord,
};
