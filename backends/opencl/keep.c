// SPDX-License-Identifier: Apache-2.0
// keep.h: the slots that batches pack into, how they are read back, and the
// keeper thread, which gives the pictures to caches.
#include "backends/opencl/keep.h"

#include <stdlib.h>
#include <string.h>

#include "backends/opencl/opencl.h"

// Bytes per second of packed pictures: a twelfth of what PCIe 4.0 carries with
// 16 lanes, and 11,000 pictures of ImageNet.
#define RATE INT64_C(2000000000)
// A command of reading: others use the bus in between.
#define CHUNK ((size_t)1 << 20)
enum { MOST_STRIKES = 3 };

enum hr_status ocl_keep_wanted(int64_t *rate)
{
    const char *text = secure_getenv("HEADRACE_OPENCL_KEEP");
    char *end = NULL;
    long mb;

    *rate = RATE;
    if (!text || !*text)
        return HR_OK;
    mb = strtol(text, &end, 10);
    if (*end || mb < 0 || mb > 1000000)
        return hr__fail(HR_EINVAL,
                        "HEADRACE_OPENCL_KEEP is '%.32s', not MB per second",
                        text);
    *rate = mb * INT64_C(1000000);
    return HR_OK;
}

bool ocl_keep_on(const struct ocl *o)
{
    return o->keeps && atomic_load(&o->keeps->strikes) < MOST_STRIKES;
}

void ocl_keep_never(struct ocl *o)
{
    if (o->keeps)
        atomic_store(&o->keeps->strikes, MOST_STRIKES);
}

// ---- Slots -----------------------------------------------------------------

// Locked
static struct ocl_keep *find(const struct ocl *o, enum ocl_keep_state state)
{
    for (int i = 0; o->keeps && i < OCL_KEEPS; i++)
        if (o->keeps->slots[i].state == state)
            return &o->keeps->slots[i];
    return NULL;
}

bool ocl_keep_waits(const struct ocl *o)
{
    return find(o, OCL_KEEP_PACKED);
}

bool ocl_keep_idle(const struct ocl *o)
{
    for (int i = 0; o->keeps && i < OCL_KEEPS; i++)
        if (o->keeps->slots[i].state != OCL_KEEP_FREE)
            return false;
    return true;
}

struct ocl_keep *ocl_keep_take(struct ocl *o)
{
    struct ocl_keep *keep;

    pthread_mutex_lock(&o->guard.lock);
    if ((keep = find(o, OCL_KEEP_FREE)))
        keep->state = OCL_KEEP_PACKING;
    pthread_mutex_unlock(&o->guard.lock);
    return keep;
}

static void set_state(struct ocl *o, struct ocl_keep *keep,
                      enum ocl_keep_state state)
{
    pthread_mutex_lock(&o->guard.lock);
    keep->state = state;
    pthread_cond_signal(&o->guard.lanes[0].wake);
    pthread_mutex_unlock(&o->guard.lock);
}

// The lock is not held. (A driver thread that was left behind may do the same.)
static void drop_pictures(struct ocl *o, struct ocl_keep *keep)
{
    struct hr__later gone[OCL_BATCH];
    int n = 0;

    pthread_mutex_lock(&o->guard.lock);
    for (int i = 0; i < OCL_BATCH; i++)
        if (keep->pictures[i].later.cache) {
            gone[n++] = keep->pictures[i].later;
            keep->pictures[i].later.cache = NULL;
        }
    pthread_mutex_unlock(&o->guard.lock);
    while (n)
        hr__later_drop(&gone[--n]);
}

// Whoever has the slot gives it up.
static void give_up(struct ocl *o, struct ocl_keep *keep)
{
    drop_pictures(o, keep);
    set_state(o, keep, OCL_KEEP_FREE);
}

void ocl_keep_drop(struct ocl *o, struct ocl_batch *batch)
{
    if (batch->keep)
        give_up(o, batch->keep);
    batch->keep = NULL;
}

// Something has failed that a sample does not need.
static void strike(struct ocl *o, const char *text)
{
    int n = atomic_fetch_add(&o->keeps->strikes, 1) + 1;

    hr__guard_log(&o->guard, HR_LOG_WARN, "pictures are not kept%s: %s",
                  n == MOST_STRIKES ? ", from now on the host packs them" : "",
                  text);
}

// ---- The keeper ------------------------------------------------------------

static void keep_pictures(struct ocl *o, struct ocl_keep *keep)
{
    const uint8_t *bytes = keep->host.host;
    bool ok = keep->result == CL_COMPLETE;

    for (int i = 0; i < keep->num_pictures; i++) {
        struct ocl_kept *k = &keep->pictures[i];

        if (ok && k->size &&
            hr__later_keep(&k->later, &k->facts, bytes + k->at, k->size))
            atomic_fetch_add(&o->keeps->kept, 1);
    }
    // Those that are not there.
    drop_pictures(o, keep);
    if (ok)
        atomic_store(&o->keeps->strikes, 0);
    else
        strike(o, "reading failed");
}

