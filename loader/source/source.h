// SPDX-License-Identifier: Apache-2.0
// A source as it is kept. Private to loader/source/ and the loader.
//
// Kept small: the names of a million samples are the largest thing that a
// loader holds. Strings are carved from blocks and live as long as the source.
#ifndef HEADRACE_LOADER_SOURCE_INSIDE_H
#define HEADRACE_LOADER_SOURCE_INSIDE_H

#include <endian.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <headrace/headrace.h>

#include "loader/http/http.h"

enum {
    HR__SOURCE_FAULTS = 20,        // texts of faults that are kept
    HR__SOURCE_NUMBERS = 1 << 22,  // classes that numbers can name
};

// A picture of CIFAR: its planes, red, green and blue.
enum { HR__CIFAR_SIDE = 32, HR__CIFAR_BYTES = 32 * 32 * 3 };

// Numbers found again by a hash: open addressing, a power of two.
struct hr__source_set {
    struct hr__source_key {
        uint64_t hash;
        uint32_t number;  // + 1; 0 = free
    } * keys;
    size_t capacity, num;
};

struct hr__source_dir {
    const char *path;  // as opened; "" = the current folder
    uint32_t rel;      // offset of its part below the folder the user named
    uint32_t label;    // of the pictures in it
    uint32_t pack;     // of a pack file: its number + 1; 0 = none
    uint32_t shard;    // of a tar, RecordIO or CIFAR file: its number + 1; 0 =
                       // none
    uint8_t web;       // not a folder but the begin of URLs:
};

enum {
    HR__WEB_OTHERS = 1,  // named by others, in a list
    HR__WEB_OWN          // with the program's own headers
};

struct hr__source_item {
    uint32_t name;  // last component: where it is in the blocks, + 1; 0: the
                    // number, see hr__source_item_name()
    uint32_t dir, label;
    uint32_t number;  // in its pack file or shard; of what was skipped: why
};
enum { HR__NUMBER_TEXT = 12 };

// Labels are kept once and meant by their index; 0 is "", no label.
struct hr__source_label {
    const char *text;
    bool is_name;    // of a folder, or packed: never a number
    bool is_number;  // a whole number, which is the class
    bool is_used;    // by a sample
    bool has_class;  // of this number:
    int64_t number, whole;
    size_t named;  // where it is among the classes that were named, + 1
};

struct hr__source_seen {
    uint64_t dev, ino;
};

// Fields of a record; without a rank, none of them.
enum hr__field { HR__FIELD_IMAGE, HR__FIELD_LABEL };
enum { HR__FIELD_NONE = 1 << 16 };

// A class that was named, whether a sample has it or not.
struct hr__source_class {
    uint32_t label;
    bool fixed;  // its number was named, too
    int64_t number;
};

struct hr__range {
    uint64_t offset, size;
    uint64_t sum;     // of the bytes, if it is known
    uint64_t source;  // bytes of the file that a packed picture was made of
    bool summed, packed;
    bool wrapped;  // a record, of which unwrap() of the shard makes a picture
    uint64_t skip, inner;  // where that is in it, if unwrap() needs that
};

// The ranges of a shard, one behind the other.
struct hr__ranges {
    uint8_t *bytes;
    size_t num, size, capacity;
    struct hr__range_mark {
        size_t at;
        uint64_t end;  // of the range before
    } * marks;
    size_t marks_capacity;
    uint64_t end;
};

// Finds the picture of a wrapped record of *size bytes: sets *at to its begin
// and *size to its own. NULL, or what is wrong.
typedef const char *(*hr__unwrap_fn)(const struct hr__range *range,
                                     unsigned char **at, size_t *size);

// A file that the program has opened.
struct hr__opened {
    struct hr_opened is;
    struct hr__source *source;  // of its calls
};

