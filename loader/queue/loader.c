// SPDX-License-Identifier: Apache-2.0
// Making a loader, and its end.
#include "loader.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "hal/engine/base.h"

#define BUDGET ((size_t)256 << 20)

// ---- What was asked for ----------------------------------------------------

// Returns the default number of reads.
static int most_reads(const struct hr__loader *l)
{
    const struct hr__http *http = l->source->http;
    bool many = l->params.autotune || l->params.start.reads > 8;

    if (http)
        return many ? http->params.connections : http->reads;
    return many ? HR__LOADER_READS : 8;
}

static enum hr_status set_defaults(struct hr__loader *l)
{
    struct hr_loader_params *p = &l->params;

    if (!p->source || !p->source->num)
        return hr__fail(HR_EINVAL, "the source has no samples");
    if (hr__loader_check(p))
        return HR_EINVAL;
    l->source = hr__source_of(p->source);
    p->map_threads = p->map_threads ? p->map_threads : 1;
    p->batch = p->batch ? p->batch : 64;
    if (!p->reads)
        p->reads = most_reads(l);
    p->epochs = p->epochs ? p->epochs : 1;
    p->budget = p->budget ? p->budget : BUDGET;
    p->shards = p->shards ? p->shards : 1;
    p->samples = p->samples ? p->samples : p->source->num;
    if (p->shard >= p->shards)
        return hr__fail(HR_EINVAL, "shard: there is no %u of %u", p->shard,
                        p->shards);
    if (l->source->calls.threads && l->source->calls.threads < p->reads)
        p->reads = l->source->calls.threads;
    return HR_OK;
}

static enum hr_status set_sampler(struct hr__loader *l)
{
    const struct hr_loader_params *p = &l->params;
    double *sums;
    size_t size;

    l->sampler = (struct hr__sampler){
        .num = p->source->num,
        .total = p->samples,
        .seed = p->seed,
        .shard = p->shard,
        .shards = p->shards,
        .shuffle = p->shuffle,
        .window = p->shuffle ? p->shuffle_buffer : 0,
        .drop = p->shard_drop,
    };
    if (p->weights) {
        if (p->source->num > SIZE_MAX ||
            !hr__mul(&size, (size_t)p->source->num, sizeof(*sums)) ||
            !(sums = hr__alloc(NULL, size)))
            return hr__fail(HR_ENOMEM, "out of memory");
        l->sampler.sums = sums;
        if (!hr__sampler_sum(p->weights, p->source->num, sums))
            return hr__fail(HR_EINVAL, "a weight is negative or no number, or "
                                       "all of them are 0");
    }
    l->params.weights = NULL;
    l->pub.samples = hr__sampler_count(&l->sampler);
    l->pub.batches = l->pub.samples / (uint64_t)p->batch;
    if (!p->drop_remainder && l->pub.samples % (uint64_t)p->batch)
        l->pub.batches++;
    if (!l->pub.batches)
        return hr__fail(HR_EINVAL, "%llu samples make no batch of %d",
                        (unsigned long long)l->pub.samples, p->batch);
    l->pub.batch = l->pub.samples < (uint64_t)p->batch ? (int)l->pub.samples
                                                       : p->batch;
    return HR_OK;
}

// Takes one list of ops.
static enum hr_status set_view(struct hr__loader *l, struct hr__view *v,
                               const struct hr_op *ops, int num_ops)
{
    const struct hr_loader_params *p = &l->params;
    const char *lost;
    char why[128];

    if (hr__ops_check(ops, num_ops, 0, why))
        return hr__fail(HR_EINVAL, "ops: %s", why);
    memcpy(v->ops, ops, sizeof(*ops) * (size_t)num_ops);
    v->num_ops = num_ops;
    lost = hr__ops_lost(v->ops, v->num_ops, p->dtype);
    if (lost)
        return hr__fail(HR_EINVAL, "ops: %s", lost);
    if (!p->own_size && !p->h &&
        !hr_ops_fixed_size(v->ops, v->num_ops, &v->w, &v->h))
        return hr__fail(HR_EINVAL,
                        "the ops make pictures of different sizes: add a "
                        "resize or crop, name h and w, or say own_size");
    return HR_OK;
}

// Sets where the tensor of each view lies in a batch.
static enum hr_status set_views(struct hr__loader *l)
{
    size_t elem = hr_dtype_size(l->params.dtype), at = 0;

