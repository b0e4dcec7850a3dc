// SPDX-License-Identifier: Apache-2.0
// How a span ends: with the next span, on the next engine, or with the
// sample's result.
#include <stdio.h>
#include <string.h>

#include "hal/crosscheck.h"
#include "hal/hal.h"

// ---- Ends ------------------------------------------------------------------

static const char *name_of(const struct hr__work *work)
{
    return work->sample.path   ? work->sample.path
           : work->sample.name ? work->sample.name
                               : NULL;
}

// Before the first stage there is the file, and then its header.
static enum hr_stage where(const struct hr__work *work,
                           const struct hr__outcome *out)
{
    if (!work->prepared && out->stage == HR_ENTROPY)
        return out->status == HR_EIO ? HR_READ : HR_HEADER;
    return out->stage;
}

// The status is said in words unless the text says the same.
static const char *status_text(const struct hr__outcome *out)
{
    bool said = out->status == HR_EIO || out->status == HR_ELIMIT;

    return said && out->text[0] ? "" : hr_status_text(out->status);
}

static void write_message(struct hr__work *work, const struct hr__outcome *out)
{
    enum { NAME = 200 };
    struct hr_result *r = &work->job->results[work->index];
    const char *name = name_of(work), *status = status_text(out);
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
             hr_stage_name(r->stage), offset, status,
             *status && out->text[0] ? ": " : "", out->text);
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
    bool open;

    hr__graph_lock();
    open = work->writes.open;
    hr__graph_unlock();
    return open;
}

// Ends the turns of a work; whoever waited for them goes on.
static void leave_tracks(struct hr__work *work, enum hr_status status)
{
    struct hr__image *out = (struct hr__image *)work->sample.out;
    struct hr__work *a, *b, **end = &a;

    hr__graph_lock();
    if (work->writes.open)
        work->writes.track->status = status;
    else if (work->writes.track)
        hr__track_drop(&work->writes, status);
    a = hr__track_remove(&work->reads);
    while (*end)
        end = &(*end)->next;
    b = hr__track_remove(&work->writes);
    *end = b;
    if (out)
        pthread_cond_broadcast(&out->idle);
    hr__graph_unlock();
    if (a)
        hr__dispatch_new(a);
}

static void count(struct hr__work *work, enum hr_status status)
{
    struct hr_stats *s = &work->job->dev->stats;

    if (work->job->moves)
        return;
    pthread_mutex_lock(&work->job->dev->lock);
    s->samples++;
    s->failed += status != HR_OK && status != HR_ECANCELED;
    s->canceled += status == HR_ECANCELED;
    s->fallbacks += work->job->results[work->index].fallbacks > 0;
    for (unsigned why = work->why; why; why &= why - 1)
        s->fallback_reasons[__builtin_ctz(why)]++;
    pthread_mutex_unlock(&work->job->dev->lock);
}

static bool clears(const struct hr__work *work, const struct hr__outcome *out)
{
    // Without its turn the memory belongs to others.
    return out->status && !work->job->moves &&
           work->job->params.on_error != HR_ON_ERROR_SKIP && has_turn(work);
}

void hr__work_end(struct hr__work *work, const struct hr__outcome *outcome)
{
    struct hr__outcome end = *outcome, *out = &end;

    hr__check_end(work, out);
    // (What was put back by that may have to leave the host.)
    if (outcome->status && !out->status && hr__bring_begin(work, out))
        return;
    if (clears(work, out)) {
        if (hr__clear_begin(work, out))
            return;
        if (!hr__on_device(work->pic.dst.memory))
            clear_dst(&work->pic.dst);
    }
    hr__work_finish(work, out);
}

