// SPDX-License-Identifier: Apache-2.0
// Data sets that are an index.json and files of samples beside it: MDS of
// MosaicML's streaming, and the chunks of litData.
//
//   file     u32  samples
//            u32  where each begins, and where the last one ends
//                 (MDS: its columns, as JSON)
//                 samples
//   sample   u32  bytes of each column (MDS: of those of no fixed size)
//                 the columns, one behind the other
//
// All little endian. MDS's index.json has "shards", each with its file, its
// number of samples, and for its columns names, encodings and sizes. That of
// litData has "chunks", and for all of them the formats of columns; their names
// are in a text that is JSON again. Compressed and encrypted files are refused.
//
// (streaming/base/format/mds/writer.py, encodings.py; litdata
// streaming/writer.py, serializers.py.)
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "hal/engine/base.h"
#include "loader/pack/format.h"
#include "source.h"

enum {
    COLUMNS = 32,
    NAME = 128,
    TEXT = 256,  // of a label
    WORD = 4,
    PART = 4096,      // offsets that are read at a time
    APART = 1 << 16,  // bytes of a sample that has pages of its own
    INDEX_BYTES = 64 << 20
};

struct column {
    char name[NAME], encoding[NAME];
    uint64_t size;  // 0: each sample says it
};

struct chunks {
    struct hr__source *s;
    char folder[HR__HTTP_URL];  // with its slash
    char index[HR__HTTP_URL];
    struct column columns[COLUMNS];
    int num;
    bool is_mds;
    // The file at hand.
    char file[NAME];
    uint64_t samples;
    char compressed[NAME];
    int image, label;  // -1: there is none
    struct hr__shard *shard;
};

static bool fail_index(const struct chunks *c, const char *why)
{
    return hr__source_fail(HR_EFORMAT, "%s: %s", hr__source_short(c->index),
                           why);
}

// ---- Columns ----------------------------------------------------------------

static bool is_picture(const char *encoding)
{
    static const char *const encodings[] = {"jpeg", "png", "jpeg_array",
                                            "bytes", "bin"};

    for (size_t i = 0; i < sizeof(encodings) / sizeof(*encodings); i++)
        if (!strcmp(encodings[i], encoding))
            return true;
    return false;
}

// How a label is written, and its bytes.
static const struct kind {
    const char *encoding;
    enum { KIND_TEXT, KIND_INT, KIND_UINT, KIND_FLOAT } kind;
    unsigned size;
} kinds[] = {
    {"int", KIND_INT, 8},       {"int64", KIND_INT, 8},
    {"int32", KIND_INT, 4},     {"int16", KIND_INT, 2},
    {"int8", KIND_INT, 1},      {"uint64", KIND_UINT, 8},
    {"uint32", KIND_UINT, 4},   {"uint16", KIND_UINT, 2},
    {"uint8", KIND_UINT, 1},    {"bool", KIND_UINT, 1},
    {"float32", KIND_FLOAT, 4}, {"str", KIND_TEXT, 0},
    {"str_int", KIND_TEXT, 0},  {"str_float", KIND_TEXT, 0},
    {"string", KIND_TEXT, 0},   {"bytes", KIND_TEXT, 0},
};

static const struct kind *kind_of(const char *encoding)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (!strcmp(kinds[i].encoding, encoding))
            return &kinds[i];
    return NULL;
}

// Chooses the columns of picture and label: by their names, or the first that
// can be one.
static void choose(struct chunks *c)
{
    int image = HR__FIELD_NONE, label = HR__FIELD_NONE;

    c->image = c->label = -1;
    for (int i = 0; i < c->num; i++) {
        const struct column *at = &c->columns[i];
        int is = hr__field_rank(c->s, HR__FIELD_IMAGE, at->name);
        int of = hr__field_rank(c->s, HR__FIELD_LABEL, at->name);

        if (is < image && is_picture(at->encoding)) {
            c->image = i;
            image = is;
        }
        if (of < label && kind_of(at->encoding)) {
            c->label = i;
            label = of;
        }
    }
    for (int i = 0; i < c->num; i++) {
        const char *encoding = c->columns[i].encoding;
        const struct kind *kind = kind_of(encoding);

        if (c->image < 0 && !c->s->fields[HR__FIELD_IMAGE] &&
            is_picture(encoding) && strcmp(encoding, "bytes"))
            c->image = i;
        if (c->label < 0 && !c->s->fields[HR__FIELD_LABEL] && kind &&
            kind->kind == KIND_INT)
            c->label = i;
    }
}

