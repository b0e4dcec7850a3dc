// SPDX-License-Identifier: Apache-2.0
// LMDB environments of version 0.9, of 64 bits: a data.mdb, in a folder or
// alone. Each value of the main database is an encoded picture, and its key the
// name; what stands before the key's first slash is the label, as a folder is.
//
//   page     u64  its number
//            u16  unused
//            u16  flags
//            u32  pages of a value; or u16 end of the list, u16 begin of the
//                 nodes
//                 a value; or a list of u16, where nodes are in the page
//   node     u32  bytes of the value; of a branch the lower bits of a page
//            u16  flags; of a branch the upper bits of the page
//            u16  bytes of the key
//                 the key, and the value or the page (u64) that it begins in
//   meta     u32  0xBEEFC0DE, u32 1, u64 address, u64 size of the map, two
//                 databases of 48 bytes (of free pages, and the main one), u64
//                 the last page, u64 the number of the transaction
//   database u32  bytes of a page (in the first), u16 flags, u16 depth, four
//                 u64, u64 the page of its root
//
// All little endian. Pages 0 and 1 have a meta each; that of the later
// transaction counts. The file is read, not mapped: liblmdb trusts what it
// maps, so that a file that is cut short or damaged ends the process.
//
// (openldap libraries/liblmdb/mdb.c, MDB_page, MDB_node, MDB_meta, MDB_db.)
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "hal/engine/base.h"
#include "source.h"

enum {
    PAGE_HEAD = 16,
    META = PAGE_HEAD + 136,
    NODE = 8,
    DEPTH = 32,
    LEAST_PAGE = 256,
    MOST_PAGE = 65536,
    NAME = 1024  // of a key of 511 bytes, in digits
};
enum { BRANCH = 1, LEAF = 2, OVERFLOW = 4, IN_META = 8 };  // of a page
enum { BIG = 1, SUB = 2, DUPLICATES = 4 };                 // of a node

#define MAGIC UINT32_C(0xBEEFC0DE)
#define NO_PAGE UINT64_MAX

struct lmdb {
    struct hr__source *s;
    struct hr__shard *shard;
    size_t page;          // bytes
    unsigned char *seen;  // a bit for each page that was gone through
    uint64_t root, transaction;
};

static unsigned half_at(const unsigned char *p)
{
    return p[0] | (unsigned)p[1] << 8;
}

static bool is_lmdb(const void *begin, size_t size)
{
    const unsigned char *p = begin;

    return size >= PAGE_HEAD + 8 && half_at(p + 10) & IN_META &&
           hr__word_at(p + PAGE_HEAD) == MAGIC;
}

// ---- Samples ---------------------------------------------------------------

// Says whether a key is a path below a folder.
static bool is_path(const unsigned char *key, size_t size)
{
    size_t part = 0, dots = 0;

    for (size_t i = 0; i <= size; i++) {
        unsigned c = i < size ? key[i] : '/';

        if (c == '/') {
            if (!part || (part == dots && dots <= 2))
                return false;
            part = dots = 0;
            continue;
        }
        if (c < ' ' || c == 0x7F)
            return false;
        part++;
        dots += c == '.';
    }
    return true;
}

// Other keys, such as numbers, are named by their digits.
static bool name_of(const unsigned char *key, size_t size, char name[NAME])
{
    if (is_path(key, size) && size < NAME) {
        memcpy(name, key, size);
        name[size] = '\0';
        return true;
    }
    if (!size || 2 * size >= NAME)
        return false;
    for (size_t i = 0; i < size; i++)
        snprintf(name + 2 * i, 3, "%02x", key[i]);
    return true;
}

// Checks the page's head, and finds the value behind it.
static const char *unwrap(const struct hr__range *range, unsigned char **at,
                          size_t *size)
{
    const unsigned char *p = *at;
    uint64_t number = hr__long_at(p);

    if (*size != PAGE_HEAD + range->inner || !(half_at(p + 10) & OVERFLOW) ||
        !number || range->offset % number)
        return "no value begins in its page";
    *size = (size_t)range->inner;
    *at += PAGE_HEAD;
    return NULL;
}

