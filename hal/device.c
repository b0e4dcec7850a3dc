// SPDX-License-Identifier: Apache-2.0
// Opening and closing devices: a chain of engines, the CPU last, with the
// core's part (budget, pool, graph, watchdog) around it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hal/hal.h"
#include "hal/header.h"

enum { POOL_CAP = 64 << 20, DEFAULT_BUDGET = 256 << 20 };
#define DEFAULT_DEADLINE INT64_C(10000000000)
// Longer than anybody waits, and times can be added to it.
#define MOST_DEADLINE (INT64_MAX / 8)

bool hr__device_forked(const struct hr__device *dev)
{
    return dev->pid != getpid();
}

// ---- Closing ------------------------------------------------------------------------

// True: a hung driver was left behind.
static bool close_engine(struct hr__engine *e)
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

static void *tear_down(void *arg)
{
    struct hr__device *dev = arg;
    struct hr_device_params params = dev->pub.params;
    bool tell = dev->opened && params.on_closed, left = false;

    hr__watchdog_finish(dev);
    hr__callbacks_finish(dev);
    for (int i = dev->num_engines; i-- > 0;)
        left |= close_engine(dev->engines[i]);
    hr__pool_finish(&dev->pool);
    pthread_cond_destroy(&dev->watchdog_cond);
    pthread_cond_destroy(&dev->calls_cond);
    pthread_cond_destroy(&dev->room);
    pthread_mutex_destroy(&dev->lock);
    hr__free(dev);
    if (tell)
        params.on_closed(params.closed_ctx, left);
    return NULL;
}

// Devices for whose end no thread could be had; taken down by the next thread
// of the user's that opens or closes one. No lock: a fork could inherit it.
static struct hr__device *_Atomic orphans;

static void take_down_orphans(void)
{
    struct hr__device *list, *next;

    if (hr__on_library_thread())
        return;
    for (list = atomic_exchange(&orphans, NULL); list; list = next) {
        next = list->next_orphan;
        if (!hr__device_forked(list))
            tear_down(list);
    }
}

static void leave_orphan(struct hr__device *dev)
{
    hr__log(dev, HR_LOG_WARN, "no thread to close %s on", dev->pub.name);
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
        tear_down(dev);
        return;
    }
    // A worker cannot wait for itself.
    if (hr__thread_start(&reaper, tear_down, dev))
        pthread_detach(reaper);
    else
        leave_orphan(dev);
}

void hr_device_close(hr_device *handle)
{
    struct hr__device *dev;

    if (!handle || !*handle)
        return;
    dev = (struct hr__device *)*handle;
    *handle = NULL;
    if (!hr__device_forked(dev))
        hr__device_unref(dev);
    take_down_orphans();
}

// ---- Opening --------------------------------------------------------------------------

static struct hr__device *make_device(const struct hr_device_params *params)
{
    struct hr__device *dev = hr__alloc(NULL, sizeof(*dev));
    struct hr_device_params *p;

    if (!dev) {
        hr__fail(HR_ENOMEM, "device: out of memory");
        return NULL;
    }
    memset(dev, 0, sizeof(*dev));
    p = &dev->pub.params;
    if (params)
        *p = *params;
    if ((unsigned)p->reference >= HR_NUM_REFERENCES) {
        hr__fail(HR_EINVAL, "device: unknown reference %d", (int)p->reference);
        hr__free(dev);
        return NULL;
    }
    p->budget = p->budget ? p->budget : DEFAULT_BUDGET;
    p->deadline_ns = p->deadline_ns > 0 ? p->deadline_ns : DEFAULT_DEADLINE;
    if (p->deadline_ns > MOST_DEADLINE)
        p->deadline_ns = MOST_DEADLINE;
    hr__limits_default(&p->limits, &p->limits);
    atomic_init(&dev->refs, 1);
    dev->pid = getpid();
    dev->log = p->log;
    dev->log_ctx = p->log_ctx;
    dev->waiting_tail = &dev->waiting;
    hr__graph_init();
    pthread_mutex_init(&dev->lock, NULL);
    hr__cond_init(&dev->room);
    hr__cond_init(&dev->watchdog_cond);
    hr__cond_init(&dev->calls_cond);
    hr__pool_init(&dev->pool, dev,
                  p->budget / 4 < POOL_CAP ? p->budget / 4 : POOL_CAP);
    return dev;
}