static bool fail_columns(const struct chunks *c)
{
    char names[192] = "";
    size_t used = 0;

    for (int i = 0; i < c->num && used < sizeof(names); i++)
        used += (size_t)snprintf(names + used, sizeof(names) - used,
                                 "%s%s (%s)", i ? ", " : "", c->columns[i].name,
                                 c->columns[i].encoding);
    return hr__source_fail(HR_EINVAL, "%s: no picture, the columns are: %s",
                           hr__source_short(c->index), names);
}

// ---- Samples ----------------------------------------------------------------

static void print_number(char text[TEXT], const struct kind *kind,
                         const unsigned char *bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < kind->size; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    if (kind->kind == KIND_FLOAT) {
        hr__print_label(text, TEXT, hr__float_at(bytes));
    } else if (kind->kind == KIND_UINT) {
        snprintf(text, TEXT, "%llu", (unsigned long long)value);
    } else {
        unsigned unused = 64 - 8 * kind->size;

        snprintf(text, TEXT, "%lld",
                 (long long)((int64_t)(value << unused) >> unused));
    }
}

// Reads a label; returns NULL, or what is wrong.
static const char *read_label(const struct chunks *c, uint64_t offset,
                              uint64_t size, char text[TEXT])
{
    const struct kind *kind = kind_of(c->columns[c->label].encoding);

    if (size >= TEXT || (kind->size && size != kind->size))
        return "the label has a size that no label has";
    if (hr__shard_read(c->shard, text, (size_t)size, offset))
        return "it cannot be read";
    text[size] = '\0';
    if (kind->kind != KIND_TEXT) {
        unsigned char bytes[8];

        memcpy(bytes, text, kind->size);
        print_number(text, kind, bytes);
    } else if (strlen(text) < size) {
        return "the label is not a text";
    }
    return NULL;
}

// Finds the columns of the sample from begin to end.
static const char *find_columns(const struct chunks *c, uint64_t begin,
                                uint64_t end, uint64_t at[COLUMNS + 1])
{
    unsigned char head[COLUMNS * WORD];
    const unsigned char *size = head;
    size_t num = 0;

    for (int i = 0; i < c->num; i++)
        num += c->columns[i].size ? 0 : WORD;
    if (end - begin < num)
        return "the sample is too short";
    if (hr__shard_read(c->shard, head, num, begin))
        return "it cannot be read";
    at[0] = begin + num;
    for (int i = 0; i < c->num; i++) {
        uint64_t bytes = c->columns[i].size;

        if (!bytes) {
            bytes = hr__word_at(size);
            size += WORD;
        }
        if (bytes > end - at[i])
            return "the sample is shorter than its columns";
        at[i + 1] = at[i] + bytes;
    }
    return at[c->num] == end ? NULL : "the sample is longer than its columns";
}

static bool put_sample(struct chunks *c, uint64_t i, uint64_t begin,
                       uint64_t end)
{
    uint64_t at[COLUMNS + 1];
    char name[32], label[TEXT] = "";
    const char *why;

    snprintf(name, sizeof(name), "%08llu", (unsigned long long)i);
    why = find_columns(c, begin, end, at);
    if (!why && c->label >= 0)
        why = read_label(c, at[c->label], at[c->label + 1] - at[c->label],
                         label);
    if (why) {
        hr__shard_fault(c->s, c->shard, begin, name, why);
        return true;
    }
    if (at[c->image] == at[c->image + 1])
        return hr__shard_skip(c->s, c->shard, name, HR_SKIP_NO_PICTURE);
    return hr__shard_put(
        c->s, c->shard, i == c->shard->ranges.num ? NULL : name, label,
        (struct hr__range){.offset = at[c->image],
                           .size = at[c->image + 1] - at[c->image]});
}

