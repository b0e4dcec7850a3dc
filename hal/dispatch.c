// SPDX-License-Identifier: Apache-2.0
// The way of a work through its spans: to the host, to an engine's list, to
// the next engine when one fails, to its end. Everything here may be called
// on any thread and holds no lock while it calls an engine.
#include <stdio.h>
#include <string.h>

#include "hal/hal.h"

static struct hr__work *work_of(const struct hr__task *task)
{
    return ((const struct hr__slot *)task)->work;
}

static struct hr__engine *engine_of(const struct hr__task *task)
{
    const struct hr__slot *slot = (const struct hr__slot *)task;

    return slot->work->job->dev->engines[slot - slot->work->slots];
}

struct hr__engine *hr__host(struct hr__device *dev)
{
    return dev->engines[dev->num_engines - 1];
}

bool hr__job_stops(const struct hr__job *job)
{
    return atomic_load_explicit(&job->canceled, memory_order_relaxed) ||
           atomic_load_explicit(&job->expired, memory_order_relaxed);
}

void hr__task_begun(struct hr__task *task)
{
    int64_t ns = engine_of(task)->host ? 0
                                       : engine_of(task)->params.deadline_ns;

    atomic_store(&((struct hr__slot *)task)->deadline,
                 ns ? hr__deadline(ns) : 0);
}

bool hr__task_stop(const struct hr__task *task)
{
    // The watchdog looks at the clock.
    return hr__job_stops(work_of(task)->job);
}

enum hr_status hr__task_stop_status(const struct hr__task *task)
{
    return atomic_load(&work_of(task)->job->canceled) ? HR_ECANCELED
                                                      : HR_ETIMEDOUT;
}

bool hr__task_claim(struct hr__task *task)
{
    int running = HR__RUNNING;

    return atomic_compare_exchange_strong(&((struct hr__slot *)task)->state,
                                          &running, HR__CLAIMED) ||
           running == HR__CLAIMED;
}

void hr__task_unclaim(struct hr__task *task)
{
    if (!engine_of(task)->host)
        atomic_store(&((struct hr__slot *)task)->state, HR__RUNNING);
}

// ---- To the engines -----------------------------------------------------------------

static struct hr__task *arm(struct hr__work *work, int engine)
{
    struct hr__slot *slot = &work->slots[engine];
    struct hr__engine *e = work->job->dev->engines[engine];
    int64_t ns = e->host ? 0 : e->params.deadline_ns;

    slot->work = work;
    slot->task.next = NULL;
    slot->task.pic = &work->pic;
    slot->task.prepared = work->prepared;
    if (work->prepared) {
        slot->task.span = work->plan.spans[work->at].span;
        slot->task.in = work->at ? &work->payloads[work->at - 1] : NULL;
    }
    atomic_store(&slot->deadline, ns ? hr__deadline(ns) : 0);
    atomic_store(&slot->state, e->host ? HR__CLAIMED : HR__RUNNING);
    return &slot->task;
}

void hr__dispatch_new(struct hr__work *list)
{
    struct hr__work *work, *next;

    for (work = list; work; work = next) {
        struct hr__device *dev = work->job->dev;
        struct hr__engine *host = hr__host(dev);
        struct hr__task *head = NULL, **tail = &head;

        // Works of one device in a row go in one list.
        pthread_mutex_lock(&dev->lock);
        for (; work && work->job->dev == dev; work = next) {
            next = work->next;
            work->upstream = true;
            work->job->upstream++;
            *tail = arm(work, host->index);
            tail = &(*tail)->next;
        }
        pthread_mutex_unlock(&dev->lock);
        next = work;
        host->backend->submit(host, head);
    }
}

bool hr__upstream_leave(struct hr__work *work)
{
    struct hr__job *job = work->job;

    if (!work->upstream)
        return false;
    work->upstream = false;
    if (--job->upstream)
        return false;
    for (int i = 0; i < job->dev->num_engines; i++)
        if (job->staged[i].count) {
            atomic_fetch_add(&job->refs, 1);
            return true;
        }
    return false;
}

