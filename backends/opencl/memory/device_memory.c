// SPDX-License-Identifier: Apache-2.0
// Memory for images and batches. Small images share memory objects (slabs), so
// that one launch reaches many of them; larger images, and every batch, have
// one of their own. The driver thread makes and releases objects, on request; a
// caller that times out leaves the request to that thread. Taking a block of a
// slab needs no request.
//
// All commands on device memory go through the compute queue. That orders them:
// a kernel whose task was given up runs before any later command, also on the
// same block when it belongs to another image.
#include <string.h>

#include "backends/opencl/memory/device_memory.h"

enum { BLOCK = 4096, PER_SLAB = 8, KEEP_EMPTY = 2, ZEROS = 1 << 20 };
#define SLAB ((size_t)32 << 20)
#define MOST (((size_t)1 << 32) - ((size_t)1 << 16))  // offsets have 32 bits

static const uint8_t zeros[ZEROS];

// For the driver thread: to make a slab (that has no memory), to clear a block.
struct ocl_request {
    struct ocl_request *next;
    struct ocl_memory *memory;
    enum hr_memory kind;
    bool clear;
    // Locked
    bool done, left;
    struct ocl_fault fault;
};

// ---- Blocks (locked) -------------------------------------------------------

static struct ocl_memory *take_block(struct ocl *o, size_t block)
{
    for (struct ocl_slab *s = o->slabs; s; s = s->next)
        if (s->num > 1 && s->block == block && s->free &&
            s->context == o->current) {
            struct ocl_memory *m = s->free;

            s->free = m->next;
            o->empty_slabs -= !s->used;
            s->used++;
            return m;
        }
    return NULL;
}

// Leaves an unused slab to the driver thread, which releases it.
static void retire(struct ocl *o, struct ocl_slab *slab)
{
    struct ocl_slab **at = &o->slabs;

    while (*at && *at != slab)
        at = &(*at)->next;
    if (*at)
        *at = slab->next;
    slab->next = o->old_slabs;
    o->old_slabs = slab;
}

// Gives a block back. True: the driver thread has something to release.
static bool give_block(struct ocl *o, struct ocl_memory *m)
{
    struct ocl_slab *s = m->slab;

    m->next = s->free;
    s->free = m;
    if (--s->used)
        return false;
    if (s->listed && s->num > 1 && s->context == o->current &&
        o->empty_slabs < KEEP_EMPTY) {
        o->empty_slabs++;
        return false;
    }
    retire(o, s);
    return true;
}

void ocl_memory_hold(struct hr__memory *memory)
{
    ((struct ocl_memory *)memory)->slab->used++;
}

// (Pinned memory has slabs of its own, so there is no block to give back.)
void ocl_memory_let_go(struct ocl *o, struct hr__memory *memory)
{
    if (give_block(o, (struct ocl_memory *)memory))
        pthread_cond_signal(&o->guard.threads[0].wake);
}

void ocl_memory_renew(struct ocl *o)
{
    struct ocl_slab *s, *next;

    pthread_mutex_lock(&o->guard.lock);
    o->current = o->context;
    o->empty_slabs = 0;
    for (s = o->slabs; s; s = next) {
        next = s->next;
        if (!s->used)
            retire(o, s);
    }
    pthread_mutex_unlock(&o->guard.lock);
}

// ---- Slabs -----------------------------------------------------------------

static struct ocl_slab *new_slab(struct hr__engine *e, size_t size,
                                 bool own_object)
{
    const struct ocl *o = ocl_of(e);
    size_t slab = SLAB < o->buffer_bytes ? SLAB : o->buffer_bytes;
    size_t block = ocl_round_size(size, NULL);
    bool own = own_object || block > slab / PER_SLAB;
    int num = own ? 1 : (int)(slab / block);
    struct ocl_slab *s =
        hr__alloc(e->device, sizeof(*s) + (size_t)num * sizeof(s->blocks[0]));

    if (!s)
        return NULL;
    memset(s, 0, sizeof(*s) + (size_t)num * sizeof(s->blocks[0]));
    s->num = num;
    s->block = block;
    s->used = 1;
    for (int i = num - 1; i >= 0; i--) {
        struct ocl_memory *m = &s->blocks[i];

        m->slab = s;
        m->pub.owner = e;
        m->pub.native.api = "opencl";
        m->pub.native.offset = (size_t)i * block;
        if (i) {
            m->next = s->free;
            s->free = m;
        }
    }
    return s;
}

