// SPDX-License-Identifier: Apache-2.0
// Prefetch for sequential reads. If samples are read in about their order, the
// object is read in blocks, and threads of its own read the next blocks ahead.
// The number of blocks in flight adapts to how late they arrive.
#include <string.h>

#include "hal/engine/base.h"
#include "http.h"

enum {
    BLOCK = 1 << 21,   // bytes
    NEAR = 4 * BLOCK,  // between reads that are near each other, at most
    RUN = 8,           // such reads in a row
    FAR = 4 * RUN,     // and after blocks that were wasted
    BEHIND = 4,        // blocks that are kept behind the last
};

enum hr_status hr__http_get_range(struct hr__http_object *o, void *to,
                                  size_t size, uint64_t offset,
                                  struct hr__http_read *r)
{
    enum hr_status status;

    r->url = o->url;
    r->headers = o->headers;
    r->place = &o->place;
    r->to = to;
    r->want.offset = offset;
    r->want.size = size;
    r->want.most = o->http->params.max_bytes;
    if (atomic_load(&o->no_if_range))
        r->tag[0] = '\0';
    else if (r->want.known)
        strcpy(r->tag, o->tag);
    status = hr__http_get(o->http, r);
    if (!status && r->want.known && *o->tag && !*r->tag)
        atomic_store(&o->no_if_range, true);
    return status;
}

// ---- The order of reads ----------------------------------------------------

static bool is_near(const struct hr__http_stream *stream,
                    const struct hr__http_object *o, uint64_t offset)
{
    // (In a small object all reads are.)
    uint64_t size = o->version.size / 16, most = size < NEAR ? size : NEAR;

    return stream->object == o && offset + most >= stream->next &&
           offset <= stream->next + most;
}

// Says whether reads go through the object in about its order: threads come in
// any. Two loaders of a source have each their own.
static bool goes_on(struct hr__http_ahead *a, const struct hr__http_object *o,
                    size_t size, uint64_t offset)
{
    struct hr__http_stream *found = NULL, *oldest = &a->streams[0],
                           *last = &a->streams[0];

    for (int i = 0; i < HR__HTTP_STREAMS; i++) {
        struct hr__http_stream *stream = &a->streams[i];

        if (is_near(stream, o, offset))
            found = stream;
        oldest = stream->used < oldest->used ? stream : oldest;
        last = stream->used > last->used ? stream : last;
    }
    if (found) {
        found->run++;
    } else {
        // The next object begins where the last one was read as far as this.
        int run = offset < BLOCK && last->run >= RUN ? RUN : 0;

        // A read near no other may be a sign of random order.
        for (int i = 0; i < HR__HTTP_STREAMS; i++)
            a->streams[i].run = a->streams[i].run < 0 ? a->streams[i].run : 0;
        found = oldest;
        *found = (struct hr__http_stream){.object = o, .run = run};
    }
    found->next = offset + size;
    found->used = ++a->clock;
    return found->run >= RUN;
}

// ---- Blocks ----------------------------------------------------------------

static size_t bytes_of(const struct hr__http_object *o, uint64_t number)
{
    uint64_t left = o->version.size - number * BLOCK;

    return left < BLOCK ? (size_t)left : BLOCK;
}

static struct hr__http_block *find(struct hr__http_ahead *a,
                                   const struct hr__http_object *o,
                                   uint64_t number)
{
    for (int i = 0; i < HR__HTTP_BLOCKS; i++)
        if (a->blocks[i].state && a->blocks[i].object == o &&
            a->blocks[i].number == number)
            return &a->blocks[i];
    return NULL;
}

static bool has_all(struct hr__http_ahead *a, const struct hr__http_object *o,
                    size_t size, uint64_t offset)
{
    for (uint64_t n = offset / BLOCK; n <= (offset + size - 1) / BLOCK; n++) {
        const struct hr__http_block *b = find(a, o, n);

        if (!b || b->state != HR__BLOCK_HERE)
            return false;
    }
    return true;
}

// Blocks of which little was of use: the reads are near each other by chance.
static void forget_block(struct hr__http_ahead *a, struct hr__http_block *b)
{
    a->wasted = b->served < bytes_of(b->object, b->number) / 8 ? a->wasted + 1
                                                               : 0;
    for (int i = 0; i < HR__HTTP_STREAMS && a->wasted > 1; i++)
        a->streams[i].run = -FAR;
    b->state = HR__BLOCK_FREE;
    b->object = NULL;
}