// Engines get lists of equal spans; the order within each is kept.
static void submit_equal(struct hr__engine *e, struct hr__task *list)
{
    while (list) {
        struct hr__task *equal = list, **tail = &equal->next, **at = tail;
        struct hr_span span = list->span;

        list = *at;
        *tail = NULL;
        for (at = &list; *at;) {
            struct hr__task *t = *at;

            if (t->span.first != span.first || t->span.last != span.last) {
                at = &t->next;
                continue;
            }
            *at = t->next;
            *tail = t;
            tail = &t->next;
            *tail = NULL;
        }
        e->backend->submit(e, equal);
    }
}

// Takes the list for engine i, armed and linked as tasks. device->lock held.
static struct hr__task *take_staged(struct hr__job *job, int i)
{
    struct hr__staged *staged = &job->staged[i];
    struct hr__task *head = NULL, **tail = &head;

    for (struct hr__work *w = staged->head, *next; w; w = next) {
        next = w->next;
        *tail = arm(w, i);
        tail = &(*tail)->next;
    }
    *staged = (struct hr__staged){0};
    return head;
}

void hr__flush(struct hr__job *job)
{
    struct hr__device *dev = job->dev;
    struct hr__task *lists[HR__MAX_ENGINES];

    pthread_mutex_lock(&dev->lock);
    for (int i = 0; i < dev->num_engines; i++)
        lists[i] = take_staged(job, i);
    pthread_mutex_unlock(&dev->lock);
    // The device outlives the job's reference, which we hold.
    for (int i = 0; i < dev->num_engines; i++)
        submit_equal(dev->engines[i], lists[i]);
    hr__job_unref(job);
}

// Puts the work on the list for its next engine; submits the list if that was
// the last to come, or if it is as long as the engine likes it.
static void stage(struct hr__work *work, struct hr__engine *e)
{
    struct hr__job *job = work->job;
    struct hr__device *dev = job->dev;
    struct hr__staged *staged = &job->staged[e->index];
    struct hr__task *full = NULL;
    bool flush;

    pthread_mutex_lock(&dev->lock);
    work->next = NULL;
    if (!staged->head)
        staged->tail = &staged->head;
    *staged->tail = work;
    staged->tail = &work->next;
    staged->count++;
    flush = hr__upstream_leave(work);
    // A work that came back from an engine is nobody's neighbour.
    if (!flush && (job->upstream == 0 ||
                   (e->caps.batch && staged->count >= e->caps.batch)))
        full = take_staged(job, e->index);
    if (full)  // the engine must outlive its submit(), the tasks need not
        atomic_fetch_add(&job->refs, 1);
    pthread_mutex_unlock(&dev->lock);
    if (full) {
        submit_equal(e, full);
        hr__job_unref(job);
    }
    if (flush)
        hr__flush(job);
}

static bool stays_on_host(const struct hr__work *work)
{
    for (int i = work->at; i < work->plan.num_spans; i++)
        if (!work->job->dev->engines[work->plan.spans[i].engine]->host)
            return false;
    return true;
}

bool hr__dispatch_planned(struct hr__work *work, bool on_host)
{
    struct hr__job *job = work->job;
    struct hr__device *dev = job->dev;
    struct hr__engine *e = dev->engines[work->plan.spans[work->at].engine];
    struct hr__task *task;
    bool flush = false;

    if (!e->host) {
        stage(work, e);
        return false;
    }
    if (dev->num_engines > 1 && stays_on_host(work)) {
        pthread_mutex_lock(&dev->lock);
        flush = hr__upstream_leave(work);
        pthread_mutex_unlock(&dev->lock);
    }
    task = arm(work, e->index);
    if (!on_host) {
        atomic_fetch_add(&job->refs, 1);  // as in stage()
        e->backend->submit(e, task);
        hr__job_unref(job);
    }
    if (flush)
        hr__flush(job);
    return on_host;
}

