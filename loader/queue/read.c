// SPDX-License-Identifier: Apache-2.0
// Reading: a stage of its own, so that the latency of disks and networks is
// hidden by reads in flight, not by decoder threads.
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "hal/engine/base.h"
#include "loader.h"

enum { WARM = 4 };  // times the depth, in batches

// ---- Room for the bytes ----------------------------------------------------

// Says whether no older batch is being read. The oldest always gets its bytes:
// the others cannot give any back before it is through. (One that waits for a
// thread does not count: all threads may be here.)
static bool is_oldest(const struct hr__loader *l, const struct hr__slot *slot)
{
    for (int i = 0; i < l->pub.depth; i++)
        if (l->slots[i].state == SLOT_READ && l->slots[i].reading &&
            l->slots[i].seq < slot->seq)
            return false;
    return true;
}

// Once it has made some batches the loader takes new memory only if the device
// could run dry: growing the pool is permanent, so a reader waits for the next
// job that ends instead.
static enum hr__page_pool_way way_of(struct hr__loader *l,
                                     const struct hr__loader_sample *sample)
{
    int ahead = l->settings.depth - 3, enough = ahead > 2 ? ahead : 2;

    if (l->base >= WARM * (uint64_t)l->pub.depth &&
        l->making / l->pub.batch >= enough)
        return HR__PAGE_POOL_KEPT;
    if (!is_oldest(l, sample->slot))
        return HR__PAGE_POOL_LIMIT;
    if (!sample->memory)
        return HR__PAGE_POOL_MUST;
    if (l->growing && l->growing != sample && is_oldest(l, l->growing->slot))
        return HR__PAGE_POOL_LIMIT;
    l->growing = sample;
    return HR__PAGE_POOL_MUST;
}

// Waits until there is room, or the loader ends. The lock is held.
static void *alloc_pages(struct hr__loader *l,
                         const struct hr__loader_sample *sample, size_t size)
{
    bool full = true;

    while (!l->stop) {
        enum hr__page_pool_way way = way_of(l, sample);
        void *memory = hr__page_pool_get(&l->pages, size, way, &full);

        if (memory || !full)
            return memory;
        hr__loader_flow(l);
        l->full += way == HR__PAGE_POOL_LIMIT;
        pthread_cond_wait(&l->bytes, &l->lock);
        hr__loader_flow(l);
        l->full -= way == HR__PAGE_POOL_LIMIT;
    }
    return NULL;
}

static void *alloc_sample(void *ctx, size_t size)
{
    struct hr__loader_sample *sample = ctx;
    struct hr__loader *l = sample->slot->loader;
    void *memory;

    pthread_mutex_lock(&l->lock);
    if (!size)  // whether to go on
        memory = l->stop ? NULL : sample;
    else
        memory = alloc_pages(l, sample, size);
    pthread_mutex_unlock(&l->lock);
    if (!size || !memory)
        return memory;
    if (sample->memory) {  // more of the same
        memcpy(memory, sample->memory, sample->taken);
        hr__sample_give_back(sample);
    }
    sample->memory = memory;
    sample->taken = size;
    return memory;
}

// ---- One sample ------------------------------------------------------------

static size_t max_bytes(const struct hr__loader *l)
{
    return l->params.device ? l->params.device->params.limits.file_bytes
                            : (size_t)256 << 20;
}

static enum hr_status read_file(struct hr__loader_sample *sample,
                                const char *path)
{
    size_t most = max_bytes(sample->slot->loader);
    enum hr_status status;

    status = hr__source_file(path, most, alloc_sample, sample,
                             &sample->from.size);
    sample->from.data = sample->memory;
    return status;
}

// Takes what was lent. *number: of the class, if it comes with the bytes.
static enum hr_status take_lent(struct hr__loader_sample *sample,
                                int64_t *number)
{
    const struct hr__loader *l = sample->slot->loader;

    sample->lent = sample->from;
    sample->is_lent = true;
    if (sample->from.has_class)
        *number = sample->from.class_number;
    if (sample->from.data || l->by_path || !sample->from.path)
        return HR_OK;
    return read_file(sample, sample->from.path);
}

static void begin_sample(struct hr__slot *slot, int j)
{
    slot->samples[j].from = (struct hr_encoded){0};
    slot->classes[j] = hr_source_class(slot->loader->params.source,
                                       slot->indices[j]);
}

// (With hr_last_error(), if it failed.)
static void end_sample(struct hr__slot *slot, int j, enum hr_status status)
{
    struct hr__loader_sample *sample = &slot->samples[j];

    sample->status = status;
    if (!status)
        return;
    snprintf(slot->results[j].message, sizeof(slot->results[j].message), "%s",
             hr_last_error());
    sample->from = (struct hr_encoded){0};
    hr__sample_give_back(sample);
}