struct hr__shard {
    const char *path;
    int fd;                       // -1: opened for each read; or
    struct hr__http_object *web;  // if that is not NULL
    uint32_t number;              // among those of the source
    bool pixels;                  // samples are HR__CIFAR_BYTES of them
    bool names;                   // labels are names, never numbers
    bool numbers;                 // names of samples are, in one of many files
    uint64_t size;                // of the file, and when it was changed last,
    struct timespec changed;      // when it was opened
    struct hr__ranges ranges;     // of its samples
    hr__unwrap_fn unwrap;         // NULL: none is wrapped
    struct hr__opened *opened;    // NULL: the library reads it
    struct hr__window *window;    // while its samples are searched
};

// Pages of a shard that were read last.
enum { HR__SHARD_PAGE = 4096, HR__SHARD_LOOK = 1 << 18 };
struct hr__window {
    uint64_t from;
    size_t num;
    unsigned char bytes[HR__SHARD_LOOK + HR__SHARD_PAGE];
};

struct hr__source {
    struct hr_source_t pub;        // first
    struct hr_source_calls calls;  // read != NULL: the program's own
    struct hr__source_item *items;
    size_t num, capacity;
    struct hr__source_dir *dirs;
    size_t num_dirs, dirs_capacity;
    struct hr__source_label *labels;
    size_t num_labels, labels_capacity;
    struct hr__source_class *named;
    size_t num_named, named_capacity;
    struct hr__source_seen *seen;
    size_t num_seen, seen_capacity;
    struct hr__source_set known_labels, known_dirs, known_seen;
    struct hr__source_item *skipped;  // [pub.skipped]
    size_t skipped_capacity;
    size_t num_words;  // labels of samples that are no numbers
    bool numbers;      // some are, or are of classes with fixed ones
    bool told;         // that there are both
    bool closed;       // the program has named all classes
    char **blocks;     // strings are carved from these
    size_t num_blocks, blocks_capacity;
    size_t block, block_used;  // the one that is not full yet
    hr_pack_file *packs;
    size_t num_packs, packs_capacity;
    struct hr__shard *shards;
    size_t num_shards, shards_capacity;
    const char *fields[2];  // of enum hr__field; NULL: the usual ones
    struct hr__http *http;  // NULL: no URL was named yet
    atomic_bool stopped;    // nothing is added any more; its own, and what
    struct hr__http_until until;  // else ends it
    const char *faults[HR__SOURCE_FAULTS];
    struct hr__source_kept {  // what is left of a source when adding fails
        struct hr_source_t pub;
        size_t packs, shards, named, seen;
    } kept;
    // Computed at the first request: lock guards it until it is there. forks:
    // the process whose lock it is; a child makes its own.
    pthread_mutex_t lock;
    _Atomic unsigned forks;
    const char **classes;
    size_t num_classes;
    atomic_bool has_classes, has_identity;
    uint64_t identity;
};

static inline struct hr__source *hr__source_of(hr_source source)
{
    return (struct hr__source *)(uintptr_t)source;
}

static inline struct hr__source_label *hr__source_label_of(
    const struct hr__source *s, const struct hr__source_item *item)
{
    return &s->labels[item->label ? item->label : s->dirs[item->dir].label];
}

// Returns how a label's class was named; NULL: it was not. (Names of a failed
// addition do not count.)
static inline struct hr__source_class *hr__source_named(
    const struct hr__source *s, const struct hr__source_label *label)
{
    size_t at = label->named;

    return at && at <= s->num_named &&
                   &s->labels[s->named[at - 1].label] == label
               ? &s->named[at - 1]
               : NULL;
}

// ---- keep.c ----

// Sets hr_last_error(). Always false.
bool hr__source_fail(enum hr_status status, const char *format, ...)
    HR_PRINTF(2, 3);
// Notes a fault: PATH: what errno is.
void hr__source_fault(struct hr__source *s, const char *path, int error);
void hr__source_fault_text(struct hr__source *s, const char *text);
// The end of a path, where messages have no room for all of it.
const char *hr__source_short(const char *path);