void hr__work_finish(struct hr__work *work, const struct hr__outcome *out)
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
    r->stage = where(work, out);
    r->offset = out->status ? out->offset : -1;
    if (out->status) {
        r->num_spans = 0;
        write_message(work, out);
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

// ---- The engine is done ----------------------------------------------------

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
    hr__payloads_free(work, work->payloads, HR_NUM_STAGES);
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

bool hr__task_may_leave(const struct hr__task *task)
{
    const struct hr__slot *slot = (const struct hr__slot *)task;

    return !task->copy.memory &&
           may_fall_back(slot->work, (int)(slot - slot->work->slots));
}

bool hr__task_is_timed(const struct hr__task *task)
{
    return hr__work_of(task)->job->deadline < INT64_MAX;
}

// Whom a failed sample leaves: the engine that failed it; or, if the host
// could not make what another engine was to go on with, or could not go on
// with what another has made, and says why, that one.
static int engine_to_leave(const struct hr__work *work, int engine,
                           const struct hr__outcome *out)
{
    struct hr__device *dev = work->job->dev;

    if (!dev->engines[engine]->host || !out->why)
        return engine;
    for (int i = work->at + 1; i < work->plan.num_spans; i++)
        if (!dev->engines[work->plan.spans[i].engine]->host)
            return work->plan.spans[i].engine;
    for (int i = work->at - 1; i >= 0; i--)
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

// What a check has to say comes before the result leaves the host.
static void picture_made(struct hr__work *work, const struct hr__outcome *out)
{
    struct hr__outcome end = *out;

    hr__check_end(work, &end);
    if (end.status || !hr__bring_begin(work, &end))
        hr__work_end(work, &end);
}

static void span_done(struct hr__work *work, int engine,
                      const struct hr__outcome *out)
{
    struct hr_result *r = &work->job->results[work->index];
    const struct hr__task *task = &work->slots[engine].task;

    r->spans[r->num_spans++] = (struct hr_span_result){
        work->plan.spans[work->at].span, work->job->dev->engines[engine]->name};
    if (task->span.last == HR_RECONSTRUCT && work->job->dev->tap &&
        hr__payload_map(&work->payloads[work->at]))
        work->job->dev->tap(work->job->dev->tap_ctx, work->index,
                            &work->payloads[work->at]);
    if (++work->at < work->plan.num_spans)
        hr__dispatch_planned(work, false);
    else if (!hr__check_begin(work, out))
        picture_made(work, out);
}

// The next engine must not be given what is not there.
static void span_made_nothing(struct hr__work *work, int engine)
{
    struct hr__outcome out = {.status = HR_EDEVICE,
                              .why = HR_WHY_FAILED,
                              .stage = work->plan.spans[work->at].span.last,
                              .offset = -1,
                              .text = "the device reports success, but has "
                                      "left nothing to go on from"};

    span_failed(work, engine, &out);
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
    // What is only taken from a queue is no sign of life.
    if (!hr__task_stop(task))
        hr__clock_alive(slot);
    if (task->copy.memory || work->transfer == HR__MOVE) {
        hr__transfer_done(work, out);
        return;
    }
    hr__watch_slot(slot, work->job->dev->engines[engine]);
    if (out->status)
        span_failed(work, engine, out);
    else if (!hr__payload_made(work))
        span_made_nothing(work, engine);
    else
        span_done(work, engine, out);
}

// What the hung engine reads and makes must stay till it comes back.
static void keep_payloads(struct hr__work *work, int engine)
{
    for (int i = 0; i < 2; i++) {
        int made_by = work->at - 1 + i;

        if (made_by < 0)
            continue;
        work->kept[engine][i] = work->payloads[made_by];
        work->payloads[made_by] = (struct hr__payload){0};
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
    if (!hr__clock_over(slot, hr__now()))
        return false;
    // Before the exchange: the engine may come back right after it.
    atomic_fetch_add(&job->refs, 1);
    if (!atomic_compare_exchange_strong(&slot->state, &running, HR__GIVEN_UP)) {
        hr__job_unref(job);
        return false;
    }
    out.stage = slot->task.span.first;
    work->given_up = true;
    if (!slot->task.copy.memory)
        keep_payloads(work, engine);
    pthread_mutex_lock(&job->dev->lock);
    job->dev->stats.abandoned++;
    pthread_mutex_unlock(&job->dev->lock);
    if (slot->task.copy.memory)
        hr__transfer_done(work, &out);
    else
        span_failed(work, engine, &out);
    return true;
}