static enum hr_status add_engine(struct hr__device *dev,
                                 const struct hr__backend *b, const char *which)
{
    struct hr__engine *e = hr__alloc(dev, sizeof(*e));
    enum hr_status status;

    if (!e)
        return hr__fail(HR_ENOMEM, "device %s: out of memory", b->name);
    *e = (struct hr__engine){.backend = b,
                             .device = dev,
                             .index = dev->num_engines,
                             .params = dev->pub.params};
    snprintf(e->name, sizeof(e->name), "%s", b->name);
    if (!(e->priv = hr__alloc(dev, b->engine_size))) {
        hr__free(e);
        return hr__fail(HR_ENOMEM, "device %s: out of memory", b->name);
    }
    memset(e->priv, 0, b->engine_size);
    hr__chain_origin(e);
    hr__meter_engine(e);
    if ((status = b->open(e, which))) {
        close_engine(e);
        return status;
    }
    hr__meter_engine(e);
    dev->engines[dev->num_engines++] = e;
    return HR_OK;
}

// The CPU, the last of the table.
static const struct hr__backend *host_backend(void)
{
    int n;
    const struct hr__backend *const *table = hr__backends(&n);

    return table[n - 1];
}

// ---- The chain ---------------------------------------------------------------

// One engine that a name asks for: "backend" or "backend:which".
struct part {
    const struct hr__backend *backend;
    char which[128];
};

static enum hr_status read_part(const char *text, size_t len, struct part *out)
{
    size_t name = strcspn(text, ":+");

    if (!(out->backend = hr__backend_find(text, name)))
        return hr_last_status();
    name += name < len;  // the colon
    if (len - name >= sizeof(out->which))
        return hr__fail(HR_ENODEVICE, "its name has %zu bytes", len);
    memcpy(out->which, text + name, len - name);
    out->which[len - name] = '\0';
    return HR_OK;
}

// Reads "first+second+..."; the CPU may stand last.
static enum hr_status read_chain(const char *name,
                                 struct part parts[HR__MAX_ENGINES], int *n)
{
    enum hr_status status;
    size_t len;

    for (*n = 0;; name += len + 1) {
        len = strcspn(name, "+");
        if (*n == HR__MAX_ENGINES)
            return hr__fail(HR_EINVAL, "more than %d engines", *n);
        if (*n && parts[*n - 1].backend == host_backend())
            return hr__fail(HR_EINVAL, "the CPU comes last");
        if ((status = read_part(name, len, &parts[*n])))
            return status;
        ++*n;
        if (!name[len])
            break;
    }
    if (*n == HR__MAX_ENGINES && parts[*n - 1].backend != host_backend())
        return hr__fail(HR_EINVAL, "more than %d engines", *n - 1);
    return HR_OK;
}

static bool all_software(const struct hr__backend *b);

// Behind a media engine comes one that can go on from its planes faster than
// the CPU, if there is one. It is no fault if there is none.
static void add_second(struct hr__device *dev)
{
    int n;
    const struct hr__backend *const *table = hr__backends(&n);

    for (int i = 0; i < n - 1; i++) {
        struct hr__engine *e;

        if (table[i]->media || !table[i]->list || all_software(table[i]))
            continue;
        if (add_engine(dev, table[i], "")) {
            hr__log(dev, HR_LOG_INFO, "%s: %s is not put behind it: %s",
                    dev->engines[0]->name, table[i]->name, hr_last_error());
            continue;
        }
        e = dev->engines[dev->num_engines - 1];
        if (!e->caps.software)
            return;
        dev->num_engines--;
        close_engine(e);
    }
}

// The engines that were asked for, the CPU as host and last resort behind.
static enum hr_status add_engines(struct hr__device *dev,
                                  const struct part *parts, int n)
{
    const struct hr__backend *cpu = host_backend();

    for (int i = 0; i < n; i++) {
        enum hr_status status = add_engine(dev, parts[i].backend,
                                           parts[i].which);

        if (status)
            return status;
    }
    if (n == 1 && parts[0].backend->media)
        add_second(dev);
    if (parts[n - 1].backend == cpu)
        return HR_OK;
    return add_engine(dev, cpu, "");
}

static void publish(struct hr__device *dev)
{
    struct hr__engine *first = dev->engines[0], *host = hr__host(dev);
    struct hr_device_t *pub = &dev->pub;

    host->host = true;
    pub->name = first->name;
    pub->backend = first->backend->name;
    pub->description = first->description;
    pub->caps = first->caps;
    pub->caps.threads = host->caps.threads;
    pub->params.threads = host->caps.threads;
    if (dev->num_engines < 3)
        return;
    // Of a longer chain all are named; that is what opens it again.
    for (int i = 0; i < dev->num_engines - 1; i++) {
        size_t name = strlen(dev->name), text = strlen(dev->description);

        snprintf(dev->name + name, sizeof(dev->name) - name, "%s%s",
                 i ? "+" : "", dev->engines[i]->name);
        snprintf(dev->description + text, sizeof(dev->description) - text,
                 "%s%s", i ? " + " : "", dev->engines[i]->description);
    }
    pub->name = dev->name;
    pub->description = dev->description;
}