// A value that is too large for a page has pages of its own.
static bool range_of(const struct lmdb *l, const unsigned char *value,
                     uint64_t size, struct hr__range *range)
{
    uint64_t page = hr__long_at(value), pages = l->shard->size / l->page;

    if (page < 2 || page >= pages)
        return false;
    *range = (struct hr__range){.offset = page * l->page,
                                .size = PAGE_HEAD + size,
                                .wrapped = true,
                                .skip = PAGE_HEAD,
                                .inner = size};
    return range->size <= l->shard->size - range->offset;
}

// A node of a leaf, whose bytes are in its page from at on.
static bool put_node(struct lmdb *l, const unsigned char *page, size_t at,
                     uint64_t offset)
{
    const unsigned char *p = page + at;
    size_t keys = half_at(p + 6), room = l->page - at;
    uint64_t size = hr__word_at(p);
    unsigned flags = half_at(p + 4);
    struct hr__range range = {.offset = offset + at + NODE + keys,
                              .size = size};
    char name[NAME], label[NAME];
    const char *why = NULL;

    if (keys > room - NODE || !name_of(p + NODE, keys, name))
        why = "a key that cannot be a name";
    else if (flags & (SUB | DUPLICATES))
        return hr__shard_skip(l->s, l->shard, name, HR_SKIP_NO_PICTURE);
    else if (!strncmp(name, "__", 2) || !size)
        return hr__shard_skip(l->s, l->shard, name, HR_SKIP_NO_PICTURE);
    else if (flags & BIG ? room - NODE - keys < 8 ||
                               !range_of(l, p + NODE + keys, size, &range)
                         : size > room - NODE - keys)
        why = "the value lies outside of the file";
    if (why) {
        hr__shard_fault(l->s, l->shard, offset + at, NULL, why);
        return true;
    }
    snprintf(label, sizeof(label), "%.*s",
             strchr(name, '/') ? (int)strcspn(name, "/") : 0, name);
    return hr__shard_put(l->s, l->shard, name, label, range);
}

// ---- The tree --------------------------------------------------------------

// NULL, or what is wrong with a page that has nodes. All nodes have room in it:
// a list that names one again and again would make many samples of few bytes.
static const char *check_page(const struct lmdb *l, const unsigned char *page,
                              uint64_t number)
{
    unsigned flags = half_at(page + 10), end = half_at(page + 12);
    size_t most = (l->page - PAGE_HEAD) / (2 + NODE);

    if (hr__long_at(page) != number)
        return "the page has another number";
    if ((flags & ~16u) != BRANCH && (flags & ~16u) != LEAF)
        return "the page is neither branch nor leaf";
    if (end < PAGE_HEAD || end > PAGE_HEAD + 2 * most || end % 2)
        return "the list of nodes is damaged";
    return NULL;
}

static bool walk(struct lmdb *l, uint64_t number, int depth);

static bool walk_nodes(struct lmdb *l, const unsigned char *page,
                       uint64_t number, int depth)
{
    bool leaf = half_at(page + 10) & LEAF, ok = true;
    size_t n = (half_at(page + 12) - PAGE_HEAD) / 2;

    for (size_t i = 0; i < n && ok && hr__shard_goes_on(l->s, l->shard); i++) {
        size_t at = half_at(page + PAGE_HEAD + 2 * i);
        const unsigned char *p = page + at;

        if (at < PAGE_HEAD + 2 * n || at + NODE > l->page)
            hr__shard_fault(l->s, l->shard, number * l->page, NULL,
                            "a node lies outside of its page");
        else if (leaf)
            ok = put_node(l, page, at, number * l->page);
        else
            ok = walk(l, hr__word_at(p) | (uint64_t)half_at(p + 4) << 32,
                      depth + 1);
    }
    return ok;
}