// Samples i .. i + num - 1.
static bool put_part(struct chunks *c, uint64_t i, size_t num)
{
    unsigned char words[(PART + 1) * WORD];
    uint64_t first = WORD * (c->samples + 2);

    if (hr__shard_read(c->shard, words, (num + 1) * WORD, WORD * (i + 1))) {
        hr__shard_fault(c->s, c->shard, WORD * (i + 1), NULL,
                        "it cannot be read");
        return true;
    }
    for (size_t k = 0; k < num; k++)
        if (hr__word_at(words + (k + 1) * WORD) >=
            hr__word_at(words + k * WORD) + UINT64_C(1) * APART)
            hr__shard_expect(c->shard, hr__word_at(words + k * WORD));
    for (size_t k = 0; k < num && hr__shard_goes_on(c->s, c->shard); k++) {
        uint64_t begin = hr__word_at(words + k * WORD);
        uint64_t end = hr__word_at(words + (k + 1) * WORD);
        char name[32];

        if (begin < first || begin > end || end > c->shard->size) {
            snprintf(name, sizeof(name), "%08llu", (unsigned long long)(i + k));
            hr__shard_fault(c->s, c->shard, WORD * (i + k + 1), name,
                            "the sample lies outside of the file");
        } else if (!put_sample(c, i + k, begin, end)) {
            return false;
        }
    }
    return true;
}

static bool put_samples(struct chunks *c)
{
    unsigned char word[WORD];

    if (c->shard->size < WORD * (c->samples + 2)) {
        hr__shard_fault(c->s, c->shard, c->shard->size, NULL,
                        "the file ends in its index");
        return true;
    }
    // (The index has the number, too.)
    if (hr__shard_read(c->shard, word, WORD, 0) ||
        hr__word_at(word) != c->samples)
        hr__shard_fault(c->s, c->shard, 0, NULL,
                        "the number of samples is not that of the index");
    for (uint64_t i = 0; i < c->samples && hr__shard_goes_on(c->s, c->shard);
         i += PART) {
        uint64_t left = c->samples - i;

        if (!put_part(c, i, left < PART ? (size_t)left : PART))
            return false;
    }
    return hr__shard_ends(c->s, c->shard);
}

// The samples of a file of the index. One that is not there is a fault, but the
// web fails by itself, too: then all does, as for other files.
static bool put_file(struct chunks *c)
{
    char path[2 * HR__HTTP_URL];

    if (!pack_is_name(c->file, strlen(c->file)))
        return fail_index(c, "a file is not a relative path");
    if (c->num < 1)
        return fail_index(c, "there are no columns");
    if (c->samples > UINT32_MAX / WORD - 2)
        return fail_index(c, "a file has too many samples");
    choose(c);
    if (c->image < 0)
        return fail_columns(c);
    snprintf(path, sizeof(path), "%s%s", c->folder, c->file);
    if (!(c->shard = hr__shard_open(c->s, path))) {
        if (*c->compressed)
            return hr__source_fail(HR_EUNSUPPORTED,
                                   "%s: compressed (%s): decompress it",
                                   hr__source_short(path), c->compressed);
        if (hr__http_is_url(path) || hr_last_status() != HR_EIO)
            return false;
        hr__source_fault_text(c->s, hr_last_error());
        return true;
    }
    c->shard->numbers = true;
    return hr__shard_opened(c->shard, put_samples(c));
}

// ---- The index of MDS -------------------------------------------------------

// A column of a list; more than there are room for are an error.
static struct column *column_at(struct chunks *c, struct hr__json *j, int i)
{
    if (i < COLUMNS) {
        c->num = i + 1 > c->num ? i + 1 : c->num;
        return &c->columns[i];
    }
    j->bad = true;
    j->at = j->end;
    return NULL;
}

static void read_texts(struct chunks *c, struct hr__json *j, bool names)
{
    hr__json_begin(j, '[');
    for (int i = 0; hr__json_item(j, ']'); i++) {
        struct column *column = column_at(c, j, i);

        if (column)
            hr__json_text(j, names ? column->name : column->encoding, NAME);
    }
}

