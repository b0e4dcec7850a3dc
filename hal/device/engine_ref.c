// SPDX-License-Identifier: Apache-2.0
// A revocable pointer to an engine, and all that is counted through it.
#include "hal/device/device.h"

// Leaked references, kept reachable so that LeakSanitizer does not report them.
static struct hr__engine_ref *_Atomic left_behind;

void hr__engine_ref_init(struct hr__engine_ref *ref, struct hr__engine *e)
{
    pthread_mutex_init(&ref->lock, NULL);
    hr__cond_init(&ref->unused);
    ref->e = e;
}

struct hr__engine *hr__engine_ref_get(struct hr__engine_ref *ref)
{
    struct hr__engine *e;

    pthread_mutex_lock(&ref->lock);
    e = ref->e;
    ref->users += e != NULL;
    pthread_mutex_unlock(&ref->lock);
    return e;
}

void hr__engine_ref_put(struct hr__engine_ref *ref)
{
    pthread_mutex_lock(&ref->lock);
    if (!--ref->users)
        pthread_cond_broadcast(&ref->unused);
    pthread_mutex_unlock(&ref->lock);
}

void hr__engine_ref_revoke(struct hr__engine_ref *ref)
{
    pthread_mutex_lock(&ref->lock);
    ref->e = NULL;
    while (ref->users)
        pthread_cond_wait(&ref->unused, &ref->lock);
    pthread_mutex_unlock(&ref->lock);
    ref->next = atomic_load(&left_behind);
    while (!atomic_compare_exchange_weak(&left_behind, &ref->next, ref))
        ;
}

// ---- What only counts, under the lock ---------------------------------------

void hr__engine_ref_count(struct hr__engine_ref *ref, size_t counter,
                          uint64_t n)
{
    pthread_mutex_lock(&ref->lock);
    if (ref->e)
        hr__count((_Atomic uint64_t *)((char *)&ref->e->meter + counter), n);
    pthread_mutex_unlock(&ref->lock);
}

void *hr__engine_ref_alloc(struct hr__engine_ref *ref, size_t size)
{
    void *mem;

    if (!ref)
        return hr__alloc(NULL, size);
    pthread_mutex_lock(&ref->lock);
    mem = hr__alloc(ref->e ? ref->e->device : NULL, size);
    pthread_mutex_unlock(&ref->lock);
    return mem;
}

void hr__engine_ref_bytes(struct hr__engine_ref *ref, int64_t change)
{
    struct hr__device *dev;
    size_t now, peak;

    if (!change)
        return;
    pthread_mutex_lock(&ref->lock);
    if (ref->e) {
        dev = ref->e->device;
        now = atomic_fetch_add(&dev->device_bytes, (size_t)change) +
              (size_t)change;
        peak = atomic_load(&dev->peak_device_bytes);
        while (
            change > 0 && now > peak &&
            !atomic_compare_exchange_weak(&dev->peak_device_bytes, &peak, now))
            ;
    }
    pthread_mutex_unlock(&ref->lock);
}

void hr__engine_ref_thread(struct hr__engine_ref *ref, const char *name)
{
    pthread_mutex_lock(&ref->lock);
    if (ref->e)
        hr__watch_thread(ref->e, "%s", name);
    pthread_mutex_unlock(&ref->lock);
}

void hr__engine_ref_part(struct hr__engine_ref *ref, enum hr_part part,
                         uint64_t batch, int64_t begin)
{
    if (!begin)
        return;
    pthread_mutex_lock(&ref->lock);
    if (ref->e)
        hr__watch_part(ref->e, part, batch, begin);
    pthread_mutex_unlock(&ref->lock);
}

void hr__engine_ref_device(struct hr__engine_ref *ref, const char *queue,
                           enum hr_part part, uint64_t batch, int64_t begin,
                           int64_t end)
{
    pthread_mutex_lock(&ref->lock);
    if (ref->e)
        hr__watch_device(ref->e, queue, part, batch, begin, end);
    pthread_mutex_unlock(&ref->lock);
}
