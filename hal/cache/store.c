// SPDX-License-Identifier: Apache-2.0
// A table by hash, and a list by use. Memory counts from when it is taken to
// when it is given back: also entries that are being filled, and evicted ones
// that are still read.
#include "hal/cache/store.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

struct entry {
    struct hr__cache_entry pub;  // first
    uint64_t hash;
    int refs;            // holders; and the table
    bool found;          // in the table
    size_t bytes;        // of memory, with this struct
    struct entry *next;  // in its bucket
    struct entry *newer, *older;
};

// The picture begins behind it; the header of its file behind that.
enum { HEAD = (sizeof(struct entry) + 63) & ~63, MOST_HEADER = 65536 };

// ---- Lists, all under the lock ----------------------------------------------

static struct entry **bucket_of(struct hr__cache *cache, uint64_t hash)
{
    return &cache->buckets[hash & cache->mask];
}

static struct entry *look_up(struct hr__cache *cache, uint64_t hash,
                             const struct hr__cache_key *key)
{
    struct entry *e = *bucket_of(cache, hash);

    while (e && (e->hash != hash || memcmp(&e->pub.key, key, sizeof(*key))))
        e = e->next;
    return e;
}

static void link_newest(struct hr__cache *cache, struct entry *e)
{
    e->newer = NULL;
    e->older = cache->newest;
    if (e->older)
        e->older->newer = e;
    else
        cache->oldest = e;
    cache->newest = e;
}

static void unlink_use(struct hr__cache *cache, struct entry *e)
{
    if (e->newer)
        e->newer->older = e->older;
    else
        cache->newest = e->older;
    if (e->older)
        e->older->newer = e->newer;
    else
        cache->oldest = e->newer;
}

// Returns what is to be freed without the lock, or NULL.
static struct entry *unref(struct entry *e)
{
    if (--e->refs)
        return NULL;
    e->pub.cache->stats.bytes -= e->bytes;
    return e;
}

static struct entry *evict(struct hr__cache *cache, struct entry *e)
{
    struct entry **at = bucket_of(cache, e->hash);

    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    unlink_use(cache, e);
    e->found = false;
    cache->stats.pictures--;
    cache->stats.evictions++;
    return unref(e);
}

// ---- Its life ---------------------------------------------------------------

// Buckets for pictures of 16 KiB: of smaller ones more share one.
static size_t buckets_for(size_t bytes)
{
    size_t n = 64;

    while (n < (size_t)1 << 20 && n < bytes >> 14)
        n *= 2;
    return n;
}

static struct hr__cache *make(size_t bytes)
{
    struct hr__cache *cache = hr__alloc(NULL, sizeof(*cache));
    size_t n = buckets_for(bytes);
    void *buckets;

    if (!cache)
        return NULL;
    *cache = (struct hr__cache){0};
    cache->memory = hr__alloc_clear(NULL, n * sizeof(struct entry *), &buckets);
    if (!cache->memory) {
        hr__free(cache);
        return NULL;
    }
    cache->buckets = buckets;
    cache->pub.bytes = bytes;
    cache->mask = n - 1;
    cache->forks = hr__forks();
    atomic_init(&cache->refs, 1);
    // (Without it pictures are told apart as well, but by a known rule.)
    if (getrandom(&cache->seed, sizeof(cache->seed), GRND_NONBLOCK) < 0)
        cache->seed = (uint64_t)hr__now();
    pthread_mutex_init(&cache->lock, NULL);
    return cache;
}

static bool is_parents(const struct hr__cache *cache)
{
    return cache->forks != hr__forks();
}

hr_cache hr_cache_create(size_t bytes)
{
    struct hr__cache *cache;

    if (!bytes)
        return hr__fail(HR_EINVAL, "a cache of 0 bytes"), NULL;
    if (!(cache = make(bytes)))
        return hr__fail(HR_ENOMEM, "out of memory for a cache"), NULL;
    return &cache->pub;
}

hr_cache hr__cache_retain(hr_cache handle)
{
    if (handle)
        atomic_fetch_add(&((struct hr__cache *)handle)->refs, 1);
    return handle;
}

void hr__cache_unref(struct hr__cache *cache)
{
    // In a child of a fork another thread of the parent may have held the lock.
    if (!cache || atomic_fetch_sub(&cache->refs, 1) != 1 || is_parents(cache))
        return;
    // (Every holder of an entry has a reference to the cache.)
    while (cache->oldest)
        hr__free(evict(cache, cache->oldest));
    pthread_mutex_destroy(&cache->lock);
    hr__free(cache->memory);
    hr__free(cache);
}