// Returns a block that is free, or the least recently used one; none that was
// named since `clock`.
static struct hr__http_block *free_block(struct hr__http_ahead *a,
                                         uint64_t clock)
{
    struct hr__http_block *found = NULL;
    int most = a->distance + BEHIND;

    for (int i = 0; i < most && i < HR__HTTP_BLOCKS; i++) {
        struct hr__http_block *b = &a->blocks[i];

        if (b->users)
            continue;
        if (!b->state) {
            found = b;
            break;
        }
        if (b->state == HR__BLOCK_HERE && b->used < clock &&
            (!found || b->used < found->used))
            found = b;
    }
    if (!found || (!found->bytes && !(found->bytes = hr__alloc(NULL, BLOCK))))
        return NULL;
    if (found->state)
        forget_block(a, found);
    return found;
}

// Blocks of a read, and those behind it that shall be on their way.
static void want(struct hr__http_ahead *a, struct hr__http_object *o,
                 size_t size, uint64_t offset)
{
    uint64_t last = (offset + size - 1) / BLOCK + (uint64_t)a->distance,
             end = (o->version.size - 1) / BLOCK, clock = a->clock;

    for (uint64_t n = offset / BLOCK; n <= last && n <= end; n++) {
        struct hr__http_block *b = find(a, o, n);

        if (!b && !(b = free_block(a, clock)))
            return;
        if (!b->state) {
            *b = (struct hr__http_block){.object = o,
                                         .number = n,
                                         .state = HR__BLOCK_WANTED,
                                         .bytes = b->bytes};
            pthread_cond_signal(&a->wanted);
        }
        b->used = clock;
    }
}

// Fetches a block. With the lock, which it opens meanwhile.
static enum hr_status fetch(struct hr__http_ahead *a, struct hr__http_block *b,
                            struct hr__http_read *r)
{
    struct hr__http_object *o = b->object;
    enum hr_status status;

    b->state = HR__BLOCK_READING;
    pthread_mutex_unlock(&a->lock);
    status = hr__http_get_range(o, b->bytes, bytes_of(o, b->number),
                                b->number * BLOCK, r);
    pthread_mutex_lock(&a->lock);
    b->state = status ? HR__BLOCK_FREE : HR__BLOCK_HERE;
    pthread_cond_broadcast(&a->came);
    return status;
}

// ---- Threads that read ahead -----------------------------------------------

static void *go_on(void *ctx, size_t size)
{
    struct hr__http_block *b = ctx;

    (void)size;
    return atomic_load(&b->object->closed) ? NULL : ctx;
}

static struct hr__http_block *next_wanted(struct hr__http_ahead *a)
{
    struct hr__http_block *found = NULL;

    for (int i = 0; i < HR__HTTP_BLOCKS; i++) {
        struct hr__http_block *b = &a->blocks[i];

        if (b->state == HR__BLOCK_WANTED &&
            (!found || b->number < found->number))
            found = b;
    }
    return found;
}

