// SPDX-License-Identifier: Apache-2.0
// Bytes of a work between an engine's memory and the host: its source comes
// (FETCH) or its result goes (BRING) where the next engine cannot reach; what
// failed is cleared (CLEAR); what shall be checked is looked at (LOOK); or
// moving them is all there is to do (MOVE). Each is a row of copy tasks, one at
// a time, on the slot of the engine that owns the memory, so the watchdog looks
// after them as it does after spans.
#include <stdio.h>
#include <string.h>

#include "hal/crosscheck.h"
#include "hal/hal.h"

size_t hr__dst_bytes(const struct hr__dst *d)
{
    bool planar = d->layout == HR_NCHW;
    size_t c = (size_t)d->c,
           row = (size_t)d->w * hr_dtype_size(d->dtype) * (planar ? 1 : c);

    return d->stride_h * (size_t)(d->h - 1) + row +
           (planar ? d->stride_c * (c - 1) : 0);
}

// ---- Tasks ---------------------------------------------------------------------

// Staged neighbours must not wait until this work is back.
static void leave_upstream(struct hr__work *work)
{
    struct hr__device *dev = work->job->dev;
    bool flush;

    pthread_mutex_lock(&dev->lock);
    flush = hr__upstream_leave(work);
    pthread_mutex_unlock(&dev->lock);
    if (flush)
        hr__flush(work->job);
}

static struct hr__task *arm(struct hr__work *work, struct hr__slot *slot,
                            const struct hr__engine *e)
{
    struct hr__task *task = &slot->task;
    size_t left = work->copy.size - work->moved;

    task->next = NULL;
    task->pic = &work->pic;
    task->span = (struct hr_span){HR_STORE, HR_STORE};
    task->in = NULL;
    task->prepared = true;
    task->copy = work->copy;
    task->copy.at += work->moved;
    task->copy.size = e->copy_bytes && left > e->copy_bytes ? e->copy_bytes
                                                            : left;
    if (task->copy.to)
        task->copy.to += work->moved;
    if (task->copy.from)
        task->copy.from += work->moved;
    // A failed sample is cleared also when its job has run out of time.
    hr__clock_start(slot, work->transfer == HR__CLEAR ? INT64_MAX
                                                      : work->job->deadline);
    atomic_store(&slot->state, HR__RUNNING);
    return task;
}

static void next_task(struct hr__work *work)
{
    struct hr__engine *e = work->copy.memory->owner;
    struct hr__slot *slot = &work->slots[e->index];
    struct hr__job *job = work->job;
    struct hr__outcome out = {.status = HR_ETIMEDOUT,
                              .why = HR_WHY_TIMEOUT,
                              .stage = HR_STORE,
                              .offset = -1,
                              .text = "the device did not answer before"};
    struct hr__task *task;

    if (atomic_load(&slot->state) == HR__GIVEN_UP) {
        hr__transfer_done(work, &out);
        return;
    }
    task = arm(work, slot, e);
    atomic_fetch_add(&job->refs, 1);  // the engine must outlive its copy()
    e->backend->copy(e, task);
    hr__job_unref(job);
}

// Only what moves for its own sake begins here without having been looked at.
static bool may_begin(struct hr__work *work, struct hr__outcome *out)
{
    enum hr_status input = work->sample.image ? hr__input_status(work) : HR_OK;

    if (hr__job_stops(work->job)) {
        out->status = atomic_load(&work->job->canceled) ? HR_ECANCELED
                                                        : HR_ETIMEDOUT;
    } else if (input) {
        out->status = HR_EINPUT;
        snprintf(out->text, sizeof(out->text), "its source image failed: %s",
                 hr_status_text(input));
    }
    return !out->status;
}

bool hr__move_begin(struct hr__work *work)
{
    struct hr__outcome out = {.offset = -1};

    if (!work->copy.memory || !may_begin(work, &out))
        return false;
    work->moved = 0;
    next_task(work);
    return true;
}

void hr__transfer_begin(struct hr__work *work)
{
    struct hr__outcome out = {.offset = -1, .stage = HR_STORE};

    work->moved = 0;
    leave_upstream(work);
    if (work->transfer == HR__MOVE && !may_begin(work, &out)) {
        hr__transfer_done(work, &out);
        return;
    }
    if (work->copy.memory) {
        next_task(work);
        return;
    }
    // (A program may read an image to where it lies.)
    memmove(work->copy.to, work->copy.from, work->copy.size);
    hr__transfer_done(work, &out);
}