static void read_sizes(struct chunks *c, struct hr__json *j)
{
    hr__json_begin(j, '[');
    for (int i = 0; hr__json_item(j, ']'); i++) {
        struct column *column = column_at(c, j, i);

        if (!column)
            break;
        if (hr__json_is(j, 'n'))
            hr__json_skip(j);
        else
            hr__json_number(j, &column->size);
    }
}

static void read_file_name(struct chunks *c, struct hr__json *j)
{
    char key[NAME];

    hr__json_begin(j, '{');
    while (hr__json_key(j, key, sizeof(key)))
        if (!strcmp(key, "basename"))
            hr__json_text(j, c->file, NAME);
        else
            hr__json_skip(j);
}

static void read_shard(struct chunks *c, struct hr__json *j)
{
    char key[NAME];

    memset(c->columns, 0, sizeof(c->columns));
    c->num = 0;
    c->samples = 0;
    *c->file = *c->compressed = '\0';
    hr__json_begin(j, '{');
    while (hr__json_key(j, key, sizeof(key))) {
        if (!strcmp(key, "column_names"))
            read_texts(c, j, true);
        else if (!strcmp(key, "column_encodings"))
            read_texts(c, j, false);
        else if (!strcmp(key, "column_sizes"))
            read_sizes(c, j);
        else if (!strcmp(key, "raw_data"))
            read_file_name(c, j);
        else if (!strcmp(key, "samples"))
            hr__json_number(j, &c->samples);
        else if (!strcmp(key, "compression") && hr__json_is(j, '"'))
            hr__json_text(j, c->compressed, NAME);
        else
            hr__json_skip(j);
    }
}

// ---- The index of litData ---------------------------------------------------

// Names of columns from a text as [1, {.., "context": "[\"image\", ..]"}]; they
// are numbers if it has not so many.
static void name_columns(struct chunks *c, const char *spec)
{
    char *context = hr__alloc(NULL, strlen(spec) + 1), key[NAME];
    struct hr__json j = {.at = spec, .end = spec + strlen(spec)}, names;
    int num = 0;

    if (!context)
        return;
    *context = '\0';
    hr__json_begin(&j, '[');
    while (hr__json_item(&j, ']')) {
        if (!hr__json_is(&j, '{')) {
            hr__json_skip(&j);
            continue;
        }
        hr__json_begin(&j, '{');
        while (hr__json_key(&j, key, sizeof(key)))
            if (!strcmp(key, "context") && hr__json_is(&j, '"'))
                hr__json_text(&j, context, strlen(spec) + 1);
            else
                hr__json_skip(&j);
    }
    names = (struct hr__json){.at = context, .end = context + strlen(context)};
    hr__json_begin(&names, '[');
    while (num < c->num && hr__json_item(&names, ']') &&
           hr__json_text(&names, c->columns[num].name, NAME))
        num++;
    for (int i = 0; num != c->num && i < c->num; i++)
        snprintf(c->columns[i].name, NAME, "%d", i);
    hr__free(context);
}

// (Of what encrypts there is an object, or a name.)
static void skip_config(struct chunks *c, struct hr__json *j, const char *key)
{
    if (!strcmp(key, "encryption") && !hr__json_is(j, 'n'))
        snprintf(c->compressed, NAME, "%s", key);
    hr__json_skip(j);
}

static void read_config(struct chunks *c, struct hr__json *j)
{
    size_t size = (size_t)(j->end - j->at) + 1;
    char *spec = hr__alloc(NULL, size), key[NAME];

    if (!spec) {
        j->bad = true;
        return;
    }
    *spec = '\0';
    hr__json_begin(j, '{');
    while (hr__json_key(j, key, sizeof(key))) {
        if (!strcmp(key, "data_format") && hr__json_is(j, '['))
            read_texts(c, j, false);
        else if (!strcmp(key, "data_spec") && hr__json_is(j, '"'))
            hr__json_text(j, spec, size);
        else if (!strcmp(key, "compression") && hr__json_is(j, '"'))
            hr__json_text(j, c->compressed, NAME);
        else
            skip_config(c, j, key);
    }
    name_columns(c, spec);
    hr__free(spec);
}

