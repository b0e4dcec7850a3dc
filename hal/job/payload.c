// SPDX-License-Identifier: Apache-2.0
// Payloads, which one span leaves for the next: in memory of the next engine,
// in the engine's own, or in memory that two engines share.
#include "hal/job/work.h"

struct hr__payload *hr__task_payload(struct hr__task *task, size_t size)
{
    struct hr__work *work = hr__work_of(task);
    struct hr__engine *next = hr__engine_at(work, work->at + 1);
    void *data = next->backend->buffer_alloc
                     ? next->backend->buffer_alloc(next, size)
                     : hr__pool_get(&work->job->dev->pool, size);

    if (!data)
        return NULL;
    hr__budget_charge(&work->wait, size);
    return hr__task_payload_own(task, data, size, NULL, NULL);
}

struct hr__payload *hr__task_payload_own(
    struct hr__task *task, void *data, size_t size,
    void (*release)(struct hr__payload *payload), void *ctx)
{
    struct hr__work *work = hr__work_of(task);
    struct hr__payload *p = &work->payloads[work->at];

    *p = (struct hr__payload){.after = task->span.last,
                              .data = data,
                              .size = size,
                              .owner = hr__engine_at(work, work->at + 1),
                              .release = release,
                              .release_ctx = ctx};
    return p;
}

struct hr__payload *hr__task_payload_external(
    struct hr__task *task, const struct hr__external *external,
    void (*release)(struct hr__payload *payload), void *ctx)
{
    struct hr__payload *p = hr__task_payload_own(task, NULL, external->size,
                                                 release, ctx);

    p->external = external;
    return p;
}

static bool pixels_fit(const struct hr__work *work, const struct hr__payload *p)
{
    size_t row, before;

    return p->rect.w > 0 && p->rect.h > 0 &&
           hr__mul(&row, (size_t)p->rect.w,
                   (size_t)hr__picture_channels(&work->pic, p->after)) &&
           row <= p->stride &&
           hr__mul(&before, p->stride, (size_t)p->rect.h - 1) &&
           before <= p->size && row <= p->size - before;
}

bool hr__payload_made(const struct hr__work *work)
{
    const struct hr__payload *p = &work->payloads[work->at];
    enum hr_stage last = work->plan.spans[work->at].span.last;

    if (work->at + 1 == work->plan.num_spans)
        return true;
    if (p->after != last || !(p->data || p->external))
        return false;
    switch (last) {
    case HR_ENTROPY:
        return true;
    case HR_RECONSTRUCT:
        return p->extra != NULL;
    default:
        return pixels_fit(work, p);
    }
}

// ---- Memory of other engines ------------------------------------------------

static unsigned imports(struct hr__engine *e)
{
    return e->backend->imports ? e->backend->imports(e) : 0;
}

unsigned hr__task_imports(const struct hr__task *task)
{
    const struct hr__work *work = hr__work_of(task);

    if (work->at + 1 >= work->plan.num_spans)
        return 0;
    return imports(hr__engine_at(work, work->at + 1));
}

unsigned hr__chain_imports(const struct hr__engine *e)
{
    unsigned kinds = 0;

    for (int i = e->index + 1; i < e->device->num_engines; i++)
        kinds |= imports(e->device->engines[i]);
    return kinds;
}

bool hr__payload_map(struct hr__payload *p)
{
    return p->data || (p->external && p->external->map(p));
}

void hr__payloads_free(struct hr__work *work, struct hr__payload *payloads,
                       int n)
{
    struct hr__pool *pool = &work->job->dev->pool;

    for (int i = 0; i < n; i++) {
        struct hr__payload *p = &payloads[i];

        if (!p->owner)
            continue;  // there is none, as in most places
        if (p->release)
            p->release(p);
        else if (p->data && p->owner->backend->buffer_alloc)
            p->owner->backend->buffer_free(p->owner, p->data, p->size);
        else
            hr__pool_put(pool, p->data);
        *p = (struct hr__payload){0};
    }
}