static void *read_blocks(void *ctx)
{
    struct hr__http_ahead *a = ctx;

    pthread_mutex_lock(&a->lock);
    while (!a->stop) {
        struct hr__http_block *b = next_wanted(a);
        struct hr__http_read r = {.room = go_on, .ctx = b};

        if (!b) {
            pthread_cond_wait(&a->wanted, &a->lock);
            continue;
        }
        // (A block that fails is read again by the reader that needs it, which
        // reports the reason.)
        r.want.known = &b->object->version;
        fetch(a, b, &r);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

// Starts as many threads as blocks may be in flight.
static void start_threads(struct hr__http_ahead *a)
{
    a->finish = hr__http_ahead_finish;
    while (a->num_threads < a->distance && !a->few) {
        a->few = !hr__thread_start(&a->threads[a->num_threads], read_blocks, a);
        a->num_threads += !a->few;
    }
}

// ---- Reads -----------------------------------------------------------------

// The block was not there when it was needed: more are to be on their way.
static void note_late(struct hr__http_ahead *a, struct hr__http_block *b)
{
    if (b->late)
        return;
    b->late = true;
    a->distance = 2 * a->distance < HR__HTTP_AHEAD ? 2 * a->distance
                                                   : HR__HTTP_AHEAD;
    start_threads(a);
}

// Waits until the block is here, or reads it. With the lock, which it opens
// meanwhile; false: it is not to be had in this way, or not for the reader.
static bool await(struct hr__http_ahead *a, struct hr__http_block *b,
                  struct hr__http_read *r)
{
    if (b->state != HR__BLOCK_HERE)
        note_late(a, b);
    if (b->state == HR__BLOCK_WANTED && fetch(a, b, r))
        return false;
    while (b->state == HR__BLOCK_WANTED || b->state == HR__BLOCK_READING) {
        bool goes = true;

        pthread_mutex_unlock(&a->lock);
        goes = !r->room || r->room(r->ctx, 0);
        pthread_mutex_lock(&a->lock);
        if (!goes || hr__now() >= r->deadline)
            return false;
        if (b->state != HR__BLOCK_HERE)
            hr__cond_wait(&a->came, &a->lock, hr__now() + 50000000);
    }
    return b->state == HR__BLOCK_HERE;
}

// Copies what the block has of the range. *n: how much; 0: nothing.
static void copy(struct hr__http_ahead *a, struct hr__http_object *o, void *to,
                 size_t size, uint64_t offset, struct hr__http_read *r,
                 size_t *n)
{
    struct hr__http_block *b = find(a, o, offset / BLOCK);
    size_t at = (size_t)(offset % BLOCK);

    *n = 0;
    if (!b)
        return;
    b->users++;
    if (await(a, b, r)) {
        *n = bytes_of(o, b->number) - at;
        *n = *n < size ? *n : size;
        b->served += *n;
        pthread_mutex_unlock(&a->lock);
        memcpy(to, b->bytes + at, *n);
        pthread_mutex_lock(&a->lock);
    }
    b->users--;
}

enum hr_status hr__http_read_near(struct hr__http_object *o, void *to,
                                  size_t size, uint64_t offset,
                                  struct hr__http_read *r)
{
    struct hr__http_ahead *a = &o->http->ahead;
    size_t done = 0, n = 1;
    bool near;

    // (One for all that follows: its blocks, and what they do not bring.)
    r->deadline = hr__http_deadline(o->http, r->deadline);

    if (hr__http_forked(o->http))
        return hr__http_get_range(o, to, size, offset, r);  // says why not
    pthread_mutex_lock(&a->lock);
    near = goes_on(a, o, size, offset) && size <= BLOCK;
    if (near && !a->distance)
        a->distance = 2;
    if (near) {
        start_threads(a);
        want(a, o, size, offset);
    } else {
        near = has_all(a, o, size, offset);
    }
    for (; near && n && done < size; done += n)
        copy(a, o, (char *)to + done, size - done, offset + done, r, &n);
    pthread_mutex_unlock(&a->lock);
    return done == size ? HR_OK
                        : hr__http_get_range(o, (char *)to + done, size - done,
                                             offset + done, r);
}

// ---- Begin and end ---------------------------------------------------------

void hr__http_forget(struct hr__http_object *o)
{
    struct hr__http_ahead *a = &o->http->ahead;

    if (hr__http_forked(o->http))
        return;
    atomic_store(&o->closed, true);
    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < HR__HTTP_STREAMS; i++)
        if (a->streams[i].object == o)
            a->streams[i] = (struct hr__http_stream){.object = NULL};
    for (int i = 0; i < HR__HTTP_BLOCKS; i++) {
        struct hr__http_block *b = &a->blocks[i];

        if (b->object != o)
            continue;
        while (b->state == HR__BLOCK_READING)
            pthread_cond_wait(&a->came, &a->lock);
        b->state = HR__BLOCK_FREE;
        b->object = NULL;
    }
    pthread_mutex_unlock(&a->lock);
}

static void end_threads(struct hr__http_ahead *a)
{
    pthread_mutex_lock(&a->lock);
    a->stop = true;
    pthread_cond_broadcast(&a->wanted);
    pthread_mutex_unlock(&a->lock);
    for (int i = 0; i < a->num_threads; i++)
        pthread_join(a->threads[i], NULL);
}

// (Called by what it stands on, so that files have an order.)
void hr__http_ahead_finish(struct hr__http_ahead *a, bool forked)
{
    if (!forked)
        end_threads(a);
    for (int i = 0; i < HR__HTTP_BLOCKS; i++)
        hr__free(a->blocks[i].bytes);
}
