// SPDX-License-Identifier: Apache-2.0
// Inside the room cache.
#ifndef HR__CACHE_STORE_H
#define HR__CACHE_STORE_H

#include <pthread.h>
#include <stdatomic.h>

#include "hal/cache/cache.h"

struct hr__cache {
    struct hr_cache_t pub;  // first
    atomic_int refs;
    unsigned forks;  // hr__forks() of the process that made it
    uint64_t seed;

    pthread_mutex_t lock;    // guards what follows, and the lists
    struct entry **buckets;  // in this memory
    void *memory;
    size_t mask;                    // of buckets
    struct entry *newest, *oldest;  // of the entries in buckets
    struct hr_cache_stats stats;
};

uint64_t hr__cache_key_hash(const struct hr__cache *cache,
                            const struct hr__cache_key *key);

#endif