// Room for one more element. Doubling, as the end is not known. False: none.
bool hr__source_grow(void *array, size_t *capacity, size_t num, size_t size);
// A copy of length bytes of text and a NUL; NULL: out of memory.
const char *hr__source_text(struct hr__source *s, const char *text,
                            size_t length);
// "DIR/NAME" in the same way; a folder that is "" or ends in a slash needs
// none.
const char *hr__source_join(struct hr__source *s, const char *dir,
                            const char *name);

// The whole number that a text is, as Python's int() reads it, or as 1.0.
bool hr__source_number(const char *text, int64_t *number);
// The index of a label, which is copied. is_name: it is a name, of whatever it
// consists.
bool hr__source_intern(struct hr__source *s, const char *text, bool is_name,
                       uint32_t *label);
// The index of a name, of which there is a class from now on; *number is its
// number, if number is not NULL. False with hr_last_error() if it has another.
bool hr__source_name_class(struct hr__source *s, const char *name,
                           const int64_t *number, uint32_t *label);
// dir.path must be of hr__source_text() or NULL, which is out of memory.
bool hr__source_put_dir(struct hr__source *s, struct hr__source_dir dir,
                        uint32_t *index);
// Does the same with a path that is copied; a folder that was put before, with
// the same rel, is not put again.
bool hr__source_put_dir_once(struct hr__source *s, struct hr__source_dir dir,
                             uint32_t *index);
// Adds the picture NAME of a folder; NULL: it is called by its number. number:
// in its pack file or shard. A name that is too long is a fault.
bool hr__source_put(struct hr__source *s, uint32_t dir, const char *name,
                    uint32_t label, uint32_t number);
// Says whether a folder is met for the first time. False with *error if memory
// is short.
bool hr__source_is_new(struct hr__source *s, uint64_t dev, uint64_t ino,
                       bool *error);
// The name of an item, which is in number[] if it is that.
const char *hr__source_item_name(const struct hr__source *s,
                                 const struct hr__source_item *item,
                                 char number[HR__NUMBER_TEXT]);
// Notes a file that is no sample: NAME of a folder, or with "" the folder.
bool hr__source_skip(struct hr__source *s, uint32_t dir, const char *name,
                     enum hr_skip why);

// ---- the others: false with hr_last_error() ----

// Says whether the end of a file's name is that of a picture, also of one that
// only other programs take.
bool hr__source_is_picture(const char *name);
// Says whether the name is that of a picture of a kind that may stand beside a
// sample's own, as masks do: any but JPEG, PNG and WebP.
bool hr__source_is_other_picture(const char *name);
// Says whether a path or URL is named like a file with many pictures.
bool hr__source_has_many(const char *path);
// Adds the input at a path or URL.
bool hr__source_input(struct hr__source *s, const char *path);
// refuse: says whether nothing can be added. added: ends an addition, and takes
// it back if it failed.
enum hr_status hr__source_refuse(hr_source source, const char *text);
enum hr_status hr__source_added(struct hr__source *s, bool ok);
// Adds all pictures of a folder.
bool hr__source_walk(struct hr__source *s, const char *folder);
// Kinds of files with many pictures, in the order in which they are asked. A
// new one is a file with its row, and its name here.
#define HR__CONTAINERS(X) \
    X(pack) X(tar) X(records) X(tfrecord) X(chunks) X(lmdb) X(opened)
struct hr__container {
    const char *endings;  // of names, with blanks between them
    const char *inside;   // a folder that has this file is one; NULL: none is
    // Says whether a file begins so. NULL: no begin is sure.
    bool (*is)(const void *begin, size_t size);
    bool (*add)(struct hr__source *s, const char *path);  // or a URL
};
#define X(name) extern const struct hr__container hr__container_##name;
HR__CONTAINERS(X)
#undef X
bool hr__source_cifar(struct hr__source *s, const char *path,
                      enum hr_cifar kind);
// Adds a picture of pack file or shard (number + 1) at path, by its name there;
// or only the folder that it lies in.
bool hr__source_put_member(struct hr__source *s, const char *path,
                           uint32_t pack, uint32_t shard, const char *name,
                           const char *label, bool is_name, uint32_t number);
