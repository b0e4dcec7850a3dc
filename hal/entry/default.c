// SPDX-License-Identifier: Apache-2.0
// The default device of the process, and what devices there are.
#include <stdio.h>
#include <string.h>

#include "hal/entry/entry.h"

// ---- The default device -----------------------------------------------------

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct hr__device *current;  // holds one reference
// The device name that the user has set; a child of this process opens it, too.
// "": none.
static char named[sizeof(((struct hr_device_info *)0)->name)];

// Another thread may have held the lock when the process forked.
static void child_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    current = NULL;  // the parent's; its threads are not here
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, child_after_fork);
}

static void lock_registry(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
}

// name: gets what the user named.
static struct hr__device *default_or(hr_device opened, char name[sizeof(named)])
{
    struct hr__device *dev;

    lock_registry();
    memcpy(name, named, sizeof(named));
    if (!current && opened) {
        current = (struct hr__device *)opened;
        opened = NULL;
    }
    if ((dev = current))
        atomic_fetch_add(&dev->refs, 1);
    pthread_mutex_unlock(&lock);
    hr_device_close(&opened);
    return dev;
}

// Opening may take long, so it happens without the lock; of two threads that
// do it at once, one closes its own again.
static struct hr__device *get_default(void)
{
    char name[sizeof(named)];
    struct hr__device *dev = default_or(NULL, name);
    hr_device opened;

    if (dev)
        return dev;
    if (!(opened = hr_device_open(name[0] ? name : NULL, NULL)))
        return NULL;
    return default_or(opened, name);
}

struct hr__device *hr__device_get(hr_device handle)
{
    struct hr__device *dev = (struct hr__device *)handle;

    if (!dev)
        return get_default();
    if (hr__device_forked(dev)) {
        hr__fail(HR_EFORK,
                 "device %s was opened before fork; open one in the "
                 "child (with Python: multiprocessing spawn or forkserver)",
                 dev->pub.name);
        return NULL;
    }
    atomic_fetch_add(&dev->refs, 1);
    return dev;
}

enum hr_status hr_set_image_backend(const char *name)
{
    hr_device dev = hr_device_open(name, NULL), old;

    if (!dev)
        return hr_last_status();
    lock_registry();
    old = current ? &current->pub : NULL;
    current = (struct hr__device *)dev;
    snprintf(named, sizeof(named), "%s", name ? name : "");
    pthread_mutex_unlock(&lock);
    hr_device_close(&old);
    return HR_OK;
}

// A copy: another thread may set another default, which ends this one.
const char *hr_get_image_backend(void)
{
    static _Thread_local char name[sizeof(named)];
    struct hr__device *dev = hr__device_get(NULL);

    if (!dev)
        return NULL;
    snprintf(name, sizeof(name), "%s", dev->pub.name);
    hr__device_unref(dev);
    return name;
}

hr_device hr_device_retain(hr_device handle)
{
    struct hr__device *dev = hr__device_get(handle);

    return dev ? &dev->pub : NULL;
}

// ---- What is there ----------------------------------------------------------

static int backend_list(const struct hr__backend *b,
                        struct hr_device_info *infos, int max)
{
    if (b->list)
        return b->list(infos, max);
    if (max > 0) {
        memset(infos, 0, sizeof(*infos));
        snprintf(infos->name, sizeof(infos->name), "%s", b->name);
    }
    return 1;
}

// A device that its backend did not refuse is opened to be sure.
static void look_closer(struct hr_device_info *info, const char *backend)
{
    hr_device dev;

    snprintf(info->backend, sizeof(info->backend), "%s", backend);
    if (info->reason[0])
        return;
    dev = hr_device_open(info->name, NULL);
    info->available = dev != NULL;
    if (!dev) {
        snprintf(info->reason, sizeof(info->reason), "%.191s", hr_last_error());
        return;
    }
    info->caps = dev->caps;
    info->certificate = dev->certificate;
    snprintf(info->description, sizeof(info->description), "%s",
             dev->description);
    hr_device_close(&dev);
}

int hr_device_list(struct hr_device_info *infos, int max)
{
    int n, total = 0;
    const char *absent;
    const struct hr__backend *const *table = hr__backends(&n);

    while ((absent = hr__backend_absent(total))) {
        if (total < max) {
            memset(&infos[total], 0, sizeof(*infos));
            snprintf(infos[total].name, sizeof(infos->name), "%s", absent);
            snprintf(infos[total].backend, sizeof(infos->backend), "%s",
                     absent);
            snprintf(infos[total].reason, sizeof(infos->reason),
                     "not part of this build");
        }
        total++;
    }
    for (int i = 0; i < n; i++) {
        int left = max > total ? max - total : 0;
        int got = backend_list(table[i], left ? &infos[total] : NULL, left);

        for (int k = 0; k < got && k < left; k++)
            look_closer(&infos[total + k], table[i]->name);
        total += got;
    }
    return total;
}
