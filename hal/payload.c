// SPDX-License-Identifier: Apache-2.0
// What one span leaves for the next: memory of the next engine, or the
// engine's own.
#include "hal/hal.h"

struct hr__payload *hr__task_payload(struct hr__task *task, size_t size)
{
    struct hr__work *work = hr__work_of(task);
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
    if (!p->data)
        return NULL;
    hr__budget_charge(work, size);
    return p;
}

struct hr__payload *hr__task_payload_own(
    struct hr__task *task, void *data, size_t size,
    void (*release)(struct hr__payload *payload), void *ctx)
{
    struct hr__work *work = hr__work_of(task);
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

void hr__payloads_free(struct hr__work *work, struct hr__payload *payloads,
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
    hr__payloads_free(work, work->payloads, HR_NUM_STAGES);
    hr__payloads_free(work, work->kept[0], 2 * HR__MAX_ENGINES);
    hr__pool_put(&work->job->dev->pool, work->file);
    hr__pool_put(&work->job->dev->pool, work->source);
    hr__pool_put(&work->job->dev->pool, work->result);
    work->file = work->source = work->result = NULL;
}