// ---- Payloads ---------------------------------------------------------------------------

struct hr__payload *hr__task_payload(struct hr__task *task, size_t size)
{
    struct hr__work *work = work_of(task);
    struct hr__device *dev = work->job->dev;
    struct hr__payload *p = &work->payloads[work->at];
    struct hr__engine *next =
        dev->engines[work->plan.spans[work->at + 1].engine];

    *p = (struct hr__payload){.after = task->span.last,
                              .size = size,
                              .owner = next};
    p->data = next->backend->buffer_alloc
                  ? next->backend->buffer_alloc(next, size)
                  : hr__pool_get(&dev->pool, size);
    return p->data ? p : NULL;
}

struct hr__payload *hr__task_payload_own(
    struct hr__task *task, void *data, size_t size,
    void (*release)(struct hr__payload *payload), void *ctx)
{
    struct hr__work *work = work_of(task);
    struct hr__device *dev = work->job->dev;
    struct hr__payload *p = &work->payloads[work->at];

    *p = (struct hr__payload){
        .after = task->span.last,
        .data = data,
        .size = size,
        .owner = dev->engines[work->plan.spans[work->at + 1].engine],
        .release = release,
        .release_ctx = ctx};
    return p;
}

static void free_payloads(struct hr__work *work, struct hr__payload *payloads,
                          int n)
{
    struct hr__pool *pool = &work->job->dev->pool;

    for (int i = 0; i < n; i++) {
        struct hr__payload *p = &payloads[i];

        if (p->data && p->release)
            p->release(p);
        else if (p->data && p->owner->backend->buffer_alloc)
            p->owner->backend->buffer_free(p->owner, p->data, p->size);
        else
            hr__pool_put(pool, p->data);
        p->data = NULL;
    }
}

void hr__work_free(struct hr__work *work)
{
    free_payloads(work, work->payloads, HR_NUM_STAGES);
    free_payloads(work, work->kept[0], 2 * HR__MAX_ENGINES);
    hr__pool_put(&work->job->dev->pool, work->file);
    work->file = NULL;
}

// ---- Ends -----------------------------------------------------------------------------------

static const char *name_of(const struct hr__work *work)
{
    return work->sample.path   ? work->sample.path
           : work->sample.name ? work->sample.name
                               : NULL;
}

// Before the first stage there is the file, and then its header.
static const char *where(const struct hr__work *work,
                         const struct hr__outcome *out)
{
    if (!work->prepared && out->stage == HR_ENTROPY)
        return out->status == HR_EIO ? "read" : "header";
    return hr_stage_name(out->stage);
}

static void write_message(struct hr__work *work, const struct hr__outcome *out)
{
    enum { NAME = 200 };
    struct hr_result *r = &work->job->results[work->index];
    const char *name = name_of(work);
    char number[32], offset[40] = "";
    size_t len = name ? strlen(name) : 0;

    snprintf(number, sizeof(number), "sample %d", work->index);
    if (out->offset >= 0)
        snprintf(offset, sizeof(offset), " at byte %lld",
                 (long long)out->offset);
    // The end of a long path tells more than its beginning.
    snprintf(r->message, sizeof(r->message), "%s%s: %s%s: %s%s%s",
             len > NAME ? "..." : "",
             !name        ? number
             : len > NAME ? name + len - NAME
                          : name,
             where(work, out), offset, hr_status_text(out->status),
             out->text[0] ? ": " : "", out->text);
}

static void clear_dst(const struct hr__dst *d)
{
    size_t elem = hr_dtype_size(d->dtype);
    bool planar = d->layout == HR_NCHW;

    for (int c = 0; c < (planar ? d->c : 1); c++)
        for (int y = 0; y < d->h; y++)
            memset(d->data + (planar ? d->stride_c * (size_t)c : 0) +
                       d->stride_h * (size_t)y,
                   0, (size_t)d->w * elem * (planar ? 1 : (size_t)d->c));
}