static void read_chunk(struct chunks *c, struct hr__json *j)
{
    char key[NAME];

    c->samples = 0;
    *c->file = '\0';
    hr__json_begin(j, '{');
    while (hr__json_key(j, key, sizeof(key)))
        if (!strcmp(key, "filename"))
            hr__json_text(j, c->file, NAME);
        else if (!strcmp(key, "chunk_size"))
            hr__json_number(j, &c->samples);
        else
            hr__json_skip(j);
}

// ---- Both -------------------------------------------------------------------

// The files of the list at *j.
static bool put_files(struct chunks *c, struct hr__json *j)
{
    hr__json_begin(j, '[');
    while (hr__json_item(j, ']')) {
        if (c->is_mds)
            read_shard(c, j);
        else
            read_chunk(c, j);
        if (!j->bad && !put_file(c))
            return false;
    }
    return !j->bad || fail_index(c, "it is damaged");
}

// The columns of litData stand behind its files, so the files are read last.
static bool read_index(struct chunks *c, const char *text, size_t size)
{
    struct hr__json j = {.at = text, .end = text + size}, files = {0};
    char key[NAME];

    hr__json_begin(&j, '{');
    while (hr__json_key(&j, key, sizeof(key))) {
        if (!strcmp(key, "shards") || !strcmp(key, "chunks")) {
            files = j;
            c->is_mds = *key == 's';
        }
        if (!strcmp(key, "config"))
            read_config(c, &j);
        else
            hr__json_skip(&j);
    }
    if (!files.at)
        return fail_index(c,
                          j.bad ? "it is no JSON" : "neither MDS nor litData");
    if (j.bad)
        return fail_index(c, "it is damaged");
    if (!c->is_mds && *c->compressed)
        return hr__source_fail(HR_EUNSUPPORTED,
                               "%s: the chunks are compressed or encrypted "
                               "(%s), which is not read",
                               hr__source_short(c->index), c->compressed);
    return put_files(c, &files);
}

static bool is_chunks(const void *begin, size_t size)
{
    struct hr__json j = {.at = begin, .end = (const char *)begin + size};
    char key[NAME];

    return hr__json_begin(&j, '{') && hr__json_key(&j, key, sizeof(key)) &&
           (!strcmp(key, "shards") || !strcmp(key, "chunks"));
}

// The bytes of the index, which are to be freed; it is closed again.
static char *read_file(struct chunks *c, const char *path, size_t *size)
{
    struct hr__shard *shard = hr__shard_open(c->s, path);
    char *text = NULL;
    bool ok;

    if (!shard)
        return NULL;
    *size = (size_t)shard->size;
    ok = shard->size <= INDEX_BYTES ||
         hr__source_fail(HR_ELIMIT, "%s: an index of %llu bytes",
                         hr__source_short(c->index),
                         (unsigned long long)shard->size);
    if (ok && !(text = hr__alloc(NULL, *size + 1)))
        ok = hr__source_fail(HR_ENOMEM, "out of memory");
    ok = hr__shard_opened(shard, ok && !hr__shard_read(shard, text, *size, 0));
    hr__shard_close(shard);
    c->s->num_shards--;
    if (ok)
        return text;
    hr__free(text);
    return NULL;
}

static bool add_chunks(struct hr__source *s, const char *path)
{
    bool web = hr__http_is_url(path);
    size_t length = web ? hr__http_path_end(path) : strlen(path), size;
    struct chunks *c = hr__alloc(NULL, sizeof(*c));
    char *text;
    bool ok;

    if (!c || length >= sizeof(c->index)) {
        hr__free(c);
        return hr__source_fail(c ? HR_EINVAL : HR_ENOMEM, "%s",
                               c ? "a path is too long" : "out of memory");
    }
    memset(c, 0, sizeof(*c));
    c->s = s;
    memcpy(c->index, path, length);
    memcpy(c->folder, path, length);
    while (length && c->folder[length - 1] != '/')
        length--;
    c->folder[length] = '\0';
    text = read_file(c, path, &size);
    if (text)
        text[size] = '\0';
    ok = text && read_index(c, text, size);
    hr__free(text);
    hr__free(c);
    return ok;
}

const struct hr__container hr__container_chunks = {
    .endings = "index.json",
    .inside = "index.json",
    .is = is_chunks,
    .add = add_chunks,
};
