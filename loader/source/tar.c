// SPDX-License-Identifier: Apache-2.0
// Tar files in WebDataset form: members that follow each other and are called
// alike up to the first dot of their last part are one sample. One of them
// is the picture, and KEY.cls, if it is there, has the label. A sample without
// a picture is skipped. Names are labels for messages: a path in a tar is never
// opened.
//
// libarchive reads the headers, once; the place of a picture's bytes is kept,
// and threads read them from there. It is loaded when the first tar is opened:
// programs without tars need no libarchive.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "hal/engine/base.h"
#include "loader/pack/format.h"
#include "source.h"

#if HR_HAVE_ARCHIVE

#include <archive.h>
#include <archive_entry.h>

// ---- The library -----------------------------------------------------------

#define ARCHIVE_CALLS(X)               \
    X(archive_read_new)                \
    X(archive_read_support_format_tar) \
    X(archive_read_set_format_option)  \
    X(archive_read_open2)              \
    X(archive_read_next_header)        \
    X(archive_read_data_block)         \
    X(archive_read_free)               \
    X(archive_filter_bytes)            \
    X(archive_error_string)            \
    X(archive_entry_filetype)          \
    X(archive_entry_hardlink)          \
    X(archive_entry_pathname)          \
    X(archive_entry_pathname_utf8)     \
    X(archive_entry_size)              \
    X(archive_entry_sparse_count)

static struct library {
#define X(name) __typeof__(&name) name;
    ARCHIVE_CALLS(X)
#undef X
    bool there;
} lib;

static const struct hr__entry entries[] = {
#define X(name) {#name, offsetof(struct library, name), false},
    ARCHIVE_CALLS(X)
#undef X
};

static void load(void)
{
    void *handle = hr__library_open(HR__LIBRARY_ARCHIVE);

    lib.there = handle && !hr__library_fill(handle, &lib, entries,
                                            sizeof(entries) / sizeof(*entries));
}

static bool need_library(const char *path)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
    return lib.there ||
           hr__source_fail(HR_EUNSUPPORTED,
                           "%s: libarchive.so.13 is not there or too old",
                           hr__source_short(path));
}

enum {
    BLOCK = 512,
    MEMBERS = 4 * BLOCK  // a label, and the header of the next picture
};

// ---- One sample in the making ----------------------------------------------

struct tar {
    struct hr__source *s;
    struct hr__shard *shard;
    size_t faults;  // of the source before
    struct archive *archive;
    char key[PATH_MAX], name[PATH_MAX], label[PATH_MAX];
    bool has_key, has_picture, has_label;
    enum rank { ALONE, OTHER, BESIDE } rank;  // of the picture
    struct hr__range picture;
    uint64_t second;  // where one more of that rank begins, or 0
    uint64_t end;     // where the last member ends, if that is known
    // Bytes for libarchive: up to the end of a page, or of the next one. It
    // skips the rest of a picture.
    unsigned char block[HR__SHARD_PAGE + MEMBERS];
    uint64_t position;
    bool unread;
    // Hashes of all keys, to find repeated ones.
    struct tar_key {
        XXH128_hash_t hash;
        uint64_t offset;
    } * keys;
    size_t num_keys, keys_capacity;
};

// Samples that are not as they must be are an error of the tar as a whole; if it
// is known to be damaged, they are one more fault.
static bool disorder(const struct tar *t, uint64_t offset, const char *name,
                     const char *why)
{
    if (t->faults != t->s->pub.num_faults) {
        hr__shard_fault(t->s, t->shard, offset, name, why);
        return true;
    }
    return hr__source_fail(HR_ECORRUPT, "%s: offset %llu: %s%s%s",
                           hr__source_short(t->shard->path),
                           (unsigned long long)offset,
                           name ? hr__source_short(name) : "", name ? ": " : "",
                           why);
}

// A sample without a picture that is read. Its class is one all the same.
static bool skip_sample(struct tar *t)
{
    int64_t number;
    uint32_t label;

    return (hr__source_number(t->label, &number) ||
            hr__source_name_class(t->s, t->label, NULL, &label)) &&
           hr__shard_skip(t->s, t->shard, t->name, HR_SKIP_NO_PICTURE);
}