// On the driver thread.
static bool make_slab(struct ocl *o, struct ocl_slab *s, enum hr_memory kind,
                      struct ocl_fault *fault)
{
    size_t size = s->num > 1 ? (size_t)s->num * s->block
                             : s->blocks[0].pub.size;

    s->context = o->context;
    if (!ocl_buffer_make(o, &s->buffer, (size + BLOCK - 1) / BLOCK * BLOCK,
                         kind == HR_MEMORY_PINNED, fault))
        return false;
    for (int i = 0; i < s->num; i++) {
        s->blocks[i].pub.native.memory = s->buffer.mem;
        s->blocks[i].pub.host = s->buffer.host;
        s->blocks[i].pub.direct = s->buffer.host && !o->facts.unified;
    }
    return true;
}

static void drop_slab(struct ocl *o, struct ocl_slab *s)
{
    // Mapped memory of a lost context is left behind: drivers crash when it is
    // released.
    if (s->buffer.host && s->context != o->context)
        s->buffer.mem = s->buffer.host = NULL;
    ocl_buffer_drop(o, &s->buffer);
    hr__free(s);
}

static bool clear(struct ocl *o, const struct ocl_memory *m,
                  struct ocl_fault *fault)
{
    size_t at = m->pub.native.offset, end = at + m->pub.size;

    // This waits, but for memory that a user asks for, not for a sample.
    for (size_t n; at < end; at += n) {
        n = end - at < ZEROS ? end - at : ZEROS;
        if (ocl_failed(fault,
                       o->api.clEnqueueWriteBuffer(
                           o->queues[OCL_COMPUTE], m->slab->buffer.mem,
                           at + n == end, at, n, zeros, 0, NULL, NULL),
                       "clEnqueueWriteBuffer"))
            return false;
    }
    return true;
}

// ---- Requests --------------------------------------------------------------

static void run_request(struct ocl *o, struct ocl_request *r)
{
    struct ocl_slab *s = r->memory->slab;

    if (!r->fault.why &&
        (s->buffer.mem || make_slab(o, s, r->kind, &r->fault)) && r->clear &&
        !s->buffer.host)
        clear(o, r->memory, &r->fault);
}

static bool is_left(struct ocl *o, struct ocl_request *r)
{
    bool left;

    pthread_mutex_lock(&o->guard.lock);
    left = r->left;
    r->done = true;
    if (left)
        give_block(o, r->memory);
    pthread_cond_broadcast(&o->guard.changed);
    pthread_mutex_unlock(&o->guard.lock);
    return left;
}

void ocl_memory_serve(struct ocl *o, const struct ocl_fault *fault)
{
    struct ocl_request *r, *next;
    struct ocl_slab *old, *s;

    pthread_mutex_lock(&o->guard.lock);
    r = o->requests;
    old = o->old_slabs;
    o->requests = NULL;
    o->old_slabs = NULL;
    pthread_mutex_unlock(&o->guard.lock);
    while ((s = old)) {
        old = s->next;
        drop_slab(o, s);
    }
    for (; r; r = next) {
        next = r->next;
        if (fault)
            r->fault = *fault;
        run_request(o, r);
        if (is_left(o, r))
            hr__free(r);
    }
}

void ocl_memory_close(struct ocl *o)
{
    struct ocl_slab *s;

    ocl_memory_serve(o, NULL);
    while ((s = o->slabs)) {
        o->slabs = s->next;
        drop_slab(o, s);
    }
    ocl_memory_serve(o, NULL);
}

// Appends a request to the queue. Locked
static void queue_request(struct ocl *o, struct ocl_request *r)
{
    struct ocl_request **end = &o->requests;

    while (*end)
        end = &(*end)->next;
    *end = r;
    pthread_cond_signal(&o->guard.threads[0].wake);
}

// Locked
static void list_slab(struct ocl *o, struct ocl_slab *s)
{
    if (s->listed)
        return;
    s->next = o->slabs;
    o->slabs = s;
    s->listed = true;
}