static void *run_keeper(void *owner)
{
    struct ocl *o = owner;
    struct ocl_keep *keep;

    pthread_mutex_lock(&o->guard.lock);
    while ((keep = find(o, OCL_KEEP_THERE)) || !o->keeps->stop) {
        if (!keep) {
            pthread_cond_wait(&o->keeps->wake, &o->guard.lock);
            continue;
        }
        pthread_mutex_unlock(&o->guard.lock);
        keep_pictures(o, keep);
        set_state(o, keep, OCL_KEEP_FREE);
        pthread_mutex_lock(&o->guard.lock);
    }
    pthread_mutex_unlock(&o->guard.lock);
    return NULL;
}

bool ocl_keep_start(struct ocl *o)
{
    struct ocl_keeps *keeps = o->keeps;

    if (!keeps->started &&
        !(keeps->started = hr__thread_start(&keeps->keeper, run_keeper, o)))
        atomic_store(&keeps->strikes, MOST_STRIKES);
    return keeps->started;
}

bool ocl_keep_init(struct ocl *o)
{
    struct ocl_keeps *keeps;

    if (!o->keep_rate)
        return true;
    if (!(keeps = hr__engine_ref_alloc(&o->guard.ref, sizeof(*keeps))))
        return false;
    memset(keeps, 0, sizeof(*keeps));
    keeps->rate = o->keep_rate;
    hr__cond_init(&keeps->wake);
    for (int i = 0; i < OCL_KEEPS; i++)
        keeps->slots[i].o = o;
    o->keeps = keeps;
    return true;
}

void ocl_keep_finish(struct ocl *o, bool free)
{
    struct ocl_keeps *keeps = o->keeps;

    if (!keeps)
        return;
    pthread_mutex_lock(&o->guard.lock);
    keeps->stop = true;
    pthread_cond_signal(&keeps->wake);
    pthread_mutex_unlock(&o->guard.lock);
    if (keeps->started)
        pthread_join(keeps->keeper, NULL);
    for (int i = 0; i < OCL_KEEPS; i++)
        drop_pictures(o, &keeps->slots[i]);
    if (free) {
        pthread_cond_destroy(&keeps->wake);
        hr__free(keeps);
        o->keeps = NULL;
    }
}

// ---- Buffers ---------------------------------------------------------------

void ocl_keep_grow(struct ocl *o, struct ocl_batch *batch)
{
    struct ocl_keep *keep = batch->keep;
    struct ocl_fault fault = {0};

    if (!keep || (keep->num_pictures &&
                  ocl_buffer_grow(o, &keep->packed, keep->room, false, &fault)))
        return;
    ocl_keep_drop(o, batch);
    if (fault.why)
        strike(o, fault.text);
}

bool ocl_keep_open(struct ocl *o, struct ocl_fault *fault)
{
    static const char *const names[HR__NUM_PACK_KERNELS] = {
#define X(name, text) [HR__PACK_##name] = text,
        HR__PACK_KERNELS(X)
#undef X
    };
    struct ocl_keeps *keeps = o->keeps;
    cl_int err;

    if (!ocl_keep_on(o))
        return true;
    keeps->queue = o->api.clCreateCommandQueue(o->context, o->facts.device, 0,
                                               &err);
    if (ocl_failed(fault, err, "clCreateCommandQueue")) {
        keeps->queue = NULL;
        return false;
    }
    for (int i = 0; i < HR__NUM_PACK_KERNELS; i++) {
        keeps->kernels[i] = o->api.clCreateKernel(o->program, names[i], &err);
        if (ocl_failed(fault, err, "clCreateKernel")) {
            keeps->kernels[i] = NULL;
            return false;
        }
    }
    return true;
}

void ocl_keep_close(struct ocl *o)
{
    struct ocl_keeps *keeps = o->keeps;

    if (!keeps)
        return;
    for (int i = 0; i < OCL_KEEPS; i++) {
        ocl_buffer_drop(o, &keeps->slots[i].packed);
        ocl_buffer_drop(o, &keeps->slots[i].host);
    }
    for (int i = 0; i < HR__NUM_PACK_KERNELS; i++) {
        if (keeps->kernels[i])
            o->api.clReleaseKernel(keeps->kernels[i]);
        keeps->kernels[i] = NULL;
    }
    if (keeps->queue)
        o->api.clReleaseCommandQueue(keeps->queue);
    keeps->queue = NULL;
}