static bool has_turn(const struct hr__work *work)
{
    struct hr__device *dev = work->job->dev;
    bool open;

    pthread_mutex_lock(&dev->graph);
    open = work->writes.open;
    pthread_mutex_unlock(&dev->graph);
    return open;
}

// Ends the turns of a work; whoever waited for them goes on.
static void leave_tracks(struct hr__work *work, enum hr_status status)
{
    struct hr__device *dev = work->job->dev;
    struct hr__image *out = (struct hr__image *)work->sample.out;
    struct hr__work *a, *b, **end = &a;

    pthread_mutex_lock(&dev->graph);
    if (work->writes.open)
        work->writes.track->status = status;
    else
        hr__track_drop(&work->writes, status);
    a = hr__track_remove(&work->reads);
    while (*end)
        end = &(*end)->next;
    b = hr__track_remove(&work->writes);
    *end = b;
    if (out)
        pthread_cond_broadcast(&out->idle);
    pthread_mutex_unlock(&dev->graph);
    if (a)
        hr__dispatch_new(a);
}

static void count(struct hr__work *work, enum hr_status status)
{
    struct hr_stats *s = &work->job->dev->stats;

    pthread_mutex_lock(&work->job->dev->lock);
    s->samples++;
    s->failed += status != HR_OK && status != HR_ECANCELED;
    s->canceled += status == HR_ECANCELED;
    s->fallbacks += work->job->results[work->index].fallbacks > 0;
    for (unsigned why = work->why; why; why &= why - 1)
        s->fallback_reasons[__builtin_ctz(why)]++;
    pthread_mutex_unlock(&work->job->dev->lock);
}

void hr__work_end(struct hr__work *work, const struct hr__outcome *out)
{
    struct hr__job *job = work->job;
    struct hr__device *dev = job->dev;
    struct hr_result *r = &job->results[work->index];
    hr_image in = work->sample.image, dst = work->sample.out;
    bool flush;

    r->status = out->status;
    r->why = work->why | out->why;
    work->why = r->why;
    r->warnings = out->warnings;
    r->stage = out->stage;
    r->offset = out->status ? out->offset : -1;
    if (out->status) {
        r->num_spans = 0;
        write_message(work, out);
        // Without its turn the memory belongs to others.
        if (job->params.on_error != HR_ON_ERROR_SKIP && has_turn(work))
            clear_dst(&work->pic.dst);
        hr__log(dev, HR_LOG_INFO, "%s", r->message);
    }
    if (!work->given_up)
        hr__work_free(work);
    hr__budget_ungrant(work);
    count(work, out->status);
    pthread_mutex_lock(&dev->lock);
    flush = hr__upstream_leave(work);
    pthread_mutex_unlock(&dev->lock);
    if (flush)
        hr__flush(job);
    leave_tracks(work, out->status);
    hr_image_release(&in);
    hr_image_release(&dst);
    if (atomic_fetch_sub(&job->left, 1) == 1)
        hr__job_ended(job);
}

// ---- The engine is done ------------------------------------------------------------------------

// A sample that an engine other than the CPU failed, or that cannot reach it,
// is made again from its source by those that are left. Never silent: counted,
// with the reason.
static void fall_back(struct hr__work *work, int engine,
                      const struct hr__outcome *out)
{
    struct hr__device *dev = work->job->dev;
    struct hr_result *r = &work->job->results[work->index];
    struct hr__outcome next = {.offset = -1};

    work->excluded |= 1u << engine;
    work->why |= out->why ? out->why : HR_WHY_FAILED;
    r->fallbacks++;
    r->num_spans = 0;
    hr__log(dev, HR_LOG_WARN, "%s: sample %d falls back: %s",
            dev->engines[engine]->name, work->index,
            out->text[0] ? out->text : hr_status_text(out->status));
    free_payloads(work, work->payloads, HR_NUM_STAGES);
    if (hr__replan(work, &next))
        hr__dispatch_planned(work, false);
    else
        hr__work_end(work, out);
}

