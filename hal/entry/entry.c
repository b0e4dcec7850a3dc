// SPDX-License-Identifier: Apache-2.0
// Public calls that take a device, or NULL for the default one: each finds the
// device and makes one call down.
#include <string.h>

#include "hal/entry/entry.h"

// ---- Memory -----------------------------------------------------------------

hr_image hr_image_create(hr_device handle, const struct hr_image_params *params)
{
    struct hr__device *dev = hr__device_get(handle);
    hr_image image = dev ? hr__image_make(dev, params, true) : NULL;

    hr__device_unref(dev);
    return image;
}

hr_batch hr_batch_create(hr_device handle, const struct hr_batch_params *params)
{
    struct hr__device *dev = hr__device_get(handle);
    hr_batch batch = dev ? hr__batch_make(dev, params) : NULL;

    hr__device_unref(dev);
    return batch;
}

// ---- Jobs -------------------------------------------------------------------

hr_job hr_submit(hr_device handle, const struct hr_sample *samples, int n,
                 hr_batch to, const struct hr_job_params *params)
{
    static const struct hr_job_params none;
    struct hr__batch *batch = (struct hr__batch *)to;
    struct hr__device *dev;
    hr_job job;

    if (!samples || n < 1 || n > 1 << 20)
        return hr__fail(HR_EINVAL, "submit: %d samples", n), NULL;
    params = params ? params : &none;
    if ((unsigned)params->tier > HR_FAST ||
        (unsigned)params->on_error > HR_ON_ERROR_SKIP)
        return hr__fail(HR_EINVAL, "submit: unknown tier or on_error"), NULL;
    // The default device may have changed since the batch was made: the batch's
    // own counts.
    handle = !handle && batch ? &batch->dev->pub : handle;
    if (!(dev = hr__device_get(handle)))
        return NULL;
    job = hr__submit(dev, samples, n, batch, params);
    hr__device_unref(dev);
    return job;
}

enum hr_status hr_wait_all(hr_device handle, int64_t timeout_ns)
{
    int64_t deadline = hr__deadline(timeout_ns);
    struct hr__device *dev = hr__device_get(handle);
    enum hr_status status;

    if (!dev)
        return hr_last_status();
    status = hr__wait_all(dev, deadline);
    hr__device_unref(dev);
    return status;
}

// ---- The device -------------------------------------------------------------

enum hr_status hr__device_use_threads(hr_device handle, int n, int *before)
{
    struct hr__engine *host;
    struct hr__device *dev;
    int was;

    if (n < 0)
        return hr__fail(HR_EINVAL, "%d threads", n);
    if (!(dev = hr__device_get(handle)))
        return hr_last_status();
    host = hr__host(dev);
    was = host->backend->use_threads ? host->backend->use_threads(host, n)
                                     : host->caps.threads;
    if (n) {
        pthread_mutex_lock(&dev->lock);
        dev->schedule.engines[host->index].depth = n < host->caps.threads
                                                       ? n
                                                       : host->caps.threads;
        pthread_mutex_unlock(&dev->lock);
    }
    if (before)
        *before = was;
    hr__device_unref(dev);
    return HR_OK;
}

void hr_device_stats(hr_device handle, struct hr_stats *stats)
{
    struct hr__device *dev = hr__device_get(handle);
    struct hr_cache_stats kept;
    struct hr__cache *cache;

    memset(stats, 0, sizeof(*stats));
    if (!dev)
        return;
    pthread_mutex_lock(&dev->lock);
    *stats = dev->stats;
    stats->heap_allocations = atomic_load_explicit(&dev->head.heap_allocations,
                                                   memory_order_relaxed);
    stats->bytes_in_flight = dev->used;
    for (int i = 0; dev->pub.params.balance && i < dev->num_engines; i++)
        stats->shares[i] = dev->schedule.engines[i].samples;
    stats->device_bytes = atomic_load(&dev->device_bytes);
    stats->peak_device_bytes = atomic_load(&dev->peak_device_bytes);
    pthread_mutex_unlock(&dev->lock);
    cache = hr__cache_of(NULL, dev->pub.params.cache);
    hr_cache_stats((hr_cache)cache, &kept);
    stats->cache_evictions = kept.evictions;
    stats->cache_bytes = kept.bytes;
    hr__cache_unref(cache);
    hr__device_unref(dev);
}

void hr_device_profile(hr_device handle, struct hr_profile *out)
{
    struct hr__device *dev = hr__device_get(handle);

    _Static_assert((int)HR_PROFILE_ENGINES == (int)HR__MAX_ENGINES,
                   "room for the whole chain");
    memset(out, 0, sizeof(*out));
    if (!dev)
        return;
    out->num_engines = dev->num_engines;
    for (int i = 0; i < dev->num_engines; i++)
        hr__meter_read(&dev->engines[i]->meter, &out->engines[i]);
    out->room_waits = atomic_load(&dev->waits[HR__WAIT_ROOM]);
    out->room_wait_ns = atomic_load(&dev->wait_ns[HR__WAIT_ROOM]);
    out->result_waits = atomic_load(&dev->waits[HR__WAIT_RESULT]);
    out->result_wait_ns = atomic_load(&dev->wait_ns[HR__WAIT_RESULT]);
    pthread_mutex_lock(&dev->lock);
    out->jobs_in_flight = dev->num_jobs;
    out->peak_jobs = dev->peak_jobs;
    out->samples_in_flight = dev->num_samples;
    out->peak_samples = dev->peak_samples;
    out->bytes_in_flight = dev->used;
    out->peak_bytes = dev->stats.peak_bytes;
    pthread_mutex_unlock(&dev->lock);
    hr__device_unref(dev);
}

const char *hr_jpeg_library(void)
{
    return hr__backend_host()->jpeg_library();
}