void ocl_keep_forget(struct ocl *o)
{
    for (int i = 0; o->keeps && i < OCL_KEEPS; i++) {
        struct ocl_keep *keep = &o->keeps->slots[i];
        bool ours;

        pthread_mutex_lock(&o->guard.lock);
        ours = keep->state == OCL_KEEP_FREE || keep->state == OCL_KEEP_PACKING;
        pthread_mutex_unlock(&o->guard.lock);
        if (ours)
            keep->packed = keep->host = (struct ocl_buffer){0};
    }
}

// ---- On their way ----------------------------------------------------------

void ocl_keep_done(struct ocl *o, struct ocl_batch *batch, bool ok)
{
    struct ocl_keep *keep = batch->keep;
    const uint8_t *down = batch->down.host;

    batch->keep = NULL;
    if (!keep)
        return;
    keep->bytes = 0;
    for (int i = 0; i < keep->num_pictures && ok; i++) {
        struct ocl_kept *k = &keep->pictures[i];
        hr__word table[2] = {0};

        if (k->pack.room)
            memcpy(table, down + k->table_at, sizeof(table));
        // (It is the device that says so.)
        if (table[0] % HR__PACK_ALIGN || table[0] > keep->room ||
            table[1] > keep->room - table[0])
            table[1] = 0;
        k->at = table[0];
        k->size = table[1];
        if (k->size && keep->bytes < (size_t)k->at + k->size)
            keep->bytes = (size_t)k->at + k->size;
    }
    if (!keep->bytes)
        give_up(o, keep);
    else
        set_state(o, keep, OCL_KEEP_PACKED);
}

static void CL_CALLBACK on_read(cl_event event, cl_int result, void *arg)
{
    struct ocl_keep *keep = arg;
    struct ocl *o = keep->o;

    (void)event;
    pthread_mutex_lock(&o->guard.lock);
    keep->result = result;
    keep->state = OCL_KEEP_THERE;
    pthread_cond_signal(&o->keeps->wake);
    pthread_mutex_unlock(&o->guard.lock);
}

static bool enqueue_reads(struct ocl *o, struct ocl_keep *keep, cl_event *done,
                          struct ocl_fault *fault)
{
    for (size_t at = 0; at < keep->bytes; at += CHUNK) {
        size_t left = keep->bytes - at;
        cl_int err = o->api.clEnqueueReadBuffer(
            o->keeps->queue, keep->packed.mem, CL_FALSE, at,
            left < CHUNK ? left : CHUNK, (uint8_t *)keep->host.host + at, 0,
            NULL, left <= CHUNK ? done : NULL);

        if (ocl_failed(fault, err, "clEnqueueReadBuffer"))
            return false;
    }
    return true;
}

// Nothing of it may come any more; else its memory is left behind.
static void stop_reads(struct ocl *o, struct ocl_keep *keep)
{
    if (!o->api.clFinish(o->keeps->queue))
        return;
    keep->packed = keep->host = (struct ocl_buffer){0};
    pthread_mutex_lock(&o->guard.lock);
    o->guard.lost = true;
    pthread_mutex_unlock(&o->guard.lock);
}

// After true the slot must not be touched.
static bool read_back(struct ocl *o, struct ocl_keep *keep,
                      struct ocl_fault *fault)
{
    cl_event done = NULL;
    bool ok;

    if (!ocl_buffer_grow(o, &keep->host, keep->bytes, true, fault))
        return false;
    // (Once it is sent others count on what is counted.)
    ocl_times_moved(o, 0, keep->bytes);
    ok = enqueue_reads(o, keep, &done, fault) &&
         ocl_await(o, &done, false, on_read, keep, fault);
    if (ok)
        o->api.clFlush(o->keeps->queue);
    else
        stop_reads(o, keep);
    ocl_event_release(o, &done);
    return ok;
}

void ocl_keep_read(struct ocl *o)
{
    struct ocl_fault fault = {0};
    struct ocl_keep *keep;
    bool lost, ok = false;

    pthread_mutex_lock(&o->guard.lock);
    if ((keep = find(o, OCL_KEEP_PACKED)))
        keep->state = OCL_KEEP_READING;
    lost = o->guard.lost;
    pthread_mutex_unlock(&o->guard.lock);
    if (!keep)
        return;
    for (int i = 0; i < keep->num_pictures; i++)
        o->keeps->allowance += (int64_t)keep->pictures[i].guess -
                               (int64_t)keep->pictures[i].size;
    if (!lost) {
        ocl_enter(o);
        ok = read_back(o, keep, &fault);
        ocl_leave(o);
    }
    if (ok)
        return;
    give_up(o, keep);
    if (!lost)
        strike(o, fault.text);
}
