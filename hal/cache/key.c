// SPDX-License-Identifier: Apache-2.0
// Keys of the cache: a file's identity and times, or a hash of the bytes.
#define XXH_INLINE_ALL
// Bytes of a sample were mostly used an epoch ago: they come from far away, and
// the hash waits for nothing else. (With wider registers it takes as long.)
#define XXH_PREFETCH_DIST 2048
#include <sys/stat.h>
#include <time.h>

#include <xxhash.h>

#include "hal/cache/store.h"

// (Modulo 2^64: files may be of the year 2400.)
static uint64_t ns_of(const struct timespec *t)
{
    return (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec;
}

// The kernel stamps files with the time of its last clock tick: a second write
// within the same tick leaves no trace.
static bool settled(const struct timespec *changed)
{
    const int64_t tick = changed->tv_nsec ? 100000000 : 2000000000;

    return (int64_t)((uint64_t)hr__read_clock(CLOCK_REALTIME) -
                     ns_of(changed)) > tick;
}

bool hr__cache_key_file(struct hr__cache_key *key, const struct stat *st)
{
    *key = (struct hr__cache_key){{
        0,
        (uint64_t)st->st_dev,
        (uint64_t)st->st_ino,
        (uint64_t)st->st_size,
        ns_of(&st->st_mtim),
        ns_of(&st->st_ctim),
    }};
    return settled(&st->st_ctim);
}

// Makes the key of bytes. Without knowing the seed one cannot construct two
// pictures of the same key.
void hr__cache_key_data(const struct hr__cache *cache,
                        struct hr__cache_key *key, const void *data,
                        size_t size)
{
    XXH128_hash_t h = XXH3_128bits_withSeed(data, size, cache->seed);

    *key = (struct hr__cache_key){{1, h.low64, h.high64, size}};
}

uint64_t hr__cache_key_hash(const struct hr__cache *cache,
                            const struct hr__cache_key *key)
{
    return XXH3_64bits_withSeed(key, sizeof(*key), cache->seed);
}