    for (int i = 0; i < l->num_views; i++) {
        struct hr__view *v = &l->views[i];
        size_t size = elem * (size_t)l->pub.c * (size_t)v->w * (size_t)v->h;

        if (v->ops[0].decode.mode != l->views[0].ops[0].decode.mode ||
            v->ops[0].decode.apply_orientation !=
                l->views[0].ops[0].decode.apply_orientation)
            return hr__fail(HR_EINVAL, "views: all must decode alike");
        v->at = at;
        if (!hr__mul(&size, size, (size_t)l->pub.batch) ||
            size > SIZE_MAX / 128)
            return hr__fail(HR_ELIMIT, "views: a batch is too large");
        at += (size + 63) / 64 * 64;
    }
    l->views_size = at;
    return HR_OK;
}

static enum hr_status set_ops(struct hr__loader *l)
{
    struct hr_loader_params *p = &l->params;
    const struct hr_loader_view one = {p->ops, p->num_ops};
    const struct hr_loader_view *views = p->num_views ? p->views : &one;
    enum hr_status status = HR_OK;

    if ((p->h == 0) != (p->w == 0) || p->h < 0 || p->w < 0)
        return hr__fail(HR_EINVAL, "name h and w, or neither");
    if (p->own_size && (p->h || p->on_error == HR_ON_ERROR_SKIP))
        return hr__fail(HR_EINVAL, "own_size goes with neither h and w nor "
                                   "HR_ON_ERROR_SKIP");
    if (p->num_views < 0 || p->num_views > 64)
        return hr__fail(HR_EINVAL, "views: %d of them, not 0 .. 64",
                        p->num_views);
    if (p->num_views && (p->ops || !views || p->own_size || p->h))
        return hr__fail(HR_EINVAL, "views go with neither ops nor own_size "
                                   "nor h and w");
    l->num_views = p->num_views ? p->num_views : 1;
    l->views = hr__alloc(NULL, sizeof(*l->views) * (size_t)l->num_views);
    if (!l->views)
        return hr__fail(HR_ENOMEM, "out of memory");
    for (int i = 0; i < l->num_views && !status; i++)
        status = set_view(l, &l->views[i], views[i].ops, views[i].num_ops);
    if (status)
        return status;
    p->ops = NULL;
    p->views = NULL;
    l->pub.c = hr_ops_channels(l->views[0].ops, l->views[0].num_ops, 3);
    if (p->num_views)
        return set_views(l);
    l->pub.h = p->own_size ? 0 : p->h ? p->h : l->views[0].h;
    l->pub.w = p->own_size ? 0 : p->w ? p->w : l->views[0].w;
    return HR_OK;
}

// ---- Slots -----------------------------------------------------------------

// Bytes of a sample that have a place in each batch.
static size_t pixel_bytes(const struct hr__loader *l)
{
    for (size_t i = 0; i < l->source->num_shards; i++)
        if (l->source->shards[i].pixels)
            return HR__CIFAR_BYTES;
    return 0;
}

// Pictures for a thread, in a batch that is long work.
enum { LONG = 16 };

// Sets the default depth. One batch is consumed, one is ready, one is read. In
// the making are three pictures for each thread, which keep an engine busy, and
// at least two batches, since the end of one leaves threads idle; one, where a
// batch is long work, since that end is short then, and memory large. No more
// than there will be in all epochs. The rest of the budget is for encoded
// samples.
static void set_depth(struct hr__loader *l)
{
    uint64_t all = HR__LOADER_DEPTH;
    int threads = l->params.device ? l->params.device->caps.threads
                                   : hr__usable_cores();
    size_t batch = (size_t)l->pub.batch;
    size_t making = (3 * (size_t)threads + batch - 1) / batch;
    size_t least = batch < LONG * (size_t)threads ? 2 : 1;
    size_t depth = 3 + (making < least ? least : making) +
                   (l->params.map != NULL);
    size_t most = hr_budget_ring(l->params.budget);
    size_t fit = l->batch_size ? most / l->batch_size : HR__LOADER_DEPTH;

    l->settings.depth = depth > HR__LOADER_DEPTH ? HR__LOADER_DEPTH
                                                 : (int)depth;
    if (l->params.start.depth)
        l->settings.depth = l->params.start.depth;
    // The consumer has one.
    depth = l->params.autotune      ? HR__LOADER_TUNED
            : l->params.start.depth ? (size_t)l->params.start.depth + 1
                                    : depth;
    depth = depth > fit ? fit : depth;
    if (l->params.epochs > 0 && l->pub.batches < all)
        all = l->pub.batches * (uint64_t)l->params.epochs;
    depth = depth > all ? (size_t)all : depth;
    depth = depth > HR__LOADER_DEPTH ? HR__LOADER_DEPTH : depth;
    l->pub.depth = depth < 2 ? 2 : (int)depth;
    if (l->settings.depth > l->pub.depth)
        l->settings.depth = l->pub.depth;
    if (l->params.own_size)
        l->batch_size = most / (size_t)l->pub.depth;
    fit = (size_t)l->pub.depth * l->batch_size;
    l->pages.limit = fit < l->params.budget ? l->params.budget - fit : 0;
}