void hr_cache_release(hr_cache *handle)
{
    if (!handle)
        return;
    hr__cache_unref((struct hr__cache *)*handle);
    *handle = NULL;
}

void hr_cache_stats(hr_cache handle, struct hr_cache_stats *stats)
{
    struct hr__cache *cache = (struct hr__cache *)handle;

    *stats = (struct hr_cache_stats){0};
    if (!cache || is_parents(cache))
        return;
    pthread_mutex_lock(&cache->lock);
    *stats = cache->stats;
    pthread_mutex_unlock(&cache->lock);
}

// ---- The one of the process -------------------------------------------------

// Its reference is never looked at without the lock, which a child makes anew.
static struct {
    pthread_mutex_t lock;
    struct hr__cache *cache;
} the;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    pthread_mutex_lock(&the.lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&the.lock);
}

static void begin(void)
{
    pthread_mutex_init(&the.lock, NULL);
    pthread_atfork(before_fork, after_fork, after_fork);
}

// Makes the cache one of this process; the lock is held.
static void renew(void)
{
    if (the.cache && is_parents(the.cache))
        the.cache = make(the.cache->pub.bytes);
}

enum hr_status hr_set_cache(hr_cache handle)
{
    struct hr__cache *cache = (struct hr__cache *)handle, *old;

    if (cache && is_parents(cache))
        return hr__fail(HR_EINVAL, "a cache made before fork");
    pthread_once(&once, begin);
    hr__cache_retain(handle);
    pthread_mutex_lock(&the.lock);
    old = the.cache;
    the.cache = cache;
    pthread_mutex_unlock(&the.lock);
    hr__cache_unref(old);
    return HR_OK;
}

static struct hr__cache *of_process(void)
{
    struct hr__cache *cache;

    pthread_once(&once, begin);
    pthread_mutex_lock(&the.lock);
    renew();
    cache = the.cache;
    if (cache)
        atomic_fetch_add(&cache->refs, 1);
    pthread_mutex_unlock(&the.lock);
    return cache;
}

hr_cache hr_get_cache(void)
{
    return (hr_cache)of_process();
}

struct hr__cache *hr__cache_of(hr_cache own, hr_cache devices)
{
    hr_cache named = own ? own : devices;

    if (!named)
        return of_process();
    if (is_parents((struct hr__cache *)named))
        return NULL;
    return (struct hr__cache *)hr__cache_retain(named);
}

// ---- Entries ----------------------------------------------------------------

struct hr__cache_entry *hr__cache_hold(struct hr__cache_entry *entry)
{
    struct hr__cache *cache = entry->cache;

    pthread_mutex_lock(&cache->lock);
    ((struct entry *)entry)->refs++;
    pthread_mutex_unlock(&cache->lock);
    atomic_fetch_add(&cache->refs, 1);
    return entry;
}

struct hr__cache_entry *hr__cache_find(struct hr__cache *cache,
                                       const struct hr__cache_key *key)
{
    uint64_t hash = hr__cache_key_hash(cache, key);
    struct entry *e;

    pthread_mutex_lock(&cache->lock);
    e = look_up(cache, hash, key);
    if (e) {
        e->refs++;
        unlink_use(cache, e);
        link_newest(cache, e);
    }
    pthread_mutex_unlock(&cache->lock);
    if (e)
        atomic_fetch_add(&cache->refs, 1);
    return e ? &e->pub : NULL;
}

void hr__cache_count(struct hr__cache *cache, bool hit)
{
    pthread_mutex_lock(&cache->lock);
    cache->stats.hits += hit;
    cache->stats.misses += !hit;
    pthread_mutex_unlock(&cache->lock);
}

// Evicts entries until `bytes` bytes of memory are free, the oldest first, and
// returns them as a list. Entries that are in use stay, as evicting them would
// free nothing. NULL: there are not so many.
static struct entry *evict_bytes(struct hr__cache *cache, size_t bytes)
{
    struct entry *gone = NULL, *newer;
    size_t found = 0;

    for (struct entry *e = cache->oldest; e && found < bytes; e = e->newer)
        found += e->refs == 1 ? e->bytes : 0;
    if (found < bytes)
        return NULL;
    found = 0;
    for (struct entry *e = cache->oldest; found < bytes; e = newer) {
        newer = e->newer;
        if (e->refs != 1)
            continue;
        found += e->bytes;
        evict(cache, e);
        e->next = gone;
        gone = e;
    }
    return gone;
}

