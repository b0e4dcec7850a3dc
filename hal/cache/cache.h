// SPDX-License-Identifier: Apache-2.0
// The room cache: packed pictures in memory, by what they were made of. It
// knows nothing of pictures but that they are bytes.
#ifndef HR__CACHE_H
#define HR__CACHE_H

#include <headrace/cache.h>

#include "hal/base/base.h"

struct stat;
struct hr__cache;

// Identifies the file or the bytes that a picture was made of.
struct hr__cache_key {
    uint64_t words[6];
};
// Makes the key of a file. False: it has changed too recently.
bool hr__cache_key_file(struct hr__cache_key *key, const struct stat *st);
void hr__cache_key_data(const struct hr__cache *cache,
                        struct hr__cache_key *key, const void *data,
                        size_t size);

// A picture. The holder of a reference may read it, also after its eviction.
struct hr__cache_entry {
    struct hr_cached_t pub;  // first; header is NULL if it is too long
    struct hr__cache *cache;
    struct hr__cache_key key;
    size_t size;    // of the picture,
    uint8_t *data;  // which begins at a multiple of 64
};

// The cache that a sample is to use, with a reference: the first of its own,
// its device's, the process's. NULL: none.
struct hr__cache *hr__cache_of(hr_cache own, hr_cache devices);
void hr__cache_unref(struct hr__cache *cache);  // NULL is fine

// The entry of that key, held; NULL.
struct hr__cache_entry *hr__cache_find(struct hr__cache *cache,
                                       const struct hr__cache_key *key);
// Counts a picture that was found, or could have been: once, however often it
// was looked for.
void hr__cache_count(struct hr__cache *cache, bool hit);
// Makes an entry, held, which is not in the table yet: of the file of these
// facts that begins at header. NULL: no room, no memory.
struct hr__cache_entry *hr__cache_make(struct hr__cache *cache,
                                       const struct hr__cache_key *key,
                                       size_t size, const struct hr_info *info,
                                       const void *header);
// Holds it once more.
struct hr__cache_entry *hr__cache_hold(struct hr__cache_entry *entry);
// Lets the entry be found from now on, unless another of its key is.
void hr__cache_publish(struct hr__cache_entry *entry);
void hr__cache_drop(struct hr__cache_entry *entry);  // NULL is fine

#endif