static bool end_sample(struct tar *t)
{
    bool ok = (!t->second || disorder(t, t->second, t->name,
                                      "the sample has two pictures")) &&
              (!t->has_key ||
               (t->has_picture ? hr__shard_put(t->s, t->shard, t->name,
                                               t->label, t->picture)
                               : skip_sample(t)));

    t->has_key = t->has_picture = t->has_label = false;
    t->second = 0;
    t->label[0] = '\0';
    return ok;
}

static bool begin_sample(struct tar *t, const char *name, size_t length,
                         uint64_t offset)
{
    struct tar_key key = {XXH3_128bits(name, length), offset};

    if (t->has_key && strlen(t->key) == length && !memcmp(t->key, name, length))
        return true;
    if (!end_sample(t) ||
        !hr__source_grow(&t->keys, &t->keys_capacity, t->num_keys, sizeof(key)))
        return false;
    t->keys[t->num_keys++] = key;
    memcpy(t->key, name, length);
    t->key[length] = '\0';
    memcpy(t->name, name, strlen(name) + 1);
    t->has_key = true;
    return true;
}

// ---- Members ---------------------------------------------------------------

// Finds where the data of the member begin that libarchive stands at. It does
// not tell, so its bytes are compared with the file's.
static bool find_data(struct tar *t, uint64_t size, uint64_t *offset)
{
    const unsigned char *there;
    const void *block;
    size_t n = 0;
    la_int64_t from = 0;

    if (!size) {
        *offset = 0;
        return true;
    }
    if (lib.archive_read_data_block(t->archive, &block, &n, &from) <
            ARCHIVE_OK ||
        from || !n)
        return false;
    *offset = (uint64_t)lib.archive_filter_bytes(t->archive, 0);
    n = n < BLOCK ? n : BLOCK;
    return size <= t->shard->size && *offset <= t->shard->size - size &&
           (there = hr__shard_look(t->shard, n, *offset)) &&
           !memcmp(there, block, n);
}

// A text without what is around it; whatever is no text is no label.
static bool read_label(struct tar *t, uint64_t offset, uint64_t size)
{
    size_t begin = 0, end = (size_t)size;

    if (size >= sizeof(t->label) ||
        hr__shard_read(t->shard, t->label, end, offset))
        return false;
    t->label[end] = '\0';
    if (strlen(t->label) < end)
        return false;
    while (end && strchr(" \t\r\n", t->label[end - 1]))
        t->label[--end] = '\0';
    begin = strspn(t->label, " \t\r\n");
    memmove(t->label, t->label + begin, end - begin + 1);
    return true;
}

// A sample's picture is the first one of the lowest rank. The others are masks
// and the like, as KEY.seg.png is beside KEY.jpg. Two that only longer suffixes
// tell apart are an error, for either may be meant.
static enum rank rank_of(const char *suffix)
{
    if (strchr(suffix + 1, '.'))
        return BESIDE;
    return hr__source_is_other_picture(suffix) ? OTHER : ALONE;
}

static void put_picture(struct tar *t, const char *name, enum rank rank,
                        struct hr__range range)
{
    if (t->has_picture && rank >= t->rank) {
        if (rank == t->rank && rank != OTHER)
            t->second = range.offset;
        return;
    }
    t->second = 0;
    t->rank = rank;
    t->has_picture = true;
    t->picture = range;
    memcpy(t->name, name, strlen(name) + 1);
}