bool hr__source_put_member_dir(struct hr__source *s, const char *path,
                               uint32_t pack, uint32_t shard, const char *name,
                               uint32_t *dir);

// Names the classes of a pack file.
struct pack_view;
bool hr__source_put_classes(struct hr__source *s, const struct pack_view *view);

// Numbers the labels of all samples. Threads: any.
bool hr__source_find_classes(struct hr__source *s);
// The order that Python gives to the names of files: by their characters, and a
// byte that is of no character in UTF-8 is U+DC00 and itself.
int hr__source_order(const char *a, const char *b);

// Reads the file at path to memory of room(ctx, size), which returns NULL if
// there is none: then the status is HR_ENOMEM, whatever the callback's reason.
// For an object of the web of unknown length it is called again for more bytes,
// and what it gave before has moved there.
// While a read waits for the web, room(ctx, 0) is asked now and then: NULL ends
// it with HR_ECANCELED.
typedef void *(*hr__source_room_fn)(void *ctx, size_t size);
enum hr_status hr__source_file(const char *path, size_t max_bytes,
                               hr__source_room_fn room, void *ctx,
                               size_t *size);

// How samples of a kind are read: files, entries of pack files, ranges of
// shards, objects of the web. The bytes are at to->data, or if that is NULL in
// the memory of room, as of hr__source_file(); to->size may be less than the
// size that room was asked for.
struct hr__reading {
    size_t max_bytes;
    hr__source_room_fn room;
    void *ctx;
    void *pixels;    // for HR__CIFAR_BYTES of a CIFAR file, not in room
    bool unchecked;  // entries: without hr_pack_check()
};
struct hr__source_kind {
    enum hr_status (*read)(const struct hr__source *s, uint64_t i,
                           const struct hr__reading *r, struct hr_encoded *to);
    bool by_path;  // a device can read it by hr_source_path()
};
// Returns the kind of sample i < num, unless the source is the program's own.
const struct hr__source_kind *hr__source_kind(const struct hr__source *s,
                                              uint64_t i);

// Asks the callback to lend sample i < num. hr__source_lent(): the same for the
// bytes that it has lent for r->i already.
enum hr_status hr__source_lend(const struct hr__source *s, uint64_t i,
                               struct hr_encoded *lent);
enum hr_status hr__source_lent(const struct hr__source *s,
                               struct hr_source_read *r);

// The shard that sample i lies in, and where. NULL: none.
const struct hr__shard *hr__source_shard(const struct hr__source *s, uint64_t i,
                                         struct hr__range *range);
// ---- shard.c ----

// Opens a shard; NULL with hr_last_error(). It is valid until the next one is
// opened.
struct hr__shard *hr__shard_open(struct hr__source *s, const char *path);
// The same for a file that the program has opened, of which it takes care.
struct hr__shard *hr__shard_of(struct hr__source *s, const char *path,
                               struct hr__opened *opened);
void hr__shard_close(struct hr__shard *shard);
// Ends the search for its samples, which was complete if ok. If a read of the
// web failed meanwhile, all of it fails by that.
bool hr__shard_opened(struct hr__shard *shard, bool ok);
// Says whether to go on with it: the program has not stopped the source, and
// the web answers. hr__shard_ends(): false with HR_ECANCELED if it was stopped.
bool hr__shard_goes_on(const struct hr__source *s,
                       const struct hr__shard *shard);
bool hr__shard_ends(const struct hr__source *s, const struct hr__shard *shard);
// Reads so many bytes. Threads: one while its samples are searched, then any.
enum hr_status hr__shard_read(const struct hr__shard *shard, void *to,
                              size_t size, uint64_t offset);
// Returns at most HR__SHARD_LOOK bytes, while its samples are searched: they
// are there until the next look or read. NULL with hr_last_error(): the file
// has not so many, or cannot be read.
const unsigned char *hr__shard_look(const struct hr__shard *shard, size_t size,
                                    uint64_t offset);