// Goes through the pages from number down, in the order of the keys. A page
// that is damaged is a fault; others go on.
static bool walk(struct lmdb *l, uint64_t number, int depth)
{
    uint64_t pages = l->shard->size / l->page;
    const char *why = number >= pages  ? "a page lies outside of the file"
                      : depth >= DEPTH ? "the tree is too deep"
                      : l->seen[number / 8] >> number % 8 & 1
                          ? "two nodes lead to a page, as in a circle"
                          : NULL;
    unsigned char *page;
    bool ok = true;

    if (why) {
        hr__shard_fault(l->s, l->shard,
                        number < pages ? number * l->page : l->shard->size,
                        NULL, why);
        return true;
    }
    l->seen[number / 8] |= (unsigned char)(1 << number % 8);
    if (!(page = hr__alloc(NULL, l->page)))
        return hr__source_fail(HR_ENOMEM, "out of memory");
    if (hr__shard_read(l->shard, page, l->page, number * l->page))
        why = "it cannot be read";
    else
        why = check_page(l, page, number);
    if (why)
        hr__shard_fault(l->s, l->shard, number * l->page, NULL, why);
    else
        ok = walk_nodes(l, page, number, depth);
    hr__free(page);
    return ok;
}

// ---- Opening ---------------------------------------------------------------

// Says whether the meta at offset is good. Takes it, if it is later than the
// one before.
static bool take_meta(struct lmdb *l, uint64_t offset)
{
    unsigned char meta[META];
    const unsigned char *p = meta + PAGE_HEAD;
    size_t page;

    if (l->shard->size < META || offset > l->shard->size - META ||
        hr__shard_read(l->shard, meta, META, offset) || !is_lmdb(meta, META) ||
        hr__word_at(p + 4) != 1)
        return false;
    page = hr__word_at(p + 24);
    if (page < LEAST_PAGE || page > MOST_PAGE || page & (page - 1))
        return false;
    if (l->page && (l->page != page || hr__long_at(p + 128) < l->transaction))
        return l->page == page;
    l->page = page;
    l->transaction = hr__long_at(p + 128);
    l->root = hr__long_at(p + 24 + 48 + 40);
    return true;
}

static bool read_file(struct lmdb *l)
{
    // (Where the first is damaged the second is at any size of a page.)
    bool first = take_meta(l, 0), second = false, ok;
    void *memory, *seen;

    for (size_t page = LEAST_PAGE; page <= MOST_PAGE && !second; page *= 2)
        second = (!first || page == l->page) && take_meta(l, page);
    if (!first && !second)
        return hr__source_fail(HR_EFORMAT,
                               "%s: not an LMDB file of version 0.9",
                               hr__source_short(l->shard->path));
    if (!first || !second)
        hr__shard_fault(l->s, l->shard, first ? l->page : 0, NULL,
                        "a meta page is damaged, whose pictures may be lost");
    memory = hr__alloc_clear(NULL, l->shard->size / l->page / 8 + 1, &seen);
    if (!memory)
        return hr__source_fail(HR_ENOMEM, "out of memory");
    l->seen = seen;
    ok = l->root == NO_PAGE || walk(l, l->root, 0);
    hr__free(memory);
    return ok;
}

static bool add_lmdb(struct hr__source *s, const char *path)
{
    struct lmdb l = {.s = s, .shard = hr__shard_open(s, path)};

    if (l.shard) {
        l.shard->unwrap = unwrap;
        l.shard->names = true;
    }
    return l.shard && hr__shard_opened(l.shard, read_file(&l) &&
                                                    hr__shard_ends(s, l.shard));
}

const struct hr__container hr__container_lmdb = {
    .endings = ".mdb .lmdb",
    .inside = "data.mdb",
    .is = is_lmdb,
    .add = add_lmdb,
};
