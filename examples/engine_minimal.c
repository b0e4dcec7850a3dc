// SPDX-License-Identifier: Apache-2.0
// The smallest engine: it does the last stage (store), where levels become
// numbers by a table of 256, one sample after the other. Its device is a loop
// below with memory of its own, as a real one would have; the CPU does the four
// stages before. tests/engines/test_engine_minimal.c runs it.
#include <stdio.h>
#include <string.h>

#include "hal/engine/guard.h"

extern const struct hr__backend hr__backend_minimal;

struct minimal {
    struct hr__guard guard;  // the queue, the thread, the clock
    // The device's: the tensor without gaps, levels, and their table
    uint8_t *out, *in;
    size_t capacity;  // bytes at out, which in is a part of
    struct hr__table table;
    struct hr__dst dst;
};

static struct minimal *minimal_of(struct hr__engine *e)
{
    return *(struct minimal **)e->priv;
}

// The device itself.
static void device_store(struct minimal *m)
{
    size_t n = (size_t)m->dst.w * (size_t)m->dst.h, c = (size_t)m->dst.c;

    for (size_t i = 0; i < n * c; i++) {
        // Interleaved levels become planes, or stay as they are.
        size_t k = i % c, at = m->dst.layout == HR_NCHW ? k * n + i / c : i;

        if (m->dst.dtype == HR_F32)
            ((float *)m->out)[at] = m->table.f32[k][m->in[i]];
        else if (m->dst.dtype == HR_F16)
            ((uint16_t *)m->out)[at] = m->table.f16[k][m->in[i]];
        else
            m->out[at] = m->table.u8[k][m->in[i]];
    }
}

// From the payload that the CPU has left. The task is claimed.
static bool upload(struct minimal *m, const struct hr__task *task)
{
    const struct hr__payload *in = task->in;
    const struct hr__dst *d = &task->pic->dst;
    size_t row = (size_t)d->w * (size_t)d->c, all = row * (size_t)d->h;
    size_t size = all * (sizeof(float) + 1);

    if (size > m->capacity) {
        hr__free(m->out);
        m->out = hr__engine_ref_alloc(&m->guard.ref, size);
        m->capacity = m->out ? size : 0;
    }
    if (!m->out)
        return false;
    m->in = m->out + all * sizeof(float);
    for (size_t y = 0; y < (size_t)d->h; y++)
        memcpy(m->in + row * y, (uint8_t *)in->data + in->stride * y, row);
    m->table = *task->pic->table;
    m->dst = *d;
    return true;
}

// Copies the pixels to the user's tensor. The task is claimed.
static void download(const struct minimal *m)
{
    const struct hr__dst *d = &m->dst;
    bool planar = d->layout == HR_NCHW;
    size_t row = (size_t)d->w * (planar ? 1 : (size_t)d->c) *
                 hr_dtype_size(d->dtype);

    for (size_t c = 0, n = 0; c < (planar ? (size_t)d->c : 1); c++)
        for (size_t y = 0; y < (size_t)d->h; y++, n++)
            memcpy(d->data + c * d->stride_c + y * d->stride_h,
                   m->out + row * n, row);
}

static void run_task(struct minimal *m, struct hr__task *task)
{
    struct hr__outcome out = {.stage = HR_STORE, .offset = -1};
    unsigned why = HR_WHY_TIMEOUT;

    // Between claim and unclaim the HAL keeps the sample's memory for us.
    if (hr__task_claim(task)) {
        hr__task_begun(task);
        why = upload(m, task) ? 0 : HR_WHY_MEMORY;
        hr__task_unclaim(task);
    }
    // In the driver it may take it away, and the guard may take the task.
    hr__guard_enter(&m->guard, 0);
    if (!why)
        device_store(m);
    hr__guard_leave(&m->guard, 0);
    if (!(task = hr__guard_finish(&m->guard, why)))
        return;
    if (!why && hr__task_claim(task)) {
        download(m);
        hr__task_done(task, &out);
    } else {
        hr__tasks_failed(task, why ? why : HR_WHY_TIMEOUT, "not stored");
    }
}

static bool drive(void *owner)
{
    struct minimal *m = owner;
    struct hr__task *task;

    while ((task = hr__guard_next(&m->guard)))
        run_task(m, task);
    return true;
}

// ---- The table -------------------------------------------------------------

static enum hr_status minimal_open(struct hr__engine *e, const char *which)
{
    static const struct hr__guard_ops ops = {.threads = {"minimal driver"},
                                             .drive = drive};
    struct minimal *m = hr__alloc(e->device, sizeof(*m));

    (void)which;
    if (!m)
        return hr__fail(HR_ENOMEM, "out of memory");
    memset(m, 0, sizeof(*m));
    *(struct minimal **)e->priv = m;
    hr__guard_init(&m->guard, &ops, m, e);
    snprintf(e->description, sizeof(e->description), "a loop");
    e->caps.batch = 1;
    e->caps.exact = true;
    for (int tier = 0; tier <= HR_FAST; tier++)
        e->caps.spans[tier] = HR_SPAN_BIT(HR_STORE, HR_STORE);
    return hr__guard_start(&m->guard, e, INT64_MAX);
}

static void minimal_close(struct hr__engine *e)
{
    struct minimal *m = minimal_of(e);

    // Half a second for a call that is under way.
    if (!m || !hr__guard_stop(&m->guard, e, 500000000, false, sizeof(*m)))
        return;
    hr__free(m->out);
    hr__free(m);
}

static void minimal_offer(struct hr__engine *e, const struct hr__picture *pic,
                          struct hr__offer *out)
{
    (void)pic;  // it takes every picture
    *out = (struct hr__offer){.why = hr__guard_ask(&minimal_of(e)->guard, 1)};
    if (!out->why)
        out->spans = HR_SPAN_BIT(HR_STORE, HR_STORE);
}

static void minimal_submit(struct hr__engine *e, struct hr__task *list)
{
    hr__guard_push(&minimal_of(e)->guard, e, list);
}

// Optional.
static void minimal_cancel(struct hr__engine *e)
{
    hr__guard_cancel(&minimal_of(e)->guard);
}

const struct hr__backend hr__backend_minimal = {
    .name = "minimal",
    .engine_size = sizeof(struct minimal *),
    .open = minimal_open,
    .close = minimal_close,
    .offer = minimal_offer,
    .submit = minimal_submit,
    .cancel = minimal_cancel,
};