static void transfer_over(struct hr__work *work, enum hr__transfer was,
                          const struct hr__outcome *out)
{
    struct hr__outcome failed = *out;

    if (was == HR__CLEAR) {
        if (out->status)
            hr__log(work->job->dev, HR_LOG_WARN,
                    "sample %d failed and could not be cleared: %s",
                    work->index,
                    out->text[0] ? out->text : hr_status_text(out->status));
        hr__work_finish(work, &work->ending);
    } else if (was == HR__LOOK) {
        // What cannot be looked at has been made nevertheless.
        if (out->status || !hr__check_looked(work))
            hr__work_end(work, &work->ending);
    } else if (out->status) {
        failed.stage = was == HR__FETCH ? HR_RESAMPLE : HR_STORE;
        hr__work_end(work, &failed);
    } else if (was == HR__FETCH) {
        work->pic.pixels = work->source;
        hr__dispatch_planned(work, false);
    } else {
        hr__work_end(work, was == HR__BRING ? &work->ending : out);
    }
}

void hr__transfer_done(struct hr__work *work, const struct hr__outcome *out)
{
    enum hr__transfer was = work->transfer;

    if (work->copy.memory && !out->status) {
        const struct hr__engine *e = work->copy.memory->owner;

        work->moved += work->slots[e->index].task.copy.size;
        if (work->moved < work->copy.size) {
            next_task(work);
            return;
        }
    }
    work->transfer = HR__NO_TRANSFER;
    transfer_over(work, was, out);
}

// ---- What a sample needs --------------------------------------------------------

static struct hr__engine *engine_at(const struct hr__work *work, int span)
{
    return work->job->dev->engines[work->plan.spans[span].engine];
}

static bool staged(struct hr__work *work, uint8_t **mem, size_t size)
{
    return *mem || (*mem = hr__pool_get(&work->job->dev->pool, size));
}

static bool staging(struct hr__work *work, uint8_t **mem, size_t size)
{
    struct hr__outcome out = {.status = HR_ENOMEM,
                              .offset = -1,
                              .stage = HR_STORE,
                              .text = "pixels on their way to the host"};

    if (staged(work, mem, size))
        return true;
    hr__work_end(work, &out);
    return false;
}

// The host's part of a result that belongs into device memory.
static bool reach_dst(struct hr__work *work)
{
    struct hr__dst *d = &work->pic.dst;
    bool fresh = !work->result;

    if (!hr__on_device(d->memory))
        return true;
    d->data = NULL;
    if (engine_at(work, work->plan.num_spans - 1) == d->memory->owner)
        return true;
    if (!staging(work, &work->result, hr__dst_bytes(d)))
        return false;
    // What lies between its elements travels, too.
    if (fresh)
        memset(work->result, 0, hr__dst_bytes(d));
    d->data = work->result;
    work->why |= HR_WHY_PLACE;
    return true;
}

bool hr__reach(struct hr__work *work)
{
    struct hr__picture *pic = &work->pic;

    if (!reach_dst(work))
        return false;
    if (work->at || !pic->image || pic->pixels ||
        engine_at(work, 0) == pic->memory->owner)
        return true;
    if (!staging(work, &work->source, pic->image->size))
        return false;
    work->why |= HR_WHY_PLACE;
    work->transfer = HR__FETCH;
    work->copy = (struct hr__copy){.memory = pic->memory,
                                   .size = pic->image->size,
                                   .to = work->source};
    hr__transfer_begin(work);
    return false;
}

// The work ends as *out says when its result has been moved; neither to nor
// from: cleared.
static bool move_result(struct hr__work *work, const struct hr__outcome *out,
                        enum hr__transfer why, uint8_t *to, const uint8_t *from)
{
    const struct hr__dst *d = &work->pic.dst;

    work->ending = *out;
    work->transfer = why;
    work->copy = (struct hr__copy){.memory = d->memory,
                                   .at = d->at,
                                   .size = hr__dst_bytes(d),
                                   .to = to,
                                   .from = from};
    hr__transfer_begin(work);
    return true;
}

bool hr__bring_begin(struct hr__work *work, const struct hr__outcome *out)
{
    const struct hr__dst *d = &work->pic.dst;

    if (!hr__on_device(d->memory) || !d->data)
        return false;
    return move_result(work, out, HR__BRING, NULL, d->data);
}

bool hr__look_begin(struct hr__work *work, const struct hr__outcome *out)
{
    const struct hr__dst *d = &work->pic.dst;

    if (!staged(work, &work->result, hr__dst_bytes(d)))
        return false;
    return move_result(work, out, HR__LOOK, work->result, NULL);
}

bool hr__clear_begin(struct hr__work *work, const struct hr__outcome *out)
{
    const struct hr__dst *d = &work->pic.dst;

    // (A device that does not answer cannot be told to.)
    if (!hr__on_device(d->memory) ||
        atomic_load(&work->slots[d->memory->owner->index].state) ==
            HR__GIVEN_UP)
        return false;
    return move_result(work, out, HR__CLEAR, NULL, NULL);
}