static struct hr__device *open_parts(const struct part *parts, int n,
                                     const struct hr_device_params *params)
{
    struct hr__device *dev = make_device(params);

    if (!dev)
        return NULL;
    if (add_engines(dev, parts, n)) {
        tear_down(dev);
        return NULL;
    }
    for (int i = 0; i < dev->num_engines; i++)
        if (dev->engines[i]->backend->chained)
            dev->engines[i]->backend->chained(dev->engines[i]);
    publish(dev);
    if (dev->num_engines > 1 && hr__certify(dev)) {
        // A hung engine may hold tasks, and with them the device.
        hr__device_unref(dev);
        return NULL;
    }
    return dev;
}

static struct hr__device *open_chain(const struct hr__backend *b,
                                     const struct hr_device_params *params)
{
    return open_parts(&(struct part){.backend = b}, 1, params);
}

static hr_device open_named(const char *name,
                            const struct hr_device_params *params)
{
    struct part parts[HR__MAX_ENGINES] = {0};
    struct hr__device *dev = NULL;
    char text[sizeof(((struct hr_device_info *)0)->reason)];
    int n;

    if (!read_chain(name, parts, &n))
        dev = open_parts(parts, n, params);
    if (dev)
        return &dev->pub;
    snprintf(text, sizeof(text), "%.191s", hr_last_error());
    hr__fail(hr_last_status(), "device '%.64s': %s", name, text);
    return NULL;
}

static const char software[] = "it runs on this machine's own processor";

// Known without opening one: every device of the backend is software.
static bool all_software(const struct hr__backend *b)
{
    enum { MAX = 8 };
    struct hr_device_info infos[MAX];
    int n = b->list ? b->list(infos, MAX) : 0, found = 0;

    for (int i = 0; i < n && i < MAX; i++) {
        if (!infos[i].reason[0] && !infos[i].caps.software)
            return false;
        found += !infos[i].reason[0];
    }
    return found && n <= MAX;
}

// Why an opened device is not what "auto" means, or NULL.
static const char *unfit(const struct hr__device *dev)
{
    const struct hr_device_t *pub = &dev->pub;

    if (pub->caps.software)
        return software;
    if (pub->certificate.tested && !pub->caps.spans[HR_CLOSE])
        return "it did not pass its test";
    return NULL;
}

// The first backend of the table that opens and is worth it; the log says why
// not the others. The last, the CPU, always is.
static hr_device open_any(const struct hr_device_params *params)
{
    int n;
    const struct hr__backend *const *table = hr__backends(&n);

    for (int i = 0; i < n; i++) {
        bool host = i == n - 1, slow = !host && all_software(table[i]);
        struct hr__device *dev = slow ? NULL : open_chain(table[i], params);
        const char *why = slow   ? software
                          : !dev ? hr_last_error()
                          : host ? NULL
                                 : unfit(dev);

        if (!why)
            return &dev->pub;
        hr__log(NULL, HR_LOG_INFO, "auto: %s passed over: %s", table[i]->name,
                why);
        hr__device_unref(dev);
    }
    return NULL;
}

static hr_device open_device(const char *name,
                             const struct hr_device_params *params)
{
    if (!name || !strcmp(name, "auto")) {
        name = secure_getenv("HEADRACE_BACKEND");
        if (!name || !*name || !strcmp(name, "auto"))
            return open_any(params);
    }
    return open_named(name, params);
}

hr_device hr_device_open(const char *name,
                         const struct hr_device_params *params)
{
    hr_device dev;

    take_down_orphans();
    if ((dev = open_device(name, params)))
        ((struct hr__device *)dev)->opened = true;
    return dev;
}

void hr_device_stats(hr_device handle, struct hr_stats *stats)
{
    struct hr__device *dev = hr__device_get(handle);

    memset(stats, 0, sizeof(*stats));
    if (!dev)
        return;
    pthread_mutex_lock(&dev->lock);
    *stats = dev->stats;
    stats->heap_allocations = atomic_load_explicit(&dev->heap_allocations,
                                                   memory_order_relaxed);
    stats->bytes_in_flight = dev->used;
    stats->device_bytes = atomic_load(&dev->device_bytes);
    stats->peak_device_bytes = atomic_load(&dev->peak_device_bytes);
    pthread_mutex_unlock(&dev->lock);
    hr__device_unref(dev);
}
