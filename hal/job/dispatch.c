// SPDX-License-Identifier: Apache-2.0
// How a work comes to an engine: to the host's queue, or to the list that
// another engine gets at once. Everything here may be called on any thread and
// holds no lock while it calls an engine.
#include "hal/job/report.h"
#include "hal/job/work.h"

static struct hr__task *arm(struct hr__work *work, int engine)
{
    struct hr__engine_task *et = &work->tasks[engine];
    struct hr__engine *e = work->job->dev->engines[engine];

    et->begun = e->host ? 0 : hr__watch_begin();
    et->task.next = NULL;
    et->task.pic = &work->pic;
    et->task.source = work->lead;
    et->task.ahead = NULL;
    et->task.copy = (struct hr__copy){0};
    if (work->prepared) {
        et->task.span = work->plan.spans[work->at].span;
        et->task.in = work->at ? &work->payloads[work->at - 1] : NULL;
        if (!work->at && work->ahead.owner == e)
            et->task.ahead = &work->ahead;
    }
    hr__clock_start(et, INT64_MAX);
    atomic_store(&et->late, HR__NOT_LATE);
    atomic_store(&et->state, e->host ? HR__CLAIMED : HR__RUNNING);
    return &et->task;
}

void hr__queue_at_host(struct hr__work *list)
{
    struct hr__device *dev = list->job->dev;
    struct hr__engine *host = hr__host(dev);
    struct hr__task *head = NULL, **tail = &head;

    // The device must outlive the host's submit(), the works need not: they
    // may have waited for a job of another device, which is on this thread.
    atomic_fetch_add(&dev->refs, 1);
    pthread_mutex_lock(&dev->lock);
    for (struct hr__work *next; list; list = next) {
        next = list->next;
        list->upstream = true;
        list->job->upstream++;
        *tail = arm(list, host->index);
        tail = &(*tail)->next;
    }
    pthread_mutex_unlock(&dev->lock);
    host->backend->submit(host, head);
    hr__device_unref(dev);
}

// device->lock held; true = the caller must call flush(job) without the lock
// (it holds a reference for that).
static bool leave(struct hr__work *work)
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
        hr__share_begun(w, i);
    }
    *staged = (struct hr__staged){0};
    return head;
}

static void flush(struct hr__job *job)
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

void hr__leave_upstream(struct hr__work *work)
{
    struct hr__device *dev = work->job->dev;
    bool last;

    pthread_mutex_lock(&dev->lock);
    last = leave(work);
    pthread_mutex_unlock(&dev->lock);
    if (last)
        flush(work->job);
}

// A file that the engine begins with: this thread copies it, one of many.
// (Works that read the same bytes mostly share what the engine makes of the
// first one's.)
static void copy_file(struct hr__work *work, struct hr__engine *e)
{
    int64_t begin;

    if (work->at || !e->backend->copy_file || !work->pic.data ||
        (work->lead && work->lead != work) ||
        work->plan.spans[0].span.first != HR_ENTROPY)
        return;
    begin = hr__watch_begin();
    e->backend->copy_file(e, &work->pic, &work->ahead);
    if (!work->ahead.data)
        return;
    work->ahead.owner = e;
    hr__budget_charge(&work->wait, work->ahead.size);
    hr__watch_work(work, HR_PART_PACK, begin);
}

// Puts the work on the list for its next engine; submits the list if that was
// the last to come, or if it is as long as the engine likes it.
static void stage(struct hr__work *work, struct hr__engine *e)
{
    struct hr__job *job = work->job;
    struct hr__device *dev = job->dev;
    struct hr__staged *staged = &job->staged[e->index];
    struct hr__task *full = NULL;
    bool last;

    pthread_mutex_lock(&dev->lock);
    work->next = NULL;
    if (!staged->head)
        staged->tail = &staged->head;
    *staged->tail = work;
    staged->tail = &work->next;
    staged->count++;
    last = leave(work);
    // A work that came back from an engine is submitted if none is upstream.
    if (!last && (job->upstream == 0 ||
                  (e->caps.batch && staged->count >= e->caps.batch)))
        full = take_staged(job, e->index);
    if (full)  // the engine must outlive its submit(), the tasks need not
        atomic_fetch_add(&job->refs, 1);
    pthread_mutex_unlock(&dev->lock);
    if (full) {
        submit_equal(e, full);
        hr__job_unref(job);
    }
    if (last)
        flush(job);
}

static bool stays_on_host(const struct hr__work *work)
{
    for (int i = work->at; i < work->plan.num_spans; i++)
        if (!hr__engine_at(work, i)->host)
            return false;
    return true;
}

bool hr__hand_over(struct hr__work *work, bool here)
{
    struct hr__job *job = work->job;
    struct hr__engine *e = hr__engine_at(work, work->at);
    struct hr__task *task;

    if (!e->host) {
        copy_file(work, e);
        stage(work, e);
        return false;
    }
    if (job->dev->num_engines > 1 && stays_on_host(work))
        hr__leave_upstream(work);
    task = arm(work, e->index);
    if (here)
        return true;
    atomic_fetch_add(&job->refs, 1);  // as in stage()
    e->backend->submit(e, task);
    hr__job_unref(job);
    return false;
}