// Says that the page at offset will be looked at: the kernel begins to read it.
void hr__shard_expect(const struct hr__shard *shard, uint64_t offset);
// Adds a sample. name is a relative path of which no part is empty, . or ..;
// NULL: the number of the sample in the shard.
bool hr__shard_put(struct hr__source *s, struct hr__shard *shard,
                   const char *name, const char *label, struct hr__range range);
// Notes a member that is no sample, by its name in the file.
bool hr__shard_skip(struct hr__source *s, const struct hr__shard *shard,
                    const char *name, enum hr_skip why);
// Notes a fault: PATH: offset, name (or NULL), why.
void hr__shard_fault(struct hr__source *s, const struct hr__shard *shard,
                     uint64_t offset, const char *name, const char *why);

// ---- ranges.c ----

bool hr__ranges_put(struct hr__ranges *r, const struct hr__range *range);
struct hr__range hr__ranges_at(const struct hr__ranges *r, size_t i);
void hr__ranges_free(struct hr__ranges *r);

// ---- http.c, http_pack.c ----

// Returns the reader of URLs, which is made at the first call. NULL with
// hr_last_error().
struct hr__http *hr__source_web(struct hr__source *s);
// Adds the pictures of the pack file at a path (pack.c).
bool hr__source_unpack(struct hr__source *s, const char *path);
// Adds the object at a URL, HR__WEB_OWN or HR__WEB_OTHERS, whose name begins
// behind rel bytes. label NULL: the folder that it lies in.
bool hr__source_put_object(struct hr__source *s, const char *url, uint8_t web,
                           size_t rel, const char *label);
// Does the same for an entry of the list at a URL; an entry that gives no URL
// is a fault.
bool hr__source_put_listed(struct hr__source *s, const char *list,
                           const char *entry, bool below, const char *label);

// ---- record.c, tfrecord.c, chunks.c, lmdb.c ----

// Numbers of files are little endian.
static inline uint32_t hr__word_at(const unsigned char *p)
{
    uint32_t word;

    memcpy(&word, p, sizeof(word));
    return le32toh(word);
}

static inline uint64_t hr__long_at(const unsigned char *p)
{
    return hr__word_at(p) | (uint64_t)hr__word_at(p + 4) << 32;
}

static inline float hr__float_at(const unsigned char *p)
{
    uint32_t bits = hr__word_at(p);
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

// The label that a float is.
void hr__print_label(char *text, size_t size, float value);

// ---- opened.c ----

// Says whether the program has named an opener.
bool hr__source_has_opener(void);
void hr__opened_close(struct hr__opened *opened);  // NULL is fine

// ---- fields.c ----

// Returns how well a field's name fits, 0 best; HR__FIELD_NONE: not at all.
int hr__field_rank(const struct hr__source *s, enum hr__field field,
                   const char *name);

// ---- json.c ----

// A text of JSON from at on. Once it is bad, so is all that follows.
struct hr__json {
    const char *at, *end;  // *end is readable, and no part of it
    bool bad;
};
// is: says whether the next value begins so. begin: takes the begin of an
// object or an array.
bool hr__json_is(struct hr__json *j, char begin);
bool hr__json_begin(struct hr__json *j, char open);
// item: says whether an array (']') or object ('}') goes on. key: takes the
// next key of an object.
bool hr__json_item(struct hr__json *j, char close);
bool hr__json_key(struct hr__json *j, char *key, size_t size);
// Take a value: a text, which must fit (NULL: it is not kept), a whole number,
// any.
bool hr__json_text(struct hr__json *j, char *text, size_t size);
bool hr__json_number(struct hr__json *j, uint64_t *number);
void hr__json_skip(struct hr__json *j);

// ---- crc32c.c ----

uint32_t hr__crc32c(const void *data, size_t size);
uint32_t hr__crc32c_table(const void *data, size_t size);  // on any processor

#endif