// Waits until the driver thread has done it. False with hr__fail(): then the
// request and its memory are not the caller's any more.
static bool ask(struct ocl *o, struct ocl_request *r, int64_t deadline)
{
    bool waits = true;

    pthread_mutex_lock(&o->guard.lock);
    queue_request(o, r);
    // A job's callback runs on the driver thread: it does the request itself.
    if (hr__guard_is_thread(&o->guard, 0)) {
        pthread_mutex_unlock(&o->guard.lock);
        ocl_memory_serve(o, NULL);
        pthread_mutex_lock(&o->guard.lock);
    }
    while (!r->done && !o->guard.dead && waits) {
        waits = hr__cond_wait(&o->guard.changed, &o->guard.lock, deadline);
        // A program that is being completed is not held against the device.
        if (!waits && o->guard.held && deadline < o->compiled) {
            deadline = o->compiled;
            waits = true;
        }
    }
    if (r->done && !r->fault.why) {
        list_slab(o, r->memory->slab);
        pthread_mutex_unlock(&o->guard.lock);
        return true;
    }
    if (r->done && give_block(o, r->memory))
        pthread_cond_signal(&o->guard.threads[0].wake);
    r->left = !r->done;
    pthread_mutex_unlock(&o->guard.lock);
    if (r->left)
        return hr__fail(waits ? HR_EDEVICE : HR_ETIMEDOUT,
                        "the device does not answer"),
               false;
    hr__fail(r->fault.why & HR_WHY_MEMORY ? HR_ENOMEM : HR_EDEVICE, "%s",
             r->fault.text);
    hr__free(r);
    return false;
}

// A new slab, or a block that has to be cleared.
static struct hr__memory *by_request(struct hr__engine *e, struct ocl_memory *m,
                                     enum hr_memory kind, bool clears,
                                     int64_t deadline)
{
    struct ocl *o = ocl_of(e);
    struct ocl_request *r = hr__alloc(e->device, sizeof(*r));

    if (!r) {
        hr__fail(HR_ENOMEM, "out of memory");
        pthread_mutex_lock(&o->guard.lock);
        give_block(o, m);
        pthread_mutex_unlock(&o->guard.lock);
        return NULL;
    }
    *r = (struct ocl_request){.memory = m, .kind = kind, .clear = clears};
    if (!ask(o, r, deadline))
        return NULL;
    hr__free(r);
    if (m->pub.host)
        memset(m->pub.host, 0, m->pub.size);
    return &m->pub;
}

// ---- For the HAL -----------------------------------------------------------

struct hr__memory *ocl_memory_alloc(struct hr__engine *e, enum hr_memory kind,
                                    size_t size, bool clears, bool own_object,
                                    int64_t deadline)
{
    struct ocl *o = ocl_of(e);
    size_t most = o->facts.max_alloc < MOST ? (size_t)o->facts.max_alloc : MOST;
    bool own = own_object || kind == HR_MEMORY_PINNED, fresh = false;
    struct ocl_memory *m = NULL;
    struct ocl_slab *s;

    if (size > most - BLOCK)
        return hr__fail(HR_ELIMIT,
                        "%zu bytes, the device makes %zu in one piece", size,
                        most - BLOCK),
               NULL;
    if (!own) {
        pthread_mutex_lock(&o->guard.lock);
        m = take_block(o, ocl_round_size(size, NULL));
        pthread_mutex_unlock(&o->guard.lock);
    }
    if (!m) {
        if (!(s = new_slab(e, size, own)))
            return hr__fail(HR_ENOMEM, "out of memory"), NULL;
        m = &s->blocks[0];
        fresh = true;
    }
    m->pub.size = size;
    return fresh || clears ? by_request(e, m, kind, clears, deadline) : &m->pub;
}

void ocl_memory_free(struct hr__engine *e, struct hr__memory *memory)
{
    struct ocl *o = ocl_of(e);

    pthread_mutex_lock(&o->guard.lock);
    if (give_block(o, (struct ocl_memory *)memory))
        pthread_cond_signal(&o->guard.threads[0].wake);
    pthread_mutex_unlock(&o->guard.lock);
}

cl_mem ocl_memory_object(const struct ocl *o, const struct hr__memory *memory)
{
    const struct ocl_slab *s = ((const struct ocl_memory *)memory)->slab;

    return s->context == o->context ? s->buffer.mem : NULL;
}