// Adds a member. False: stop, with hr_last_error().
static bool put_member(struct tar *t, const char *name, uint64_t size)
{
    const char *slash = strrchr(name, '/');
    const char *dot = strchr(slash ? slash + 1 : name, '.');
    uint64_t offset = 0;

    if (!dot || dot == (slash ? slash + 1 : name))
        return true;  // of no sample
    if (!find_data(t, size, &offset)) {
        hr__shard_fault(t->s, t->shard, offset, name, "the file ends in it");
        return true;
    }
    if (!begin_sample(t, name, (size_t)(dot - name), offset))
        return false;
    if (!strcasecmp(dot + 1, "cls")) {
        if (t->has_label)
            return disorder(t, offset, name, "the sample has two labels");
        t->has_label = true;
        if (read_label(t, offset, size))
            return true;
        t->label[0] = '\0';
        hr__shard_fault(t->s, t->shard, offset, name, "it is not a label");
    } else if (hr__source_is_picture(dot)) {
        put_picture(t, name, rank_of(dot),
                    (struct hr__range){.offset = offset, .size = size});
    }
    return true;
}

// Why a member is left out; NULL: it is not.
static const char *refuse(struct archive_entry *entry, const char *name)
{
    if (lib.archive_entry_filetype(entry) != AE_IFREG ||
        lib.archive_entry_hardlink(entry))
        return "it is a link or a device";
    if (lib.archive_entry_sparse_count(entry))
        return "it is sparse";
    if (lib.archive_entry_size(entry) < 0)
        return "its size is negative";
    if (strlen(name) >= PATH_MAX - 1 || !pack_is_name(name, strlen(name)))
        return "the name is not a relative path";
    return NULL;
}

static bool take_member(struct tar *t, struct archive_entry *entry)
{
    const char *name = lib.archive_entry_pathname(entry), *why;

    if (!name)
        name = lib.archive_entry_pathname_utf8(entry);
    if (!name)
        name = "";
    if (lib.archive_entry_filetype(entry) == AE_IFDIR)
        return true;
    while (!strncmp(name, "./", 2))
        name += 2;
    t->end = 0;
    if ((why = refuse(entry, name))) {
        hr__shard_fault(t->s, t->shard,
                        (uint64_t)lib.archive_filter_bytes(t->archive, 0), name,
                        why);
        return true;
    }
    t->end = (uint64_t)lib.archive_filter_bytes(t->archive, 0) +
             (uint64_t)lib.archive_entry_size(entry);
    t->end = (t->end + BLOCK - 1) / BLOCK * BLOCK;
    return put_member(t, name, (uint64_t)lib.archive_entry_size(entry));
}

// ---- The file --------------------------------------------------------------

// Says whether the archive ended before what libarchive has just read: by two
// blocks of zeros. (It reads on, as one block may be a damaged header.)
static bool is_ended(const struct tar *t)
{
    unsigned char there[2 * BLOCK];

    if (!t->end || t->shard->size < sizeof(there) ||
        t->end > t->shard->size - sizeof(there) ||
        lib.archive_filter_bytes(t->archive, 0) == (la_int64_t)t->end + BLOCK ||
        hr__shard_read(t->shard, there, sizeof(there), t->end))
        return false;
    return !*there && !memcmp(there, there + 1, sizeof(there) - 1);
}

// Behind a damaged header, the next block that is one is searched.
static bool read_members(struct tar *t)
{
    struct archive_entry *entry;
    bool searches = false;

    while (hr__shard_goes_on(t->s, t->shard)) {
        int code = lib.archive_read_next_header(t->archive, &entry);
        const char *why = t->unread ? "it cannot be read"
                                    : lib.archive_error_string(t->archive);

        if (!searches && is_ended(t)) {
            if (code == ARCHIVE_OK || code == ARCHIVE_WARN)
                hr__shard_fault(t->s, t->shard, t->end, NULL,
                                "the archive ends before other members");
            break;
        }
        if (code == ARCHIVE_OK || code == ARCHIVE_WARN) {
            searches = false;
            if (!take_member(t, entry))
                return false;
            continue;
        }
        if (code == ARCHIVE_EOF)
            break;
        if (!t->num_keys)
            return hr__source_fail(HR_EFORMAT, "%s: %s",
                                   hr__source_short(t->shard->path),
                                   why ? why : "not a tar file");
        if (!searches)
            hr__shard_fault(t->s, t->shard,
                            (uint64_t)lib.archive_filter_bytes(t->archive, 0),
                            NULL, why ? why : "damaged");
        searches = true;
        if (code != ARCHIVE_RETRY)
            break;
    }
    return end_sample(t) && hr__shard_ends(t->s, t->shard);
}

