// SPDX-License-Identifier: Apache-2.0
// The way of a work to its engines: to the host, or to the list that another
// engine gets at once. How a span ends is in outcome.c. Everything here may be
// called on any thread and holds no lock while it calls an engine.

#include "hal/hal.h"

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

bool hr__task_stop(const struct hr__task *task)
{
    const struct hr__copy *copy = &task->copy;

    // What failed is cleared, whatever becomes of its job.
    if (copy->memory && !copy->to && !copy->from)
        return false;
    // The watchdog looks at the clock.
    return hr__job_stops(hr__work_of(task)->job);
}

enum hr_status hr__task_stop_status(const struct hr__task *task)
{
    return atomic_load(&hr__work_of(task)->job->canceled) ? HR_ECANCELED
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

    slot->work = work;
    slot->begun = e->host ? 0 : hr__watch_begin();
    slot->task.next = NULL;
    slot->task.pic = &work->pic;
    slot->task.prepared = work->prepared;
    slot->task.copy = (struct hr__copy){0};
    if (work->prepared) {
        slot->task.span = work->plan.spans[work->at].span;
        slot->task.in = work->at ? &work->payloads[work->at - 1] : NULL;
    }
    hr__clock_start(slot, INT64_MAX);
    atomic_store(&slot->state, e->host ? HR__CLAIMED : HR__RUNNING);
    return &slot->task;
}

static bool moves(const struct hr__work *work)
{
    return work->transfer == HR__MOVE;
}

// Takes the first work of the list and those behind it that are of the same
// device and do not move: they go to its host in one list.
static void to_host(struct hr__work **list)
{
    struct hr__device *dev = (*list)->job->dev;
    struct hr__engine *host = hr__host(dev);
    struct hr__task *head = NULL, **tail = &head;
    struct hr__work *work;

    // The device must outlive the host's submit(), the works need not: they
    // may have waited for a job of another device, which is on this thread.
    atomic_fetch_add(&dev->refs, 1);
    pthread_mutex_lock(&dev->lock);
    while ((work = *list) && work->job->dev == dev && (!head || !moves(work))) {
        *list = work->next;
        work->upstream = true;
        work->job->upstream++;
        *tail = arm(work, host->index);
        tail = &(*tail)->next;
    }
    pthread_mutex_unlock(&dev->lock);
    host->backend->submit(host, head);
    hr__device_unref(dev);
}

// The works that this thread dispatches, if it does. What becomes ready
// meanwhile goes to their end, so that no stack grows with a queue of works of
// which each makes the next one ready.
static _Thread_local struct hr__work **dispatching;

static void append(struct hr__work **list, struct hr__work *more)
{
    while (*list)
        list = &(*list)->next;
    *list = more;
}

void hr__dispatch_new(struct hr__work *list)
{
    if (dispatching) {
        append(dispatching, list);
        return;
    }
    dispatching = &list;
    while (list) {
        struct hr__work *work = list, *next = work->next;

        // (Begun, it may be gone; its place in the list is another's then.)
        list = next;
        if (moves(work) && hr__move_begin(work))
            continue;
        work->next = list;
        list = work;
        to_host(&list);
    }
    dispatching = NULL;
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

    if (!hr__reach(work))
        return false;
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