// Says whether there is room for so many bytes, which are then taken.
static bool take_room(struct hr__cache *cache, size_t bytes)
{
    struct entry *gone = NULL, *e;
    size_t limit = cache->pub.bytes;
    bool ok;

    pthread_mutex_lock(&cache->lock);
    if (bytes <= limit && cache->stats.bytes > limit - bytes)
        gone = evict_bytes(cache, cache->stats.bytes - (limit - bytes));
    ok = bytes <= limit && cache->stats.bytes <= limit - bytes;
    cache->stats.bytes += ok ? bytes : 0;
    pthread_mutex_unlock(&cache->lock);
    while ((e = gone)) {
        gone = e->next;
        hr__free(e);
    }
    return ok;
}

// Asks for all pages at once, as all will be written: page faults one by one
// cost as much as packing. A kernel before 5.14 cannot do that.
static void want_pages(uint8_t *data, size_t size)
{
#ifdef MADV_POPULATE_WRITE
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t skip = -(uintptr_t)data & (page - 1);

    if (size > 8 * page)
        (void)madvise(data + skip, (size - skip) & ~(page - 1),
                      MADV_POPULATE_WRITE);
#else
    (void)data;
    (void)size;
#endif
}

struct hr__cache_entry *hr__cache_make(struct hr__cache *cache,
                                       const struct hr__cache_key *key,
                                       size_t size, const struct hr_info *info,
                                       const void *header)
{
    size_t head = info->header_size <= MOST_HEADER ? info->header_size : 0;
    size_t bytes = HEAD + ((size + head + 63) & ~(size_t)63);
    struct entry *e;

    if (!take_room(cache, bytes))
        return NULL;
    e = hr__alloc(NULL, bytes);
    if (!e) {
        pthread_mutex_lock(&cache->lock);
        cache->stats.bytes -= bytes;
        pthread_mutex_unlock(&cache->lock);
        return NULL;
    }
    want_pages((uint8_t *)e, bytes);
    *e = (struct entry){
        .pub = {.pub = {.info = *info, .packed_size = size},
                .cache = cache,
                .key = *key,
                .size = size,
                .data = (uint8_t *)e + HEAD},
        .hash = hr__cache_key_hash(cache, key),
        .refs = 1,
        .bytes = bytes,
    };
    e->pub.pub.packed = e->pub.data;
    if (head)
        e->pub.pub.header = memcpy(e->pub.data + size, header, head);
    atomic_fetch_add(&cache->refs, 1);
    return &e->pub;
}

void hr__cache_publish(struct hr__cache_entry *entry)
{
    struct entry *e = (struct entry *)entry;
    struct hr__cache *cache = entry->cache;

    pthread_mutex_lock(&cache->lock);
    if (!e->found && !look_up(cache, e->hash, &entry->key)) {
        struct entry **bucket = bucket_of(cache, e->hash);

        e->next = *bucket;
        *bucket = e;
        e->refs++;
        e->found = true;
        link_newest(cache, e);
        cache->stats.kept++;
        cache->stats.pictures++;
    }
    pthread_mutex_unlock(&cache->lock);
}

void hr__cache_drop(struct hr__cache_entry *entry)
{
    struct hr__cache *cache;
    struct entry *gone;

    if (!entry)
        return;
    cache = entry->cache;
    pthread_mutex_lock(&cache->lock);
    gone = unref((struct entry *)entry);
    pthread_mutex_unlock(&cache->lock);
    hr__free(gone);
    hr__cache_unref(cache);
}

// ---- For callers ------------------------------------------------------------

hr_cached hr_cache_find(hr_cache handle, const struct stat *status)
{
    struct hr__cache *cache = (struct hr__cache *)handle;
    struct hr__cache_entry *entry;
    struct hr__cache_key key;

    if (!cache || is_parents(cache))
        return NULL;
    hr__cache_key_file(&key, status);
    entry = hr__cache_find(cache, &key);
    if (entry && !entry->pub.header) {
        hr__cache_drop(entry);
        entry = NULL;
    }
    return (hr_cached)entry;
}

void hr_cached_release(hr_cached *cached)
{
    struct hr__cache_entry *entry;

    if (!cached)
        return;
    entry = (struct hr__cache_entry *)*cached;
    *cached = NULL;
    // (In the child of a fork it is its parent's.)
    if (entry && !is_parents(entry->cache))
        hr__cache_drop(entry);
}
