// SPDX-License-Identifier: Apache-2.0
// A device of the engines that a name asks for: a chain, the CPU last, with the
// core's part (budget, pool, graph, threads) around it.
#include <stdio.h>
#include <string.h>

#include "hal/device/device.h"

enum { POOL_CAP = 64 << 20, DEFAULT_BUDGET = 256 << 20 };
#define DEFAULT_DEADLINE INT64_C(10000000000)
// Practically unlimited, but times can be added to it.
#define MOST_DEADLINE (INT64_MAX / 8)

enum { HR__MOST_THREADS = 4096 };  // more are a slip, and take memory for each

static enum hr_status check_params(const struct hr_device_params *p)
{
    if (p->threads < HR_THREADS_NONE || p->threads > HR__MOST_THREADS)
        return hr__fail(HR_EINVAL,
                        "device: %d threads; 0 = all usable cores, at most %d",
                        p->threads, HR__MOST_THREADS);
    if (p->depth < 0)
        return hr__fail(HR_EINVAL, "device: a depth of %d; 0 = the default",
                        p->depth);
    if ((unsigned)p->reference >= HR_NUM_REFERENCES)
        return hr__fail(HR_EINVAL, "device: unknown reference %d",
                        (int)p->reference);
    if (p->cpu_cap < 0 || p->cpu_cap > 100)
        return hr__fail(HR_EINVAL, "device: a cap of %d %% of the CPU",
                        p->cpu_cap);
    if (p->cpu_cap && p->threads == HR_THREADS_NONE)
        return hr__fail(HR_EINVAL, "device: a cap of the CPU is for threads, "
                                   "and it has none");
    if (p->latency_ns < 0)
        return hr__fail(HR_EINVAL, "device: a latency of %lld ns",
                        (long long)p->latency_ns);
    if ((unsigned)p->entropy > HR_WHERE_DEVICE)
        return hr__fail(HR_EINVAL, "device: unknown place %d", (int)p->entropy);
    return HR_OK;
}

static struct hr__device *make_device(const struct hr_device_params *params)
{
    struct hr__device *dev;
    struct hr_device_params *p;

    if (params && check_params(params))
        return NULL;
    if (!(dev = hr__alloc(NULL, sizeof(*dev))))
        return hr__fail(HR_ENOMEM, "device: out of memory"), NULL;
    memset(dev, 0, sizeof(*dev));
    p = &dev->pub.params;
    if (params)
        *p = *params;
    p->budget = p->budget ? p->budget : DEFAULT_BUDGET;
    p->deadline_ns = p->deadline_ns > 0 ? p->deadline_ns : DEFAULT_DEADLINE;
    if (p->deadline_ns > MOST_DEADLINE)
        p->deadline_ns = MOST_DEADLINE;
    hr__limits_default(&p->limits, &p->limits);
    hr__cache_retain(p->cache);
    atomic_init(&dev->refs, 1);
    dev->forks = hr__forks();
    dev->waiting_tail = &dev->waiting;
    hr__graph_init();
    pthread_mutex_init(&dev->lock, NULL);
    hr__cond_init(&dev->not_full);
    hr__cond_init(&dev->watchdog.wake);
    hr__cond_init(&dev->callbacks.wake);
    hr__pool_init(&dev->pool, dev,
                  p->budget / 4 < POOL_CAP ? p->budget / 4 : POOL_CAP);
    return dev;
}

// Finds the display that the memory of the engines in front of e belongs to.
static void find_display(struct hr__engine *e)
{
    for (int i = e->index; i-- > 0 && !e->display.kind;) {
        struct hr__engine *front = e->device->engines[i];

        if (front->backend->shared_display)
            front->backend->shared_display(front, &e->display);
    }
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
    find_display(e);
    hr__meter_engine(e);
    if ((status = b->open(e, which))) {
        hr__engine_close(e);
        return status;
    }
    hr__meter_engine(e);
    dev->engines[dev->num_engines++] = e;
    return HR_OK;
}

// ---- The chain --------------------------------------------------------------

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
        if (*n && parts[*n - 1].backend == hr__backend_host())
            return hr__fail(HR_EINVAL, "the CPU comes last");
        if ((status = read_part(name, len, &parts[*n])))
            return status;
        ++*n;
        if (!name[len])
            break;
    }
    if (*n == HR__MAX_ENGINES && parts[*n - 1].backend != hr__backend_host())
        return hr__fail(HR_EINVAL, "more than %d engines", *n - 1);
    return HR_OK;
}

bool hr__all_software(const struct hr__backend *b)
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

// Adds an engine behind a media engine that can go on from its planes faster
// than the CPU, if there is one. It is no fault if there is none.
static void add_second(struct hr__device *dev)
{
    int n;
    const struct hr__backend *const *table = hr__backends(&n);

    for (int i = 0; i < n - 1; i++) {
        struct hr__engine *e;

        if (table[i]->media || !table[i]->list || hr__all_software(table[i]))
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
        hr__engine_close(e);
    }
}

// The engines that were asked for, the CPU as host and last resort behind.
static enum hr_status add_engines(struct hr__device *dev,
                                  const struct part *parts, int n)
{
    const struct hr__backend *cpu = hr__backend_host();

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
    if (dev->pub.params.threads == HR_THREADS_NONE)
        return hr__fail(HR_EINVAL, "only the device \"cpu\" can be without "
                                   "threads");
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
    if (pub->params.threads != HR_THREADS_NONE)
        pub->params.threads = host->caps.threads;
    if (dev->num_engines < 3)
        return;
    // A longer chain's name lists all engines but the host, so that it opens
    // the same chain again.
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

struct hr__device *hr__device_assemble(const char *name,
                                       const struct hr_device_params *params)
{
    struct part parts[HR__MAX_ENGINES] = {0};
    struct hr__device *dev;
    int n;

    if (read_chain(name, parts, &n) || !(dev = make_device(params)))
        return NULL;
    if (add_engines(dev, parts, n)) {
        hr__device_tear_down(dev);
        return NULL;
    }
    for (int i = 0; i < dev->num_engines; i++)
        if (dev->engines[i]->backend->chained)
            dev->engines[i]->backend->chained(dev->engines[i]);
    publish(dev);
    pthread_mutex_lock(&dev->lock);
    hr__schedule_device(dev);
    pthread_mutex_unlock(&dev->lock);
    return dev;
}
