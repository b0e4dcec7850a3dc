// SPDX-License-Identifier: Apache-2.0
// The end of a device: threads of its own, engines, memory; on a thread that
// can wait for them.
#include "hal/device/device.h"

// ---- Its threads ------------------------------------------------------------

bool hr__device_thread_start(struct hr__device *dev,
                             struct hr__device_thread *t,
                             void *(*run)(void *dev))
{
    bool runs;

    pthread_mutex_lock(&dev->lock);
    if (!t->runs)
        t->runs = hr__thread_start(&t->thread, run, dev);
    runs = t->runs;
    pthread_mutex_unlock(&dev->lock);
    return runs;
}

static void finish_thread(struct hr__device *dev, struct hr__device_thread *t)
{
    if (t->runs) {
        pthread_mutex_lock(&dev->lock);
        t->stop = true;
        pthread_cond_signal(&t->wake);
        pthread_mutex_unlock(&dev->lock);
        pthread_join(t->thread, NULL);
    }
    pthread_cond_destroy(&t->wake);
}

// ---- Its end ----------------------------------------------------------------

bool hr__engine_close(struct hr__engine *e)
{
    bool left;

    if (!e)
        return false;
    e->backend->close(e);
    left = e->left_behind;
    hr__meter_finish(e);
    hr__free(e->priv);
    hr__free(e);
    return left;
}

void hr__device_tear_down(struct hr__device *dev)
{
    struct hr_device_params params = dev->pub.params;
    bool tell = dev->opened && params.on_closed, left = false;

    finish_thread(dev, &dev->watchdog);
    finish_thread(dev, &dev->callbacks);
    for (int i = dev->num_engines; i-- > 0;)
        left |= hr__engine_close(dev->engines[i]);
    hr__pool_finish(&dev->pool);
    hr_cache_release(&params.cache);
    pthread_cond_destroy(&dev->not_full);
    pthread_mutex_destroy(&dev->lock);
    hr__free(dev);
    if (tell)
        params.on_closed(params.closed_ctx, left);
}

// Its caller has a hold of the process's end: a driver that closes may compile.
static void *reap(void *dev)
{
    hr__device_tear_down(dev);
    hr__exit_release();
    return NULL;
}

// Devices for whose end no thread could be had, or whose process ends; taken
// down by the next thread of the user's that opens or closes one. No lock: a
// fork could inherit it.
static struct hr__device *_Atomic orphans;

void hr__device_close_orphans(void)
{
    struct hr__device *list, *next;

    if (hr__on_library_thread())
        return;
    for (list = atomic_exchange(&orphans, NULL); list; list = next) {
        next = list->next_orphan;
        if (!hr__device_forked(list))
            hr__device_tear_down(list);
    }
}

static void leave_orphan(struct hr__device *dev)
{
    dev->next_orphan = atomic_load(&orphans);
    while (!atomic_compare_exchange_weak(&orphans, &dev->next_orphan, dev))
        ;
}

void hr__device_unref(struct hr__device *dev)
{
    pthread_t reaper;

    if (!dev || atomic_fetch_sub(&dev->refs, 1) != 1)
        return;
    if (hr__device_forked(dev))
        return;  // its threads are not here to be waited for
    if (!hr__on_library_thread()) {
        hr__device_tear_down(dev);
        return;
    }
    // A worker cannot wait for itself.
    if (hr__exit_hold()) {
        if (hr__thread_start(&reaper, reap, dev)) {
            pthread_detach(reaper);
            return;
        }
        hr__exit_release();
        hr__log(dev, HR_LOG_WARN, "no thread to close %s on", dev->pub.name);
    }
    leave_orphan(dev);
}