// Samples js of a slot by one call of the program's.
static void read_many(struct hr__slot *slot, const int *js, int n)
{
    const struct hr__source *source = slot->loader->source;
    struct hr_source_read reads[HR_SOURCE_MANY];

    for (int k = 0; k < n; k++) {
        begin_sample(slot, js[k]);
        reads[k] = (struct hr_source_read){.i = slot->indices[js[k]]};
    }
    source->calls.read_many(source->calls.ctx, n, reads);
    for (int k = 0; k < n; k++) {
        struct hr__loader_sample *sample = &slot->samples[js[k]];
        enum hr_status status;

        reads[k].i = slot->indices[js[k]];
        status = hr__source_lent(source, &reads[k]);
        sample->from = reads[k].to;
        if (!status)
            status = take_lent(sample, &slot->classes[js[k]]);
        end_sample(slot, js[k], status);
    }
}

static void read_sample(struct hr__slot *slot, int j)
{
    const struct hr__loader *l = slot->loader;
    struct hr__loader_sample *sample = &slot->samples[j];
    uint64_t index = slot->indices[j];
    struct hr__reading r = {.max_bytes = max_bytes(l),
                            .room = alloc_sample,
                            .ctx = sample,
                            .unchecked = true};
    const struct hr__source_kind *kind;
    enum hr_status status;

    if (slot->pixels)
        r.pixels = slot->pixels + (size_t)j * HR__CIFAR_BYTES;
    begin_sample(slot, j);
    if (l->source->calls.read) {
        status = hr__source_lend(l->source, index, &sample->from);
        if (!status)
            status = take_lent(sample, &slot->classes[j]);
    } else {
        kind = hr__source_kind(l->source, index);
        // By its path the device reads what its cache has not.
        status = l->by_path && kind->by_path
                     ? HR_OK
                     : kind->read(l->source, index, &r, &sample->from);
        if (!sample->from.data)
            sample->from.data = sample->memory;
    }
    end_sample(slot, j, status);
}

// ---- Threads ---------------------------------------------------------------

static bool is_wanted(const struct hr__slot *slot)
{
    return slot->wanted;
}

// The oldest batch that has samples to read, else a new one. NULL: there is
// nothing to do.
static struct hr__slot *find_slot(struct hr__loader *l)
{
    struct hr__slot *found = hr__slot_find(l, SLOT_READ, is_wanted);

    return found ? found : hr__loader_plan(l);
}

// Takes samples for this thread to read: one, or as many as a call may be for.
static int take_samples(struct hr__slot *slot, int js[HR_SOURCE_MANY])
{
    int most = slot->loader->source->calls.read_many ? HR_SOURCE_MANY : 1;
    int n = 0;

    for (int j = 0; n < most && slot->wanted; j++) {
        if (!slot->samples[j].wanted)
            continue;
        slot->samples[j].wanted = false;
        slot->wanted--;
        slot->reading++;
        js[n++] = j;
    }
    return n;
}

bool hr__loader_start_reader(struct hr__loader *l)
{
    if (l->few || l->num_readers >= l->settings.reads)
        return false;
    l->few = !hr__thread_start(&l->readers[l->num_readers], hr__loader_reader,
                               l);
    l->num_readers += !l->few;
    return !l->few;
}

// Reads a sample or some, and submits the batch if that was its last one.
// Locked, but unlocks meanwhile.
static void read_some(struct hr__loader *l, struct hr__slot *slot)
{
    int js[HR_SOURCE_MANY], n = take_samples(slot, js);

    hr__loader_wake(l);
    hr__loader_flow(l);
    l->stats.reading++;
    pthread_mutex_unlock(&l->lock);
    if (l->source->calls.read_many)
        read_many(slot, js, n);
    else
        read_sample(slot, *js);
    pthread_mutex_lock(&l->lock);
    hr__loader_flow(l);
    l->stats.reading--;
    for (int k = 0; k < n; k++) {
        if (l->growing != &slot->samples[js[k]])
            continue;
        l->growing = NULL;
        pthread_cond_broadcast(&l->bytes);
    }
    slot->reading -= n;
    if (slot->reading || slot->wanted || l->stop)
        return;
    slot->state = SLOT_JOB;
    slot->submitting = true;
    pthread_cond_broadcast(&l->bytes);  // another is the oldest now
    pthread_mutex_unlock(&l->lock);
    hr__slot_submit(slot);
    pthread_mutex_lock(&l->lock);
}

void *hr__loader_reader(void *ctx)
{
    struct hr__loader *l = ctx;
    int number;

    hr__thread_gives_way(pthread_self());
    pthread_mutex_lock(&l->lock);
    number = l->begun++;
    while (!l->stop) {
        struct hr__slot *slot;

        if (number >= l->settings.reads) {
            hr__loader_wake(l);  // what may have woken this one
            // It may leave the oldest batch that was read: another is that now.
            pthread_cond_broadcast(&l->bytes);
            pthread_cond_wait(&l->unused, &l->lock);
        } else if (hr__loader_set_threads(l) || hr__loader_start_reader(l) ||
                   hr__loader_part(l) || hr__loader_map(l)) {
            continue;
        } else if ((slot = find_slot(l))) {
            read_some(l, slot);
        } else {
            l->idle++;
            pthread_cond_wait(&l->work, &l->lock);
            l->idle--;
            l->waking = false;
        }
    }
    pthread_mutex_unlock(&l->lock);
    if (l->source->calls.thread_ends)
        l->source->calls.thread_ends(l->source->calls.ctx);
    return NULL;
}
