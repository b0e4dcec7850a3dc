// SPDX-License-Identifier: Apache-2.0
// Payloads in pinned memory, so that the host writes their bytes once and the
// device fetches them from there. Only devices with memory of their own get it:
// a device that shares the host's memory reads a batch's upload in place, and
// may not read memory that is mapped for others to write.
//
// Payloads fill chunks from front to back. A chunk is held by payloads that are
// not yet freed, and by batches whose upload may still read it. It begins again
// when it is not held. Only the driver thread makes and releases chunks; so
// when there is no room a payload lies on the heap, and the next batch makes
// another chunk, up to OCL_CHUNKS. A chunk that is held when the device is lost
// takes nothing new, and is released when its last holder is gone.
#include "backends/opencl/opencl.h"

void ocl_pinned_init(struct ocl_pinned *p)
{
    pthread_mutex_init(&p->lock, NULL);
}

void ocl_pinned_finish(struct ocl_pinned *p)
{
    pthread_mutex_destroy(&p->lock);
}

// ---- Any thread -----------------------------------------------------------

// p->lock is held. Only the driver thread changes what the chunks are.
static struct ocl_chunk *chunk_of(struct ocl_pinned *p, const void *data)
{
    for (int i = 0; i < OCL_CHUNKS; i++) {
        struct ocl_chunk *c = &p->chunks[i];
        uintptr_t at = (uintptr_t)c->buffer.host;

        if (at && (uintptr_t)data >= at &&
            (uintptr_t)data - at < c->buffer.size)
            return c;
    }
    return NULL;
}

static void *take(struct ocl_chunk *c, size_t size)
{
    uint8_t *data = c->buffer.host;

    if (!c->holders)
        c->used = 0;
    // Never to the end: another chunk may follow in memory, and drivers refuse
    // a command that reads from two.
    if (!data || c->retired || c->buffer.size - c->used < size + OCL_ALIGN)
        return NULL;
    data += c->used;
    c->used += size;
    c->holders++;
    return data;
}

void *ocl_pinned_alloc(struct ocl_pinned *p, size_t size)
{
    void *data = NULL;

    if (!atomic_load_explicit(&p->on, memory_order_relaxed) ||
        size > OCL_CHUNK_BYTES - 2 * OCL_ALIGN)
        return NULL;
    pthread_mutex_lock(&p->lock);
    // The chunk in use comes first: payloads of a batch shall lie together.
    for (int i = 0; i < OCL_CHUNKS && !data; i++) {
        int k = (p->filling + i) % OCL_CHUNKS;

        if ((data = take(&p->chunks[k], ocl_aligned(size))))
            p->filling = k;
    }
    p->wanted |= !data;
    pthread_mutex_unlock(&p->lock);
    return data;
}

bool ocl_pinned_free(struct ocl_pinned *p, void *data)
{
    struct ocl_chunk *c;

    pthread_mutex_lock(&p->lock);
    if ((c = chunk_of(p, data)))
        c->holders--;
    pthread_mutex_unlock(&p->lock);
    return c;
}

bool ocl_pinned_has(struct ocl_pinned *p, const void *data)
{
    bool has;
    struct ocl_chunk *c;

    pthread_mutex_lock(&p->lock);
    c = chunk_of(p, data);
    has = c && !c->retired;
    pthread_mutex_unlock(&p->lock);
    return has;
}

void ocl_pinned_retain(struct ocl_pinned *p, struct ocl_batch *batch,
                       const void *data)
{
    struct ocl_chunk *c;
    unsigned bit;

    pthread_mutex_lock(&p->lock);
    if ((c = chunk_of(p, data))) {
        bit = 1u << (c - p->chunks);
        c->holders += !(batch->chunks & bit);
        batch->chunks |= bit;
    }
    pthread_mutex_unlock(&p->lock);
}

void ocl_pinned_release(struct ocl_pinned *p, struct ocl_batch *batch)
{
    if (!batch->chunks)
        return;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < OCL_CHUNKS; i++)
        p->chunks[i].holders -= (int)(batch->chunks >> i & 1);
    pthread_mutex_unlock(&p->lock);
    batch->chunks = 0;
}