static void *carve(char **at, size_t n, size_t size)
{
    void *part = *at;

    *at += (n * size + 63) / 64 * 64;
    return part;
}

static bool fill_slot(struct hr__loader *l, struct hr__slot *slot)
{
    size_t n = (size_t)l->pub.batch, views = (size_t)l->num_views, each;
    char *at;

    each = sizeof(*slot->samples) + views * sizeof(*slot->list) +
           sizeof(hr_image) + sizeof(*slot->classes) + sizeof(*slot->indices) +
           sizeof(*slot->keys) + sizeof(*slot->results);
    *slot = (struct hr__slot){.loader = l};
    each += pixel_bytes(l);
    if (l->params.own_size || l->params.num_views)
        each += (views + 1) * sizeof(hr_image);
    if (!(at = hr__alloc(NULL, n * each + 10 * 64)))
        return false;
    slot->samples = carve(&at, n, sizeof(*slot->samples));
    slot->list = carve(&at, views * n, sizeof(*slot->list));
    slot->pub.classes = slot->classes = carve(&at, n, sizeof(*slot->classes));
    slot->pub.indices = slot->indices = carve(&at, n, sizeof(*slot->indices));
    slot->pub.keys = slot->keys = carve(&at, n, sizeof(*slot->keys));
    slot->pub.results = slot->results = carve(&at, n, sizeof(*slot->results));
    slot->images = carve(&at, n, sizeof(hr_image));
    memset(slot->images, 0, n * sizeof(hr_image));
    if (l->params.own_size) {
        slot->outs = carve(&at, n, sizeof(hr_image));
        slot->shown = carve(&at, n, sizeof(hr_image));
        memset(slot->outs, 0, n * sizeof(hr_image));
        memset(slot->shown, 0, n * sizeof(hr_image));
    }
    if (l->params.num_views) {
        slot->pub.views = l->num_views;
        slot->pub.images = slot->outs = carve(&at, views * n, sizeof(hr_image));
        memset(slot->outs, 0, views * n * sizeof(hr_image));
    }
    if (pixel_bytes(l))
        slot->pixels = carve(&at, n, pixel_bytes(l));
    return true;
}

// The first batch tells how large they are.
static enum hr_status measure(struct hr__loader *l, hr_batch *first)
{
    if (l->params.own_size)
        return HR_OK;
    if (!(*first = hr__loader_batch(l)))
        return hr_last_status();
    l->batch_size = (*first)->size + pixel_bytes(l) * (size_t)l->pub.batch;
    l->stats.batch_bytes = l->batch_size;
    l->num_made = 1;
    return HR_OK;
}

static enum hr_status make_slots(struct hr__loader *l)
{
    hr_batch first = NULL;
    enum hr_status status = measure(l, &first);

    if (status)
        return status;
    set_depth(l);
    l->slots = hr__alloc(NULL, sizeof(*l->slots) * (size_t)l->pub.depth);
    if (!l->slots) {
        hr_batch_destroy(&first);
        return hr__fail(HR_ENOMEM, "out of memory");
    }
    memset(l->slots, 0, sizeof(*l->slots) * (size_t)l->pub.depth);
    for (int i = 0; i < l->pub.depth; i++) {
        if (!fill_slot(l, &l->slots[i])) {
            hr_batch_destroy(&first);
            return hr__fail(HR_ENOMEM, "out of memory");
        }
        // Where the depth is tuned the others are made when they are needed.
        if (!first && !l->params.autotune && !l->params.own_size) {
            if (!(first = hr__loader_batch(l)))
                return hr_last_status();
            l->num_made++;
            l->stats.batch_bytes += l->batch_size;
        }
        l->slots[i].pub.batch = first;
        first = NULL;
    }
    return HR_OK;
}