static int compare_keys(const void *a, const void *b)
{
    const struct tar_key *ka = a, *kb = b;

    if (ka->hash.high64 != kb->hash.high64)
        return ka->hash.high64 < kb->hash.high64 ? -1 : 1;
    if (ka->hash.low64 != kb->hash.low64)
        return ka->hash.low64 < kb->hash.low64 ? -1 : 1;
    return 0;
}

static bool check_keys(const struct tar *t)
{
    if (t->num_keys)
        qsort(t->keys, t->num_keys, sizeof(*t->keys), compare_keys);
    for (size_t i = 1; i < t->num_keys; i++) {
        char why[96];

        if (compare_keys(&t->keys[i - 1], &t->keys[i]))
            continue;
        snprintf(why, sizeof(why),
                 "members of the same sample do not follow each other: see "
                 "offset %llu",
                 (unsigned long long)t->keys[i - 1].offset);
        if (!disorder(t, t->keys[i].offset, NULL, why))
            return false;
    }
    return true;
}

static la_ssize_t read_block(struct archive *archive, void *ctx,
                             const void **data)
{
    struct tar *t = ctx;
    uint64_t left = t->shard->size - t->position;
    size_t n = HR__SHARD_PAGE - (size_t)(t->position % HR__SHARD_PAGE);

    (void)archive;
    n += n < MEMBERS ? HR__SHARD_PAGE : 0;
    n = n < left ? n : (size_t)left;
    t->unread = hr__shard_read(t->shard, t->block, n, t->position);
    if (t->unread)
        return ARCHIVE_FATAL;
    t->position += n;
    *data = t->block;
    return (la_ssize_t)n;
}

static la_int64_t skip_bytes(struct archive *archive, void *ctx, la_int64_t n)
{
    struct tar *t = ctx;
    uint64_t left = t->shard->size - t->position;

    (void)archive;
    n = (uint64_t)n > left ? (la_int64_t)left : n;
    t->position += (uint64_t)n;
    return n;
}

static bool open_archive(struct tar *t)
{
    const char *why;

    if (!(t->archive = lib.archive_read_new()) ||
        lib.archive_read_support_format_tar(t->archive) != ARCHIVE_OK ||
        // (A header of zeros would be the end.)
        lib.archive_read_set_format_option(
            t->archive, "tar", "read_concatenated_archives", "1") != ARCHIVE_OK)
        return hr__source_fail(HR_ENOMEM, "out of memory");
    if (lib.archive_read_open2(t->archive, t, NULL, read_block, skip_bytes,
                               NULL) == ARCHIVE_OK)
        return true;
    why = lib.archive_error_string(t->archive);
    return hr__source_fail(HR_EFORMAT, "%s: not a tar file: %s",
                           hr__source_short(t->shard->path), why ? why : "?");
}

static bool add_tar(struct hr__source *s, const char *path)
{
    struct tar *t = need_library(path) ? hr__alloc(NULL, sizeof(*t)) : NULL;
    bool ok;

    if (!t)
        return lib.there && hr__source_fail(HR_ENOMEM, "out of memory");
    *t = (struct tar){.s = s,
                      .shard = hr__shard_open(s, path),
                      .faults = s->pub.num_faults};
    ok = t->shard &&
         hr__shard_opened(t->shard,
                          open_archive(t) && read_members(t) && check_keys(t));
    if (t->archive)
        lib.archive_read_free(t->archive);
    hr__free(t->keys);
    hr__free(t);
    return ok;
}

#else

static bool add_tar(struct hr__source *s, const char *path)
{
    (void)s;
    return hr__source_fail(
        HR_EUNSUPPORTED, "%s: built without libarchive, which reads tar files",
        hr__source_short(path));
}

#endif

const struct hr__container hr__container_tar = {
    .endings = ".tar",
    .add = add_tar,
};