static bool may_fall_back(const struct hr__work *work, int engine)
{
    const struct hr__job *job = work->job;

    return !job->dev->engines[engine]->host && !job->params.strict &&
           !job->dev->pub.params.strict;
}

// Whom a failed sample leaves: the engine that failed it; or, if the host
// could not make what another engine was to go on with and says why, that one.
static int engine_to_leave(const struct hr__work *work, int engine,
                           const struct hr__outcome *out)
{
    struct hr__device *dev = work->job->dev;

    if (!dev->engines[engine]->host || !out->why)
        return engine;
    for (int i = work->at + 1; i < work->plan.num_spans; i++)
        if (!dev->engines[work->plan.spans[i].engine]->host)
            return work->plan.spans[i].engine;
    return engine;
}

static void span_failed(struct hr__work *work, int engine,
                        const struct hr__outcome *out)
{
    const struct hr__task *task = &work->slots[engine].task;
    struct hr__outcome stopped = {.offset = -1, .stage = out->stage};

    engine = engine_to_leave(work, engine, out);
    if (!may_fall_back(work, engine)) {
        hr__work_end(work, out);
    } else if (hr__task_stop(task)) {
        // It would have been made elsewhere, had nobody stopped it.
        stopped.status = hr__task_stop_status(task);
        hr__work_end(work, &stopped);
    } else {
        fall_back(work, engine, out);
    }
}

static void span_done(struct hr__work *work, int engine,
                      const struct hr__outcome *out)
{
    struct hr_result *r = &work->job->results[work->index];

    r->spans[r->num_spans++] = (struct hr_span_result){
        work->plan.spans[work->at].span, work->job->dev->engines[engine]->name};
    if (++work->at == work->plan.num_spans)
        hr__work_end(work, out);
    else
        hr__dispatch_planned(work, false);
}

void hr__task_done(struct hr__task *task, const struct hr__outcome *out)
{
    struct hr__slot *slot = (struct hr__slot *)task;
    struct hr__work *work = slot->work;
    int engine = (int)(slot - work->slots);

    if (atomic_exchange(&slot->state, HR__IDLE) == HR__GIVEN_UP) {
        // The driver came back after all. Nobody waits for it any more.
        hr__job_unref(work->job);
        return;
    }
    atomic_store(&slot->deadline, 0);
    if (out->status == HR_OK)
        span_done(work, engine, out);
    else
        span_failed(work, engine, out);
}

// What the hung engine reads and makes must stay till it comes back.
static void keep_payloads(struct hr__work *work, int engine)
{
    for (int i = 0; i < 2; i++) {
        int made_by = work->at - 1 + i;

        if (made_by < 0)
            continue;
        work->kept[engine][i] = work->payloads[made_by];
        work->payloads[made_by].data = NULL;
    }
}

bool hr__give_up(struct hr__slot *slot)
{
    struct hr__work *work = slot->work;
    struct hr__job *job = work->job;
    int running = HR__RUNNING, engine = (int)(slot - work->slots);
    struct hr__outcome out = {.status = HR_ETIMEDOUT,
                              .why = HR_WHY_TIMEOUT,
                              .offset = -1,
                              .text = "the device did not answer in time"};

    // It may have come back since, and hold the work's next span.
    if (atomic_load(&slot->deadline) > hr__now())
        return false;
    // Before the exchange: the engine may come back right after it.
    atomic_fetch_add(&job->refs, 1);
    if (!atomic_compare_exchange_strong(&slot->state, &running, HR__GIVEN_UP)) {
        hr__job_unref(job);
        return false;
    }
    out.stage = slot->task.span.first;
    work->given_up = true;
    keep_payloads(work, engine);
    pthread_mutex_lock(&job->dev->lock);
    job->dev->stats.abandoned++;
    pthread_mutex_unlock(&job->dev->lock);
    span_failed(work, engine, &out);
    return true;
}