// ---- Threads ---------------------------------------------------------------

// A few do: what cannot be started is missing, but for the first.
static enum hr_status start_readers(struct hr__loader *l)
{
    pthread_mutex_lock(&l->lock);
    while (hr__loader_start_reader(l))
        ;
    pthread_mutex_unlock(&l->lock);
    return l->num_readers ? HR_OK
                          : hr__fail(HR_ENOMEM, "no thread could be started");
}

static bool has_cache(const struct hr__loader *l)
{
    hr_cache cache = hr_get_cache();
    bool has = cache || (l->params.device && l->params.device->params.cache);

    hr_cache_release(&cache);
    return has;
}

static enum hr_status open_loader(struct hr__loader *l)
{
    enum hr_status status = set_defaults(l);

    if (status || (status = set_sampler(l)) || (status = set_ops(l)))
        return status;
    // Before there are threads that ask.
    if (!l->source->calls.read && !hr__source_find_classes(l->source))
        return HR_ENOMEM;
    if ((status = make_slots(l)))
        return status;
    l->saved.epoch = l->plan.epoch = l->params.first_epoch;
    if (l->params.resume && (status = hr__loader_resume(l, l->params.resume)))
        return status;
    l->params.resume = NULL;
    if ((status = hr__loader_tune_init(l)))
        return status;
    l->by_path = !l->params.num_views && (l->params.by_path || has_cache(l));
    if ((l->pub.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        return hr__fail(HR_EIO, "no eventfd: %s", strerror(errno));
    hr__loader_signal(l);
    return start_readers(l);
}

hr_loader hr_loader_create(const struct hr_loader_params *params)
{
    struct hr__loader *l;
    hr_loader loader;

    if (!params)
        return hr__fail(HR_EINVAL, "hr_loader_create: no params"), NULL;
    if (!(l = hr__alloc(NULL, sizeof(*l))))
        return hr__fail(HR_ENOMEM, "out of memory"), NULL;
    *l = (struct hr__loader){.params = *params, .pid = getpid(), .refs = 1};
    l->pub.fd = -1;
    pthread_mutex_init(&l->lock, NULL);
    hr__cond_init(&l->work);
    hr__cond_init(&l->bytes);
    hr__cond_init(&l->unused);
    hr__cond_init(&l->ready);
    hr__cond_init(&l->ended);
    loader = &l->pub;
    if (open_loader(l))
        hr_loader_destroy(&loader);
    return loader;
}

// ---- The end ---------------------------------------------------------------

void hr_loader_stop(hr_loader loader)
{
    struct hr__loader *l = hr__loader_of(loader);

    if (!l || l->pid != getpid())
        return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->work);
    pthread_cond_broadcast(&l->bytes);
    pthread_cond_broadcast(&l->unused);
    if (l->pub.fd >= 0)
        hr__loader_signal(l);
    for (int i = 0; l->slots && i < l->pub.depth; i++)
        for (int j = 0; l->slots[i].samples && j < l->slots[i].all; j++)
            if (l->slots[i].samples[j].job)
                hr_job_cancel(l->slots[i].samples[j].job);
    pthread_mutex_unlock(&l->lock);
}

// Gives back the samples that were read and are in no job.
static void give_back_samples(struct hr__loader *l)
{
    for (int i = 0; l->slots && i < l->pub.depth; i++)
        for (int j = 0; l->slots[i].samples && j < l->slots[i].all; j++)
            hr__sample_give_back(&l->slots[i].samples[j]);
}

void hr_loader_destroy(hr_loader *loader)
{
    struct hr__loader *l = loader ? hr__loader_of(*loader) : NULL;

    if (!l)
        return;
    *loader = NULL;
    if (l->pid != getpid())
        return;  // its lock may be held by a thread that is not here
    hr_loader_stop(&l->pub);
    for (int i = 0; i < l->num_readers; i++)
        pthread_join(l->readers[i], NULL);
    pthread_mutex_lock(&l->lock);
    while (l->in_flight)
        pthread_cond_wait(&l->ended, &l->lock);
    pthread_mutex_unlock(&l->lock);
    give_back_samples(l);
    hr__loader_tune_finish(l);
    hr__loader_unref(l);
}
