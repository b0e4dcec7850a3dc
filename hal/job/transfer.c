// SPDX-License-Identifier: Apache-2.0
// Bytes of a work between an engine's memory and the host, where the next
// engine cannot reach. Each copy is a row of tasks, one at a time, of the
// engine that owns the memory, so the watchdog looks after them as it does
// after spans. work.c says when there is which.
#include <string.h>

#include "hal/job/work.h"

// Returns the bytes from the first element of a picture to the end of its last.
static size_t bytes_of(const struct hr__dst *d)
{
    size_t planes = d->layout == HR_NCHW ? (size_t)d->c : 1;

    return d->stride_c * (planes - 1) + d->stride_h * (size_t)(d->h - 1) +
           hr__dst_row_bytes(d);
}

// ---- Tasks ------------------------------------------------------------------

static struct hr__task *arm(struct hr__work *work, struct hr__engine_task *et,
                            const struct hr__engine *e)
{
    struct hr__task *task = &et->task;
    size_t left = work->copy.size - work->copied;

    task->next = NULL;
    task->pic = &work->pic;
    task->span = (struct hr_span){HR_STORE, HR_STORE};
    task->in = NULL;
    task->copy = work->copy;
    task->copy.at += work->copied;
    task->copy.size = e->copy_bytes && left > e->copy_bytes ? e->copy_bytes
                                                            : left;
    if (task->copy.to)
        task->copy.to += work->copied;
    if (task->copy.from)
        task->copy.from += work->copied;
    // A failed sample is cleared also when its job has run out of time.
    hr__clock_start(et,
                    work->state == HR__CLEAR ? INT64_MAX : work->job->deadline);
    atomic_store(&et->late, HR__NOT_LATE);
    atomic_store(&et->state, HR__RUNNING);
    return task;
}

bool hr__copy_next(struct hr__work *work, struct hr__outcome *out)
{
    struct hr__job *job = work->job;
    struct hr__engine *e;
    struct hr__engine_task *et;

    if (!work->copy.memory) {
        // (A program may read an image to where it lies.)
        memmove(work->copy.to, work->copy.from, work->copy.size);
        return false;
    }
    e = work->copy.memory->owner;
    et = &work->tasks[e->index];
    if (atomic_load(&et->state) == HR__GIVEN_UP) {
        *out = (struct hr__outcome){.status = HR_ETIMEDOUT,
                                    .why = HR_WHY_TIMEOUT,
                                    .stage = HR_STORE,
                                    .offset = -1,
                                    .text = "the device did not answer before"};
        return false;
    }
    atomic_fetch_add(&job->refs, 1);  // the engine must outlive its copy()
    e->backend->copy(e, arm(work, et, e));
    hr__job_unref(job);
    return true;
}

bool hr__copy_more(struct hr__work *work)
{
    const struct hr__engine *e = work->copy.memory->owner;

    work->copied += work->tasks[e->index].task.copy.size;
    return work->copied < work->copy.size;
}

// ---- What a sample needs ----------------------------------------------------

static bool staged(struct hr__work *work, uint8_t **mem, size_t size)
{
    return *mem || (*mem = hr__pool_get(&work->job->dev->pool, size));
}

static bool staging(struct hr__work *work, uint8_t **mem, size_t size)
{
    if (staged(work, mem, size))
        return true;
    work->out = (struct hr__outcome){.status = HR_ENOMEM,
                                     .offset = -1,
                                     .stage = HR_STORE,
                                     .text = "pixels on their way to the host"};
    return false;
}

// The host's part of a result that belongs into device memory; into pinned
// memory the host writes itself, unless the device may do so after it.
static bool reach_dst(struct hr__work *work)
{
    struct hr__dst *d = &work->pic.dst;
    bool fresh = !work->result;

    if (d->memory && atomic_load(&d->memory->late) &&
        hr__engine_at(work, work->plan.num_spans - 1) != d->memory->owner) {
        work->out = (struct hr__outcome){
            .status = HR_ETIMEDOUT,
            .why = HR_WHY_TIMEOUT,
            .stage = HR_STORE,
            .offset = -1,
            .text = "the device did not answer, and may still write there"};
        return false;
    }
    if (!hr__on_device(d->memory))
        return true;
    d->data = NULL;
    if (hr__engine_at(work, work->plan.num_spans - 1) == d->memory->owner)
        return true;
    if (!staging(work, &work->result, bytes_of(d)))
        return false;
    // The bytes between its elements are copied, too.
    if (fresh)
        memset(work->result, 0, bytes_of(d));
    d->data = work->result;
    work->why |= HR_WHY_PLACE;
    return true;
}

static void set_up(struct hr__work *work, const struct hr__copy *copy)
{
    work->copy = *copy;
    work->copied = 0;
}

enum hr__reach hr__reach(struct hr__work *work)
{
    struct hr__picture *pic = &work->pic;

    if (!reach_dst(work))
        return HR__NO_MEMORY;
    if (work->at || !pic->image || pic->pixels ||
        hr__engine_at(work, 0) == pic->memory->owner)
        return HR__REACHED;
    if (!staging(work, &work->source, pic->image->size))
        return HR__NO_MEMORY;
    work->why |= HR_WHY_PLACE;
    set_up(work, &(struct hr__copy){.memory = pic->memory,
                                    .size = pic->image->size,
                                    .to = work->source});
    return HR__MUST_FETCH;
}

// Copies the result to `to`, or from `from`, or clears it if both are NULL.
static bool copy_result(struct hr__work *work, uint8_t *to, const uint8_t *from)
{
    const struct hr__dst *d = &work->pic.dst;

    set_up(work, &(struct hr__copy){.memory = d->memory,
                                    .at = d->at,
                                    .size = bytes_of(d),
                                    .to = to,
                                    .from = from});
    return true;
}

bool hr__copy_bring(struct hr__work *work)
{
    const struct hr__dst *d = &work->pic.dst;

    return hr__on_device(d->memory) && d->data &&
           copy_result(work, NULL, d->data);
}

bool hr__copy_look(struct hr__work *work)
{
    return staged(work, &work->result, bytes_of(&work->pic.dst)) &&
           copy_result(work, work->result, NULL);
}

bool hr__copy_clear(struct hr__work *work)
{
    const struct hr__dst *d = &work->pic.dst;

    // (A device that does not answer cannot be told to.)
    return hr__on_device(d->memory) &&
           atomic_load(&work->tasks[d->memory->owner->index].state) !=
               HR__GIVEN_UP &&
           copy_result(work, NULL, NULL);
}