// ---- The driver thread ----------------------------------------------------

static void put(struct ocl_pinned *p, struct ocl_chunk *c,
                const struct ocl_buffer *buffer)
{
    pthread_mutex_lock(&p->lock);
    *c = (struct ocl_chunk){.buffer = *buffer};
    p->wanted = false;
    pthread_mutex_unlock(&p->lock);
}

// Takes the buffer of a chunk that is retired and not held.
static struct ocl_buffer take_retired(struct ocl_pinned *p, struct ocl_chunk *c)
{
    struct ocl_buffer buffer = {0};

    pthread_mutex_lock(&p->lock);
    if (c->retired && !c->holders) {
        buffer = c->buffer;
        *c = (struct ocl_chunk){0};
    }
    pthread_mutex_unlock(&p->lock);
    return buffer;
}

// Chunks that were held when their context was closed, and are not any more.
static void release_retired(struct ocl *o)
{
    for (int i = 0; i < OCL_CHUNKS; i++) {
        struct ocl_buffer buffer = take_retired(&o->pinned,
                                                &o->pinned.chunks[i]);

        buffer.host = NULL;  // the queue that mapped it is gone
        ocl_buffer_drop(o, &buffer);
    }
}

void ocl_pinned_grow(struct ocl *o)
{
    struct ocl_pinned *p = &o->pinned;
    struct ocl_fault fault = {0};
    struct ocl_buffer buffer = {0};
    struct ocl_chunk *c = NULL;
    bool wanted;

    pthread_mutex_lock(&p->lock);
    wanted = p->wanted;
    pthread_mutex_unlock(&p->lock);
    if (!wanted)
        return;
    release_retired(o);
    // Only this thread changes what they are.
    for (int i = 0; i < OCL_CHUNKS && !c; i++)
        if (!p->chunks[i].buffer.mem)
            c = &p->chunks[i];
    if (c && ocl_buffer_grow(o, &buffer, OCL_CHUNK_BYTES, true, &fault))
        put(p, c, &buffer);
    else if (c)
        // It works without, and is not tried again and again.
        atomic_store(&p->on, false);
}

void ocl_pinned_open(struct ocl *o)
{
    atomic_store(&o->pinned.on,
                 !o->facts.unified && o->buffer_bytes >= OCL_CHUNK_BYTES);
}

void ocl_pinned_close(struct ocl *o)
{
    struct ocl_pinned *p = &o->pinned;

    atomic_store(&p->on, false);
    for (int i = 0; i < OCL_CHUNKS; i++) {
        struct ocl_buffer buffer;

        pthread_mutex_lock(&p->lock);
        p->chunks[i].retired = p->chunks[i].buffer.mem;
        pthread_mutex_unlock(&p->lock);
        buffer = take_retired(p, &p->chunks[i]);
        ocl_buffer_drop(o, &buffer);
    }
}

// ---- Of one batch ---------------------------------------------------------

// Sorts the items by their order in memory.
static int sort_items(struct ocl_batch *batch,
                      struct ocl_item *sorted[OCL_BATCH])
{
    int n = 0;

    for (int i = 0; i < batch->num_items; i++) {
        struct ocl_item *item = &batch->items[i];
        int at = n;

        if (!item->pinned || item->dropped)
            continue;
        for (; at && sorted[at - 1]->pinned > item->pinned; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = item;
        n++;
    }
    return n;
}

size_t ocl_pinned_arrange(struct ocl_batch *batch, size_t base)
{
    struct ocl_item *sorted[OCL_BATCH];
    struct ocl_run *run = NULL;
    int n = sort_items(batch, sorted);

    batch->num_runs = 0;
    for (int i = 0; i < n; i++) {
        struct ocl_item *item = sorted[i];
        size_t size = ocl_aligned(item->in_bytes);

        if (!run || item->pinned != run->from + run->size) {
            run = &batch->runs[batch->num_runs++];
            *run = (struct ocl_run){.from = item->pinned, .to = base};
        }
        item->in_at = base;
        base += size;
        run->size += size;
    }
    return base;
}
